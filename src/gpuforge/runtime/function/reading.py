"""The operations that a function uses, read from its code without running it.

They determine its class of operations, from which placement guesses what is not measured yet.
"""

from __future__ import annotations

import dis
from collections.abc import Callable
from functools import partial
from types import CodeType, FunctionType
from typing import Any

from gpuforge.runtime.function.entry import written

MAX_DEPTH = 4
CHAIN = "<chain>"
"""Pseudo-operation of functions that chain many arithmetic operations."""
LOOP = "<loop>"
"""Pseudo-operation of functions with a loop: recording one may take longer than running it."""
CHAIN_LENGTH = 6
_ARITHMETIC = ("BINARY_", "INPLACE_", "COMPARE_OP")


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
    instructions = list(dis.get_instructions(code))
    arithmetic = sum(step.opname.startswith(_ARITHMETIC) for step in instructions)
    loops = any(step.opname.startswith(("FOR_ITER", "JUMP_BACKWARD")) for step in instructions)
    if loops:
        found.add(LOOP)
    if arithmetic >= CHAIN_LENGTH or (loops and arithmetic):
        found.add(CHAIN)
    if any("@" in step.argrepr for step in instructions if step.opname == "BINARY_OP"):
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
