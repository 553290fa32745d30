"""A device that is slower than others of the same model.

Reports when the clock of a busy GPU has been more than 10 % below the median of the other busy GPUs
of its model for a minute. 5 % is enough if it is four times as far below the lowest of at least two
others as these are apart (Dixon's test). Idle devices lower their clocks and are ignored.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import median

from gpuforge.monitor.anomaly import Anomaly
from gpuforge.monitor.series import Subject

SECONDS = 60.0
BUSY = 0.5
BELOW = 0.9
BELOW_ALIKE = 0.95
APART = 4.0


def find(subjects: Sequence[Subject]) -> Iterator[Anomaly]:
    """Yield the GPUs that are slower than others of their model."""
    models: dict[str, list[tuple[Subject, float]]] = defaultdict(list)
    for subject in subjects:
        clocks = subject.recent("core_clock_hertz", SECONDS)
        busy = subject.recent("utilization_ratio", SECONDS)
        if subject.model and clocks and busy and median(busy) > BUSY:
            models[subject.model].append((subject, median(clocks)))
    for equals in models.values():
        for subject, clock in equals:
            others = [other for who, other in equals if who is not subject]
            if others and clock < _least(others):
                yield Anomaly(
                    "slow_device", subject.name, "warning",
                    f"its clock is {100 * (1 - clock / median(others)):.0f} % below that of "
                    f"{len(others)} other busy {subject.model}: programs that use all of them"
                    " wait for this one",
                    "compare its temperature, power and throttle reasons with those of the others",
                )  # fmt: skip


def _least(others: list[float]) -> float:
    """Return the clock below which a device is slow, given the clocks of the others."""
    least = BELOW * median(others)
    if len(others) < 2:
        return least
    apart = max(others) - min(others)
    return max(least, min(BELOW_ALIKE * median(others), min(others) - APART * apart))
