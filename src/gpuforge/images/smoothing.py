"""Pipeline steps that compute each pixel from its neighbourhood."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuforge.errors import InvalidSettings
from gpuforge.images.shape import bordered

_TRUNCATE = 4.0
"""Number of standard deviations at which scikit-image truncates a Gaussian."""


@dataclass(frozen=True)
class Blur:
    """A Gaussian blur with a standard deviation of `sigma` pixels.

    As ``skimage.filters.gaussian(image, sigma, channel_axis=-1)``; for images without channels, as
    without ``channel_axis``.
    """

    sigma: float

    def __post_init__(self) -> None:
        if not self.sigma > 0:
            raise InvalidSettings(f"{self}: sigma is not above 0")

    def __call__(self, images: Any) -> Any:
        radius = int(_TRUNCATE * self.sigma + 0.5)
        at = np.arange(-radius, radius + 1)
        weights = np.exp(-0.5 * (at / self.sigma) ** 2)
        weights /= weights.sum()
        for axis in (1, 2):
            images = _weighed(bordered(images, axis, radius, "edge"), axis, weights)
        return images


def _weighed(images: Any, axis: int, weights: np.ndarray[Any, Any]) -> Any:
    """Return the weighted sums of neighbours along one axis; `weights` must be symmetric."""
    radius = len(weights) // 2
    length = images.shape[axis] - 2 * radius
    cut = [slice(None)] * images.ndim

    def moved(by: int) -> Any:
        cut[axis] = slice(radius + by, radius + by + length)
        return images[tuple(cut)]

    total = moved(0) * float(weights[radius])
    for by in range(1, radius + 1):
        pair = moved(by) + moved(-by)
        pair *= float(weights[radius + by])
        total += pair
    return total


@dataclass(frozen=True)
class Convolve:
    """A convolution with a kernel of odd side lengths; borders are mirrored.

    As ``scipy.ndimage.convolve(image, kernel)``, which the edge filters of ``skimage.filters`` use:
    ``Convolve([[1, 2, 1], [0, 0, 0], [-1, -2, -1]])`` is four times ``sobel_h``.

    Parameters
    ----------
    kernel : rows of numbers
    """

    kernel: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        given = np.asarray(self.kernel, dtype=np.float64)
        if given.ndim != 2 or not all(side % 2 for side in given.shape):
            raise InvalidSettings(f"a kernel of shape {given.shape} was given, expected odd sides")
        object.__setattr__(self, "kernel", tuple(map(tuple, given.tolist())))

    def __call__(self, images: Any) -> Any:
        height, width = images.shape[1:3]
        rows, columns = len(self.kernel), len(self.kernel[0])
        images = bordered(images, 1, rows // 2, "symmetric")
        images = bordered(images, 2, columns // 2, "symmetric")
        total: Any = None
        for down, row in enumerate(reversed(self.kernel)):
            for right, weight in enumerate(reversed(row)):
                if weight:
                    part = weight * images[:, down : down + height, right : right + width]
                    if total is None:
                        total = part
                    else:
                        total += part
        return 0.0 * images[:, :height, :width] if total is None else total
