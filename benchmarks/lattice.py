"""The lattice's work, placed by gpuforge and pinned to each backend.

usage: lattice.py [--repeats N] [--quick] [--only NAME,...] [--out FILE]

Each workload runs in four processes that take turns: placed freely, and pinned by a session to
NumPy, PyTorch and JAX, where they are installed. Every process has a cache folder of its own, with
what `gpuforge calibrate` measured at the beginning, makes each workload until it has taken 3 s or
200 calls (libraries opened, graphs compiled, placement learned), and is then timed. Shown are
medians of the processes' medians; *best single* is the pinned backend with the lowest, *ratio* is
placed by best single. Paths and analyses of whole grids are closed forms, the same code everywhere;
those around removed nodes need SciPy.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import fresh

RESULTS = Path(__file__).parent / "results"
PLACED, LIBRARIES = "placed", ("numpy", "torch", "jax")
WARM_SECONDS, WARM_CALLS = 3.0, 200
TIMED_SECONDS, TIMED_SAMPLES = 2.0, 25
SAMPLE_SECONDS = 0.005
BARS = {"xor of 5": 0.20e-3, "path through 10000": 71.9e-3, "10 products of 256": 60e-3,
        "100 analysed": 1.1, "50 xor and 50 products of 512": 0.510}  # fmt: skip
"""Seconds that are to be beaten on a CPU."""


# ---------------------------------------------------------------- in a process of its own


def workloads() -> dict[str, Callable[[], Any]]:
    """Return each workload as a call without arguments, what it needs made before."""
    import numpy as np

    import gpuforge as gf
    from gpuforge.lattice import Lattice, batch

    rng = np.random.default_rng(0)
    lattice, few = Lattice(4, 10).build(), np.arange(5)
    big, middle = (rng.random((2, n, n), dtype=np.float32) for n in (1024, 512))
    ten = [rng.random((256, 256), dtype=np.float32) for _ in range(20)]

    def mixed() -> None:
        for _ in range(50):
            lattice.xor_transform(few)
            gf.matmul(*middle)

    found: dict[str, Callable[[], Any]] = {
        "xor of 5": lambda: lattice.xor_transform(few),
        "path through 10000": lambda: lattice.shortest_path(0, 9999),
        "product of 1024": lambda: gf.matmul(*big),
        "10 products of 256": lambda: gf.matmul(np.stack(ten[:10]), np.stack(ten[10:])),
        "100 analysed": lambda: [Lattice(4, 10, seed=k).build().analyze() for k in range(100)],
        "50 xor and 50 products of 512": mixed,
    }
    if find_spec("scipy"):
        some = rng.choice(np.arange(1, 9999), 1000, replace=False)
        holed = Lattice(4, 10, removed=some).build()
        holes = [rng.choice(256, 12, replace=False) for _ in range(20)]
        many = [Lattice(4, 4, seed=k, removed=gone).build() for k, gone in enumerate(holes)]
        found |= {
            "path around 1000 of 10000": lambda: holed.shortest_path(0, 9999),
            "weighted path through 10000": lambda: lattice.shortest_path(0, 9999, weighted=True),
            "20 of 256 with holes analysed": lambda: batch(many).run(["analyze"] * 20),
        }
    return found


def timed(work: Callable[[], Any]) -> dict[str, Any]:
    """Call a workload until it is settled, then time samples of at least 5 ms."""
    begin = perf_counter()
    warm: list[float] = []
    while len(warm) < WARM_CALLS and perf_counter() - begin < WARM_SECONDS:
        start = perf_counter()
        work()
        warm.append(perf_counter() - start)
    calls = max(1, int(SAMPLE_SECONDS / max(median(warm), 1e-7)))
    samples: list[float] = []
    begin = perf_counter()
    while len(samples) < 3 or (
        len(samples) < TIMED_SAMPLES and perf_counter() - begin < TIMED_SECONDS
    ):
        start = perf_counter()
        for _ in range(calls):
            work()
        samples.append((perf_counter() - start) / calls)
    return {"first_seconds": warm[0], "warm_calls": len(warm), "samples": samples}


def serve(task: dict[str, Any]) -> None:
    """Time the workloads in this process, pinned or placed."""
    import gpuforge as gf

    choice = {} if task["way"] == PLACED else {"backend": task["way"]}
    with gf.session(**choice):
        every = workloads()
        if unknown := set(task["only"]) - set(every):
            raise SystemExit(f"no such workload: {', '.join(sorted(unknown))}")
        rows = {n: timed(w) for n, w in every.items() if not task["only"] or n in task["only"]}
        ran = {name: count.calls for name, count in gf.matmul.stats().counts.items()}
    fresh.answer(task, {"rows": rows, "products_ran_on": ran})


# ---------------------------------------------------------------- all processes


def summarise(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return for each workload the time of each way, the best single one and the ratio to it."""
    table = []
    for name in found[0]["rows"]:
        times: dict[str, list[float]] = {}
        for process in found:
            samples = process["rows"][name]["samples"]
            times.setdefault(process["way"], []).append(median(samples))
        single = {way: median(t) for way, t in times.items() if way != PLACED}
        best = min(single, key=lambda way: single[way])
        ratios = [a / b for a, b in zip(times[PLACED], times[best], strict=True)]
        table.append({
            "workload": name, "seconds": {way: fresh.spread(t) for way, t in times.items()},
            "best_single": best, "ratio": fresh.spread(ratios), "bar_seconds": BARS.get(name),
        })  # fmt: skip
    return table


def show(table: list[dict[str, Any]]) -> None:
    ways = list(table[0]["seconds"])
    print(
        f"{'ms':32}" + "".join(f"{way:>10}" for way in ways) + "  bar         placed by best single"
    )
    for row in table:
        cells = "".join(f"{1e3 * row['seconds'][way]['median']:10.3f}" for way in ways)
        bar, mine = row["bar_seconds"], row["seconds"][PLACED]["median"]
        word = f"{1e3 * bar:6.1f} {fresh.verdict(mine < bar)}" if bar else "-"
        print(f"{row['workload']:32}{cells}  {word:12}{fresh.shown(row['ratio'])} "
              f"of {row['best_single']}")  # fmt: skip


def processes(
    ways: list[str], arguments: argparse.Namespace, calibrated: Path
) -> list[dict[str, Any]]:
    """Run a process for each way in turns, another one first in each round."""
    found = []
    for repeat in range(1 if arguments.quick else arguments.repeats):
        for way in ways[repeat % len(ways) :] + ways[: repeat % len(ways)]:
            task = {"way": way, "only": arguments.only, "gpuforge": True}
            with tempfile.TemporaryDirectory() as cache:
                shutil.copytree(calibrated, cache, dirs_exist_ok=True)
                found.append({"way": way, **fresh.run(__file__, task, cache)})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one process of each kind")
    parser.add_argument("--only", type=lambda text: text.split(","), default=[])
    parser.add_argument("--out", type=Path, default=RESULTS / "lattice.json")
    parser.add_argument("--task", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.task:
        serve(fresh.read_task(arguments.task))
        return
    facts = fresh.machine()
    ways = [PLACED, *(name for name in LIBRARIES if find_spec(name))]
    with tempfile.TemporaryDirectory() as calibrated:
        command = [sys.executable, "-m", "gpuforge", "calibrate"]
        subprocess.run(command, check=True, env=fresh.environment(calibrated, {}))
        found = processes(ways, arguments, Path(calibrated))
    table = summarise(found)
    show(table)
    content = {"machine": facts, "table": table, "processes": found}
    rounded = json.loads(json.dumps(content), parse_float=lambda text: float(f"{float(text):.4g}"))
    arguments.out.write_text(json.dumps(rounded) + "\n")


if __name__ == "__main__":
    main()
