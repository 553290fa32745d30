"""Contractions: matrix products and what is composed of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuforge.runtime.array.array import Array, make, node_of
from gpuforge.runtime.array.dispatch import into, operand, refuse
from gpuforge.runtime.array.elementwise import note_ufunc
from gpuforge.runtime.array.graph import Node
from gpuforge.runtime.array.operations.reduction import sum_
from gpuforge.runtime.array.operations.view import ravel, taken, transpose_
from gpuforge.runtime.array.recorder import Recorder
from gpuforge.runtime.array.rules import broadcast, count, normalise_axis
from gpuforge.runtime.array.table import notes, row
from gpuforge.runtime.array.unsupported import Unsupported
from gpuforge.runtime.array.views import cast, reshape, transpose

MATMUL = row("matmul", np.matmul, "contraction")
"""Two arrays of at least two axes and one dtype."""
EINSUM = row("einsum", lambda *given: np.asarray(np.einsum(given[-1], *given[:-1])), "contraction")
"""arrays..., subscripts"""


def product(recorder: Recorder, left: Node, right: Node) -> Node:
    """Return the matrix product of two nodes of at least two axes."""
    common = np.matmul.resolve_dtypes((left.dtype, right.dtype, None))[2]
    left, right = cast(recorder, left, common), cast(recorder, right, common)
    if left.shape[-1] != right.shape[-2]:
        raise Unsupported("incompatible shapes")
    front = broadcast(left.shape[:-2], right.shape[:-2])
    shape = (*front, left.shape[-2], right.shape[-1])
    return recorder.note(MATMUL, (left, right), (), shape, common)


@notes(np.matmul)
def matmul(recorder: Recorder, x1: Any, x2: Any) -> Any:
    """Record a matrix product; vectors are rows on the left and columns on the right."""
    left, right = operand(recorder, x1), operand(recorder, x2)
    if not left.shape or not right.shape:
        raise Unsupported("a matrix product with a scalar")
    row_, column = len(left.shape) == 1, len(right.shape) == 1
    if row_:
        left = reshape(recorder, left, (1, *left.shape))
    if column:
        right = reshape(recorder, right, (*right.shape, 1))
    node = product(recorder, left, right)
    shape = node.shape[:-1] if column else node.shape
    if row_:
        shape = (*shape[:-1],) if column else (*shape[:-2], shape[-1])
    return make(recorder, reshape(recorder, node, shape), scalar=shape == ())


@notes(np.dot, method="dot")
def dot(recorder: Recorder, a: Any, b: Any, out: Any = None) -> Any:
    """Record ``np.dot``: over the last axis of the first and the last but one of the second."""
    left, right = taken(recorder, a), taken(recorder, b)
    if not left.ndim or not right.ndim:
        made = note_ufunc(recorder, np.multiply, (left, right))
    elif left.ndim <= 2 and right.ndim <= 2:
        made = matmul(recorder, left, right)
    else:
        axes = ((left.ndim - 1,), (max(right.ndim - 2, 0),))
        made = _scalar(tensordot(recorder, left, right, axes))
    if out is None:
        return made
    if out.dtype != made.dtype or not (out.flags.c_contiguous and out.flags.writeable):
        raise Unsupported("out= of another dtype or layout, which NumPy refuses")
    written = into(out, made)
    return written if made.shape else made  # of two vectors, NumPy returns a scalar all the same


def _scalar(array: Array) -> Array:
    return make(array._recorder, node_of(array), scalar=array.shape == ())


@notes(np.vdot)
def vdot(recorder: Recorder, a: Any, b: Any, /) -> Any:
    """Record the product of two flat arrays, the first conjugated."""
    left, right = taken(recorder, a), taken(recorder, b)
    flat = [make(recorder, reshape(recorder, node_of(x), (x.size,))) for x in (left, right)]
    if flat[0].dtype.kind == "c":
        flat[0] = note_ufunc(recorder, np.conjugate, (flat[0],))
    return matmul(recorder, *flat)


@notes(np.inner)
def inner(recorder: Recorder, a: Any, b: Any, /) -> Any:
    """Record the products over the last axes."""
    left, right = taken(recorder, a), taken(recorder, b)
    if not left.ndim or not right.ndim:
        return note_ufunc(recorder, np.multiply, (left, right))
    return _scalar(tensordot(recorder, left, right, ((left.ndim - 1,), (right.ndim - 1,))))


@notes(np.outer)
def outer(recorder: Recorder, a: Any, b: Any, out: Any = None) -> Any:
    """Record every product of two flat arrays."""
    refuse(out=out)
    left, right = taken(recorder, a), taken(recorder, b)
    column = make(recorder, reshape(recorder, node_of(left), (left.size, 1)))
    line = make(recorder, reshape(recorder, node_of(right), (1, right.size)))
    return note_ufunc(recorder, np.multiply, (column, line))


@notes(np.linalg.outer)
def linalg_outer(recorder: Recorder, x1: Any, x2: Any, /) -> Any:
    """Record every product of two vectors."""
    if any(taken(recorder, one).ndim != 1 for one in (x1, x2)):
        raise Unsupported("not vectors")
    return outer(recorder, x1, x2)


@notes(np.tensordot, np.linalg.tensordot)
def tensordot(recorder: Recorder, a: Any, b: Any, axes: Any = 2) -> Any:
    """Record a sum of products over several axes."""
    left, right = operand(recorder, a), operand(recorder, b)
    one, two = _axes(axes, len(left.shape), len(right.shape))
    if tuple(left.shape[p] for p in one) != tuple(right.shape[p] for p in two):
        raise Unsupported("incompatible shapes")
    kept_left = [p for p in range(len(left.shape)) if p not in one]
    kept_right = [p for p in range(len(right.shape)) if p not in two]
    shape = tuple(left.shape[p] for p in kept_left) + tuple(right.shape[p] for p in kept_right)
    length = count(tuple(left.shape[p] for p in one))
    first = transpose(recorder, left, (*kept_left, *one))
    second = transpose(recorder, right, (*two, *kept_right))
    rows = count(tuple(left.shape[p] for p in kept_left))
    columns = count(tuple(right.shape[p] for p in kept_right))
    node = product(
        recorder,
        reshape(recorder, first, (rows, length)),
        reshape(recorder, second, (length, columns)),
    )
    return make(recorder, reshape(recorder, node, shape))


def _axes(axes: Any, left: int, right: int) -> tuple[list[int], list[int]]:
    if isinstance(axes, int):
        return list(range(left - axes, left)), list(range(axes))
    one, two = axes
    firsts = [one] if isinstance(one, int) else list(one)
    seconds = [two] if isinstance(two, int) else list(two)
    return [normalise_axis(p, left) for p in firsts], [normalise_axis(p, right) for p in seconds]


@notes(np.einsum)
def einsum(recorder: Recorder, *operands: Any, out: Any = None, optimize: Any = False,
           **options: Any) -> Any:  # fmt: skip
    """Record a sum of products by subscripts."""
    refuse(out=out, **options)
    subscripts, *given = operands
    if type(subscripts) is not str or "..." in subscripts:
        raise Unsupported("subscripts that are not plain letters")
    nodes = [operand(recorder, one) for one in given]
    common = np.result_type(*(node.dtype for node in nodes))
    terms, result = _terms(subscripts.replace(" ", ""))
    lengths: dict[str, int] = {}
    for term, node in zip(terms, nodes, strict=False):
        if len(term) != len(node.shape) or len(terms) != len(nodes):
            raise Unsupported("subscripts that do not match the operands")
        for letter, length in zip(term, node.shape, strict=True):
            if lengths.setdefault(letter, length) != length:
                raise Unsupported("subscripts that do not match the operands")
    if any(letter not in lengths for letter in result) or len(set(result)) < len(result):
        raise Unsupported("subscripts that do not match the operands")
    if len(given) == 1 and set(terms[0]) == set(result):  # NumPy returns a view
        if len(terms[0]) == len(result):
            return transpose_(recorder, given[0], [terms[0].index(letter) for letter in result])
        line: Any = ravel(recorder, given[0])
        if len(terms[0]) > 2 or line._storage is not given[0]._storage:
            raise Unsupported("a diagonal without a constant stride")
        return line[:: nodes[0].shape[0] + 1]
    shape = tuple(lengths[letter] for letter in result)
    text = f"{','.join(terms)}->{result}"
    made = recorder.note(
        EINSUM, tuple(cast(recorder, n, common) for n in nodes), (text,), shape, common
    )
    return make(recorder, made, scalar=shape == ())


def _terms(subscripts: str) -> tuple[list[str], str]:
    left, arrow, result = subscripts.partition("->")
    if not arrow:
        letters = left.replace(",", "")
        result = "".join(sorted({letter for letter in letters if letters.count(letter) == 1}))
    return left.split(","), result


@notes(np.vecdot, np.linalg.vecdot)
def vecdot(recorder: Recorder, x1: Any, x2: Any, /, *, axis: Any = -1) -> Any:
    """Record the products along one axis, the first conjugated."""
    left: Any = taken(recorder, x1)
    if left.dtype.kind == "c" or taken(recorder, x2).dtype.kind == "c":
        raise Unsupported("complex numbers, whose two parts NumPy multiplies together")
    products = note_ufunc(recorder, np.multiply, (left, taken(recorder, x2)))
    if products.dtype.kind == "b":
        raise Unsupported("a vector product of bool values")
    return sum_(recorder, products, axis, products.dtype)


@notes(np.linalg.matmul)
def linalg_matmul(recorder: Recorder, x1: Any, x2: Any, /) -> Any:
    """Record a matrix product."""
    return matmul(recorder, x1, x2)
