"""Groups put their values where they are needed, and no result shows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpuforge as gf
from gpuforge.runtime.backends import blocks
from gpuforge.runtime.evaluation import groups as planning
from gpuforge.runtime.evaluation.blocked import BlockedProgram
from gpuforge.runtime.evaluation.groups import Group

pytestmark = pytest.mark.skipif(blocks.allowed_cores() < 2, reason="it needs two cores")
RNG = np.random.default_rng(5)
SHAPE = (14, 9)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Divide small arrays too."""
    monkeypatch.setattr(planning, "BLOCK_BYTES", 128)
    monkeypatch.setattr(planning, "LEAST_BYTES", 0)


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Return a list that holds, for each group that ran, its writes and its reused operands."""
    noted: list[tuple[int, int]] = []
    run = BlockedProgram._run

    def watched(self: BlockedProgram, group: Group, *rest: Any) -> None:
        noted.append((len(group.writes), len(group.reused)))
        run(self, group, *rest)

    monkeypatch.setattr(BlockedProgram, "_run", watched)
    return noted


def same(function: Callable[..., Any], *arrays: Any, calls: int = 3) -> None:
    """Call a function in blocks and as written: results and arguments have the same bits."""
    placed = gf.offload(function, backend="blocks")
    for _ in range(calls):
        expected, given_ = [a.copy() for a in arrays], [a.copy() for a in arrays]
        wanted, got = function(*expected), placed(*given_)
        for one, two in zip([wanted, *expected], [got, *given_], strict=True):
            if one is not None:
                assert (one.dtype, one.shape, one.strides) == (two.dtype, two.shape, two.strides)
                assert one.tobytes() == two.tobytes()


def diffused(a: Any, b: Any) -> None:
    for _ in range(3):
        b[1:-1, 1:-1] = 0.2 * (a[1:-1, :-2] + a[1:-1, 2:] + a[:-2, 1:-1] + a[2:, 1:-1])
        a[1:-1, 1:-1] = 0.2 * (b[1:-1, :-2] + b[1:-1, 2:] + b[:-2, 1:-1] + b[2:, 1:-1])


def fields(a: Any, b: Any) -> None:
    for _ in range(3):
        a[1:, :] -= 0.5 * (b[1:, :] - b[:-1, :])
        b[:-1, :] -= 0.7 * (a[1:, :] - a[:-1, :])


def new_field(a: Any, b: Any) -> Any:
    c = np.empty_like(a)
    c[1:-1, 1:-1] = 2 * a[1:-1, 1:-1] - b[1:-1, 1:-1] + 0.1 * (a[2:, 1:-1] + a[:-2, 1:-1])
    c[0] = c[-1] = 0.0
    c[:, 0] = c[:, -1] = 0.0
    return c


def test_a_value_is_written_where_it_is_needed(
    found: list[tuple[int, int]], quiet_session: Any
) -> None:
    a, b = RNG.normal(size=(2, *SHAPE))
    same(diffused, a, b, calls=1)
    # The first write into each argument is into a copy of it, made after the group.
    assert sum(writes for writes, _ in found) == 4
    assert max(reused for _, reused in found) == 2  # the second and third sum; the product is made


def test_an_update_in_place_reads_what_it_writes(
    found: list[tuple[int, int]], quiet_session: Any
) -> None:
    a, b = RNG.normal(size=(2, *SHAPE))
    same(fields, a, b, calls=1)
    assert sum(writes for writes, _ in found) >= 3


def own(x: Any) -> Any:
    """Return an array of the call's own, which may be overwritten."""
    return x * 1.5


def shifted(a: Any, b: Any) -> Any:
    y = own(a)
    y[1:] = y[:-1] * 2.0 + b[1:]
    return y


def used_twice(a: Any, b: Any) -> Any:
    y, z = own(a), a + b * 2.0
    y[:, 1:] = z[:, 1:]
    y[2:, :] = z[2:, :]
    return y, z


def read_between(a: Any, b: Any) -> Any:
    y = own(a)
    z = y[1:] * 3.0
    y[1:] = b[1:] * 2.0 + 1.0
    return y + 1.0, z


def read_after_in_its_group(a: Any, b: Any) -> Any:
    y = own(a)
    old = y[1:]
    new = old * 2.0 + b[1:]
    kept = old + 1.0
    y[1:] = new
    return y, kept


def other_dtype(a: Any, b: Any) -> Any:
    y = own(a).astype(np.float32)
    y[1:] = a[1:] * 2.0 + b[1:]
    return y


def every_second(a: Any, b: Any) -> Any:
    y = own(a)
    y[:, ::2] = np.sin(b[:, ::2]) * 2.0
    return y


def one_row_for_all(a: Any, b: Any) -> Any:
    y = own(a)
    y[1:] = b[:1] * 2.0 + 1.0
    return y


def backwards(a: Any, b: Any) -> Any:
    y = own(a)
    y[::-1] = b * 2.0 + a
    return y


def one_column(a: Any, b: Any) -> Any:
    y = own(a)
    y[:, 3] = (b * 2.0).sum(axis=1)
    return y


def two_writes_at_once(a: Any, b: Any) -> Any:
    y = own(a)
    first, second = a[1:] * 2.0 + b[1:], a[1:] - b[1:] * 3.0
    y[1:] = first
    y[:-1] = second
    return y


def columns_first(a: Any, b: Any) -> Any:
    y = own(np.asfortranarray(a))
    y[1:, :] = a[1:] * 2.0 + b[1:]
    return y


FUNCTIONS = (
    diffused, fields, new_field, shifted, used_twice, read_between, read_after_in_its_group,
    other_dtype, every_second, one_row_for_all, backwards, one_column,
    two_writes_at_once, columns_first,
)  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
@pytest.mark.parametrize("dtype", ["f8", "f4", "i8"])
def test_results_have_numpys_bits(
    function: Callable[..., Any], dtype: str, quiet_session: Any
) -> None:
    a, b = (RNG.normal(size=(2, *SHAPE)) * 9).astype(dtype)
    if dtype == "i8" and function in (diffused, fields):
        pytest.skip("NumPy does not write fractions into integers by itself")
    whole = lambda a, b: _joined(function(a, b))  # noqa: E731 - functions have code of their own
    same(whole if function not in (diffused, fields) else function, a, b)


def _joined(result: Any) -> Any:
    if type(result) is tuple:
        return np.concatenate([one.reshape(-1) for one in result])
    return result


def test_an_operand_is_not_overwritten_where_numpy_fails(quiet_session: Any) -> None:
    def negated(a: Any) -> Any:
        y = own(a)
        y[:1] = 0.0
        y[1:, 1:2] = -y[1:, 1:2]
        return y

    same(negated, RNG.normal(size=(64, 4)).astype(np.float32))


def test_values_before_a_write_through_a_view_are_not_kept(
    monkeypatch: pytest.MonkeyPatch, quiet_session: Any
) -> None:
    outputs: list[int] = []
    call = BlockedProgram.__call__

    def watched(self: BlockedProgram, *values: Any) -> Any:
        outputs.append(len(self.graph.outputs))
        return call(self, *values)

    monkeypatch.setattr(BlockedProgram, "__call__", watched)

    def stepped(a: Any) -> Any:
        y = own(a)
        y[:1] = 0.0
        y[1:] += y[:-1] * 2.0
        y[1:] *= 3.0
        return y

    same(stepped, RNG.normal(size=SHAPE))
    assert set(outputs) == {1}


def test_products_of_single_complex_numbers_round_as_in_numpy(quiet_session: Any) -> None:
    def totals(a: Any, b: Any, c: Any) -> Any:
        s = a.sum(axis=1)
        s = s + b
        s = s * c
        return s - b

    a = RNG.normal(size=(16, 700)) + 1j * RNG.normal(size=(16, 700))
    same(totals, a, a[:, 1].copy(), a[:, 2].copy())


def test_a_column_is_not_filled_by_another_loop(quiet_session: Any) -> None:
    def filled(a: Any, b: Any) -> Any:
        y = np.cumsum(b, axis=0)
        y[:, 3:4] = np.arcsin(a[:, :1] * np.float16(0.25))
        return y

    same(filled, *RNG.uniform(size=(2, 640, 9)).astype(np.float16))


WINDOWS = [slice(1, -1), slice(0, -2), slice(2, None)]
"""Of one length, so that all fit each other."""
window = st.tuples(st.sampled_from(WINDOWS), st.sampled_from(WINDOWS))
statement = st.tuples(
    st.integers(0, 2), window, st.booleans(),
    st.lists(st.tuples(st.integers(0, 2), window), min_size=1, max_size=4),
)  # fmt: skip


@given(statements=st.lists(statement, min_size=1, max_size=6), own_first=st.booleans())
def test_any_order_of_writes_and_reads(statements: list[Any], own_first: bool) -> None:
    def stepped(a: Any, b: Any, c: Any) -> Any:
        arrays = [a, b, own(c) if own_first else c]
        for _ in range(2):
            for target, where, adds, reads in statements:
                value = 0.5 * sum((arrays[k][w] for k, w in reads), 1.0)
                if adds:
                    arrays[target][where] += value
                else:
                    arrays[target][where] = value
        return arrays[2] + 1.0

    with gf.session():
        same(stepped, *RNG.normal(size=(3, *SHAPE)), calls=2)
