"""The summary of a run as text: times, what ran where and why, and one next step."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gpuforge.cli import render
from gpuforge.units import counted, format_seconds

if TYPE_CHECKING:
    from gpuforge.runtime.accelerated import Accelerated
    from gpuforge.runtime.execution.summary import FunctionSummary, Summary

SHOWN_FUNCTIONS = 12


def print_summary(wall_seconds: float, prepared: str) -> None:
    """Print the summary of this process to stderr, after its own output."""
    if sys.__stderr__ is None or sys.__stderr__.closed:
        return
    summary = _collect()
    accelerated = getattr(sys.modules.get("gpuforge.runtime.accelerated"), "FOUND", None)
    details = render_accelerated(accelerated, summary) if accelerated else []
    details += [f"note: {line}" for line in render_imports()]
    if summary is None:
        text = render_nothing_placed(wall_seconds, details, accelerated=accelerated is not None)
    else:
        text = render_summary(summary, wall_seconds, prepared, details)
    render.last_words(text)


def render_imports() -> list[str]:
    """Return lines on the effect of lazy imports; empty if nothing was deferred."""
    lazy = sys.modules.get("gpuforge.runtime.startup.lazy")
    made = lazy.active() if lazy is not None else None
    if made is None or not made.deferred:
        return []
    from gpuforge.runtime.startup import record

    known = record.import_seconds()
    libraries = {name: one for name, one in made.deferred.items() if "." not in name}
    unused = [name for name, one in libraries.items() if one.seconds is None]
    saved = [known[name] for name in unused if name in known]
    lines = []
    if unused:
        text = f"imports that were not needed: {', '.join(unused)}"
        if saved:
            text += f"; importing {_these(unused, known)} took {format_seconds(sum(saved))} before"
        if len(saved) < len(unused):
            text += "; run 'gpuforge startup --measure' to see what that saves"
        lines.append(text)
    for name, one in libraries.items():
        if one.failure:
            lines.append(f"the deferred import of {name} failed at {one.used_at}: {one.failure};"
                         "from now on it is not deferred")  # fmt: skip
        elif one.seconds is not None:
            lines.append(f"{name} was imported when it was first used, at {one.used_at}"
                         f" ({format_seconds(one.seconds)})")  # fmt: skip
    return lines


def _these(unused: list[str], known: dict[str, float]) -> str:
    named = [name for name in unused if name in known]
    return "them" if named == unused else " and ".join(named)


def print_cause(fault: Exception) -> None:
    """Print the known cause of the exception that ended the program, if any."""
    from gpuforge.cli.diagnosis_text import render_short
    from gpuforge.diagnose import explain

    text = render_short(explain(fault))
    if text:
        render.last_words(text)


def _collect() -> Summary | None:
    """Return the summary if the program used the runtime, without loading it otherwise."""
    prelude = getattr(sys.modules.get("gpuforge.runtime.prelude"), "prelude", None)
    called = prelude is not None and prelude.owners()
    if "gpuforge.runtime.session" not in sys.modules and not called:
        return None
    from gpuforge.runtime.execution import summary

    found = summary.collect()
    return found if found.functions else None


def render_accelerated(found: list[Accelerated], summary: Summary | None) -> list[str]:
    """Return lines on the functions of ``--accelerate``: where they ran, or why not."""
    called = {function.name: function for function in summary.functions} if summary else {}
    elsewhere: list[str] = []
    stayed: list[str] = []
    for one in found:
        name = f"{one.plain.__module__}.{one.plain.__qualname__}"
        if name in called:
            moved = any(backend != "numpy" for backend, *_ in called[name].placements)
            (elsewhere if moved else stayed).append(name.removeprefix("__main__."))
    lines = [f"accelerated functions: {', '.join(elsewhere) or 'none'}"] if summary else []
    if stayed:
        lines.append(f"  ran on NumPy alone: {_shortened(stayed)}")
    left = [one for one in found if one.left]
    for one in left[:SHOWN_FUNCTIONS]:
        code = one.written
        lines.append(f"  not accelerated: {code.co_filename}:{code.co_firstlineno}: "
                     f"{code.co_qualname}: {one.left}")  # fmt: skip
    if len(left) > SHOWN_FUNCTIONS:
        lines.append(f"  not accelerated: {len(left) - SHOWN_FUNCTIONS} more")
    return lines


def _shortened(names: list[str]) -> str:
    more = len(names) - SHOWN_FUNCTIONS
    return ", ".join(names[:SHOWN_FUNCTIONS]) + (f" and {more} more" if more > 0 else "")


def render_nothing_placed(
    wall_seconds: float, details: Sequence[str] = (), *, accelerated: bool = False
) -> str:
    """Return the text for a program that called no offloaded function."""
    if accelerated:
        said = (
            "no function was accelerated: the program called none that is given NumPy arrays and "
            "has no side effects such as printing"
        )
        advice = (
            "put the work on arrays into functions that take the arrays as arguments and have no "
            "side effects"
        )
    else:
        said = "no offloaded functions were called"
        advice = "add the decorator @gpuforge.offload to a function that computes with arrays"
    lines = [f"gpuforge: {format_seconds(wall_seconds)}; {said}", *details, f"next: {advice}"]
    return "\n".join(lines)


def render_summary(
    summary: Summary, wall_seconds: float, prepared: str, details: Sequence[str] = ()
) -> str:
    """Return the summary as lines of text; `details` come before the next step."""
    advice = [f"next: {summary.next_step}"] if summary.next_step else []
    return "\n".join([*_lines(summary, wall_seconds, prepared), *details, *advice])


def _lines(summary: Summary, wall_seconds: float, prepared: str) -> Iterator[str]:
    inside = sum(function.seconds for function in summary.functions if not function.within)
    functions = counted(len(summary.functions), "offloaded function")
    yield (
        f"gpuforge: {format_seconds(wall_seconds)} total,"
        f" {format_seconds(min(inside, wall_seconds))} of it in {functions}"
    )
    ranked = sorted(summary.functions, key=lambda function: -function.seconds)
    rows = [
        (_name(function), str(function.calls), format_seconds(function.seconds), _placed(function))
        for function in ranked[:SHOWN_FUNCTIONS]
    ]
    yield render.table(rows, heading=("function", "calls", "time", "ran on"), indent="  ")
    if len(ranked) > SHOWN_FUNCTIONS:
        rest = sum(function.seconds for function in ranked[SHOWN_FUNCTIONS:])
        yield f"  and {len(ranked) - SHOWN_FUNCTIONS} more, {format_seconds(rest)} together"
    yield from (f"  {_name(f)}: {f.reason}" for f in ranked[:SHOWN_FUNCTIONS] if f.reason)
    if prepared:
        yield f"note: environment variables set for this run: {prepared}"
    yield from (f"note: {note}" for note in summary.notes)


def _name(function: FunctionSummary) -> str:
    return function.name.removeprefix("__main__.")


def _placed(function: FunctionSummary) -> str:
    parts = [
        f"{backend} {calls}× {format_seconds(seconds)}"
        for backend, calls, seconds in function.placements
    ]
    parts += [f"called directly {calls}× ({reason})" for reason, calls in function.as_written]
    return ", ".join(parts) or "-"
