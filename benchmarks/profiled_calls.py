"""What a profile costs the calls of the examples, measured in turns inside one process.

usage: profiled_calls.py [--only NAME] [--rounds N] [--out FILE]

`profiled.py` compares whole processes, whose times differ by more than the cost where other work
changes the machine's speed within seconds. Here, each example runs in a process of its own until
its calls have settled, with the arguments of each call kept. Then all calls of each function are
repeated as blocks: without a profile, twice with one that is written to a file, and without. Start
and end of the profiles are not timed: they are the fixed cost in `profiled.py`.

*running* is 1 + what the profile added to the blocks of all functions (for each, the median of the
rounds) / the median time of the example without a profile, with a 95 % interval by bootstrap over
rounds. It is proven at most 1.03 if the whole interval is. What runs between calls is not slowed,
except by the profile's thread, which works during the blocks as well.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import runpy
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import mean, median
from time import perf_counter
from typing import Any

import fresh
import numpy as np
from profiled import CONFIDENCE, EXAMPLES, MOST, source_digest

from gpuforge.profiler.compare.evidence import Interval, median_interval

HERE = Path(__file__).parent
SETTLING_RUNS, DRAWS = 3, 2_000
Block = list[tuple[tuple[Any, ...], dict[str, Any]]]
"""The arguments of the calls of one function."""


@contextlib.contextmanager
def kept_calls() -> Iterator[dict[Any, Block]]:
    """Keep the arguments of the outermost calls of offloaded functions inside the block."""
    from gpuforge.runtime.offload import Offloaded

    original, found, inside = Offloaded.__call__, defaultdict(list), []

    def keep(function: Any, *args: Any, **kwargs: Any) -> Any:
        if inside:
            return original(function, *args, **kwargs)
        found[function].append((args, kwargs))
        inside.append(function)
        try:
            return original(function, *args, **kwargs)
        finally:
            inside.pop()

    Offloaded.__call__ = keep
    try:
        yield found
    finally:
        Offloaded.__call__ = original


def timed(work: Callable[[], object]) -> float:
    start = perf_counter()
    work()
    return perf_counter() - start


def call_all(function: Callable[..., Any], block: Block) -> None:
    for args, kwargs in block:
        function(*args, **kwargs)


def measure(name: str, rounds: int, out: Path) -> None:
    """Measure one example in this process."""
    import gpuforge as gf

    with contextlib.redirect_stdout(io.StringIO()):
        main = runpy.run_path(str(HERE.parent / f"examples/{name}.py"))["main"]
        plain = [timed(main) for _ in range(SETTLING_RUNS)]
        with kept_calls() as calls:
            main()
        plain += [timed(main) for _ in range(SETTLING_RUNS)]
    seconds = median(plain[SETTLING_RUNS:])
    for function, block in calls.items():
        call_all(function, block)
    found: list[list[tuple[float, float]]] = []
    for _ in range(rounds):
        found.append([])
        for function, block in calls.items():
            times: dict[bool, list[float]] = {False: [], True: []}
            for profiled in (False, True, True, False):
                with gf.profile(out.with_suffix(".gfp")) if profiled else contextlib.nullcontext():
                    times[profiled].append(timed(lambda f=function, b=block: call_all(f, b)))
            found[-1].append((mean(times[False]), mean(times[True])))
    names = [f"{function.__qualname__}, {len(block):,} calls" for function, block in calls.items()]
    out.write_text(json.dumps({"seconds": seconds, "functions": names, "rounds": found}))


def judged(row: dict[str, Any]) -> dict[str, Any]:
    """Return how much longer each function's calls and the whole example take, and the verdict."""
    rounds, seconds = row["rounds"], row["seconds"]
    added = np.array([[on - off for off, on in found] for found in rounds])

    def total(places: Any) -> float:
        return float(1 + np.median(added[places], axis=0).sum() / seconds)

    random = np.random.default_rng(0)
    drawn = [total(random.integers(len(rounds), size=len(rounds))) for _ in range(DRAWS)]
    ends = np.quantile(drawn, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    running = Interval(total(slice(None)), *map(float, ends))
    held = "held" if running.high <= MOST else "missed" if running.low > MOST else "unproven"
    functions = {
        name: median_interval([found[place][1] / found[place][0] for found in rounds], CONFIDENCE)
        for place, name in enumerate(row["functions"])
    }
    return {"functions": functions, "running": running, "at_most_1.03": held}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="one example")
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "profiled_calls.json")
    parser.add_argument("--inside", nargs=2, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.inside:
        measure(chosen.inside[0], chosen.rounds, Path(chosen.inside[1]))
        return
    result: dict[str, Any] = {
        "source": source_digest(), "machine": fresh.machine(), "examples": {}
    }  # fmt: skip
    for name in filter(lambda name: chosen.only in name, EXAMPLES):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, __file__, "--rounds", str(chosen.rounds)]
            done = subprocess.run(
                [*command, "--inside", name, f"{folder}/out.json"], cwd=folder, text=True,
                env=fresh.environment(Path(folder), {}), capture_output=True,
            )  # fmt: skip
            if done.returncode:
                print(f"{name}: skipped: {fresh.last_words(done.returncode, done.stderr)}")
                continue
            row = json.loads(Path(folder, "out.json").read_text())
        row["judged"] = judged(row)
        result["examples"][name] = row
        chosen.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        running, held = row["judged"]["running"], row["judged"]["at_most_1.03"]
        print("{}: {:.4f} ({:.4f} to {:.4f}), {}".format(name, *running, held), flush=True)
        for function, ratio in row["judged"]["functions"].items():
            print("    {}: {:.3f} ({:.3f} to {:.3f})".format(function, *ratio), flush=True)


if __name__ == "__main__":
    main()
