"""The signature of a call: what its time depends on, or why it is called as written.

Only arrays that are themselves arguments are recorded; lists, objects and ``self`` are not.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from gpuforge.dataclass import dataclass
from gpuforge.runtime.function.key import ANY, Place, generalize

_SIZE, _NBYTES = attrgetter("size"), attrgetter("nbytes")
NUMERIC_KINDS = "biufc"
_BY_VALUE = (int, bool, str, type(None))
_PLAIN = {int, bool, str, type(None), float, complex, list, tuple, dict}


class Signature(NamedTuple):
    """The properties of a call on which its time depends.

    Attributes
    ----------
    kind : hashable; equal for calls that differ only in the lengths of their arrays
    exact : hashable; equal for calls whose arrays have the same shapes and layouts too
    size : elements of all arrays together
    nbytes : bytes of all arrays together
    label : what it stands for, if it was not read from the arguments of one call
    """

    kind: tuple[Any, ...]
    exact: tuple[Any, ...]
    size: int
    nbytes: int
    label: str = ""

    @property
    def has_arrays(self) -> bool:
        """Whether an argument is an array; if none is, `size` and `nbytes` say nothing."""
        return any(type(kind) is tuple for kind in self.kind[1:])

    @property
    def text(self) -> str:
        """Dtypes and shapes of the arrays."""
        kinds, forms = self.kind[1:], self.exact[len(self.kind) :]
        return self.label or ", ".join(
            f"{np.dtype(kind[0])}[{','.join(map(str, form[0]))}]"
            for kind, form in zip(kinds, forms, strict=True)
            if type(kind) is tuple
        )

    def general(self, args: Sequence[Any], kwargs: Mapping[str, Any], changing: Any) -> Signature:
        """Return the signature of all calls that differ only in numbers that keep changing."""
        given, named = generalize(args, kwargs, changing)
        exact = list(self.exact)
        for place, value in enumerate((*given, *named.values()), len(self.kind)):
            if value is ANY:
                exact[place] = ANY
        return self._replace(exact=tuple(exact))


@dataclass(frozen=True)
class AsWritten:
    """A call that is not placed: why, and whether all with arguments of its types are not."""

    reason: str
    by_types: bool = False


INSIDE = AsWritten("inside a recorded call")
NO_ARRAY = AsWritten("no NumPy array among the arguments", by_types=True)


def sign(
    args: Sequence[Any], kwargs: Mapping[str, Any], creates: bool = False,
    changing: frozenset[Place] = frozenset(),
) -> Signature | AsWritten:  # fmt: skip
    """Return the signature of a call, or the reason why it is called as written.

    Parameters
    ----------
    creates
        Whether arrays that the function creates are recorded, so that it needs none as argument.
    changing
        The arguments whose whole numbers keep changing.
    """
    raising = raising_errors()
    if raising:
        return AsWritten(f"np.errstate({raising}='raise') is active")
    if warnings_raise():
        return AsWritten("warnings are turned into errors")
    kinds: list[Any] = [tuple(kwargs)]
    exact: list[Any] = []
    arrays: list[np.ndarray[Any, Any]] = []
    for value in (*args, *kwargs.values()):
        kind = type(value)
        if kind is np.ndarray:
            if value.dtype.kind not in NUMERIC_KINDS:
                return AsWritten(f"arrays of dtype {value.dtype} stay in NumPy")
            kinds.append((value.dtype.str, _shape_class(value.shape), _layout(value)))
            exact.append((value.shape, value.strides))
            arrays.append(value)
            continue
        if is_recorded_array(value):
            return INSIDE
        reason = "" if kind in _PLAIN else foreign(value)
        if reason:
            return AsWritten(reason)
        kinds.append(f"{kind.__module__}.{kind.__qualname__}")
        exact.append(value if isinstance(value, _BY_VALUE) else _length(value))
    if not arrays:
        return _without_arrays(args, kwargs, changing) if creates else NO_ARRAY
    if len(arrays) > 1 and overlapping(arrays):
        return AsWritten("arguments overlap in memory")
    size, nbytes = sum(map(_SIZE, arrays)), sum(map(_NBYTES, arrays))
    return Signature(tuple(kinds), (*kinds, *exact), size, nbytes)


def _without_arrays(
    args: Sequence[Any], kwargs: Mapping[str, Any], changing: frozenset[Place]
) -> Signature | AsWritten:
    """Return the signature of a call whose time depends on whole numbers instead of arrays.

    Each of them is a kind of its own, unless they keep changing. Cached decisions tell neither
    tuples nor NumPy's numbers apart: one for a small shape would hold for a large one.
    """
    kinds: list[Any] = [tuple(kwargs)]
    exact: list[Any] = []
    for place, value in (*enumerate(args), *kwargs.items()):
        kind = type(value)
        if not _is_constant(value) or (place in changing if kind is int else _is_size(value)):
            return NO_ARRAY
        kinds.append(f"{kind.__name__} {value}" if kind is int else kind.__name__)
        exact.append(value if kind in _BY_VALUE else _length(value))
    return Signature(tuple(kinds), (*kinds, *exact), 1, 0, ", ".join(kinds[1:]))


def _is_size(value: Any) -> bool:
    """Return whether a value is a whole number, or a tuple with one in it."""
    if type(value) is tuple:
        return any(map(_is_size, value))
    return type(value) is int or isinstance(value, np.integer)


def _needs_gradients(value: Any) -> bool:
    """Return whether a value says so, itself or by its class; `__getattr__` is not called."""
    if hasattr(type(value), "requires_grad"):
        return value.requires_grad is True
    try:
        own = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return False
    return type(own) is dict and own.get("requires_grad") is True


def foreign(value: Any) -> str:
    """Return why an argument requires the call to be made as written; empty if it does not."""
    kind = type(value)
    name = f"{kind.__module__.split('.')[0]}.{kind.__name__}"
    if isinstance(value, np.ndarray):
        return f"arrays of {name} (a subclass of numpy.ndarray) stay in NumPy"
    from gpuforge.installation import loaded

    jax = loaded("jax")
    tracer = getattr(getattr(jax, "core", None), "Tracer", None)
    if tracer is not None and isinstance(value, tracer):
        return "inside a JAX transformation"
    if _needs_gradients(value):
        return f"{name} needs gradients"
    if isinstance(value, float | complex | np.generic):
        return ""
    for mark in ("__array_namespace__", "__array__", "__dlpack__", "__array_interface__"):
        if hasattr(kind, mark):
            return f"{name} stays in its own library"
    if name.startswith("scipy.") and hasattr(value, "nnz"):
        return f"{name} (sparse) stays in its own library"
    return ""


def _length(value: Any) -> int:
    return len(value) if type(value) in (list, tuple, dict) else 0


def overlapping(values: Sequence[Any], *, twice: bool = False) -> bool:
    """Return whether two different arrays among `values` may share memory.

    With `twice`, also whether one array is there twice.
    """
    arrays = [value for value in values if type(value) is np.ndarray]
    return any(
        (twice if one is other else np.may_share_memory(one, other))
        for place, one in enumerate(arrays)
        for other in arrays[:place]
    )


def raising_errors() -> str:
    """Return the name of a floating-point error that currently raises; empty if none does."""
    modes = np.geterr().items()
    return next((name for name, mode in modes if mode in ("raise", "call")), "")


def warnings_raise() -> bool:
    """Return whether warnings of NumPy may be turned into exceptions."""
    for action, message, category, module, _ in warnings.filters:
        if issubclass(RuntimeWarning, category):
            if action == "error":
                return True
            if message is None and module is None:  # it matches all of them
                return False
    return False


def _shape_class(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape with lengths capped at 2: beyond that, length changes no dtype or error."""
    return tuple(map(min, shape, repeat(2)))


def _layout(array: np.ndarray[Any, Any]) -> str:
    flags = array.flags
    return "C" if flags.c_contiguous else "F" if flags.f_contiguous else "strided"


_CONSTANT = (float, int, complex, bool, str, bytes, type(None), slice, np.dtype)


def is_recorded_array(value: Any) -> bool:
    """Return whether a value is an array of a call that is being recorded."""
    return hasattr(type(value), "_recorder")


def can_start_again(values: Iterable[Any]) -> bool:
    """Return whether a call with these arguments can be restarted after part of it ran.

    Writes into recorded arrays reach the caller only at the end; writes into a list do so at once.
    """
    return all(type(value) is np.ndarray or _is_constant(value) for value in values)


def _is_constant(value: Any) -> bool:
    if type(value) is tuple:
        return all(map(_is_constant, value))
    return isinstance(value, (*_CONSTANT, np.generic, np.ufunc, type))
