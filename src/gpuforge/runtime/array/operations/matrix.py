"""Functions that NumPy composes of products and factorisations: ranks, powers, matrix chains."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuforge.runtime.array.array import make, node_of
from gpuforge.runtime.array.dispatch import refuse
from gpuforge.runtime.array.operations.contraction import matmul
from gpuforge.runtime.array.operations.creation import eye
from gpuforge.runtime.array.operations.factorisation import inv, svdvals
from gpuforge.runtime.array.operations.view import taken
from gpuforge.runtime.array.recorder import Recorder
from gpuforge.runtime.array.table import notes
from gpuforge.runtime.array.unsupported import Unsupported
from gpuforge.runtime.array.views import broadcast_to


@notes(np.linalg.matrix_rank)
def matrix_rank(recorder: Recorder, A: Any, tol: Any = None, hermitian: Any = False, *,
                rtol: Any = None) -> Any:  # fmt: skip
    """Record the number of singular values that are not small."""
    given = taken(recorder, A)
    if hermitian or given.ndim < 2 or (tol is not None and rtol is not None):
        raise Unsupported("hermitian=True, or not a matrix")
    for limit in (tol, rtol):
        if limit is not None and not isinstance(limit, int | float | np.floating):
            raise Unsupported("a tolerance that is not a number")
    values: Any = svdvals(recorder, given)
    if tol is None:
        share: Any = max(given.shape[-2:]) * np.finfo(values.dtype).eps
        share = share if rtol is None else np.asarray(rtol)[..., None]
        tol = np.max(values, axis=-1, keepdims=True) * share
    else:
        tol = np.asarray(tol)[..., None]
    return np.count_nonzero(values > tol, axis=-1)


@notes(np.linalg.matrix_power)
def matrix_power(recorder: Recorder, a: Any, n: Any) -> Any:
    """Record an integer power of matrices, by the same products as NumPy."""
    given = taken(recorder, a)
    if given.ndim < 2 or given.shape[-1] != given.shape[-2] or type(n) is not int:
        raise Unsupported("a matrix that is not square, or a power that is not an integer")
    if n == 0:
        one = eye(recorder, given.shape[-1], dtype=given.dtype)
        return make(recorder, broadcast_to(recorder, node_of(one), given.shape))
    if n < 0:
        given, n = inv(recorder, given), -n
    if n == 1:
        return given
    if n == 3:
        return matmul(recorder, matmul(recorder, given, given), given)
    power: Any = None
    result: Any = None
    while n > 0:
        power = given if power is None else matmul(recorder, power, power)
        n, bit = divmod(n, 2)
        if bit:
            result = power if result is None else matmul(recorder, result, power)
    return result


@notes(np.linalg.multi_dot)
def multi_dot(recorder: Recorder, arrays: Any, *, out: Any = None) -> Any:
    """Record a product of several matrices, in the order with the fewest multiplications."""
    refuse(out=out)
    given = [taken(recorder, one) for one in arrays]
    if len(given) < 2 or any(one.ndim != 2 for one in given[1:-1]):
        raise Unsupported("not a sequence of matrices")
    if any(one.ndim not in (1, 2) for one in given):
        raise Unsupported("not a sequence of matrices")
    if len(given) == 2:
        return matmul(recorder, *given)
    lengths = [given[0].shape[0] if given[0].ndim == 2 else 1]
    lengths += [one.shape[0] for one in given[1:]]
    lengths += [given[-1].shape[1] if given[-1].ndim == 2 else 1]
    splits = _splits(lengths)

    def product(first: int, last: int) -> Any:
        if first == last:
            return given[first]
        middle = splits[first, last]
        return matmul(recorder, product(first, middle), product(middle + 1, last))

    return product(0, len(given) - 1)


def _splits(lengths: list[int]) -> dict[tuple[int, int], int]:
    """Return the best split of each part of a matrix chain with these dimensions."""
    number = len(lengths) - 1
    costs = {(place, place): 0 for place in range(number)}
    splits: dict[tuple[int, int], int] = {}
    for span in range(1, number):
        for first in range(number - span):
            last = first + span
            options = [
                (costs[first, middle] + costs[middle + 1, last]
                 + lengths[first] * lengths[middle + 1] * lengths[last + 1], middle)
                for middle in range(first, last)
            ]  # fmt: skip
            costs[first, last], splits[first, last] = min(options)
    return splits
