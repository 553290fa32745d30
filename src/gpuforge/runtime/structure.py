"""Arguments and results taken apart into leaves and put together again.

A *spec* is a hashable value that holds the nesting of tuples, lists, dicts, named tuples and
dataclasses, and every static value (ints, strings, None, ...). What is left are the leaves: arrays,
floats and objects that gpuforge does not look into.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from enum import Enum
from types import BuiltinFunctionType, EllipsisType, FunctionType
from typing import Any

import numpy as np

from gpuforge.errors import WorkloadError

MAX_DEPTH = 32
_STATIC = (int, str, bytes, type(None), slice, type, np.dtype, Enum, EllipsisType)
_FUNCTIONS = (FunctionType, BuiltinFunctionType)

Spec = tuple[Any, ...]
LEAF: Spec = ("leaf",)


def flatten(value: Any, leaves: list[Any], depth: int = 0) -> Spec:
    """Append the leaves of `value` to `leaves` and return its spec.

    Raises
    ------
    WorkloadError
        If containers are nested deeper than `MAX_DEPTH`, as in one that holds itself.
    """
    kind = type(value)
    if kind is np.ndarray or kind is float or kind is complex:
        leaves.append(value)
        return LEAF
    if isinstance(value, np.generic):
        leaves.append(value)
        return LEAF
    if isinstance(value, _STATIC):
        return ("static", kind, _hashable(value))
    if isinstance(value, _FUNCTIONS):
        return ("static", kind, value)
    if depth > MAX_DEPTH:
        raise WorkloadError(
            f"arguments are nested deeper than {MAX_DEPTH} containers",
            hint="pass arrays in flat tuples, lists or dicts",
        )
    return _flatten_container(value, kind, leaves, depth)


def _flatten_container(value: Any, kind: type, leaves: list[Any], depth: int) -> Spec:
    if kind is tuple or kind is list:
        return (kind, tuple(flatten(item, leaves, depth + 1) for item in value))
    if kind is dict and all(isinstance(key, str | int) for key in value):
        inner = tuple(flatten(item, leaves, depth + 1) for item in value.values())
        return (dict, tuple(value), inner)
    if isinstance(value, tuple) and hasattr(kind, "_fields"):
        return ("named", kind, tuple(flatten(item, leaves, depth + 1) for item in value))
    if dataclasses.is_dataclass(kind):
        names = tuple(f.name for f in dataclasses.fields(kind) if hasattr(value, f.name))
        inner = tuple(flatten(getattr(value, name), leaves, depth + 1) for name in names)
        return ("data", kind, names, inner)
    leaves.append(value)
    return LEAF


def _hashable(value: Any) -> Any:
    return ("slice", value.start, value.stop, value.step) if isinstance(value, slice) else value


def rebuild(spec: Spec, leaves: Iterator[Any]) -> Any:
    """Return the value whose spec is `spec`, its leaves taken from `leaves` in order."""
    tag = spec[0]
    if tag == "leaf":
        return next(leaves)
    if tag == "static":
        return slice(*spec[2][1:]) if spec[1] is slice else spec[2]
    if tag is tuple:
        return tuple(rebuild(inner, leaves) for inner in spec[1])
    if tag is list:
        return [rebuild(inner, leaves) for inner in spec[1]]
    if tag is dict:
        return {k: rebuild(inner, leaves) for k, inner in zip(spec[1], spec[2], strict=True)}
    if tag == "named":
        return spec[1](*(rebuild(inner, leaves) for inner in spec[2]))
    made = object.__new__(spec[1])
    for name, inner in zip(spec[2], spec[3], strict=True):
        object.__setattr__(made, name, rebuild(inner, leaves))
    return made


def map_leaves(spec: Spec, leaves: list[Any], change: Callable[[Any], Any]) -> Any:
    """Return the value of `spec` with each leaf changed."""
    return rebuild(spec, (change(leaf) for leaf in leaves))
