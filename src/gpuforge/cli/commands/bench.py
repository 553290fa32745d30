"""``gpuforge bench``: time the ``bench_*`` functions of a file, alone or against a git ref."""

from __future__ import annotations

import argparse
import math
import os
import time
from pathlib import Path
from typing import Any

from gpuforge.cli import render
from gpuforge.cli.main import FINE, NOTHING, PROBLEM, WRONG_USAGE
from gpuforge.errors import UnknownName, WorkloadError
from gpuforge.profiler.bench.against import Benchmark, compare_with
from gpuforge.profiler.bench.measure import identity, measure
from gpuforge.profiler.bench.result import FORMATS, BenchResult, Measured, save
from gpuforge.profiler.bench.runs import keep, open_history
from gpuforge.profiler.compare.change_points import ChangePoint, change_points
from gpuforge.profiler.compare.comparison import MINIMAL, Comparison, percent
from gpuforge.profiler.compare.conditions import Conditions, differences, read_conditions
from gpuforge.units import counted, format_seconds, parse_seconds

SUMMARY = "time bench_* functions, or compare two versions of the code"
FEW_BLOCKS = "too few blocks for a confidence interval"
PATTERNS = ("bench_*.py", "benchmarks/bench_*.py")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "file",
        metavar="FILE[::NAME]",
        nargs="?",
        help="a Python file with bench_* functions, or one function in it; default: the only "
        f"{' or '.join(PATTERNS)}",
    )
    parser.add_argument(
        "--against", metavar="REF", help="compare with the code at this git commit, tag or branch"
    )
    parser.add_argument(
        "--fail-on",
        metavar="PERCENT",
        type=float,
        help="with --against: exit with status 1 on a proven slowdown of at least this; "
        f"default {100 * MINIMAL:g}",
    )
    parser.add_argument(
        "--time-limit",
        metavar="SECONDS",
        default="60s",
        help="stop measuring after this time; default %(default)s",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--save", metavar="FILE", help="write the result to FILE")
    parser.add_argument(
        "--format",
        choices=FORMATS,
        default=FORMATS[0],
        help="file format for --save; default %(default)s",
    )
    parser.add_argument(
        "--history", action="store_true", help="show earlier runs and where their times changed"
    )


def run(arguments: argparse.Namespace) -> int:
    """Measure, compare, or show the history."""
    if arguments.save and (arguments.against or arguments.history):
        raise UnknownName(
            "gpuforge bench: --save cannot be combined with --against or --history",
            hint="run 'gpuforge bench FILE --save RESULT' without them",
        )
    if arguments.fail_on is not None and not 0 < arguments.fail_on < math.inf:
        raise UnknownName(
            f"gpuforge bench: --fail-on {arguments.fail_on:g} is not a positive percentage",
            hint="use a number above 0, such as 5",
        )
    if arguments.fail_on is not None and not arguments.against:
        raise UnknownName("gpuforge bench: --fail-on needs --against", hint="add --against REF")
    if arguments.format != FORMATS[0] and not arguments.save:
        raise UnknownName("gpuforge bench: --format needs --save", hint="add --save FILE")
    if arguments.history:
        return _history(arguments)
    path, _, only = (arguments.file or _only_file()).partition("::")
    if not Path(path).is_file():
        found = f"{path!r} is a folder" if Path(path).is_dir() else f"no file {path!r}"
        raise WorkloadError(found, hint="name a Python file with bench_* functions")
    if not path.endswith(".py"):
        raise WorkloadError(f"{path!r} is not a Python file", hint="name one that ends in .py")
    seconds = parse_seconds(arguments.time_limit, "--time-limit ")
    if seconds <= 0:
        raise UnknownName(
            "gpuforge bench: --time-limit is not positive", hint="use a duration such as 10s"
        )
    if arguments.against:
        return _against(Path(path), only, seconds, arguments)
    if arguments.save:  # before a minute is spent
        target = Path(arguments.save)
        if target.is_dir() or not os.access(target if target.exists() else target.parent, os.W_OK):
            why = "it is a folder" if target.is_dir() else "you may not write there"
            why = why if target.parent.is_dir() else "its folder does not exist"
            text = f"{arguments.save!r} cannot be written: {why}"
            raise WorkloadError(text, hint="name another file")
    return _measure(Path(path), only, seconds, arguments)


def _only_file() -> str:
    found = [str(path) for pattern in PATTERNS for path in sorted(Path().glob(pattern))]
    if len(found) != 1:
        what = f"several files: {', '.join(found)}" if found else f"no {' or '.join(PATTERNS)} here"
        raise WorkloadError(what, hint="name one: gpuforge bench FILE")
    return found[0]


def _measure(path: Path, only: str, seconds: float, arguments: argparse.Namespace) -> int:
    result, failed = measure(path, only, read_conditions(), seconds=seconds)
    history = keep(result)
    if arguments.json:
        render.document(_document(result, failed))
    elif result.benchmarks:
        render.data(render.table([_row(one) for one in result.benchmarks]))
    if arguments.save:
        save(result, Path(arguments.save), arguments.format)
    for one in result.benchmarks:
        for note in one.notes:
            render.message(f"note: {_short(one.name)}: {note}")
    for name, reason in failed.items():
        render.message(f"failed: {name}: {reason}")
    if history.problem:
        render.message(f"warning: {history.problem}")
    if failed:
        return WRONG_USAGE
    if not result.benchmarks:
        render.message(f"nothing to measure: {path} has no bench_* functions")
        return NOTHING
    return FINE


def _short(name: str) -> str:
    return name.rpartition("::")[2]


def _row(one: Measured) -> tuple[str, ...]:
    seconds = one.seconds
    spread = FEW_BLOCKS
    if seconds.high < math.inf:
        spread = f"{format_seconds(seconds.low)} to {format_seconds(seconds.high)}"
    blocks = counted(len(one.blocks), "block")
    return _short(one.name), format_seconds(seconds.value), spread, blocks


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _conditions(conditions: Conditions) -> dict[str, Any]:
    unknown = {f"conditions.{name}": reason for name, reason in conditions.unknown.items()}
    nulls = dict.fromkeys(conditions.unknown)
    return {"conditions": {**conditions.facts, **nulls}, "unknown": unknown}


def _document(result: BenchResult, failed: dict[str, str]) -> dict[str, Any]:
    benchmarks = [
        {
            "name": one.name,
            "seconds": one.seconds.value,
            "interval": list(map(_finite, one.seconds[1:])),
            "loops": one.loops,
            "blocks": list(one.blocks),
            "notes": list(one.notes),
            "unknown": {} if one.seconds.high < math.inf else {"interval": FEW_BLOCKS},
        }
        for one in result.benchmarks
    ]
    return {
        "started": result.started,
        "version": result.version or None,
        "benchmarks": benchmarks,
        "failed": failed,
        **_conditions(result.conditions),
    }


def _against(path: Path, only: str, seconds: float, arguments: argparse.Namespace) -> int:
    before = read_conditions()
    found = compare_with(arguments.against, path, only, seconds=seconds)
    after = read_conditions()
    changed = differences(before, after)
    limit = MINIMAL if arguments.fail_on is None else arguments.fail_on / 100
    worse = [name for name, one in found.benchmarks.items() if _is_worse(one.comparison, limit)]
    if arguments.json:
        documents = [_against_row(name, one) for name, one in found.benchmarks.items()]
        about = {"ref": arguments.against, "commit": found.commit, "regressions": worse}
        about["changed_while_measuring"] = changed
        render.document({**about, "benchmarks": documents, **_conditions(after)})
    elif found.benchmarks:
        render.data(f"change since {arguments.against} ({found.commit[:12]})")
        rows = [
            (name, str(one.comparison or one.problem)) for name, one in found.benchmarks.items()
        ]
        render.data(render.table(rows, indent="  "))
    for line in changed:
        render.message(f"warning: this changed during the measurement: {line}")
    return _status(found.benchmarks, worse, limit)


def _is_worse(comparison: Comparison | None, limit: float) -> bool:
    if comparison is None or comparison.verdict != "slower":
        return False
    return comparison.change.value >= limit


def _status(benchmarks: dict[str, Benchmark], worse: list[str], limit: float) -> int:
    """Print the verdict, and return the exit status."""
    broken = [name for name, one in benchmarks.items() if one.failed_here]
    unknown = [
        name
        for name, one in benchmarks.items()
        if one.comparison is None or one.comparison.verdict == "inconclusive"
    ]
    if broken:
        render.message(f"failed in the working tree: {', '.join(broken)}")
        return WRONG_USAGE
    if worse:
        render.message(f"slower by {percent(limit)[1:]} or more: {', '.join(worse)}")
        return PROBLEM
    if unknown or not benchmarks:
        render.message(f"inconclusive: {', '.join(unknown) or 'there are no bench_* functions'}")
        if unknown:
            render.message("hint: allow more time (--time-limit), or use an idle machine")
        return NOTHING
    return FINE


def _against_row(name: str, one: Benchmark) -> dict[str, Any]:
    found = one.comparison
    if found is None:
        return {"name": name, "verdict": None, "reason": one.problem}
    return {
        "name": name,
        "verdict": found.verdict,
        "reason": found.reason or None,
        "base_seconds": found.base.value,
        "new_seconds": found.new.value,
        "change": found.change.value,
        "interval": list(map(_finite, found.change[1:])),
        "p": found.p,
        "delta": found.delta,
        "rounds": found.rounds,
        "unknown": {} if found.change.high < math.inf else {"interval": found.reason},
    }


def _history(arguments: argparse.Namespace) -> int:
    history = open_history(read_conditions().machine)
    path, _, only = (arguments.file or "").partition("::")
    start = f"{identity(Path(path))}::{only}" if path else ""
    times: dict[str, list[Any]] = {}
    for one in history.runs():
        if one.name == start or (not only and one.name.startswith(start)):
            times.setdefault(one.name, []).append(one)
    changes = {name: change_points([one.seconds for one in runs]) for name, runs in times.items()}
    if arguments.json:
        rows = [_history_row(name, runs, changes[name]) for name, runs in times.items()]
        render.document({"method": "L1 Potts functional, then Mann-Whitney", "benchmarks": rows})
    for name, runs in times.items() if not arguments.json else ():
        last = runs[-1]
        render.data(f"{name}: {counted(len(runs), 'run')}, last {format_seconds(last.seconds)}")
        for change in changes[name]:
            first = runs[change.place]
            since = time.strftime("%Y-%m-%d %H:%M", time.localtime(first.started))
            times_of = f"{format_seconds(change.before)} → {format_seconds(change.after)}"
            since += f" ({first.version})" if first.version else ""
            render.data(f"  {percent(change.ratio)} since {since}: {times_of}, p={change.p:.2g}")
    if history.problem:
        render.message(f"warning: {history.problem}")
    if not times:
        what = f" of {arguments.file}" if arguments.file else ""
        render.message(f"no runs{what} are recorded: each 'gpuforge bench FILE' records one")
    return FINE if times else NOTHING


def _history_row(name: str, runs: list[Any], changes: list[ChangePoint]) -> dict[str, Any]:
    return {
        "name": name,
        "runs": [
            {"started": one.started, "version": one.version or None, "seconds": one.seconds}
            for one in runs
        ],
        "changes": [
            {"first_run": c.place, "before_seconds": c.before, "after_seconds": c.after,
             "change": c.ratio, "p": c.p}
            for c in changes
        ],
    }  # fmt: skip
