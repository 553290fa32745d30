"""``f.map(items)`` gives what a loop gives: results, errors, warnings and writes."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gpuforge as gf
from gpuforge.errors import InvalidSettings, TaskTimeout, UnknownName, WorkloadError
from gpuforge.runtime import record
from gpuforge.runtime.executor import termination
from gpuforge.runtime.executor.ladder import Ladder
from gpuforge.runtime.executor.together import Result, call_together
from tests.meaning.compare import compare
from tests.meaning.fuzz import place as place_of
from tests.meaning.pattern import Given, Outcome, observe
from tests.meaning.program import arguments, grow
from tests.runtime.conftest import same

WEIGHTS = np.linspace(-1, 1, 16).reshape(4, 4)
COUNTER = np.zeros(1)
ITEMS = 12


@pytest.fixture(autouse=True)
def session() -> Iterator[Any]:
    threads = threading.active_count()
    with gf.session(history=False) as held:
        yield held
    assert threading.active_count() <= threads  # idle lanes of other tests may end meanwhile


def matrices(number: int = 40, size: int = 4, seed: int = 0) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((size, size)) for _ in range(number)]


def normalised(x: Any) -> Any:
    return x / np.sqrt((x * x).sum(axis=1, keepdims=True))


def summary(x: Any) -> Any:
    return x.sum(), x.mean(axis=0), x > 0


def weighted(x: Any) -> Any:
    return np.tanh(x @ WEIGHTS) + 1


def solved(x: Any) -> Any:
    return np.linalg.solve(x, np.ones(4)) * 2


def negated(x: Any) -> Any:
    x *= -1
    return x.sum()


def itself(x: Any) -> Any:
    return x


def part(x: Any) -> Any:
    return x[1:]


def branched(x: Any) -> Any:
    return x * 2 if x.sum() > 0 else np.abs(x)


def as_dict(x: Any) -> Any:
    return {"sum": x.sum(), "twice": [x * 2]}


def counted(x: Any) -> Any:
    COUNTER[0] += 1
    return x + 1


def text(x: Any) -> str:
    return f"{x.sum():.3f}"


FUNCTIONS = [normalised, summary, weighted, solved, itself, part, branched, as_dict, text]


def batches(function: Any) -> int:
    """Return how many items ran in batches."""
    found: int = function.stats().mapped.batched_items
    return found


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let batches be used wherever they can be, whatever they cost."""
    monkeypatch.setattr(
        Ladder, "choose", lambda self, available, fixed=0: min(fixed or 8, available, self.cap)
    )


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("batch", ["auto", 8, 7, 1])
@pytest.mark.usefixtures("eager")
def test_results_are_those_of_a_loop(function: Callable[..., Any], batch: Any) -> None:
    items = matrices()
    expected = [function(x) for x in items]
    offloaded = gf.offload(function)
    for _ in range(3):
        found = offloaded.map(items, batch=batch)
        for one, other in zip(expected, found, strict=True):
            same(one, other, 1e-9)
    assert offloaded.stats().mapped.items == 3 * len(items)


@pytest.mark.parametrize("function", [normalised, summary, weighted, solved])
@pytest.mark.usefixtures("eager")
def test_plain_functions_run_in_batches(function: Callable[..., Any]) -> None:
    offloaded = gf.offload(function)
    offloaded.map(matrices(), batch=8)
    assert batches(offloaded) >= 24
    assert not offloaded.stats().mapped.refused


@pytest.mark.parametrize("function", [itself, part, branched, as_dict, text])
def test_others_are_called_one_by_one_with_the_reason(function: Callable[..., Any]) -> None:
    offloaded = gf.offload(function)
    offloaded.map(matrices(), batch=8)
    assert batches(offloaded) == 0
    assert offloaded.stats().mapped.refused or offloaded.stats().batching.never


@pytest.mark.parametrize("library", ["torch", "jax"])
@pytest.mark.parametrize("function", [summary, weighted, branched])
@pytest.mark.usefixtures("eager")
def test_other_libraries_give_numpys_results(library: str, function: Callable[..., Any]) -> None:
    pytest.importorskip(library, reason=f"{library} is not installed")
    items = matrices(32)
    expected = [function(x) for x in items]
    offloaded = gf.offload(backend=library)(function)
    for _ in range(2):
        for one, other in zip(expected, offloaded.map(items, batch=8), strict=True):
            same(one, other, 1e-9)
    if function is not branched:
        assert any(name.startswith(library) for name in offloaded.stats().mapped.backends)


@pytest.mark.usefixtures("eager")
def test_an_array_is_mapped_over_its_first_axis() -> None:
    block = np.stack(matrices())
    found = gf.offload(normalised).map(block, batch=8)
    same([normalised(x) for x in block], found, 1e-9)
    assert [x.shape for x in gf.offload(itself).map(block.T)] == [(4, 40)] * 4
    assert gf.offload(itself).map(np.arange(3.0)) == [0.0, 1.0, 2.0]


@pytest.mark.usefixtures("eager")
def test_results_can_be_written_into_one_by_one() -> None:
    found = gf.offload(normalised).map(matrices(), batch=8)
    before = [x.copy() for x in found]
    found[9][:] = 0
    for place, (one, other) in enumerate(zip(before, found, strict=True)):
        assert (one == other).all() == (place != 9)
    block = np.stack(matrices())
    for row in gf.offload(normalised).map(block, batch=8):
        assert not np.may_share_memory(row, block)
        assert row.flags.writeable


@pytest.mark.usefixtures("eager")
def test_a_small_result_keeps_no_large_block() -> None:
    items = [np.ones((64, 128)) for _ in range(64)]
    found = gf.offload(lambda x: x + 1).map(items, batch=64)
    for row in found:
        held = row if row.base is None else row.base
        assert held.nbytes <= 1 << 20


def test_writes_into_items_are_those_of_a_loop() -> None:
    items, others = matrices(), matrices()
    found = gf.offload(negated).map(items, batch=8)
    same([negated(x) for x in others], found)
    same(others, items)


def test_a_function_with_a_memory_runs_once_for_each_item() -> None:
    COUNTER[0] = 0
    found = gf.offload(counted).map(matrices(), batch=8)
    assert COUNTER[0] == 40
    same([x + 1 for x in matrices()], found)


@pytest.mark.usefixtures("eager")
def test_what_it_reads_may_change_between_maps() -> None:
    weights = np.ones((4, 4))
    offloaded = gf.offload(lambda x: x @ weights)
    items = matrices()
    for scale in (1.0, 2.0, 3.0):
        weights[:] = scale
        for _ in range(2):
            same([x @ weights for x in items], offloaded.map(items, batch=8), 1e-9)
    assert batches(offloaded) >= 80


@pytest.mark.usefixtures("eager")
def test_ragged_items_are_grouped() -> None:
    rng = np.random.default_rng(0)
    items = [rng.standard_normal((2 + place % 3, 4)) for place in range(60)]
    items[7] = items[7].astype(np.float32)
    items[8] = np.asfortranarray(items[8])
    offloaded = gf.offload(normalised)
    same([normalised(x) for x in items], offloaded.map(items, batch=8), 1e-6)
    assert batches(offloaded) >= 32


def test_mixed_items_are_those_of_a_loop() -> None:
    items = [np.ones(3), 2.0, 3, np.float32(2), [1, 2], np.ma.array([1.0, 2.0]), np.ones(3)]
    function = lambda x: np.sqrt(x) * 2  # noqa: E731
    for one, other in zip(map(function, items), gf.offload(function).map(items), strict=True):
        assert type(one) is type(other)
        np.testing.assert_array_equal(one, other)
    assert gf.offload(function).map([]) == []
    assert gf.offload(str).map(np.ones((0, 3))) == []


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.longdouble, np.clongdouble])
@pytest.mark.usefixtures("eager")
def test_each_size_of_number_is_mapped(dtype: Any) -> None:
    items = [one.astype(dtype) for one in matrices()]
    offloaded = gf.offload(normalised)
    same([normalised(x) for x in items], offloaded.map(items, batch=8), 2e-3)
    assert batches(offloaded)
    told = str(offloaded.stats())
    assert told.startswith("tests.runtime.test_map.normalised\n")
    assert "  mapped over 40 items in " in told
    assert " of them in batches of " in told


def test_statistics_are_shown_while_calls_on_another_backend_begin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    offloaded = gf.offload(normalised)
    offloaded(matrices()[0])
    stats = offloaded.stats()

    def format_seconds(seconds: float) -> str:
        stats.counts.setdefault("other", record.Count())
        return "0 s"

    monkeypatch.setattr(record, "format_seconds", format_seconds)
    assert str(stats).endswith(": 1 call, 0 s")


@pytest.mark.usefixtures("eager")
def test_one_singular_matrix_fails_alone() -> None:
    items = matrices()
    items[13] = np.ones((4, 4))
    offloaded = gf.offload(solved)
    found = offloaded.map(items, batch=8, on_error="return")
    assert isinstance(found[13], np.linalg.LinAlgError)
    for place in set(range(40)) - {13}:
        same(solved(items[place]), found[place], 1e-9)
    with pytest.raises(np.linalg.LinAlgError) as raised:
        offloaded.map(items, batch=8)
    assert raised.value.__notes__ == ["gpuforge: raised for item 13 of a map"]


def test_items_that_raise_leave_their_error_in_their_place() -> None:
    def odd(x: Any) -> Any:
        if x % 2:
            raise ValueError(x)
        return x

    found = gf.offload(odd).map(range(6), on_error="return")
    assert [str(one) for one in found] == ["0", "1", "2", "3", "4", "5"]
    assert [type(one) for one in found] == [int, ValueError] * 3
    with pytest.raises(ValueError, match="1"):
        gf.offload(odd).map(range(6))


@pytest.mark.usefixtures("eager")
def test_warnings_are_numpys() -> None:
    items = matrices()
    items[5][0, 0] = 0
    items[30][2, 2] = -1.0

    def inverse(x: Any) -> Any:
        return 1 / (x * 2)

    with warnings.catch_warnings(record=True) as plain:
        warnings.simplefilter("always")
        expected = [inverse(x) for x in items]
    offloaded = gf.offload(inverse)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = offloaded.map(items, batch=8)
    assert [str(one.message) for one in told] == [str(one.message) for one in plain]
    assert {one.filename for one in told} == {__file__}
    same(expected, found)
    assert batches(offloaded) >= 24
    with np.errstate(divide="ignore"):
        same(expected, offloaded.map(items, batch=8))
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        offloaded.map(items, batch=8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning):
            offloaded.map(items, batch=8)


@pytest.mark.usefixtures("eager")
def test_starmap_spreads_the_arguments() -> None:
    def scaled(x: Any, y: Any, power: int = 1) -> Any:
        return (x @ y) ** power

    offloaded, shared = gf.offload(scaled), np.eye(4) * 2
    pairs = [(x, shared, 2) for x in matrices()]
    same([scaled(*one) for one in pairs], offloaded.starmap(pairs, batch=8), 1e-9)
    assert batches(offloaded) >= 24
    pairs = [(x, y, 1 + place % 2) for place, (x, y) in enumerate(zip(matrices(), matrices(),
                                                                     strict=True))]  # fmt: skip
    same([scaled(*one) for one in pairs], list(offloaded.starmap(iter(pairs), batch=8)), 1e-9)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [list, iter])
def test_starmap_takes_the_arguments_from_an_iterator(kind: Any) -> None:
    """Once: so does `itertools.starmap`."""
    offloaded = gf.offload(divmod_of)
    items = [iter((n, 3)) for n in range(ITEMS)]
    assert list(offloaded.starmap(kind(items))) == [divmod(n, 3) for n in range(ITEMS)]


def divmod_of(x: int, y: int) -> tuple[int, int]:
    return divmod(x, y)


def test_methods_are_mapped_too() -> None:
    class Scale:
        factor = 3.0

        @gf.offload
        def times(self, x: Any) -> Any:
            return x * self.factor

    items = matrices()
    same([x * 3.0 for x in items], Scale().times.map(items, batch=8))
    same([x * 3.0 for x in items], Scale().times.starmap([(x,) for x in items]))


def test_a_function_that_is_not_pure_is_called_as_written() -> None:
    seen: list[float] = []

    @gf.offload(pure=False)
    def noted(x: Any) -> Any:
        seen.append(float(x[0, 0]))
        return x * 2

    items = matrices()
    same([x * 2 for x in items], noted.map(items, batch=8))
    assert seen == [float(x[0, 0]) for x in items]


# -- iterators ------------------------------------------------------------------------------------


def test_an_iterator_is_taken_one_batch_ahead() -> None:
    taken = []

    def source() -> Iterator[Any]:
        for place, x in enumerate(matrices(100)):
            taken.append(place)
            yield x

    results = gf.offload(normalised).map(source(), batch=8)
    assert iter(results) is results
    assert taken == []
    for place, (x, found) in enumerate(zip(matrices(100), results, strict=True)):
        assert len(taken) <= place + 8
        same(normalised(x), found, 1e-9)


@pytest.mark.parametrize("batch", ["auto", 1, 8])
@pytest.mark.usefixtures("eager")
def test_a_generator_that_raises_does_so_in_its_place(batch: Any) -> None:
    def source() -> Iterator[Any]:
        yield from matrices(21)
        raise OSError("the disk is gone")

    results = gf.offload(normalised).map(source(), batch=batch)
    found = [next(results) for _ in range(21)]
    same([normalised(x) for x in matrices(21)], found, 1e-9)
    with pytest.raises(OSError, match="the disk is gone"):
        next(results)
    with pytest.raises(StopIteration):
        next(results)


@pytest.mark.usefixtures("eager")
def test_a_failing_item_of_an_iterator_raises_in_its_place() -> None:
    items = matrices()
    items[13] = np.ones((4, 4))
    results = gf.offload(solved).map(iter(items), batch=8)
    same([solved(x) for x in items[:13]], [next(results) for _ in range(13)], 1e-9)
    with pytest.raises(np.linalg.LinAlgError):
        next(results)


def test_results_as_they_come_name_their_item() -> None:
    items = [np.ones(2 + place % 2) * place for place in range(20)]
    for given_items in (items, iter(items)):
        pairs = list(gf.offload(lambda x: x * 2).map(given_items, batch=4, ordered=False))
        assert sorted(place for place, _ in pairs) == list(range(20))
        for place, found in pairs:
            same(items[place] * 2, found)


# -- limits ---------------------------------------------------------------------------------------


def test_a_timeout_says_what_finished() -> None:
    now = threading.Event()

    def waits(x: Any) -> Any:
        if x == 3:
            now.wait(0.05)
        return x

    with pytest.raises(TaskTimeout, match="4 of 6 items finished") as raised:
        gf.offload(waits).map(range(6), batch=1, timeout=0.04)
    assert raised.value.done == [(0, 0), (1, 1), (2, 2), (3, 3)]
    assert "'done'" in raised.value.hint
    with pytest.raises(TaskTimeout) as raised:
        list(gf.offload(waits).map(iter(range(6)), batch=1, timeout=0.04))
    assert (list(raised.value.done), raised.value.hint) == ([], "raise the timeout")
    assert isinstance(raised.value, TimeoutError)
    assert gf.offload(waits).map(range(3), timeout=60) == [0, 1, 2]
    assert gf.offload(waits).map(range(3), timeout=10**400) == [0, 1, 2]


@pytest.mark.usefixtures("own_home")
@pytest.mark.parametrize("on_error", ["raise", "return"])
def test_a_timeout_that_kills_a_call_keeps_the_results_before_it(on_error: str) -> None:
    offloaded = gf.offload(stands_still_at_three, pure=False, isolate=True)
    with pytest.raises(TaskTimeout, match="of 6 items finished") as raised:
        offloaded.map(range(6), timeout=4, on_error=on_error)
    assert raised.value.done[:3] == [(0, 0), (1, 1), (2, 2)]


def stands_still_at_three(x: int) -> int:
    if x == 3:
        time.sleep(600)
    return x


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"batch": 0}, "batch=0"),
        ({"batch": "many"}, "batch='many'"),
        ({"batch": True}, "batch=True"),
        ({"batch": 2.5}, "batch=2.5"),
        ({"max_batch": -1}, "max_batch=-1"),
        ({"timeout": -1}, "timeout=-1"),
        ({"timeout": float("nan")}, "timeout=nan"),
        ({"timeout": "soon"}, "timeout='soon'"),
        ({"on_error": "ignore"}, "on_error='ignore'"),
        ({"ordered": 1}, "ordered=1"),
    ],
)
def test_options_that_mean_nothing_are_named(options: dict[str, Any], what: str) -> None:
    with pytest.raises(InvalidSettings, match=what):
        gf.offload(normalised).map(matrices(), **options)


def test_an_option_that_there_is_not_is_named() -> None:
    with pytest.raises(UnknownName, match="unknown option of map 'max_bacth'") as raised:
        gf.offload(normalised).map(matrices(), max_bacth=8)  # type: ignore[call-arg]
    assert raised.value.hint == "did you mean 'max_batch'?"


@pytest.mark.parametrize("items", [3, None, "text", np.array(3.0)])
def test_what_cannot_be_mapped_over_is_refused(items: Any) -> None:
    with pytest.raises(WorkloadError, match=r"normalised\.map"):
        gf.offload(normalised).map(items)


def test_max_batch_is_the_most() -> None:
    offloaded = gf.offload(normalised)
    for _ in range(20):
        offloaded.map(matrices(100), max_batch=16)
    assert max(offloaded.stats().mapped.sizes) <= 16


@pytest.mark.usefixtures("eager")
def test_a_batch_that_runs_out_of_memory_is_halved(monkeypatch: pytest.MonkeyPatch) -> None:
    from gpuforge.runtime.executor.batch import Batch

    run, tried = Batch.run, []

    def short(self: Any, columns: Any, size: int, modes: Any) -> Any:
        tried.append(size)
        if size > 8:
            raise MemoryError
        return run(self, columns, size, modes)

    offloaded = gf.offload(normalised)
    offloaded.map(matrices(8), batch=8)
    monkeypatch.setattr(Batch, "run", short)
    items = matrices(64)
    for _ in range(2):
        same([normalised(x) for x in items], offloaded.map(items, batch=32), 1e-9)
    assert tried[:1] == [32]
    assert max(tried[-4:]) <= 16


def test_a_batch_that_differs_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    from gpuforge.runtime.executor.batch import Batch

    rows = Batch._results
    monkeypatch.setattr(Batch, "_results", lambda *a: [x * 1.01 for x in rows(*a)])
    offloaded = gf.offload(normalised)
    items = matrices()
    same([normalised(x) for x in items], offloaded.map(items, batch=8))
    (reason,) = offloaded.stats().mapped.refused.values()
    assert "differ from single calls" in reason
    assert batches(offloaded) == 0


def test_the_same_plan_gives_the_same_bits(tmp_path: Path) -> None:
    items, plan = matrices(200), str(tmp_path / "plan.json")
    found = []
    for _ in range(2):
        with gf.session(history=False, deterministic=True, plan=plan):
            found.append(gf.offload(weighted).map(items))
    assert [x.tobytes() for x in found[0]] == [x.tobytes() for x in found[1]]


@pytest.mark.usefixtures("eager")
def test_calls_made_together_keep_their_errors() -> None:
    items = matrices()
    items[3] = np.ones((4, 4))
    offloaded = gf.offload(solved)
    for _ in range(40):  # until batches have proved themselves
        found = call_together(offloaded, [((x,), {}) for x in items])
    assert all(type(one) is Result for one in found)
    assert isinstance(found[3].error, np.linalg.LinAlgError)
    for place in set(range(40)) - {3}:
        same(solved(items[place]), found[place].value, 1e-9)
    named = call_together(offloaded, [((), {"x": x}) for x in items])
    same(found[0].value, named[0].value, 1e-9)
    assert call_together(offloaded, []) == []


@pytest.mark.usefixtures("eager")
def test_several_threads_map_one_function() -> None:
    offloaded, items = gf.offload(normalised), matrices(64)
    expected = [normalised(x) for x in items]
    with ThreadPoolExecutor(4) as pool:
        waiting = [
            pool.submit(copy_context().run, offloaded.map, items, batch=size)
            for size in [4, 8, 8, 16] * 4
        ]
        for one in waiting:
            same(expected, one.result(), 1e-9)
    assert batches(offloaded) >= 64


# -- interrupted, shown ---------------------------------------------------------------------------

PROGRAM = """
import sys, time
import numpy as np
import gpuforge as gf

def slow(x):
    time.sleep(0.01)
    return x

sys.stdout.write("ready\\n"); sys.stdout.flush()
gf.offload(slow).map([np.ones(3)] * 3000)
"""


@pytest.mark.parametrize(
    ("number", "cause"), [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "terminated")]
)
def test_a_map_that_is_cut_short_says_how_far_it_came(number: signal.Signals, cause: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.5)
    start = time.monotonic()
    process.send_signal(number)
    _, told = process.communicate(timeout=30)
    assert time.monotonic() - start < 5
    assert process.returncode in (-number, 128 + number)
    line = next(line for line in told.splitlines() if line.startswith("gpuforge: "))
    assert f"slow.map was {cause}: " in line
    assert line.endswith(" of 3000 items finished")
    assert ("KeyboardInterrupt" in told) == (number == signal.SIGINT)


def test_the_signal_is_the_programs_again_after_a_map(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(termination, "_tellers", {})  # what other tests began may not be over
    before = signal.getsignal(signal.SIGTERM)
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        found = gf.offload(itself).map(iter(matrices()))
        next(found)
        while_it_lasts = signal.getsignal(signal.SIGTERM)
        found.close()
        assert while_it_lasts is not signal.SIG_DFL
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_long_map_shows_how_far_it_is_and_erases_that(monkeypatch: pytest.MonkeyPatch) -> None:
    from gpuforge.runtime.executor import progress

    class Terminal:
        text = ""

        def write(self, text: str) -> None:
            self.text += text

        def flush(self) -> None:
            pass

        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "AFTER_SECONDS", 0.0)
    gf.offload(itself).map(matrices())
    assert "itself.map: " in terminal.text
    assert " of 40 (" in terminal.text
    assert terminal.text.endswith("\r\x1b[K")
    monkeypatch.setattr(progress, "AFTER_SECONDS", 1.0)
    terminal.text = ""
    gf.offload(itself).map(matrices())
    assert terminal.text == ""


@pytest.mark.parametrize("stream", [None, SimpleNamespace(write=print), io.StringIO()])
def test_no_map_fails_for_want_of_a_terminal(stream: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from gpuforge.runtime.executor import progress

    if isinstance(stream, io.StringIO):
        stream.close()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress, "AFTER_SECONDS", 0.0)
    assert gf.offload(itself).map([1, 2, 3, 4, 5, 6]) == [1, 2, 3, 4, 5, 6]

    def stops(x: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        gf.offload(stops).map([1, 2, 3, 4, 5, 6])


def test_a_short_program_loads_nothing_that_places_calls() -> None:
    code = (
        "import sys, numpy as np, gpuforge as gf\n"
        "f = gf.offload(lambda x: x + 1)\n"
        "found = f.map([np.ones(3)] * 10)\n"
        "found += list(f.map(np.ones(3) for _ in range(3)))\n"
        "assert len(found) == 13 and (found[-1] == 2).all()\n"
        "assert 'gpuforge.runtime.session' not in sys.modules\n"
    )
    clean = {k: v for k, v in os.environ.items() if not k.startswith("GPUFORGE_")}
    if not sys.platform.startswith("linux"):
        pytest.skip("settings files are looked for in other places there")
    home = {"XDG_CONFIG_HOME": os.devnull, "HOME": os.devnull}
    subprocess.run([sys.executable, "-c", code], check=True, env=clean | home, cwd="/")


# -- random programs ------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 10**6))
@pytest.mark.usefixtures("eager")
def test_random_programs_are_those_of_a_loop(seed: int) -> None:
    """Each program is mapped over items of one kind and other values."""
    program = grow(seed)
    items = [[tuple(arguments(seed, call)) for call in range(ITEMS)] for _ in range(2)]
    scope: dict[str, Any] = {"np": np}
    exec(compile(program.source, f"<program {seed}>", "exec"), scope)
    function = scope["f"]
    plain = [observe(function, Given(one)) for one in items[0]]
    with warnings.catch_warnings(record=True) as told:
        warnings.resetwarnings()
        warnings.simplefilter("always")
        found = gf.offload(function).starmap(items[1], batch=8, on_error="return")
    outcomes = [
        Outcome(Given(given), None if failed else value, value if failed else None)
        for given, value in zip(items[1], found, strict=True)
        for failed in [isinstance(value, Exception)]
    ]
    kinds = {kind for outcome in plain for kind in outcome.warned}
    assert {one.category.__name__ for one in told} == kinds, program.source
    for outcome in plain:
        outcome.warned = []
    differences = compare(plain, outcomes)
    doubtful = {
        place_of(line)
        for k in range(4)
        for line in compare(plain[:2], program.run_with_noise(Random(k)))
    }
    settled = [line for line in differences if "values" not in place_of(line) or not doubtful]
    assert not settled, program.source
