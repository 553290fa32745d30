"""Calibrated priors: how each backend compares with NumPy, by class of operation and size."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from math import exp, log
from typing import Any

from gpuforge.history import History
from gpuforge.runtime.placement import Prior
from gpuforge.runtime.reading import CHAIN

CONSTANT = "calibration"
UNPROMISING_SECONDS = 30e-6
"""Calls shorter than this gain nothing elsewhere: a call of PyTorch or JAX alone costs as much."""

# From the most to the least telling: the first class that a function uses stands for it.
_MEMBERS = {
    "linalg": "linalg svd svdvals eigh eigvalsh qr inv pinv solve cholesky det slogdet lstsq",
    "fft": "fft ifft rfft irfft fft2 fftn ifftn rfftn irfftn",
    "sort": "sort argsort unique_values unique_all unique_counts unique_inverse searchsorted",
    "matmul": "matmul tensordot vecdot dot einsum outer mT",
    "gather": "take take_along_axis",
    "scan": "cumulative_sum cumulative_prod cumsum cumprod diff",
    "chain": CHAIN,
    "heavy": "exp expm1 log log1p log2 log10 sin cos tan asin acos atan atan2 sinh cosh tanh"
    " asinh acosh atanh pow hypot logaddexp",
    "reduce": "sum mean var std prod max min argmax argmin any all",
}
CLASSES = {name: frozenset(members.split()) for name, members in _MEMBERS.items()}
LIGHT = "light"
UNKNOWN_SAVING = 0.5
"""A library that is not open is taken to save at most this share of a call."""
CANCELLING_CLASSES = frozenset(["linalg", "fft", "matmul", "scan", "reduce"])

OPTIMISM = 0.3
"""A function of many operations may do this much better than its class: a compiler fuses them."""

Table = dict[str, dict[str, list[list[float]]]]
"""class -> backend -> [[elements, time over NumPy's], ...] by size"""


def classify(operations: Iterable[str]) -> str:
    """Return the class of operations that a function with these attribute names belongs to."""
    used = set(operations)
    return next((name for name, members in CLASSES.items() if used & members), LIGHT)


class Priors:
    """The calibration of this machine, read from its history when first needed."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._table: Table | None = None

    @property
    def table(self) -> Table:
        """The measured ratios, empty where this machine was not calibrated."""
        if self._table is None:
            self._table = _checked(self._history.constant(CONSTANT))
        return self._table

    def of(self, operations: Iterable[str]) -> Prior:
        """Return the ratios for a function that uses `operations`."""
        name = classify(operations)

        def prior(backend: str, size: int) -> float | None:
            return _interpolate(self.table.get(name, {}).get(backend, []), size)

        return prior

    def saving(self, library: str, operations: Iterable[str], size: int, seconds: float) -> float:
        """Return what a library might save of a call that took NumPy `seconds`, at best."""
        if seconds < UNPROMISING_SECONDS:
            return 0.0
        backends = self.table.get(classify(operations), {})
        ratios = [
            ratio
            for name, points in backends.items()
            if name.split(":")[0] == library and (ratio := _interpolate(points, size)) is not None
        ]
        return seconds * (max(0.0, 1 - OPTIMISM * min(ratios)) if ratios else UNKNOWN_SAVING)


def _interpolate(points: list[list[float]], size: int) -> float | None:
    """Return the ratio at `size`, on logarithms; beyond the ends it stays as it is there."""
    if not points:
        return None
    at = bisect_left([point[0] for point in points], size)
    if at == 0 or at == len(points):
        return points[min(at, len(points) - 1)][1]
    (n0, r0), (n1, r1) = points[at - 1], points[at]
    weight = (log(size) - log(n0)) / (log(n1) - log(n0))
    return exp((1 - weight) * log(r0) + weight * log(r1))


def _checked(content: Any) -> Table:
    """Return a calibration table, empty when `content` is none."""
    if not isinstance(content, dict) or not isinstance(content.get("ratios"), dict):
        return {}
    table: Table = {}
    for name, backends in content["ratios"].items():
        if not isinstance(backends, dict):
            continue
        for backend, points in backends.items():
            if _are_points(points):
                table.setdefault(name, {})[backend] = sorted(points)
    return table


def _are_points(points: Any) -> bool:
    return isinstance(points, list) and all(
        isinstance(point, list)
        and len(point) == 2
        and all(isinstance(v, int | float) and v > 0 for v in point)
        for point in points
    )
