"""The list of what happened to the memory of devices: each thing once, bounded, kept to the end."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from gpuforge.monitor.pressure import MOST_EVENTS, PressureEvents
from gpuforge.monitor.sample import ProcessSample, Sample
from gpuforge.published import BackendUse, Pressure
from tests.monitor import made_sample
from tests.monitor.conftest import Dashboard


def seen(*pressures: Pressure, started_at: float = 1e9) -> Sample:
    """Return a sample of a program whose backends met these pressures so far."""
    made = made_sample.sample(1)
    names = ("torch:cuda:0", "jax:gpu:1")
    uses = tuple(
        BackendUse(n, 1, 1.0, 0.0, pressure=p) for n, p in zip(names, pressures, strict=False)
    )
    shown = replace(made.processes[0].published, backends=uses, started_at=started_at)
    return replace(made, processes=(ProcessSample(shown),))


def told(events: PressureEvents) -> list[tuple[float, str, str, int, int]]:
    return [(e.at, e.backend, e.kind, e.times, e.released_bytes) for e in events.newest]


def test_what_rose_is_an_event_and_what_stands_still_is_none() -> None:
    events = PressureEvents()
    events.add(seen(Pressure(), Pressure()))
    assert told(events) == []
    events.add(seen(Pressure(warnings=1, last_at=10.0), Pressure()))
    events.add(seen(Pressure(warnings=1, last_at=10.0), Pressure()))
    events.add(seen(Pressure(1, 1, 2, 1, 4096, 12.0), Pressure(exhausted=1, last_at=11.0)))
    assert told(events) == [
        (12.0, "torch:cuda:0", "cached memory released", 1, 4096),
        (12.0, "torch:cuda:0", "ran out; NumPy ran the call", 2, 0),
        (12.0, "torch:cuda:0", "above the critical level", 1, 0),
        (11.0, "jax:gpu:1", "ran out; NumPy ran the call", 1, 0),
        (10.0, "torch:cuda:0", "above the warning level", 1, 0),
    ]


def test_what_was_before_watching_is_told_once() -> None:
    events = PressureEvents()
    for _ in range(2):
        events.add(seen(Pressure(warnings=7, last_at=5.0)))
    assert told(events) == [(5.0, "torch:cuda:0", "above the warning level", 7, 0)]


def test_a_program_that_ended_stays_and_one_with_its_number_is_another() -> None:
    events = PressureEvents()
    events.add(seen(Pressure(warnings=3, last_at=5.0)))
    events.add(replace(seen(), processes=()))
    assert len(events.newest) == 1
    events.add(seen(Pressure(warnings=1, last_at=9.0), started_at=2e9))
    assert [event.times for event in events.newest] == [1, 3]


@pytest.mark.parametrize("count", [MOST_EVENTS, 3 * MOST_EVENTS])
def test_the_list_is_bounded(count: int) -> None:
    events = PressureEvents()
    for n in range(count):
        events.add(seen(Pressure(warnings=n + 1, last_at=float(n))))
    assert len(events.newest) == MOST_EVENTS
    assert events.newest[0].at == count - 1


def test_the_server_tells_them(dashboard: Dashboard) -> None:
    found = json.loads(dashboard.get("/api/now")[2])["pressure_events"]
    assert {event["kind"] for event in found} >= {"above the warning level"}
    assert {event["pid"] for event in found} == {4711, 4712}
    assert {event["backend"] for event in found} == {"torch:cuda:0"}
