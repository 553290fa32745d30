"""Factorisations, solves and other LAPACK-based functions of NumPy.

Each is evaluated at its statement, because NumPy raises LinAlgError for some values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpuforge.runtime.array.array import Array, make
from gpuforge.runtime.array.dispatch import operand
from gpuforge.runtime.array.graph import Dtype, Node, Operation, Shape
from gpuforge.runtime.array.recorder import Recorder
from gpuforge.runtime.array.rules import broadcast
from gpuforge.runtime.array.table import notes, row
from gpuforge.runtime.array.unsupported import Unsupported
from gpuforge.runtime.array.views import broadcast_to, cast, reshape

_ONE = np.eye(1)
_SVD: Any = type(np.linalg.svd(_ONE))
_QR: Any = type(np.linalg.qr(_ONE))
_EIGH: Any = type(np.linalg.eigh(_ONE))
_SLOGDET: Any = type(np.linalg.slogdet(_ONE))


def _row(name: str, compute: Callable[..., Any]) -> Operation:
    return row(name, compute, "factorisation", raises=True)


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *given: np.asarray(function(*given))


def _parts(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *given: tuple(map(np.asarray, function(*given)))


PICK = row("pick", lambda values, place: values[place], "view", raises=True)
"""the result of a row with several results, index"""
SOLVE = _row("solve", np.linalg.solve)
"""matrices, right-hand sides: (..., n, n), (..., n, k) of one dtype"""
INV = _row("inv", np.linalg.inv)
DET = _row("det", _plain(np.linalg.det))
SLOGDET = _row("slogdet", _parts(np.linalg.slogdet))
"""several: sign, logarithm of the absolute determinant"""
CHOLESKY = _row("cholesky", lambda array, upper: np.linalg.cholesky(array, upper=upper))
QR = _row("qr", lambda array, mode: tuple(np.linalg.qr(array, mode)))
"""several: q and r; mode is reduced or complete"""
QR_R = _row("qr_r", lambda array: np.linalg.qr(array, "r"))
SVD = _row("svd", lambda array, full: tuple(np.linalg.svd(array, full_matrices=full)))
"""several: u, s, vh"""
SVDVALS = _row("svdvals", np.linalg.svdvals)
EIGH = _row("eigh", lambda array, part: tuple(np.linalg.eigh(array, part)))
"""several: eigenvalues, eigenvectors; part is L or U"""
EIGVALSH = _row("eigvalsh", np.linalg.eigvalsh)
PINV = _row("pinv", np.linalg.pinv)
"""array, share of the largest singular value below which others count as zero"""
COND = _row("cond", _plain(np.linalg.cond))
"""array, order"""
LSTSQ = _row("lstsq", _parts(np.linalg.lstsq))
"""several: solution, residuals, rank, singular values; residuals' length depends on values"""


def real_dtype(dtype: Dtype) -> Dtype:
    """Return the dtype of the real part of numbers of `dtype`."""
    return np.empty(0, dtype).real.dtype


def common_dtype(*dtypes: Dtype) -> Dtype:
    """Return the dtype of the results of NumPy's linear algebra.

    Raises
    ------
    Unsupported
        If NumPy does not support a dtype, so that it raises its own error.
    """
    if any(dtype.kind in "fc" and dtype.char not in "fdFD" for dtype in dtypes):
        raise Unsupported("a dtype that LAPACK does not have")
    double = any(dtype.char not in "fF" for dtype in dtypes)
    if any(dtype.kind == "c" for dtype in dtypes):
        return np.dtype(np.complex128 if double else np.complex64)
    return np.dtype(np.float64 if double else np.float32)


def matrices(recorder: Recorder, x: Any, *, square: bool = False) -> Node:
    """Return the node of one or many matrices, in the dtype that NumPy computes in.

    Raises
    ------
    Unsupported
        If they are not matrices, empty, or not square where they have to be.
    """
    node = operand(recorder, x)
    if len(node.shape) < 2 or 0 in node.shape:
        raise Unsupported("not a matrix, or an empty one")
    if square and node.shape[-1] != node.shape[-2]:
        raise Unsupported("a matrix that is not square")
    return cast(recorder, node, common_dtype(node.dtype))


def several(
    recorder: Recorder, operation: Operation, inputs: tuple[Node, ...], params: tuple[Any, ...],
    results: list[tuple[Shape, Dtype]],
) -> list[Node]:  # fmt: skip
    """Record an operation with several results and return their nodes.

    Nothing refers to their common node, so it is never an output itself.
    """
    recorder.begin()
    recorder.check(operation, inputs[0].dtype)
    places = tuple([recorder.place(node) for node in inputs])
    whole = recorder.append(operation, places, params, (), inputs[0].dtype).index
    nodes = [
        recorder.append(PICK, (whole,), (place,), shape, dtype)
        for place, (shape, dtype) in enumerate(results)
    ]
    if operation.raises:
        recorder.force()
    return nodes


def _made(recorder: Recorder, nodes: list[Node]) -> list[Array]:
    return [make(recorder, node, scalar=node.shape == ()) for node in nodes]


@notes(np.linalg.solve)
def solve(recorder: Recorder, a: Any, b: Any) -> Any:
    """Record the solution of systems of equations; vectors are columns."""
    left, right = matrices(recorder, a, square=True), operand(recorder, b)
    made = common_dtype(left.dtype, right.dtype)
    if not right.shape or 0 in right.shape:
        raise Unsupported("an invalid right-hand side")
    vector = len(right.shape) == 1
    if vector:
        right = reshape(recorder, right, (*right.shape, 1))
    if right.shape[-2] != left.shape[-1]:
        raise Unsupported("incompatible shapes")
    front = broadcast(left.shape[:-2], right.shape[:-2])
    left = broadcast_to(recorder, cast(recorder, left, made), (*front, *left.shape[-2:]))
    right = broadcast_to(recorder, cast(recorder, right, made), (*front, *right.shape[-2:]))
    node = recorder.note(SOLVE, (left, right), (), right.shape, made)
    return make(recorder, reshape(recorder, node, node.shape[:-1]) if vector else node)


@notes(np.linalg.inv)
def inv(recorder: Recorder, a: Any) -> Any:
    """Record inverses."""
    node = matrices(recorder, a, square=True)
    return make(recorder, recorder.note(INV, (node,), (), node.shape, node.dtype))


@notes(np.linalg.det)
def det(recorder: Recorder, a: Any) -> Any:
    """Record determinants."""
    node = matrices(recorder, a, square=True)
    made = recorder.note(DET, (node,), (), node.shape[:-2], node.dtype)
    return make(recorder, made, scalar=made.shape == ())


@notes(np.linalg.slogdet)
def slogdet(recorder: Recorder, a: Any) -> Any:
    """Record signs and logarithms of determinants."""
    node = matrices(recorder, a, square=True)
    front = node.shape[:-2]
    results = [(front, node.dtype), (front, real_dtype(node.dtype))]
    return _SLOGDET(*_made(recorder, several(recorder, SLOGDET, (node,), (), results)))


@notes(np.linalg.cholesky)
def cholesky(recorder: Recorder, a: Any, /, *, upper: Any = False) -> Any:
    """Record Cholesky factors."""
    node = matrices(recorder, a, square=True)
    made = recorder.note(CHOLESKY, (node,), (bool(upper),), node.shape, node.dtype)
    return make(recorder, made)


@notes(np.linalg.qr)
def qr(recorder: Recorder, a: Any, mode: Any = "reduced") -> Any:
    """Record factors q and r, or r alone."""
    node = matrices(recorder, a)
    *front, rows, columns = node.shape
    least = min(rows, columns)
    if mode == "r":
        shape = (*front, least, columns)
        return make(recorder, recorder.note(QR_R, (node,), (), shape, node.dtype))
    if mode not in ("reduced", "complete"):
        raise Unsupported("an unsupported mode of qr")
    inner = rows if mode == "complete" else least
    results = [((*front, rows, inner), node.dtype), ((*front, inner, columns), node.dtype)]
    return _QR(*_made(recorder, several(recorder, QR, (node,), (mode,), results)))


@notes(np.linalg.svd)
def svd(recorder: Recorder, a: Any, full_matrices: Any = True, compute_uv: Any = True,
        hermitian: Any = False) -> Any:  # fmt: skip
    """Record singular values, with their vectors unless these are not wanted."""
    if hermitian:
        raise Unsupported("hermitian=True")
    if not compute_uv:
        return svdvals(recorder, a)
    node = matrices(recorder, a)
    *front, rows, columns = node.shape
    least = min(rows, columns)
    full = bool(full_matrices)
    results = [
        ((*front, rows, rows if full else least), node.dtype),
        ((*front, least), real_dtype(node.dtype)),
        ((*front, columns if full else least, columns), node.dtype),
    ]
    return _SVD(*_made(recorder, several(recorder, SVD, (node,), (full,), results)))


@notes(np.linalg.svdvals)
def svdvals(recorder: Recorder, x: Any, /) -> Any:
    """Record singular values."""
    node = matrices(recorder, x)
    shape = (*node.shape[:-2], min(node.shape[-2:]))
    return make(recorder, recorder.note(SVDVALS, (node,), (), shape, real_dtype(node.dtype)))


def _part(part: Any) -> str:
    if not isinstance(part, str) or part.upper() not in ("L", "U"):
        raise Unsupported("UPLO that is neither L nor U")
    return part.upper()


@notes(np.linalg.eigh)
def eigh(recorder: Recorder, a: Any, UPLO: Any = "L") -> Any:
    """Record eigenvalues and eigenvectors of Hermitian matrices."""
    node = matrices(recorder, a, square=True)
    results = [(node.shape[:-1], real_dtype(node.dtype)), (node.shape, node.dtype)]
    return _EIGH(*_made(recorder, several(recorder, EIGH, (node,), (_part(UPLO),), results)))


@notes(np.linalg.eigvalsh)
def eigvalsh(recorder: Recorder, a: Any, UPLO: Any = "L") -> Any:
    """Record eigenvalues of Hermitian matrices."""
    node = matrices(recorder, a, square=True)
    made = real_dtype(node.dtype)
    return make(recorder, recorder.note(EIGVALSH, (node,), (_part(UPLO),), node.shape[:-1], made))


_CONDITIONS_ARE_COMPLEX = np.lib.NumpyVersion(np.__version__) < "2.3.0"


@notes(np.linalg.cond)
def cond(recorder: Recorder, x: Any, p: Any = None) -> Any:
    """Record condition numbers."""
    node = matrices(recorder, x)
    if p is not None and p not in (2, -2, 1, -1, np.inf, -np.inf, "fro"):
        raise Unsupported(f"p={p!r}")
    if p not in (None, 2, -2) and node.shape[-1] != node.shape[-2]:
        raise Unsupported("a matrix that is not square")
    if p not in (None, 2, -2) and node.dtype.kind == "c" and _CONDITIONS_ARE_COMPLEX:
        raise Unsupported("NumPy before 2.3 returns a complex number here")
    made = recorder.note(COND, (node,), (p,), node.shape[:-2], real_dtype(node.dtype))
    return make(recorder, made, scalar=made.shape == ())


@notes(np.linalg.lstsq)
def lstsq(recorder: Recorder, a: Any, b: Any, rcond: Any = None) -> Any:
    """Record a least-squares solution; the number of residuals is known once it is evaluated."""
    left, right = matrices(recorder, a), operand(recorder, b)
    if len(left.shape) != 2 or len(right.shape) not in (1, 2) or 0 in right.shape:
        raise Unsupported("not a single system of equations")
    if right.shape[0] != left.shape[0]:
        raise Unsupported("incompatible shapes")
    if rcond is not None and type(rcond) not in (int, float):
        raise Unsupported("rcond is not a number")
    made = common_dtype(left.dtype, right.dtype)
    real, columns = real_dtype(made), left.shape[1]
    results = [
        ((columns, *right.shape[1:]), made),
        ((0,), real),
        ((), np.dtype(np.int32)),
        ((min(left.shape),), real),
    ]
    given = (cast(recorder, left, made), cast(recorder, right, made))
    nodes = several(recorder, LSTSQ, given, (rcond,), results)
    nodes[1].shape = tuple(int(length) for length in nodes[1].value.shape)
    return tuple(_made(recorder, nodes))


@notes(np.linalg.pinv)
def pinv(recorder: Recorder, a: Any, rcond: Any = None, hermitian: Any = False, *,
         rtol: Any = np._NoValue) -> Any:  # fmt: skip
    """Record pseudo-inverses."""
    node = matrices(recorder, a)
    if hermitian or (rcond is not None and rtol is not np._NoValue):
        raise Unsupported("hermitian=True, or two tolerances")
    share: Any = rcond
    if rcond is None:
        share = 1e-15 if rtol is np._NoValue else rtol
        if rtol is None:
            share = max(node.shape[-2:]) * np.finfo(operand(recorder, a).dtype).eps
    if not isinstance(share, int | float | np.floating):
        raise Unsupported("a tolerance that is not a number")
    *front, rows, columns = node.shape
    shape = (*front, columns, rows)
    return make(recorder, recorder.note(PINV, (node,), (float(share),), shape, node.dtype))
