"""What placement has cost and gained against NumPy, so that a session stops before it loses."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from math import inf

from gpuforge.dataclass import dataclass, field

SHARE, FLOOR_SECONDS = 0.03, 50e-3
"""A session stops exploring once its losses exceed this share of NumPy's time plus this floor."""
DECIDING_SHARE, DECIDING_FLOOR_SECONDS = 0.015, 25e-3
"""The same for what decisions took that left calls on NumPy: functions of many signatures wait."""
REINVESTED = 0.5
"""Share of the gains that may be spent on further exploration."""


@dataclass
class Account:
    """Gains and losses of one session, in seconds.

    Attributes
    ----------
    numpy_seconds : what NumPy took, or would have taken for the placed calls, on its own samples
    placed_seconds : what all calls took, exploration and compilation included
    opening_seconds : what loading libraries took; an investment that later calls pay back
    deciding_seconds : what deciding took about calls that then ran on NumPy as written
    gained_seconds : what the calls on each backend saved, less the cost of exploring it
    retreated : whether losses ever made the session stop exploring
    elapsed : returns the wall time of the session so far
    """

    numpy_seconds: float = 0.0
    placed_seconds: float = 0.0
    opening_seconds: float = 0.0
    deciding_seconds: float = 0.0
    gained_seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    retreated: bool = False
    elapsed: Callable[[], float] = lambda: inf

    def add(self, numpy_seconds: float, placed_seconds: float, backend: str = "") -> None:
        """Add calls that took `placed_seconds` and would take NumPy `numpy_seconds`."""
        self.numpy_seconds += numpy_seconds
        self.placed_seconds += placed_seconds
        if backend:
            self.gained_seconds[backend] += numpy_seconds - placed_seconds

    @property
    def lost_seconds(self) -> float:
        """Net loss so far; negative for a gain."""
        return self.placed_seconds + self.opening_seconds - self.numpy_seconds

    def allowance(self, share: float = SHARE) -> float:
        """Return the seconds that exploration may still lose; gains raise it."""
        gained = self.numpy_seconds - self.placed_seconds
        if gained > 0:
            gained *= REINVESTED
        return share * self.share_of_time * self.numpy_seconds + FLOOR_SECONDS + gained

    @property
    def share_of_time(self) -> float:
        """Wall time as a share of the time counted, in which a call within a call counts twice."""
        return min(1.0, self.elapsed() / max(self.placed_seconds, 1e-9))

    @property
    def decides_too_long(self) -> bool:
        """Whether deciding took more than its share of NumPy's time and its floor."""
        beyond = self.deciding_seconds - DECIDING_FLOOR_SECONDS
        return beyond > 0 and beyond > DECIDING_SHARE * self.share_of_time * self.numpy_seconds

    @property
    def in_the_red(self) -> bool:
        """Whether losses are so high that exploration stops until gains have paid them back."""
        found = self.allowance() < 0
        self.retreated = self.retreated or found
        return found
