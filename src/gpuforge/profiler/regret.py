"""Regret: the time that placed calls lost compared with the best known backend, in hindsight."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import NamedTuple

from gpuforge.profiler.model import Placement, Profile, once
from gpuforge.profiler.tables import percent
from gpuforge.units import format_seconds

LONGEST_SECONDS = 1e9
"""Longer times are invalid."""


class Regret(NamedTuple):
    """The calls that ran on a backend, compared with the best one.

    Attributes
    ----------
    placement : all calls of one function and signature on one backend, added up
    best : the best backend for this function and signature
    best_seconds : time of one call there
    measured : whether that was measured in this run; otherwise it is a prediction
    lost_seconds : extra time of all calls compared with the best backend; 0 if they ran there
    predicted_seconds : the latest prediction for one call where it ran; None without one
    alone : whether no other backend has a measurement or a prediction
    """

    placement: Placement
    best: str
    best_seconds: float
    measured: bool
    lost_seconds: float
    predicted_seconds: float | None
    alone: bool


@once
def regrets(profile: Profile) -> list[Regret]:
    """Return the regret of each function, signature and backend; largest loss, then time, first.

    Measured times take precedence over predictions for the same backend. They are means over all
    calls of a function and signature, so variation between calls does not count as loss.
    """
    ran: dict[tuple[str, str], dict[str, Placement]] = defaultdict(dict)
    for one in profile.placements:
        if _is_time(one.seconds) and one.calls > 0:
            of_call = ran[one.function, one.signature]
            of_call[one.backend] = _added(of_call.get(one.backend), one)
    found = []
    for of_call in ran.values():
        measured = {name: one.seconds / one.calls for name, one in of_call.items()}
        expected: dict[str, float] = {}
        for one in of_call.values():
            expected |= {name: t for name, t in one.predicted_seconds.items() if _is_time(t)}
        known = {**expected, **measured}
        best, seconds = min(known.items(), key=lambda item: item[1])
        for name, one in of_call.items():
            lost = 0.0 if name == best else max(one.seconds - one.calls * seconds, 0.0)
            found.append(
                Regret(
                    one, best, seconds, best in measured, lost, expected.get(name), len(known) == 1
                )
            )
    return sorted(found, key=lambda one: (-one.lost_seconds, -one.placement.seconds))


def lost_share(found: list[Regret]) -> float | None:
    """Return the lost share of the time of all placed calls; None if nothing was placed."""
    whole = sum(regret.placement.seconds for regret in found)
    return sum(regret.lost_seconds for regret in found) / whole if whole else None


def lost_told(found: list[Regret]) -> str:
    """Return sentences on how much of the time of all placed calls was lost."""
    took = format_seconds(sum(regret.placement.seconds for regret in found))
    lost = format_seconds(sum(regret.lost_seconds for regret in found))
    return (
        f"Placed calls took {took}; {percent(lost_share(found) or 0)} of it ({lost}) was lost "
        "compared with the best known backend for each call."
    )


def _added(before: Placement | None, one: Placement) -> Placement:
    if before is None:
        return one
    return replace(
        one,
        seconds=before.seconds + one.seconds,
        calls=before.calls + one.calls,
        predicted_seconds={**before.predicted_seconds, **one.predicted_seconds},
        transfer_seconds=before.transfer_seconds + one.transfer_seconds,
    )


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and 0 < value < LONGEST_SECONDS
