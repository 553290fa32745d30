"""Functions, arguments and results as bytes, their arrays left out of them for shared memory.

What can be imported goes by its name. Lambdas, closures and what the program's main module defines
go by value, which takes cloudpickle.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from gpuforge.errors import WorkloadError
from gpuforge.runtime.function.naming import name_of
from gpuforge.runtime.workers.channel import Host

Pickled = tuple[bytes, list[Host]]


def pickled_call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Any) -> Pickled:
    """Return a call to be made in another process.

    Raises
    ------
    WorkloadError
        If the function or an argument cannot be sent; it names which.
    """
    sent = _sent(function)
    try:
        return dumped((sent, args, kwargs))
    except Exception as error:
        raise _refusal(function, sent, args, kwargs, error) from error


def loaded(content: bytes, arrays: Sequence[Host]) -> Any:
    """Return what was pickled; its arrays are views of the given memory."""
    return pickle.loads(content, buffers=[array.data for array in arrays])


def dumped(value: Any) -> Pickled:
    """Return bytes and arrays that `loaded` makes a value of."""
    buffers: list[pickle.PickleBuffer] = []
    content = _dumps()(value, protocol=5, buffer_callback=buffers.append)
    return content, [np.frombuffer(buffer.raw(), np.uint8) for buffer in buffers]


def _dumps() -> Callable[..., bytes]:
    try:
        found: Callable[..., bytes] = import_module("cloudpickle").dumps
    except ModuleNotFoundError:
        return pickle.dumps
    return found


def _sent(function: Callable[..., Any]) -> Any:
    """Return what stands for a function: the name of what it is found under, where it is found."""
    module = sys.modules.get(getattr(function, "__module__", "") or "")
    found: Any = module
    for part in getattr(function, "__qualname__", "<none>").split("."):
        found = getattr(found, part, None)
    by_name = getattr(function, "__module__", "") != "__main__" and found is not function
    if by_name and getattr(found, "__wrapped__", None) is function:
        return found  # a decorated function, whose name leads to the decorator's object
    return function


def _refusal(
    function: Callable[..., Any], sent: Any, args: tuple[Any, ...], kwargs: Any, error: Exception
) -> WorkloadError:
    """Return the error that names what cannot be sent, and what to do."""
    parts = [("its code", sent)]
    parts += [(f"argument {place}", value) for place, value in enumerate(args, 1)]
    parts += [(f"argument {name!r}", value) for name, value in kwargs.items()]
    what = next((text for text, value in parts if not _is_sendable(value)), "the call")
    text = " ".join(str(error).split())[:200]
    by_value = what == "its code" and _dumps() is pickle.dumps
    return WorkloadError(
        f"{name_of(function)} cannot be sent to a worker: {what} cannot be pickled ({text})",
        hint="install gpuforge[isolate], or define the function at the top of a module"
        if by_value
        else "open files, locks and connections inside the function, or pass isolate=False",
    )


def _is_sendable(value: Any) -> bool:
    try:
        dumped(value)
    except Exception:  # noqa: BLE001 - pickling runs code of the value's own
        return False
    return True
