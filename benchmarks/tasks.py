"""What a task costs: submit and result in bursts against ThreadPoolExecutor, aio against to_thread.

What is compared takes turns, burst by burst. The function does next to nothing.

usage: tasks.py [--out FILE] [--rounds N]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter
from typing import Any

import numpy as np

import gpuforge as gf

RESULTS = Path(__file__).parent / "results"
BURST = 500


@gf.offload
def double(x: Any) -> Any:
    return x * 2.0


def plain(x: Any) -> Any:
    return x * 2.0


SMALL = np.ones(16)


def burst(submit: Callable[[Any], Any]) -> float:
    """Return the seconds per task of a burst."""
    start = perf_counter()
    futures = [submit(SMALL) for _ in range(BURST)]
    for future in futures:
        future.result()
    return (perf_counter() - start) / BURST


async def turns(call: Callable[[Any], Awaitable[Any]], *, gathered: bool) -> float:
    """Return the seconds per call, one after another or all at once."""
    start = perf_counter()
    if gathered:
        await asyncio.gather(*[call(SMALL) for _ in range(BURST)])
    else:
        for _ in range(BURST):
            await call(SMALL)
    return (perf_counter() - start) / BURST


def spread(values: list[float]) -> dict[str, float]:
    low, middle, high = quantiles(values, n=4)
    return {"median": middle, "lower_quartile": low, "upper_quartile": high}


def bursts(
    rounds: int, one: Executor, pool: Executor, executor: Executor
) -> dict[str, list[float]]:
    """Time bursts: one thread against the lane of a device, several against that of the host."""
    ways: dict[str, Callable[[Any], Any]] = {
        "ThreadPoolExecutor(1)": lambda x: one.submit(plain, x),
        "ThreadPoolExecutor()": lambda x: pool.submit(plain, x),
        "f.submit": double.submit,
        "gf.executor, host": lambda x: executor.submit(plain, x),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 3):
        for name, submit in ways.items():
            seconds = burst(submit)
            if number >= 3:
                times[name].append(seconds)
    return times


async def awaited(rounds: int) -> dict[str, list[float]]:
    ways: dict[str, Any] = {
        "asyncio.to_thread": lambda x: asyncio.to_thread(plain, x),
        "f.aio": double.aio,
    }
    times: dict[str, list[float]] = {}
    for number in range(rounds + 3):
        for gathered in (False, True):
            for name, call in ways.items():
                seconds = await turns(call, gathered=gathered)
                if number >= 3:
                    key = f"{name}, {'all at once' if gathered else 'one after another'}"
                    times.setdefault(key, []).append(seconds)
    return times


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=RESULTS / "tasks.json")
    parser.add_argument("--rounds", type=int, default=40)
    arguments = parser.parse_args()
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor() as pool, gf.executor() as executor:
        times = bursts(arguments.rounds, one, pool, executor)
    times |= asyncio.run(awaited(arguments.rounds))
    pairs = {"f.submit": "ThreadPoolExecutor(1)", "gf.executor, host": "ThreadPoolExecutor()"}
    added = {
        name: spread([a - b for a, b in zip(times[name], times[base], strict=True)])
        for name, base in pairs.items()
    }
    results = {
        "load_average": os.getloadavg()[0],
        "burst": BURST, "seconds_per_task": {k: spread(v) for k, v in times.items()},
        "added_to_thread_pool": added, "raw": times,
    }  # fmt: skip
    for name, values in times.items():
        print(f"{name}: {1e6 * median(values):.1f} µs")
    for name, row in added.items():
        print(f"{name} above {pairs[name]}: {1e6 * row['median']:.1f} µs")
    arguments.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
