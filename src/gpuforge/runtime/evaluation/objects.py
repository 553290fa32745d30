"""What objects hold: items, attributes and slots, reached without code of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from inspect import ismemberdescriptor
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from gpuforge.runtime.array.array import Array

WITHOUT_RESULTS = (type, ModuleType, FunctionType, Array)
ATOMS = {int, float, bool, complex, str, bytes, type(None), *set(np.sctypeDict.values())}
HOLDING_NOTHING = {np.ndarray, ModuleType, FunctionType, type, *ATOMS}


def may_hold(kind: type) -> bool:
    """Return whether objects of a type may hold a recorded array, or are one."""
    return kind not in ATOMS and (
        bool(kind.__dictoffset__)
        or hasattr(kind, "__slots__")
        or issubclass(kind, tuple | list | dict | np.ndarray | partial)
    )


def replace_keys(holder: Any, made: Callable[[Any], Any]) -> None:
    """Replace keys of a dict, or items of a set, that are recorded: they hash as their values."""
    if ATOMS.issuperset(map(type, holder)):
        return
    keys = list(map(made, holder))
    if any(new is not old for new, old in zip(keys, holder, strict=True)):
        found = dict(zip(keys, holder.values(), strict=True)) if isinstance(holder, dict) else keys
        holder.clear()
        holder.update(found)


def can_be_made_again(value: Any) -> bool:
    """Return whether a value is a tuple, named or not, without a constructor of its own."""
    return type(value) is tuple or (isinstance(value, tuple) and hasattr(value, "_fields"))


def made_of(value: tuple[Any, ...], items: list[Any]) -> Any:
    """Return a tuple like `value`, named or not, of other items."""
    return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)


def set_partial(made: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> None:
    """Change the arguments of a partial in place: other objects may refer to it."""
    made.__setstate__((made.func, args, keywords, {}))


def slots(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the descriptor and the value of each of an object's slots, those of its bases included.

    Descriptors work without code of the object's own, such as `__getattr__`.
    """
    for kind in () if type(value) is Array else type(value).__mro__:
        for slot in list(vars(kind).values()) if "__slots__" in vars(kind) else ():
            if ismemberdescriptor(slot):
                with suppress(AttributeError):  # it is empty
                    yield slot, slot.__get__(value)


def attributes(value: Any) -> Any:
    """Return what is in an object's `__dict__`, if it has one, without code of its own."""
    try:
        return object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
