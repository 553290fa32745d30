"""What placing cost against the oracle: the best backend known for each call, seen afterwards."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from gpuforge.profiler.model import Placement, Profile

LONGEST_SECONDS = 1e9
"""A time above is none that was measured or foreseen."""


class Regret(NamedTuple):
    """A choice of backend beside the best one.

    Attributes
    ----------
    placement : the choice
    best : the backend that is best for this function and signature
    best_seconds : of one call there
    measured : whether that was measured in this run; else it is a prediction
    lost_seconds : what all its calls took more than there, at least 0
    predicted_seconds : what one call was expected to take where it ran; None if nothing was
    """

    placement: Placement
    best: str
    best_seconds: float
    measured: bool
    lost_seconds: float
    predicted_seconds: float | None


def regrets(profile: Profile) -> list[Regret]:
    """Return each placement with what it lost, most first.

    A measured time replaces a prediction of the same backend: of those that ran here the mean over
    all calls of one function and signature counts.
    """
    known: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for placement in filter(_is_sound, profile.placements):
        sums = known[placement.function, placement.signature][placement.backend]
        sums[:] = [sum(sums[:1]) + placement.seconds, sum(sums[1:]) + placement.calls]
    found = []
    for placement in filter(_is_sound, profile.placements):
        ran = known[placement.function, placement.signature]
        one = {name: seconds / calls for name, (seconds, calls) in ran.items()}
        expected = {name: t for name, t in placement.predicted_seconds.items() if _is_time(t)}
        best, seconds = min({**expected, **one}.items(), key=lambda item: item[1])
        lost = max(placement.seconds - placement.calls * seconds, 0.0)
        predicted = expected.get(placement.backend)
        found.append(Regret(placement, best, seconds, best in one, lost, predicted))
    return sorted(found, key=lambda regret: -regret.lost_seconds)


def lost_share(found: list[Regret]) -> float | None:
    """Return which part of the time of all placed calls was lost; None if nothing was placed."""
    whole = sum(regret.placement.seconds for regret in found)
    return sum(regret.lost_seconds for regret in found) / whole if whole else None


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and 0 < value < LONGEST_SECONDS


def _is_sound(placement: Placement) -> bool:
    return _is_time(placement.seconds) and placement.calls > 0
