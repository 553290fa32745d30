"""Write docs/operations.md from the table of operations and the lowerings of each library.

``python docs/generate_operations.py`` writes the page, ``--print`` only shows it, and names of
libraries restrict it to these. A library is described if it is installed and its lowering can be
read; no operation is run.
"""

from __future__ import annotations

import dis
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import numpy as np

import gpuforge.runtime.array.operations  # noqa: F401 - fills the table
from gpuforge.runtime.array.graph import Operation
from gpuforge.runtime.array.namespace import CONVERSIONS, CREATIONS
from gpuforge.runtime.array.table import FUNCTIONS, METHODS, OPERATIONS, UFUNCS
from gpuforge.runtime.lowering.contract import Lowering

PAGE = Path(__file__).parent / "operations.md"
LIBRARIES = ("torch", "jax", "mlx", "dpnp", "cupy", "opencl")
GROUPS = {
    "bool": "?", "whole": "bhilBHIL", "float16": "e", "float": "fd", "complex": "FD",
}  # fmt: skip
CLASSES = {
    "elementwise": "Element by element",
    "reduction": "Reductions",
    "scan": "Running sums and extremes",
    "contraction": "Products of arrays",
    "factorisation": "Linear algebra",
    "transform": "Fourier transforms",
    "sort": "Sorting and searching",
    "gather": "Taking and placing by index",
    "view": "Views and shapes",
    "creation": "New arrays",
}
WORDS = {
    "beyond_axis": "an index is out of range",
    "_beyond_square": "an input is not finite, or a double beyond 1e140",
    "_complex_not_finite_given": "a complex input is not finite",
    "_complex_not_finite": "a complex result is not finite",
    "complex_not_finite": "a complex result is not finite",
    "_convolution_differs": "an input is not finite, or the convolution is very large",
    "not_finite": "the result is not finite",
    "beyond": "a conversion to integers overflows",
    "differs": "the order in which values are placed decides",
    "_any_nan": "an input holds NaN",
    "_not_finite guard": "an input is not finite",
    "_not_finite result": "the result is not finite",
    "_result_not_finite": "the result is not finite",
    "has_ties": "some values are equal",
    "_sorted": "the values are not sorted",
}
SYNTAX = {
    "getitem": "x[1:, 0]", "setitem": "x[1:, 0] = y", "gather": "x[places]",
    "checked_gather": "x[places]", "scatter": "x[places] = y", "checked_scatter": "x[places] = y",
    "scatter_each": "x[places] = y", "scatter_add": "np.add.at",
    "checked_scatter_add": "np.add.at", "select": "x[mask]", "place_where": "x[mask] = y",
    "real": "x.real", "imag": "x.imag", "fixed_power": "x ** 2", "integer_power": "i ** j",
    "take_along": "np.take_along_axis", "checked_take_along": "np.take_along_axis",
    "unstable_argsort": "np.argsort(x)", "qr_r": "np.linalg.qr",
    "join_complex": "x.real + 1j * x.imag", "pick": "u, s, vh = ...",
}  # fmt: skip
"""What is written in NumPy where no function has the name of the operation."""
INTRODUCTION = """# Operations

What a recorded call can run on another library than NumPy. This page is written by
`docs/generate_operations.py` from the table that gpuforge itself uses; do not edit it.

Where an operation is not done by a library, NumPy does it within the call, and `explain` and the
summary of `gpuforge run` name the line. What is not on this page is always done by NumPy.

How to read the columns: the text names the dtypes that **run** on the library; *whole* stands for
signed and unsigned integers, *float* for float32 and float64. **If** names a guard: NumPy settles
the call where it fires. **NumPy** names the dtypes that stay, with the reason. Dtypes that NumPy
does not take for an operation are not left out of the list.
"""


def lowerings(names: Sequence[str]) -> dict[str, Lowering]:
    """Return the lowering of each library that is installed, by the library's module."""
    found = {}
    for name in names:
        try:
            devices = import_module(f"gpuforge.runtime.backends.{name}").open_devices()
        except Exception as error:  # noqa: BLE001 - not installed, or no device: not described
            sys.stderr.write(f"{name} is not described: {error}\n")
            continue
        first = next((d for d in devices if d.name.endswith(":cpu")), devices[0])
        found[name] = first.lowering
    return found


def page(found: dict[str, Lowering]) -> str:
    """Return the whole page."""
    return "\n".join(_lines(found)).rstrip() + "\n"


def _lines(found: dict[str, Lowering]) -> Iterator[str]:
    yield INTRODUCTION
    listed = ", ".join(f"{lowering.library} (`{name}`)" for name, lowering in found.items())
    yield f"Described here: {listed}."
    for lowering in found.values():
        absent = [np.dtype(c).name for g in GROUPS.values() for c in g if c not in lowering.dtypes]
        if absent:
            yield f"\n{lowering.library} has no {', '.join(absent)}."
    direct, composed, formulas = _names()
    for kind, title in CLASSES.items():
        rows = sorted((o for o in OPERATIONS.values() if o.kind == kind), key=lambda o: o.name)
        if not rows:
            continue
        yield f"\n## {title}\n"
        yield f"| operation | in NumPy | {' | '.join(low.library for low in found.values())} |"
        yield "|---" * (2 + len(found)) + "|"
        for operation in rows:
            known = direct.get(operation, set()) | {SYNTAX.get(operation.name, "")} - {""}
            names = ", ".join(f"`{name}`" for name in sorted(known))
            cells = [_cell(lowering, operation) for lowering in found.values()]
            yield f"| {operation.name} | {names} | {' | '.join(cells)} |"
    yield "\n## Made of several operations\n"
    yield "These are noted as the operations named; each is done as it says above.\n"
    yield "| in NumPy | operations |"
    yield "|---|---|"
    for name, operations in sorted(composed.items()):
        parts = ", ".join(sorted(o.name for o in operations))
        yield f"| `{name}` | {parts or 'none of its own'} |"
    yield "\nNoted as what NumPy's own Python code for them does:\n"
    yield f"{', '.join(f'`{name}`' for name in sorted(formulas))}."


# -- what stands for what -------------------------------------------------------------------------


_AROUND = "astype broadcast_to getitem imag real reshape setitem transpose".split()
"""Operations that others need to get at their inputs, and are not named for."""


def _names() -> tuple[dict[Operation, set[str]], dict[str, set[Operation]], set[str]]:
    """Return names in NumPy by the one operation they are, the others with all of theirs, and
    those whose code in NumPy is noted.
    """
    noted = {_public(function): recording for function, recording in FUNCTIONS.items()}
    noted |= {f"ndarray.{name}": recording for name, recording in METHODS.items()}
    noted |= {f"np.{name}": recording for name, recording in (CONVERSIONS | CREATIONS).items()}
    direct: dict[Operation, set[str]] = {}
    composed: dict[str, set[Operation]] = {}
    for ufunc, operation in UFUNCS.items():
        direct.setdefault(operation, set()).add(_public(ufunc))
    formulas = {
        n
        for n, how in noted.items()
        if "formula.<locals>" in getattr(how, "func", how).__qualname__
    }
    for name, recording in noted.items():
        if name in formulas:
            continue
        operations = set(_operations(recording, set()))
        last = name.rpartition(".")[2]
        operations = {o for o in operations if o.name not in _AROUND} or operations
        operations = {o for o in operations if o.name == last} or operations
        if len(operations) == 1:
            direct.setdefault(operations.pop(), set()).add(name)
        else:
            composed[name] = operations
    return direct, composed, formulas


def _public(function: Any) -> str:
    if isinstance(function, tuple):  # a method of a universal function
        return f"{_public(function[0])}.{function[1]}"
    name = function.__name__
    for home, module in (("np", np), ("np.linalg", np.linalg), ("np.fft", np.fft)):
        if getattr(module, name, None) is function:
            return f"{home}.{name}"
    return f"{function.__module__}.{name}".replace("numpy", "np", 1)


def _operations(function: Any, seen: set[Any]) -> Iterator[Operation]:
    """Yield the operations that a function of the table names, in itself or in what it calls."""
    function = function.func if isinstance(function, partial) else function
    if isinstance(function, Operation):
        yield function
    elif isinstance(function, np.ufunc):
        if function in UFUNCS:
            yield UFUNCS[function]
    elif callable(function) and _is_hashable(function) and function in FUNCTIONS:
        yield from _operations(FUNCTIONS[function], seen)
    elif isinstance(function, FunctionType) and function not in seen and _notes(function):
        seen.add(function)
        for value in _named(function):
            yield from _operations(value, seen)


def _is_hashable(value: Any) -> bool:
    return type(value).__hash__ is not None


def _notes(function: FunctionType) -> bool:
    home = function.__module__.removeprefix("gpuforge.runtime.array.")
    return home.split(".")[0] in ("operations", "views", "indexing")


def _named(function: FunctionType) -> Iterator[Any]:
    """Yield what the names in the code of a function stand for."""
    for cell in function.__closure__ or ():
        yield cell.cell_contents
    todo = [function.__code__]
    while todo:
        code = todo.pop()
        todo += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
        yield from _of_numpy(code)
        for name in code.co_names:
            if name != "np" and name in function.__globals__:
                yield function.__globals__[name]


def _of_numpy(code: CodeType) -> Iterator[Any]:
    """Yield what stands in code as ``np.name``."""
    steps = list(dis.get_instructions(code))
    for step, following in pairwise(steps):
        if step.opname == "LOAD_GLOBAL" and step.argval == "np":
            yield getattr(np, str(following.argval), None)


# -- what runs where ------------------------------------------------------------------------------


def _cell(lowering: Lowering, operation: Operation) -> str:
    if operation.name not in lowering.functions:
        return "NumPy"
    runs: list[str] = []
    stays: dict[str, list[str]] = {}
    for group, codes in GROUPS.items():
        chars = [char for char in codes if char in lowering.dtypes]
        reasons = {char: lowering.refusal(operation, np.dtype(char)) for char in chars}
        if not any(reasons.values()):
            runs += [group] if chars else []
        elif all(reasons.values()) and len(set(reasons.values())) == 1:
            stays.setdefault(next(iter(reasons.values())), []).append(group)
        else:
            for char, reason in reasons.items():
                dtype = np.dtype(char).name
                if not reason:
                    runs.append(dtype)
                else:
                    stays.setdefault(reason, []).append(dtype)
    parts = ["all" if not stays else ", ".join(dict.fromkeys(runs)) or "none"]
    parts += [f"**if** {words}" for words in _guards(lowering, operation)]
    parts += [f"**NumPy** {', '.join(dict.fromkeys(g))} ({r})" for r, g in stays.items()]
    return "; ".join(parts)


def _guards(lowering: Lowering, operation: Operation) -> Iterator[str]:
    seen = set()
    for kind, guards in (("guard", lowering.guards), ("result", lowering.result_guards)):
        guard = guards.get(operation.name)
        for words in _words(guard, kind) if guard is not None else ():
            if words not in seen:
                seen.add(words)
                yield words


def _words(guard: Callable[..., Any], kind: str) -> Iterator[str]:
    """Yield when a guard fires, from what it says of itself; a lambda names others."""
    while isinstance(guard, partial):
        guard = guard.func
    name = guard.__name__
    if name == "<lambda>":
        cells = [cell.cell_contents for cell in guard.__closure__ or ()]
        named = [guard.__globals__.get(value) for value in guard.__code__.co_names]
        inner = [one for one in (*cells, *named) if isinstance(one, FunctionType | partial)]
        for one in inner:
            yield from _words(one, kind)
        if not inner:
            yield "it meets certain values"
        return
    said = (inspect.getdoc(guard) or "").split("\n\n")[0].replace("\n", " ")
    found = re.match(r"Return whether (.*?)[.;:,](\s|$)", said + " ")
    own = WORDS.get(f"{name} {kind}") or WORDS.get(name)
    yield own or (found[1] if found else name.strip("_").replace("_", " "))


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "--print"]
    made = page(lowerings(words or LIBRARIES))
    if "--print" in sys.argv[1:]:
        sys.stdout.write(made)
    else:
        PAGE.write_text(made, encoding="utf-8")
