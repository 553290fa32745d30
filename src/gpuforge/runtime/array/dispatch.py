"""NumPy's protocols, its methods and Python's operators on recorded arrays.

Operations in the table are recorded. NumPy computes all others at once on host arrays (the
fallback): results are wrapped again, writes are written back, exceptions propagate.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from gpuforge import trace
from gpuforge.runtime.array.array import (
    Array,
    exported,
    host_of,
    layout,
    make,
    node_of,
    ordered,
    strided,
    value_of,
    view,
)
from gpuforge.runtime.array.elementwise import captured, note_binary, note_ufunc
from gpuforge.runtime.array.graph import Node
from gpuforge.runtime.array.indexing import assign_all, getitem, is_frozen, setitem, write
from gpuforge.runtime.array.namespace import CONVERSIONS, Namespace, is_recorded
from gpuforge.runtime.array.recorder import NUMERIC_KINDS, Recorder, is_recording
from gpuforge.runtime.array.table import FUNCTIONS, METHODS, UFUNCS
from gpuforge.runtime.array.unsupported import READ_ONLY, NoSuchMemory, NotRecordable, Unsupported
from gpuforge.runtime.array.views import follow_step

_ADDRESSES = frozenset("data ctypes base setflags resize byteswap setfield".split())
_LIBRARIES = frozenset("scipy sklearn skimage pandas xarray numba cv2 numexpr bottleneck".split())
"""Packages whose compiled code may write into an array that is passed to it."""
_IGNORED = {"order": ("K", "C", "A", None), "subok": (True, False), "casting": ("same_kind",)}
"""Options of universal functions, with the values that have no effect here."""


# -- the fallback: NumPy on host arrays ----------------------------------------------------------


def fall_back(
    recorder: Recorder, name: str, call: Callable[..., Any], args: Any, kwargs: Any, reason: str
) -> Any:
    """Let NumPy compute an operation on host arrays, and wrap what it returns and writes."""
    recorder.fell_back(name, reason)
    hosts, named = on_host(args), on_host(kwargs)
    try:
        with trace.within("fallback", trace.HOST, operation=name, reason=reason):
            result = call(*hosts, **named)
            if _is_view(result):  # the array may be written into, or the view outlive the call
                result = call(*on_host(args, _given), **on_host(kwargs, _given))
    except ValueError as error:
        if not READ_ONLY.search(str(error)):
            raise
    else:
        return taken_up(recorder, result)
    return _on_copies(recorder, call, args, kwargs)  # its errors are no context of that one


def _is_view(result: Any) -> bool:
    """Return whether NumPy's result, or a part of it, may view a host array, which is read-only."""
    if isinstance(result, tuple | list):
        return any(map(_is_view, result))
    frozen = isinstance(result, np.ndarray) and not result.flags.writeable
    return isinstance(result, np.flatiter) or (frozen and result.base is not None)


def _given(array: Array) -> Any:
    """Return the scalar, or the values exported for a NumPy array that views or holds them."""
    return value_of(array) if array._scalar else exported(array)


def _copied(array: Array) -> Any:
    """Return a writable copy, contiguous only if the array is: NumPy may refuse others."""
    host = host_of(array)
    if layout(array).flags.c_contiguous:
        return host.copy()
    made = np.empty((*host.shape, 2), host.dtype)[..., 0]
    made[...] = host
    return made


def _on_copies(recorder: Recorder, call: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Let NumPy compute on copies of the arrays, and record its writes."""
    copies: dict[int, tuple[Array, Any]] = {}

    def copy(array: Array) -> Any:
        if array._scalar:
            return value_of(array)
        if is_frozen(array):
            return host_of(array)
        if id(array) not in copies:
            copies[id(array)] = (array, _copied(array))
        return copies[id(array)][1]

    try:
        result = call(*on_host(args, copy), **on_host(kwargs, copy))
    finally:
        written = [
            (array, made) for array, made in copies.values() if _is_written(recorder, array, made)
        ]
        for array, made in written:  # only now: it may change what others of them view
            write(array, recorder.known(made.copy()))
    given = {id(made): array for array, made in copies.values()}
    found = result if type(result) is tuple else (result,)  # several were given as ``out=``
    back = [given[id(one)] if id(one) in given else taken_up(recorder, one) for one in found]
    return tuple(back) if found is result else back[0]


def _is_of_objects(dtype: Any) -> bool:
    try:
        return dtype is not None and np.dtype(dtype).kind == "O"
    except TypeError:  # as NumPy will say
        return False


def _is_written(recorder: Recorder, array: Array, made: Any) -> bool:
    """Return whether NumPy wrote into the copy of an array."""
    if made.shape != array.shape or made.dtype != array.dtype:
        raise recorder.refuse("an array is resized in place")
    return bool(made.tobytes() != host_of(array).tobytes())


def _convert(
    recorder: Recorder, name: str, call: Callable[..., Any], args: Any, kwargs: Any, reason: str
) -> Any:
    """Let NumPy make an array; one of objects holds the given arrays themselves."""
    wanted = kwargs.get("dtype", args[1] if len(args) > 1 else None)
    if name.removeprefix("np.") in CONVERSIONS and _is_of_objects(wanted):
        args = on_host(args, _given)
    return fall_back(recorder, name, call, args, kwargs, reason)


def on_host(value: Any, change: Callable[[Array], Any] = value_of) -> Any:
    """Return a value with all recorded arrays in it and its containers replaced by host arrays."""
    kind = type(value)
    if kind is Array:
        return change(value)
    if kind is tuple or kind is list:
        return kind([on_host(item, change) for item in value])
    if kind is dict:
        return {key: on_host(item, change) for key, item in value.items()}
    if kind is slice:
        return slice(*(on_host(end, change) for end in (value.start, value.stop, value.step)))
    return value


def taken_up(recorder: Recorder, result: Any) -> Any:
    """Return NumPy's result with its new numeric arrays wrapped as recorded ones."""
    kind = type(result)
    if kind is np.ndarray:
        fresh = result.flags.writeable and result.dtype.kind in NUMERIC_KINDS
        fresh = fresh and (recorder.has(result.dtype) or is_recording())
        return ordered(make(recorder, recorder.known(result)), (result,)) if fresh else result
    if kind is tuple or kind is list:
        return kind([taken_up(recorder, item) for item in result])
    if isinstance(result, tuple) and hasattr(kind, "_fields"):
        return kind(*(taken_up(recorder, item) for item in result))
    return result


# -- arguments of recorded functions -------------------------------------------------------------


def operand(recorder: Recorder, value: Any) -> Node:
    """Return the node of an argument that is a number or an array, recorded or not."""
    if type(value) is Array:
        return node_of(value)
    if type(value) is np.ndarray:
        return captured(recorder, value)
    if isinstance(value, np.generic | bool | int | float | complex):
        return recorder.known(np.asarray(value))
    raise Unsupported(f"an argument is a {type(value).__name__}")


def numbers(recorder: Recorder, value: Any) -> Node:
    """Return the node of an argument that may also be a list of numbers."""
    if isinstance(value, list | tuple):
        made = np.asarray(value) if not is_recorded(value) else None
        if made is None or made.dtype.kind not in NUMERIC_KINDS:
            raise Unsupported("a list that contains recorded arrays")
        return recorder.known(made)
    return operand(recorder, value)


def refuse(**options: Any) -> None:
    """Raise Unsupported for the first option that is not None."""
    for name, value in options.items():
        if value is not None and value is not np._NoValue:
            raise Unsupported(f"{name}= is given")


# -- NumPy's protocols ----------------------------------------------------------------------------


def _array_ufunc(self: Array, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
    recorder = _open(inputs) or self._recorder
    try:
        return _note_call(recorder, ufunc, method, inputs, kwargs)
    except Unsupported as why:
        reason = str(why)
    call = ufunc if method == "__call__" else getattr(ufunc, method)
    if method == "at":  # it writes into read-only arrays too, which what is recorded may read
        recorder.force()
        recorder.fell_back(f"np.{ufunc.__name__}.at", reason)
        return _on_copies(recorder, call, inputs, kwargs)
    return _with_out(recorder, ufunc.__name__, call, inputs, kwargs, reason)


def _open(values: tuple[Any, ...]) -> Recorder | None:
    """Return the recorder of the first array whose call has not ended."""
    for value in values:
        if type(value) is Array and not value._recorder.closed:
            return value._recorder
    return None


def _note_call(
    recorder: Recorder, ufunc: Any, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    if recorder.closed:
        raise Unsupported("the recorded call has ended")
    if method != "__call__":
        recording = FUNCTIONS.get((ufunc, method))
        if recording is None:
            raise Unsupported(f"np.{ufunc.__name__}.{method} is not supported")
        return recording(recorder, *inputs, **kwargs)
    if ufunc in FUNCTIONS:
        options = dict(kwargs)  # a fallback needs all of them
        out = options.pop("out", None)
        return into(out, FUNCTIONS[ufunc](recorder, *inputs, **options))
    if not kwargs:
        return note_ufunc(recorder, ufunc, inputs)
    return _note_with_options(recorder, ufunc, inputs, dict(kwargs))


def _note_with_options(
    recorder: Recorder, ufunc: Any, inputs: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    out = kwargs.pop("out", None)
    where = kwargs.pop("where", True)
    for name, value in kwargs.items():
        if value not in _IGNORED.get(name, ()):
            raise Unsupported(f"{name}={value!r}")
    target = out[0] if type(out) is tuple else out
    if where is not True and type(target) is not Array:
        raise Unsupported("where= without out=")
    if target is not None:
        _check_target(target, kwargs)
    if where is not True:
        inputs = _without_others(recorder, ufunc, where, inputs)
    result = note_ufunc(recorder, ufunc, inputs)
    if where is not True:
        result = FUNCTIONS[np.where](recorder, where, result, target)
    return result if target is None else into(target, result)


def _without_others(
    recorder: Recorder, ufunc: Any, where: Any, inputs: tuple[Any, ...]
) -> tuple[Any, ...]:
    """Replace what is not computed by a value of which NumPy does not warn.

    All of the arrays, and the numbers at which another operand of 1 may do so.
    """
    calm = _CALM.get(ufunc, 1)
    choose = FUNCTIONS[np.where]
    dtypes = [one.dtype for one in inputs if type(one) in (Array, np.ndarray)]

    def calmed(one: Any) -> Any:
        if type(one) in (Array, np.ndarray):
            return choose(recorder, where, one, bool(calm) if one.dtype.kind == "b" else calm)
        if isinstance(one, int | float | complex | np.generic) and one in _WARNED_OF:
            return choose(recorder, where, np.asarray(one, np.result_type(one, *dtypes)), calm)
        return one

    return tuple(map(calmed, inputs))


_CALM = {np.arctanh: 0}
"""A value of which NumPy does not warn, for functions of the table where it is not 1."""
_WARNED_OF = (0, np.inf, -np.inf)


def _check_target(target: Any, kwargs: Any) -> None:
    if type(target) is not Array or target._scalar:
        raise Unsupported("out= is an array that is not recorded")


def into(out: Any, result: Any) -> Any:
    """Write a result into ``out`` and return that; without ``out``, return the result."""
    target = out[0] if type(out) is tuple else out
    if target is None:
        return result
    _check_target(target, {})
    if type(result) is not Array or result.shape != target.shape:
        raise Unsupported("out= has a different shape")
    if not np.can_cast(result.dtype, target.dtype, "same_kind"):
        raise Unsupported("out= has a dtype that the result cannot be cast to")
    assign_all(target, node_of(result))
    return target


def _with_out(
    recorder: Recorder, name: str, call: Any, inputs: Any, kwargs: Any, reason: str
) -> Any:
    out = kwargs.get("out")
    if type(out) is tuple and all(type(one) is not Array for one in out):
        recorder.fell_back(name, reason)  # NumPy writes directly into the user's arrays
        return call(*on_host(inputs), **on_host(kwargs))
    return fall_back(recorder, name, call, inputs, kwargs, reason)


def _array_function(self: Array, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
    recorder = _open(args) or self._recorder
    recording = FUNCTIONS.get(function)
    try:
        if recorder.closed:
            raise Unsupported("the recorded call has ended")
        if recording is None:
            raise Unsupported(f"np.{function.__name__} is not supported")
        recorder.watch_errors()
        return recording(recorder, *args, **kwargs)
    except Unsupported as why:
        reason = str(why)
    except TypeError as error:
        if "argument" not in str(error):
            raise
        reason = str(error)  # an option that the table does not take
    return fall_back(recorder, f"np.{function.__name__}", function, args, kwargs, reason)


def _array(self: Array, dtype: Any = None, copy: bool | None = None) -> Any:
    """Return the values as a NumPy array, for NumPy or another library.

    Raises
    ------
    NotRecordable
        If the Python code of another library asks, because it may write into the array.
    """
    frame = sys._getframe(1)
    asking = str(frame.f_globals.get("__name__", "")).split(".")[0]
    if asking in _LIBRARIES:
        raise self._recorder.refuse(f"{asking} needs the memory of a NumPy array")
    if frame.f_code is as_strided.__code__ and not self._scalar:
        return strided(self, writeable=frame.f_locals["writeable"])
    host = host_of(self)
    if self._scalar or copy or (dtype is not None and np.dtype(dtype) != host.dtype):
        return np.array(host, dtype=dtype)
    return exported(self)


def _array_namespace(self: Array, *, api_version: str | None = None) -> Namespace:
    recorder = self._recorder
    if recorder.namespace is None:
        recorder.namespace = Namespace(recorder, creates=True)
    return recorder.namespace  # type: ignore[no-any-return]


# -- attributes, methods and indices --------------------------------------------------------------


def _getattr(self: Array, name: str) -> Any:
    kind = self._node.dtype.type if self._scalar else np.ndarray
    if name in METHODS and hasattr(kind, name):
        return _method(self, name)
    if name in _ADDRESSES and not self._scalar:
        raise self._recorder.refuse(f"x.{name} needs the memory of a NumPy array")
    if name.startswith("__array_"):
        code = sys._getframe(1).f_code  # of the program if it asks, perhaps by hasattr
        kind = NotRecordable if name in code.co_names + code.co_consts else NoSuchMemory
        raise self._recorder.refuse(f"x.{name} needs the memory of an array", kind)
    if not hasattr(kind, name):
        # NumPy raises the error
        return getattr(np.zeros((), self.dtype)[()] if self._scalar else np.zeros(0), name)
    if callable(getattr(kind, name)):
        return _method(self, name)
    return fall_back(self._recorder, f"x.{name}", getattr, (self, name), {}, "not supported")


def _method(self: Array, name: str) -> Callable[..., Any]:
    """Return a bound method of NumPy's arrays."""
    recorder, recording = self._recorder, METHODS.get(name)

    def method(*args: Any, **kwargs: Any) -> Any:
        reason = f"x.{name} is not supported"
        if recording is not None and not recorder.closed:
            try:
                recorder.watch_errors()
                return recording(recorder, self, *args, **kwargs)
            except Unsupported as why:
                reason = str(why)
            except TypeError as error:
                if "argument" not in str(error):
                    raise
                reason = str(error)
        if name == "item" or name == "tolist":
            return getattr(value_of(self), name)(*args, **kwargs)

        def call(array: Any, *rest: Any, **options: Any) -> Any:
            return getattr(array, name)(*rest, **options)

        return fall_back(recorder, f"x.{name}", call, (self, *args), kwargs, reason)

    method.__name__ = name
    return method


def _getitem(self: Array, index: Any) -> Any:
    try:
        if self._recorder.closed:
            raise Unsupported("the recorded call has ended")
        return getitem(self, index)
    except Unsupported as why:
        reason = str(why)
    return fall_back(
        self._recorder, "an index", lambda array, at: _owned(array[at]), (self, index), {}, reason
    )


def _owned(value: Any) -> Any:
    """Return a value that is not a view of the host array it came from."""
    return value.copy() if isinstance(value, np.ndarray) and value.base is not None else value


def _setitem(self: Array, index: Any, value: Any) -> None:
    try:
        setitem(self, index, value)
        return
    except Unsupported as why:
        reason = str(why)

    def call(array: Any, at: Any, new: Any) -> None:
        array[at] = new

    fall_back(self._recorder, "an assignment", call, (self, index, value), {}, reason)


def _part(name: str) -> property:
    """Return the property ``real`` or ``imag``."""

    def get(self: Array) -> Any:
        node = node_of(self)
        if self._scalar or node.dtype.kind != "c":
            if name == "real" and node.dtype.kind != "c":
                return self
            return taken_up(self._recorder, getattr(value_of(self), name))
        return view(self, (name,), follow_step(self._recorder, node, (name,)))

    def put(self: Array, value: Any) -> None:
        _setitem(getattr(self, name), ..., value)

    return property(get, put)


def _copy(self: Array, memo: Any = None) -> Any:
    return self if self._scalar else METHODS["copy"](self._recorder, self)


# -- Python's operators ---------------------------------------------------------------------------


class _Asked(np.ndarray[Any, Any]):
    """An array whose operators return the function and the dtype that NumPy calls for them."""

    def __array_ufunc__(self, ufunc: np.ufunc, *_: Any, **__: Any) -> Any:
        return ufunc, self.dtype


@lru_cache(maxsize=256, typed=True)
def _function_of_power(dtype: np.dtype[Any], exponent: Any) -> Any:
    """Return the function that NumPy's ``x ** exponent`` calls, which differs between releases."""
    found, given = np.ones(1, dtype).view(_Asked) ** exponent
    # For integers to the power of 2.0, older releases square floats: `power` gives the same.
    return found if given == dtype else np.power


def _for_power(array: Array, exponent: Any) -> Any:
    """Return the function that NumPy calls for ``array ** exponent`` instead of np.power, or None.

    Their results differ: ``np.power`` of infinity to -1 is NaN for complex numbers.
    """
    if array._scalar or not (type(exponent) in (int, float) or isinstance(exponent, np.number)):
        return None
    if exponent not in (-1, 0.5, 2):
        return None
    found = _function_of_power(array.dtype, exponent)
    return None if found is np.power else found


def _record_operator(recorder: Recorder, ufunc: Any, operands: tuple[Any, ...]) -> Any:
    recording = FUNCTIONS.get(ufunc)
    if recording is None:
        raise Unsupported(f"np.{ufunc.__name__} is not supported")
    return recording(recorder, *operands)


def _operator(ufunc: Any, name: str, *, swapped: bool = False) -> Callable[[Array, Any], Any]:
    elementwise, power = ufunc in UFUNCS, ufunc is np.power and not swapped

    def method(self: Array, other: Any) -> Any:
        recorder = self._recorder
        try:
            if recorder.closed:
                raise Unsupported("the recorded call has ended")
            if self._scalar and type(other) in (list, tuple):
                raise Unsupported("a sequence with a scalar, which may repeat the sequence")
            if elementwise:
                if power and (function := _for_power(self, other)) is not None:
                    return note_ufunc(recorder, function, (self,))
                if swapped:
                    return note_binary(recorder, ufunc, other, self)
                return note_binary(recorder, ufunc, self, other)
            return _record_operator(recorder, ufunc, (other, self) if swapped else (self, other))
        except Unsupported as why:
            reason = str(why)

        def call(left: Any, right: Any) -> Any:
            return getattr(type(left), name)(left, right)

        return fall_back(recorder, name, call, (self, other), {}, reason)

    method.__name__ = name
    return method


def _in_place(ufunc: Any, name: str) -> Callable[[Array, Any], Any]:
    def method(self: Array, other: Any) -> Any:
        if self._scalar:
            return getattr(self, name)(other)
        recorder = self._recorder
        try:
            if recorder.closed:
                raise Unsupported("the recorded call has ended")
            if ufunc is np.power and (function := _for_power(self, other)) is not None:
                return into(self, note_ufunc(recorder, function, (self,)))
            if ufunc in UFUNCS:
                return into(self, note_ufunc(recorder, ufunc, (self, other)))
            return into(self, _record_operator(recorder, ufunc, (self, other)))
        except (Unsupported, ValueError) as why:  # NumPy may have written a part before it raised
            reason = str(why)

        def call(array: Any, given: Any) -> Any:
            return getattr(type(array), name.replace("__", "__i", 1))(array, given)

        return fall_back(recorder, name, call, (self, other), {}, reason)

    return method


def _unary(ufunc: Any, name: str) -> Callable[[Array], Any]:
    def method(self: Array) -> Any:
        try:
            if self._recorder.closed:
                raise Unsupported("the recorded call has ended")
            return note_ufunc(self._recorder, ufunc, (self,))
        except Unsupported as why:
            reason = str(why)
        return fall_back(self._recorder, name, ufunc, (self,), {}, reason)

    return method


_BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.true_divide,
    "floordiv": np.floor_divide, "mod": np.remainder, "pow": np.power, "matmul": np.matmul,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "lshift": np.left_shift, "rshift": np.right_shift, "divmod": np.divmod,
}  # fmt: skip
_COMPARED = {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip
_SINGLE = {"neg": np.negative, "pos": np.positive, "abs": np.absolute, "invert": np.invert}


def _install() -> None:
    """Give `Array` NumPy's protocols and Python's operators."""
    members: dict[str, Any] = {
        "__array__": _array,
        "__array_ufunc__": _array_ufunc,
        "__array_function__": _array_function,
        "__array_namespace__": _array_namespace,
        "__getattr__": _getattr,
        "__getitem__": _getitem,
        "__setitem__": _setitem,
        "__contains__": lambda self, value: bool((self == value).any()),
        "__copy__": _copy,
        "__deepcopy__": _copy,
        "real": _part("real"),
        "imag": _part("imag"),
        "T": property(lambda self: _method(self, "transpose")()),
    }
    for name, ufunc in _BINARY.items():
        members[f"__{name}__"] = _operator(ufunc, f"__{name}__")
        members[f"__r{name}__"] = _operator(ufunc, f"__r{name}__", swapped=True)
        if name != "divmod":
            members[f"__i{name}__"] = _in_place(ufunc, f"__{name}__")
    for name, ufunc in _COMPARED.items():
        members[f"__{name}__"] = _operator(ufunc, f"__{name}__")
    for name, ufunc in _SINGLE.items():
        members[f"__{name}__"] = _unary(ufunc, f"__{name}__")
    for name, member in members.items():
        setattr(Array, name, member)


_install()
Namespace._fall_back = staticmethod(_convert)
