"""Whether moving arrays through a backend costs more than the library's own copy.

usage: transfer.py [--out FILE] [--only NAME]

Sizes from 4 KiB to 64 MiB, 10 MB among them, each way, on every backend with memory of its own. A
backend that shares the host's memory (`torch:cpu`, `jax:cpu`) copies nothing and is left out.

Like is compared with like: each copy is called as a backend's is, through a function of Python (0.2
µs: as much as 15 % of MLX's smallest copy), and each way to the host fills a NumPy array of its
own. The pages of a fresh array are given by the system while it is filled, which takes longer than
the copy itself; those of a freed one are used again: one and the same copy takes 13 or 150 ms by
chance. Therefore the two ways take turns in an order drawn anew each time, and the ratio is the
median of the ratios of the turns. Medians and quartiles are in seconds, and the raw samples are
kept.

PyOpenCL's `get` keeps up to ten host arrays alive with the device's array, until its `finish` is
called. Left alone, they push each other and the arrays of the other way out of the caches: 4 MiB
took twice as long either way, and 1.1 to 1.3 times as long where what it freed had been longest
away. Therefore `finish` is called after each copy of the library, outside the time. The backend
fills an array and keeps none.

Where a device can stage its large copies (`gpuforge.runtime.staging`), they are measured as the
check at its opening left them, and once more with staging forced on and off.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Callable
from pathlib import Path
from random import Random
from statistics import median, quantiles
from time import perf_counter
from typing import Any

import numpy as np

import gpuforge as gf
from gpuforge.runtime.staging import LEAST_BYTES

RESULTS = Path(__file__).parent / "results"
SIZES = (*(2**power for power in range(12, 27, 2)), 10_000_000)
ROUNDS, LEAST_SECONDS = 31, 0.15
Copies = tuple[Callable[[Any], Any], Callable[[Any], Any], Callable[[Any], Any]]


def own_copies(backend: Any) -> Copies | None:
    """Return the library's own copy to the device, from it, and its wait; None where none is."""
    library, _, device = backend.name.partition(":")
    if library == "torch" and device != "cpu":
        torch = backend.torch
        return (lambda a: torch.from_numpy(a).to(backend.device), lambda t: t.cpu().numpy(),
                backend.wait)  # fmt: skip
    if library == "cupy":
        return (lambda a: backend.cupy.asarray(a), lambda a: backend.cupy.asnumpy(a),
                backend.wait)  # fmt: skip
    if library == "jax" and not device.startswith("cpu"):
        jax = backend.jax
        return (lambda a: jax.device_put(a, backend.device), lambda a: np.array(a),
                backend.wait)  # fmt: skip
    if library == "mlx":
        return lambda a: backend.mx.array(a), lambda a: np.array(a), backend.wait
    if library == "dpnp":
        dpnp, queue = backend.dpnp, backend.queue
        return (lambda a: dpnp.asarray(a, sycl_queue=queue), lambda a: dpnp.asnumpy(a),
                backend.wait)  # fmt: skip
    if library == "opencl":
        from pyopencl.array import to_device

        pool = backend.pool
        return (lambda a: to_device(backend.queue, a, allocator=pool), lambda a: a.get(),
                backend.wait)  # fmt: skip
    return None


def timed(call: Callable[[Any], Any], value: Any, wait: Callable[[Any], Any]) -> float:
    """Return the seconds that a copy takes, until it is done."""
    start = perf_counter()
    wait(call(value))
    return perf_counter() - start


def measure(backend: Any, copies: Copies, size: int) -> dict[str, dict[str, list[float]]]:
    """Return the samples of both ways, by direction and by who copies."""
    to_device, to_host, wait = copies
    draw, done = Random(size), lambda: None
    host = np.random.default_rng(0).random(size // 4, dtype=np.float32)
    samples: dict[str, dict[str, list[float]]] = {}
    with backend.scope():
        ours, theirs = backend.put(host), to_device(host)
        wait([ours] if backend.name.startswith("mlx") else ours)
        ways = {
            "to device": {"gpuforge": (backend.put, host, wait),
                          "library": (to_device, host, wait)},
            "to host": {"gpuforge": (backend.get, ours, lambda done: None),
                        "library": (to_host, theirs, lambda done: None)},
        }  # fmt: skip
        for direction, pair in ways.items():
            found: dict[str, list[float]] = {"gpuforge": [], "library": []}
            start, turn = perf_counter(), 0
            while turn < ROUNDS or perf_counter() - start < LEAST_SECONDS:
                for who in draw.sample(list(pair), 2):
                    seconds = timed(*pair[who])
                    if turn:  # the first turn loads what is loaded once
                        found[who].append(seconds)
                    getattr(theirs, "finish", done)()
                turn += 1
            samples[direction] = found
    return samples


def spread(values: list[float]) -> dict[str, float]:
    low, middle, high = quantiles(values, n=4)
    return {"median": middle, "lower_quartile": low, "upper_quartile": high}


def ways_to_copy(backend: Any, size: int) -> dict[str, dict[str, str] | None]:
    """Return the ways to measure copies of `size`, by name: which of them not to stage, and why.

    The way that the check left comes last, so that the backend is left in it.
    """
    staging = getattr(backend, "staging", None)
    if staging is None or size < LEAST_BYTES:
        return {"as placed": None}
    return {
        "plain": dict.fromkeys(staging.refused, "measured plainly"),
        "staged": dict.fromkeys(staging.refused, ""),
        "as placed": staging.refused,
    }


def row(
    backend: Any, size: int, copies_are: str, direction: str, found: dict[str, list[float]]
) -> dict[str, Any]:
    """Return what is kept of one size and direction, and print its middle."""
    turns = zip(found["gpuforge"], found["library"], strict=True)
    ratio = median(ours / theirs for ours, theirs in turns)
    print(f"{backend.name:14}{direction:10}{size:>10} B {copies_are:10}"
          f"{1e6 * median(found['gpuforge']):>10.1f} µs, "
          f"{ratio:.2f} times the library's own")  # fmt: skip
    return {
        "backend": backend.name,
        "version": backend.version,
        "bytes": size,
        "direction": direction,
        "copies": copies_are,
        "ratio": ratio,
        **{who: spread(s) for who, s in found.items()},
        "samples_seconds": {w: s[:40] for w, s in found.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=RESULTS / "transfer.json")
    parser.add_argument("--only", default="", help="backends whose names begin so")
    arguments = parser.parse_args()
    rows, staging = [], {}
    with gf.session(history=False) as session:
        for library in session.libraries.values():
            session.openings.open(library)
        devices = [b for library in session.libraries.values() for b in library.devices]
        for backend in devices:  # also those that a session uses only where they are named
            if not backend.name.startswith(arguments.only):
                continue
            copies = own_copies(backend)
            if copies is None:
                print(f"{backend.name}: shares the host's memory")
                continue
            for size in SIZES:
                for copies_are, refused in ways_to_copy(backend, size).items():
                    if refused is not None:
                        backend.staging.refused = refused
                    for direction, found in measure(backend, copies, size).items():
                        rows.append(row(backend, size, copies_are, direction, found))
            staging[backend.name] = getattr(getattr(backend, "staging", None), "refused", {})
    machine = {"cpu": platform.processor() or platform.machine(), "cores": os.cpu_count()}
    arguments.out.parent.mkdir(exist_ok=True)
    arguments.out.write_text(
        json.dumps({"machine": machine, "plain": staging, "rows": rows}) + "\n"
    )


if __name__ == "__main__":
    main()
