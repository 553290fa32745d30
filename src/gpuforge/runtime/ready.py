"""Ready-made offloaded functions: ``gf.matmul``, ``gf.xor``, ``gf.elementwise``."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import lru_cache
from string import ascii_lowercase
from typing import Any

import numpy as np

from gpuforge.errors import InvalidSettings, UnknownName, WorkloadError
from gpuforge.runtime.offload import Offloaded, offload

KEPT = 256
"""Size of the cache of offloaded functions and expressions (least recently used)."""
CONSTANTS = {"pi": np.pi, "inf": np.inf, "nan": np.nan}
ALLOWED = (ast.Expression, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Call, ast.Name, ast.Constant,
           ast.operator, ast.unaryop, ast.cmpop, ast.expr_context)  # fmt: skip
REFUSED = (ast.Is, ast.IsNot, ast.In, ast.NotIn, ast.Not, ast.MatMult)


@offload
def matmul(a: Any, b: Any) -> Any:
    """Return the matrix product of `a` and `b`, as `numpy.matmul` does.

    Parameters
    ----------
    a, b
        Arrays of any dtype that NumPy multiplies. ``(n,)`` or ``(..., m, n)``, and ``(n,)`` or
        ``(..., n, p)``: leading axes are stacks of matrices and broadcast, so that ten products of
        256 × 256 are one call on arrays of shape ``(10, 256, 256)``.

    Raises
    ------
    ValueError
        If the shapes do not match; and whatever else `numpy.matmul` raises.
    """
    return np.matmul(a, b)


@offload
def xor(a: Any, b: Any) -> Any:
    """Return the bitwise exclusive or of `a` and `b`, as `numpy.bitwise_xor` does.

    Parameters
    ----------
    a, b
        Arrays of integers or booleans, or numbers, that broadcast.

    Raises
    ------
    TypeError
        If a dtype is neither integer nor bool; and whatever else `numpy.bitwise_xor` raises.
    """
    return np.bitwise_xor(a, b)


def elementwise(operation: str | Callable[..., Any], *arrays: Any) -> Any:
    """Return `operation` applied elementwise to arrays that broadcast, as in NumPy.

    ::

        gf.elementwise("sqrt(a * a + b * b)", x, y)
        gf.elementwise(lambda x, y: np.where(x > y, x - y, 0), x, y)

    Parameters
    ----------
    operation
        An expression in which the arrays are named ``a``, ``b``, ``c``, ... in order, with
        operators, numbers, ``pi``, ``inf``, ``nan``, ``where`` and the names of NumPy's ufuncs
        (``sqrt``, ``maximum``, ...). Or a function of as many arrays; pass the same function object
        each time, because learned timings belong to it.
    *arrays
        Arrays and numbers that broadcast.

    Returns
    -------
    numpy.ndarray or scalar
        What NumPy returns for the same expression.

    Raises
    ------
    WorkloadError
        If the expression is invalid or does not use exactly the given arrays, or the result does
        not have their broadcast shape, so that the operation is not elementwise.
    UnknownName
        If the expression contains another name.
    InvalidSettings
        If `operation` is neither text nor a function.
    """
    if isinstance(operation, str):
        called = _offloaded_expression(operation, len(arrays))
    elif callable(operation):
        called = _offloaded_function(operation)
    else:
        raise InvalidSettings(f"{operation!r} is neither an expression nor a function")
    result = called(*arrays)
    wanted = np.broadcast_shapes(*map(np.shape, arrays))
    if np.shape(result) != wanted:
        raise WorkloadError(
            f"the result has shape {np.shape(result)}, the arrays broadcast to {wanted}: this is "
            "not an operation on each element",
            hint="offload the function itself: gf.offload(function)(*arrays)",
        )
    return result


@lru_cache(maxsize=KEPT)
def _offloaded_function(function: Callable[..., Any]) -> Callable[..., Any]:
    return function if isinstance(function, Offloaded) else offload(function)


@lru_cache(maxsize=KEPT)
def _offloaded_expression(text: str, count: int) -> Callable[..., Any]:
    """Return the function of `count` arrays that an expression stands for."""
    arrays = list(ascii_lowercase[:count])
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except SyntaxError as error:
        raise WorkloadError(f"{text!r} is not an expression: {error.msg}") from error
    ufuncs = {name: one for name, one in vars(np).items() if isinstance(one, np.ufunc)}
    known: dict[str, Any] = CONSTANTS | ufuncs | {"where": np.where}
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    for node in ast.walk(tree):
        _check(text, node)
    for name in sorted(used - set(arrays) - set(known)):
        raise UnknownName(
            f"unknown name {name!r} in the expression {text!r}",
            hint=f"the arrays are called {', '.join(arrays)}; others are NumPy's ufuncs and where",
        )
    if missing := sorted(set(arrays) - used):
        raise WorkloadError(
            f"the expression {text!r} does not use {', '.join(missing)}: it must use all {count} "
            f"arrays, which are called {', '.join(arrays)}",
            hint=f"for example: gpuforge.elementwise({' + '.join(arrays)!r}, ...)",
        )
    source = f"lambda {', '.join(arrays)}: {ast.unparse(tree)}"
    function = eval(source, known)  # it has allowed names and operators only
    function.__qualname__ = f"elementwise({text!r})"
    return offload(function)


def _check(text: str, node: ast.AST) -> None:
    """Raise unless a part of an expression is allowed."""
    wrong = not isinstance(node, ALLOWED) or isinstance(node, REFUSED)
    if isinstance(node, ast.Call):
        wrong = bool(node.keywords) or not isinstance(node.func, ast.Name)
    if isinstance(node, ast.Compare):
        wrong = len(node.ops) > 1
    if isinstance(node, ast.Constant):
        wrong = not isinstance(node.value, int | float | complex)
    if wrong:
        part = ast.unparse(node) if isinstance(node, ast.expr) else type(node).__name__
        raise WorkloadError(
            f"{part} in the expression {text!r} is not an operation on each element",
            hint="use operators, numbers, the names of NumPy's ufuncs, & | ~ and where(...)",
        )
