"""Pipeline steps that change pixel values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuforge.errors import InvalidSettings, WorkloadError

_LUMINANCE = (0.2125, 0.7154, 0.0721)
"""Weights of red, green and blue, as in scikit-image."""


@dataclass(frozen=True)
class Grayscale:
    """Luminance of colour images, without a channel axis. As ``skimage.color.rgb2gray``."""

    def __call__(self, images: Any) -> Any:
        if images.ndim != 4 or images.shape[3] != 3:
            raise WorkloadError(
                f"{self} got images of shape {images.shape[1:]}, expected (height, width, 3)"
            )
        return images @ np.asarray(_LUMINANCE, dtype=images.dtype)


@dataclass(frozen=True)
class Normalize:
    """``(image - mean) / std``, with one number for all pixels or one per channel."""

    mean: float | tuple[float, ...]
    std: float | tuple[float, ...]

    def __post_init__(self) -> None:
        if not np.all(np.asarray(self.std) > 0):
            raise InvalidSettings(f"{self}: std is not above 0")

    def __call__(self, images: Any) -> Any:
        mean, std = (np.asarray(one, dtype=images.dtype) for one in (self.mean, self.std))
        channels = images.shape[3] if images.ndim == 4 else 0
        if any(one.ndim and one.shape != (channels,) for one in (mean, std)):
            raise WorkloadError(f"{self} does not fit images of shape {images.shape[1:]}")
        return (images - mean) / std


@dataclass(frozen=True)
class Rescale:
    """Rescale the values of each image to the range from `low` to `high`.

    As ``skimage.exposure.rescale_intensity(image, out_range=(low, high))``.
    """

    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise InvalidSettings(f"{self}: low is not below high")

    def __call__(self, images: Any) -> Any:
        axes = tuple(range(1, images.ndim))
        least = np.min(images, axis=axes, keepdims=True)
        reach = np.max(images, axis=axes, keepdims=True) - least
        flat = reach == 0
        stretched = (images - least) / np.where(flat, 1.0, reach).astype(images.dtype)
        stretched = stretched * (self.high - self.low) + self.low
        return np.where(flat, np.clip(images, self.low, self.high), stretched)


@dataclass(frozen=True)
class Threshold:
    """A boolean image: True where a pixel is above `value`. As ``image > value``."""

    value: float

    def __call__(self, images: Any) -> Any:
        return images > self.value


@dataclass(frozen=True)
class Equalize:
    """Histogram equalization. As ``skimage.exposure.equalize_hist(image, nbins=bins)``.

    All channels of an image share one histogram.
    """

    bins: int = 256

    def __post_init__(self) -> None:
        if self.bins < 1:
            raise InvalidSettings(f"{self} has no bins")

    def __call__(self, images: Any) -> Any:
        return np.stack([self._equalized(image) for image in images])

    def _equalized(self, image: Any) -> Any:
        flat = image.reshape(-1)
        counts, edges = np.histogram(flat, bins=self.bins)
        share = np.cumsum(counts) / counts.sum()
        centers = (edges[:-1] + edges[1:]) / 2
        return np.interp(flat, centers, share).reshape(image.shape).astype(image.dtype)
