"""The samples of the last ten minutes as series, for rules and charts."""

from __future__ import annotations

import math
from collections import Counter, defaultdict, deque
from collections.abc import Mapping
from typing import Any

from gpuforge.facts import known
from gpuforge.monitor.sample import Sample
from gpuforge.monitor.series import Kind, Subject
from gpuforge.readings.model import DeviceReading, HostReading

KEPT_SECONDS = 600.0
BREAK_SECONDS, BREAK_STEPS = 15.0, 5.0
"""Samples further apart than both, in seconds and in mean distances, have a break between them: the
machine slept, its clock was set, or it could not be read."""


class Watch:
    """The series of the last ten minutes; a subject that the newest sample lacks is dropped.

    Attributes
    ----------
    moments : times of the samples in seconds since the epoch, oldest first
    throttled_seconds : time for which each (index of the GPU, reason) was seen since the start
    """

    def __init__(self) -> None:
        self.moments: deque[float] = deque()
        self.throttled_seconds: defaultdict[tuple[str, str], float] = defaultdict(float)
        self._breaks: list[tuple[float, float]] = []
        self._who: dict[str, tuple[Kind, str]] = {}
        self._series: dict[str, dict[str, deque[tuple[float, float]]]] = {}

    def add(self, sample: Sample) -> None:
        """Add a sample; none until the clock has made up for a small step back."""
        if self.moments and 0 <= self.moments[-1] - sample.taken_at < BREAK_SECONDS:
            return
        passed = self.pass_to(sample.taken_at)
        seen = {"host"}
        self._keep("host", "host", "", sample.taken_at, _host(sample.host))
        for device in sample.devices:
            name = f"GPU {device.index}"
            seen.add(name)
            for reason in known(device.throttle_reasons) or ():
                self.throttled_seconds[str(device.index), reason] += passed
            self._keep(name, "gpu", known(device.name) or "", sample.taken_at, _device(device))
        for process in sample.processes:
            name, shown = f"process {process.published.pid}", process.published
            seen.add(name)
            values = {"tasks_waiting": shown.queued, "tasks_finished": shown.done + shown.failed}
            values |= {
                f"uses:GPU {device.index}": 1
                for device in sample.devices
                if any(one.pid == shown.pid for one in known(device.processes) or ())
            }
            resident = known(process.resident_bytes)
            free = known(sample.host.memory_available_bytes)
            if resident is not None and free is not None:
                values |= {"memory_used_bytes": resident, "memory_total_bytes": resident + free}
            self._keep(name, "process", "", sample.taken_at, values)
        for name in self._series.keys() - seen:
            del self._series[name], self._who[name]
        self.moments.append(sample.taken_at)
        self._forget(sample.taken_at - KEPT_SECONDS)

    def pass_to(self, moment: float) -> float:
        """Return the seconds since the last sample, of which a break is not counted.

        If the clock was set back, all series start anew.
        """
        if not self.moments or moment < self.moments[-1]:
            self.moments.clear()
            self._series.clear()
            self._breaks.clear()
            return 0.0
        passed = moment - self.moments[-1]
        usual = (self.moments[-1] - self.moments[0]) / max(1, len(self.moments) - 1)
        if len(self.moments) > 1 and passed > max(BREAK_SECONDS, BREAK_STEPS * usual):
            self._breaks = [one for one in self._breaks if one[0] > self.moments[0]]
            self._breaks.append((moment, passed - usual))
            return usual
        return passed

    def subjects(self, *, newest: bool = False, unbroken: bool = False) -> tuple[Subject, ...]:
        """Return everything in the newest sample, with its series.

        Parameters
        ----------
        newest
            Only the newest value of each series, which is faster.
        unbroken
            Times as if there had been no break.
        """

        def part(series: deque[tuple[float, float]]) -> list[tuple[float, float]]:
            if unbroken and self._breaks:
                return [(self._later(at), value) for at, value in series]
            return [series[-1]] if newest else list(series)

        return tuple(
            Subject(name, *self._who[name], {key: part(one) for key, one in series.items() if one})
            for name, series in self._series.items()
        )

    def _later(self, moment: float) -> float:
        return moment + sum(lost for ended, lost in self._breaks if moment < ended)

    def _keep(
        self, who: str, kind: Kind, model: str, moment: float, values: Mapping[str, float]
    ) -> None:
        self._who[who] = (kind, model)
        series = self._series.setdefault(who, {})
        for name, value in values.items():
            if name not in series:
                # A new condition was 0 before; so were errors, which count from the start.
                before = self.moments or ([moment] if name.startswith("xids:") else ())
                series[name] = deque((at, 0.0) for at in before if ":" in name)
            if math.isfinite(value):
                series[name].append((moment, float(value)))
        for name in series.keys() - values.keys():
            if name.startswith("throttle_reasons:") and "throttle_reasons" in values:
                series[name].append((moment, 0.0))

    def _forget(self, before: float) -> None:
        while self.moments[0] < before:
            self.moments.popleft()
        for who in self._series.values():
            for series in who.values():
                while series and series[0][0] < before:
                    series.popleft()


def _host(host: HostReading) -> dict[str, float]:
    values = _numbers(host)
    total, free = known(host.memory_total_bytes), known(host.memory_available_bytes)
    if total is not None and free is not None:
        values["memory_used_bytes"] = total - free
    return values


def _device(device: DeviceReading) -> dict[str, float]:
    values = _numbers(device)
    reasons, xids = known(device.throttle_reasons), known(device.xids)
    if reasons is not None:
        values["throttle_reasons"] = len(reasons)
        values.update({f"throttle_reasons:{reason}": 1.0 for reason in reasons})
    values.update({f"xids:{number}": count for number, count in Counter(xids or ()).items()})
    return values


def _numbers(reading: Any) -> dict[str, float]:
    return {name: v for name, v in vars(reading).items() if isinstance(v, int | float)}
