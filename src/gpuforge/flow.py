"""Data flow between traced calls: which call returned the arrays that another one is given.

Results are remembered by weak references, so that no array lives longer because of a profile. An
array that NumPy computes from a result between two calls is a new one, whose origin is not known;
a view leads to the array whose memory it shows.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

MOST_RESULTS = 4096
"""Number of results that are remembered; the oldest are forgotten first."""
_MOST_INSIDE = 16  # of a tuple, list or dictionary
_results: dict[int, tuple[Callable[[], Any], str]] = {}
"""By the id of a result: a weak reference to it, and the name of the span."""


def sources(given: Sequence[Any]) -> dict[str, Any]:
    """Return the attribute ``from`` of a call with these arguments; nothing if no origin is known.

    It lists, for each span whose result is among the arguments, its name and the bytes passed.
    """
    found: dict[str, int] = {}
    if _results:
        for array in _arrays(given):
            name = _origin(array) or (array.base is not None and _origin(_owner(array)))
            if name:
                found[name] = found.get(name, 0) + array.nbytes
    return {"from": list(map(list, found.items()))} if found else found


def returned(name: str, given: Sequence[Any], result: Any) -> None:
    """Remember that the span `name`, a call with the arguments `given`, returned `result`."""
    for array in _arrays((result,)):
        _remember(array, name)
        if array.base is not None:
            owner = _owner(array)
            # A result in an argument's memory says nothing of the argument.
            if not any(owner is _owner(one) for one in _arrays(given)):
                _remember(owner, name)


def _origin(array: Any) -> str:
    known = _results.get(id(array))
    return known[1] if known is not None and known[0]() is array else ""


def _remember(array: Any, name: str) -> None:
    _results[id(array)] = weakref.ref(array), name
    if len(_results) > MOST_RESULTS:
        for key in list(_results)[: MOST_RESULTS // 2]:
            _results.pop(key, None)


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
