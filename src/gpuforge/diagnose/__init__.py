"""From facts and error text to findings: what is wrong, how that is known, what to do.

``explain(text)`` reads a log or an exception. A module of ``checks`` asks one question of a
machine; ``gpuforge.diagnose`` is the package and can be called: ``gpuforge.diagnose()`` asks all.
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
        """Return what the checks find."""

else:
    diagnose = sys.modules[__name__]

__all__ = ["Explanation", "Finding", "Match", "Report", "diagnose", "explain"]


def __getattr__(name: str) -> Any:
    if name in ("Explanation", "Match", "explain"):
        from gpuforge.diagnose import explanation

        return getattr(explanation, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class _Package(ModuleType):
    """The package as a function; ``gpuforge.diagnose()`` and its submodules both work."""

    def __call__(self, *checks: str, **options: Any) -> Report:
        """Return what the checks find: all of them, or those named.

        Parameters
        ----------
        checks
            Names of checks, as ``gpuforge doctor --list`` shows them.
        options
            ``probe``: another machine; ``network=True``: ask the package index too;
            ``skip``: names of checks to leave out.
        """
        from gpuforge.diagnose.run import run_checks

        return run_checks(*checks, **options)


sys.modules[__name__].__class__ = _Package
