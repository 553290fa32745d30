"""What gf.profile records: times that add up, planted work found, nothing changed."""

from __future__ import annotations

import importlib.util
import threading
import time
import warnings
from collections.abc import Iterator
from time import perf_counter, perf_counter_ns
from typing import Any

import numpy as np
import pytest

import gpuforge as gf
from gpuforge import trace
from gpuforge.profiler.breakdown import breakdown
from gpuforge.profiler.model import DEVICE, HOST, TRANSFER, WAIT, Profile
from gpuforge.profiler.paths import Path as CallPath
from gpuforge.profiler.paths import paths
from gpuforge.runtime.session import session as make_session
from tests.profiler.programs import PROGRAMS, Walls

MS = 1_000_000


@pytest.fixture(autouse=True)
def off_afterwards() -> Iterator[None]:
    warnings.resetwarnings()  # where they are errors, calls are made as written
    yield
    assert not trace.enabled and trace.drainer is None and not trace.standing()
    trace.drain()


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_times_of_every_thread_add_up(name: str) -> None:
    run, needs = PROGRAMS[name]
    if needs and importlib.util.find_spec(needs) is None:
        pytest.skip(f"needs {needs}")
    walls: Walls = {}
    with gf.profile() as p:
        start = perf_counter_ns()
        run(walls)
        walls["MainThread"] = perf_counter_ns() - start
    profile = p.profile
    names = [lane.name for lane in profile.lanes]
    parts = {names[part.lane]: part for part in breakdown(profile)}
    assert set(walls) <= set(parts)
    for thread, wall in walls.items():
        told = sum(parts[thread].label_ns) + parts[thread].unexplained_ns
        assert told == pytest.approx(wall, rel=0.05, abs=2 * MS), thread
        assert parts[thread].unexplained_ns < 0.05 * wall + MS
    for part in parts.values():
        if profile.lanes[part.lane].kind == "thread":
            told = sum(part.label_ns) + part.unexplained_ns
            assert told == pytest.approx(part.wall_ns, rel=0.05), names[part.lane]
            assert part.label_ns[DEVICE] == 0
    assert profile.complete and profile.cost_ns > 0
    assert not [span for span in profile.spans if span.duration_ns < 0]


def under(profile: Profile, *names: str) -> CallPath:
    found = paths(profile)
    for name in ("program", *names):
        found = found.children[name, "thread"]
    return found


def busy(profile: Profile, lane: str) -> list[tuple[int, int]]:
    """Return when a device's lane was busy, in order."""
    number = [one.name for one in profile.lanes].index(lane)
    return sorted((s.start_ns, s.end_ns) for s in profile.spans if s.lane == number)


LIBRARIES = {"dpnp": "dpnp:cpu", "pyopencl": "opencl:cpu"}


@pytest.fixture(params=LIBRARIES)
def planted(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A session with one library, and what makes its device work, and its copies take, so long."""
    pytest.importorskip(request.param)
    seconds = {"device": 0.0, "put": 0.0}
    with make_session() as session:
        trace.enable()  # queues that tell times are made while a profile is on
        backend = session.find(LIBRARIES[request.param], isolate=False)
        trace.enable(False)
        trace.drain()
        functions, put = backend.lowering.functions, backend.put
        sqrt = functions["sqrt"]

        def long_sqrt(*given: Any) -> Any:
            end = perf_counter() + seconds["device"]
            made = sqrt(*given)
            while perf_counter() < end:
                made = sqrt(*given)
                backend.wait(made)
            return made

        def slow_put(array: Any) -> Any:
            time.sleep(seconds["put"])
            return put(array)

        monkeypatch.setitem(functions, "sqrt", long_sqrt)
        monkeypatch.setattr(backend, "put", slow_put)
        session.programs.clear()

        @gf.offload(backend=backend.name, isolate=False)
        def root(x: np.ndarray) -> Any:
            return np.sqrt(x)

        yield root, seconds, backend


def test_planted_work_is_found_under_its_label(planted: Any) -> None:
    root, seconds, backend = planted
    x = np.ones(2_000_000)
    root(x)
    with gf.profile() as p:
        seconds.update(device=0.0, put=0.2)
        with gf.span("copies"):
            root(x + 1)
        seconds.update(device=0.3, put=0.0)
        with gf.span("computes"):
            root(x + 2)
        with gf.span("python"):
            end = perf_counter() + 0.1
            while perf_counter() < end:
                sum(range(100))
    profile = p.profile
    copies, computes = under(profile, "copies"), under(profile, "computes")
    assert copies.label_ns[TRANSFER] == pytest.approx(200 * MS, rel=0.1, abs=20 * MS)
    assert copies.bytes >= 2 * x.nbytes  # there and back
    assert computes.label_ns[WAIT] == pytest.approx(300 * MS, rel=0.1, abs=20 * MS)
    assert under(profile, "python").label_ns[HOST] == pytest.approx(100 * MS, rel=0.1)
    spans = busy(profile, f"{backend.name} compute")
    assert sum(end - start for start, end in spans) == pytest.approx(300 * MS, rel=0.15)
    assert not any("does not tell" in note for note in profile.notes)
    moves = [s.attributes for s in profile.spans if s.label == TRANSFER]
    assert {move["direction"] for move in moves} == {"to device", "from device"}
    place = profile.placements[0]
    assert place.backend == backend.name and place.seconds > 0 and place.function.endswith("root")


def test_copies_and_work_of_two_threads_overlap_on_the_lanes_of_the_device() -> None:
    pytest.importorskip("dpnp")
    begun = threading.Event()
    with gf.profile() as p, make_session() as session:
        backend = session.find("dpnp:cpu", isolate=False)
        sqrt, put = backend.lowering.functions["sqrt"], backend.put

        def long_sqrt(*given: Any) -> Any:
            end = perf_counter() + 0.3
            begun.set()
            while perf_counter() < end:
                made = sqrt(*given)
                backend.wait(made)
            return made

        def slow_put(array: Any) -> Any:
            if begun.is_set():
                time.sleep(0.2)
            return put(array)

        backend.lowering.functions["sqrt"] = long_sqrt
        backend.put = slow_put

        @gf.offload(backend="dpnp:cpu", isolate=False)
        def root(x: np.ndarray) -> Any:
            return np.sqrt(x)

        @gf.offload(backend="dpnp:cpu", isolate=False)
        def double(x: np.ndarray) -> Any:
            return x + x

        def copies() -> None:
            begun.wait()
            with session:
                double(np.ones(1000))

        other = threading.Thread(target=copies)
        other.start()
        root(np.ones(100_000))
        other.join()
    copied = max(busy(p.profile, "dpnp:cpu copy"), key=lambda one: one[1] - one[0])
    computed = max(busy(p.profile, "dpnp:cpu compute"), key=lambda one: one[1] - one[0])
    overlap = min(copied[1], computed[1]) - max(copied[0], computed[0])
    assert overlap > 100 * MS
