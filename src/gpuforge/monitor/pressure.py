"""Memory pressure events, from the increase of programs' counters between samples."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

from gpuforge.monitor.sample import Sample
from gpuforge.published import Pressure

MOST_EVENTS = 50
KINDS = {
    "warnings": "above the warning level",
    "criticals": "above the critical level",
    "exhausted": "ran out; NumPy ran the call",
    "released": "cached memory released",
}


@dataclass(frozen=True)
class PressureEvent:
    """A memory pressure event on the device of a backend.

    Attributes
    ----------
    at : seconds since the epoch; for several events between two samples, the time of the last
    backend : the backend of the program's calls, which names the device: ``torch:cuda:0``
    kind : one of the values of `KINDS`
    times : how often it happened since the previous sample
    released_bytes : memory that was released, as far as the library reports it
    """

    at: float
    program: str
    pid: int
    backend: str
    kind: str
    times: int
    released_bytes: int = 0


class PressureEvents:
    """The newest events of all programs seen, including those that have ended.

    Attributes
    ----------
    newest : the events, newest first, at most `MOST_EVENTS`
    """

    def __init__(self) -> None:
        self.newest: deque[PressureEvent] = deque(maxlen=MOST_EVENTS)
        self._before: dict[tuple[int, float, str], Pressure] = {}

    def add(self, sample: Sample) -> None:
        """Add the events between the previous sample and this one."""
        before, self._before = self._before, {}
        found: list[PressureEvent] = []
        for process in sample.processes:
            shown = process.published
            for use in shown.backends:
                key = shown.pid, shown.started_at, use.name
                self._before[key] = now = use.pressure
                was = before.get(key, Pressure())
                one = PressureEvent(now.last_at, shown.program, shown.pid, use.name, "", 0)
                for name, kind in KINDS.items():
                    if (times := getattr(now, name) - getattr(was, name)) > 0:
                        given = now.released_bytes - was.released_bytes
                        size = given if name == "released" else 0
                        found.append(replace(one, kind=kind, times=times, released_bytes=size))
        for event in sorted(found, key=lambda event: event.at):
            self.newest.appendleft(event)
