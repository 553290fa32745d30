"""``gf.namespace(x)``: the Array API namespace that `x` belongs to."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

_known: dict[type, ModuleType] = {np.ndarray: np}


def namespace(*arrays: Any) -> ModuleType:
    """Return the Array API namespace of `arrays`.

    For NumPy arrays that is ``numpy`` itself, which follows the standard since 2.1; inside a
    recorded call it is a namespace with NumPy's names that also records new arrays; for other
    libraries, what ``array_api_compat`` offers. Scalars and None are ignored.

    Raises
    ------
    TypeError
        If there is no array among them, or they belong to different libraries, as in
        ``array_api_compat.array_namespace``.
    """
    found = _known.get(type(arrays[0])) if len(arrays) == 1 else None
    return found if found is not None else _look_up(arrays)


def _look_up(arrays: tuple[Any, ...]) -> ModuleType:
    for one in arrays:
        if hasattr(type(one), "_recorder"):  # a recorded array
            return one.__array_namespace__()  # type: ignore[no-any-return]
    kinds = {type(a) for a in arrays}
    if all(issubclass(k, np.ndarray | np.generic | float | int | complex) for k in kinds) and any(
        issubclass(k, np.ndarray | np.generic) for k in kinds
    ):
        return np
    from array_api_compat import array_namespace

    found: ModuleType = array_namespace(*arrays)
    if len(kinds) == 1:
        _known[kinds.pop()] = found
    return found
