"""NumPy's names, each function a call of an offloaded function; arrays in between are NumPy's.

``CONFORMANCE_BACKEND`` names the library that the calls are pinned to; ``plain`` leaves gpuforge
out. Arrays in lists, and those given by keyword, are handed over one by one, so that they are
recorded like any other argument.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import numpy as np

import gpuforge as gf

BACKEND = os.environ.get("CONFORMANCE_BACKEND", "plain")
EXTENSIONS = ("linalg", "fft")
FUNCTIONS = (FunctionType, BuiltinFunctionType, np.ufunc, type(np.sum))
AS_THEY_ARE = {"__array_namespace_info__", "get_include", "errstate", "seterr", "geterr"}
MADE: list[Any] = []
"""Every offloaded function of this module."""

__version__ = np.__version__
__array_api_version__ = np.__array_api_version__


@dataclass(frozen=True)
class Place:
    """Where one of the arrays belongs in the arguments of a call."""

    number: int


def taken_out(value: Any, arrays: list[Any]) -> Any:
    """Return a value with a `Place` for each array in it, which goes to `arrays`."""
    if type(value) is np.ndarray:
        arrays.append(value)
        return Place(len(arrays) - 1)
    if type(value) in (list, tuple):
        return type(value)(taken_out(item, arrays) for item in value)
    if type(value) is dict:
        return {name: taken_out(item, arrays) for name, item in value.items()}
    return value


def put_in(value: Any, arrays: tuple[Any, ...]) -> Any:
    """Return a value with the arrays in the places of `taken_out`."""
    if isinstance(value, Place):
        return arrays[value.number]
    if type(value) in (list, tuple):
        return type(value)([put_in(item, arrays) for item in value])
    if type(value) is dict:
        return {name: put_in(item, arrays) for name, item in value.items()}
    return value


def offloaded(function: Callable[..., Any]) -> Any:
    """Return a function whose calls go to the library; on no library the function itself."""
    made = gf.offload(backend=BACKEND)(function)
    MADE.append(made)
    return made


def calling(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that hands its arrays, wherever they are, to an offloaded `call`."""
    direct = offloaded(call)

    def indirect(form: Any, *arrays: Any) -> Any:
        args, kwargs = put_in(form, arrays)
        return call(*args, **kwargs)

    def run(*args: Any, **kwargs: Any) -> Any:
        arrays: list[Any] = []
        form = taken_out((args, kwargs), arrays)
        if not kwargs and len(arrays) == sum(type(value) is np.ndarray for value in args):
            return direct(*args)
        return apart(form, *arrays)

    apart = offloaded(indirect)
    return run


def of_numpy(name: str, part: str = "") -> Any:
    """Return the offloaded form of one of NumPy's functions."""

    def call(*args: Any, **kwargs: Any) -> Any:
        home = getattr(np, part) if part else np
        return getattr(home, name)(*args, **kwargs)

    original = getattr(getattr(np, part) if part else np, name)
    return functools.update_wrapper(calling(call), original)


@functools.cache
def member(name: str, part: str = "") -> Any:
    """Return what stands here for one of NumPy's names."""
    value = getattr(getattr(np, part) if part else np, name)
    plain = BACKEND == "plain" or name.startswith("_") or name in AS_THEY_ARE
    return of_numpy(name, part) if not plain and isinstance(value, FUNCTIONS) else value


class Part(ModuleType):
    """One of NumPy's extensions of the standard."""

    def __getattr__(self, name: str) -> Any:
        return member(name, self.__name__)

    def __dir__(self) -> list[str]:
        return dir(getattr(np, self.__name__))


def __getattr__(name: str) -> Any:
    return Part(name) if name in EXTENSIONS else member(name)


def __dir__() -> list[str]:
    return dir(np)


def counts() -> dict[str, int]:
    """Return how many calls were made on each backend."""
    found: dict[str, int] = {}
    for made in MADE:
        stats = made.stats()
        for name, count in stats.counts.items():
            found[name] = found.get(name, 0) + count.calls
        written = sum(stats.as_written.values())
        found["as written"] = found.get("as written", 0) + written
    return found
