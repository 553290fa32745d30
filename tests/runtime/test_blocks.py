"""NumPy in blocks: its results to the last bit, its warnings, and threads that share the work."""

from __future__ import annotations

import os
import threading
import tracemalloc
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpuforge as gf
from gpuforge.runtime.array.dispatch import _CALM
from gpuforge.runtime.array.table import UFUNCS
from gpuforge.runtime.backends import blocks
from gpuforge.runtime.evaluation import groups as planning
from gpuforge.runtime.evaluation import rows
from gpuforge.runtime.evaluation.blocked import BlockedProgram
from gpuforge.runtime.evaluation.groups import Group
from gpuforge.runtime.threads import parallel
from gpuforge.runtime.threads.parallel import in_parallel

from .conftest import places

pytestmark = pytest.mark.skipif(blocks.allowed_cores() < 2, reason="it needs two cores")
RNG = np.random.default_rng(3)
TABLE, ROW, COLUMN = RNG.normal(size=(37, 12)), RNG.normal(size=12), RNG.normal(size=(37, 1))
WHOLE = np.arange(60).reshape(20, 3)
ZEROS = np.zeros(4)
PLACES = RNG.integers(-37, 37, 50)
CUBE, SIX, SQUARES = (
    RNG.normal(size=(11, 5, 6)),
    RNG.normal(size=(6, 6)),
    RNG.normal(size=(9, 4, 4)),
)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Divide small arrays too."""
    monkeypatch.setattr(planning, "BLOCK_BYTES", 256)
    monkeypatch.setattr(planning, "LEAST_BYTES", 0)


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that holds the number of steps of each group that ran in blocks."""
    found: list[int] = []
    run = BlockedProgram._run

    def noted(self: BlockedProgram, group: Group, *rest: Any) -> None:
        found.append(len(group.steps))
        run(self, group, *rest)

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
        (CUBE,),
    ),
    "complex": (lambda x: np.abs(x * 1j + x) * x.real, (TABLE + 1j * TABLE[::-1],)),
    "conversion": (lambda x: (x * 100).astype(np.int32).astype(np.float32) / 7, (TABLE,)),
    "product": (lambda x: np.tanh((x * 2) @ x.T + 1.0), (TABLE,)),
    "scan": (lambda x: np.cumsum(x * 2, axis=0) + x, (TABLE,)),
    "transposed": (lambda x: (x * 2).T + x.T * np.exp(x.T), (TABLE,)),
    "deviation": (lambda x: (x.std(), x.var(ddof=1), x.mean(keepdims=True)), (TABLE,)),
    "deviation of float32": (lambda x: x.std(), (TABLE.astype(np.float32),)),
    "sum of rows and all": (
        lambda x: (x * 2 - x.mean(axis=1, keepdims=True)).sum() + (x * 2).sum(),
        (TABLE,),
    ),
    "sum of elements left out": (lambda x: (x[:, 1:-1] * 2).sum() + x[:, ::2].sum(), (TABLE,)),
    "complex sum": (lambda x: (x.sum(), np.abs(x).sum(), (x * x).mean()), (TABLE + 1j * TABLE,)),
    "mean squared error": (lambda x, y: np.mean((x - y) ** 2), (TABLE, TABLE[::-1].copy())),
    "cross entropy": (lambda x: -np.sum(x * np.log(x + 1e-6)), (np.abs(TABLE),)),
    "negative zeros": (lambda x: (x.sum(), (x * 2).sum()), (np.full(700, -0.0),)),
    "extremes": (lambda x: (x.max(), x.min(axis=0), (x * 2).max(keepdims=True)), (TABLE,)),
    "extremes of a square": (lambda x: x.max(axis=0) * 2 + x.min(axis=1), (TABLE[:12],)),
    "truth": (lambda x: ((x > 2).any(), (x < 9).all(axis=0), (x > 0).any(axis=1)), (TABLE,)),
    "counts": (lambda x: (np.count_nonzero(x > 0), (x > 0).sum(axis=0), (x > 0).sum()), (TABLE,)),
    "sums of integers": (lambda x: (x * 3).sum() + x.prod() - (x - 1).sum(axis=0), (WHOLE,)),
    "a long row": (lambda x: (x * 2 + 1, (x * 3).sum()), (TABLE.reshape(1, -1),)),
    "sorted rows": (lambda x: np.sort(x * 2, axis=1) - np.sort(x), (TABLE,)),
    "medians": (lambda x: (np.median(x, axis=1), np.quantile(x, 0.3, axis=-1)), (TABLE,)),
    "running sums": (lambda x: np.cumsum(x, axis=1) * 2 + np.cumprod(x / 9, axis=-1), (TABLE,)),
    "transforms": (lambda x: np.abs(np.fft.rfft(x, axis=1)) ** 2, (TABLE,)),
    "other transforms": (lambda x: np.fft.fft2(np.fft.ifft(x, axis=0)), (CUBE,)),
    "many products": (lambda x: np.tanh(x @ x.transpose(0, 2, 1)) @ x, (CUBE,)),
    "products by one": (lambda x, m: (x.reshape(11, 5, 1, 6) @ m).reshape(11, 5, 6), (CUBE, SIX)),
    "many systems": (lambda x: np.linalg.solve(x + 9 * np.eye(4), x * 2), (SQUARES,)),
    "many matrices": (
        lambda x: (np.linalg.inv(x), np.linalg.det(x), np.linalg.svd(x, compute_uv=False)),
        (SQUARES,),
    ),
    "places": (lambda x: np.searchsorted(np.linspace(-2, 2, 9), x * 2), (TABLE,)),
    "histograms": (
        lambda x: (np.histogram(x * 2), np.histogram(x, [-1, 0, 2]), np.histogram(x, 1)),
        (TABLE,),
    ),
    "new axes": (lambda x: (x[:, None, :] - x[None, :, :]).max(axis=-1), (TABLE,)),
    "views of results": (lambda x: ((x * 2)[:, 1:-1], (x * 2)[:, 3], (x + 1).T), (TABLE,)),
    "parts of complex": (
        lambda x: ((x * 2).real.sum(axis=1), x.imag * 2, x.real.max()),
        (TABLE * 1j,),
    ),
    "a value by rows and as a whole": (lambda x: (x * 2, x + x[:, None], x[:, None] * x), (ROW,)),
    "an unused count": (lambda x: (np.count_nonzero(x), x * 2 + 1)[1], (TABLE,)),
    "counts with kept axes": (lambda x: (x > 0).sum(keepdims=True) + (x > 1).sum(), (TABLE,)),
    "gathered": (lambda x, i: x[i] * 2 + x[np.abs(i)][:, ::-1], (TABLE, PLACES)),
    "gathered from a column": (lambda x, i: x[i, 3] * 2, (TABLE, PLACES)),
    "taken along rows": (
        lambda x: np.take_along_axis(x, np.argsort(x, axis=1), axis=1) + x,
        (TABLE,),
    ),
    "concatenated": (lambda x: np.concatenate([x * 2, np.exp(x)], axis=1) + 1, (TABLE,)),
    "reshaped": (lambda x: (x * 2).reshape(37, 3, 4).sum(axis=2) * 2, (TABLE,)),
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
    assert "not a candidate" not in str(placed.explain(*given))


def test_what_works_row_by_row_is_one_group(groups: list[int], quiet_session: Any) -> None:
    placed = gf.offload(backend="blocks")(softmax)
    placed(TABLE)
    assert groups == [5]  # max, subtract, exp, sum, divide


def test_what_is_needed_as_a_whole_begins_another_group(
    groups: list[int], quiet_session: Any
) -> None:
    placed = gf.offload(backend="blocks")(lambda x: (x * 2 + 1) / (x * 2 + 1).sum())
    placed(TABLE)
    assert groups == [5, 1]  # both sides of the division and the sum, then itself


def test_arrays_of_a_loop_do_not_all_wait(
    monkeypatch: pytest.MonkeyPatch, quiet_session: Any
) -> None:
    """Running sums are made outside of groups, and used in one."""

    def sums(x: Any) -> Any:
        total = x * 0
        for turn in range(60):
            total = total + np.cumsum(x * turn)
        return total

    x = RNG.normal(size=200_000)
    monkeypatch.setattr(planning, "BLOCK_BYTES", 1 << 18)
    monkeypatch.setattr(planning, "MOST_WAITING_BYTES", 4 * x.nbytes)
    placed = gf.offload(backend="blocks")(sums)
    assert bits(placed(x)) == bits(placed(x)) == bits(sums(x))
    tracemalloc.start()
    try:
        placed(x)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 30 * x.nbytes  # of 120 arrays that are made


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


@given(length=st.integers(1, 5000), depth=st.integers(0, 6), seed=st.integers(0, 99),
       char=st.sampled_from("fdFD"))  # fmt: skip
def test_numpy_sums_in_halves(length: int, depth: int, seed: int, char: str) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=length) * 10.0 ** rng.integers(-9, 9, length)
    x = (x + 1j * x[::-1] if char in "FD" else x).astype(char)
    ends = [0, *rows.bounds(0, length, depth, x.dtype)]
    parts = [np.sum(x[begin:end]) for begin, end in pairwise(ends)]
    assert bits(rows.sum_of_parts(parts, length, depth, x.dtype)) == bits(np.sum(x))


def test_a_numpy_that_sums_otherwise_sums_at_once(
    monkeypatch: pytest.MonkeyPatch, quiet_session: Any
) -> None:
    assert rows.sums_in_halves()
    monkeypatch.setattr(rows, "sums_in_halves", lambda: False)
    monkeypatch.setattr(rows, "bounds", None)
    placed = gf.offload(backend="blocks")(lambda x: (x * 2).sum() + x.std())
    assert bits(placed(TABLE)) == bits((TABLE * 2).sum() + TABLE.std())


def test_temporary_arrays_are_not_made_whole(groups: list[int], quiet_session: Any) -> None:
    placed = gf.offload(backend="blocks")(lambda x, y: np.mean((x - y) ** 2))
    placed(TABLE, TABLE[::-1].copy())
    assert groups == [3]  # subtract, square, sum


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_weights_are_summed_in_numpys_order(
    dtype: str, groups: list[int], quiet_session: Any
) -> None:
    """By pieces of 65,536 values, whatever else is computed from them."""

    def function(x: Any, w: Any) -> Any:
        return (
            np.histogram(x, 100, weights=w),
            np.histogram(x, 13, (-1, 2), weights=w * 0.3, density=True),
            w.sum(), np.histogram(x * 2, 40)[0],
        )  # fmt: skip

    x = RNG.normal(size=200_000).astype(dtype)
    w = (RNG.normal(size=200_000) * 10.0 ** RNG.integers(-8, 8, 200_000)).astype(dtype)
    placed = gf.offload(backend="blocks")(function)
    for _ in range(3):
        assert bits(placed(x, w)) == bits(function(x, w))
    assert len(groups) >= 9
    outside = x.copy()
    outside[::7], outside[3::11], w[5] = np.nan, np.inf, np.inf
    placed = gf.offload(backend="blocks")(lambda x, w: np.histogram(x, 13, (-1, 2), weights=w))
    for _ in range(3):
        assert bits(placed(outside, w)) == bits(np.histogram(outside, 13, (-1, 2), weights=w))


def test_values_at_and_beside_the_edges_of_bins(quiet_session: Any) -> None:
    for low, high, bins in (
        (0.1, 0.7, 1000), (-1e300, 1e300, 7), (5.0, 5.0 + 1e-9, 50), (0.0, 1e-308, 10),
    ):  # fmt: skip
        edges = np.histogram_bin_edges([low, high], bins)
        x = np.concatenate([edges, np.nextafter(edges, -np.inf), np.nextafter(edges, np.inf)])
        w = np.arange(1.0, len(x) + 1)
        placed = gf.offload(backend="blocks")(
            lambda x, w, low=low, high=high, bins=bins: (
                np.histogram(x, bins, weights=w), np.histogram(x, bins, (low, high), weights=w),
            )
        )  # fmt: skip
        with np.errstate(all="ignore"):
            assert bits(placed(x, w)) == bits(placed.__wrapped__(x, w))


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_special_values(special: float, quiet_session: Any) -> None:
    x = TABLE.copy()
    x[3, 4] = x[30, 1] = special
    for function in (
        lambda x: (x.max(), x.min(axis=0), np.sort(x, axis=1), np.median(x, axis=1)),
        lambda x: ((x * 2).sum(), x.mean(axis=1), (x > 0).sum()),
    ):
        placed = gf.offload(backend="blocks")(function)
        for _ in range(3):
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

    @pytest.mark.parametrize(
        "masked",
        [
            lambda x, out: np.divide(1.0, x, out=out, where=x != 0),
            lambda x, out: np.divide(ZEROS, x * ZEROS, out=out, where=x < 0),
            lambda x, out: np.divide(x, 0.0, out=out, where=x < 0),
            lambda x, out: np.floor_divide(x.astype("i4"), 0, out=out, where=x < 0),
            lambda x, out: np.remainder(np.inf, x, out=out, where=x < 0),
            lambda x, out: np.arctanh(x, out=out, where=x < 1),
            lambda x, out: np.arccosh(x, out=out, where=x > 1),
        ],
    )
    def test_no_warning_where_nothing_is_computed(self, masked: Any, quiet_session: Any) -> None:
        def body(x: Any) -> Any:
            return masked(x, np.zeros_like(x))

        placed = gf.offload(backend="blocks")(body)
        x = np.array([0.5, 0.0, 2.0, 3.0])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            expected = body(x)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            for _ in range(3):
                np.testing.assert_array_equal(placed(x), expected)
        assert not told
        assert places(placed) == {"blocks:cpu": 3}

    @pytest.mark.parametrize("dtype", [*"?bHiLefdFD"])
    def test_no_function_warns_of_what_stands_for_the_others(self, dtype: str) -> None:
        for ufunc in UFUNCS:
            given = [np.full(1, _CALM.get(ufunc, 1)).astype(dtype)] * ufunc.nin
            with np.errstate(all="raise"), suppress(TypeError):  # a dtype that it does not take
                ufunc(*given)

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
    assert wide.blocks(threads=4, length=1000) == 1000  # a row is the least


def test_writes_before_a_factorisation_that_raises_are_kept() -> None:
    @gf.offload(backend="blocks")
    def parts(x: Any) -> Any:
        x[x > 90] = 7
        return np.linalg.eigh(np.cov(x) * np.inf)

    x = np.array([[10.0], [20.0], [95.0], [np.inf]])
    with warnings.catch_warnings(action="ignore"), pytest.raises(np.linalg.LinAlgError):
        parts(x)
    assert x.tolist() == [[10.0], [20.0], [7.0], [7.0]]
