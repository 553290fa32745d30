"""How often a comparison of a thing with itself raises an alarm, and how often 5 % are found.

usage: bench.py [--form FORM] [--load N] [--seconds LIMIT] [--out FILE]

200 comparisons of a callable with itself and 50 with one that does 5 % more, in process, in mixed
order, each at most LIMIT seconds, beside N processes that work in bursts of 1 to 50 ms. In each of
three forms: what is compared is made anew for each round (`remake=True`); is made once, over one
array for both; is made once, each over an equal array of its own. The last cannot prove 5 %, so
only its alarms count. Exit status 1 where a form raises more than 2 alarms, or finds fewer than 40.

`--form` measures one of them and keeps what FILE says of the others.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gpuforge.profiler.compare import Comparison, compare

RESULTS = Path(__file__).parent / "results"
FORMS = ("made anew", "one array", "own arrays")
SAME, MORE = 200, 50
MOST_ALARMS, LEAST_FOUND = 2, 40
STEPS = 100
BURSTS = """
import random, time
while True:
    end = time.perf_counter() + random.uniform(1e-3, 50e-3)
    while time.perf_counter() < end:
        pass
    time.sleep(random.uniform(0, 50e-3))
"""


def numbers() -> Any:
    return np.linspace(0.0, 1.0, 2_000)


def arithmetic(steps: int, _: Any = None) -> Callable[[], Any]:
    def run() -> int:
        total = 0
        for step in range(10 * steps):
            total += step * step
        return total

    return run


def arrays(steps: int, values: Any = None) -> Callable[[], Any]:
    values = numbers() if values is None else values

    def run() -> Any:
        for _ in range(steps):
            result = values * 2.0
        return result

    return run


def objects(steps: int, _: Any = None) -> Callable[[], Any]:
    def run() -> dict[int, list[int]]:
        for _ in range(steps):
            made = {number: [number] for number in range(10)}
        return made

    return run


WORKLOADS = (arithmetic, arrays, objects)


def compared(form: str, workload: Callable[..., Any], steps: int, limit: float) -> Comparison:
    """Compare a workload with one of `steps` steps."""
    if form == "made anew":
        return compare(partial(workload, STEPS), partial(workload, steps), seconds=limit,
                       remake=True)  # fmt: skip
    data = numbers() if form == "one array" else None
    return compare(workload(STEPS, data), workload(steps, data), seconds=limit)


@contextmanager
def load(count: int) -> Iterator[None]:
    """Keep processes at work meanwhile."""
    busy = [subprocess.Popen([sys.executable, "-c", BURSTS]) for _ in range(count)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def measured(form: str, limit: float) -> dict[str, Any]:
    """Return what came of the comparisons of one form."""
    trials = [(steps, number) for steps, count in ((STEPS, SAME), (STEPS * 105 // 100, MORE))
              for number in range(count)]  # fmt: skip
    random.Random(1).shuffle(trials)
    rows, start = [], time.time()
    for steps, number in trials:
        workload = WORKLOADS[number % len(WORKLOADS)]
        began = time.perf_counter()
        found = asdict(compared(form, workload, steps, limit))
        for name in ("base", "new", "change"):  # value and interval; no interval of few rounds
            found[name] = [value if math.isfinite(value) else None for value in found[name]]
        rows.append({
            "workload": workload.__name__, "more": steps / STEPS - 1, **found,
            "seconds": time.perf_counter() - began, "load": os.getloadavg()[0],
        })  # fmt: skip
    alarms = sum(not r["more"] and r["verdict"] in ("faster", "slower") for r in rows)
    found_rows = sum(bool(r["more"]) and r["verdict"] == "slower" for r in rows)
    loads = sorted(row["load"] for row in rows)
    return {
        "same": SAME, "alarms": alarms, "more": MORE, "found": found_rows,
        "elapsed_seconds": time.time() - start, "load_median": loads[len(loads) // 2],
        "limit_seconds": limit, "comparisons": rows,
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--form", choices=FORMS)
    parser.add_argument("--load", type=int, default=2 * (os.cpu_count() or 1))
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--out", type=Path, default=RESULTS / "bench.json")
    arguments = parser.parse_args()
    forms = json.loads(arguments.out.read_text()).get("forms", {}) if arguments.form else {}
    passed = True
    for form in FORMS if arguments.form is None else (arguments.form,):
        with load(arguments.load):
            found = forms[form] = {"processes_beside": arguments.load,
                                   **measured(form, arguments.seconds)}  # fmt: skip
        needed = LEAST_FOUND if form != "own arrays" else 0
        print(f"{form}: {SAME} comparisons of a thing with itself: {found['alarms']} alarms "
              f"(at most {MOST_ALARMS}); {MORE} with one that does 5 % more: {found['found']} "
              f"found (at least {needed}); {found['elapsed_seconds']:.0f} s, load "
              f"{found['load_median']:.1f} on {os.cpu_count()} cores", flush=True)  # fmt: skip
        passed &= found["alarms"] <= MOST_ALARMS and found["found"] >= needed
        text = json.dumps({"forms": forms}, allow_nan=False)
        arguments.out.write_text(text.replace("}, {", "},\n{") + "\n")
    return int(not passed)


if __name__ == "__main__":
    sys.exit(main())
