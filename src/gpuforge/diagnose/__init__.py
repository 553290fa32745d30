"""Diagnosis: what is wrong, by which evidence, and what to do about it.

``explain(text)`` finds the cause of an error in a log or an exception. Each module of ``checks``
checks one aspect of a machine; the package is callable, and ``gpuforge.diagnose()`` runs them all.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from gpuforge.diagnose.finding import Finding, Report

if TYPE_CHECKING:
    from gpuforge.diagnose.explanation import Explanation, Match, explain
    from gpuforge.probe import Probe

    def diagnose(*checks: str, probe: Probe | None = None, network: bool = False) -> Report:
        """Run checks and return their findings."""

else:
    diagnose = sys.modules[__name__]

__all__ = ["Explanation", "Finding", "Match", "Report", "diagnose", "explain"]


def __getattr__(name: str) -> Any:
    if name in ("Explanation", "Match", "explain"):
        from gpuforge.diagnose import explanation

        return getattr(explanation, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class _Package(ModuleType):
    """The type of the package's module object, which makes it callable."""

    def __call__(self, *checks: str, **options: Any) -> Report:
        """Run all checks, or the named ones, and return their findings.

        Parameters
        ----------
        checks
            Names of checks, as ``gpuforge doctor --list`` shows them.
        options
            ``probe``: another machine; ``network=True``: also query the package index;
            ``skip``: names of checks to skip.
        """
        from gpuforge.diagnose.run import run_checks

        return run_checks(*checks, **options)


sys.modules[__name__].__class__ = _Package
