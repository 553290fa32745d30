"""The verdict on two measured alternatives: faster, slower, the same, or inconclusive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Literal

from gpuforge.profiler.compare.evidence import Interval, median_interval, paired_change, paired_test
from gpuforge.units import format_seconds, significant

Verdict = Literal["faster", "slower", "same", "inconclusive"]

SIGNIFICANT = 0.002
"""Significance level: a difference counts if its p-value is below this."""
MINIMAL = 0.03
"""A smaller relative change counts as none."""
ROUNDS_AT_LEAST = 10
"""With fewer rounds the signed-rank test cannot be significant."""


@dataclass(frozen=True)
class Comparison:
    """The comparison of a new alternative with a base.

    Attributes
    ----------
    verdict : on the new one; ``same``: it differs by less than the minimal change
    reason : why the verdict is ``inconclusive``; empty otherwise
    base, new : seconds of a call, the median over the rounds
    change : new seconds over base seconds, minus 1: 0.05 is 5 % slower
    p : p-value of the paired test
    delta : effect size, Cliff's delta: -1 if every new time is shorter, 1 if every one is longer
    rounds : number of rounds in which both were measured
    """

    verdict: Verdict
    reason: str
    base: Interval
    new: Interval
    change: Interval
    p: float
    delta: float
    rounds: int

    def __str__(self) -> str:
        """Return one line, as ``gpuforge bench --against REF`` prints it."""
        low, high = percent(self.change.low), percent(self.change.high)
        times = f"{format_seconds(self.base.value)} → {format_seconds(self.new.value)}"
        text = f"{self.verdict}  {times}  {percent(self.change.value)}"
        if self.change.high < inf:
            text += f" [{low}, {high}]"
        return f"{text}: {self.reason}" if self.reason else f"{text}  p={self.p:.2g}"


def percent(ratio: float) -> str:
    """Return a change as text: ``+5.1 %``."""
    return f"{'+' if ratio >= 0 else '-'}{significant(100 * abs(ratio))} %"


def judge(
    logs: Sequence[float], base: Sequence[float], new: Sequence[float], *, minimal: float = MINIMAL
) -> Comparison:
    """Return the verdict on rounds in which both sides were measured alternately.

    Parameters
    ----------
    logs
        For each round, the logarithm of new seconds over base seconds; at least one.
    base, new
        For each round, the seconds of that side.
    minimal
        The smallest change that counts, as a ratio.
    """
    change, test = paired_change(logs), paired_test(logs)
    verdict, reason = _verdict(len(logs), change, test.p, minimal)
    sides = median_interval(base), median_interval(new)
    return Comparison(verdict, reason, *sides, change, test.p, test.delta, len(logs))


def _verdict(rounds: int, change: Interval, p: float, minimal: float) -> tuple[Verdict, str]:
    if rounds < ROUNDS_AT_LEAST:
        return "inconclusive", f"{rounds} of the {ROUNDS_AT_LEAST} rounds that are needed"
    clear = p < SIGNIFICANT and (change.low > 0 or change.high < 0)
    if clear and abs(change.value) >= minimal:
        return ("slower" if change.value > 0 else "faster"), ""
    if -minimal <= change.low and change.high <= minimal:
        return "same", ""
    if clear:
        return "inconclusive", f"the change may be larger or smaller than {percent(minimal)[1:]}"
    return "inconclusive", "the times vary more than the change"
