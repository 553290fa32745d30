"""The findings of checks, and the report of all of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from gpuforge.changes.action import Action
    from gpuforge.changes.environment import PythonEnvironment
    from gpuforge.diagnose.site import Site

State = Literal["crashed", "error", "unknown", "warning", "skipped", "ok"]
SEVEREST_FIRST: tuple[State, ...] = ("crashed", "error", "unknown", "warning", "skipped", "ok")


@dataclass(frozen=True)
class Finding:
    """One result of one check.

    Attributes
    ----------
    state : ``unknown``: the check gave no answer; ``crashed``: the process under test died
    message : what was found, in one sentence
    cause : id of the known error, or the kind of a detection failure; empty if there is none
    evidence : the evidence for it
    steps : what to do, in order
    repair : changes that gpuforge offers to make; empty if there are none
    check : name of the check, filled in after it has run
    elapsed_seconds : time that the check took
    """

    state: State
    message: str
    cause: str = ""
    evidence: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    repair: tuple[Action, ...] = ()
    check: str = ""
    elapsed_seconds: float = 0.0


@dataclass(frozen=True)
class Report:
    """All findings, most severe first.

    Attributes
    ----------
    environment : the Python environment that was checked; None for a recorded machine
    """

    findings: tuple[Finding, ...]
    network_checked: bool = False
    environment: PythonEnvironment | None = None

    def having(self, *states: State) -> tuple[Finding, ...]:
        """Return the findings in one of `states`."""
        return tuple(finding for finding in self.findings if finding.state in states)


def of_cause(
    cause: str,
    state: State,
    message: str = "",
    *,
    evidence: tuple[str, ...] = (),
    repair: tuple[Action, ...] = (),
) -> Finding:
    """Return a finding for a known error; `fitted` adds the steps."""
    from gpuforge.diagnose.known_error import known_error

    return Finding(state, message or known_error(cause).title, cause, evidence, (), repair)


def fitted(finding: Finding, site: Site) -> Finding:
    """Return `finding` with the steps of its known error that apply on the machine of `site`."""
    if finding.steps or not finding.cause:
        return finding  # the modules below take a while to import
    from gpuforge.diagnose.known_error import causes, known_error
    from gpuforge.diagnose.log import Log
    from gpuforge.diagnose.surroundings import Surroundings

    if finding.cause not in causes():
        return finding
    error = known_error(finding.cause)
    steps = Surroundings(Log(""), site.machine).steps(error.steps, error.area)
    return replace(finding, steps=steps)
