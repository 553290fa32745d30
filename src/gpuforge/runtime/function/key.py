"""The key under which a choice is cached for the next calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

_ndarray = np.ndarray
STATIC = {int, bool, str, type(None)}
_BY_TYPE = {float, complex, list, tuple, dict}
_BY_VALUE = (int, str)
Place = int | str
"""An argument, by position or name."""


class AnyNumber:
    """Stands for a whole number that keeps changing (see `Numbers`)."""

    def __repr__(self) -> str:
        return "any number"


ANY = AnyNumber()


def generalize(
    args: Sequence[Any], kwargs: Mapping[str, Any], changing: frozenset[Place]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments with `ANY` for each whole number that keeps changing."""
    given = [ANY if type(value) is int and place in changing else value
             for place, value in enumerate(args)]  # fmt: skip
    named = {name: ANY if type(value) is int and name in changing else value
             for name, value in kwargs.items()}  # fmt: skip
    return tuple(given), named


def hot_key(
    args: tuple[Any, ...], kwargs: dict[str, Any], changing: frozenset[Place] = frozenset()
) -> Any:
    """Return a key of dtypes, shapes, strides, static values and the types of other arguments.

    A number that keeps changing counts by its type. None if an argument is an instance of a
    subclass of int or str, such as an enumeration member.
    """
    if changing:
        args, kwargs = generalize(args, kwargs, changing)
    key: list[Any] = [*kwargs] if kwargs else []
    for value in (*args, *kwargs.values()) if kwargs else args:
        kind = type(value)
        if kind is _ndarray:
            key += value.dtype, value.shape, value.strides
        elif kind in STATIC:
            key += kind, value
        elif kind in _BY_TYPE or not issubclass(kind, _BY_VALUE):
            key.append(kind)
        else:
            return None
    return tuple(key)
