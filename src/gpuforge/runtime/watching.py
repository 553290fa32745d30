"""Operations seen as they happen, for libraries that offer no hook: watched arrays of a library.

A watched array stands for one of the library's. Every operator, method and function of its
namespace is passed on, and told to the watch with its arguments and result.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np

from gpuforge.runtime.backends import Array, KeepsNothing, NotExact, Program, Uses

Deviation = Callable[[str, tuple[Any, ...]], str]
"""(operation, arguments) -> why it may differ from NumPy's; empty when it does not"""
DtypeOf = Callable[[Any], "np.dtype[Any] | None"]
"""NumPy's dtype of a library's array; None of anything else"""

_BINARY = (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"),
    *("and", "or", "xor", "lshift", "rshift"),
)
OPERATORS = (
    *(f"__{name}__" for name in _BINARY),
    *(f"__r{name}__" for name in _BINARY),
    *(f"__i{name}__" for name in _BINARY),
    *("__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__"),
    *("__neg__", "__pos__", "__abs__", "__invert__", "__getitem__", "__setitem__", "__len__"),
    *("__bool__", "__int__", "__float__", "__complex__", "__index__"),
)
WRITES = (*(f"__i{name}__" for name in _BINARY), "__setitem__")
"""Operators that write into an array."""
POWERS = ("pow", "power", "__pow__", "__rpow__", "__ipow__")
SHIFTS = (
    *("__lshift__", "__rshift__", "__rlshift__", "__rrshift__", "__ilshift__", "__irshift__"),
    *("left_shift", "right_shift", "bitwise_left_shift", "bitwise_right_shift"),
)
REMAINDERS = ("floor_divide", "remainder", "divmod", "__floordiv__", "__rfloordiv__", "__mod__")
UNSTABLE = ("argsort", "argpartition", "partition", "lexsort")
ROOT = "NumPy takes x ** 0.5 as a square root, whose results for -0 and -inf are others"
COMPLEX = {
    *("multiply", "divide", "div", "__mul__", "__rmul__", "__truediv__", "__rtruediv__", *POWERS),
    *("integer_pow", "square", "sqrt", "exp", "expm1", "log", "log1p", "log2", "sin", "cos", "tan"),
    *("sinh", "cosh", "tanh", "asin", "acos", "atan", "asinh", "acosh", "atanh", "sgn", "sign"),
    *("prod", "cumprod", "cumulative_prod", "max", "min", "maximum", "minimum", "reduce_max"),
    *("reduce_min", "lt", "le", "gt", "ge", "__lt__", "__le__", "__gt__", "__ge__", "less"),
    *("less_equal", "greater", "greater_equal", "sort", "median", "round", "isclose", "allclose"),
    *("outer", "kron", "cross", "diff", "mean", "var", "std", "reciprocal", "abs", "clip", "clamp"),
}
NAN_OF_COMPLEX = "complex numbers get other NaN and infinities than NumPy's"
"""of the operations in `COMPLEX`, where an operand is complex"""
TIES = "equal elements come in another order than NumPy's, which leaves it open"
_COMPARISONS = {
    *("__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__", "lt", "le", "gt", "ge", "eq"),
    *("ne", "less", "less_equal", "greater", "greater_equal", "equal", "not_equal"),
}
_state = threading.local()


class Watched:
    """Stands for `array`; subclasses belong to one namespace each."""

    namespace: Any

    def __init__(self, array: Any) -> None:
        self.array = array

    __hash__ = None  # type: ignore[assignment]

    def __array_namespace__(self, api_version: str | None = None) -> Any:
        return self.namespace

    def __getattr__(self, name: str) -> Any:
        return _told(name, getattr(self.array, name), type(self), (self.array,))


class _Namespace:
    """Stands for a module of a library; its functions tell the watch what they did."""

    def __init__(self, module: Any, kind: type[Watched]) -> None:
        self._module, self._kind = module, kind

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._module, name)
        if isinstance(value, ModuleType):
            return _Namespace(value, self._kind)
        return value if isinstance(value, type) else _told(name, value, self._kind, ())


@dataclass(frozen=True)
class Library:
    """What watching needs to know of a library.

    Attributes
    ----------
    name : in messages
    namespace : of its arrays
    is_array : whether a value is one of its arrays
    dtype_of : NumPy's dtype of one of its arrays, None for anything else
    deviation : what the library declares of an operation; asked before it runs
    """

    name: str
    namespace: Any
    is_array: Callable[[Any], bool]
    dtype_of: DtypeOf
    deviation: Deviation


def watch(library: Library, function: Program, arguments: tuple[Any, ...]) -> Uses:
    """Run `function` on watched `arguments` and return which operations it used.

    It is stopped before the first operation that is declared not exact: some of them, like an
    integer division in MLX, end the process.
    """
    uses = Uses()
    before = getattr(_state, "watch", None)
    _state.watch = (library, uses)
    kind = _watched_type(library.namespace)
    try:
        function(*(kind(v) if library.is_array(v) else v for v in arguments))
    except NotExact as reason:
        uses.not_exact = str(reason)
    finally:
        _state.watch = before
    return uses


@cache
def _watched_type(module: Any) -> type[Watched]:
    class WatchedArray(Watched):
        pass

    kind: type[Watched] = WatchedArray
    for name in OPERATORS:
        setattr(kind, name, _operator(name))
    kind.namespace = _Namespace(module, kind)
    return kind


def _operator(name: str) -> Any:
    def operator(self: Watched, *others: Any) -> Any:
        method = getattr(self.array, name, None)
        if method is None and name.startswith("__i"):  # a library whose arrays are immutable
            method = getattr(self.array, f"__{name[3:]}", None)
        if method is None:
            return NotImplemented
        return _told(name, method, type(self), (self.array,))(*others)

    return operator


def _told(name: str, value: Any, kind: type[Watched], owner: tuple[Any, ...]) -> Any:
    """Return a value of the library as the watched function sees it."""
    if not callable(value) or isinstance(value, type) or not hasattr(value, "__name__"):
        return _wrap(value, kind)

    def told(*given: Any, **named: Any) -> Any:
        plain, keywords = _unwrap(given), _unwrap(named)
        values = (*owner, *plain, *keywords.values())
        steady = keywords.get("stable") or keywords.get("kind") == "stable"
        _before(f"stable {name}" if steady else name, values)
        result = value(*plain, **keywords)
        _after(name, values, result)
        return _wrap(result, kind)

    return told


def _before(name: str, given: tuple[Any, ...]) -> None:
    library, uses = _state.watch
    uses.operations.add(name)
    reason = library.deviation(name, given) or beyond(library.name, name, given, library.dtype_of)
    if name in UNSTABLE:
        reason = reason or f"{library.name}'s {name}: {TIES}"
    if name in COMPLEX and any(getattr(library.dtype_of(v), "kind", "") == "c" for v in given):
        reason = reason or NAN_OF_COMPLEX
    if name in POWERS and any(type(v) is float and v == 0.5 for v in given):
        reason = reason or ROOT
    if reason:
        raise NotExact(reason)


def _after(name: str, given: tuple[Any, ...], result: Any) -> None:
    library, _ = _state.watch
    reason = promotion(library.name, name, given, result, library.dtype_of)
    if reason:
        raise NotExact(reason)


def _unwrap(value: Any) -> Any:
    if isinstance(value, Watched):
        return value.array
    if type(value) in (tuple, list):
        return type(value)(_unwrap(item) for item in value)
    if type(value) is dict:
        return {key: _unwrap(item) for key, item in value.items()}
    if type(value) is slice:
        return slice(*(_unwrap(v) for v in (value.start, value.stop, value.step)))
    return value


def _wrap(value: Any, kind: type[Watched]) -> Any:
    if _state.watch[0].is_array(value):
        return kind(value)
    if isinstance(value, tuple | list):
        items = [_wrap(item, kind) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


_DIVISIONS = {"__truediv__", "__rtruediv__", "__itruediv__", "divide"}
_CONVERSIONS = {"astype", "asarray", "to", "type", "full_like", "zeros_like", "ones_like"}
_ARITHMETIC = _DIVISIONS | {
    *("sub", "mul", "div", "true_divide", "__rdiv__", "cat", "concatenate"),
    *(f"__{side}{name}__" for name in ("add", "sub", "mul", "pow", "matmul") for side in "ri"),
    *("__add__", "__sub__", "__mul__", "__pow__", "__matmul__", "matmul", "maximum", "minimum"),
    *("add", "subtract", "multiply", "pow", "power", "where", "concat", "stack", "hypot", "atan2"),
}
_SUMS = {"sum", "prod", "cumsum", "cumprod", "cumulative_sum", "cumulative_prod"}
_PLACES = {"argmax", "argmin", "argsort", "searchsorted", "count_nonzero"}


def promotion(
    library: str, name: str, given: tuple[Any, ...], result: Any, dtype_of: DtypeOf
) -> str:
    """Return how the dtype of a step's result differs from NumPy's; empty if it does not.

    A narrower step in the middle of a function need not show in the dtype of the end.
    """
    found = dtype_of(result)
    inputs = [d for value in _flat(given) if (d := dtype_of(value)) is not None]
    if found is None or not inputs or found.kind == "b" or name in _CONVERSIONS:
        return ""
    whole = all(d.kind in "iub" for d in inputs)
    wanted: Any = found
    if (found.kind in "fc" and whole and found.itemsize < 8) or (name in _DIVISIONS and whole):
        wanted = np.dtype(float)
    elif name in _PLACES:
        wanted = np.dtype(np.int64)
    elif name in _SUMS and whole and found.kind in "iu":
        wanted = np.dtype(np.uint64 if inputs[0].kind == "u" else np.int64)
    elif name in _ARITHMETIC and (not whole or found.kind in "iu"):
        scalars = [v for v in given if type(v) in (int, float, complex)]
        shown = inputs[1:] if name == "where" else inputs
        wanted = np.result_type(*shown, *scalars) if shown else found
    return "" if wanted == found else f"{library}'s {name} gives {found} where NumPy gives {wanted}"


def _flat(values: tuple[Any, ...]) -> list[Any]:
    flat: list[Any] = []
    for value in values:
        flat += _flat(tuple(value)) if isinstance(value, tuple | list) else [value]
    return flat


def beyond(library: str, name: str, given: tuple[Any, ...], dtype_of: DtypeOf) -> str:
    """Return how a comparison with a number beyond an array's dtype differs; empty if none is."""
    if name not in _COMPARISONS:
        return ""
    dtypes = [d for value in given if (d := dtype_of(value)) is not None and d.kind in "iu"]
    limits = [np.iinfo(d) for d in dtypes]
    for number in (v for v in given if type(v) is int):
        if any(not limit.min <= number <= limit.max for limit in limits):
            return f"{library} wraps {number} to {dtypes[0]} before it compares, NumPy does not"
    return ""


def integer_deviations(library: str) -> dict[str, str]:
    """Return what the powers and shifts of whole numbers of most libraries do not do as NumPy."""
    return {
        **dict.fromkeys(
            POWERS, f"{library}'s integer powers take negative exponents, NumPy's raise"
        ),
        **dict.fromkeys(SHIFTS, f"{library}'s shifts beyond the width are not NumPy's"),
    }


def whole(name: str, given: tuple[Any, ...], is_whole: Callable[[Any], bool]) -> bool:
    """Return whether all operands are whole numbers whose values are not known to be harmless.

    A small constant on the right is harmless: ``x ** 2``, ``x >> 1``; not on the left: ``2 ** x``.
    """
    last, swapped = given[-1], name.startswith("__r") and name != "__rshift__"
    if isinstance(last, int) and 0 <= last < 8 and not swapped:
        return False
    return all(isinstance(v, int) or (hasattr(v, "dtype") and is_whole(v)) for v in given[:2])


def is_index_array(index: Any) -> bool:
    """Return whether `index` holds an array of places; a mask is none."""
    parts = index if isinstance(index, tuple) else (index,)
    return any(
        isinstance(part, list) or (hasattr(part, "dtype") and "bool" not in str(part.dtype))
        for part in parts
    )


def unchecked_index(index: Any, shape: tuple[int, ...]) -> bool:
    """Return whether `index` may be out of range, on this shape or on one of the same kind.

    Kinds of call tell lengths 0, 1 and more apart: of a longer axis only the first and the last
    two places are sure to be there.
    """
    parts = index if isinstance(index, tuple) else (index,)
    axes = [part for part in parts if part is not None]
    if Ellipsis in [part for part in axes if part is Ellipsis]:
        place = next(i for i, part in enumerate(axes) if part is Ellipsis)
        hidden = [slice(None)] * max(0, len(shape) - len(axes) + 1)
        axes[place : place + 1] = hidden
    for part, length in zip(axes, shape, strict=False):
        if isinstance(part, slice):
            continue
        near = 2 if length >= 2 else length
        if not isinstance(part, int) or isinstance(part, bool) or not -near <= part < near:
            return True
    return len(axes) > len(shape)


class EagerBackend(KeepsNothing):
    """What libraries share whose functions run at once, on arrays that were copied to a device.

    A subclass says how to move arrays, and names itself in `name`, `version`, `library`.
    """

    name: str
    version: str
    library: Library
    compiles = False
    writes = False
    deterministic = True
    dies_when_short = False
    floor_seconds = 0.0
    compile_seconds = 0.0

    def namespace(self) -> Any:
        return self.library.namespace

    def put(self, array: Array, *, share: bool) -> Any:
        """Return a copy of `array` on the device.

        Raises
        ------
        NotExact
            If the library would change its dtype, as those without float64 do.
        """
        if not array.dtype.isnative:
            array = array.astype(array.dtype.newbyteorder("="))
        made = self._to_device(array)
        if self.library.dtype_of(made) != array.dtype:
            raise NotExact(f"{self.library.name} has no {array.dtype} here")
        return made

    def _to_device(self, array: Array) -> Any:
        raise TypeError(f"{type(self).__name__} does not say how arrays move")

    def is_array(self, value: Any) -> bool:
        return self.library.is_array(value)

    def program(self, function: Program) -> Program:
        return function

    def scope(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def watch(self, function: Program, arguments: tuple[Any, ...]) -> Uses:
        return watch(self.library, function, arguments)

    def written(self, array: Any) -> bool:
        """Return False: an operation that could write is declared, or raises."""
        return False
