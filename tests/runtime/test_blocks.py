"""NumPy in blocks: its results to the last bit, its warnings, and threads that share the work."""

from __future__ import annotations

import os
import threading
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpuforge as gf
from gpuforge.runtime.backends import blocks
from gpuforge.runtime.evaluation import blocked
from gpuforge.runtime.evaluation.blocked import BlockedProgram, Group
from gpuforge.runtime.threads import parallel
from gpuforge.runtime.threads.parallel import in_parallel

from .conftest import places

pytestmark = pytest.mark.skipif(blocks.allowed_cores() < 2, reason="it needs two cores")
RNG = np.random.default_rng(3)
TABLE, ROW, COLUMN = RNG.normal(size=(37, 12)), RNG.normal(size=12), RNG.normal(size=(37, 1))
WHOLE = np.arange(60).reshape(20, 3)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Divide small arrays too."""
    monkeypatch.setattr(blocked, "BLOCK_BYTES", 256)
    monkeypatch.setattr(blocked, "LEAST_BYTES", 0)


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that holds the number of steps of each group that ran in blocks."""
    found: list[int] = []
    run = BlockedProgram._run

    def noted(self: BlockedProgram, group: Group, values: list[Any]) -> None:
        found.append(len(group.steps))
        run(self, group, values)

    monkeypatch.setattr(BlockedProgram, "_run", noted)
    return found


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def log_sum_exp(x: Any) -> Any:
    top = x.max(axis=1)
    return top + np.log(np.sum(np.exp(x - top[:, None]), axis=1))


def standardised(x: Any) -> Any:
    return (x - x.mean(axis=0)) / (x.std(axis=0) + 1e-3)


def rectified(x: Any) -> Any:
    y = x - 0.5
    y[y < 0.0] = 0.0
    return y


def bordered(x: Any) -> Any:
    y = x * 2.0
    z = y + 1.0
    y[0] = 7.0
    y[1:-1, 1:-1] = z[:-2, 1:-1] + z[2:, 1:-1]
    return y - z


def laplacian(x: Any) -> Any:
    return x[1:-1, :-2] + x[1:-1, 2:] + x[:-2, 1:-1] + x[2:, 1:-1] - 4.0 * x[1:-1, 1:-1]


def several(x: Any) -> Any:
    y = np.exp(x)
    return y, y + 1.0, [(y > 1).sum(axis=-1), y.argmax(axis=1)]


FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "softmax": (softmax, (TABLE,)),
    "float32": (softmax, (TABLE.astype(np.float32),)),
    "log_sum_exp": (log_sum_exp, (TABLE,)),
    "standardised": (standardised, (TABLE,)),
    "rectified": (rectified, (TABLE,)),
    "bordered": (bordered, (TABLE,)),
    "laplacian": (laplacian, (TABLE,)),
    "several": (several, (TABLE,)),
    "row and column": (lambda x, r, c: x * r + c * r - c, (TABLE, ROW, COLUMN)),
    "columns first": (lambda x: np.sin(x) * 2 + x, (np.asfortranarray(TABLE),)),
    "sums of columns first": (lambda x: (x * 2).sum(axis=1), (np.asfortranarray(TABLE),)),
    "backwards": (lambda x: np.sqrt(np.abs(x)) + x.sum(axis=1, keepdims=True), (TABLE[::-1, ::2],)),
    "vectors": (lambda x: np.where(x > 0, x, 1.0 - x) * 3, (TABLE.ravel(),)),
    "integers": (lambda x: (x ^ (x << 5)) // 3 + x.sum(axis=1)[:, None], (WHOLE,)),
    "small integers": (lambda x: (x * 3 + 1).sum(axis=1), (WHOLE.astype("i1"),)),
    "three axes": (
        lambda x: (x - x.mean(axis=(1, 2), keepdims=True)).max(axis=1),
        (RNG.normal(size=(11, 5, 6)),),
    ),
    "complex": (lambda x: np.abs(x * 1j + x) * x.real, (TABLE + 1j * TABLE[::-1],)),
    "conversion": (lambda x: (x * 100).astype(np.int32).astype(np.float32) / 7, (TABLE,)),
    "product": (lambda x: np.tanh((x * 2) @ x.T + 1.0), (TABLE,)),
    "scan": (lambda x: np.cumsum(x * 2, axis=0) + x, (TABLE,)),
    "transposed": (lambda x: (x * 2).T + x.T * np.exp(x.T), (TABLE,)),
    "one row": (lambda x: np.exp(x) * 2, (TABLE[:1],)),
    "empty": (lambda x: np.exp(x) * 2, (TABLE[:0],)),
}  # fmt: skip


def bits(value: Any) -> Any:
    """Return a value such that equal ones have the same types, dtypes, shapes, order and bits."""
    if isinstance(value, tuple | list):
        return type(value), [bits(one) for one in value]
    assert isinstance(value, np.ndarray | np.generic)
    return type(value), value.dtype, value.shape, value.strides, value.tobytes()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_numpys_to_the_last_bit(name: str, quiet_session: Any) -> None:
    function, given = FUNCTIONS[name]
    placed = gf.offload(backend="blocks")(function)
    expected = bits(function(*given))
    for _ in range(3):
        assert bits(placed(*given)) == expected
    assert places(placed) == {"blocks:cpu": 3}


def test_what_works_row_by_row_is_one_group(groups: list[int], quiet_session: Any) -> None:
    placed = gf.offload(backend="blocks")(softmax)
    placed(TABLE)
    assert groups == [5]  # max, subtract, exp, sum, divide


def test_what_is_needed_as_a_whole_begins_another_group(
    groups: list[int], quiet_session: Any
) -> None:
    placed = gf.offload(backend="blocks")(lambda x: (x * 2 + 1) / (x * 2 + 1).sum())
    placed(TABLE)
    assert groups == [4, 1]  # both sides of the division, then itself


def test_other_layouts_run_step_by_step(quiet_session: Any) -> None:
    placed = gf.offload(backend="blocks")(softmax)
    for x in (TABLE, np.asfortranarray(TABLE), TABLE[::-1], TABLE[:, ::-1], TABLE):
        assert bits(placed(x)) == bits(softmax(x))


@given(
    rows=st.integers(2, 50), width=st.integers(1, 20), seed=st.integers(0, 99),
    dtype=st.sampled_from(["f4", "f8", "f2", "i4", "u1", "c16"]),
)  # fmt: skip
def test_sums_of_rows_add_in_numpys_order(rows: int, width: int, seed: int, dtype: str) -> None:
    x = (np.random.default_rng(seed).normal(size=(rows, 2, width)) * 100).astype(dtype)
    with gf.session(history=False), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for function in (
            lambda x: (x + x).sum(axis=2),
            lambda x: (x + x).sum(axis=1),
            lambda x: (x + x).prod(axis=(1, 2)),
            lambda x: (x * x).mean(axis=-1, keepdims=True) - x,
        ):
            placed = gf.offload(backend="blocks")(function)
            placed(x)
            assert bits(placed(x)) == bits(function(x))


class TestWarnings:
    def test_numpy_warns_as_often_as_without_blocks(self, quiet_session: Any) -> None:
        x = np.array([1.0, 0.0, 2.0, 3.0])
        placed = gf.offload(backend="blocks")(lambda x: 1.0 / x + 1.0)
        for _ in range(3):
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                assert placed(x)[1] == np.inf
            assert [str(one.message) for one in told] == ["divide by zero encountered in divide"]

    def test_warnings_that_are_off_stay_off(self, quiet_session: Any) -> None:
        x = np.array([1.0, 0.0, 2.0, 3.0])
        placed = gf.offload(backend="blocks")(lambda x: 1.0 / x + 1.0)
        for _ in range(3):
            with np.errstate(divide="ignore"):
                assert placed(x)[1] == np.inf
        assert places(placed) == {"blocks:cpu": 3}

    def test_no_warning_for_what_was_infinite_before(self, quiet_session: Any) -> None:
        placed = gf.offload(backend="blocks")(lambda x: x * 2.0 + 1.0)
        for _ in range(3):
            assert placed(np.array([np.inf, np.nan, 1.0]))[0] == np.inf
        assert places(placed) == {"blocks:cpu": 3}


class TestThreads:
    def test_each_part_runs_once(self) -> None:
        seen: Counter[int] = Counter()
        in_parallel(lambda n: seen.update([n]), 50, 4)
        assert seen == Counter(range(50))

    def test_parts_run_on_several_threads(self) -> None:
        meeting = threading.Barrier(2, timeout=30)
        in_parallel(lambda n: meeting.wait() and None, 2, 2)  # each waits for the other

    def test_an_error_is_raised_and_ends_the_job(self) -> None:
        begun: list[int] = []

        def part(number: int) -> None:
            begun.append(number)
            raise MemoryError("no room")

        with pytest.raises(MemoryError, match="no room"):
            in_parallel(part, 1000, 2)
        assert len(begun) <= 2

    def test_a_job_does_not_wait_for_busy_threads(self) -> None:
        go, seen = threading.Event(), []
        threads = len(parallel._threads) + 1

        def wait_or_note(number: int) -> None:
            if threading.current_thread() is other:
                seen.append(number)
            else:
                go.wait(30)

        outer = threading.Thread(
            target=in_parallel, args=(lambda n: go.wait(30) and None, threads + 1, threads + 1)
        )
        outer.start()
        other = threading.Thread(target=in_parallel, args=(wait_or_note, 4, 2))
        while len(parallel._threads) < threads:
            pass
        other.start()
        other.join(20)
        alone = not other.is_alive()
        go.set()
        outer.join()
        other.join()
        assert alone
        assert seen == [0, 1, 2, 3]

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
    def test_a_forked_child_has_threads_of_its_own(self) -> None:
        in_parallel(lambda n: None, 4, 2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python and JAX warn about a fork beside threads
            child = os.fork()
        if not child:
            seen: set[int] = set()
            in_parallel(seen.add, 4, 2)
            os._exit(len(seen))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 4


def test_one_core_is_too_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "allowed_cores", lambda: 1)
    with pytest.raises(RuntimeError, match="one core"):
        blocks.open_devices()


def test_the_variable_for_threads_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "allowed_cores", lambda: 16)
    for value, threads in (("", 8), ("3", 3), ("2,1", 2), ("99", 8), ("0", 8), ("all", 8)):
        monkeypatch.setenv("OMP_NUM_THREADS", value)
        assert [device.threads for device in blocks.open_devices()] == [threads]
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    with pytest.raises(RuntimeError, match="OMP_NUM_THREADS is 1"):
        blocks.open_devices()


def test_the_block_of_a_group_fits_the_cache_and_all_threads_have_one() -> None:
    wide = Group(rows=1000, row_bytes=512)
    assert wide.blocks(threads=4) == 1000  # a row is the least
