"""Pickle functions, arguments and results, with arrays out of band for shared memory.

Importable objects are pickled by name. Lambdas, closures and definitions of the program's main
module are pickled by value, which needs cloudpickle.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from io import BytesIO
from typing import Any

import numpy as np

from gpuforge.errors import WorkloadError
from gpuforge.runtime.function.naming import name_of
from gpuforge.runtime.workers.channel import Host
from gpuforge.runtime.workers.surroundings import Surroundings

Pickled = tuple[bytes, list[Host]]


def pickled_call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Any) -> Pickled:
    """Return a call to be made in another process.

    Raises
    ------
    WorkloadError
        If the function or an argument cannot be sent; the message names which.
    """
    sent = _sent(function)
    try:
        return dumped((Surroundings(), sent, args, kwargs))
    except Exception as error:
        raise _refusal(function, sent, args, kwargs, error) from error


def called(how: str, what: Any) -> Callable[..., Any]:
    """Return the function that `_sent` described."""
    if how == "made":
        kind, given = what
        return kind(*given)  # type: ignore[no-any-return]
    return what.__wrapped__ if how == "unwrapped" else what  # type: ignore[no-any-return]


def loaded(content: bytes, arrays: Sequence[Host]) -> Any:
    """Unpickle a value; its arrays are views of the given memory."""
    return pickle.loads(content, buffers=[array.data for array in arrays])


def dumped(value: Any, *, owned: bool = False) -> Pickled:
    """Pickle a value to bytes and out-of-band arrays, for `loaded`.

    If they are to be `owned`, read-only arrays are copied, and can be written after that.
    """
    buffers: list[pickle.PickleBuffer] = []
    file = BytesIO()
    pickler = _owning_pickler() if owned else _pickler()
    pickler(file, protocol=5, buffer_callback=buffers.append).dump(value)
    return file.getvalue(), [np.frombuffer(buffer.raw(), np.uint8) for buffer in buffers]


def _pickler() -> type[Any]:
    try:
        found: type[Any] = import_module("cloudpickle").Pickler
    except ModuleNotFoundError:
        return pickle.Pickler
    return found


@cache
def _owning_pickler() -> type[Any]:
    base = _pickler()
    reduced = getattr(base, "reducer_override", lambda self, value: NotImplemented)

    def reducer_override(self: Any, value: Any) -> Any:
        if type(value) is np.ndarray and not value.flags.writeable:
            return value.copy(order="K").__reduce_ex__(5)
        return reduced(self, value)

    return type("OwningPickler", (base,), {"reducer_override": reducer_override})


def _sent(function: Any) -> tuple[str, Any]:
    """Return how a function is sent, and what is sent.

    A decorated function's name refers to the decorator's result; an offloaded function of the main
    module is pickled by a name that does not exist in another process.
    """
    home = getattr(function, "__module__", "") or ""
    if home == "__main__":
        options = getattr(function, "_options", None)
        if options is not None:
            return "made", (type(function), (function._function, options))
        return "", function
    found: Any = sys.modules.get(home)
    for part in getattr(function, "__qualname__", "<none>").split("."):
        found = getattr(found, part, None)
    if found is not function and getattr(found, "__wrapped__", None) is function:
        return "unwrapped", found
    return "", function


def _refusal(
    function: Callable[..., Any], sent: Any, args: tuple[Any, ...], kwargs: Any, error: Exception
) -> WorkloadError:
    """Return the error that names what cannot be sent, with a hint."""
    parts = [("its code", sent)]
    parts += [(f"argument {place}", value) for place, value in enumerate(args, 1)]
    parts += [(f"argument {name!r}", value) for name, value in kwargs.items()]
    found = ((what, why) for what, value in parts if (why := _trouble(value)))
    what, why = next(found, ("the call", str(error)))
    text = " ".join(why.split())[:200]
    by_value = what == "its code" and _pickler() is pickle.Pickler
    return WorkloadError(
        f"{name_of(function)} cannot be sent to a worker: {what} cannot be pickled ({text})",
        hint="install gpuforge[isolate], or define the function at the top of a module"
        if by_value
        else "open files, locks and connections inside the function, or pass isolate=False",
    )


def _trouble(value: Any) -> str:
    """Return why a value cannot be pickled; empty if it can."""
    try:
        dumped(value)
    except Exception as error:  # noqa: BLE001 - pickling runs code of the value's own
        return str(error) or type(error).__name__
    return ""
