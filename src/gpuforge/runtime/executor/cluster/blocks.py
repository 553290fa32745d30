"""Apply functions to the blocks of Dask arrays, and infer dtype and chunks of the result."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

from gpuforge.errors import WorkloadError
from gpuforge.runtime.array.graph import Dtype, Operation, Shape, Tape
from gpuforge.runtime.array.recorder import TAPE_LIMIT, Able
from gpuforge.runtime.evaluation.recording import StartAgain, record
from gpuforge.runtime.executor.cluster.work import Function

MOST_SHAPES = 256
HINT = "pass dtype= and, if the shape of a block changes, chunks="


def map_blocks(
    sent: Function, function: Callable[..., Any], arrays: Any, dtype: Any, options: dict[str, Any]
) -> Any:
    """Return the Dask array of the results; see `Cluster.map_blocks`."""
    from dask import array

    of_dask: Any = array
    if any(not isinstance(one, of_dask.Array) for one in arrays):
        raise WorkloadError(
            f"map_blocks takes Dask arrays, not {', '.join(type(one).__name__ for one in arrays)}",
            hint="dask.array.from_array(x, chunks=...) makes one of a NumPy array",
        )
    if dtype is None:
        dtype, options = _found_out(function, arrays, options)
    name = getattr(function, "__name__", type(function).__name__)
    return of_dask.map_blocks(sent, *arrays, dtype=dtype, name=None, token=name, **options)


def _found_out(
    function: Callable[..., Any], arrays: Any, options: dict[str, Any]
) -> tuple[Any, dict[str, Any]]:
    """Return the dtype of the result, and the options with its chunks."""
    if options or not arrays or any(a.chunks != arrays[0].chunks for a in arrays):
        raise WorkloadError(
            "dtype and chunks can be inferred only for arrays with equal blocks, without options",
            hint=HINT,
        )
    sizes = [sorted(set(axis)) for axis in arrays[0].chunks]
    shapes = list(product(*sizes))
    if len(shapes) > MOST_SHAPES or not all(isinstance(n, int) for axis in sizes for n in axis):
        raise WorkloadError(
            "the shape of the blocks is unknown, or differs between them",
            hint=HINT,
        )
    found = {shape: _block(function, [(shape, a.dtype) for a in arrays]) for shape in shapes}
    dtypes = {dtype for _, dtype in found.values()}
    made: list[dict[int, int]] = [{} for _ in sizes]
    for shape, (result, _) in found.items():
        same = len(result) == len(shape) and len(dtypes) == 1
        for axis, (before, after) in enumerate(zip(shape, result, strict=False)):
            same = same and made[axis].setdefault(before, after) == after
        if not same:
            raise WorkloadError(
                f"blocks of shape {shape} give results of shape {result} that make no grid",
                hint=HINT,
            )
    chunks = tuple(
        tuple(to[n] for n in axis) for to, axis in zip(made, arrays[0].chunks, strict=True)
    )
    return dtypes.pop(), {"chunks": chunks}


def _block(function: Callable[..., Any], blocks: list[tuple[Shape, Dtype]]) -> tuple[Shape, Dtype]:
    """Return shape and dtype of the result for blocks of these shapes, without computing it."""
    arrays = tuple(_nothing(shape, dtype) for shape, dtype in blocks)
    try:
        # Other objects may have an attribute of that name.
        is_ours = getattr(type(function), "_is_offloaded", False)
        recorded = record(function._function if is_ours else function, arrays, {}, _Shapes())  # type: ignore[attr-defined]
    except (StartAgain, TypeError, ValueError, ArithmeticError, LookupError) as error:
        raise WorkloadError(
            f"dtype and shape of the result cannot be inferred by recording the function: {error}",
            hint=HINT,
        ) from error
    result = recorded.result
    if not isinstance(result, np.ndarray):
        raise WorkloadError(f"the function returns {type(result).__name__}, no array", hint=HINT)
    return result.shape, result.dtype


def _nothing(shape: Shape, dtype: Dtype) -> np.ndarray[Any, Any]:
    """Return an array of a shape that occupies the memory of one element."""
    return np.broadcast_to(np.zeros((), dtype), shape)


class _Shapes:
    """An engine that computes nothing: its results only have the right shape and dtype."""

    def __init__(self) -> None:
        self.dtypes = frozenset("?bBhHiIlLqQefdgFDG")
        self.able = Able()
        self.tape_limit, self.repeats = TAPE_LIMIT, False
        self.latest: Any = None
        self.pace: Any = None

    def supports(self, operation: Operation, dtype: Dtype) -> str:
        """Support every operation."""
        return ""

    def run(self, tape: Tape, wanted: list[int], modes: dict[str, str]) -> list[Any]:
        """Return arrays of the recorded shapes and dtypes."""
        nodes = [tape.nodes[place] for place in wanted]
        return [_nothing(node.shape, node.dtype) for node in nodes if node is not None]

    def get(self, value: Any) -> np.ndarray[Any, Any]:
        """Return it as it is."""
        return value  # type: ignore[no-any-return]
