"""Rendering an explanation as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuforge.diagnose.explanation import Explanation, Match

NOT_NAMED = "No known cause was found in the text."
EMPTY = "The text is empty or binary; there is nothing to explain."


def render_explanation(answer: Explanation) -> str:
    """Return the text of all causes that were found, most likely first."""
    if not answer.lines_read:
        return EMPTY
    if not answer.matches:
        lines = "line" if answer.lines_read == 1 else "lines"
        return f"{NOT_NAMED} ({answer.lines_read} {lines} read)"
    named = answer.matches[0] if answer.cause else None
    parts = [_full(named)] if named else [f"{NOT_NAMED} The closest:"]
    others = answer.matches[1:] if named else answer.matches
    if others:
        parts.append("\n".join(
            [*(["Less likely, or consequences:"] if named else []),
             *(f"  {m.confidence:4.0%}  {m.cause}: {m.title}" for m in others)]
        ))  # fmt: skip
    return "\n\n".join(parts)


def _full(match: Match) -> str:
    head = f"{match.title}\n{match.cause}, {match.severity}, {match.confidence:.0%} sure"
    lines = [head, "", match.summary, ""]
    for evidence in match.evidence:
        where = f"line {evidence.line}" if evidence.line else "machine"
        lines.append(f"  {where}: {evidence.text}")
    lines += ["", "What to do:", *numbered(match.steps)]
    if match.safe_fix:
        lines.append(f"  To repair it on this machine: gpuforge doctor {match.cause} --fix")
    return "\n".join([*lines, f"Source: {match.source}"])


def numbered(steps: tuple[str, ...]) -> list[str]:
    """Return the steps as numbered lines."""
    return [f"  {number}. {step}" for number, step in enumerate(steps, 1)]
