"""What placing has cost and gained against NumPy: the promise never to be slower."""

from __future__ import annotations

from collections import defaultdict

from gpuforge.dataclass import dataclass, field

SHARE, FLOOR_SECONDS = 0.03, 50e-3
"""Beyond this share of NumPy's time, and this much, the session stops trying."""
REINVESTED = 0.5
"""Share of what was gained that may be spent on trying more."""


@dataclass
class Account:
    """The seconds of one session.

    Attributes
    ----------
    numpy_seconds : what NumPy took, or would have taken for the placed calls, on its own samples
    placed_seconds : what all calls took, tries and compilation included
    opening_seconds : what loading libraries took; an outlay that calls to come pay back
    gained_seconds : what the calls on each backend saved, less what trying it cost
    retreated : whether the session ever stopped trying for it
    """

    numpy_seconds: float = 0.0
    placed_seconds: float = 0.0
    opening_seconds: float = 0.0
    gained_seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    retreated: bool = False

    def add(self, numpy_seconds: float, placed_seconds: float, backend: str = "") -> None:
        """Take in calls that took `placed_seconds`, for which NumPy takes `numpy_seconds`."""
        self.numpy_seconds += numpy_seconds
        self.placed_seconds += placed_seconds
        if backend:
            self.gained_seconds[backend] += numpy_seconds - placed_seconds

    @property
    def lost_seconds(self) -> float:
        """What was lost so far; negative where something was gained."""
        return self.placed_seconds + self.opening_seconds - self.numpy_seconds

    def allowance(self, share: float = SHARE) -> float:
        """Return the seconds that trying may still lose: more where something was gained."""
        gained = self.numpy_seconds - self.placed_seconds
        if gained > 0:
            gained *= REINVESTED
        return share * self.numpy_seconds + FLOOR_SECONDS + gained

    @property
    def in_the_red(self) -> bool:
        """Whether so much was lost that nothing more is tried until gains have paid it back."""
        found = self.allowance() < 0
        self.retreated = self.retreated or found
        return found
