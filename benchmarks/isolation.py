"""What isolation costs: calls in a worker process, interleaved with the same calls in this one.

usage: isolation.py [--backends numpy,torch,opencl] [--rounds 100] [--out FILE]

Two functions over 8 MB of float64 (float32 for MLX): one returns as much, the other one number. For
each, the median over rounds of (seconds in a worker - seconds here), with the quartiles; besides, a
function that is called whole, and how long a worker takes to start.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter
from typing import Any

import numpy as np

import gpuforge as gf
from gpuforge.errors import BackendUnavailable
from gpuforge.runtime.workers.functions import call_isolated, close_idle

RESULTS = Path(__file__).parent / "results"
NBYTES, WARM = 8 << 20, 5


def scaled(x: Any) -> Any:
    return x * 2 + 1


def total(x: Any) -> Any:
    return (x * x).sum()


def seconds(call: Callable[..., Any], *args: Any) -> float:
    start = perf_counter()
    call(*args)
    return perf_counter() - start


def compared(here: Callable[..., Any], there: Callable[..., Any], x: Any, rounds: int) -> Any:
    """Return what calls there take beyond calls here, in turns."""
    for _ in range(WARM):
        here(x), there(x)
    pairs = [(seconds(here, x), seconds(there, x)) for _ in range(rounds)]
    added = quantiles((b - a for a, b in pairs), n=4)
    return {
        "here_seconds": median(a for a, _ in pairs),
        "worker_seconds": median(b for _, b in pairs),
        "added_seconds": dict(
            zip(("lower_quartile", "median", "upper_quartile"), added, strict=True)
        ),
        "least_added_seconds": min(b for _, b in pairs) - min(a for a, _ in pairs),
    }


def measure(backend: str, rounds: int) -> dict[str, Any]:
    dtype = np.dtype("f4" if backend == "mlx" else "f8")
    x = np.random.default_rng(0).random(NBYTES // dtype.itemsize).astype(dtype)
    found: dict[str, Any] = {}
    with gf.session(history=False, explore_share=0):
        for function in (scaled, total):
            here = gf.offload(backend=backend, isolate=False)(function)
            there = gf.offload(backend=backend, isolate=True)(function)
            found[function.__name__] = compared(here, there, x, rounds)
            placed = there.stats().counts
            assert placed[next(n for n in placed if n.endswith(":worker"))].calls == rounds + WARM
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backends", default="numpy,torch,jax,mlx,opencl")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--out", type=Path, default=RESULTS / "isolation.json")
    chosen = parser.parse_args()
    start = seconds(call_isolated, os.getpid)
    found: dict[str, Any] = {}
    for backend in chosen.backends.split(","):
        try:
            found[backend] = measure(backend, chosen.rounds)
        except BackendUnavailable as missing:
            print(f"{backend}: {missing}")
            continue
        for name, row in found[backend].items():
            added = {k: f"{1e3 * v:.2f} ms" for k, v in row["added_seconds"].items()}
            least = 1e3 * row["least_added_seconds"]
            print(f"{backend:8} {name:8} added {added}, least {least:.2f} ms")
    x = np.random.default_rng(0).random(NBYTES // 8)
    close_idle()  # a worker keeps freed memory as the process does that starts it
    whole = {
        function.__name__: compared(
            function, lambda x, f=function: call_isolated(f, (x,)), x, chosen.rounds
        )
        for function in (scaled, total)
    }
    for name, row in whole.items():
        print(f"whole    {name:8} added {1e3 * row['added_seconds']['median']:.2f} ms")
    print(f"a first worker takes {1e3 * start:.0f} ms to start and answer")
    chosen.out.parent.mkdir(exist_ok=True)
    content = {
        "machine": platform.platform(), "cores": os.cpu_count(), "load": os.getloadavg(),
        "bytes": NBYTES, "start_seconds": start, "backends": found, "whole": whole,
    }  # fmt: skip
    chosen.out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
