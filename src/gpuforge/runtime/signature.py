"""The signature of a call: what its time, its dtypes and its exclusions depend on.

Raises nothing for strange arguments: a call that cannot be placed has a *reason* instead, and is
called as written.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuforge.errors import WorkloadError
from gpuforge.runtime.structure import Spec, flatten

NUMERIC_KINDS = "biufc"
opaque_types: set[type] = set()
"""Types of arguments that were looked at and found to hold nothing to place, such as ``self``."""


@dataclass(frozen=True)
class Signature:
    """One call, taken apart.

    Attributes
    ----------
    leaves : arrays, floats and opaque objects of the arguments, in order
    spec : the nesting of ``(args, kwargs)`` with its static values
    kind : hashable; equal for calls that differ in the lengths of their arrays only
    exact : hashable; equal for calls whose arrays have the same shapes and layouts too
    size : elements of all arrays together
    nbytes : bytes of all arrays together
    opaque : names of the types of leaves that gpuforge does not look into
    """

    leaves: tuple[Any, ...]
    spec: Spec
    kind: tuple[Any, ...]
    exact: tuple[Any, ...]
    size: int
    nbytes: int
    opaque: tuple[str, ...]

    def __str__(self) -> str:
        arrays = [leaf for leaf in self.leaves if type(leaf) is np.ndarray]
        return ", ".join(f"{a.dtype}[{','.join(map(str, a.shape))}]" for a in arrays)


@dataclass(frozen=True)
class AsWritten:
    """A call that is not placed, and why, in words for the summary."""

    reason: str


def sign(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Signature | AsWritten:
    """Return the signature of a call, or the reason why it is called as written."""
    leaves: list[Any] = []
    try:
        spec = flatten((tuple(args), dict(kwargs)), leaves)
        hash(spec)
    except WorkloadError as error:
        return AsWritten(str(error))
    except TypeError as error:
        return AsWritten(f"an argument cannot be told apart from others: {error}")
    kinds: list[Any] = []
    shapes: list[Any] = []
    opaque: list[str] = []
    size = nbytes = 0
    for leaf in leaves:
        if type(leaf) is np.ndarray:
            if leaf.dtype.kind not in NUMERIC_KINDS:
                return AsWritten(f"arrays of dtype {leaf.dtype} stay in NumPy")
            kinds.append((leaf.dtype.str, _shape_class(leaf.shape), _layout(leaf)))
            shapes.append((leaf.shape, leaf.strides))
            size += leaf.size
            nbytes += leaf.nbytes
            continue
        reason = foreign(leaf)
        if reason:
            return AsWritten(reason)
        kinds.append(type(leaf))
        if not isinstance(leaf, float | complex | np.generic):
            opaque.append(type(leaf).__name__)
            opaque_types.add(type(leaf))
    if not shapes:
        return AsWritten("no NumPy array among the arguments")
    kind = (spec, tuple(kinds))
    return Signature(tuple(leaves), spec, kind, (*kind, *shapes), size, nbytes, tuple(opaque))


def foreign(value: Any) -> str:
    """Return why a leaf keeps the call as written; empty when it does not."""
    kind = type(value)
    name = f"{kind.__module__.split('.')[0]}.{kind.__name__}"
    if isinstance(value, np.ndarray):
        return f"arrays of {name} (a subclass of numpy.ndarray) stay in NumPy"
    jax = sys.modules.get("jax")
    tracer = getattr(getattr(jax, "core", None), "Tracer", None)
    if tracer is not None and isinstance(value, tracer):
        return "inside a JAX transformation"
    if getattr(value, "requires_grad", False) is True:
        return f"{name} needs gradients"
    if isinstance(value, float | complex | np.generic):
        return ""
    for mark in ("__array_namespace__", "__array__", "__dlpack__", "__array_interface__"):
        if hasattr(kind, mark):
            return f"{name} stays in its own library"
    if name.startswith("scipy.") and hasattr(value, "nnz"):
        return f"{name} (sparse) stays in its own library"
    return ""


def _shape_class(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Lengths 0, 1 and more than 1 can change dtypes and errors; longer ones do not."""
    return tuple(min(length, 2) for length in shape)


def _layout(array: np.ndarray[Any, Any]) -> str:
    flags = array.flags
    return "C" if flags.c_contiguous else "F" if flags.f_contiguous else "strided"
