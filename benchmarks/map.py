"""``f.map(items)`` against a loop, hand-written stacking and the best of several fixed batch sizes.

usage: map.py [--libraries numpy,torch] [--cells TEXT] [--seconds S] [--out FILE]

The ways take turns in random order. Each is called until batches have settled before it is timed.
What is reported is the median of each way, and how map compares with the loop and with the best
fixed size, with the 95 % interval of resampled rounds.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

import gpuforge as gf
from gpuforge.runtime.session import current_session

RESULTS = Path(__file__).parent / "results"
SIZES = (1, 4, 16, 64, 256, 1000)
ROUNDS, SETTLING, RESAMPLED = (9, 41), 20, 2000
Function = Callable[[Any], Any]


def product(x: Any) -> Any:
    return x @ x


def chain(x: Any) -> Any:
    return ((x * 0.5 + 1.0) * x - 0.3) * x + 2.0


def waves(x: Any) -> Any:
    return np.tanh(x * 0.5 + 1.0) * x - x / 3.0


def normalised(x: Any) -> Any:
    return x / np.sqrt((x * x).sum(axis=-1, keepdims=True))


def solved(x: Any) -> Any:
    return np.linalg.solve(x + 8.0 * np.eye(x.shape[-1]), x)


CELLS: list[tuple[str, int, tuple[int, ...], tuple[Function, ...]]] = [
    ("1000 of 32x32", 1000, (32, 32), (product, chain, waves, normalised, solved)),
    ("1000 of 8x8", 1000, (8, 8), (product, chain, waves, normalised, solved)),
    ("100 of 256x256", 100, (256, 256), (product, chain, normalised)),
    ("10 of 256x256", 10, (256, 256), (product, chain, normalised)),
    ("ten of 1 MB", 10, (131072,), (chain, normalised)),
    ("three tiny", 3, (1000,), (chain, normalised)),
]


def ways(function: Function, items: list[Any]) -> dict[str, Callable[[], Any]]:
    """Return each way to call `function` for all items."""
    mapped, fixed = gf.offload(function), gf.offload(function)
    found: dict[str, Callable[[], Any]] = {
        "loop": lambda: [function(x) for x in items],
        "stacked by hand": lambda: list(function(np.stack(items))),
        "map": lambda: mapped.map(items),
    }
    for size in SIZES:
        if size <= len(items):
            found[f"batch={size}"] = lambda size=size: fixed.map(items, batch=size)  # type: ignore[misc]
    return found


def measure(function: Function, items: list[Any], seconds: float) -> Any:
    """Return the seconds of every round of every way."""
    called = ways(function, items)
    expected = called["loop"]()
    for way, call in called.items():
        end = perf_counter() + seconds / len(called)
        for _ in range(SETTLING):
            found = call()
            if perf_counter() > end:
                break
        for one, other in zip(expected, found, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-9, err_msg=way)
    times: dict[str, list[float]] = {way: [] for way in called}
    end = perf_counter() + seconds
    random = Random(0)
    for turn in range(ROUNDS[1]):
        for way in random.sample(list(called), len(called)):  # what ran before leaves its memory
            call = called[way]
            start = perf_counter()
            call()
            times[way].append(perf_counter() - start)
        if turn >= ROUNDS[0] and perf_counter() > end:
            break
    return times


def compared(times: dict[str, list[float]], one: str, other: str) -> tuple[float, float, float]:
    """Return how many times faster `one` is than `other`, with its 95 % interval."""
    random = Random(0)
    pairs = list(zip(times[one], times[other], strict=True))
    ratios = []
    for _ in range(RESAMPLED):
        drawn = random.choices(pairs, k=len(pairs))
        ratios.append(median(b for _, b in drawn) / median(a for a, _ in drawn))
    ratios.sort()
    middle = median(times[other]) / median(times[one])
    return middle, ratios[RESAMPLED // 40], ratios[-RESAMPLED // 40]


def report(cell: str, function: Function, times: dict[str, list[float]]) -> dict[str, Any]:
    middles = {way: median(seconds) for way, seconds in times.items()}
    best = min((way for way in middles if way.startswith("batch=")), key=middles.__getitem__)
    row: dict[str, Any] = {"cell": cell, "function": function.__name__, "best_fixed": best,
                           "seconds": times}  # fmt: skip
    text = f"{cell}, {function.__name__}: map {1e3 * middles['map']:.3f} ms"
    for other in ("loop", "stacked by hand", best):
        row[f"times faster than {other}"] = found = compared(times, "map", other)
        middle, low, high = found
        text += f"; {middle:.2f}x {other} ({low:.2f} to {high:.2f})"
    print(text)
    return row


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--libraries", default="numpy")
    parser.add_argument("--cells", default="", help="only cells with this text in their name")
    parser.add_argument("--seconds", type=float, default=4.0, help="for each function of a cell")
    parser.add_argument("--out", type=Path, default=RESULTS / "map.json")
    arguments = parser.parse_args()
    libraries = arguments.libraries.split(",")
    rows = []
    rng = np.random.default_rng(0)
    with gf.session(history=False, backends=libraries):
        opened = [current_session().find(name).name for name in libraries]
        print("backends:", ", ".join(opened))
        for cell, number, shape, functions in CELLS:
            if arguments.cells not in cell:
                continue
            items = [rng.standard_normal(shape) for _ in range(number)]
            for function in functions:
                times = measure(function, items, arguments.seconds)
                rows.append(report(cell, function, times))
    arguments.out.write_text(json.dumps({"backends": opened, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
