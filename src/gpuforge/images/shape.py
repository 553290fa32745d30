"""Pipeline steps that resize, crop, pad or flip images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuforge.errors import InvalidSettings, WorkloadError

_MODES = ("constant", "edge", "reflect", "symmetric")


@dataclass(frozen=True)
class Resize:
    """Resize images by bilinear interpolation.

    As ``skimage.transform.resize(image, (height, width), order=1, mode="edge",
    anti_aliasing=False)``.
    """

    height: int
    width: int

    def __post_init__(self) -> None:
        _check_positive(self, self.height, self.width)

    def __call__(self, images: Any) -> Any:
        return _resized(_resized(images, 1, self.height), 2, self.width)


def _resized(images: Any, axis: int, length: int) -> Any:
    """Return images with one axis resampled to `length`; pixels are areas, edges are repeated."""
    before = images.shape[axis]
    at = np.clip((np.arange(length) + 0.5) * (before / length) - 0.5, 0, before - 1)
    low = np.floor(at).astype(np.int64)
    high = np.minimum(low + 1, before - 1)
    shape = [length if place == axis else 1 for place in range(images.ndim)]
    weight = (at - low).reshape(shape).astype(images.dtype)
    left, right = np.take(images, low, axis=axis), np.take(images, high, axis=axis)
    return left * (1 - weight) + right * weight


@dataclass(frozen=True)
class Crop:
    """A part of each image. As ``image[top:top + height, left:left + width]``."""

    top: int
    left: int
    height: int
    width: int

    def __post_init__(self) -> None:
        _check_positive(self, self.height, self.width)
        if self.top < 0 or self.left < 0:
            raise InvalidSettings(f"{self} begins outside the image")

    def __call__(self, images: Any) -> Any:
        bottom, right = self.top + self.height, self.left + self.width
        if bottom > images.shape[1] or right > images.shape[2]:
            size = f"{images.shape[1]} x {images.shape[2]}"
            raise WorkloadError(f"{self} reaches beyond images of {size} pixels")
        return images[:, self.top : bottom, self.left : right]


@dataclass(frozen=True)
class Pad:
    """A border of `width` pixels on all sides. As ``np.pad(image, width, mode)``.

    `mode` is ``"constant"`` (zeros), ``"edge"``, ``"reflect"`` or ``"symmetric"``.
    """

    width: int
    mode: str = "constant"

    def __post_init__(self) -> None:
        if self.width < 0:
            raise InvalidSettings(f"{self} has a negative width")
        if self.mode not in _MODES:
            raise InvalidSettings(f"{self}: the mode is none of {', '.join(_MODES)}")

    def __call__(self, images: Any) -> Any:
        if self.mode == "constant":
            around = [(self.width, self.width) if axis in (1, 2) else (0, 0)
                      for axis in range(images.ndim)]  # fmt: skip
            return np.pad(images, around)
        return bordered(bordered(images, 1, self.width, self.mode), 2, self.width, self.mode)


def bordered(images: Any, axis: int, width: int, mode: str) -> Any:
    """Return images padded by `width` pixels at both ends of one axis."""
    places = np.pad(np.arange(images.shape[axis]), width, mode=mode)  # type: ignore[call-overload]
    return np.take(images, places, axis=axis)


@dataclass(frozen=True)
class Flip:
    """Flip images left to right, as ``np.fliplr``; if `vertical`, upside down, as ``np.flipud``."""

    vertical: bool = False

    def __call__(self, images: Any) -> Any:
        return np.flip(images, axis=1 if self.vertical else 2)


def _check_positive(step: object, *lengths: int) -> None:
    if min(lengths) < 1:
        raise InvalidSettings(f"{step} makes images without pixels")
