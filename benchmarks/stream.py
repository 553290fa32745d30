"""A program that mixes many functions: placed, on plain NumPy, and by hand on one library.

usage: stream.py [--quick|--short] [--repeats N] [--out FILE]

The program calls the functions of `functions` at three sizes and in two dtypes. Orders: *random*;
*bursts* (runs of 20 calls of one signature); *alternating* (two signatures in turns). Starts: NumPy
imported first, gpuforge imported first, `gpuforge run`. It first makes 40 calls of each signature,
then 20 more, then 20 that are timed as *settled*. All of it takes about an hour, --quick (half the
signatures, one start per order, no controls) some two minutes, --short (all signatures, one start
per order, no controls) six.

Every measurement is a fresh process; placed and plain ones take turns, each placed one with a cache
folder of its own, and *second run* with the folder that the first one left. *one thread* limits
every library to one thread. *single* processes time each signature alone on each library, written
by hand: the sum of the lowest medians is what a program would take whose calls each ran where they
are fastest and cost no other call anything.

The 40 calls are counted from the start of the process (Python, imports, loading, learning) and with
its end, without the making of the inputs. Targets: settled <= 0.80 × plain NumPy in every order and
start, <= 1.25 × the sum of best medians in bursts; 40 calls <= 0.97 × where plain NumPy takes 10 s,
never above 1.03 × + 50 ms.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from time import monotonic, perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import fresh

RESULTS = Path(__file__).parent / "results"
ORDERS = ("random", "bursts", "alternating")
RUN_LENGTH = 20
PLAIN, PLACED, SECOND, SINGLE = "plain", "placed", "second run", "single"
LIBRARIES = ("numpy", "torch", "jax")
LONG_SECONDS = 10.0
GAIN, NEAR_BEST, LEARNING, LOSS, LOSS_SECONDS = 0.80, 1.25, 0.97, 1.03, 0.05


@dataclass(frozen=True)
class Plan:
    """Which signatures, how many calls of each, and how often every process is repeated."""

    first_calls: int = 40
    warm_calls: int = 20
    settled_calls: int = 20
    sizes: tuple[int, ...] = (0, 1, 2)
    dtypes: tuple[int, ...] = (0, 1)
    starts: tuple[str, ...] = fresh.STARTS
    controls: bool = True
    repeats: int = 3
    limit_seconds: float = 300.0


SHORT = Plan(controls=False, repeats=1)
QUICK = Plan(warm_calls=10, settled_calls=10, sizes=(0, 2), dtypes=(0,), controls=False, repeats=1,
             limit_seconds=60.0)  # fmt: skip


# ---------------------------------------------------------------- one process


def serve(task: dict[str, Any]) -> None:
    """Run the program in this process as the task says."""
    import functions

    begin = perf_counter()
    inputs = make_inputs(task)
    making = perf_counter() - begin
    if task["kind"] == SINGLE:
        called = functions.by_hand(task["library"])
        fresh.answer(task, {"medians": singles(called, inputs, task)})
        return
    called = program(task)
    calls = {key: called[key.split()[0]] for key in inputs}
    first, _ = play(calls, inputs, task, "first_calls", seed=0)
    finished = monotonic() - task["started"] - making
    play(calls, inputs, task, "warm_calls", seed=1)
    settled, seconds = play(calls, inputs, task, "settled_calls", seed=2)
    found = {
        "first": finished, "first_calls": first, "settled": settled, "inputs": making,
        "signatures": {key: median(times) for key, times in seconds.items()},
        "wrong": wrong(calls, inputs) if task["gpuforge"] else [],
        "calls_on": counts(called) if task["gpuforge"] else {},
    }  # fmt: skip
    fresh.answer(task, found | {"answered": monotonic()})


def make_inputs(task: dict[str, Any]) -> dict[str, tuple[Any, ...]]:
    """Return the arguments of every signature: function, elements, dtype."""
    import functions
    import numpy as np

    rng = np.random.default_rng(0)
    return {
        f"{name} {work.sizes[size]} {work.dtypes[dtype]}":
            work.make(rng, work.sizes[size], work.dtypes[dtype])
        for name, work in functions.WORKS.items()
        for size in task["sizes"] for dtype in task["dtypes"]
    }  # fmt: skip


def program(task: dict[str, Any]) -> dict[str, Callable[..., Any]]:
    """Return the functions as this process calls them."""
    import functions

    plain = functions.by_hand("numpy")
    if task["kind"] in (PLACED, SECOND):
        import gpuforge as gf

        return {name: gf.offload(function) for name, function in plain.items()}
    return plain | functions.by_hand(task["library"])


def sequence(keys: list[str], order: str, each: int, seed: int) -> Iterator[str]:
    """Yield every key `each` times, in this order."""
    import numpy as np

    rng = np.random.default_rng(seed)
    if order == "random":
        yield from rng.permutation([key for key in keys for _ in range(each)]).tolist()
    elif order == "bursts":
        length = min(RUN_LENGTH, each)
        for key in rng.permutation([key for key in keys for _ in range(each // length)]).tolist():
            yield from [key] * length
    else:
        mixed = rng.permutation(keys).tolist()
        for one, other in zip(mixed[::2], mixed[1::2], strict=True):
            yield from [one, other] * each


def play(
    calls: dict[str, Callable[..., Any]], inputs: dict[str, tuple[Any, ...]],
    task: dict[str, Any], phase: str, seed: int,
) -> tuple[float, dict[str, list[float]]]:  # fmt: skip
    """Make a phase's calls; return their seconds, together and per signature."""
    times: dict[str, list[float]] = defaultdict(list)
    order = list(sequence(list(inputs), task["order"], task[phase], seed))
    begin = perf_counter()
    for key in order:
        call, arguments = calls[key], inputs[key]
        start = perf_counter()
        call(*arguments)
        times[key].append(perf_counter() - start)
    return perf_counter() - begin, times


def singles(
    called: dict[str, Callable[..., Any]], inputs: dict[str, tuple[Any, ...]],
    task: dict[str, Any],
) -> dict[str, float]:  # fmt: skip
    """Return the median of calls in a row of every signature that the library has."""
    found = {}
    for key, arguments in inputs.items():
        call = called.get(key.split()[0])
        if call is None:
            continue
        times = []
        for _ in range(task["settled_calls"] + 3):
            start = perf_counter()
            call(*arguments)
            times.append(perf_counter() - start)
        found[key] = median(times[3:])
    return found


def wrong(
    calls: dict[str, Callable[..., Any]], inputs: dict[str, tuple[Any, ...]]
) -> list[str]:  # fmt: skip
    """Return the signatures whose placed result is not NumPy's, to a loose tolerance."""
    import functions
    import numpy as np

    found = []
    for key, arguments in inputs.items():
        expected = functions.WORKS[key.split()[0]].function(*arguments)
        result = calls[key](*arguments)
        scale = float(np.abs(expected).max())
        near = 1e-3 if np.asarray(expected).dtype == np.float32 else 1e-9
        same = type(result) is type(expected) and result.dtype == expected.dtype
        if not (same and np.allclose(result, expected, rtol=near, atol=near * scale)):
            found.append(key)
    return found


def counts(called: dict[str, Any]) -> dict[str, int]:
    """Return how many calls ran where."""
    found: Counter[str] = Counter()
    for function in called.values():
        for name, count in function.stats().counts.items():
            found[name] += count.calls
    return dict(found)


# ---------------------------------------------------------------- all processes


class Measurement:
    """Runs the processes of a plan and keeps what each found, in the order they ran."""

    def __init__(self, plan: Plan, scratch: Path) -> None:
        self.plan, self.scratch, self.repeat = plan, scratch, 0
        self.rows: list[dict[str, Any]] = []

    def run(
        self, kind: str, order: str = "", start: str = fresh.NUMPY_FIRST, *,
        library: str = "numpy", one_thread: bool = False, cache: str = "",
    ) -> str:  # fmt: skip
        """Run one process; return the cache folder that it used."""
        cache = cache or tempfile.mkdtemp(dir=self.scratch)
        placed = kind in (PLACED, SECOND)
        about = {"kind": kind, "order": order, "start": start, "library": library,
                 "one_thread": one_thread}  # fmt: skip
        try:
            found = fresh.run(
                __file__, asdict(self.plan) | about | {"gpuforge": placed}, cache,
                start=start if placed else fresh.NUMPY_FIRST,
                limit_seconds=self.plan.limit_seconds, more=fresh.ONE_THREAD if one_thread else {},
            )  # fmt: skip
            if "answered" in found:
                found["first"] += monotonic() - found.pop("answered")
        except fresh.Broken as error:
            found = {"failed": str(error)}
        self.rows.append(about | {"repeat": self.repeat} | found)
        what = found.get("failed") or f"{found['process_seconds']:.1f} s"
        print(*filter(None, about.values()), what, file=sys.stderr, flush=True)
        return cache

    def round(self, number: int) -> None:
        """Run every process once, placed ones beside plain ones."""
        self.repeat = number
        libraries = [name for name in LIBRARIES if fresh.library_version(name)]
        for library in libraries:
            self.run(SINGLE, library=library)
        for place, order in enumerate(ORDERS):
            starts = self.plan.starts
            if not self.plan.controls:
                starts = (starts[(number + place) % len(starts)],)
            for start in starts:
                self.run(PLAIN, order, start)
                cache = self.run(PLACED, order, start)
                self.run(SECOND, order, start, cache=cache)
            if self.plan.controls:
                for library in libraries[1:]:
                    self.run("by hand", order, library=library)
                self.run(PLAIN, order, one_thread=True)
                self.run(PLACED, order, one_thread=True)


# ---------------------------------------------------------------- what was found


def of(rows: list[dict[str, Any]], what: str, **wanted: Any) -> dict[int, float]:
    """Return one figure of every process that matches and gave a result, by repeat."""
    return {row["repeat"]: row[what] for row in rows
            if what in row and all(row[k] == v for k, v in wanted.items())}  # fmt: skip


def best_medians(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Return per signature the lowest of the libraries' medians over the single processes."""
    known: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in rows:
        if row["kind"] == SINGLE and "medians" in row:
            for key, seconds in row["medians"].items():
                known[key, row["library"]].append(seconds)
    best: dict[str, float] = {}
    for (key, _), times in known.items():
        best[key] = min(best.get(key, float("inf")), median(times))
    return best


def summarise(rows: list[dict[str, Any]], plan: Plan) -> list[dict[str, Any]]:
    """Return one row per order, start and kind of process, ratios taken within each repeat."""
    best = sum(best_medians(rows).values()) * plan.settled_calls
    table = []
    seen = dict.fromkeys(
        (r["kind"], r["order"], r["start"], r["library"], r["one_thread"])
        for r in rows if r["kind"] not in (PLAIN, SINGLE)
    )  # fmt: skip
    for kind, order, start, library, one_thread in seen:
        mine = {"kind": kind, "order": order, "start": start, "library": library,
                "one_thread": one_thread}  # fmt: skip
        plain = mine | {"kind": PLAIN, "library": "numpy"}
        row: dict[str, Any] = dict(mine)
        for what in ("settled", "first"):
            ours, theirs = of(rows, what, **mine), of(rows, what, **plain)
            if both := ours.keys() & theirs.keys():
                row[f"{what}_ratio"] = fresh.spread([ours[r] / theirs[r] for r in sorted(both)])
                row[f"{what}_seconds"] = median(ours[r] for r in both)
                row[f"{what}_plain"] = median(theirs[r] for r in both)
        if "settled_seconds" in row:
            row["to_best"] = row["settled_seconds"] / best if best else None
        matching = [r for r in rows if all(r[k] == v for k, v in mine.items())]
        row["failed"] = [r["failed"] for r in matching if "failed" in r]
        row["wrong"] = sorted({key for r in matching for key in r.get("wrong", ())})
        row["calls_on"] = next((r["calls_on"] for r in matching if r.get("calls_on")), {})
        table.append(row)
    return table


def show(table: list[dict[str, Any]], plan: Plan) -> None:
    """Print every figure beside its target."""
    for row in table:
        label = " ".join(
            [row["order"], row["library"] if row["kind"] == "by hand" else row["start"],
             row["kind"], *(["one thread"] if row["one_thread"] else [])]
        )  # fmt: skip
        for reason in row["failed"]:
            print(f"{label}: {reason}")
        if "settled_ratio" not in row:
            continue
        print(f"{label}: {placed_on(row)}")
        show_settled(row)
        show_first(row, plan)
        if row["wrong"]:
            print(f"  differs from NumPy: {', '.join(row['wrong'])}")


def placed_on(row: dict[str, Any]) -> str:
    return ", ".join(f"{calls} calls on {name}" for name, calls in row["calls_on"].items())


def show_settled(row: dict[str, Any]) -> None:
    targeted = row["kind"] in (PLACED, SECOND) and not row["one_thread"]
    text = f"  settled: {fresh.shown(row['settled_ratio'])} × plain NumPy"
    if targeted:
        held = row["settled_ratio"]["median"] <= GAIN
        text += f" (target {GAIN}: {fresh.verdict(held)})"
    if row["to_best"] is not None:
        text += f", {row['to_best']:.2f} × the sum of best medians"
        if targeted and row["order"] == "bursts":
            text += f" (target {NEAR_BEST}: {fresh.verdict(row['to_best'] <= NEAR_BEST)})"
    print(text)


def show_first(row: dict[str, Any], plan: Plan) -> None:
    ratio, plain = row["first_ratio"]["median"], row["first_plain"]
    text = f"  {plan.first_calls} calls each, from start to end: {fresh.shown(row['first_ratio'])}"
    text += f" × plain NumPy's {plain:.1f} s"
    if row["kind"] in (PLACED, SECOND) and not row["one_thread"]:
        if plain >= LONG_SECONDS:
            text += f" (target {LEARNING}: {fresh.verdict(ratio <= LEARNING)})"
        bound = LOSS + LOSS_SECONDS / plain
        text += f" (never above {bound:.2f}: {fresh.verdict(ratio <= bound)})"
    print(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="about two minutes, one repeat")
    parser.add_argument("--short", action="store_true", help="about six minutes, no controls")
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--out", type=Path, default=RESULTS / "stream.json.gz")
    parser.add_argument("--task", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.task:
        serve(fresh.read_task(arguments.task))
        return
    plan = QUICK if arguments.quick else SHORT if arguments.short else Plan()
    facts = fresh.machine()
    with tempfile.TemporaryDirectory() as scratch:
        measurement = Measurement(plan, Path(scratch))
        for number in range(arguments.repeats or plan.repeats):
            measurement.round(number)
    table = summarise(measurement.rows, plan)
    show(table, plan)
    content = {"machine": facts, "plan": asdict(plan), "table": table, "samples": measurement.rows}
    text = json.dumps(content) + "\n"
    packed = arguments.out.suffix == ".gz"
    arguments.out.write_bytes(gzip.compress(text.encode(), mtime=0) if packed else text.encode())


if __name__ == "__main__":
    main()
