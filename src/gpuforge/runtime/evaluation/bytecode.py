"""What the code of a function may do, which is read before it is recorded."""

from __future__ import annotations

import dis
from collections.abc import Callable
from contextlib import suppress
from itertools import islice, pairwise
from types import FunctionType
from typing import Any

import numpy as np

from gpuforge.runtime.evaluation.objects import HOLDING_NOTHING, WITHOUT_RESULTS, attributes
from gpuforge.runtime.function.entry import written

MAX_HELD = 64
"""Values that are inspected in one container or object."""
_known: dict[Any, bool] = {}
MAX_DEPTH = 4
"""Depth of nested calls whose code is read."""


def has_other_alias(function: Any, values: tuple[Any, ...]) -> bool:
    """Return whether a function that writes can reach an argument's memory by another name."""
    outside: list[Any] = []
    if type(function) is FunctionType:
        outside += map(function.__globals__.get, written(function.__code__).co_names)
        for cell in function.__closure__ or ():
            with suppress(ValueError):  # an empty one
                outside.append(cell.cell_contents)
    reached = [one for one in outside if type(one) is np.ndarray]
    for value in (*values, *outside):
        if type(value) in HOLDING_NOTHING:
            continue
        held: Any = value if isinstance(value, list | tuple | dict) else ()
        if not held and not isinstance(value, WITHOUT_RESULTS):
            held = attributes(value)
        items = held.values() if isinstance(held, dict) else held
        reached += [one for one in islice(items, MAX_HELD) if type(one) is np.ndarray]
    if not reached:
        return False
    given = [value for value in values if type(value) is np.ndarray]
    if not any(np.may_share_memory(one, array) for one in reached for array in given):
        return False
    return does(function, values, _may_write)


def does(function: Any, values: tuple[Any, ...], has: Callable[[Any], bool]) -> bool:
    """Return whether the code of a function, or of one that it may call, may have a property."""
    kinds = tuple({type(value) for value in values})
    key = (getattr(function, "__code__", None), kinds, has)
    if key in _known:
        return _known[key]
    own = [vars(base) for kind in kinds for base in kind.__mro__[:-1]]
    seen: set[FunctionType] = set()
    level, depth = {function}, 0
    found = type(function) is not FunctionType
    while level and not found and depth <= MAX_DEPTH:
        found = any(has(written(one.__code__)) for one in level)
        named = [
            names.get(name)
            for one in level
            for names in (*own, one.__globals__)
            for name in written(one.__code__).co_names
        ]
        bases = [base for one in named if type(one) is type for base in one.__mro__]
        named += [vars(base).get("__init__") for base in bases]
        seen, depth = seen | level, depth + 1
        level = {one for one in map(_wrapped, named) if _is_program(one)} - seen
    _known[key] = found
    return found


def _is_program(value: Any) -> bool:
    """Return whether a value is a function, and not one of ours, which know recorded arrays."""
    module = value.__module__ if type(value) is FunctionType else "gpuforge.runtime."
    return not str(module).startswith("gpuforge.runtime.")


def _wrapped(value: Any) -> Any:
    """Return what a decorated function wraps, without code of the value's own: it may import."""
    if type(value) in (staticmethod, classmethod):
        return value.__func__
    if getattr(type(value), "_is_offloaded", False):
        return value._function
    return attributes(value).get("__wrapped__", value)


def _may_write(code: Any) -> bool:
    """Return whether code assigns to items or in place."""
    return any(
        step.opname in ("STORE_SUBSCR", "STORE_SLICE")
        or (step.opname == "BINARY_OP" and "=" in step.argrepr)
        for step in dis.get_instructions(code)
    )


def compares_types(code: Any) -> bool:
    """Return whether code compares a ``type(x)`` with NumPy's: a recorded array has its own."""
    steps = list(dis.get_instructions(code)) if "type" in code.co_names else []
    nearby = [steps[max(0, n - 3) : n + 12] for n, one in enumerate(steps) if one.argval == "type"]
    return any(map(_compares, nearby))


def _compares(near: list[dis.Instruction]) -> bool:
    """Return whether the steps around a ``type(x)`` compare it, or look it up in a table."""
    names = [str(one.argval) for one in near]
    at = names.index("type")
    if not {"get", "issubclass"}.isdisjoint(names[:at]):
        return True
    if {"IS_OP", "COMPARE_OP", "CONTAINS_OP"}.isdisjoint(one.opname for one in near):
        used = [two for one, two in pairwise(near[at:]) if one.opname.startswith("CALL")][:1]
        return any("SUBSCR" in one.opname or one.argrepr == "[]" for one in used)
    return names.count("type") > 1 or any(isinstance(vars(np).get(name), type) for name in names)
