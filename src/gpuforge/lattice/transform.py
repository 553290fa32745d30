"""The exclusive or of data and a key; applying it twice restores the data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import gpuforge as gf
from gpuforge.errors import WorkloadError
from gpuforge.lattice.shape import array_of

BYTES = (bytes, bytearray, memoryview)
STACKED_BYTES = 4096
"""Up to this size a call costs more than copying its data and key into a stack with others."""


class Transform(NamedTuple):
    """One prepared transform: `data` and `key` are 1-D arrays of equal dtype and length."""

    data: NDArray[Any]
    key: NDArray[Any]
    shape: tuple[int, ...] | None
    """The shape of the result; None for bytes."""

    @classmethod
    def of(cls, data: Any, key: Any, states: NDArray[Any]) -> Transform:
        """Return the transform of `data` by `key`, or by `states` if `key` is None."""
        if isinstance(data, BYTES):
            numbers, shape = np.frombuffer(bytes(data), np.uint8), None
        else:
            numbers = _integers("data", data)
            shape = numbers.shape
        flat = numbers.reshape(-1)
        chosen = states if key is None else _key(key, flat.dtype)
        return cls(flat, _of_length(chosen.reshape(-1), flat.size, flat.dtype), shape)

    def finished(self, transformed: NDArray[Any]) -> Any:
        """Return the result in the form of the data: an array of its shape, or bytes."""
        return transformed.tobytes() if self.shape is None else transformed.reshape(self.shape)


def xor_all(transforms: Sequence[Transform]) -> list[Any]:
    """Return the results of transforms of equal dtype and length, computed in one call."""
    if len(transforms) == 1:
        return [transforms[0].finished(gf.xor(transforms[0].data, transforms[0].key))]
    rows = len(transforms), len(transforms[0].data)
    data = np.concatenate([one.data for one in transforms]).reshape(rows)
    keys = np.concatenate([one.key for one in transforms]).reshape(rows)
    return [one.finished(row) for one, row in zip(transforms, gf.xor(data, keys), strict=True)]


def _integers(what: str, values: Any) -> NDArray[Any]:
    found = array_of(values)
    if found.dtype.kind in "iu":
        return found if found.dtype.isnative else found.astype(found.dtype.newbyteorder("="))
    if found.size == 0 and not isinstance(values, np.ndarray):
        return found.astype(np.int64)  # NumPy makes [] float64, but it contains no floats
    text = "text" if found.dtype.kind in "SU" else f"dtype {found.dtype}"
    raise WorkloadError(
        f"{what} of {text} cannot be transformed: expected integers of one dtype, or bytes",
        hint="encode text to bytes; view other arrays as integers: x.view(numpy.uint8)",
    )


def _key(key: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return a given key as integers of the data's dtype."""
    if isinstance(key, BYTES):
        found: NDArray[Any] = np.frombuffer(bytes(key), np.uint8)
    else:
        found = _integers("a key", key)
    if found.size == 0:
        raise WorkloadError("the key is empty: expected at least one integer")
    if isinstance(key, (np.ndarray, np.generic, *BYTES)):
        if found.dtype != dtype:
            raise WorkloadError(
                f"the key has dtype {found.dtype}, the data {dtype}: expected the same",
                hint=f"use key.astype({str(dtype)!r}) if its numbers fit",
            )
        return found
    limits = np.iinfo(dtype)
    if int(found.min()) < limits.min or int(found.max()) > limits.max:
        raise WorkloadError(
            f"the key holds numbers from {found.min()} to {found.max()}; the data's {dtype} holds "
            f"{limits.min} to {limits.max}"
        )
    return found.astype(dtype)


def _of_length(key: NDArray[Any], length: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return the key repeated or truncated to `length`, and cast to `dtype` (lowest bits kept)."""
    fitting = key[:length] if length <= key.size else np.resize(key, length)
    return fitting.astype(dtype, copy=False)
