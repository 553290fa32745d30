"""What a function's code depends on besides its arguments, read from its bytecode.

A body that uses only NumPy's own names, constants and other such functions records the same graph
whenever the dtypes and shapes of its arrays and its other arguments are the same. The graph can
then be replayed without the Python.
"""

from __future__ import annotations

import builtins
import dis
import math
from collections.abc import Callable
from functools import lru_cache
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

import gpuforge.runtime.array.operations
from gpuforge.log import logger
from gpuforge.runtime.array.namespace import CONVERSIONS, CREATIONS
from gpuforge.runtime.array.table import FUNCTIONS, METHODS, UFUNCS
from gpuforge.runtime.function.entry import written
from gpuforge.runtime.function.naming import name_of
from gpuforge.runtime.namespace import namespace

_log = logger("recording")
_CONSTANTS = {int, float, complex, bool, str, type(None)}
_BUILTINS = frozenset(
    "abs all any bool complex divmod enumerate float int isinstance len list map max min pow range"
    " reversed round slice sorted str sum tuple zip dict Ellipsis NotImplemented ValueError"
    " TypeError IndexError ArithmeticError ZeroDivisionError Exception AssertionError".split()
)
_ATTRIBUTES = frozenset(
    "shape ndim size dtype T mT real imag itemsize nbytes kind char linalg fft pi e inf nan newaxis"
    " euler_gamma ndarray number integer floating inexact complexfloating generic bool_ bool finfo"
    " iinfo eps tiny max min append extend items keys values count index broadcast_shapes"
    " result_type promote_types can_cast dtypes item tolist accumulate reduce reduceat at"
    " argpartition partition lexsort sort_complex indices diag_indices tril_indices triu_indices"
    " unravel_index ravel_multi_index fftfreq rfftfreq bartlett blackman kaiser i0 eig eigvals"
    " roots poly polyint histogram2d histogramdd histogram_bin_edges mgrid ogrid r_ c_ packbits"
    " unpackbits unique_all unique_counts unique_inverse unique_values asfortranarray isscalar"
    " issubdtype namespace".split()
)
_FORBIDDEN = frozenset(
    "STORE_GLOBAL DELETE_GLOBAL STORE_ATTR DELETE_ATTR IMPORT_NAME IMPORT_FROM IMPORT_STAR"
    " YIELD_VALUE SEND GET_AWAITABLE BEFORE_WITH BEFORE_ASYNC_WITH SETUP_WITH LOAD_SPECIAL"
    " LOAD_BUILD_CLASS LOAD_LOCALS LOAD_NAME".split()
)
# np.datetime64("now") reads the clock.
_VARYING = "random ctypes data base flags strides datetime64 timedelta64".split()
MAX_ARRAY_BYTES = 1 << 24
_MODULES: tuple[ModuleType, ...] = (np, np.linalg, np.fft, math)
Content = tuple[tuple[int, ...], tuple[int, ...], np.dtype[Any], bytes]
Read = tuple[dict[str, Any] | CellType | FunctionType, str, Any]


class Varies(Exception):
    """A function may depend on more than its arguments and constants."""


class Dependence:
    """The names outside a function that its code reads, with their values.

    Attributes
    ----------
    reads : (namespace, cell or function, name, value)
    arrays : arrays among those values, with their form and content; None if arrays are not allowed
    unused : arguments that the function does not use, by position and name
    """

    def __init__(self, *, arrays: bool = False) -> None:
        self.reads: list[Read] = []
        self.arrays: list[tuple[np.ndarray[Any, Any], Content]] | None = [] if arrays else None
        self.unused: frozenset[int | str] = frozenset()

    def holds(self) -> bool:
        """Return whether all names still have the same values, and arrays the same content."""
        for place, name, value in self.reads:
            kind = type(place)
            if kind is dict:
                if place.get(name, value) is not value:  # type: ignore[union-attr]
                    return False
            elif kind is CellType:
                if _content(place) is not value:  # type: ignore[arg-type]
                    return False
            elif getattr(place, name) is not value:
                return False
        return all(_of(array) == held for array, held in self.arrays or ())


def dependence_of(function: Callable[..., Any], *, arrays: bool = False) -> Dependence | None:
    """Return what a function depends on; None if that cannot be determined.

    With `arrays`, it may read arrays of up to `MAX_ARRAY_BYTES`, which are compared with copies.
    """
    found = Dependence(arrays=arrays)
    try:
        _read_function(function, found, set())
        found.unused = _unused(written(function.__code__))
    except Varies:
        return None
    except Exception as error:  # noqa: BLE001 - attributes of the user's objects may raise anything
        _log.info("%s cannot be read, and may vary: %r", name_of(function), error)
        return None
    return found


def _of(array: np.ndarray[Any, Any]) -> Content:
    """Return what must be the same for an array to count as unchanged."""
    return array.shape, array.strides, array.dtype, array.tobytes()


def _content(cell: CellType) -> Any:
    """Return what a closure's cell holds; the cell itself if it is empty."""
    try:
        return cell.cell_contents
    except ValueError:
        return cell


@lru_cache(maxsize=256)
def _steps(code: CodeType) -> tuple[tuple[str, Any], ...]:
    """Return the operations of a function's code and their arguments: `dis` takes a millisecond."""
    return tuple((step.opname, step.argval) for step in dis.get_instructions(code))


def _unused(code: CodeType) -> frozenset[int | str]:
    """Return the arguments that a function's code does not use."""
    used: set[str] = {*code.co_cellvars}
    for operation, value in _steps(code):
        if "FAST" in operation:  # the argument of some is a pair of names
            used.update([value] if isinstance(value, str) else value)
    positional = code.co_varnames[: code.co_argcount]
    named = code.co_varnames[code.co_posonlyargcount : code.co_argcount + code.co_kwonlyargcount]
    places = {place for place, name in enumerate(positional) if name not in used}
    return frozenset(places) | {name for name in named if name not in used}


def _read_function(function: Any, found: Dependence, seen: set[int]) -> None:
    if type(function) is not FunctionType:
        raise Varies
    if id(function) in seen:  # not by its code, which functions with other cells share
        return
    seen.add(id(function))
    code = written(function.__code__)
    found.reads.append((function, "__code__", function.__code__))
    named = function.__kwdefaults__ or {}
    defaults = (*(function.__defaults__ or ()), *named.values())
    if not all(map(_is_constant, defaults)):
        raise Varies
    found.reads.append((function, "__defaults__", function.__defaults__))
    found.reads += [(named, name, value) for name, value in named.items()]
    found.reads.append((function, "__kwdefaults__", function.__kwdefaults__))
    cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
    _read_code(code, function.__globals__, cells, found, seen)


def _read_code(
    code: CodeType, names: dict[str, Any], cells: dict[str, CellType], found: Dependence,
    seen: set[int],
) -> None:  # fmt: skip
    for operation, name in _steps(code):
        if operation in _FORBIDDEN and (operation, code.co_name) != ("YIELD_VALUE", "<genexpr>"):
            raise Varies
        if operation.startswith("LOAD_GLOBAL"):
            _read_global(name, names, found, seen)
        elif operation in ("LOAD_DEREF", "LOAD_CLASSDEREF") and name in cells:
            _read_cell(name, cells[name], found, seen)
        elif operation in ("STORE_DEREF", "DELETE_DEREF"):
            if name in cells:
                raise Varies
        elif operation in ("LOAD_ATTR", "LOAD_METHOD") and name not in _known_attributes():
            raise Varies
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            _read_code(inner, names, cells, found, seen)


def _read_global(name: str, names: dict[str, Any], found: Dependence, seen: set[int]) -> None:
    if name in names:
        value = names[name]
        _check(value, found, seen)
        found.reads.append((names, name, value))
        return
    if name not in _BUILTINS or not hasattr(builtins, name):
        raise Varies
    found.reads.append((names, name, getattr(builtins, name)))  # a global may hide it later


def _read_cell(name: str, cell: CellType, found: Dependence, seen: set[int]) -> None:
    try:
        value = cell.cell_contents
    except ValueError:
        raise Varies from None
    _check(value, found, seen)
    found.reads.append((cell, name, value))


def _check(value: Any, found: Dependence, seen: set[int]) -> None:
    if getattr(type(value), "_is_offloaded", False):
        value = value._function  # which a recorded call calls like any other function
    kind = type(value)
    if _is_constant(value) or value is namespace:
        return
    if value is gpuforge or any(value is module for module in _MODULES):
        return
    if kind is np.ndarray and found.arrays is not None:
        if value.dtype.kind not in "biufc" or value.nbytes > MAX_ARRAY_BYTES:
            raise Varies
        found.arrays.append((value, _of(value)))
    elif kind is FunctionType and value.__module__.split(".")[0] != "numpy":
        _read_function(value, found, seen)
    elif not _is_of_numpy(value):
        raise Varies


def _is_constant(value: Any) -> bool:
    """Return whether a value can never change: a number, a text, or a slice or tuple of them."""
    if type(value) is slice:
        value = value.start, value.stop, value.step
    return type(value) in _CONSTANTS or (type(value) is tuple and all(map(_is_constant, value)))


def _is_of_numpy(value: Any) -> bool:
    if _is_tabled(value):
        return True
    name = getattr(value, "__name__", "")
    # By identity: numpy.random.gamma has the name of math.gamma.
    known = any(getattr(module, name, None) is value for module in _MODULES)
    return known and name in _known_attributes() and callable(value)


def _is_tabled(value: Any) -> bool:
    try:
        return value in UFUNCS or value in FUNCTIONS
    except TypeError:  # it cannot be hashed
        return False


_names: set[str] = set()


def _known_attributes() -> set[str]:
    """Return the attribute names whose result depends only on their operands."""
    if not _names:
        functions = [getattr(one, "__name__", "") for one in (*UFUNCS, *FUNCTIONS)]
        functions += [name for name, one in vars(np).items() if _is_tabled(one)]  # also np.abs
        # Not dir(np): getattr for each name there would import numpy.f2py and numpy.testing.
        types = [name for name, one in vars(np).items()
                 if isinstance(one, type) and issubclass(one, np.generic)]  # fmt: skip
        _names.update(functions, METHODS, CONVERSIONS, CREATIONS, types, dir(math), _ATTRIBUTES)
        _names.difference_update(_VARYING)
    return _names
