"""Rendering findings and explanations as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuforge.diagnose.explanation_text import numbered
from gpuforge.diagnose.finding import SEVEREST_FIRST, Finding, Report
from gpuforge.units import counted, format_seconds

if TYPE_CHECKING:
    from gpuforge.changes.environment import PythonEnvironment
    from gpuforge.diagnose.explanation import Explanation
    from gpuforge.diagnose.known_error import KnownError

STEPS_IN_SHORT = 2
_NOUNS = ("error", "warning")
"""The states that are nouns, of which there may be several; a check is *ok* or *skipped*."""


def render_short(answer: Explanation) -> str:
    """Return a short block to print below a traceback; empty if no cause was found."""
    match = answer.cause
    if match is None:
        return ""
    lines = [f"gpuforge: {match.title} ({match.confidence:.0%} sure)"]
    lines += [f"  {step}" for step in match.steps[:STEPS_IN_SHORT]]
    return "\n".join([*lines, f"more: gpuforge explain {match.cause}"])


def render_page(error: KnownError, steps: tuple[str, ...]) -> str:
    """Return the text about one cause."""
    repair = f"repair: gpuforge doctor {error.cause} --fix"
    fix = repair if error.repaired_by else "no automatic repair"
    head = [error.title, f"{error.cause}, {error.area}, {error.severity}; {fix}", "", error.summary]
    return "\n".join([*head, "", *numbered(steps), "", f"Source: {error.source}"])


def render_report(report: Report) -> str:
    """Return the environment, the findings, most severe first, and their counts."""
    blocks = [_environment(report.environment)] if report.environment else []
    blocks += [_finding(finding) for finding in report.findings]
    counts = [
        counted(len(found), state) if state in _NOUNS else f"{len(found)} {state}"
        for state in SEVEREST_FIRST if (found := report.having(state))
    ]  # fmt: skip
    network = "" if report.network_checked else "; the network was not checked (use --network)"
    return "\n".join([*blocks, "", f"{', '.join(counts) or 'nothing was checked'}{network}"])


def _environment(environment: PythonEnvironment) -> str:
    version = f" with Python {environment.version}" if environment.version else ""
    named = f", named by {environment.named_by}" if environment.named_by else ""
    return f"environment: {environment.prefix} ({environment.kind}{version}{named})\n"


def _finding(finding: Finding) -> str:
    took = f" [{format_seconds(finding.elapsed_seconds)}]" if finding.elapsed_seconds > 1 else ""
    lines = [f"{finding.state:<8} {finding.check}: {finding.message}{took}"]
    if finding.state in ("ok", "skipped"):
        return lines[0]
    lines += [f"         {text}" for text in finding.evidence]
    lines += [f"         {line.strip()}" for line in numbered(finding.steps)]
    if finding.repair:
        lines.append(f"         to repair it: gpuforge doctor --fix {_repaired_as(finding)}")
    return "\n".join(lines)


def _repaired_as(finding: Finding) -> str:
    """Return the name for ``--fix``: the cause if it is checked only by name, else the check."""
    from gpuforge.diagnose.known_error import causes, known_error

    known = finding.cause in causes() and known_error(finding.cause).repaired_by == finding.check
    return finding.cause if known else finding.check
