"""The operations that a function uses, read from its code without running it.

They determine its class of operations, from which placement guesses what is not measured yet.
"""

from __future__ import annotations

import opcode
from collections.abc import Callable
from functools import cache, partial
from types import CodeType, FunctionType
from typing import Any

from gpuforge.runtime.function.entry import written

MAX_DEPTH = 4
CHAIN = "<chain>"
"""Pseudo-operation of functions that chain many arithmetic operations."""
LOOP = "<loop>"
"""Pseudo-operation of functions with a loop: recording one may take longer than running it."""
CHAIN_LENGTH = 6
_BINARY = opcode.opmap["BINARY_OP"]


def codes_named(*names: str) -> bytes:
    """Return the operation codes whose names begin with one of `names`."""
    return bytes(code for name, code in opcode.opmap.items() if name.startswith(names))


_ARITHMETIC = codes_named("BINARY_", "INPLACE_", "COMPARE_OP")
_LOOPS = codes_named("FOR_ITER", "JUMP_BACKWARD")


@cache
def _products() -> frozenset[int]:
    """Return the numbers by which Python knows ``@`` and ``@=``."""
    forms = (compile(f"a {sign} b", "", "exec").co_code for sign in ("@", "@="))
    return frozenset().union(*map(_binary_operators, forms))


def _binary_operators(steps: bytes) -> frozenset[int]:
    pairs = zip(steps[::2], steps[1::2], strict=True)
    return frozenset(operator for code, operator in pairs if code == _BINARY)


def read_operations(function: Callable[..., Any]) -> frozenset[str]:
    """Return the names that a function uses, in itself and in the functions of its module."""
    while isinstance(function, partial):
        function = function.func
    function = getattr(function, "__func__", function)
    if not isinstance(function, FunctionType):
        return frozenset()
    found: set[str] = set()
    _read(written(function.__code__), function.__globals__, found, 0)
    return frozenset(found)


def _read(code: CodeType, names: dict[str, Any], found: set[str], depth: int) -> None:
    new = set(code.co_names) - found
    found |= new
    # `dis` takes milliseconds for a long function, which programs of many functions would feel.
    steps = code.co_code
    codes = steps[::2]
    arithmetic = sum(map(codes.count, _ARITHMETIC))
    loops = any(one in codes for one in _LOOPS)
    if loops:
        found.add(LOOP)
    if arithmetic >= CHAIN_LENGTH or (loops and arithmetic):
        found.add(CHAIN)
    if _BINARY in codes and _binary_operators(steps) & _products():
        found.add("matmul")
    if depth == MAX_DEPTH:
        return
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            _read(inner, names, found, depth + 1)
    for name in new:
        called = names.get(name)
        if type(called) is FunctionType and called.__globals__ is names:
            _read(written(called.__code__), names, found, depth + 1)
