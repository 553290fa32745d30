"""Priors: how each backend compares with NumPy, by class of operations and size."""

from __future__ import annotations

import os
import sys
from bisect import bisect_left
from collections.abc import Iterable
from functools import cache
from math import exp, inf, log
from typing import Any

from gpuforge.history import History
from gpuforge.runtime.function.reading import CHAIN, LOOP
from gpuforge.runtime.placement.evidence import Estimate
from gpuforge.runtime.placement.policy import CALIBRATED_SPREAD, Prior

CONSTANT = "calibration"
UNPROMISING_SECONDS = 30e-6
"""Calls shorter than this gain nothing elsewhere: a call of PyTorch or JAX alone takes as long."""

# In order of significance: a function belongs to the first class that it uses.
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
"""A library that is not open is assumed to save at most this share of a call."""
DEFAULT_SPREAD = 0.8
_FOR_GPUS = frozenset(["cupy", "dpnp"])
"""Libraries for GPUs only: on a CPU, a call of dpnp takes 0.5 ms and CuPy does not run."""
_MEASURED_FIRST = frozenset(["mlx", "opencl"])
"""Libraries that on a CPU gain for few functions, and compute in worker processes: they are used
there only if a calibration of this machine says that they gain."""
_PER_BYTE = {"jax": (70e-6, 0.28e-9), "torch": (50e-6, 0.25e-9)}
"""Seconds per call, and per byte of its arguments, on two cores, for functions that stream through
their arrays. If NumPy takes longer, whatever the operation, the library gains.

Source: ``benchmarks/functions.py`` pinned to each library on two cores of an AMD EPYC; half of the
functions are within a factor of two.
"""
_LEAST_SHARE, _LOOP_SHARE = 0.1, 0.3
"""Least share of NumPy's time that a library is expected to take, and for a function with a loop.
The bytes of the arguments say little about the work of a loop, or of all pairs of their rows.

Source: with JAX, the loops of NPBench that gain most take 0.2 to 0.5 times as long.
"""
_IN_LOOPS = {"jax": ("matmul", "gather")}
"""Classes for which a library gains in a loop, which it runs as one program, if not outside.

Source: with JAX, NPBench's floyd_warshall, lenet and conv2d_bias take 0.2 to 0.6 times as long.
"""
_STREAMING = frozenset(["chain", "heavy", "light", "reduce", "scan"])
_RATIOS = {
    "matmul": {
        "blocks": (2.0, 1.2, 1.0, 1.0),
        "jax": (10.0, 5.0, 2.7, 1.3),
        "torch": (4.4, 2.7, 1.8, 1.6),
    },
    "sort": {
        "blocks": (2.0, 1.2, 1.0, 0.8),
        "jax": (14.0, 9.6, 5.7, 4.8),
        "torch": (5.6, 3.8, 2.4, 2.6),
    },
    "fft": {
        "blocks": (2.0, 1.2, 0.9, 0.7),
        "jax": (3.2, 1.2, 1.0, 1.2),
        "torch": (2.3, 1.2, 0.8, 1.0),
    },
    "linalg": {
        "blocks": (2.0, 1.2, 1.0, 1.0),
        "jax": (3.0, 2.0, 1.5, 1.5),
        "torch": (1.7, 1.0, 0.7, 0.6),
    },
    "gather": {
        "blocks": (2.0, 1.2, 0.9, 0.7),
        "jax": (8.0, 6.0, 3.0, 2.0),
        "torch": (5.4, 4.2, 2.7, 1.9),
    },
}
_SIZES = (1e3, 1e4, 1e5, 1e6)
"""Sizes, in elements, of the ratios to NumPy's time above, for the other classes.

Source: medians of ``benchmarks/results/placement-samples.json.gz`` (two cores of an AMD EPYC); the
linear algebra and gather ratios of JAX, and those of blocks, are by analogy.
"""
_SHARE = {"blocks": (60e-6, 0.6)}
"""Seconds per call, and share of NumPy's time, of NumPy's functions on two cores.

Source: ``benchmarks/functions.py``, pinned, on two cores of an AMD EPYC.
"""
_COPYING = {"jax": 0.45e-9}
"""Seconds per byte to copy the arguments, which these ratios, of short calls, do not contain.

Source: arrays of 100 MB on two cores of an AMD EPYC took JAX 0.55 ns per byte, or 0.17 if aligned
to 64 bytes, as one in four arrays of NumPy is. PyTorch shares NumPy's memory.
"""
_GPU_START, _GPU_PER_BYTE = 120e-6, {"torch": 0.2e-9, "cupy": 0.25e-9}
_GPU_PER_OTHER_BYTE = 0.4e-9
_GPU_SHARE = {"linalg": 0.4, "matmul": 0.15, "sort": 0.1, "gather": 0.1}
_GPU_OTHER_SHARE, _GPU_SPREAD = 0.04, 1.2
"""What a call on a GPU with memory of its own is expected to take, in seconds: a start, a time per
byte of the arguments, which includes moving results back, and a share of NumPy's time, added up.
GPUs differ widely, hence the spread.

Source: eleven functions of 16 million elements or 3000 x 3000 matrices on an H200 beside 16 cores,
pinned: the arguments took 0.06 to 0.13 ns per byte with PyTorch, 0.1 to 0.2 with CuPy, 0.2 to 0.5
with JAX, over a link about twice as fast as that of an ordinary machine; of NumPy's time, linear
systems took 0.3 to 0.4, products 0.05 to 0.25, sorts 0.06 and pairs of points 0.005.
"""

OPTIMISM = 0.3
"""A function of many operations may take this share of its class's time: a compiler fuses them."""

Table = dict[str, dict[str, list[list[float]]]]
"""class -> backend -> [[elements, time relative to NumPy's], ...] in order of size"""


def classify(operations: Iterable[str]) -> str:
    """Return the class of operations of a function that uses these attribute names."""
    used = set(operations)
    return next((name for name, members in CLASSES.items() if used & members), LIGHT)


class Priors:
    """The calibration of this machine, read from the history when first needed."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._table: Table | None = None

    @property
    def table(self) -> Table:
        """The measured ratios; empty if this machine was not calibrated."""
        if self._table is None:
            self._table = _parsed_table(self._history.constant(CONSTANT))
        return self._table

    def measured(self, library: str) -> bool:
        """Return whether a library that needs a calibration to be used has one."""
        names = (name for backends in self.table.values() for name in backends)
        return library in _MEASURED_FIRST and any(n.split(":")[0] == library for n in names)

    def of(self, operations: Iterable[str], bytes_each: float = 8.0) -> Prior:
        """Return the prior of a function whose arrays take `bytes_each` bytes per element."""
        name, loops = classify(operations), LOOP in operations

        def prior(backend: str, size: int, numpy_seconds: float) -> Estimate | None:
            measured = _interpolate(self.table.get(name, {}).get(backend, []), size)
            library, _, device = backend.partition(":")
            usual = None
            if device == "cpu":
                usual = _default_estimate(
                    name, library, size, bytes_each * size, numpy_seconds, loops=loops
                )
            elif device and not device.startswith("cpu"):
                usual = _gpu_estimate(name, library, bytes_each * size, numpy_seconds, loops=loops)
            if measured is None:
                return usual
            text = "calibrated for this class of operations"
            known = Estimate(numpy_seconds * measured, CALIBRATED_SPREAD, text)
            # The probes are short; a function of many operations takes longer per element.
            streaming = name in _STREAMING and device == "cpu"
            return known.joined(usual) if usual and streaming else known

        return prior

    def saving(
        self, library: str, operations: Iterable[str], size: int, nbytes: int, seconds: float,
        expected: float, *, on_gpu: bool = False,
    ) -> float:  # fmt: skip
        """Return the seconds that a library might save of a call that took NumPy `seconds`.

        `expected` is the time of the fastest open backend, which the library has to beat; `on_gpu`
        says that it may use a GPU.
        """
        if expected < UNPROMISING_SECONDS:
            return 0.0
        name = classify(operations)
        backends = self.table.get(name, {})
        ratios = [
            ratio
            for backend, points in backends.items()
            if backend.split(":")[0] == library
            and (ratio := _interpolate(points, size)) is not None
        ]
        if ratios:
            return max(0.0, expected - OPTIMISM * min(ratios) * seconds)
        loops = LOOP in operations
        if on_gpu:
            return _gpu_estimate(name, library, nbytes, seconds, loops=loops).saving(expected)
        if is_for_gpus(library):
            return 0.0
        default = _default_estimate(name, library, size, nbytes, seconds, loops=loops)
        return default.saving(expected) if default else expected * UNKNOWN_SAVING


def _default_estimate(
    name: str, library: str, size: int, nbytes: float, numpy_seconds: float, *, loops: bool
) -> Estimate | None:
    """Return the estimate for a library on the CPU before anything is measured."""
    text = "not calibrated: typical for this class of operations"
    if (name in _STREAMING or (loops and name in _IN_LOOPS.get(library, ()))) and (
        library in _PER_BYTE
    ):
        start, each = _PER_BYTE[library]
        least = (_LOOP_SHARE if loops else _LEAST_SHARE) * numpy_seconds
        return Estimate(max(least, start + each * nbytes), DEFAULT_SPREAD, text)
    if name in _STREAMING and library in _SHARE:
        start, share = _SHARE[library]
        return Estimate(start + share * numpy_seconds, DEFAULT_SPREAD, text)
    ratios = _RATIOS.get(name, {}).get(library)
    if ratios is None:
        return None
    points = [list(point) for point in zip(_SIZES, ratios, strict=True)]
    ratio = _interpolate(points, size)
    if ratio is None:
        return None
    copying = _COPYING.get(library, 0.0) * nbytes
    return Estimate(ratio * numpy_seconds + copying, DEFAULT_SPREAD, text)


def _gpu_estimate(
    name: str, library: str, nbytes: float, numpy_seconds: float, *, loops: bool
) -> Estimate:
    """Return the estimate for a library on a GPU before anything is measured."""
    moved = _GPU_PER_BYTE.get(library, _GPU_PER_OTHER_BYTE) * nbytes
    share = _GPU_SHARE.get(name, _GPU_OTHER_SHARE)
    run = (max(share, _LOOP_SHARE) if loops else share) * numpy_seconds
    text = "not calibrated: typical for this class of operations on a GPU"
    return Estimate(_GPU_START + moved + run, _GPU_SPREAD, text)


def is_for_gpus(library: str) -> bool:
    """Return whether a library gains only on GPUs and this machine has none."""
    return library in _FOR_GPUS | _MEASURED_FIRST and not may_have_gpu()


@cache
def may_have_gpu() -> bool:
    """Return whether there may be a GPU, judging by device nodes in /dev; True if not on Linux."""
    nodes = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg", "/dev/dri")
    return sys.platform != "linux" or any(map(os.path.exists, nodes))


def _interpolate(points: list[list[float]], size: int) -> float | None:
    """Return the ratio at `size`, interpolated on logarithms and constant beyond the ends."""
    if not points:
        return None
    at = bisect_left([point[0] for point in points], size)
    if at == 0 or at == len(points):
        return points[min(at, len(points) - 1)][1]
    (n0, r0), (n1, r1) = points[at - 1], points[at]
    weight = (log(size) - log(n0)) / (log(n1) - log(n0))
    return exp((1 - weight) * log(r0) + weight * log(r1))


def _parsed_table(content: Any) -> Table:
    """Return the calibration table in `content`, empty if it holds none."""
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
        and all(isinstance(v, int | float) and 0 < v < inf for v in point)
        for point in points
    )
