"""How a library computes the operations of the table, and where it differs from NumPy.

A lowering is data: operation to function. If a library differs *for certain values only*, the
operation has a guard, a function of the same inputs that is true where NumPy must settle the call.
If it differs for ordinary values, the operation is missing, or refused for those dtypes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gpuforge.dataclass import dataclass, field
from gpuforge.runtime.array.graph import Dtype, Operation
from gpuforge.runtime.array.indexing import index_of

Lowered = Callable[..., Any]
Refusal = Callable[[Dtype], str]


@dataclass(frozen=True)
class Lowering:
    """The operations that a library computes as NumPy does.

    Attributes
    ----------
    library : its name, used in reasons
    functions : operation to ``function(*inputs, *parameters)`` on arrays of the library; a Python
        number among the inputs stays one
    dtypes : NumPy type codes (``dtype.char``) that it supports
    guards : operation to ``guard(*inputs, *parameters)``, true where NumPy must settle
    result_guards : operation to ``guard(result)``, likewise
    refused : operation to a function of a dtype that returns why it is refused, or empty text
    reusing : operation to a function that may overwrite its first input
    views : operations whose result may share memory with their first input
    fence : for libraries that fuse a product and a sum with one rounding: keeps them apart
    finite : whether every value of an array of floating-point numbers is finite
    """

    library: str
    functions: Mapping[str, Lowered]
    dtypes: frozenset[str]
    guards: Mapping[str, Lowered] = field(default_factory=dict)
    result_guards: Mapping[str, Lowered] = field(default_factory=dict)
    refused: Mapping[str, Refusal] = field(default_factory=dict)
    reusing: Mapping[str, Lowered] = field(default_factory=dict)
    views: frozenset[str] = frozenset()
    fence: Lowered | None = None
    finite: Lowered = lambda array: (array - array == 0).all()

    def refusal(self, operation: Operation, dtype: Dtype, *, exact: bool = False) -> str:
        """Return why NumPy computes an operation on inputs of `dtype`; empty if the library does.

        With `exact`, operations that have a guard are refused too.
        """
        name = operation.name
        if name not in self.functions:
            return f"{self.library} does not compute {name} as NumPy does"
        if dtype.char not in self.dtypes:
            return f"{self.library} has no {dtype}"
        if exact and (name in self.guards or name in self.result_guards):
            return f"{self.library} differs from NumPy in {name} for some values"
        return self.refused[name](dtype) if name in self.refused else ""


def only(kinds: str, reason: str) -> Refusal:
    """Return a refusal for every dtype whose kind is not one of `kinds`."""
    return lambda dtype: "" if dtype.kind in kinds else reason


def only_chars(chars: str, reason: str) -> Refusal:
    """Return a refusal for every dtype whose type code is not one of `chars`."""
    return lambda dtype: "" if dtype.char in chars else reason


def never(chars: str, reason: str) -> Refusal:
    """Return a refusal for dtypes with one of the type codes `chars`."""
    return lambda dtype: reason if dtype.char in chars else ""


def unstable_argsort(sort: Lowered) -> Lowered:
    """Return ``unstable_argsort``, whose result is -1 where NumPy must settle.

    `sort` returns sorted values and their places, by a stable sort. Which of equal values comes
    first depends on NumPy's own sort, and on the processor.
    """

    def places(x: Any, axis: int, kind: str) -> Any:
        ordered, order = sort(x, axis)
        before = ordered[(slice(None),) * axis + (slice(None, -1),)]
        after = ordered[(slice(None),) * axis + (slice(1, None),)]
        equal = before == after
        if "float" in str(x.dtype):
            equal = equal | ((before != before) & (after != after))
        return order - (order + 1) * equal.any()

    return places


def has_ties(places: Any) -> Any:
    """Return whether `unstable_argsort` found equal values."""
    return (places.reshape(-1)[:1] < 0).any()


# -- what libraries with NumPy's names and indices share -------------------------------------------

SAME_NAMES = (
    "negative absolute fabs sqrt cbrt square reciprocal exp exp2 expm1 log log2 log10 log1p sin cos"
    " tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh deg2rad rad2deg radians"
    " degrees rint floor ceil trunc isfinite isinf isnan signbit logical_not invert positive sign"
    " conjugate add subtract multiply true_divide floor_divide remainder fmod power float_power"
    " maximum minimum fmax fmin arctan2 hypot logical_and logical_or logical_xor logaddexp"
    " logaddexp2 copysign nextafter heaviside gcd lcm greater greater_equal less less_equal equal"
    " not_equal bitwise_and bitwise_or bitwise_xor left_shift right_shift bitwise_count where"
    " matmul transpose reshape broadcast_to real imag"
).split()


COMPLEX_GUARDED = (
    "multiply", "true_divide", "matmul", "einsum", "prod", "square", "power", "fixed_power",
    "float_power", "reciprocal", "sqrt", "exp", "log", "sin", "cos", "absolute", "sum", "add",
    "subtract",
)  # fmt: skip
"""Operations whose complex results may have NaN and infinities in other places than NumPy's."""
NOT_COMPLEX = (
    "tan tanh sinh cosh arcsin arccos arctan arcsinh arccosh arctanh log2 log10 log1p expm1 exp2"
    " sign max min maximum minimum fmax fmin argmax argmin greater greater_equal less less_equal"
).split()
"""Operations on complex numbers in which every known library differs from NumPy."""


def reduced_by(function: Lowered) -> Lowered:
    """Adapt a reduction with NumPy's arguments to those of the table."""
    return lambda x, axes, keep: function(x, axis=axes, keepdims=keep)


def totalled(function: Lowered) -> Lowered:
    """Adapt a sum or product, which keeps the dtype: the table promotes before, as NumPy does."""
    return lambda x, axes, keep: function(x, axis=axes, keepdims=keep, dtype=x.dtype)


def numpy_like(xp: Any) -> dict[str, Lowered]:
    """Return the rows that a namespace implements with NumPy's names and arguments."""
    names = [name for name in SAME_NAMES if hasattr(xp, name)]
    functions: dict[str, Any] = {name: getattr(xp, name) for name in names}
    for name in ("max", "min", "any", "all"):
        functions[name] = reduced_by(getattr(xp, name))
    for name in ("sum", "prod"):
        functions[name] = totalled(getattr(xp, name))
    return functions | {
        "argmax": lambda x, axis: xp.argmax(x, axis=axis),
        "argmin": lambda x, axis: xp.argmin(x, axis=axis),
        "fixed_power": lambda x, n: x**n,
        "astype": lambda x, dtype: x.astype(dtype),
        "getitem": lambda x, *rest: x[index_of(rest)],
        "gather": lambda x, *rest: x[index_of(rest)],
        "diagonal": lambda x, *rest: xp.diagonal(x, *rest),
        "concatenate": lambda *given: xp.concatenate(given[:-1], axis=given[-1]),
        "einsum": lambda *given: xp.einsum(given[-1], *given[:-1]),
    }


def copied_and_written() -> dict[str, Lowered]:
    """Return the rows that read and write at an index, for libraries with mutable arrays."""
    write = lambda x, value, *rest: written(x.copy(), value, *rest)  # noqa: E731
    return {
        "setitem": write, "scatter": write, "checked_scatter": write,
        "checked_gather": lambda x, *rest: x[index_of(rest)], "select": lambda x, mask: x[mask],
    }  # fmt: skip


def written(x: Any, value: Any, *rest: Any) -> Any:
    """Write at an index into an array that may be overwritten, and return that."""
    x[index_of(rest)] = value
    return x


# -- guards, using only what arrays of all libraries support -------------------------------------


def negative_exponent(_: Any, exponent: Any) -> Any:
    """Return whether an integer has a negative exponent, for which NumPy raises."""
    return any_of(exponent < 0)


def beyond_width(value: Any, shift: Any) -> Any:
    """Return whether a shift is negative or beyond the width of its dtype."""
    given = value if hasattr(value, "dtype") else shift
    bits = 8 * int(getattr(given.dtype, "itemsize", 0) or given.dtype.size)  # MLX: size
    return any_of((shift < 0) | (shift >= bits))


def beyond_dtype(array: Any, dtype: Dtype) -> Any:
    """Return whether a conversion to integers overflows; NumPy's result is then C's."""
    if dtype.kind not in "iu" or _is_whole(array):
        return False
    limits = np.iinfo(dtype)
    high = float(limits.max) if dtype.itemsize < 8 else float(2.0 ** (limits.bits - 1) * (
        2.0 if dtype.kind == "u" else 1.0))  # fmt: skip
    inside = (array > float(limits.min) - 1) & (array < high + (1 if dtype.itemsize < 8 else 0))
    return any_of(~inside)


def out_of_range(array: Any, *rest: Any) -> Any:
    """Return whether an index array of a gather is out of range, for which NumPy raises."""
    *given, pattern = rest
    fired: Any = False
    axis = used = 0
    for part in pattern:
        if part == "array":
            places, length = given[used], int(array.shape[axis])
            found = any_of((places < -length) | (places >= length))
            fired = found if fired is False else fired | found
            used += 1
        axis += part != "new"
    return fired


def beyond_remainder(value: Any, divisor: Any) -> Any:
    """Return whether libraries may differ in a remainder or floor quotient.

    They do for integers divided by 0 and -1; for other dtypes with zeros, infinities and NaN, and
    for large quotients.
    """
    if _is_whole(value) and _is_whole(divisor):  # the minimum by -1 overflows
        if "uint" in str(getattr(divisor, "dtype", "uint")):
            return any_of(divisor == 0)
        return any_of((divisor == 0) | (divisor == -1))
    quotient = value / divisor
    most = 2.0**40 if "64" in str(quotient.dtype) else 2.0**15
    return any_of(~((quotient < most) & (quotient > -most) & (divisor - divisor == 0)))


def odd_root(value: Any, exponent: float) -> Any:
    """Return whether a square root differs from NumPy's power; libraries compute the former."""
    if exponent not in (0.5, -0.5) or is_complex(value):
        return False
    low = value == -float("inf")
    return any_of(low | (value == 0) if exponent < 0 else low)


def complex_power_overflows(base: Any, exponent: Any) -> Any:
    """Return whether a complex power of so large numbers overflows, or its exponent is infinite.

    NumPy's ``inf ** -1`` and ``1e300j ** -3`` are NaN, but 0 in libraries.
    """
    if not (is_complex(base) or is_complex(exponent)):
        return False
    most = abs(exponent)
    size = abs(base) ** most + (most - most)
    return any_of(size - size != 0)


def complex_operand_not_finite(*operands: Any) -> Any:
    """Return whether the last operand is complex and not finite.

    Divided by it, numbers are 0 in libraries, and NaN in NumPy: ``1 / (inf + nanj)``.
    """
    return any_of(operands[-1] - operands[-1] != 0) if is_complex(operands[-1]) else False


def any_of(values: Any) -> Any:
    """Return whether one of `values` is true: a Python bool, or an array of no dimensions."""
    return values if isinstance(values, bool) else values.any()


def is_complex(value: Any) -> bool:
    """Return whether an array of any library, or a Python number, is complex."""
    return "complex" in str(getattr(value, "dtype", type(value)))


def _is_whole(value: Any) -> bool:
    if isinstance(value, int):
        return True
    name = str(getattr(value, "dtype", ""))
    return "int" in name or "bool" in name


GUARDS: dict[str, Lowered] = {
    **dict.fromkeys(("floor_divide", "remainder", "fmod"), beyond_remainder),
    **dict.fromkeys(("power", "float_power"), complex_power_overflows),
    **dict.fromkeys(("true_divide", "reciprocal"), complex_operand_not_finite),
    "integer_power": negative_exponent, "fixed_power": odd_root, "left_shift": beyond_width,
    "right_shift": beyond_width, "astype": beyond_dtype, "checked_gather": out_of_range,
    "checked_scatter": lambda x, value, *rest: out_of_range(x, *rest),
}  # fmt: skip
"""The guards of a library whose kernels cannot raise."""
REUSING: dict[str, Lowered] = dict.fromkeys(("setitem", "scatter", "checked_scatter"), written)
VIEWS = frozenset("getitem transpose reshape broadcast_to real imag diagonal".split())
