"""Record functions by running NumPy's own Python code over recorded arrays.

Many NumPy functions are Python code over a few others. That code runs unchanged, so options, order
of operations and intermediate dtypes are those of the installed NumPy. Only the names that create
or convert arrays are replaced; NumPy dispatches everything else.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from gpuforge.runtime.array.array import Array, make, node_of
from gpuforge.runtime.array.namespace import CONVERSIONS, CREATIONS, is_recorded
from gpuforge.runtime.array.recorder import Recorder
from gpuforge.runtime.array.table import Recording, notes
from gpuforge.runtime.array.unsupported import NoSuchMemory, NotRecordable, Unsupported


class _Here(threading.local):
    recorder: Recorder | None = None


_here = _Here()


class _Module(ModuleType):
    """One of NumPy's modules, with functions that create or convert arrays replaced."""

    def __init__(self, original: ModuleType) -> None:
        super().__init__(original.__name__)
        self.__dict__["_original"] = original

    def __getattr__(self, name: str) -> Any:
        value = self.__dict__[name] = _replaced(getattr(self._original, name))
        return value


class _Warnings(ModuleType):
    """Replaces `warnings`: a call that makes NumPy warn falls back to NumPy."""

    def __init__(self) -> None:
        super().__init__("warnings")

    def warn(self, message: Any, *_: Any, **__: Any) -> None:
        """Raise Unsupported."""
        raise Unsupported(f"NumPy warns: {message}")


class _Converter:
    """Replaces NumPy's converter of arguments to arrays, and of results to scalars."""

    def __init__(self, *given: Any) -> None:
        self._scalars = [isinstance(one, np.generic | int | float | complex) for one in given]
        self._arrays = tuple(_FUNCTIONS[id(np.asarray)](one) for one in given)

    def as_arrays(self, **_: Any) -> tuple[Any, ...]:
        """Return the arguments as arrays."""
        return self._arrays

    def wrap(self, made: Any, *, to_scalar: bool | None = None) -> Any:
        """Return a result as an array, or as a scalar if the arguments were scalars."""
        wanted = all(self._scalars) if to_scalar is None else to_scalar
        if type(made) is Array and wanted and not made.shape:
            return make(made._recorder, node_of(made), scalar=True)
        return made


def _made(name: str) -> Callable[..., Any]:
    original = getattr(np, name)

    def made(*args: Any, **kwargs: Any) -> Any:
        found = CONVERSIONS.get(name) or CREATIONS[name]
        try:
            return found(_here.recorder, *args, **kwargs)
        except Unsupported:
            if any(map(is_recorded, args)):
                raise
            return original(*args, **kwargs)

    return made


_FUNCTIONS = {
    id(getattr(np, name)): _made(name)
    for name in "array asarray asanyarray ascontiguousarray zeros ones empty full".split()
}
_FUNCTIONS[id(getattr(np.concatenate, "__wrapped__", None))] = np.concatenate
_modules: dict[int, Any] = {id(warnings): _Warnings()}
_globals: dict[int, dict[str, Any]] = {}


def _replaced(value: Any) -> Any:
    found = _FUNCTIONS.get(id(value))
    if found is not None:
        return found
    if isinstance(value, ModuleType):
        if id(value) not in _modules and value.__name__.startswith("numpy"):
            _modules[id(value)] = _Module(value)
        return _modules.get(id(value), value)
    return _Converter if getattr(value, "__name__", "") == "_array_converter" else value


def _globals_over(original: dict[str, Any]) -> dict[str, Any]:
    """Return the globals of one of NumPy's modules, for its functions over recorded arrays."""
    made = _globals.get(id(original))
    if made is None:
        made = dict(original)
        for name, value in original.items():
            own = type(value) is FunctionType and value.__globals__ is original
            made[name] = _over(value, made) if own else _replaced(value)
        _globals[id(original)] = made
    return made


def _over(function: Any, variables: dict[str, Any]) -> Any:
    made = FunctionType(
        function.__code__, variables, function.__name__, function.__defaults__, function.__closure__
    )
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def formula(function: Any) -> Recording:
    """Return a function that records a NumPy function by running its own code.

    That code must not write into its arguments. Any exception over recorded arrays becomes
    Unsupported: NumPy then computes on host arrays, and what it raises there reaches the user.
    """
    original = function.__wrapped__
    ready: list[Any] = []

    def recording(recorder: Recorder, /, *args: Any, **kwargs: Any) -> Any:
        if not ready:  # at the first call, to keep the import cheap
            ready.append(_over(original, _globals_over(original.__globals__)))
        run = ready[0]
        outer, _here.recorder = _here.recorder, recorder
        try:
            return run(*args, **kwargs)
        except Unsupported:
            raise
        except NotRecordable as error:
            if not isinstance(error, NoSuchMemory):
                raise
            raise Unsupported(str(error)) from error
        except Exception as error:
            raise Unsupported(f"{type(error).__name__}: {error}") from error
        finally:
            _here.recorder = outer

    return recording


def follow_numpy(*functions: Any) -> None:
    """Register NumPy functions that are recorded by running their own code."""
    for function in functions:
        notes(function)(formula(function))
