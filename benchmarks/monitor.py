"""What it costs to be watched: taking samples, a monitored run against an unmonitored one.

usage: monitor.py [--quick] [--out FILE]

Status 1 where sampling at 1 Hz takes more than 0.5 % of a core, 3 where the 95 % interval of what a
monitored run loses does not exclude 2 %: that proves nothing.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import fmean, median, stdev
from time import perf_counter
from typing import Any

import numpy as np

import gpuforge as gf
from gpuforge import published
from gpuforge.monitor.sample import Sampler

RESULTS = Path(__file__).parent / "results"
MOST_OF_A_CORE, MOST_LOST = 0.005, 0.02
# Student's t for 95 % at both sides (NIST/SEMATECH e-Handbook, 1.3.6.7.2), by degrees of freedom.
T_VALUES = {5: 2.571, 7: 2.365, 9: 2.262, 19: 2.093, 29: 2.045, 59: 2.001}


def sampling(seconds: int) -> dict[str, Any]:
    """Take samples at 1 Hz and count the CPU time of this process, over wall time."""
    sampler = Sampler()
    sampler.take()
    costs = []
    start, cpu = perf_counter(), time.process_time()
    for turn in range(1, seconds + 1):
        time.sleep(max(0.0, start + turn - perf_counter()))
        costs.append(sampler.take().cost_seconds)
    share = (time.process_time() - cpu) / (perf_counter() - start)
    sampler.close()
    return {"share_of_a_core": share, "sample_seconds": median(costs), "samples": len(costs)}


def publishing() -> dict[str, float]:
    """Time what a counted call pays for being seen, and a held call, which pays nothing."""
    count = 100_000
    start = perf_counter()
    for _ in range(count):
        published.count("numpy", 1, 1e-6)
    shown = (perf_counter() - start) / count
    add = gf.offload(lambda x: x + 1.0)
    x = np.ones(16)
    for _ in range(10_000):
        add(x)
    start = perf_counter()
    for _ in range(count):
        add(x)
    return {"count_seconds": shown, "held_call_seconds": (perf_counter() - start) / count}


def work(seconds: float) -> float:
    """Return how many calls of an offloaded function are made in a second."""
    x = np.linspace(0.0, 1.0, 20_000)
    calls, start = 0, perf_counter()
    while (elapsed := perf_counter() - start) < seconds:
        for _ in range(20):
            placed(x)
        calls += 20
    return calls / elapsed


@gf.offload
def placed(x: np.ndarray) -> np.ndarray:
    """Compute something of some microseconds."""
    return np.sqrt(x * x + 1.0) * 0.5


def inside(on: bool) -> None:
    """Sample in a thread of this process, as ``gf.metrics(every=1)`` does."""
    gf.metrics(every=1.0 if on else 0.0)
    time.sleep(0.2)  # what its thread does once, when it begins, is not what it costs


class Outside:
    """``gpuforge top`` in another process, which rests while it is not measured."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "gpuforge", "top", "--interval", "1"], stdout=subprocess.PIPE
        )
        assert self._process.stdout
        self._process.stdout.readline()  # it has begun to look
        os.set_blocking(self._process.stdout.fileno(), False)
        self(False)

    def __call__(self, on: bool) -> None:
        self._process.send_signal(signal.SIGCONT if on else signal.SIGSTOP)
        assert self._process.stdout
        self._process.stdout.read()

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()


def lost(switch: Callable[[bool], None], pairs: int, seconds: float) -> dict[str, Any]:
    """Return what being watched takes, in pairs of blocks one after the other, in turns first."""
    ratios = []
    for turn in range(pairs):
        rates: dict[bool, float] = {}
        for on in (turn % 2 == 0, turn % 2 == 1):
            switch(on)
            rates[on] = work(seconds)
            switch(False)
        ratios.append(math.log(rates[False] / rates[True]))
    half = T_VALUES[pairs - 1] * stdev(ratios) / math.sqrt(pairs)
    middle = fmean(ratios)
    return {
        "loss_ratio": math.expm1(middle),
        "interval_95": [math.expm1(middle - half), math.expm1(middle + half)],
        "log_ratios": ratios,
        "pairs": pairs,
        "block_seconds": seconds,
    }


def main() -> int:
    """Measure, print, write the results, and judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="half a minute in place of minutes")
    parser.add_argument("--out", type=Path, default=RESULTS / "monitor.json")
    arguments = parser.parse_args()
    pairs, block, samples = (6, 1.0, 5) if arguments.quick else (60, 2.0, 60)
    work(1.0)
    outside = Outside()
    try:
        found = {
            "sampling": sampling(samples),
            "publishing": publishing(),
            "watched from inside": lost(inside, pairs, block),
            "watched from outside": lost(outside, pairs, block),
            "load_before": os.getloadavg()[0],
        }
    finally:
        outside.close()
    shown, cost = found["publishing"], found["sampling"]
    print(f"a sample takes {1e3 * cost['sample_seconds']:.2f} ms of CPU time;"
          f" at 1 Hz {100 * cost['share_of_a_core']:.2f} % of a core")  # fmt: skip
    print(f"a counted call pays {1e6 * shown['count_seconds']:.2f} µs for being seen,"
          f" a held call takes {1e6 * shown['held_call_seconds']:.2f} µs in all")  # fmt: skip
    proven = True
    for name in ("watched from inside", "watched from outside"):
        low, high = (100 * bound for bound in found[name]["interval_95"])
        print(f"{name}: {100 * found[name]['loss_ratio']:+.2f} % slower [{low:+.2f}, {high:+.2f}]")
        proven = proven and found[name]["interval_95"][1] < MOST_LOST
    arguments.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if cost["share_of_a_core"] > MOST_OF_A_CORE:
        return 1
    return 0 if proven else 3


if __name__ == "__main__":
    sys.exit(main())
