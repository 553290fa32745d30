"""The namespace of a recorded call: NumPy's, but creating and converting arrays is recorded."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from gpuforge.runtime.array.recorder import Recorder
from gpuforge.runtime.array.table import Recording
from gpuforge.runtime.array.unsupported import Unsupported

CONVERSIONS: dict[str, Recording] = {}
"""NumPy functions that convert to an array; recorded if the argument is recorded."""
CREATIONS: dict[str, Recording] = {}
"""NumPy functions that create an array from numbers alone."""


class Namespace(ModuleType):
    """NumPy's names for one recorder.

    Attributes
    ----------
    creates : whether new arrays are recorded too, or only conversions of recorded ones
    """

    _fall_back: Callable[..., Any]

    def __init__(self, recorder: Recorder, *, creates: bool) -> None:
        super().__init__("numpy")
        self._recorder = recorder
        self._creates = creates

    def __getattr__(self, name: str) -> Any:
        creation = CREATIONS.get(name) if self._creates else None
        found = CONVERSIONS.get(name) or creation
        value = getattr(np, name)
        made = value if found is None else partial(_recorded, self, found, value, found is creation)
        self.__dict__[name] = made
        return made

    def __dir__(self) -> list[str]:
        return dir(np)

    def replaced(self, value: Any) -> Any:
        """Return the replacement of a NumPy function; None if it is not replaced."""
        name = _NAMES.get(id(value))
        if name is None or (name in CREATIONS and not self._creates):
            return None
        return getattr(self, name)


def _recorded(
    namespace: Namespace, recording: Recording, function: Any, creates: bool, /, *args: Any,
    **kw: Any,
) -> Any:  # fmt: skip
    """Record a function, or let NumPy compute it if it cannot be recorded."""
    recorder = namespace._recorder
    if recorder.closed or not (creates or any(map(is_recorded, args))):
        return function(*args, **kw)
    try:
        return recording(recorder, *args, **kw)
    except Unsupported as why:
        reason = str(why)
    except TypeError as error:
        if "argument" not in str(error):
            raise
        reason = str(error)
    return namespace._fall_back(recorder, f"np.{function.__name__}", function, args, kw, reason)


def is_recorded(value: Any) -> bool:
    """Return whether a value is a recorded array, or a list or tuple with one in it."""
    if isinstance(value, list | tuple):
        return any(map(is_recorded, value))
    return hasattr(type(value), "_recorder")


def converts(name: str) -> Callable[[Recording], Recording]:
    """Register a function that records a conversion."""
    return _register(CONVERSIONS, name)


def creates(name: str) -> Callable[[Recording], Recording]:
    """Register a function that records a creation."""
    return _register(CREATIONS, name)


_NAMES: dict[int, str] = {}


def _register(table: dict[str, Recording], name: str) -> Callable[[Recording], Recording]:
    def register(recording: Recording) -> Recording:
        table[name] = recording
        _NAMES[id(getattr(np, name))] = name
        return recording

    return register
