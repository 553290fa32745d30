"""NPBench's kernels, unchanged: plain NumPy, offloaded, pinned to one library, JAX by hand.

usage: npbench.py --npbench PATH [--quick] [--kernels NAME,...] [--presets S,M] [--repeats N]
                  [--variants NAME,...] [--seconds SECONDS] [--out FILE]

PATH is a clone of https://github.com/spcl/npbench, bare or not; its files are read from there and
none is kept. Each kernel is its NumPy version as it stands, with NPBench's own inputs, copied
before every call (outside the clock) because many kernels write into them. The variants:
*plain* (gpuforge is not imported), *offload* (`gf.offload(kernel)`), *convert*
(`gf.offload(convert=True)`, where there is such an option), *torch* and *jax* (offloaded, pinned),
*jax by hand* (NPBench's own JAX version, which may be another algorithm). Variants take turns, each
in fresh processes with a cache folder of its own.

For each, the first 20 calls together, loading and learning included, and the median of the last 10
calls, are divided by plain NumPy's. The results of the first and of the last call and every array
that the kernel was given must be NumPy's: type, shape and dtype, NaN and infinities where NumPy has
them, values within the tolerance for sums that cancel (relative to the largest value: 2e-5 in
float32, 1e-11 in float64). `close` is what NPBench itself asks for, a relative error below 1e-5.

A process goes on for some seconds after its 30 calls, or for `--seconds`: a library is opened only
once its gain may pay for that, which a program of two seconds does not live to see.

Sizes: presets S (about 10 ms a call) and M (about 50 ms), except where M takes more than a second.
A kernel that runs out of its time is ended and said so. --quick: preset S, each variant once, the
pinned ones in processes that go from kernel to kernel, so that the first 20 calls of these load
nothing.
"""

from __future__ import annotations

import argparse
import copy
import faulthandler
import importlib
import inspect
import io
import json
import os
import pickle
import subprocess
import sys
import tarfile
import tempfile
import traceback
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import geometric_mean, median
from time import perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import agreement
import fresh

RESULTS = Path(__file__).parent / "results"
SMALL_ONLY = {"azimint_naive", "channel_flow"}
FIRST_CALLS, LAST_CALLS, MIN_CALLS = 20, 10, 30
PLAIN, OFFLOAD, CONVERT, BY_HAND = "plain", "offload", "convert", "jax by hand"
PINNED = ("torch", "jax")
GAIN, LOSS = 0.8, 1.03


@dataclass(frozen=True)
class Pace:
    """How long each process lasts: calls go on until `settle`, and end at `limit`, in seconds."""

    settle_seconds: float
    limit_seconds: float
    repeats: int
    grouped: bool


FULL = Pace(settle_seconds=3.0, limit_seconds=60.0, repeats=3, grouped=False)
QUICK = Pace(settle_seconds=0.8, limit_seconds=8.0, repeats=1, grouped=True)


# ---------------------------------------------------------------- one process


def serve(task: dict[str, Any]) -> None:
    """Measure the task's kernels in this process; append a line for each as soon as it is done."""
    warnings.simplefilter("ignore")
    sys.path.insert(0, task["folder"])
    for name in task["kernels"]:
        faulthandler.dump_traceback_later(3 * task["limit_seconds"] + 20, exit=True)
        try:
            found = measure(name, task)
        except Exception as error:  # noqa: BLE001 - what a kernel raises is its result
            where = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{Path(where.filename).name}:{where.lineno}"
            found = {"failed": f"{type(error).__name__}: {error}"[:300] + f" ({place})"}
        with Path(task["progress"]).open("a") as lines:
            lines.write(json.dumps({"kernel": name} | found) + "\n")
    faulthandler.cancel_dump_traceback_later()
    fresh.answer(task, {})


def measure(name: str, task: dict[str, Any]) -> dict[str, Any]:
    """Call one kernel until it has settled; compare its first and its last results."""
    info = read_info(Path(task["folder"]), name)
    inputs = make_inputs(info, task["preset"])
    function = make_variant(info, task["variant"])
    begin = perf_counter()
    times: list[float] = []
    kept: dict[str, Any] = {}
    while not done(times, perf_counter() - begin, task):
        given = [duplicate(value) for value in inputs]
        start = perf_counter()
        result = function(*given)
        times.append(perf_counter() - start)
        kept["last"] = (result, given)
        kept.setdefault("first", kept["last"])
    found: dict[str, Any] = {"seconds": times}
    expected = Path(task["scratch"], f"{name}-{task['preset']}.pickle")
    if task["variant"] == PLAIN:
        if not expected.exists():
            expected.write_bytes(pickle.dumps(kept["first"]))
    elif task["variant"] != BY_HAND:
        wanted = pickle.loads(expected.read_bytes())
        found |= {which: agreement.compare(wanted, got) for which, got in kept.items()}
        found |= placement(function, inputs)
    return found


def done(times: list[float], elapsed: float, task: dict[str, Any]) -> bool:
    """Return whether a kernel was called often and long enough, or too long."""
    if elapsed > task["limit_seconds"]:
        return bool(times)
    return len(times) >= MIN_CALLS and elapsed > task["settle_seconds"]


def duplicate(value: Any) -> Any:
    """Return a copy with the same memory order."""
    return value.copy(order="K") if hasattr(value, "flags") else copy.deepcopy(value)


def read_info(folder: Path, name: str) -> dict[str, Any]:
    """Return what NPBench states about one kernel."""
    text = (folder / "bench_info" / f"{name}.json").read_text()
    info: dict[str, Any] = json.loads(text)["benchmark"]
    path = info["relative_path"].replace("/", ".")
    return info | {"module": f"npbench.benchmarks.{path}.{info['module_name']}"}


def make_inputs(info: dict[str, Any], preset: str) -> list[Any]:
    """Return the arguments of a kernel, made by its own `initialize`."""
    import numpy as np

    np.random.seed(0)
    known = dict(info["parameters"][preset])
    if init := info.get("init"):
        initialize = getattr(importlib.import_module(info["module"]), init["func_name"])
        made = initialize(*(known[name] for name in init["input_args"]))
        names = init["output_args"]
        known |= {names[0]: made} if len(names) == 1 else dict(zip(names, made, strict=True))
    return [known[name] for name in info["input_args"]]


def make_variant(info: dict[str, Any], variant: str) -> Callable[..., Any]:
    """Return the kernel as this variant calls it."""
    if variant == BY_HAND:
        return by_hand(info)
    module = importlib.import_module(f"{info['module']}_numpy")
    kernel: Callable[..., Any] = getattr(module, info["func_name"])
    if variant == PLAIN:
        return kernel
    import gpuforge as gf

    options = {OFFLOAD: {}, CONVERT: {"convert": True}}.get(variant, {"backend": variant})
    placed: Callable[..., Any] = gf.offload(**options)(kernel)
    return placed


def by_hand(info: dict[str, Any]) -> Callable[..., Any]:
    """Return NPBench's own JAX version, NumPy arrays in and out."""
    import jax
    import numpy as np

    jax.config.update("jax_enable_x64", True)
    written = getattr(importlib.import_module(f"{info['module']}_jax"), info["func_name"])
    return lambda *given: jax.tree.map(np.asarray, written(*given))


def placement(function: Any, inputs: list[Any]) -> dict[str, Any]:
    """Return where the calls of an offloaded function ran and why."""
    stats = function.stats()
    counts = {name: count.calls for name, count in stats.counts.items()}
    try:
        why = str(function.explain(*(duplicate(value) for value in inputs)))
    except Exception as error:  # noqa: BLE001 - a missing reason must not lose the measurement
        why = f"explain raised {type(error).__name__}: {error}"
    return {"calls_on": counts, "as_written": dict(stats.as_written), "why": why[:1500]}


# ---------------------------------------------------------------- all processes


def extract(source: Path, folder: Path) -> Path:
    """Return a folder with NPBench's files: `source` itself, or what git has in it."""
    if (source / "bench_info").is_dir():
        return source
    packed = subprocess.run(
        ["git", "-C", str(source), "archive", "--format=tar", "HEAD", "bench_info", "npbench"],
        check=True, capture_output=True,
    ).stdout  # fmt: skip
    with tarfile.open(fileobj=io.BytesIO(packed)) as files:
        files.extractall(folder, filter="data")
    return folder


def variants() -> list[str]:
    """Return the variants that this gpuforge has."""
    import gpuforge as gf

    found = [PLAIN, OFFLOAD]
    if "convert" in inspect.signature(gf.offload).parameters:
        found.append(CONVERT)
    return [*found, *PINNED, BY_HAND]


class Measurement:
    """Every process of one run: what is measured, where files lie, what was found so far."""

    def __init__(self, folder: Path, scratch: Path, pace: Pace) -> None:
        self.folder, self.scratch, self.pace = folder, scratch, pace
        self.rows: dict[str, dict[str, list[dict[str, Any]]]] = {}

    def run(self, kernels: list[str], preset: str, variant: str) -> None:
        """Measure `kernels` in one process, in another one those after one that ended it."""
        while kernels:
            found, trouble = self.process(kernels, preset, variant)
            for row in found:
                self.keep(row.pop("kernel"), preset, variant, row)
            kernels = kernels[len(found) :]
            if kernels:
                self.keep(kernels[0], preset, variant, {"failed": trouble})
                kernels = kernels[1:]

    def process(
        self, kernels: list[str], preset: str, variant: str
    ) -> tuple[list[dict[str, Any]], str]:
        """Return the rows of one process, and why it ended early if it did."""
        with tempfile.TemporaryDirectory(dir=self.scratch) as cache:
            progress = Path(cache, "progress.jsonl")
            task = {
                "folder": str(self.folder), "kernels": kernels, "preset": preset,
                "variant": variant, "progress": str(progress), "scratch": str(self.scratch),
                "settle_seconds": self.pace.settle_seconds,
                "limit_seconds": self.pace.limit_seconds,
                "gpuforge": variant not in (PLAIN, BY_HAND),
            }  # fmt: skip
            trouble = "the process ended without a result"
            try:
                limit = (4 * self.pace.limit_seconds + 60) * len(kernels)
                fresh.run(__file__, task, cache, limit_seconds=limit)
            except fresh.Broken as error:
                trouble = str(error)
            lines = progress.read_text().splitlines() if progress.exists() else []
            return [json.loads(line) for line in lines], trouble

    def keep(self, kernel: str, preset: str, variant: str, row: dict[str, Any]) -> None:
        kinds = self.rows.setdefault(f"{kernel} {preset}", {})
        kinds.setdefault(variant, []).append(row)
        what = row.get("failed") or f"{1e3 * median(row['seconds'][-LAST_CALLS:]):.1f} ms"
        print(f"{kernel} {preset} {variant}: {what}", file=sys.stderr, flush=True)


def measure_all(
    measurement: Measurement, kernels: list[str], presets: list[str], known: list[str]
) -> None:
    """Measure every kernel, preset and variant, the variants of a kernel in turns."""
    pace = measurement.pace
    alone = [v for v in known if not (pace.grouped and v in (*PINNED, BY_HAND))]
    for preset in presets:
        chosen = [k for k in kernels if preset == "S" or k not in SMALL_ONLY]
        for kernel in chosen:
            for repeat in range(pace.repeats):
                for variant in alone:
                    if repeat == 0 or variant in (PLAIN, OFFLOAD, CONVERT):
                        measurement.run([kernel], preset, variant)
        for variant in known:
            if variant not in alone:
                measurement.run(chosen, preset, variant)


# ---------------------------------------------------------------- what was found


def summarise(rows: dict[str, dict[str, list[dict[str, Any]]]]) -> dict[str, dict[str, Any]]:
    """Return, per kernel and preset, plain NumPy's milliseconds and each variant's ratios."""
    table: dict[str, dict[str, Any]] = {}
    for name, kinds in rows.items():
        plain = [r for r in kinds.get(PLAIN, []) if "seconds" in r]
        if not plain:
            table[name] = {"failed": kinds[PLAIN][0]["failed"] if PLAIN in kinds else "not run"}
            continue
        settled = median(median(r["seconds"][-LAST_CALLS:]) for r in plain)
        table[name] = {"plain_ms": 1e3 * settled} | {
            variant: ratios(found, plain, settled)
            for variant, found in kinds.items() if variant != PLAIN
        }  # fmt: skip
    return table


def ratios(
    found: list[dict[str, Any]], plain: list[dict[str, Any]], settled: float
) -> dict[str, Any]:
    """Return one variant's settled ratio, its ratio over the first calls, and whether it agrees."""
    good = [row for row in found if "seconds" in row]
    if not good:
        return {"failed": found[0]["failed"]}
    calls = min(FIRST_CALLS, *(len(row["seconds"]) for row in (*good, *plain)))
    first = median(sum(row["seconds"][:calls]) for row in good)
    before = median(sum(row["seconds"][:calls]) for row in plain)
    compared = [row[which] for row in good for which in ("first", "last") if which in row]
    return {
        "settled": median(median(row["seconds"][-LAST_CALLS:]) for row in good) / settled,
        "first_calls": first / before, "first_calls_counted": calls,
        "equal": all(c["equal"] for c in compared), "close": all(c["close"] for c in compared),
        "difference": next((c["difference"] for c in compared if c["difference"]), ""),
        "error": max((c["error"] for c in compared if c["error"] is not None), default=None),
        "calls_on": good[-1].get("calls_on"), "why": good[-1].get("why"),
    }  # fmt: skip


def show(table: dict[str, dict[str, Any]]) -> None:
    """Print one line per kernel, then the counts per variant."""
    known = [v for v in (OFFLOAD, CONVERT, *PINNED, BY_HAND)
             if any(v in row for row in table.values())]  # fmt: skip
    print("seconds / plain NumPy's: settled, and in brackets the first 20 calls; ≠ differs, ~ is")
    print("within 1e-5 but not within gpuforge's tolerance, ! raised or ran out of time")
    print(f"{'kernel':28}{'NumPy ms':>9}" + "".join(f"{v:>18}" for v in known))
    for name, row in table.items():
        if "failed" in row:
            print(f"{name:28} {row['failed']}")
            continue
        print(f"{name:28}{row['plain_ms']:9.1f}" + "".join(f"{cell(row, v):>18}" for v in known))
    for variant in known:
        print(count(table, variant))
    if missed := [name for name, row in table.items() if misses(row)]:
        print(f"JAX by hand gains, gpuforge does not: {', '.join(missed)}")
    for name, row in table.items():
        for variant in known:
            said = row.get(variant, {})
            if why := said.get("failed") or said.get("difference"):
                print(f"{name}, {variant}: {why[:160]}")


def misses(row: dict[str, Any]) -> bool:
    """Return whether NPBench's JAX version gains a fifth and no unpinned variant does."""
    hand = row.get(BY_HAND, {}).get("settled")
    ours = [row[v]["settled"] for v in (OFFLOAD, CONVERT) if "settled" in row.get(v, {})]
    return hand is not None and hand <= GAIN < min(ours, default=1.0)


def cell(row: dict[str, Any], variant: str) -> str:
    found = row.get(variant)
    if found is None or "failed" in found:
        return "" if found is None else "!"
    mark = "" if found["equal"] else "~" if found["close"] else "≠"
    return f"{mark}{found['settled']:.2f} ({found['first_calls']:.2f})"


def count(table: dict[str, dict[str, Any]], variant: str) -> str:
    """Return in one line how many kernels agree, gain and lose."""
    rows = [row[variant] for row in table.values() if variant in row]
    good = [row for row in rows if "settled" in row]
    if not good:
        return f"{variant}: every kernel failed"
    settled, first = [r["settled"] for r in good], [r["first_calls"] for r in good]
    results = "" if variant == BY_HAND else (
        f"results equal {sum(r['equal'] for r in good)}, close {sum(r['close'] for r in good)}; "
    )  # fmt: skip
    return (
        f"{variant}: of {len(rows)}, {len(rows) - len(good)} failed; {results}settled: "
        f"{gains(settled)}, geometric mean {geometric_mean(settled):.2f}; "
        f"first {FIRST_CALLS} calls: {gains(first)}"
    )


def gains(ratios: list[float]) -> str:
    """Return how many ratios are a gain, and how many a loss."""
    gaining, losing = sum(r <= GAIN for r in ratios), sum(r > LOSS for r in ratios)
    return f"{gaining} at <= {GAIN}, {losing} at > {LOSS}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--npbench", type=Path, default=os.environ.get("NPBENCH"))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--kernels", default="")
    parser.add_argument("--presets", default="")
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--seconds", type=float, help="how long each process calls its kernel")
    parser.add_argument("--variants", default="", help="of these, plain NumPy besides")
    parser.add_argument("--out", type=Path, default=RESULTS / "npbench.json")
    parser.add_argument("--task", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.task:
        serve(fresh.read_task(arguments.task))
        return 0
    if arguments.npbench is None:
        print("nothing measured: --npbench PATH or NPBENCH must name a clone of NPBench")
        return 3
    pace = QUICK if arguments.quick else FULL
    if arguments.repeats:
        pace = replace(pace, repeats=arguments.repeats)
    if seconds := arguments.seconds:
        limit = max(pace.limit_seconds, 2 * seconds)
        pace = replace(pace, settle_seconds=seconds, limit_seconds=limit)
    facts = fresh.machine()
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder = extract(Path(arguments.npbench).resolve(), scratch)
        names = sorted(path.stem for path in (folder / "bench_info").glob("*.json"))
        kernels = arguments.kernels.split(",") if arguments.kernels else names
        presets = (arguments.presets or ("S" if arguments.quick else "S,M")).split(",")
        measurement = Measurement(folder, scratch, pace)
        chosen = arguments.variants.split(",") if arguments.variants else variants()
        known = [one for one in variants() if one == PLAIN or one in chosen]
        measure_all(measurement, kernels, presets, known)
    table = summarise(measurement.rows)
    show(table)
    arguments.out.write_text(
        json.dumps({"machine": facts, "table": table, "samples": measurement.rows}) + "\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
