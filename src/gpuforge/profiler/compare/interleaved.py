"""Comparing two callables by measuring them alternately in this process."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import log
from random import Random
from statistics import median
from time import perf_counter
from types import ModuleType
from typing import Any

from gpuforge.profiler.bench.worker import block, plan, warm_up
from gpuforge.profiler.compare.comparison import MINIMAL, ROUNDS_AT_LEAST, Comparison, judge
from gpuforge.profiler.compare.evidence import paired_change

ABBA = (0, 1, 1, 0)
"""Order of the sides in a turn, so that a linear drift affects both alike."""
ROUND_SECONDS, LEAST_SECONDS = 4e-3, 0.25
MOST_ROUNDS, CHECK_EVERY = 300, 20
OF_PLACE = 1.5
"""The same call on equal arrays varies by up to 1.44 times with their addresses (decision 26)."""
_PLAIN = (type(None), bool, int, float, complex, str, ModuleType)


class Rounds:
    """Interleaved measurements of two sides: 0 is the base, 1 the new one.

    Attributes
    ----------
    logs : for each round, the logarithm of new seconds over base seconds
    times : for each side and round, the seconds of a call
    """

    def __init__(self) -> None:
        self.logs: list[float] = []
        self.times: tuple[list[float], list[float]] = ([], [])

    def add(self, time: Callable[[int], list[float]], turns: int) -> None:
        """Measure a round: in each turn, both sides in the order `ABBA` or its mirror image.

        Parameters
        ----------
        time
            Measures one side and returns seconds of a call.
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
        """Return whether the change is known to within half of `minimal` or an eighth of itself."""
        count = len(self.logs)
        if count < ROUNDS_AT_LEAST or count >= MOST_ROUNDS:
            return count >= MOST_ROUNDS
        change = paired_change(self.logs)
        return change.high - change.low <= max(minimal, abs(change.value) / 4)

    def verdict(self, minimal: float) -> Comparison:
        """Return the verdict; needs at least one round."""
        return judge(self.logs, *self.times, minimal=minimal)


def compare(
    base: Callable[[], Any],
    new: Callable[[], Any],
    *,
    seconds: float = 5.0,
    minimal: float = MINIMAL,
    remake: bool = False,
) -> Comparison:
    """Return whether `new` is faster or slower than `base`, measured alternately in this process.

    Both are called without arguments, many times, in the order base, new, new, base and its mirror
    image. Measuring ends when the change is known to within half of `minimal` or an eighth of
    itself, or at the time limit.

    Parameters
    ----------
    base, new
        The callables to compare. Each must return only when its work is done, on devices too.
    seconds
        The time limit; at least one round is measured.
    minimal
        The smallest change that counts, as a ratio: 0.02 is 2 %.
    remake
        Whether `base` and `new` are factories of the callables to compare, with their data. They
        are called again for each round in random order, so that memory layout favours neither.
        Otherwise, if each callable holds data of its own, changes below `OF_PLACE` times are
        inconclusive.

    Raises
    ------
    NotABenchmark
        If a callable needs arguments, or is a coroutine or generator function.
    """
    start, lot = perf_counter(), Random()
    sides = _build(base, new, lot) if remake else [base, new]
    for side in (0, 1):
        warm_up(sides[side])
    loops, _ = plan(sides[0])
    turns = max(1, round(ROUND_SECONDS / (4 * block(sides[0], loops, 1)[0] * loops)))
    rounds = Rounds()
    while True:
        rounds.add(lambda side: block(sides[side], loops, 1), turns)
        elapsed = perf_counter() - start
        look = elapsed > LEAST_SECONDS and len(rounds.logs) % CHECK_EVERY == 0
        if elapsed >= seconds or (look and rounds.are_enough(minimal)):
            break
        if remake:
            sides.clear()  # frees the old data, so that the new data may get its addresses
            sides.extend(_build(base, new, lot))
            for side in (0, 1):
                block(sides[side], loops, 1)
    found, data = rounds.verdict(minimal), [_held_data(side) for side in (base, new)]
    own = not remake and data[0] - data[1] and data[1] - data[0]
    if own and found.verdict != "inconclusive" and 1 / OF_PLACE < 1 + found.change.value < OF_PLACE:
        reason = "they contain different data, whose memory placement may matter: see remake="
        return replace(found, verdict="inconclusive", reason=reason)
    return found


def _build(base: Callable[[], Any], new: Callable[[], Any], lot: Random) -> list[Callable[[], Any]]:
    """Call both factories in random order, each after allocating a gap of random size."""
    made, gaps = {}, []
    for side, maker in lot.sample(((0, base), (1, new)), 2):
        gaps.append(bytearray(lot.randrange(512, 8192)))
        made[side] = maker()
    return [made[0], made[1]]


def _held_data(function: Any, deep: int = 2) -> set[int]:
    """Return the ids of the data that a callable holds, also through callables that it holds."""
    parts = [getattr(function, "__self__", None), *(getattr(function, "__defaults__", None) or ())]
    parts += gc.get_referents(*(getattr(function, "__closure__", None) or ()))
    if isinstance(function, partial):
        parts += [function.func, *function.args, *function.keywords.values()]
    if deep == 2 and (code := getattr(function, "__code__", None)):
        parts += [function.__globals__.get(name) for name in code.co_names]
    found = {id(part) for part in parts if not (callable(part) or isinstance(part, _PLAIN))}
    return found.union(*(_held_data(part, deep - 1) for part in parts if deep and callable(part)))
