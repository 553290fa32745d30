"""Libraries' linear algebra, transforms, scans and sorts against NumPy's, through the engine."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gpuforge.runtime.backends import Backend
from gpuforge.runtime.backends.numpy import NumpyBackend
from gpuforge.runtime.evaluation.engine import BackendEngine, Programs
from gpuforge.runtime.evaluation.opening import open_library
from gpuforge.runtime.evaluation.reference import CANCELLING, compare
from tests.runtime.conftest import OTHERS, as_numpy
from tests.runtime.recording import recorded

L, F = np.linalg, np.fft
INF, NAN = np.inf, np.nan
PROGRAMS = Programs()
RANDOM = np.random.default_rng(5)
VALUES = RANDOM.normal(size=(6, 6))
SQUARES: list[Any] = [VALUES, VALUES.astype("f4"), VALUES + 1j * RANDOM.normal(size=(6, 6))]
UNUSUAL: list[Any] = [
    np.array([[NAN, 1, INF], [-INF, 3e38, 3], [1, -0.0, 3]]),
    np.ones((3, 3), "f4"),
]
Case = Callable[..., Any]

MATRICES: dict[str, Case] = {
    "solve": lambda x: L.solve(x, x[0]),
    "inv": L.inv,
    "det": L.det,
    "slogdet": L.slogdet,
    "cholesky": lambda x: L.cholesky(x @ np.conj(x.T)),
    "qr": L.qr,
    "qr r": lambda x: L.qr(x[:, :3], "r"),
    "complete qr": lambda x: L.qr(x[:, :2], "complete"),
    "svdvals": L.svdvals,
    "eigvalsh": lambda x: L.eigvalsh(x, "U"),
    "pinv": lambda x: L.pinv(x[:, :2]),
    "cond": L.cond,
    "diagonal": lambda x: np.diag(x, 1) + np.trace(x),
    "norms": lambda x: L.norm(x) + L.norm(x, 1) + L.norm(x, 2),
    "fft": lambda x: F.fft(x, 8),
    "irfft2": F.irfft2,
    "rfft": lambda x: F.rfft(x.real, axis=0, norm="ortho"),
    "ifftn": F.ifftn,
}
NUMBERS: dict[str, Case] = {
    "cumsum": lambda x: np.cumsum(x),
    "cumprod": lambda x: x.cumprod(axis=0),
    "extremes": lambda x: np.maximum.accumulate(x) - np.minimum.accumulate(x, axis=1),
    "sort": lambda x: np.sort(x, axis=0),
    "argsort": lambda x: np.argsort(x, stable=True),
    "sorted rows": lambda x: np.take_along_axis(x, np.argsort(x, stable=True), -1),
    "along": lambda x: np.take_along_axis(x, np.expand_dims(np.argmax(x, 0), 0), 0),
    "searchsorted": lambda x: np.searchsorted(np.sort(x[0]), x, "right"),
    "not sorted": lambda x: np.searchsorted(x.ravel(), x),
    "quantiles": lambda x: np.percentile(x, [10, 50, 80], axis=0),
    "median": lambda x: np.median(x, axis=1),
    "take": lambda x: np.take(x, [0, -1]),
    "diff": lambda x: np.diff(x, axis=0),
}
LENGTHS: dict[str, Case] = {
    "lstsq": lambda x: L.lstsq(x[:, :2].astype(float), x[:, 2]),
    "nonzero": lambda x: np.argwhere(x > 0),
    "unique": np.unique,
    "bincount": lambda x: np.bincount((x[0] > 0).astype(int)),
}


NOT_THERE = {"cupy": ("extremes", "lstsq")}
"""Cases that a library leaves to NumPy."""


@pytest.fixture(scope="module", params=OTHERS)
def backend(request: pytest.FixtureRequest) -> Backend:
    """The library's first device."""
    pytest.importorskip(request.param)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = open_library(request.param)
    if not found.devices:
        pytest.skip(f"{request.param}: {found.failures[0].reason}")
    return found.devices[0]


def _is_left(backend: Backend, name: str) -> bool:
    return name in NOT_THERE.get(backend.name.split(":")[0], ())


def _compared(backend: Backend, function: Case, x: Any) -> Any:
    """Assert that the backend gives what NumPy gives, and return the recorder."""
    engine = BackendEngine(backend, NumpyBackend(), PROGRAMS)
    recorders: list[Any] = []

    def run(array: Any) -> Any:
        made, recorder = recorded(function, array, engine=engine)
        recorders.append(recorder)
        return made

    with np.errstate(all="ignore"):
        wanted, found = as_numpy(function, x.copy()), as_numpy(run, x.copy())
    assert type(found) is type(wanted), found
    if isinstance(wanted, Exception):
        assert str(found) == str(wanted)
        return None
    several = isinstance(wanted, tuple)
    for one, other in zip(*(v if several else [v] for v in (wanted, found)), strict=True):
        assert not compare(np.asarray(one), np.asarray(other), CANCELLING)
    assert not engine.outcome.refused
    return recorders[0]


@pytest.mark.parametrize("name", MATRICES)
def test_matrices(backend: Backend, name: str) -> None:
    for x in SQUARES if backend.name.startswith("torch") else SQUARES[1:]:
        assert not _compared(backend, MATRICES[name], x).fallbacks


@pytest.mark.slow
@pytest.mark.parametrize("name", MATRICES)
def test_numpy_settles_singular_matrices_and_those_that_are_not_finite(
    backend: Backend, name: str
) -> None:
    for x in UNUSUAL:
        _compared(backend, MATRICES[name], x)


@pytest.mark.parametrize("name", NUMBERS)
def test_scans_and_sorts(backend: Backend, name: str) -> None:
    for x in (VALUES.astype("f4"), (99 * VALUES).astype("i8")):
        recorder = _compared(backend, NUMBERS[name], x)
        assert bool(recorder.fallbacks) == _is_left(backend, name)
    _compared(backend, NUMBERS[name], UNUSUAL[0])


@pytest.mark.parametrize("name", LENGTHS)
def test_lengths_that_depend_on_values(backend: Backend, name: str) -> None:
    for x in (VALUES, UNUSUAL[0]):
        recorder = _compared(backend, LENGTHS[name], x)
    left = backend.compiles or _is_left(backend, name)
    assert recorder is None or left == bool(recorder.fallbacks)


def test_a_matrix_near_a_singular_one_is_settled_by_numpy(backend: Backend) -> None:
    hilbert = 1 / (np.arange(12)[:, None] + np.arange(12) + 1.0)
    for function in (L.inv, L.det, L.slogdet, L.cond, lambda x: L.solve(x, x[0])):
        _compared(backend, function, hilbert)


def test_an_axis_of_one_element(backend: Backend) -> None:
    """XLA ends the process for a sort along one on a GPU."""
    for x in (np.ones((1, 1), "u1"), VALUES[:1], np.full((1, 2), NAN)):
        for function in (np.sort, lambda x, axis: np.argsort(x, axis, stable=True)):
            _compared(backend, lambda x, function=function: function(x, axis=0), x)
        _compared(backend, lambda x: np.argmax(x, 0) + np.argmin(x, axis=0), x)


SUMS: list[Callable[..., Any]] = [
    lambda x, w: (x[:, :, None] * w[None]).sum(axis=1),
    lambda x, w: (x[:, :, None] * w[None].astype(np.float64)).sum(axis=1),
    lambda x, w: (x[:, None, :] * w.T[None]).sum(axis=2),
    lambda x, w: (np.sqrt(x)[:, :, None] * w.astype(np.float64)[None]).sum(axis=1),
    lambda x, w: np.abs(x[:, :, None] - w[None]).sum(axis=1) @ w.T,
]


@pytest.mark.parametrize("sums", SUMS)
@pytest.mark.parametrize("shape", [(8, 16, 16), (33, 17, 9), (3, 128, 5)])
def test_sums_of_products_with_axes_of_one_element(
    backend: Backend, sums: Callable[..., Any], shape: tuple[int, int, int]
) -> None:
    """XLA's rewriting to YNNPACK read memory beyond some of them."""
    rows, inner, columns = shape
    draw = np.random.default_rng(0)
    for one, two in (("f", "f"), ("f", "d"), ("d", "f"), ("d", "d")):
        x, w = draw.random((rows, inner)).astype(one), draw.random((inner, columns)).astype(two)
        engine = BackendEngine(backend, NumpyBackend(), Programs())
        found, _ = recorded(sums, x, w, engine=engine)
        np.testing.assert_allclose(found, sums(x, w), rtol=1e-4)


def test_the_first_of_several_nan_is_the_extreme(backend: Backend) -> None:
    x = RANDOM.random((40, 70))
    x[RANDOM.random(x.shape) < 0.1] = NAN
    for axis in (0, 1, None):
        _compared(backend, lambda x, axis=axis: np.argmax(x, axis) - np.argmin(x, axis), x)


def test_the_form_of_it_for_gpus(jax: Any) -> None:
    from gpuforge.runtime.lowering.jax import place_of_extreme

    x = np.where(RANDOM.random((5, 7)) < 0.3, NAN, VALUES[:5, :1])
    for name in ("argmax", "argmin"):
        placed, real = place_of_extreme(jax.numpy, name, on_host=False), getattr(np, name)
        for axis in (0, 1):
            np.testing.assert_array_equal(placed(jax.numpy.asarray(x), axis), real(x, axis))
