"""What a function uses besides its arguments, read from its code without running it.

An offloaded function is taken to depend on its arguments alone. What it captures decides where it
can go: a NumPy array or a plain ``np.`` call keeps it on NumPy; a captured value that may change
keeps it from backends that compile once and run often; a statement that may write into an array
makes backends work on copies.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

MAX_DEPTH = 8
CHAIN = "<chain>"
"""Stands among the operations of a function that does many of them, one after the other."""
CHAIN_LENGTH = 6
_ARRAY_LIBRARIES = {
    *("numpy", "scipy", "torch", "jax", "jaxlib", "cupy", "mlx", "dpnp"),
    *("sklearn", "skimage", "pandas", "xarray", "numba", "cv2"),
}
_WRITING_METHODS = {"sort", "fill", "put", "resize", "partition", "itemset", "setfield", "byteswap"}
_FROZEN = (int, float, complex, str, bytes, bool, type(None), type, np.dtype, np.generic, Enum)
_ATTRIBUTE = ("LOAD_ATTR", "LOAD_METHOD")
_MISSING = object()


@dataclass
class Captures:
    """What was found in a function and in the plain Python functions that it calls.

    Attributes
    ----------
    library_calls : calls into array libraries by their own name, such as ``np.exp``
    arrays : names of captured arrays
    changeable : names of captured values that may change between calls
    guards : where a captured constant is looked up, and what it was
    may_write : whether some statement may write into an array
    operations : attribute names used, which tell the class of operations
    unreadable : why the code cannot be read; empty when it can
    """

    library_calls: list[str] = field(default_factory=list)
    arrays: list[str] = field(default_factory=list)
    changeable: list[str] = field(default_factory=list)
    guards: list[tuple[Callable[[], Any], Any]] = field(default_factory=list)
    may_write: bool = False
    operations: set[str] = field(default_factory=set)
    unreadable: str = ""

    @property
    def stays_on_numpy(self) -> str:
        """Why the function can run on NumPy only; empty when it can go elsewhere."""
        if self.unreadable:
            return self.unreadable
        if self.arrays:
            return f"captured array {self.arrays[0]} keeps this on NumPy: pass it as an argument"
        if self.library_calls:
            call = self.library_calls[0]
            return f"{call} is called by name: take it from gf.namespace(x) instead"
        return ""

    def changed(self) -> bool:
        """Return whether a captured constant is another object now."""
        return any(look() is not value for look, value in self.guards)


def read_captures(function: Callable[..., Any]) -> Captures:
    """Return what `function` captures, following the Python functions it names."""
    found = Captures()
    _Reader(found).read(function, 0)
    return found


class _Reader:
    """Walks the code of a function and of those it reaches, once each."""

    def __init__(self, found: Captures) -> None:
        self.found = found
        self.seen: set[int] = set()

    def read(self, function: Any, depth: int) -> None:
        while isinstance(function, partial | MethodType) or hasattr(function, "__wrapped__"):
            if isinstance(function, partial):
                for name, value in enumerate((*function.args, *function.keywords.values())):
                    self.captured(f"partial[{name}]", value, partial(_same, value), depth)
                function = function.func
            elif isinstance(function, MethodType):
                self.found.changeable.append("self")
                self.found.may_write = True
                function = function.__func__
            else:
                function = function.__wrapped__
        code = getattr(function, "__code__", None)
        if not isinstance(code, CodeType):
            self.found.unreadable = f"{function!r} has no Python code to read"
            return
        if id(code) not in self.seen and depth <= MAX_DEPTH:
            self.seen.add(id(code))
            self.code(code, function, depth)

    def code(self, code: CodeType, function: FunctionType, depth: int) -> None:
        cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=False))
        self.defaults(function, depth)
        for inner in _nested(code):
            instructions = [i for i in dis.get_instructions(inner) if i.opname != "CACHE"]
            namespaces = _namespace_variables(instructions)
            if _is_chain(instructions):
                self.found.operations.add(CHAIN)
            before = None
            for instruction, following in zip(instructions, [*instructions[1:], None], strict=True):
                if not (before in namespaces and instruction.opname in _ATTRIBUTE):
                    self.effect(instruction)
                self.lookup(instruction, following, function, cells, depth)
                before = str(instruction.argval)
            if any(isinstance(c, tuple) and "out" in c for c in inner.co_consts):
                self.found.may_write = True

    def defaults(self, function: FunctionType, depth: int) -> None:
        values = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
        for value in values:
            if isinstance(value, np.ndarray):
                self.captured("of a default value", value, partial(_same, value), depth)

    def effect(self, instruction: dis.Instruction) -> None:
        """Note what an instruction may write to."""
        name, argument = instruction.opname, str(instruction.argval)
        in_place = argument.endswith("_") and not argument.startswith("_")
        self.found.may_write |= (
            name in ("STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE")
            or (name == "BINARY_OP" and instruction.argrepr.endswith("="))
            or (name in _ATTRIBUTE and (in_place or argument in _WRITING_METHODS))
        )
        if name in ("STORE_GLOBAL", "STORE_ATTR"):
            self.found.changeable.append(argument)

    def lookup(
        self,
        instruction: dis.Instruction,
        following: dis.Instruction | None,
        function: FunctionType,
        cells: dict[str, CellType],
        depth: int,
    ) -> None:
        """Follow a name that is not a local variable, and note the attributes used."""
        name, argument = instruction.opname, str(instruction.argval)
        if name in _ATTRIBUTE:
            self.found.operations.add(argument)
        elif name == "BINARY_OP" and instruction.argrepr.startswith("@"):
            self.found.operations.add("matmul")
        elif name in ("LOAD_GLOBAL", "LOAD_NAME"):
            self.reference(argument, partial(_global, function, argument), following, depth)
        elif name in ("LOAD_DEREF", "LOAD_CLASSDEREF") and argument in cells:
            self.reference(argument, partial(_content, cells[argument]), following, depth)

    def reference(
        self, name: str, look: Callable[[], Any], following: dis.Instruction | None, depth: int
    ) -> None:
        value = look()
        if value is _MISSING:
            return
        if isinstance(value, ModuleType):
            attribute = following.argval if following and "LOAD_" in following.opname else ""
            self.module(name, value, str(attribute))
        else:
            self.captured(name, value, look, depth)

    def module(self, name: str, module: ModuleType, attribute: str) -> None:
        target = getattr(module, attribute, None)
        library = module.__name__.split(".")[0] in _ARRAY_LIBRARIES
        computes = callable(target) and not isinstance(target, type)
        if library and (computes or isinstance(target, ModuleType)):
            self.found.library_calls.append(f"{name}.{attribute}")

    def captured(self, name: str, value: Any, look: Callable[[], Any], depth: int) -> None:
        if _is_array(value):
            self.found.arrays.append(name)
        elif _belongs_to_library(value):
            self.found.library_calls.append(name)
        elif isinstance(value, FunctionType | MethodType | partial) or hasattr(
            value, "__wrapped__"
        ):
            self.found.guards.append((look, value))
            if not _is_own(value):
                self.read(value, depth + 1)
        elif isinstance(value, BuiltinFunctionType) or _is_frozen(value):
            self.found.guards.append((look, value))
        else:
            self.found.changeable.append(name)
            self.found.may_write = True


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)


def _global(function: FunctionType, name: str) -> Any:
    value = function.__globals__.get(name, _MISSING)
    if value is _MISSING:
        builtins = function.__globals__.get("__builtins__", {})
        table = builtins if isinstance(builtins, dict) else vars(builtins)
        return table.get(name, _MISSING)
    return value


def _is_chain(instructions: list[dis.Instruction]) -> bool:
    """Return whether much arithmetic is done, in a row or in a loop: a compiler can fuse it."""
    arithmetic = sum(i.opname == "BINARY_OP" for i in instructions)
    loops = any(i.opname.startswith("JUMP_BACKWARD") for i in instructions)
    return arithmetic >= CHAIN_LENGTH or (loops and arithmetic > 0)


def _namespace_variables(instructions: list[dis.Instruction]) -> set[str]:
    """Return the local variables that hold what ``gf.namespace(...)`` returned."""
    found, pending = set(), False
    for instruction in instructions:
        if instruction.argval == "namespace":
            pending = True
        elif pending and instruction.opname in ("STORE_FAST", "STORE_DEREF"):
            found.add(str(instruction.argval))
            pending = False
    return found


def _same(value: Any) -> Any:
    return value


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # the variable is not bound yet
        return _MISSING


def _is_array(value: Any) -> bool:
    return not isinstance(value, type | np.generic) and any(
        hasattr(type(value), mark) for mark in ("__array__", "__array_namespace__", "__dlpack__")
    )


def _belongs_to_library(value: Any) -> bool:
    home = getattr(value, "__module__", None) or type(value).__module__
    named = isinstance(home, str) and home.split(".")[0] in _ARRAY_LIBRARIES
    return named and callable(value) and not isinstance(value, type)


def _is_own(value: Any) -> bool:
    return str(getattr(value, "__module__", "")).startswith("gpuforge.")


def _is_frozen(value: Any) -> bool:
    if isinstance(value, tuple | frozenset):
        return all(_is_frozen(item) for item in value)
    return isinstance(value, _FROZEN) or value is sys.modules
