"""Limits for tasks on a device: memory, concurrent calls, share of its time."""

from __future__ import annotations

from dataclasses import dataclass

from gpuforge.errors import InvalidSettings
from gpuforge.runtime.executor.task import check_memory

CREDIT_SECONDS = 20e-3
"""A start that is late by up to this much is made up: the next may be as much earlier."""


@dataclass(frozen=True)
class Quota:
    """Limits for the tasks of an executor on one device.

    Parameters
    ----------
    memory
        Bytes for all running tasks, a number or ``"8GB"``. None for no limit.
    concurrency
        Number of concurrent calls. None for the lane's default.
    share
        Maximum share of the device's time, above 0 and up to 1: ``0.8`` leaves a fifth to others.

    Raises
    ------
    InvalidSettings
        If a value is invalid.
    """

    memory: int | str | None = None
    concurrency: int | None = None
    share: float = 1.0

    def __post_init__(self) -> None:
        if self.memory is not None:
            object.__setattr__(self, "memory", check_memory(self.memory))
        calls = self.concurrency
        if calls is not None and (type(calls) is not int or calls < 1):
            raise InvalidSettings(f"concurrency={calls!r} is not a positive integer")
        if not isinstance(self.share, int | float) or not 0 < self.share <= 1:
            raise InvalidSettings(
                f"share={self.share!r} is not above 0 and at most 1", hint="0.8 is 80 %"
            )

    @property
    def memory_bytes(self) -> int | None:
        """The memory limit in bytes; None for no limit."""
        assert not isinstance(self.memory, str)
        return self.memory


class Share:
    """Limits the calls of one lane to a share of the time.

    A call of `s` seconds uses up ``s / share`` seconds from its start; then the next may start.
    """

    def __init__(self, share: float) -> None:
        self.share = share
        self.ready_at = float("-inf")

    def take(self, started_at: float, seconds: float) -> None:
        """Add a call that ran."""
        if self.share < 1:
            start = max(self.ready_at, started_at - CREDIT_SECONDS)
            self.ready_at = start + seconds / self.share
