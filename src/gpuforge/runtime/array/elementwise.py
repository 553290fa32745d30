"""Record universal functions: dtypes by NumPy's own rules, Python numbers weak (NEP 50)."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuforge.runtime.array.array import Array, make, node_of, ordered
from gpuforge.runtime.array.graph import Dtype, Node, Operation
from gpuforge.runtime.array.recorder import NUMERIC_KINDS, Quick, Recorder
from gpuforge.runtime.array.rules import broadcast, fits
from gpuforge.runtime.array.table import UFUNCS, row
from gpuforge.runtime.array.unsupported import Unsupported
from gpuforge.runtime.array.views import cast

Rule = tuple[Operation, tuple[Dtype, ...], Dtype]
_NAMES = (
    "add subtract multiply true_divide floor_divide remainder fmod power float_power negative"
    " positive absolute fabs sign sqrt square cbrt reciprocal exp exp2 expm1 log log2 log10 log1p"
    " sin cos tan arcsin arccos arctan arctan2 hypot sinh cosh tanh arcsinh arccosh arctanh deg2rad"
    " rad2deg radians degrees rint floor ceil trunc isfinite isinf isnan signbit copysign"
    " nextafter greater greater_equal less less_equal equal not_equal maximum minimum fmax fmin"
    " logical_and logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor invert"
    " left_shift right_shift logaddexp logaddexp2 heaviside gcd lcm conjugate bitwise_count"
)
for _name in _NAMES.split():
    UFUNCS[getattr(np, _name)] = row(_name, getattr(np, _name), "elementwise")

INTEGER_POWER = row("integer_power", np.power, "elementwise", raises=True)
"""Integers to the power of integer arrays: NumPy raises for negative exponents."""
FIXED_POWER = row("fixed_power", np.power, "elementwise")
"""array, exponent: a Python number in the graph, since libraries are faster if they know it."""
_QUIET = frozenset(
    getattr(np, name)
    for name in "isfinite isinf isnan signbit logical_and logical_or logical_xor logical_not"
    " bitwise_and bitwise_or bitwise_xor invert greater greater_equal less less_equal equal"
    " not_equal positive conjugate copysign".split()
)
_FIXED = frozenset([0, 1, 2, 3, 4, 5, 6, 7, 8, -1, -2, -3, 0.5, 1.5, 2.5, -0.5, -1.5])
_rules: dict[tuple[Any, ...], Rule | str] = {}


def note_ufunc(recorder: Recorder, ufunc: Any, operands: tuple[Any, ...]) -> Array:
    """Record a universal function with one result and return the result.

    Raises
    ------
    Unsupported
        If the table, the backend or NumPy's own rules do not support these operands.
    """
    if ufunc not in _QUIET:
        recorder.watch_errors()
    given = [node_of(one) if type(one) is Array else _outer(recorder, one) for one in operands]
    key = (ufunc, *[one.dtype if type(one) is Node else type(one) for one in given])
    rule = _rules.get(key)
    if rule is None:
        rule = _rules[key] = _rule(ufunc, key[1:])
    if isinstance(rule, str):
        raise Unsupported(rule)
    operation, loops, result = rule
    if operation.name == "power" and type(given[1]) is not Node:
        fixed = _fixed_power(recorder, given, loops, result)
        if fixed is not None:
            return ordered(fixed, operands)
    made = _note(recorder, operation, given, loops, result)
    return ordered(made, operands) if recorder.turned else made


def note_binary(recorder: Recorder, ufunc: Any, left: Any, right: Any) -> Array:
    """Record a binary Python operator: the fast path of `note_ufunc`.

    All in one function, because calls take most of the time of recording.

    Raises
    ------
    Unsupported
        As `note_ufunc`.
    """
    one, two = left, right
    if type(left) is Array:
        storage = left._storage
        one = left._node if storage is None or left._version == storage.version else node_of(left)
    if type(right) is Array:
        storage = right._storage
        two = (
            right._node if storage is None or right._version == storage.version else node_of(right)
        )
    kind_one = one.dtype if type(one) is Node else type(one)
    kind_two = two.dtype if type(two) is Node else type(two)
    kinds = (ufunc, kind_one, kind_two)
    quick = recorder.quick.get(kinds)
    if quick is None:
        return _note_kind(recorder, kinds, (left, right))
    operation, result, number, least, most = quick
    if ufunc not in _QUIET:
        recorder.watch_errors()
    tape = recorder.tape
    length = len(tape.entries)
    if not length or length > recorder.tape_limit:
        recorder.begin()
        tape = recorder.tape
    if number is None:
        shape = one.shape if one.shape == two.shape else broadcast(one.shape, two.shape)
        first = one.index if one.tape is tape else recorder.place(one)
        second = two.index if two.tape is tape else recorder.place(two)
    elif type(one) is Node:
        if not least < two < most:
            return note_ufunc(recorder, ufunc, (left, right))
        shape = one.shape
        first = one.index if one.tape is tape else recorder.place(one)
        second = recorder.number(number(two))
    else:
        if not least < one < most:
            return note_ufunc(recorder, ufunc, (left, right))
        shape = two.shape
        first = recorder.number(number(one))
        second = two.index if two.tape is tape else recorder.place(two)
    node = recorder.append(operation, (first, second), (), shape, result)
    made = make(recorder, node, scalar=shape == ())
    return ordered(made, (left, right)) if recorder.turned else made


def _note_kind(recorder: Recorder, kinds: tuple[Any, ...], operands: tuple[Any, Any]) -> Array:
    """Record the first operation on operands of some kinds; remember what the next ones need.

    Nothing is remembered if the next ones have more to check than whether a Python number is one
    that each dtype of its kind can represent.
    """
    made = note_ufunc(recorder, kinds[0], operands)
    rule = _rules.get(kinds)
    if not isinstance(rule, tuple) or rule[0].raises or rule[0].name == "power":
        return made
    operation, loops, result = rule
    able = all(recorder.able.get((operation, loop), "?") == "" for loop in loops)
    same = [kind is loop for kind, loop in zip(kinds[1:], loops, strict=True)]
    if able and all(same):
        recorder.quick[kinds] = Quick(operation, result)
    elif able and any(same) and not isinstance(kinds[1 + same.index(False)], np.dtype):
        limits = _LIMITS.get(loops[0].char)
        if limits is not None and loops[0] is loops[1]:
            recorder.quick[kinds] = Quick(operation, result, *limits)
    return made


_LIMITS: dict[str, tuple[type, float, float]] = {
    "d": (float, -np.inf, np.inf), "f": (float, -1e38, 1e38),
    **dict.fromkeys("bBhHiIlLqQ", (int, -1, 128)),
}  # fmt: skip
"""For dtypes of an operation: what Python numbers become, and between which limits they must be."""


def _note(
    recorder: Recorder, operation: Operation, given: list[Any], loops: Any, result: Dtype
) -> Array:
    shape: Any = None
    for place, one in enumerate(given):
        dtype = loops[place]
        if type(one) is Node:
            if one.dtype is not dtype:
                given[place] = cast(recorder, one, dtype)
            shape = (
                one.shape if shape is None or shape == one.shape else broadcast(shape, one.shape)
            )
        else:
            given[place] = _number(one, dtype)
    if recorder.able.get((operation, loops[0]), "?"):
        recorder.check(operation, loops[0])
    if loops[-1] is not loops[0]:  # int64 compared with uint64
        recorder.check(operation, loops[-1])
    tape = recorder.tape
    if not len(tape.entries) or len(tape.entries) > recorder.tape_limit:
        recorder.begin()
        tape = recorder.tape
    places = tuple([
        (one.index if one.tape is tape else recorder.place(one))
        if type(one) is Node
        else recorder.number(one)
        for one in given
    ])  # fmt: skip
    node = recorder.append(operation, places, (), shape, result)
    if operation.raises:
        recorder.force()
    return make(recorder, node, scalar=shape == ())


def _fixed_power(
    recorder: Recorder, given: list[Any], loops: tuple[Dtype, ...], result: Dtype
) -> Array | None:
    if given[0].dtype.kind == "b":
        raise Unsupported("powers of bool values")  # for them, ** is not np.power
    exponent = _number(given[1], loops[1])
    if result.kind in "iub" and exponent < 0:
        raise Unsupported("integers to a negative power")
    if exponent not in _FIXED or (result.kind == "c" and exponent != 2):
        return None
    base = cast(recorder, given[0], loops[0])
    node = recorder.note(FIXED_POWER, (base,), (exponent,), base.shape, result)
    return make(recorder, node, scalar=base.shape == ())


def _rule(ufunc: Any, kinds: tuple[Any, ...]) -> Rule | str:
    """Return the row, its operand dtypes and result dtype; or why there is none."""
    operation = UFUNCS.get(ufunc)
    if operation is None:
        return f"{ufunc.__name__} is not supported"
    try:
        *loops, result = ufunc.resolve_dtypes((*kinds, None))
    except TypeError as error:
        return str(error)
    if any(dtype.kind not in NUMERIC_KINDS for dtype in (*loops, result)):
        return f"dtype {result}"
    if operation.name == "power" and result.kind in "iub" and not isinstance(kinds[1], type):
        operation = INTEGER_POWER
    return operation, tuple(loops), result


def _outer(recorder: Recorder, value: Any) -> Any:
    """Return an operand that is not a recorded array as a node or a Python number."""
    kind = type(value)
    if kind is float or kind is int or kind is complex:
        return value
    if kind is bool:
        return recorder.known(np.array(value))
    if isinstance(value, np.generic):
        return recorder.known(np.asarray(value))
    if kind is np.ndarray:
        return captured(recorder, value)
    if kind is list or kind is tuple:
        return recorder.known(np.array(value))
    raise Unsupported(f"an operand is a {kind.__name__}")


def captured(recorder: Recorder, value: np.ndarray[Any, Any]) -> Node:
    """Return a node for an array that was not an argument of the function.

    Its values are copied unless nobody can write into it, since the function may do so before they
    are used.
    """
    if value.dtype.kind not in NUMERIC_KINDS:
        raise Unsupported(f"arrays of dtype {value.dtype} stay in NumPy")
    owner = value if value.base is None else value.base
    frozen = not value.flags.writeable and not getattr(owner, "flags", value.flags).writeable
    return recorder.known(value if frozen else value.copy(order="K"))


def _number(value: Any, dtype: Dtype) -> Any:
    """Return a Python number converted to the kind that an operation computes in."""
    kind = dtype.kind
    if kind == "f":
        return float(value) if dtype.itemsize >= 8 else _rounded(float(value), dtype)
    if kind == "c":
        return complex(value) if dtype.itemsize >= 16 else _rounded(complex(value), dtype)
    if kind == "b":
        return bool(value)
    if not fits(value, dtype):
        raise Unsupported(f"{value} is beyond {dtype}")
    return value


def _rounded(value: Any, dtype: Dtype) -> Any:
    """Round a number to `dtype`: libraries may keep more digits, or a larger range."""
    if dtype.itemsize == 4 and abs(value) < 1e38:
        return value
    with np.errstate(all="ignore"):
        made = dtype.type(value).item()
    if np.isinf(made) and not np.isinf(value):
        raise Unsupported(f"{value} is beyond {dtype}, of which NumPy warns")
    return made
