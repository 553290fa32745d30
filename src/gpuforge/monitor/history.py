"""The history of samples over days: means and maxima of time intervals, bounded in number.

They are kept in gpuforge's store. If several processes sample the same machine at the same time,
the first one to reach the end of an interval stores it.
"""

from __future__ import annotations

import json
import platform
from dataclasses import dataclass

from gpuforge import settings as settings_module
from gpuforge.history import History
from gpuforge.monitor.sample import Sample
from gpuforge.monitor.values import series

_FIXED = ("_max", "_max_hertz", "_limit_watts", "_limit_celsius", "_total_bytes")
LEVELS = {10: 360, 60: 1440, 3600: 720}
"""Length of an interval in seconds: number to keep (an hour, a day, thirty days)."""


@dataclass(frozen=True)
class Interval:
    """The samples of one interval.

    Attributes
    ----------
    began_at : seconds since the epoch, a multiple of `seconds`
    means, highest : values by the names of `gpuforge.monitor.values.series`
    """

    began_at: int
    seconds: int
    means: dict[str, float]
    highest: dict[str, float]


def _text(sums: dict[str, list[float]]) -> str:
    """Return mean and maximum of each number as JSON, to five significant digits."""
    found = {name: (total / count, most) for name, (count, total, most) in sums.items()}
    return json.dumps({name: [float(f"{n:.5g}") for n in two] for name, two in found.items()})


class Recorder:
    """Records samples of this machine in the store, if the setting ``history`` allows it."""

    def __init__(self, store: History | None = None) -> None:
        if store is None:
            chosen = settings_module.load().settings
            folder = settings_module.cache_folder(chosen) if chosen.history else None
            store = History(folder, platform.node())
        self._store = store
        self._open: dict[int, tuple[int, dict[str, list[float]]]] = {}

    def add(self, sample: Sample) -> None:
        """Add a sample, and store the intervals that end with it."""
        now = {name: n for name, n in series(sample).items() if not name.endswith(_FIXED)}
        ended: list[tuple[int, int, dict[str, list[float]]]] = []
        for seconds in LEVELS:
            begin = int(sample.taken_at) // seconds * seconds
            before = self._open.get(seconds)
            if before is None or before[0] != begin:
                ended += [(seconds, *before)] if before else []
                self._open[seconds] = before = begin, {}
            for name, number in now.items():
                sums = before[1].setdefault(name, [0, 0.0, number])
                sums[0] += 1
                sums[1] += number
                sums[2] = max(sums[2], number)
        if ended:
            rows = [(seconds, begin, _text(sums)) for seconds, begin, sums in ended]
            self._store.keep_samples(rows, LEVELS)

    def read(self, seconds: int, since: float = 0.0) -> list[Interval]:
        """Return the intervals of one of `LEVELS` that began at or after `since`, oldest first."""
        found = []
        for began, text in self._store.samples(seconds, since):
            try:
                values = [(str(n), float(a), float(b)) for n, (a, b) in json.loads(text).items()]
            except (ValueError, TypeError, AttributeError, RecursionError):
                continue  # written by another version, in another format
            means, highest = {n: mean for n, mean, _ in values}, {n: most for n, _, most in values}
            found.append(Interval(began, seconds, means, highest))
        return found
