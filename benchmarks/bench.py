"""How often a comparison of a thing with itself raises an alarm, and how often 5 % are found.

usage: bench.py [--out FILE] [--seconds LIMIT]

200 comparisons of a callable with itself and 50 with one that does 5 % more, in process, in mixed
order, each at most LIMIT seconds. Exit status 1 where more than 2 alarms are raised or fewer than
40 changes are found.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from gpuforge.profiler.compare import compare

RESULTS = Path(__file__).parent / "results"
SAME, MORE = 200, 50
MOST_ALARMS, LEAST_FOUND = 2, 40
STEPS = 100


def arithmetic(steps: int) -> Callable[[], Any]:
    def run() -> int:
        total = 0
        for step in range(10 * steps):
            total += step * step
        return total

    return run


def arrays(steps: int) -> Callable[[], Any]:
    values = np.linspace(0.0, 1.0, 2_000)

    def run() -> Any:
        for _ in range(steps):
            result = values * 2.0
        return result

    return run


def objects(steps: int) -> Callable[[], Any]:
    def run() -> dict[int, list[int]]:
        for _ in range(steps):
            made = {number: [number] for number in range(10)}
        return made

    return run


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=RESULTS / "bench.json")
    parser.add_argument("--seconds", type=float, default=1.0)
    arguments = parser.parse_args()
    workloads = (arithmetic, arrays, objects)
    trials = [(steps, number) for steps, count in ((STEPS, SAME), (STEPS * 105 // 100, MORE))
              for number in range(count)]  # fmt: skip
    random.Random(1).shuffle(trials)
    rows, start = [], time.time()
    for steps, number in trials:
        workload = workloads[number % len(workloads)]
        began = time.perf_counter()
        found = compare(workload(STEPS), workload(steps), seconds=arguments.seconds)
        rows.append({
            "workload": workload.__name__, "more": steps / STEPS - 1, **asdict(found),
            "seconds": time.perf_counter() - began, "load": os.getloadavg()[0],
        })  # fmt: skip
    alarms = [r for r in rows if not r["more"] and r["verdict"] in ("faster", "slower")]
    found_rows = [r for r in rows if r["more"] and r["verdict"] == "slower"]
    loads = sorted(row["load"] for row in rows)
    summary = {
        "same": SAME, "alarms": len(alarms), "more": MORE, "found": len(found_rows),
        "elapsed_seconds": time.time() - start, "load_median": loads[len(loads) // 2],
        "limit_seconds": arguments.seconds,
    }  # fmt: skip
    print(
        f"{SAME} comparisons of a thing with itself: {len(alarms)} alarms (at most {MOST_ALARMS})"
    )
    print(f"{MORE} with one that does 5 % more: {len(found_rows)} found (at least {LEAST_FOUND})")
    print(f"{summary['elapsed_seconds']:.0f} s, load {summary['load_median']:.1f} on "
          f"{os.cpu_count()} cores")  # fmt: skip
    for row in rows:
        for name in ("base", "new", "change"):  # value and interval; no interval of few rounds
            row[name] = [value if math.isfinite(value) else None for value in row[name]]
    text = json.dumps({**summary, "comparisons": rows}, allow_nan=False)
    arguments.out.write_text(text.replace("}, {", "},\n{") + "\n")
    return int(len(alarms) > MOST_ALARMS or len(found_rows) < LEAST_FOUND)


if __name__ == "__main__":
    sys.exit(main())
