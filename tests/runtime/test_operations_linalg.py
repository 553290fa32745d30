"""Linear algebra on recorded arrays: NumPy's results, types and errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.runtime.recording import check, form

L = np.linalg
INF, NAN = np.inf, np.nan
RANDOM = np.random.default_rng(7)
SQUARE, TALL = RANDOM.normal(size=(4, 4)), RANDOM.normal(size=(5, 3))
STACK = RANDOM.normal(size=(2, 3, 3))
SQUARES = [
    SQUARE,
    SQUARE.astype("f4"),
    SQUARE + 1j * SQUARE.T,
    STACK,
    (9 * SQUARE).astype(int),
    STACK.astype("F"),
    np.eye(3, dtype=bool),
]
ANY = [*SQUARES, TALL, TALL.T, TALL.astype("f4")]
SINGULAR = [np.ones((3, 3)), np.zeros((2, 2)), np.full((2, 2), NAN), np.array([[1, INF], [2, 3.0]])]
WRONG = [np.ones((2, 3)), np.ones(3), np.ones((0, 0)), np.ones((2, 2), "f2")]

Case = Callable[..., Any]
OF_SQUARES: list[Case] = [
    lambda x: L.inv(x),
    lambda x: L.det(x),
    lambda x: L.slogdet(x),
    lambda x: L.solve(x, x),
    lambda x: L.solve(x, x[..., 0, :]) if x.ndim == 2 else L.solve(x, x[0]),
    lambda x: L.solve(x, np.ones(x.shape[-1])),
    lambda x: L.eigvalsh(x),
    lambda x: L.eigh(x),
    lambda x: L.eigvalsh(x, "U"),
    lambda x: L.eigh(x, UPLO="u"),
    lambda x: L.matrix_power(x, 5),
    lambda x: L.matrix_power(x, 3),
    lambda x: L.matrix_power(x, -2),
    lambda x: L.cond(x, 1),
    lambda x: L.cond(x, "fro"),
    lambda x: L.cholesky(x @ np.conj(x.swapaxes(-1, -2))),
    lambda x: L.cholesky(x @ np.conj(x.swapaxes(-1, -2)), upper=True),
    lambda x: L.slogdet(x).logabsdet,
    lambda x: L.matrix_power(x, -1),
]
OF_ANY: list[Case] = [
    lambda x: L.qr(x),
    lambda x: L.qr(x, "complete"),
    lambda x: L.qr(x, mode="r"),
    lambda x: L.svd(x),
    lambda x: L.svd(x, full_matrices=False),
    lambda x: L.svdvals(x),
    lambda x: L.svd(x, compute_uv=False),
    lambda x: L.pinv(x),
    lambda x: L.pinv(x, 0.5),
    lambda x: L.pinv(x, rtol=None),
    lambda x: L.matrix_rank(x),
    lambda x: L.matrix_rank(x, tol=0.3),
    lambda x: L.matrix_rank(x, rtol=1e-3),
    lambda x: L.cond(x),
    lambda x: L.cond(x, -2),
    lambda x: L.svd(x)[1] * 2,
    lambda x: L.matrix_norm(x),
    lambda x: L.matrix_norm(x, ord=2),
    lambda x: np.trace(x),
    lambda x: x.trace(1),
    lambda x: np.diagonal(x, -1),
    lambda x: np.diagonal(x, 1, -1, -2) * 2,
    lambda x: L.diagonal(x, offset=1),
    lambda x: L.trace(x),
    lambda x: np.diag(x[..., 0]) if x.ndim == 2 else np.diagflat(x, 2),
    lambda x: L.multi_dot([x, x.T, x, x.T]) if x.ndim == 2 else L.trace(x, offset=-1),
    lambda x: L.multi_dot([x[0], x.T, x[:, 0]]) if x.ndim == 2 else x.diagonal(0, 1, 2),
    lambda x: L.lstsq(x, x) if x.ndim == 2 else x.diagonal(),
    lambda x: L.lstsq(x, x[:, 0], rcond=0.1) if x.ndim == 2 else x.trace(0, 2, 1),
    lambda x: np.cross(x[..., :3], x[..., :3][..., ::-1]) if x.shape[-1] > 2 else np.trace(x),
    lambda x: np.diag(x[..., 0], -2),
]
NORMS: list[Case] = [
    lambda x: L.norm(x),
    lambda x: L.norm(x, keepdims=True),
    lambda x: L.norm(x, "fro", (-2, -1)),
    lambda x: L.norm(x, 2, axis=(-2, -1)),
    lambda x: L.norm(x, "nuc", axis=(-1, -2)),
    lambda x: L.norm(x, 1, axis=(0, 1)),
    lambda x: L.norm(x, -1, axis=(1, 0), keepdims=True),
    lambda x: L.norm(x, INF, axis=(0, 1)),
    lambda x: L.norm(x, -INF, axis=(1, 0)),
    lambda x: L.norm(x, -2, axis=(0, 1)),
    lambda x: L.norm(x, axis=0),
    lambda x: L.norm(x, 2, -1),
    lambda x: L.norm(x, INF, axis=0),
    lambda x: L.norm(x, -INF, axis=1),
    lambda x: L.norm(x, 0, 0),
    lambda x: L.norm(x, 1, axis=-1, keepdims=True),
    lambda x: L.norm(x, 3, axis=0),
    lambda x: L.norm(x, 2.5, axis=0),
    lambda x: L.norm(x.ravel(), 1),
    lambda x: L.norm(x.ravel(), 2),
    lambda x: L.vector_norm(x),
    lambda x: L.vector_norm(x, axis=(0, 1), keepdims=True),
    lambda x: L.vector_norm(x, axis=1, ord=INF),
    lambda x: L.vector_norm(x, ord=3, keepdims=True),
    lambda x: L.norm(x.ravel(), INF),
    lambda x: L.norm(x),
    lambda x: L.norm(x, axis=(0, 1)),
]
REFUSED: list[Case] = [
    lambda x: L.norm(x, "x"),
    lambda x: L.norm(x, 7),
    lambda x: L.norm(x, axis=5),
    lambda x: L.norm(x, axis=(0, 0)),
    lambda x: L.eigh(x, "X"),
    lambda x: L.qr(x, "odd"),
    lambda x: np.trace(x, axis1=0, axis2=0),
    lambda x: L.solve(x, np.ones(7)),
    lambda x: L.multi_dot([x]),
    lambda x: np.cross(x, x),
    lambda x: x.diagonal(0, 3),
]


@pytest.mark.parametrize("case", range(len(OF_SQUARES)))
@pytest.mark.parametrize("x", SQUARES + SINGULAR, ids=form)
def test_square_matrices(case: int, x: Any) -> None:
    check(OF_SQUARES[case], x)


@pytest.mark.parametrize("case", range(len(OF_ANY)))
@pytest.mark.parametrize("x", ANY + SINGULAR, ids=form)
def test_matrices(case: int, x: Any) -> None:
    check(OF_ANY[case], x)


@pytest.mark.parametrize("case", range(len(NORMS)))
@pytest.mark.parametrize("x", ANY + SINGULAR[1:], ids=form)
def test_norms(case: int, x: Any) -> None:
    check(NORMS[case], x)


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_what_numpy_refuses(case: int) -> None:
    check(REFUSED[case], SQUARE)


@pytest.mark.parametrize("x", WRONG, ids=form)
@pytest.mark.parametrize("function", [L.inv, L.det, L.cholesky, L.eigh, L.slogdet, L.svd, L.cond])
def test_numpy_words_the_errors_of_wrong_shapes(function: Any, x: Any) -> None:
    try:
        function(x)
    except (L.LinAlgError, TypeError, IndexError):
        check(function, x)


def test_a_diagonal_is_a_view() -> None:
    def follows(x: Any) -> Any:
        diagonal = x.diagonal()
        x[1, 1] = 9
        return diagonal

    def written(x: Any) -> None:
        x.diagonal()[0] = 1

    check(follows, SQUARE)
    check(written, SQUARE)


def test_an_error_can_be_caught_where_it_is_raised() -> None:
    def function(x: Any) -> Any:
        try:
            return L.inv(x)
        except L.LinAlgError:
            return L.pinv(x)

    check(function, np.ones((3, 3)))
