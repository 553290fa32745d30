"""Parse indices: what decides the shape becomes part of a graph's key, integers do not."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from gpuforge.runtime.array.graph import Shape
from gpuforge.runtime.array.unsupported import Unsupported

PLACE, NEW, SPAN = "place", "new", "span"
"""In a pattern: an integer, passed separately, and a new axis. Else (start, stop, step), or in a
loop whose slices move (SPAN, length, step) with the start passed separately."""
Pattern = tuple[Any, ...]


class Basic:
    """A basic index: integers, slices, ``...`` and new axes only.

    Attributes
    ----------
    pattern : one entry for each axis of the array, and ``NEW`` for each new one
    places : the integers, none of them negative
    shape : shape of the result
    """

    __slots__ = ("pattern", "places", "shape")

    def __init__(self, pattern: Pattern, places: tuple[int, ...], shape: Shape) -> None:
        self.pattern = pattern
        self.places = places
        self.shape = shape

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Basic) and (self.pattern, self.places, self.shape) == (
            other.pattern,
            other.places,
            other.shape,
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def index(self) -> tuple[Any, ...]:
        """The index that NumPy understands."""
        return to_numpy(self.pattern, self.places)

    def takes_all(self, shape: Shape) -> bool:
        """Return whether it selects every element of an array of `shape`, in order."""
        return self.shape == shape and all(
            part == (0, length, 1) for part, length in zip(self.pattern, shape, strict=False)
        )


def to_numpy(pattern: Pattern, places: Any) -> tuple[Any, ...]:
    """Return the index that NumPy understands."""
    return _to_numpy(pattern, places) if places else _without_places(pattern)


def _to_numpy(pattern: Pattern, places: Any) -> tuple[Any, ...]:
    numbers = iter(places)
    return tuple(
        next(numbers) if part is PLACE or part == PLACE
        else None if part == NEW
        else _span(next(numbers), *part[1:]) if part[0] == SPAN
        else slice(*part)
        for part in pattern
    )  # fmt: skip


def _span(start: int, length: int, step: int) -> slice:
    return slice(start, start + (length - 1) * step + 1, step) if length else slice(0)


@lru_cache(maxsize=4096)
def _without_places(pattern: Pattern) -> tuple[Any, ...]:
    """Return a known index: a simulation uses the same ones in each step."""
    return _to_numpy(pattern, ())


def expand(index: Any, ndim: int) -> list[Any]:
    """Return an index as a list with an entry for each axis, ``...`` replaced by slices."""
    parts = list(index) if type(index) is tuple else [index]
    taken = sum(
        part.ndim if is_mask(part) else 1 for part in parts if part is not None and part is not ...
    )
    dots = [place for place, part in enumerate(parts) if part is ...]
    if len(dots) > 1 or taken > ndim:
        raise Unsupported("too many indices")
    fill = [slice(None)] * (ndim - taken)
    if dots:
        parts[dots[0] : dots[0] + 1] = fill
    else:
        parts += fill
    return parts


def is_mask(part: Any) -> bool:
    """Return whether one part of an index is an array of booleans."""
    dtype = getattr(part, "dtype", None)
    return dtype is not None and dtype.kind == "b" and getattr(part, "ndim", 0) > 0


def is_basic(part: Any) -> bool:
    """Return whether one part of an index is a basic one."""
    kind = type(part)
    return kind is int or kind is slice or part is None or isinstance(part, np.integer)


def parse_plain(index: Any, shape: Shape) -> Basic | None:
    """Return an index of plain integers, slices and new axes, the most frequent kind; else None."""
    parts = index if type(index) is tuple else (index,)
    axis, axes = 0, len(shape)
    pattern: list[Any] = []
    places: list[int] = []
    made: list[int] = []
    for part in parts:
        if part is None:
            pattern.append(NEW)
            made.append(1)
            continue
        if axis == axes:
            return None
        length, kind = shape[axis], type(part)
        axis += 1
        if kind is slice:
            if part.start is part.stop is part.step is None:
                pattern.append((0, length, 1))
                made.append(length)
                continue
            try:
                start, stop, step = part.indices(length)
            except TypeError:
                return None
            taken = len(range(start, stop, step))
            pattern.append((start, None if stop < 0 else stop, step) if taken else (0, 0, 1))
            made.append(taken)
        elif kind is int and -length <= part < length:
            pattern.append(PLACE)
            places.append(part + length if part < 0 else part)
        else:
            return None
    for length in shape[axis:]:
        pattern.append((0, length, 1))
        made.append(length)
    return Basic(tuple(pattern), tuple(places), tuple(made))


def parse_basic(parts: list[Any], shape: Shape) -> Basic:
    """Return a basic index on an array of `shape`.

    Raises
    ------
    Unsupported
        If an integer is out of range, so that NumPy raises its own error.
    """
    pattern: list[Any] = []
    places: list[int] = []
    made: list[int] = []
    axis = 0
    for part in parts:
        if part is None:
            pattern.append(NEW)
            made.append(1)
            continue
        length = shape[axis]
        axis += 1
        if type(part) is slice:
            start, stop, step = part.indices(length)
            taken = len(range(start, stop, step))
            pattern.append((start, None if stop < 0 else stop, step) if taken else (0, 0, 1))
            made.append(taken)
            continue
        place = int(part)
        if not -length <= place < length:
            raise Unsupported("an index out of range")
        pattern.append(PLACE)
        places.append(place + length if place < 0 else place)
    return Basic(tuple(pattern), tuple(places), tuple(made))
