"""Two stored results of a bench: unpaired, so only as sure as runs are known to agree.

Times of one run are alike and those of the next run all differ: a test of the times in two files
finds a difference between runs of the same code in half of the cases. What runs of a benchmark
differ by is known from its history alone.
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
    """What two files say of one benchmark.

    Attributes
    ----------
    verdict : ``inconclusive`` unless the history says what runs differ by
    reason : why it is ``inconclusive``; empty otherwise
    base, new : seconds of a call
    change : new over base, less 1
    test : Mann-Whitney's, of the times in the files; not what the verdict rests on
    runs : in the history, since the last change there
    noise : a ratio that two runs of the same code seldom differ by; None where it is not known
    """

    verdict: Verdict
    reason: str
    base: Interval
    new: Interval
    change: float
    test: RankTest
    runs: int
    noise: float | None


def difference(
    base: Sequence[float],
    new: Sequence[float],
    runs: Sequence[float],
    *,
    minimal: float = MINIMAL,
) -> Difference:
    """Return what two sets of times say, given those of earlier runs.

    Parameters
    ----------
    base, new
        Seconds of a call, at least one each.
    runs
        Medians of earlier runs on this machine, the oldest first.
    minimal
        The smallest change that counts, a ratio.
    """
    before, after = median_interval(base), median_interval(new)
    change = after.value / before.value - 1
    changes = change_points(runs, minimal=minimal)
    steady = runs[changes[-1].place :] if changes else runs
    noise = _noise(steady)
    verdict, reason = _verdict(change, noise, len(steady), minimal)
    test = mann_whitney(base, new)
    return Difference(verdict, reason, before, after, change, test, len(steady), noise)


def _noise(runs: Sequence[float]) -> float | None:
    """Return what two runs differ by with a probability of `SIGNIFICANT`: Student's t, of logs."""
    if len(runs) < RUNS_AT_LEAST:
        return None
    free = len(runs) - 1
    # The quantile by its expansion in that of the normal distribution, 4 % low for 5 runs.
    third = (3 * _Z**7 + 19 * _Z**5 + 17 * _Z**3 - 15 * _Z) / (384 * free**3)
    second = (5 * _Z**5 + 16 * _Z**3 + 3 * _Z) / (96 * free**2)
    quantile = _Z + (_Z**3 + _Z) / (4 * free) + second + third
    return quantile * sqrt(2) * stdev(map(log, runs))


def _verdict(change: float, noise: float | None, runs: int, minimal: float) -> tuple[Verdict, str]:
    if noise is None:
        kept = f"{counted(runs, 'run')} in the history, {RUNS_AT_LEAST} are needed"
        return "inconclusive", f"{UNPAIRED}: {kept}"
    size = abs(log(1 + change))
    if size >= max(noise, minimal):
        return ("slower" if change > 0 else "faster"), ""
    if size + noise <= minimal:
        return "same", ""
    return "inconclusive", f"{UNPAIRED}: runs of the same code differ by up to {percent(noise)[1:]}"
