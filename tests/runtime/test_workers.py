"""Backends in worker processes: what they compute, how they die, and that nothing stays behind."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import gpuforge as gf
from gpuforge.errors import DeviceLost, WorkerDied
from gpuforge.runtime import backends
from gpuforge.runtime.array.graph import Graph
from gpuforge.runtime.backends.numpy import NumpyBackend
from gpuforge.runtime.evaluation.engine import BackendEngine, Programs
from gpuforge.runtime.evaluation.recording import record
from gpuforge.runtime.placement import priors
from gpuforge.runtime.workers import home, process
from gpuforge.runtime.workers.channel import Channel

from ..contract.conftest import null_device
from . import fragile
from .conftest import places

__all__ = ["null_device"]
pytestmark = pytest.mark.skipif(os.name != "posix", reason="workers need Unix sockets")
DEATHS = {
    "SIGSEGV": signal.SIGSEGV,
    "SIGABRT": signal.SIGABRT,
    "SIGKILL": signal.SIGKILL,
    "exit status 3": fragile.EXITS,
}


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install the fragile backend for this process and its workers."""
    fragile.install(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    backends._entry_points.cache_clear()
    yield
    backends._entry_points.cache_clear()


@pytest.fixture
def session(plugin: None) -> Iterator[Any]:
    with gf.session(history=False, plugins=True) as held:
        yield held


def roots(calls: list[int], **options: Any) -> Any:
    @gf.offload(backend="fragile", isolate=True, **options)
    def function(x: Any) -> Any:
        calls.append(1)
        return np.sqrt(x) + 1

    return function


def values(first: float = 49) -> Any:
    return np.array([float(first), 4.0, 9.0])


def until(is_so: Any, seconds: float = 60) -> None:
    """Wait for what another process does."""
    ends = monotonic() + seconds
    while not is_so():
        assert monotonic() < ends
        sleep(0.01)


@pytest.mark.parametrize("death", DEATHS)
def test_a_call_whose_worker_dies_is_made_by_numpy(session: Any, death: str) -> None:
    calls: list[int] = []
    function = roots(calls)
    assert np.array_equal(function(values()), [8, 3, 4])
    assert places(function) == {"fragile:cpu:worker": 1}
    fatal = values(DEATHS[death])
    assert np.array_equal(function(fatal), np.sqrt(fatal) + 1)
    assert len(calls) == 2  # the body ran once a call
    assert any(death in note for note in session.notes), session.notes
    assert any(
        "roots.<locals>.function: WorkerDied: the worker process of fragile" in note
        and note.endswith("NumPy ran the call")
        for note in session.notes
    )
    assert np.array_equal(function(values()), [8, 3, 4])
    assert places(function) == {"fragile:cpu:worker": 1, "numpy": 2}
    assert "not used for a while" in str(function.explain(values()))


def test_what_is_known_of_a_death_survives_pickling() -> None:
    died = WorkerDied("it died", hint="call again")
    died.status, died.function = -9, "f"
    again = pickle.loads(pickle.dumps(died))
    assert (str(again), again.hint, again.status, again.function) == (
        "it died",
        "call again",
        -9,
        "f",
    )


def test_a_lost_worker_comes_back_after_a_pause(
    session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(home, "FIRST_PAUSE_SECONDS", 0.0)
    function = roots([])
    function(values())
    place = session.find("fragile", True)
    place.home._pause = 0.0
    function(values(signal.SIGSEGV))
    until(lambda: not place.away())
    assert place.home.starts == 2
    assert np.array_equal(function(values()), [8, 3, 4])
    assert places(function)["fragile:cpu:worker"] == 2


def test_a_worker_all_of_whose_threads_sleep_is_ended(
    session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "STALL_SECONDS", 0.2)
    function = roots([])
    function(values())
    assert np.array_equal(function(values(fragile.SLEEPS)), np.sqrt(values(fragile.SLEEPS)) + 1)
    assert any("all its threads waited" in note for note in session.notes), session.notes


def test_each_loss_is_followed_by_a_longer_pause(session: Any) -> None:
    place = session.find("fragile", True)
    pauses = []
    for _ in range(3):
        with pytest.raises(WorkerDied, match="SIGKILL"):
            place.home._worker.process.kill()
            place.home._worker.process.wait()
            place.home.ask(("release",), (), lambda answer: None)
        pauses.append(place.home._pause)
        place.home._due = 0.0
        until(lambda: not place.away())
    assert pauses == [2, 4, 8]


def test_what_was_lost_is_isolated_by_later_runs(plugin: None) -> None:
    with gf.session(plugins=True) as held:
        assert not held.libraries["fragile"].isolated
        roots([])(values(signal.SIGABRT))
    with gf.session(plugins=True) as held:
        assert held.libraries["fragile"].isolated
        function = gf.offload(backend="fragile")(lambda x: x + 1)
        assert np.array_equal(function(values(1)), [2, 5, 10])
        assert places(function) == {"fragile:cpu:worker": 1}
        inside = gf.offload(backend="fragile", isolate=False)(lambda x: x + 1)
        inside(values(1))
        assert places(inside) == {"fragile:cpu": 1}


@pytest.mark.parametrize("kind", [fragile.RAISES, fragile.EXHAUSTS])
def test_what_a_library_raises_there_is_settled_as_here(session: Any, kind: int) -> None:
    function = roots([])
    function(values())
    assert np.array_equal(function(values(kind)), np.sqrt(values(kind)) + 1)
    (record,) = function.stats().kinds.values()
    refused = record.kind.curve("fragile:cpu:worker").refused
    assert ("not built" in refused) is (kind == fragile.RAISES)
    assert session.find("fragile", True).home.starts == 1


def test_the_free_choice_of_an_isolated_function_is_among_workers(session: Any) -> None:
    session.find("fragile")
    session.find("fragile", True)
    function = gf.offload(isolate=True)(lambda x: x + 1)
    function(values())
    rows = {row.backend for row in function.explain(values()).rows if row.candidate}
    assert "fragile:cpu:worker" in rows and "fragile:cpu" not in rows
    either = gf.offload(lambda x: x + 1)
    either(values())
    assert "fragile:cpu" in {row.backend for row in either.explain(values()).rows if row.candidate}


class Recording(BackendEngine):
    """Keeps the graphs that it runs."""

    def run(self, tape: Any, wanted: list[int], modes: dict[str, str]) -> list[Any]:
        self.graphs = [*getattr(self, "graphs", ()), Graph(tuple(tape.entries), tuple(wanted))]
        return super().run(tape, wanted, modes)


def mixed(x: Any, y: Any) -> Any:
    apart = x[:, None] - y[None, ::2]
    apart[apart < 0] = 0
    best = np.argsort(apart, axis=1)[:, :2]
    return (
        (np.take_along_axis(apart, best, 1) ** 2).astype(np.float32),
        np.where(x > 1, x, 2.5),
        x.T,
    )


def test_graphs_are_pickled_with_the_names_of_their_operations() -> None:
    engine = Recording(NumpyBackend(), NumpyBackend(), Programs())
    record(mixed, (np.arange(6.0), np.arange(8.0)), {}, engine)
    assert engine.graphs
    for graph in engine.graphs:
        assert pickle.loads(pickle.dumps(graph)) == graph


LAYOUTS = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "strided": lambda x: np.repeat(x, 2, axis=0)[::2],
    "reversed": lambda x: x[::-1],
}


@pytest.fixture(scope="module")
def numpy_worker() -> Iterator[Any]:
    """Return NumPy in a worker process, for many examples."""
    with gf.session(history=False) as held:
        yield held.find("numpy", True)


class TestArraysArriveAsTheyAre:
    @pytest.mark.parametrize("layout", LAYOUTS)
    @given(
        array=arrays.arrays(
            st.sampled_from(["?", "b", "H", "i", "q", "e", "f", "d", "D"]),
            arrays.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4),
        )
    )
    def test_on_the_other_side(self, layout: str, array: Any) -> None:
        given = LAYOUTS[layout](array)
        ends = socket.socketpair()
        here, there = map(Channel, ends)
        here.send(["message"], [given, given[:1]])
        message, found = there.receive()
        assert message == ["message"]
        for one, expected in zip(found, (given, given[:1]), strict=True):
            assert (one.dtype, one.shape) == (expected.dtype, expected.shape)
            assert one.flags.f_contiguous or not expected.flags.f_contiguous
            assert np.array_equal(one, expected, equal_nan=array.dtype.kind in "fc")
        del found, one
        for end in (here, there):
            end.close()

    def test_results_are_the_callers_own(self, numpy_worker: Any) -> None:
        function = gf.offload(backend="numpy", isolate=True)(lambda x: x * 2)
        with gf.session(history=False):
            first = function(np.ones(300_000))
            function(np.zeros(300_000))
        assert (first == 2).all()

    def test_segments_are_reused_and_given_up(self, numpy_worker: Any) -> None:
        channel = numpy_worker.home._worker.channel
        files = len(os.listdir("/proc/self/fd"))
        sizes = set()
        for count in (10, 1000, 2**20, 2**24, 10):
            engine = BackendEngine(numpy_worker, NumpyBackend(), Programs(), relaxed=True)
            record(lambda x: x + 1, (np.ones(count),), {}, engine)
            sizes.add(len(channel._written))
        assert sizes == {2**20, 2**23, 2**27}
        assert len(os.listdir("/proc/self/fd")) == files


def test_a_library_in_a_worker_agrees_with_numpy(other: str) -> None:
    function = gf.offload(backend=other, isolate=True)(lambda x, y: np.exp(x) @ y + x.mean())
    x, y = np.linspace(0, 1, 64).reshape(8, 8), np.eye(8)
    with gf.session(history=False) as held:
        for _ in range(3):
            np.testing.assert_allclose(function(x, y), np.exp(x) @ y + x.mean())
        assert places(function) == {f"{other}:cpu:worker": 3}
        assert not held.notes


DRIVEN = {"mlx": "mlx.core", "opencl": "pyopencl"}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux alone limits a process")
@pytest.mark.parametrize("library", DRIVEN)
def test_a_library_driven_out_of_memory_ends_its_worker_alone(library: str) -> None:
    pytest.importorskip(DRIVEN[library], reason=f"{DRIVEN[library]} is not installed")

    @gf.offload(backend=library)
    def spread(x: Any, y: Any) -> Any:
        apart = x[:, None] - y[None, :]
        return (apart * apart).sum(axis=1)

    small, large = (np.linspace(0, 1, n, dtype=np.float32) for n in (64, 6000))
    with gf.session(history=False, worker_memory="128 MiB") as held:
        spread(small, small.copy())
        assert places(spread) == {f"{library}:cpu:worker": 1}
        found = spread(large, large.copy())  # 144 MB at once
        np.testing.assert_allclose(
            found[:3], ((large[:3, None] - large.astype(float)) ** 2).sum(axis=1), rtol=1e-3
        )
        assert places(spread) == {f"{library}:cpu:worker": 1, "numpy": 1}
        (record,) = spread.stats().kinds.values()
        died = [note for note in held.notes if "was lost" in note]
        assert died or any("alloc" in reason.lower() for reason in record.settled), record.settled
        assert not record.kind.curve(f"{library}:cpu:worker").refused


def heavy(x: Any) -> Any:
    return np.exp(np.sin(x)) * np.tanh(x) + np.log1p(x)


OTHERS = ["blocks", "torch", "jax", "mlx", "dpnp", "cupy"]


@pytest.mark.parametrize("measured", [True, False])
def test_opencl_is_opened_unasked_where_a_calibration_says_that_it_gains(
    measured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyopencl", reason="pyopencl is not installed")
    monkeypatch.setattr(priors, "may_have_gpu", lambda: False)
    with gf.session(history=False, forbid=OTHERS) as held:
        ratios = [[1e3, 0.2], [1e7, 0.2]]
        held.priors._table = {"heavy": {"opencl:cpu:worker": ratios}} if measured else {}
        held.libraries["opencl"].price_seconds = 0.02
        function, x = gf.offload(heavy), np.random.default_rng(0).random(2**18)
        known = held.candidates
        ends = monotonic() + (60 if measured else 1)
        while len(known()) == 1 and monotonic() < ends:
            np.testing.assert_allclose(function(x), heavy(x))
        assert [one.name for one in known()][1:] == ["opencl:cpu:worker"] * measured
        assert bool(held.openings._homes) is measured
        (record,) = function.stats().kinds.values()
        while measured and not record.kind.curve("opencl:cpu:worker").verified:
            assert monotonic() < ends  # it is tried, and judged by its own times
            np.testing.assert_allclose(function(x), heavy(x))


STICKY = "CUDA error: an illegal memory access was encountered"


def test_a_device_that_fails_for_good_is_left_to_another_process(
    null_device: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    held, device = null_device

    def broken(*_: Any) -> Any:
        raise RuntimeError(STICKY)

    function = gf.offload(backend="null")(lambda x: x + 1)
    function(np.ones(4))
    assert places(function) == {"null:gpu:0": 1}
    monkeypatch.setitem(device.lowering.functions, "add", broken)
    assert (gf.offload(backend="null")(lambda x: x + 2 + x)(np.ones(4)) == 4).all()
    assert any(STICKY in note for note in held.notes)
    assert held.libraries["null"].isolated and not held.backends()


def test_arrays_on_a_lost_device_are_gone_and_the_call_says_so(
    null_device: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    held, device = null_device

    def broken(array: Any) -> Any:
        raise RuntimeError(STICKY)

    @gf.offload(backend="null")
    def function(x: Any) -> Any:
        y = x + 1
        monkeypatch.setattr(device, "get", broken)
        return float(y.sum()) + y

    held.find("null")
    with pytest.raises(DeviceLost, match="null:gpu:0 failed with an array of this call on it"):
        function(np.ones(4))
