"""``gpuforge diff``: show how two stored bench results, or two session files, differ."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

from gpuforge.cli import render
from gpuforge.cli.main import FINE, NOTHING, PROBLEM
from gpuforge.errors import UnknownName, WorkloadError
from gpuforge.profiler import formats, session_file
from gpuforge.profiler.bench import result
from gpuforge.profiler.bench.result import BenchResult
from gpuforge.profiler.bench.runs import open_history
from gpuforge.profiler.compare.comparison import MINIMAL, percent
from gpuforge.profiler.compare.conditions import differences
from gpuforge.profiler.compare.profiles import (
    PathChange,
    ProfileDifference,
    folded,
    profile_difference,
)
from gpuforge.profiler.compare.stored_results import UNPAIRED, Difference, difference
from gpuforge.profiler.model import LABELS, Profile
from gpuforge.profiler.page.difference import render_difference
from gpuforge.units import counted, format_ns, format_seconds

SUMMARY = "show what differs between two bench results or session files"
PATHS_SHOWN = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("base", metavar="BASE", help="a bench result or a session file")
    parser.add_argument("new", metavar="NEW", help="another file of the same kind")
    parser.add_argument(
        "--fail-on",
        metavar="PERCENT",
        type=float,
        help="exit with status 1 if a benchmark or a profile is slower by this much; "
        f"default: {100 * MINIMAL:g} for bench results, no limit for profiles",
    )
    parser.add_argument(
        "-o",
        dest="output",
        metavar="FILE",
        help="write an HTML page with the differential flame graph of two session files to FILE",
    )
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--json", action="store_true", help="print one JSON document")
    only.add_argument(
        "--folded",
        action="store_true",
        help="print stacks with microseconds before and after, for a differential flame graph",
    )


def run(arguments: argparse.Namespace) -> int:
    """Compare two files of the same kind."""
    if arguments.fail_on is not None and not 0 < arguments.fail_on < math.inf:
        raise UnknownName(
            f"gpuforge diff: --fail-on {arguments.fail_on:g} is not a positive percentage",
            hint="use a number above 0, such as 5",
        )
    suffix = Path(arguments.output or "").suffix
    if suffix not in ("", ".html", ".htm"):
        raise UnknownName(
            f"gpuforge diff: -o writes an HTML page, not {suffix!r}", hint="name a .html file"
        )
    base, new = (_read(Path(name)) for name in (arguments.base, arguments.new))
    if isinstance(base, Profile) and isinstance(new, Profile):
        found = profile_difference(base, new)
        if arguments.output:
            _write_page(Path(arguments.output), base, new, found)
        return _profiles(found, arguments)
    if not isinstance(base, BenchResult) or not isinstance(new, BenchResult):
        raise WorkloadError(
            f"{arguments.base!r} and {arguments.new!r} cannot be compared: one is a bench result, "
            "the other a session file",
            hint="compare two files of the same kind",
        )
    if arguments.output:
        raise UnknownName("gpuforge diff: -o needs two session files", hint="remove -o")
    if arguments.folded:
        raise UnknownName("gpuforge diff: --folded needs two session files", hint="use --json")
    return _results(base, new, arguments)


def _read(path: Path) -> BenchResult | Profile:
    """Return the content of a file: JSON is a bench result, anything else a session file."""
    try:
        with path.open("rb") as file:
            start = file.read(1)
    except OSError as error:
        raise WorkloadError(
            f"{str(path)!r} cannot be read: {error.strerror}", hint="check the path"
        ) from None
    return result.read(path) if start == b"{" else session_file.read(path)


def _results(base: BenchResult, new: BenchResult, arguments: argparse.Namespace) -> int:
    same_machine = base.conditions.machine == new.conditions.machine
    history = open_history(base.conditions.machine)
    before = {one.name: one.blocks for one in base.benchmarks}
    after = {one.name: one.blocks for one in new.benchmarks}
    found = {}
    for name in before.keys() & after.keys():
        runs = [one.seconds for one in history.runs(name) if one.started < new.started]
        found[name] = difference(before[name], after[name], runs if same_machine else ())
    found = {name: found[name] for name in before if name in found}
    unmatched = [name for name in {**before, **after} if name not in found]
    changed = differences(base.conditions, new.conditions)
    limit = MINIMAL if arguments.fail_on is None else arguments.fail_on / 100
    worse = [n for n, one in found.items() if one.verdict == "slower" and one.change >= limit]
    if arguments.json:
        rows = [_row_document(name, one) for name, one in found.items()]
        about = {"kind": "bench", "evidence": UNPAIRED, "conditions_differ": changed}
        render.document({**about, "benchmarks": rows, "unmatched": unmatched, "regressions": worse})
    elif found:
        render.data(render.table([_row(name, one) for name, one in found.items()]))
    for line in changed:
        render.message(f"not fully comparable: {line}")
    for name in unmatched:
        render.message(f"only in one file: {name}")
    if history.problem:
        render.message(f"warning: {history.problem}")
    if worse:
        render.message(f"slower by {percent(limit)[1:]} or more: {', '.join(worse)}")
        return PROBLEM
    unknown = [name for name, one in found.items() if one.verdict == "inconclusive"]
    if unknown or not found:
        render.message(f"inconclusive: {', '.join(unknown) or 'the files share no benchmark'}")
        render.message("hint: 'gpuforge bench FILE --against REF' measures both alternately")
        return NOTHING
    return FINE


def _row(name: str, one: Difference) -> tuple[str, ...]:
    times = f"{format_seconds(one.base.value)} → {format_seconds(one.new.value)}"
    noise = f"{counted(one.runs, 'run')} differ by up to {percent(one.noise or 0)[1:]}"
    evidence = one.reason or f"{UNPAIRED}: {noise}"
    return name, one.verdict, times, percent(one.change), evidence


def _row_document(name: str, one: Difference) -> dict[str, Any]:
    return {
        "name": name,
        "verdict": one.verdict,
        "reason": one.reason or None,
        "base_seconds": one.base.value,
        "new_seconds": one.new.value,
        "change": one.change,
        "p": one.test.p,
        "delta": one.test.delta,
        "runs": one.runs,
        "noise": one.noise,
        "unknown": {} if one.noise is not None else {"noise": one.reason},
    }


def _profiles(found: ProfileDifference, arguments: argparse.Namespace) -> int:
    if arguments.folded:
        for line in folded(found):
            render.data(_plain(line))
    elif arguments.json:
        render.document(_profile_document(found))
    else:
        _show_profiles(found)
    for line in found.differences:
        render.message(f"not fully comparable: {line}")
    if found.problem or found.change is None:
        render.message(f"inconclusive: {found.problem}")
        return NOTHING
    if arguments.fail_on is not None and found.change >= arguments.fail_on / 100:
        render.message(f"the wall time increased by {percent(found.change)[1:]}")
        return PROBLEM
    return FINE


def _write_page(path: Path, base: Profile, new: Profile, found: ProfileDifference) -> None:
    remarks = [f"not fully comparable: {line}" for line in found.differences]
    formats.write(path, render_difference(base, new, remarks))
    render.message(f"wrote {path}")


def _show_profiles(found: ProfileDifference) -> None:
    change = "" if found.change is None else f"  {percent(found.change)}"
    times = f"{format_ns(found.base_wall_ns)} → {format_ns(found.new_wall_ns)}"
    render.data(f"wall  {times}{change}  {UNPAIRED} (one run each)")
    rows = [
        (label, format_ns(base), format_ns(new), _signed(new - base))
        for label, base, new in zip(LABELS, found.base_ns, found.new_ns, strict=True)
        if base or new
    ]
    if rows:
        render.data(render.table(rows, heading=("", "base", "new", "change"), indent="  "))
    paths = [path for path in found.paths[:PATHS_SHOWN] if path.change_ns]
    if paths:
        render.data("call paths whose own time changed the most")
        render.data(render.table([_path_row(found, path) for path in paths], indent="  "))


def _signed(ns: int) -> str:
    return f"{'+' if ns >= 0 else '-'}{format_ns(abs(ns))}"


def _path_row(found: ProfileDifference, path: PathChange) -> tuple[str, ...]:
    share, direction = found.share(path), "increase" if path.change_ns > 0 else "decrease"
    part = f"{100 * (share or 0):.0f} % of the total {direction}"
    calls = f"{path.base_count} → {path.new_count} spans"
    return _signed(path.change_ns), path.largest_label, calls, part, _plain(" > ".join(path.names))


def _plain(text: str) -> str:
    """Return a text from a file with control characters replaced, which a terminal would obey."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _profile_document(found: ProfileDifference) -> dict[str, Any]:
    def seconds(times: tuple[int, ...]) -> dict[str, float]:
        return {label: ns / 1e9 for label, ns in zip(LABELS, times, strict=True)}

    return {
        "kind": "profile",
        "evidence": UNPAIRED,
        "base_wall_seconds": found.base_wall_ns / 1e9,
        "new_wall_seconds": found.new_wall_ns / 1e9,
        "change": found.change,
        "unknown": {} if found.change is not None else {"change": "the base recorded no time"},
        "base": seconds(found.base_ns),
        "new": seconds(found.new_ns),
        "conditions_differ": list(found.differences),
        "problem": found.problem or None,
        "paths": [
            {
                "path": list(path.names),
                "lane": path.lane_kind,
                "base": seconds(path.base_ns),
                "new": seconds(path.new_ns),
                "base_count": path.base_count,
                "new_count": path.new_count,
                "change_seconds": path.change_ns / 1e9,
                "share": found.share(path),
            }
            for path in found.paths
        ],
    }
