"""Recording that takes longer than the call itself ends, and no library is loaded for it."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpuforge as gf
from gpuforge.runtime.backends.numpy import NumpyBackend
from gpuforge.runtime.evaluation import pace, recording
from gpuforge.runtime.evaluation.engine import BackendEngine, Programs
from gpuforge.runtime.evaluation.opening import open_library
from gpuforge.runtime.evaluation.recording import record
from gpuforge.runtime.placement.policy import NUMPY, Candidate, Kind, Policy, observe


class Clock:
    """Processor time as a test sets it."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(pace, "thread_time", made)
    return made


def test_noting_that_takes_longer_than_numpy(clock: Clock) -> None:
    found = pace.Pace(numpy_seconds=10.0)
    found.check(0.0)
    clock.now = 5.0  # the first graph of a process
    found.done(0.0, 0.01)
    for _ in range(3):
        clock.now += 0.01
        found.done(0.0, 0.005)
        found.check(0.0)
    clock.now += 0.02
    with pytest.raises(pace.TooManyOperations, match=r"takes 1\.4 times as long") as raised:
        found.check(0.0)
    assert raised.value.factor == pytest.approx(0.035 / 0.025)


def test_time_on_the_backend_is_no_noting(clock: Clock) -> None:
    found = pace.Pace(numpy_seconds=10.0)
    found.done(0.0, 0.01)
    clock.now += 1.0
    found.check(elsewhere_seconds=1.0)
    assert found.recording_seconds(1.0) == pytest.approx(0.0, abs=0.02)


def test_graphs_that_take_numpy_longer_than_the_call(clock: Clock) -> None:
    found = pace.Pace(numpy_seconds=0.1)
    for _ in range(2):
        clock.now += 0.1
        found.done(0.0, 0.1)
        found.check(0.0)
    clock.now += 0.1
    found.done(0.0, 0.1)
    with pytest.raises(pace.TooManyOperations):
        found.check(0.0)


def test_a_call_in_blocks_that_takes_longer_than_twice_numpys_time(clock: Clock) -> None:
    found = pace.Pace(numpy_seconds=0.1)
    clock.now = 5.0  # the first graph of a process
    found.check_in_blocks()
    clock.now += 0.2
    found.check_in_blocks()
    clock.now += 0.1
    with pytest.raises(pace.TooManyOperations, match=r"takes 3\.0 times as long"):
        found.check_in_blocks()


def test_a_graph_that_numpy_settles_forgets_no_time(clock: Clock) -> None:
    found = pace.Pace(numpy_seconds=0.1)
    clock.now = 5.0
    found.check_in_blocks()
    clock.now += 0.2
    found.done(0.0, 0.01)
    clock.now += 0.1
    with pytest.raises(pace.TooManyOperations):
        found.check_in_blocks()


def test_a_try_in_blocks_ends_if_recording_takes_too_long(clock: Clock) -> None:
    """Blocks compute with NumPy's own functions, so that nothing is compared with NumPy."""
    programs = Programs()
    backend = open_library("blocks").devices[0]
    limit = pace.Pace(numpy_seconds=1e-3)
    engine = BackendEngine(backend, NumpyBackend(), programs, pace=limit, numpy_seconds=1e-3)
    run = engine.run

    def slowly(*given: Any) -> Any:
        clock.now += 0.01
        return run(*given)

    engine.run = slowly  # type: ignore[method-assign]
    with pytest.raises(recording.StartAgain) as raised:
        record(looping, (np.linspace(0.0, 0.5, 1000),), {}, engine)
    assert raised.value.factor == pytest.approx(30.0)
    assert engine.outcome.programs == 3


def test_planning_is_done_once(clock: Clock) -> None:
    found = pace.Pace(numpy_seconds=1.0)
    found.done(0.0, 0.0)
    clock.now += 0.5
    found.done(0.5, 0.0)
    found.check(0.0)
    assert found.recording_seconds() == 0.0


ROUNDS = 2000


def looping(x: Any) -> Any:
    y = x
    for _ in range(ROUNDS):
        y = y * 0.5 + 1.0
        if y[0] > 1e9:
            break
    return y


def whole(x: Any) -> Any:
    y = x
    for n in range(20):
        y = y * x + n
    return y


@pytest.mark.parametrize("function", [looping, whole])
def test_a_library_is_loaded_for_what_can_gain(function: Any, torch: Any) -> None:
    """Two thousand looks at a value cost more than NumPy; a graph of forty operations does not."""
    del torch
    x = np.linspace(0.0, 0.5, 500_000 if function is whole else 1000)
    with gf.session(history=False, backends=["numpy", "torch"]) as held:
        library = held.libraries["torch"]
        library.price_seconds = 0.0
        placed = gf.offload(function)
        for _ in range(40):
            np.testing.assert_allclose(placed(x), function(x), rtol=1e-12)
            if library.opened:
                break
        (record,) = next(iter(held.functions.values())).kinds.values()
        held.background.wait()
    assert record.probed
    assert library.opened == (function is whole)
    assert (record.kind.recording_seconds > 0) == (function is looping)


def test_what_recording_takes_is_seen_with_the_next_call(
    torch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many calls its choice was to be kept for."""
    del torch
    x = np.linspace(0.0, 0.5, 1000)
    with gf.session(history=False, backends=["numpy", "torch"]) as held:
        placed = gf.offload(whole)
        placed(x)
        (function,) = held.functions.values()
        while not function.held:
            placed(x)
        wanted = iter([held.libraries["torch"]])
        monkeypatch.setattr(held, "want", lambda *_: next(wanted, None))
        (record,) = function.kinds.values()
        while record.probing is None:
            placed(x[:-1])  # of another signature, which is considered
        assert not function.held
        placed(x)
        held.background.wait()
        assert record.probed


@pytest.mark.parametrize(
    ("seconds", "limit", "runs"), [(1e3, 0.0, 2), (1e-9, 1e3, 3), (1e-9, 0.0, 2)]
)
def test_a_try_that_is_not_clearly_faster_is_timed_again(
    jax: Any, monkeypatch: pytest.MonkeyPatch, seconds: float, limit: float, runs: int
) -> None:
    """The first run of a program tells nothing; the next may have waited, or it has lost."""
    del jax
    monkeypatch.setattr("gpuforge.runtime.evaluation.engine.LOST_SECONDS", limit)
    backend = open_library("jax").devices[0]
    engine = BackendEngine(
        backend, NumpyBackend(), Programs(), comparing=True, numpy_seconds=seconds
    )
    made: list[Any] = []
    compiled = type(backend).program

    def counted(self: Any, program: Any, given: Any) -> Any:
        found = compiled(self, program, given)

        def run(*inputs: Any) -> Any:
            made.append(inputs)
            return found(*inputs)

        return run

    monkeypatch.setattr(type(backend), "program", counted)
    x = np.linspace(0.0, 1.0, 100)
    np.testing.assert_allclose(record(whole, (x,), {}, engine).result, whole(x))
    assert engine.outcome.compared
    assert len(made) == runs


@pytest.mark.parametrize(("numpy_seconds", "there"), [(1e3, 6), (1e-9, 1)])
def test_a_try_that_has_lost_goes_on_without_the_backend(
    torch: Any, monkeypatch: pytest.MonkeyPatch, numpy_seconds: float, there: int
) -> None:
    """Each look at a value is a graph; what the others would have taken is told by the first."""
    del torch
    backend = open_library("torch").devices[0]
    programs = Programs()
    monkeypatch.setattr("gpuforge.runtime.evaluation.engine.LOST_SECONDS", 0.0)
    engine = BackendEngine(
        backend, NumpyBackend(), programs, comparing=True, numpy_seconds=numpy_seconds
    )

    def rounds(x: Any) -> Any:
        for _ in range(5):
            x = x * 0.5 + 1.0
            if x.max() > 1e9:
                break
        return x - 1.0

    x = np.linspace(0.0, 1.0, 100)
    found = record(rounds, (x,), {}, engine).result
    outcome = engine.outcome
    np.testing.assert_allclose(found, rounds(x))
    assert (outcome.programs, outcome.left_out) == (there, 6 - there)
    assert outcome.compared == (there == 6)  # what was not compared is not believed
    seen = outcome.transfer_seconds + outcome.run_seconds
    assert outcome.unseen_seconds == pytest.approx(seen * (6 - there) / there)


def test_an_exception_while_a_call_is_sounded_is_the_callers(torch: Any) -> None:
    """It passes as it is, and the call counts as made."""
    del torch

    def fails(x: Any, bad: bool) -> Any:
        y = x * 2.0
        if bad:
            raise ValueError("the user's own")
        return y

    x = np.linspace(0.0, 0.5, 500_000)
    with gf.session(history=False, backends=["numpy", "torch"]) as held:
        held.libraries["torch"].price_seconds = 0.0
        placed = gf.offload(fails)
        placed(x, False)
        (record,) = next(iter(held.functions.values())).kinds.values()
        record.probing = held.libraries["torch"]
        before = placed.stats().counts["numpy"].calls
        with pytest.raises(ValueError, match="the user's own"):
            placed(x, True)
        assert placed.stats().counts["numpy"].calls == before + 1


def noting(x: Any, out: list[int]) -> Any:
    y = x
    for n in range(3):
        for _ in range(400):
            y = y * 0.5 + 1.0
        out.append(n)
        if y[0] > 1e9:
            break
    return y


def writing(x: Any, scale: float) -> Any:
    x += 1.0
    y = x
    for _ in range(3):
        for _ in range(400):
            y = y * scale + 1.0
        x[::2] *= 3.0
        if y[0] > 1e9:
            break
    return y


@pytest.mark.parametrize(("function", "given_up"), [(noting, False), (writing, True)])
def test_what_a_call_wrote_is_not_written_twice(
    function: Any, given_up: bool, torch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call that has written into a list goes on; what it writes into arrays waits for its end."""
    del torch

    def check(self: pace.Pace, elsewhere_seconds: float) -> None:
        if self.graphs > 10:
            raise pace.TooManyOperations(2.0)

    monkeypatch.setattr(pace.Pace, "check", check)
    x = np.linspace(0.0, 0.5, 300_000)
    with gf.session(history=False, backends=["numpy", "torch"]) as held:
        placed, second = gf.offload(function), function is noting
        placed(x.copy(), [] if second else 0.5)
        (record,) = next(iter(held.functions.values())).kinds.values()
        record.probing = held.libraries["torch"]
        mine, wanted = x.copy(), x.copy()
        more, wanted_more = ([], []) if second else (0.5, 0.5)
        result = placed(mine, more)
        np.testing.assert_allclose(result, function(wanted, wanted_more), rtol=1e-12)
        held.background.wait()
    assert record.probed
    np.testing.assert_array_equal(mine, wanted)
    assert more == wanted_more
    assert (record.kind.recording_seconds > 0) == given_up


def test_what_recording_takes_is_remembered(torch: Any, tmp_path: Path) -> None:
    del torch
    x = np.linspace(0.0, 0.5, 1000)
    found = []
    for run in range(2):
        with gf.session(cache_folder=str(tmp_path), backends=["numpy", "torch"]) as held:
            held.libraries["torch"].price_seconds = 0.0
            placed = gf.offload(looping)
            for _ in range(20 if run == 0 else 1):
                placed(x)
            (record,) = next(iter(held.functions.values())).kinds.values()
            found.append(record.kind.recording_seconds)
    assert found[0] == found[1] > 0


def test_recording_is_a_floor_of_every_other_backend() -> None:
    """It is tried where NumPy takes longer than recording does, and not where it does not."""
    other = Candidate("torch:cpu")
    for numpy_seconds, tried in ((0.5, False), (20.0, True)):
        kind = Kind(recording_seconds=1.0)
        kind.prior = lambda backend, size, seconds: None
        kind.curve("torch:cpu").verified = True
        for _ in range(200):
            observe(kind, "a", 1000, NUMPY, numpy_seconds, [other])
        made = Policy(1e9).decide(kind, "a", 1000, [Candidate(NUMPY), other])
        assert (made.backend != NUMPY) == tried


def test_arrays_that_outlive_a_recording_are_found_in_few_searches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A search looks at every object of the process: one for each array took seconds."""
    searches: list[int] = []
    search = gc.get_referrers

    def counted(*objects: Any) -> list[Any]:
        searches.append(len(objects))
        return search(*objects)

    kept: list[Any] = []

    def keeping(x: Any) -> Any:
        kept.extend((x + n, [x * n]) for n in range(200))
        return memoryview(x)

    monkeypatch.setattr(gc, "get_referrers", counted)
    reference = NumpyBackend()
    with pytest.raises(recording.StartAgain):
        record(keeping, (np.ones(4),), {}, BackendEngine(reference, reference, Programs()))
    assert max(searches) >= 400
    assert len(searches) <= 6
    assert {type(one) for pair in kept for one in (pair[0], *pair[1])} == {np.ndarray}


def test_exports_of_a_recording_that_ends_are_not_searched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searches: list[Any] = []
    monkeypatch.setattr(gc, "get_referrers", lambda *found: searches.append(found) or [])

    def exporting(x: Any) -> Any:
        for n in range(20):
            y = x + n
            y.__array__().sum()
        return memoryview(x)

    reference = NumpyBackend()
    with pytest.raises(recording.StartAgain):
        record(exporting, (np.ones(4),), {}, BackendEngine(reference, reference, Programs()))
    assert not searches


def computing_nothing(x: Any) -> Any:
    total = 0
    for n in range(20_000):
        total ^= n
    return total + len(x)


def test_no_library_is_loaded_for_what_computes_no_arrays(torch: Any) -> None:
    del torch
    x = np.ones(1000)
    with gf.session(history=False, backends=["numpy", "torch"]) as held:
        library = held.libraries["torch"]
        library.price_seconds = 0.0
        placed = gf.offload(computing_nothing)
        for _ in range(40):
            assert placed(x) == computing_nothing(x)
        (record,) = next(iter(held.functions.values())).kinds.values()
    assert record.probed
    assert not library.opened


def test_a_loop_that_cannot_be_restarted_is_recorded_only_if_its_worst_case_is_affordable(
    quiet_session: Any,
) -> None:
    def summed(x: Any, weights: Any) -> Any:
        return sum(x[n] * weights[0] for n in range(3))

    def kind(weights: Any) -> Any:
        placed = gf.offload(summed)
        placed(np.arange(4.0), weights)
        [record] = placed.stats().kinds.values()
        return record.kind

    assert not kind((1.0, (2.0, None))).unbounded
    assert kind([1.0]).unbounded and kind((np.ones(2),)).unbounded
