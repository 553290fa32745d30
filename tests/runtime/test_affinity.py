"""A device that slows down is noticed: the cores are cut to one while a program runs.

What the policy does is tested on a clock of its own (`tests/contract/test_slowdown.py`). Here the
cut is real, and the machine may be busy: only a choice several times too slow is wrong.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

WITHIN = 200
"""Calls after the cut by which the choice must be right again."""
MARGIN = 4.0
"""Two backends whose medians are nearer than this are both right."""
PROGRAM = """
import os, sys
cores = sorted(os.sched_getaffinity(0))
import gpuforge as gf
from gpuforge.runtime.threads import contention
contention.prepare_environment()
import numpy as np, torch
from statistics import median
from time import perf_counter

name, size, within, margin = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])

def waves(x):
    xp = gf.namespace(x)
    return xp.exp(xp.sin(x)) * xp.cos(x)

def product(x):
    return x @ x

function = {"waves": waves, "product": product}[name]
placed = gf.offload(function)
x = np.random.default_rng(0).random((size, size), dtype=np.float32)

def counts():
    return {n: c.calls for n, c in placed.stats().counts.items()}

def settle(calls):
    for _ in range(calls - 20):
        placed(x)
    before = counts()
    for _ in range(20):
        placed(x)
    after = counts()
    return max(after, key=lambda n: after[n] - before.get(n, 0))

def medians():
    direct = {
        "numpy": lambda: function(x),
        "torch:cpu": lambda: function(torch.from_numpy(x)).numpy(),
    }
    times = {name: [] for name in direct}
    for _ in range(15):
        for name, call in direct.items():
            start = perf_counter()
            call()
            times[name].append(perf_counter() - start)
    return {name: median(seconds) for name, seconds in times.items()}

with gf.session(history=False, backends=["numpy", "torch"]) as session:
    session.find("torch")
    first = settle(150)
    for thread in os.listdir("/proc/self/task"):  # those of PyTorch and OpenBLAS too
        os.sched_setaffinity(int(thread), {cores[0]})
    second = settle(within)
    times = medians()
    print(first, second, times)
    assert times[second] <= margin * min(times.values())
"""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="affinity cannot be set here")
@pytest.mark.parametrize(("name", "size"), [("waves", 384), ("product", 128)])
def test_placement_is_right_again_within_200_calls_on_one_core(
    torch: Any, name: str, size: int
) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("only one core here")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, name, str(size), str(WITHIN), str(MARGIN)],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
