"""Two callables of this process, measured in turns."""

from __future__ import annotations

from collections.abc import Callable
from math import log
from statistics import median
from time import perf_counter
from typing import Any

from gpuforge.profiler.bench.worker import block, plan, warm_up
from gpuforge.profiler.compare.comparison import (
    MINIMAL,
    ROUNDS_AT_LEAST,
    Comparison,
    judge,
)
from gpuforge.profiler.compare.evidence import paired_change

ABBA = (0, 1, 1, 0)
"""The order within a turn: what drifts evenly falls on both sides alike."""
ROUND_SECONDS, LEAST_SECONDS = 4e-3, 0.25
MOST_ROUNDS, LOOK_EVERY = 300, 20


class Rounds:
    """What was measured of two sides in turns, 0 the base and 1 the new one.

    Attributes
    ----------
    logs : of each round, the logarithm of the new seconds over the base ones
    times : of each side and round, the seconds of a call
    """

    def __init__(self) -> None:
        self.logs: list[float] = []
        self.times: tuple[list[float], list[float]] = ([], [])

    def add(self, time: Callable[[int], list[float]], turns: int) -> None:
        """Measure a round: in each turn both sides in the order `ABBA`, or its mirror image.

        Parameters
        ----------
        time
            Times one side and returns seconds of a call.
        """
        logs = []
        middles: tuple[list[float], list[float]] = ([], [])
        for turn in range(turns):
            found: tuple[list[float], list[float]] = ([], [])
            for which in ABBA:
                side = which ^ ((len(self.logs) + turn) % 2)
                found[side].extend(time(side))
            for side in (0, 1):
                middles[side].append(median(found[side]))
            logs.append(log(middles[1][-1] / middles[0][-1]))
        self.logs.append(median(logs))
        for side in (0, 1):
            self.times[side].append(median(middles[side]))

    def are_enough(self, minimal: float) -> bool:
        """Return whether the change is known to half of `minimal`, or to an eighth of itself."""
        count = len(self.logs)
        if count < ROUNDS_AT_LEAST or count >= MOST_ROUNDS:
            return count >= MOST_ROUNDS
        change = paired_change(self.logs)
        return change.high - change.low <= max(minimal, abs(change.value) / 4)

    def verdict(self, minimal: float) -> Comparison:
        """Return what at least one round says."""
        return judge(self.logs, *self.times, minimal=minimal)


def compare(
    base: Callable[[], Any],
    new: Callable[[], Any],
    *,
    seconds: float = 5.0,
    minimal: float = MINIMAL,
) -> Comparison:
    """Return whether `new` is faster or slower than `base`, measured in turns in this process.

    Both are called without arguments, many times, in the order base, new, new, base and its mirror
    image. Measuring ends once the change is known to half of `minimal` or to an eighth of itself,
    or at the time limit.

    Parameters
    ----------
    base, new
        What is compared. Each must return only when its work is done: wait for a device inside.
    seconds
        The time limit; at least one round is measured.
    minimal
        The smallest change that counts, a ratio: 0.02 is 2 %.

    Raises
    ------
    NotABenchmark
        If one of them cannot be called without arguments, or is a coroutine function.
    """
    start = perf_counter()
    sides = (base, new)
    for function in sides:
        warm_up(function)
    loops, _ = plan(base)
    turns = max(1, round(ROUND_SECONDS / (4 * block(base, loops, 1)[0] * loops)))
    rounds = Rounds()
    while True:
        rounds.add(lambda side: block(sides[side], loops, 1), turns)
        elapsed = perf_counter() - start
        look = elapsed > LEAST_SECONDS and len(rounds.logs) % LOOK_EVERY == 0
        if elapsed >= seconds or (look and rounds.are_enough(minimal)):
            return rounds.verdict(minimal)
