"""What tasks may take of a device: memory, calls at the same time, a share of its time."""

from __future__ import annotations

from dataclasses import dataclass

from gpuforge.errors import InvalidSettings
from gpuforge.units import parse_bytes

CREDIT_SECONDS = 20e-3
"""A start that is late by up to so much lowers no share: the next may come as much sooner."""


@dataclass(frozen=True)
class Quota:
    """What the tasks of an executor may take of one device.

    Parameters
    ----------
    memory
        Bytes that the running tasks may need together, a number or ``"8GB"``. None: no limit.
    concurrency
        Calls that may run at the same time. None: as many as the lane has by itself.
    share
        The largest share of the device's time, above 0 and up to 1: ``0.8`` leaves a fifth of it
        to others.

    Raises
    ------
    InvalidSettings
        If a value means nothing.
    """

    memory: int | str | None = None
    concurrency: int | None = None
    share: float = 1.0

    def __post_init__(self) -> None:
        if self.memory is not None:
            object.__setattr__(self, "memory", parse_bytes(self.memory))
        calls = self.concurrency
        if calls is not None and (type(calls) is not int or calls < 1):
            raise InvalidSettings(f"concurrency={calls!r} is not a positive integer")
        if not isinstance(self.share, int | float) or not 0 < self.share <= 1:
            raise InvalidSettings(
                f"share={self.share!r} is not above 0 and at most 1", hint="0.8 is 80 %"
            )

    @property
    def memory_bytes(self) -> int | None:
        """The limit of memory in bytes; None for no limit."""
        assert not isinstance(self.memory, str)
        return self.memory


class Share:
    """Holds the calls of one lane to a share of the time.

    A call of `s` seconds uses up ``s / share`` seconds from its start on; the next may start then.
    """

    def __init__(self, share: float) -> None:
        self.share = share
        self.ready_at = float("-inf")

    def take(self, started_at: float, seconds: float) -> None:
        """Take in a call that ran."""
        if self.share < 1:
            start = max(self.ready_at, started_at - CREDIT_SECONDS)
            self.ready_at = start + seconds / self.share
