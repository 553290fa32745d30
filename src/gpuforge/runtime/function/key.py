"""The key under which a choice is cached for the next calls."""

from __future__ import annotations

from typing import Any

import numpy as np

_ndarray = np.ndarray
STATIC = {int, bool, str, type(None)}
_BY_TYPE = {float, complex, list, tuple, dict}
_BY_VALUE = (int, str)


def hot_key(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return a key of dtypes, shapes, strides, static values and the types of other arguments.

    None if an argument is an instance of a subclass of int or str, such as an enumeration member.
    """
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
