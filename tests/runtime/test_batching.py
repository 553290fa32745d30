"""One more axis on a graph: what each operation makes of many items is what it makes of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gpuforge.runtime.array.batching import CLASSES, ROWS, batched
from gpuforge.runtime.array.graph import Tape
from gpuforge.runtime.array.table import OPERATIONS
from gpuforge.runtime.array.unsupported import Unsupported
from gpuforge.runtime.backends.numpy import NumpyBackend
from gpuforge.runtime.evaluation.engine import BackendEngine, Programs
from gpuforge.runtime.evaluation.opening import open_library
from gpuforge.runtime.evaluation.program import Program, shared_outputs
from gpuforge.runtime.executor.batch import Batch
from gpuforge.runtime.executor.item import Item, record_item
from tests.runtime.conftest import same

NUMBER = 3
TABLE = np.linspace(0.0, 1.0, 12).reshape(4, 3)
EDGES = np.linspace(-2.0, 2.0, 9)
PLACES = np.array([2, 0, 1, 2])

Function = Callable[..., Any]
MATRIX: dict[str, Function] = {
    "chain": lambda x: np.tanh(x * 0.5 + 1) - x / 3,
    "comparison": lambda x: np.where(x > 0, x, -x * 2),
    "row against matrix": lambda x: x - x[0],
    "column": lambda x: x / np.sqrt((x * x).sum(axis=1, keepdims=True)),
    "axis sums": lambda x: (x.sum(axis=0), x.mean(axis=1), x.max(), x.min(axis=(0, 1))),
    "argmax": lambda x: (x.argmax(axis=1), x.argmin()),
    "truth": lambda x: ((x > 0).any(axis=0), (x > 9).all()),
    "std": lambda x: x.std(axis=0),
    "product with itself": lambda x: x @ x,
    "shared matrix right": lambda x: x @ TABLE,
    "shared matrix left": lambda x: TABLE.T @ x,
    "shared matrix and vector": lambda x: TABLE.T @ x[0],
    "vectors": lambda x: x[0] @ x[1],
    "matrix and vector": lambda x: x @ x[:, 0],
    "outer": lambda x: np.outer(x[0], x[1]),
    "einsum": lambda x: np.einsum("ij,kj->ik", x, x),
    "einsum shared": lambda x: np.einsum("ij,jk->ik", x, TABLE),
    "transposed": lambda x: x.T + 1,
    "reshaped": lambda x: (x * 2).reshape(2, 8),
    "flat": lambda x: x.ravel() * 2,
    "new axis": lambda x: x[:, None, :] * x[None, :, :],
    "slices": lambda x: x[1:, ::2] + x[:-1, 1::2],
    "backwards": lambda x: x[::-1] * 1.0,
    "place": lambda x: x[1, 2] * x[0],
    "joined": lambda x: np.concatenate([x, x * 2], axis=1),
    "joined with shared": lambda x: np.concatenate([x, TABLE], axis=1),
    "stacked": lambda x: np.stack([x, -x], axis=1),
    "broadcast": lambda x: np.broadcast_to(x[0], (5, 4)) + 1,
    "diagonal": lambda x: x.diagonal() * 2,
    "trace": lambda x: np.trace(x),
    "triangle": lambda x: np.tril(x),
    "rolled": lambda x: np.roll(x, 1, axis=0),
    "repeated": lambda x: np.repeat(x, 2, axis=1),
    "padded": lambda x: np.pad(x, 1),
    "sorted": lambda x: np.sort(x, axis=0),
    "argsorted": lambda x: np.argsort(x, axis=1),
    "running": lambda x: (np.cumsum(x, axis=0), np.cumprod(x, axis=1)),
    "differences": lambda x: np.diff(x, axis=0),
    "taken": lambda x: x[PLACES] * 1,
    "taken columns": lambda x: x[:, PLACES] * 1,
    "taken at its own places": lambda x: x[x.argmax(axis=1)] * 1.0,
    "taken along": lambda x: np.take_along_axis(x, np.argsort(x, axis=1), axis=1),
    "searched": lambda x: np.searchsorted(EDGES, x),
    "curve": lambda x: np.interp(x, EDGES, EDGES**2),
    "solved": lambda x: np.linalg.solve(x + 9 * np.eye(4), x),
    "solved vector": lambda x: np.linalg.solve(x + 9 * np.eye(4), x[0]),
    "solved for shared": lambda x: np.linalg.solve(9 * np.eye(4), x),
    "inverse": lambda x: np.linalg.inv(x + 9 * np.eye(4)) * 2,
    "determinant": lambda x: np.linalg.det(x),
    "singular values": lambda x: np.linalg.svd(x, compute_uv=False),
    "decomposed": lambda x: tuple(np.linalg.qr(x)),
    "eigenvalues": lambda x: np.linalg.eigvalsh(x + x.T),
    "norm": lambda x: np.linalg.norm(x),
    "transform": lambda x: np.fft.fft(x, axis=0),
    "transform of two axes": lambda x: np.fft.rfft2(x).real,
    "whole numbers": lambda x: (x * 10).astype(np.int64) % 3,
    "writes": lambda x: _written(x),
    "places written": lambda x: _scattered(x),
    "list": lambda x: [x + 1, x.sum()],
}  # fmt: skip


def _written(x: Any) -> Any:
    made = np.zeros_like(x)
    made[1:, 0] = x[1:, 0]
    made[0] = 5
    return made


def _scattered(x: Any) -> Any:
    made = x * 2
    made[np.array([0, 2])] = x[:2]
    return made


def item_of(function: Function, x: Any) -> tuple[Any, Any]:
    return record_item(function, (x,), {}, NumpyBackend(), Programs(), creates=False)


def many(item: Item, columns: list[Any], run: Callable[[Any, list[Any]], list[Any]]) -> list[Any]:
    graph, inputs = batched(item.graph, item.shapes, item.dtypes, item.sources, NUMBER)
    given = [
        place if type(place) is not int
        else columns[item.sources[place]] if place in item.sources
        else item.constants[place]
        for place in inputs
    ]  # fmt: skip
    made = Batch.__new__(Batch)
    made.item = item
    return made._results(run(graph, given))


def on_numpy(graph: Any, given: list[Any]) -> list[Any]:
    lowering = NumpyBackend().lowering
    program = Program(graph, lowering)
    values, _, _ = program(*given)
    shared = shared_outputs(graph, lowering)
    return [np.array(v) if s else np.asarray(v) for v, s in zip(values, shared, strict=True)]


def matrices() -> list[Any]:
    rng = np.random.default_rng(1)
    return [rng.standard_normal((4, 4)) for _ in range(NUMBER)]


@pytest.mark.parametrize("name", MATRIX)
def test_a_batch_gives_each_item_its_own_result(name: str) -> None:
    function, items = MATRIX[name], matrices()
    expected = [function(x) for x in items]
    first, item = item_of(function, items[0])
    assert isinstance(item, Item), item
    same(expected[0], first, 1e-12)
    found = many(item, [np.stack(items)], on_numpy)
    for one, other in zip(expected, found, strict=True):
        same(one, other, 1e-9)


@pytest.mark.parametrize("name", list(MATRIX)[::3])
def test_libraries_run_the_same_batch(name: str, other: str) -> None:
    backend = open_library(other).devices[0]
    function, items = MATRIX[name], matrices()
    _, item = item_of(function, items[0])
    ran = []

    def run(graph: Any, given: list[Any]) -> list[Any]:
        for operation, places, _ in graph.entries:
            if places and backend.lowering.refusal(operation, np.dtype(float)):
                pytest.skip(f"{other} does not compute {operation} as NumPy does")
        engine = BackendEngine(backend, NumpyBackend(), Programs(), comparing=True)
        tape = Tape()
        tape.entries, tape.inputs = list(graph.entries), given
        made = [engine.get(v) for v in engine.run(tape, list(graph.outputs), dict(np.geterr()))]  # type: ignore[arg-type]
        assert not engine.outcome.refused
        ran.append(engine.outcome.compared)
        return made

    found = many(item, [np.stack(items)], run)
    for one, two in zip([function(x) for x in items], found, strict=True):
        same(one, two, 1e-9)
    assert ran == [True]


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: np.linalg.lstsq(x, x, rcond=None)[0], "lstsq takes one item at a time"),
        (lambda x: np.convolve(x[0], x[1]), "convolve takes one item at a time"),
        (lambda x: x[:, x.argmax(axis=0)], "indices of each item behind other axes"),
        (lambda x: x.argmax() + 1, "integer scalars"),
    ],
)  # fmt: skip
def test_what_has_no_rule_takes_one_item_at_a_time(function: Function, reason: str) -> None:
    items = matrices()
    _, item = item_of(function, items[0])
    if isinstance(item, str):
        pytest.fail(item)
    with pytest.raises(Unsupported, match=reason):
        many(item, [np.stack(items)], on_numpy)


def test_rows_of_the_rules_are_rows_of_the_table() -> None:
    assert set(ROWS) <= set(OPERATIONS)
    assert set(CLASSES) <= {row.kind for row in OPERATIONS.values()}


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x, lambda x: x[1:], lambda x: TABLE[x.argmax(axis=1)] * 1.0, lambda x: x.copy(),
        lambda x: x if x.sum() > 0 else -x, lambda x: 3, lambda x: (x * 2,) * 2,
        lambda x: {"a": x + 1},
    ],
)  # fmt: skip
def test_results_that_are_more_than_new_arrays_are_no_item(function: Function) -> None:
    x = matrices()[0]
    result, item = item_of(function, x)
    assert isinstance(item, str)
    same(function(x), result)
