"""What placing has cost and gained against NumPy: the promise never to be slower."""

from __future__ import annotations

from dataclasses import dataclass

SHARE, FLOOR_SECONDS = 0.03, 50e-3
"""Beyond this share of NumPy's time, and this much, the session stops trying."""


@dataclass
class Account:
    """The seconds of one session.

    Attributes
    ----------
    numpy_seconds : what NumPy would have taken for the placed calls, on its own samples
    placed_seconds : what they took, tries and compilation included
    opening_seconds : what loading libraries took; an outlay that calls to come pay back
    retreated : whether the session ever stopped trying for it
    """

    numpy_seconds: float = 0.0
    placed_seconds: float = 0.0
    opening_seconds: float = 0.0
    retreated: bool = False

    def add(self, numpy_seconds: float, placed_seconds: float) -> None:
        """Take in calls that took `placed_seconds`, for which NumPy takes `numpy_seconds`."""
        self.numpy_seconds += numpy_seconds
        self.placed_seconds += placed_seconds

    @property
    def lost_seconds(self) -> float:
        """What was lost so far; negative where something was gained."""
        return self.placed_seconds + self.opening_seconds - self.numpy_seconds

    @property
    def in_the_red(self) -> bool:
        """Whether so much was lost that nothing more is tried until gains have paid it back."""
        lost = self.placed_seconds - self.numpy_seconds
        found = lost > SHARE * self.numpy_seconds + FLOOR_SECONDS
        self.retreated = self.retreated or found
        return found
