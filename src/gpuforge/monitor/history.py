"""Samples kept over days: means and maxima of ever longer stretches, bounded in number.

They lie in the one store of gpuforge. Of processes that sample the same machine at the same time
the first to come to the end of a stretch keeps it.
"""

from __future__ import annotations

import json
import platform
from dataclasses import dataclass

from gpuforge import settings as settings_module
from gpuforge.history import History
from gpuforge.monitor.sample import Sample
from gpuforge.monitor.values import series

LEVELS = {10: 360, 60: 1440, 3600: 2160}
"""Seconds of a stretch to how many are kept: an hour, a day, ninety days."""


@dataclass(frozen=True)
class Stretch:
    """What was sampled in one stretch of time.

    Attributes
    ----------
    began_at : seconds since the epoch, a multiple of `seconds`
    means, highest : by the names of `gpuforge.monitor.values.series`
    """

    began_at: int
    seconds: int
    means: dict[str, float]
    highest: dict[str, float]


class Recorder:
    """Keeps samples of this machine in the store, as the setting ``history`` allows."""

    def __init__(self, store: History | None = None) -> None:
        if store is None:
            chosen = settings_module.load().settings
            folder = settings_module.cache_folder(chosen) if chosen.history else None
            store = History(folder, platform.node())
        self._store = store
        self._open: dict[int, tuple[int, dict[str, list[float]]]] = {}

    def add(self, sample: Sample) -> None:
        """Take in a sample; what ends with it is written."""
        now, ended = series(sample), []
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
        rows = [
            (seconds, begin, json.dumps({n: (total / count, most) for n, (count, total, most) in
                                         sums.items()}))
            for seconds, begin, sums in ended
        ]  # fmt: skip
        if rows:
            self._store.keep_samples(rows, LEVELS)

    def read(self, seconds: int, since: float = 0.0) -> list[Stretch]:
        """Return the stretches of one of `LEVELS` that began since a time, the oldest first."""
        found = []
        for began, text in self._store.samples(seconds, since):
            try:
                values = [(str(n), float(a), float(b)) for n, (a, b) in json.loads(text).items()]
            except (ValueError, TypeError, AttributeError, RecursionError):
                continue  # another version wrote it otherwise
            means, highest = {n: mean for n, mean, _ in values}, {n: most for n, _, most in values}
            found.append(Stretch(began, seconds, means, highest))
        return found
