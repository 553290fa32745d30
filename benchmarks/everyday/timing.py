"""How long a body takes as plain NumPy, pinned to each library, and placed freely."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median, quantiles
from time import perf_counter
from typing import Any

import numpy as np

import gpuforge as gf
from everyday.body import Body
from everyday.checking import calls
from everyday.judging import Scale, copied, unlike

PLAIN, FREE = "numpy", "free"
PINNED_CALLS, FREE_CALLS = 3, 40
"""Calls before the first timed one: compiling and comparing, or learning where to run."""
WARM_SECONDS, CELL_SECONDS = 2.0, 6.0
"""Where a call is slow: what warming up takes at most, and the samples of one cell."""
SHORT_SECONDS, REPEATED = 2e-4, 20
"""A sample of a shorter call is the mean over that many calls."""


def measure(
    body: Body, form: str, backends: list[str], size: int, repeats: int
) -> dict[str, dict[str, Any]]:
    """Time one form at one size on every way of calling it, in turns.

    Returns for each of `numpy`, the pinned backends and `free`: the seconds per call of each
    sample, their quartiles, and on which backends the calls ran, those before the first sample
    too; or why the calls `failed`.
    """
    function = body.form(form)
    arguments = body.make(size, np.random.default_rng(size))
    ways: dict[str, Callable[..., Any]] = {PLAIN: function}
    ways |= {name: gf.offload(backend=name)(function) for name in backends}
    ways[FREE] = gf.offload(function)
    fresh = writes(function, arguments)
    failed: dict[str, str] = {}
    for name, way in ways.items():
        try:
            warm(way, arguments, FREE_CALLS if name == FREE else PINNED_CALLS, fresh)
        except Exception as error:  # noqa: BLE001 - what cannot be timed is a fact of its own
            failed[name] = f"{type(error).__name__}: {str(error)[:200]}"
    ways = {name: way for name, way in ways.items() if name not in failed}
    once = clock(function, arguments, fresh)
    number = REPEATED if once < SHORT_SECONDS else 1
    samples: dict[str, list[float]] = {name: [] for name in ways}
    start = perf_counter()
    for turn in range(repeats):
        if turn >= 3 and perf_counter() - start > CELL_SECONDS:
            break
        for name, way in ways.items():
            taken = [clock(way, arguments, fresh) for _ in range(number)]
            samples[name].append(sum(taken) / number)
    timed = {
        name: {
            "seconds": taken,
            "quartiles": spread(taken),
            "calls": {} if name == PLAIN else calls(ways[name]),
        }
        for name, taken in samples.items()
    }
    return timed | {name: {"failed": text} for name, text in failed.items()}


def writes(function: Callable[..., Any], arguments: tuple[Any, ...]) -> bool:
    """Tell whether the function writes into its arguments: each call then needs a copy."""
    given = copied(arguments)
    function(*given)
    return bool(unlike(given, arguments, Scale()))


def warm(way: Callable[..., Any], arguments: tuple[Any, ...], number: int, fresh: bool) -> None:
    start = perf_counter()
    for turn in range(number):
        way(*(copied(arguments) if fresh else arguments))
        if turn >= 2 and perf_counter() - start > WARM_SECONDS:
            break


def clock(way: Callable[..., Any], arguments: tuple[Any, ...], fresh: bool) -> float:
    """Return the seconds of one call; a copy of the arguments is made before the clock starts."""
    given = copied(arguments) if fresh else arguments
    start = perf_counter()
    way(*given)
    return perf_counter() - start


def spread(values: list[float]) -> list[float]:
    """Return the lower quartile, the median and the upper quartile."""
    if len(values) < 2:
        return values * 3
    low, _, high = quantiles(values, n=4, method="inclusive")
    return [low, median(values), high]
