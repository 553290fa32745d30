"""Data flow between traced calls: which call returned the arrays that another one is given.

Nothing may hold a reference to the results, not even a weak one: `numpy.ndarray.resize` refuses
arrays that have any. A result is recognised by its id, shape, strides, dtype and the values at four
places instead. So one that is changed in between is not recognised, and an array in the place of a
result that is gone only counts as it if all of these are the same.

An array that NumPy computes from a result between two calls is a new one, whose origin is not
known; a view leads to the array whose memory it shows.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import islice
from typing import Any

MOST_RESULTS = 1024
"""Number of results that are remembered; the older half is forgotten when there are more."""
_MOST_INSIDE = 16  # of a tuple, list or dictionary
_OWNED = 3  # references to the owner of a view's memory: the view's, and those of two variables
_results: dict[int, tuple[Any, str]] = {}
"""By the id of a result: by what it is recognised, and the name of the span."""


def sources(given: Sequence[Any]) -> dict[str, Any]:
    """Return the attribute ``from`` of a call with these arguments; nothing if no origin is known.

    It lists, for each span whose result is among the arguments, its name and the bytes passed.
    """
    found: dict[str, int] = {}
    for array in _arrays(given) if _results else ():
        if name := _origin(array) or _origin(_owner(array)):
            found[name] = found.get(name, 0) + array.nbytes
    return {"from": list(map(list, found.items()))} if found else found


def returned(name: str, result: Any) -> None:
    """Remember that a call traced as the span `name` returned `result`."""
    for array in _arrays((result,)):
        _remember(array, name)
        # The owner of a view's memory is part of the result unless something else holds it, too.
        if (owner := _owner(array)) is not array and sys.getrefcount(owner) <= _OWNED:
            _remember(owner, name)


def forget() -> None:
    """Forget all results: another recording has other spans."""
    _results.clear()


def _origin(array: Any) -> str:
    known = _results.get(id(array))
    return known[1] if known is not None and known[0] == _mark(array) else ""


def _remember(array: Any, name: str) -> None:
    if array.dtype.hasobject:  # to compare the values could run code of the program
        return
    _results.pop(id(array), None)  # the latest is last
    _results[id(array)] = _mark(array), name
    if len(_results) > MOST_RESULTS:
        for key in list(_results)[: MOST_RESULTS // 2]:
            _results.pop(key, None)


def _mark(array: Any) -> tuple[Any, ...]:
    """Return by what an array is recognised."""
    size, flat = array.size, array.flat
    places = (0, size // 3, size // 2, size - 1) if size and not array.dtype.hasobject else ()
    values = [flat[place].tobytes() for place in places]
    return array.shape, array.strides, array.dtype, values


def _arrays(values: Sequence[Any]) -> list[Any]:
    """Return the NumPy arrays among values and inside their tuples, lists and dictionaries."""
    numpy = sys.modules.get("numpy")
    ndarray = getattr(numpy, "ndarray", None)
    found = []
    for value in values:
        kind = type(value)
        if kind is ndarray:
            found.append(value)
        elif kind is tuple or kind is list or kind is dict:
            inside = value.copy().values() if kind is dict else value
            found += [one for one in islice(inside, _MOST_INSIDE) if type(one) is ndarray]
    return found


def _owner(array: Any) -> Any:
    while type(base := array.base) is type(array):
        array = base
    return array
