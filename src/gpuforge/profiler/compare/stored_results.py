"""Comparing two stored bench results, which are unpaired: the history shows how runs vary.

Times within a run are similar, but whole runs differ: a test of the times in two files finds a
difference between runs of the same code in half of the cases. Only the history of a benchmark shows
how much its runs differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log, sqrt
from statistics import NormalDist, stdev

from gpuforge.profiler.compare.change_points import change_points
from gpuforge.profiler.compare.comparison import MINIMAL, SIGNIFICANT, Verdict, percent
from gpuforge.profiler.compare.evidence import Interval, RankTest, mann_whitney, median_interval
from gpuforge.units import counted

RUNS_AT_LEAST = 5
UNPAIRED = "unpaired, weak evidence"
_Z = NormalDist().inv_cdf(1 - SIGNIFICANT / 2)


@dataclass(frozen=True)
class Difference:
    """The difference of one benchmark in two files.

    Attributes
    ----------
    verdict : ``inconclusive`` unless the history shows how much runs differ
    reason : why the verdict is ``inconclusive``; empty otherwise
    base, new : seconds of a call
    change : new over base, minus 1
    test : Mann-Whitney test of the times in the files; the verdict does not use it
    runs : number of runs in the history since the last change there
    noise : ratio by which two runs of the same code rarely differ; None if unknown
    """

    verdict: Verdict
    reason: str
    base: Interval
    new: Interval
    change: float
    test: RankTest
    runs: int
    noise: float | None


def difference(base: Sequence[float], new: Sequence[float], runs: Sequence[float]) -> Difference:
    """Compare two sets of times, given those of earlier runs.

    Parameters
    ----------
    base, new
        Seconds of a call, at least one each.
    runs
        Medians of earlier runs on this machine, oldest first.
    """
    before, after = median_interval(base), median_interval(new)
    change = after.value / before.value - 1
    changes = change_points(runs)
    steady = runs[changes[-1].place :] if changes else runs
    noise = _noise(steady)
    verdict, reason = _verdict(change, noise, len(steady))
    test = mann_whitney(base, new)
    return Difference(verdict, reason, before, after, change, test, len(steady), noise)


def _noise(runs: Sequence[float]) -> float | None:
    """Return the log ratio that two runs exceed with probability `SIGNIFICANT` (Student's t)."""
    if len(runs) < RUNS_AT_LEAST:
        return None
    free = len(runs) - 1
    # Expansion of the t quantile in the normal quantile; 4 % too low for 5 runs.
    third = (3 * _Z**7 + 19 * _Z**5 + 17 * _Z**3 - 15 * _Z) / (384 * free**3)
    second = (5 * _Z**5 + 16 * _Z**3 + 3 * _Z) / (96 * free**2)
    quantile = _Z + (_Z**3 + _Z) / (4 * free) + second + third
    return quantile * sqrt(2) * stdev(map(log, runs))


def _verdict(change: float, noise: float | None, runs: int) -> tuple[Verdict, str]:
    if noise is None:
        kept = f"{counted(runs, 'run')} in the history, {RUNS_AT_LEAST} are needed"
        return "inconclusive", f"{UNPAIRED}: {kept}"
    size = abs(log(1 + change))
    if size >= max(noise, MINIMAL):
        return ("slower" if change > 0 else "faster"), ""
    if size + noise <= MINIMAL:
        return "same", ""
    return "inconclusive", f"{UNPAIRED}: runs of the same code differ by up to {percent(noise)[1:]}"
