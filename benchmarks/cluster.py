"""What a task costs on a local cluster above Dask's own: `Cluster.map` beside `Client.map`.

usage: cluster.py [--quick] [--out FILE]

A local cluster of two processes. The same function is called for the same items by a loop here, by
Dask's own `Client.map` and `gather` (a task for each item), by Dask with chunks of the best fixed
size of a sweep, and by gpuforge. They take turns; medians are told. Target: gpuforge takes at most
1.1 times as long as the best chunks by hand, and less than Dask alone.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

import gpuforge as gf

RESULTS = Path(__file__).parent / "results" / "cluster.json"
CHUNKS = (1, 10, 100, 1000)


def nothing(x: Any) -> Any:
    return x


def root(x: Any) -> Any:
    return np.sqrt(x).sum()


def each(function: Callable[[Any], Any], items: list[Any]) -> list[Any]:
    return [function(item) for item in items]


def ways(cluster: Any, function: Callable[[Any], Any], items: list[Any]) -> dict[str, Any]:
    """Return what makes all calls, by the name of the way."""
    client = cluster.client

    def chunked(size: int) -> list[Any]:
        parts = [items[at : at + size] for at in range(0, len(items), size)]
        futures = [client.submit(each, function, part, pure=False) for part in parts]
        return list(chain.from_iterable(client.gather(futures)))

    found: dict[str, Any] = {
        "loop here": lambda: each(function, items),
        "Dask": lambda: client.gather(client.map(function, items, pure=False)),
        "gpuforge": lambda: cluster.map(function, items),
    }
    for size in CHUNKS:
        if size <= len(items) // 2:
            found[f"Dask, chunks of {size}"] = lambda size=size: chunked(size)
    return found


def compare(cluster: Any, function: Any, items: list[Any], rounds: int) -> dict[str, float]:
    """Return the median microseconds of an item, by way."""
    made = ways(cluster, function, items)
    times: dict[str, list[float]] = {name: [] for name in made}
    for _ in range(rounds):
        for name, call in made.items():
            start = perf_counter()
            result = call()
            times[name].append((perf_counter() - start) / len(items) * 1e6)
            assert len(result) == len(items)
    return {name: round(median(taken), 1) for name, taken in times.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS)
    chosen = parser.parse_args()
    try:
        import distributed
    except ImportError:
        print("distributed is not installed", file=sys.stderr)
        return 3
    count, rounds = (300, 3) if chosen.quick else (5_000, 7)
    cases = {
        "nothing, integers": (nothing, list(range(count))),
        "sqrt of 1,000 numbers": (root, [np.ones(1_000)] * count),
        "sqrt of 1,000,000 numbers": (root, [np.ones(1_000_000)] * (count // 50)),
    }
    with gf.cluster(local=2, timeout=60) as cluster:
        found = {
            name: compare(cluster, function, items, rounds)
            for name, (function, items) in cases.items()
        }
    told = {"distributed": distributed.__version__, "microseconds_per_item": found}
    chosen.out.write_text(json.dumps(told, indent=1) + "\n")
    for name, taken in found.items():
        best = min(value for way, value in taken.items() if way.startswith("Dask,"))
        print(f"{name}: {taken['gpuforge'] / best:.2f} x the best chunks by hand", taken)
    return 0


if __name__ == "__main__":
    sys.exit(main())
