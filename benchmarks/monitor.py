"""What it costs to be watched: taking samples, a monitored run against an unmonitored one.

usage: monitor.py [--quick] [--pairs N] [--add] [--out FILE]

Blocks of one second, watched and unwatched, in pairs, the order turned round from pair to pair. A
program is watched from inside by ``gf.metrics``, from outside by ``gpuforge top`` and ``gpuforge
serve`` together, which are stopped in the other block. Pairs in which nothing is switched stand
between them: what they show is the machine, whose seconds differ by more than 2 % by themselves. So
samples are taken ten times a second: each costs the same, and a tenth of what ten lose is what one
loses. With --add, the pairs in FILE count, too.

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
BLOCK_SECONDS, TIMES_AS_OFTEN = 1.0, 10
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


def work(seconds: float) -> tuple[float, float]:
    """Return the wall time and this process's processor time of a call of an offloaded function."""
    x = np.linspace(0.0, 1.0, 20_000)
    calls, start, used = 0, perf_counter(), time.process_time()
    while (elapsed := perf_counter() - start) < seconds:
        for _ in range(20):
            placed(x)
        calls += 20
    return elapsed / calls, (time.process_time() - used) / calls


@gf.offload
def placed(x: np.ndarray) -> np.ndarray:
    """Compute something of some microseconds."""
    return np.sqrt(x * x + 1.0) * 0.5


def inside(on: bool) -> None:
    """Sample in a thread of this process, as ``gf.metrics(every=1)`` does."""
    gf.metrics(every=1.0 / TIMES_AS_OFTEN if on else 0.0)
    time.sleep(0.2)  # what its thread does once, when it begins, is not what it costs


class Outside:
    """``gpuforge top`` and ``gpuforge serve`` in processes that rest while nothing is measured."""

    def __init__(self) -> None:
        every = f"{1000 // TIMES_AS_OFTEN}ms"
        forms = (["top", "--interval", every], ["serve", "--port", "0", "--interval", every])
        self._processes = [
            subprocess.Popen(
                [sys.executable, "-m", "gpuforge", *form],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            for form in forms
        ]
        for one in self._processes:
            assert one.stdout
            one.stdout.readline()  # it has begun to look
            os.set_blocking(one.stdout.fileno(), False)
        time.sleep(10.0)  # the server has said what it has to say of the machine
        self(False)

    def __call__(self, on: bool) -> None:
        for one in self._processes:
            one.send_signal(signal.SIGCONT if on else signal.SIGSTOP)
            assert one.stdout
            one.stdout.read()

    def close(self) -> None:
        """End them."""
        for one in self._processes:
            one.kill()
            one.communicate()


def pair(switch: Callable[[bool], None], first: bool) -> dict[str, float]:
    """Return the log of how much longer a watched call takes than an unwatched one."""
    times: dict[bool, tuple[float, float]] = {}
    for on in (first, not first):
        switch(on)
        times[on] = work(BLOCK_SECONDS)
        switch(False)
    wall, used = (math.log(w / u) for w, u in zip(times[True], times[False], strict=True))
    return {"wall": wall, "processor": used}


def interval(ratios: list[float]) -> list[float]:
    """Return the mean and its 95 % interval as shares that are lost at one sample a second."""
    degrees = max(n for n in T_VALUES if n < len(ratios))
    middle, half = fmean(ratios), T_VALUES[degrees] * stdev(ratios) / math.sqrt(len(ratios))
    return [math.expm1(bound) / TIMES_AS_OFTEN for bound in (middle, middle - half, middle + half)]


def main() -> int:
    """Measure, print, write the results, and judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="half a minute in place of minutes")
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--add", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS / "monitor.json")
    arguments = parser.parse_args()
    pairs, samples = (6, 5) if arguments.quick else (arguments.pairs, 10)
    known = arguments.add and arguments.out.exists()
    found = json.loads(arguments.out.read_text()) if known else {"pieces": [], "pairs": {}}
    outside = Outside()
    try:
        cost, shown = sampling(samples), publishing()
        found["pieces"].append({"sampling": cost, "publishing": shown, "load": os.getloadavg()[0]})
        work(1.0)
        forms = {"nothing switched": lambda _: None, "inside": inside, "outside": outside}
        for turn in range(pairs):
            for name, switch in forms.items():
                found["pairs"].setdefault(name, []).append(pair(switch, turn % 2 == 0))
    finally:
        outside.close()
    print(f"a sample takes {1e3 * cost['sample_seconds']:.2f} ms of CPU time;"
          f" at 1 Hz {100 * cost['share_of_a_core']:.2f} % of a core")  # fmt: skip
    print(f"a counted call pays {1e6 * shown['count_seconds']:.2f} µs for being seen,"
          f" a held call takes {1e6 * shown['held_call_seconds']:.2f} µs in all")  # fmt: skip
    proven = True
    for name, ratios in found["pairs"].items():
        for clock in ("wall", "processor"):
            lost, low, high = interval([one[clock] for one in ratios])
            found.setdefault("lost", {})[f"{name}, {clock}"] = [lost, low, high]
            print(f"{name}, {clock} time: {100 * lost:+.2f} % longer"
                  f" [{100 * low:+.2f}, {100 * high:+.2f}], {len(ratios)} pairs")  # fmt: skip
            proven = proven and (clock != "wall" or high < MOST_LOST)
    arguments.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if cost["share_of_a_core"] > MOST_OF_A_CORE:
        return 1
    return 0 if proven else 3


if __name__ == "__main__":
    sys.exit(main())
