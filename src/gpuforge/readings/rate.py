"""The rate at which a counter grows between readings."""

from __future__ import annotations

from collections.abc import Callable

from gpuforge.facts import Absent, Reading

FIRST = Absent("it is a difference of two readings, and this is the first")


class Rate:
    """The rate of one counter; `clock` returns monotonic seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._before: tuple[float, float] | None = None

    def per_second(self, count: float) -> Reading[float]:
        """Return the counter's growth per second since the last call, whose `count` is kept."""
        now = self._clock()
        before, self._before = self._before, (now, count)
        if before is None or now <= before[0]:
            return FIRST
        if count < before[1]:
            return Absent("the counter was reset since the last reading")
        return (count - before[1]) / (now - before[0])
