"""The array that a recorded function sees: it records operations instead of computing values.

It claims to be an ``np.ndarray`` (or NumPy's scalar of its dtype) and computes its value where
Python needs one; uses that only a real NumPy array supports raise `NotRecordable`. NumPy's
protocols, its methods and Python's operators are installed by `dispatch`.
"""

from __future__ import annotations

import sys
from abc import ABCMeta
from collections.abc import Iterator
from functools import lru_cache
from operator import index
from sys import getrefcount
from typing import Any
from weakref import ref

import numpy as np
from numpy.lib.stride_tricks import as_strided

from gpuforge.runtime.array.graph import Dtype, Node, Shape
from gpuforge.runtime.array.recorder import Host, Recorder
from gpuforge.runtime.array.rules import count
from gpuforge.runtime.array.storage import Step, Storage, follow
from gpuforge.runtime.array.unsupported import NotRecordable
from gpuforge.runtime.array.views import follow_step

SHUFFLE = "shuffle swaps the rows of NumPy's own arrays only"
_OWN = 2
"""Reference count of a node's values if only the node holds them, while they are counted."""
_INSTANCE_CHECK = ABCMeta.__instancecheck__.__code__


class Array:
    """One array of a recorded call. Made by `make`, `view` and `argument`.

    Attributes
    ----------
    _storage : memory that it shares with other arrays; None while it shares none
    _chain : the view steps from the whole storage to this array
    _version : version of the storage when `_node` was read
    _scalar : whether NumPy would return a scalar rather than an array
    """

    __slots__ = ("__weakref__", "_chain", "_node", "_recorder", "_scalar", "_storage", "_version")
    __array_priority__ = 1000.0

    _recorder: Recorder
    _node: Node
    _storage: Storage | None
    _chain: tuple[Step, ...]
    _version: int
    _scalar: bool

    def __init__(self, *_: Any, **__: Any) -> None:
        raise NotRecordable("type(x)(...) makes an array of NumPy")

    # -- attributes -----------------------------------------------------------------------------

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        asking = sys._getframe(1)
        user = asking.f_back if asking.f_code is _INSTANCE_CHECK else None
        if user is not None and "shuffle" in user.f_code.co_names:
            # NumPy's shuffle asks whether this is a sequence. It would swap the rows of one through
            # views, which duplicates some; it copies the rows only of real arrays.
            raise self._recorder.refuse(SHUFFLE)
        return self._node.dtype.type if self._scalar else np.ndarray

    @property
    def shape(self) -> Shape:
        return self._node.shape

    @shape.setter
    def shape(self, value: Any) -> None:
        raise self._recorder.refuse("x.shape = ... changes an array in place")

    @property
    def dtype(self) -> Dtype:
        return self._node.dtype

    @dtype.setter
    def dtype(self, value: Any) -> None:
        raise self._recorder.refuse("x.dtype = ... changes an array in place")

    @property
    def ndim(self) -> int:
        return len(self._node.shape)

    @property
    def size(self) -> int:
        return count(self._node.shape)

    @property
    def itemsize(self) -> int:
        return self._node.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return count(self._node.shape) * self._node.dtype.itemsize

    @property
    def strides(self) -> tuple[int, ...]:
        return _known_layout(self).strides

    @property
    def flags(self) -> Any:
        return Flags(self)

    @property
    def device(self) -> str:
        return "cpu"

    # -- values, where Python needs them --------------------------------------------------------

    def __len__(self) -> int:
        return self._node.shape[0] if self._node.shape else len(value_of(self))

    def __iter__(self) -> Iterator[Any]:
        if not self._node.shape:
            return iter(value_of(self))  # NumPy raises the error
        if len(self._node.shape) == 1:
            return _elements(self)
        return (self[place] for place in range(self._node.shape[0]))  # type: ignore[index]

    def __bool__(self) -> bool:
        return bool(value_of(self))

    def __int__(self) -> int:
        return int(value_of(self))

    def __float__(self) -> float:
        return float(value_of(self))

    def __complex__(self) -> complex:
        return complex(value_of(self))

    def __index__(self) -> int:
        return index(value_of(self))

    def __round__(self, digits: int | None = None) -> Any:
        return round(value_of(self), digits) if digits is not None else round(value_of(self))

    def __hash__(self) -> int:
        return hash(value_of(self))

    def __repr__(self) -> str:
        return repr(value_of(self))

    def __str__(self) -> str:
        return str(value_of(self))

    def __format__(self, spec: str) -> str:
        return format(value_of(self), spec)

    def __reduce_ex__(self, protocol: Any) -> Any:
        # Of a read-only array, protocol 5 makes another one.
        made = value_of(self) if self._scalar else host_of(self).copy(order="K")
        return made.__reduce_ex__(protocol)

    def __sizeof__(self) -> int:
        return 112 + self.nbytes


_ARRAYS = (Array, np.ndarray)
Array.__name__, Array.__qualname__, Array.__module__ = "ndarray", "ndarray", "numpy"
"""As programs print the type of an array."""


class Flags:
    """The flags of a recorded array: they can be read but not set."""

    def __init__(self, array: Array) -> None:
        self.__dict__["_array"] = array

    def __getattr__(self, name: str) -> Any:
        return getattr(_known_layout(self._array).flags, name)

    def __setattr__(self, name: str, value: Any) -> None:
        raise self._array._recorder.refuse(f"x.flags.{name} = ... changes an array in place")

    __getitem__ = property(lambda self: _known_layout(self._array).flags.__getitem__)
    __repr__ = property(lambda self: _known_layout(self._array).flags.__repr__)
    __setitem__ = __setattr__


_new = Array.__new__


def make(recorder: Recorder, node: Node, *, scalar: bool = False) -> Array:
    """Return a new array, or scalar, that shares memory with no other one."""
    made = _new(Array)
    made._recorder = recorder
    made._node = node
    made._storage = None
    made._chain = ()
    made._version = 0
    made._scalar = scalar
    return made


def view(of: Array, step: Step, node: Node) -> Array:
    """Return the view of an array that a step selects; `node` is its current value."""
    made = _new(Array)
    made._recorder = of._recorder
    made._node = node
    made._storage = storage = storage_of(of)
    made._chain = (*of._chain, step)
    made._version = storage.version
    made._scalar = False
    if made._recorder.turned and storage.source is None and is_reshaped(made):
        storage.reshaped.append(ref(made))
    return made


def is_reshaped(array: Array) -> bool:
    """Return whether an array is a view of another shape than its memory's."""
    return any(step[0] == "reshape" for step in array._chain)


def argument(recorder: Recorder, source: Host) -> Array:
    """Return the recorded array for an argument of the call."""
    readable = source.view()
    readable.setflags(write=False)
    node = recorder.known(readable)
    made = make(recorder, node)
    made._storage = Storage(made, source)
    return made


def storage_of(array: Array) -> Storage:
    """Return the storage of an array, creating it so that views can share it."""
    if array._storage is None:
        array._storage = Storage(array)
    return array._storage


def node_of(array: Array) -> Node:
    """Return the node of an array's current value, after writes into its storage."""
    storage = array._storage
    if storage is not None and array._version != storage.version:
        node = storage.node
        for step in array._chain:
            node = follow_step(array._recorder, node, step)
        array._node, array._version = node, storage.version
    return array._node


def ordered(made: Array, operands: Any) -> Array:
    """Return a new array in the memory order that NumPy chooses for it: that of its operands."""
    if not made._recorder.turned or made.ndim < 2 or not made.size:
        return made
    given: list[Any] = [one for one in operands if type(one) in _ARRAYS and len(one.shape) > 1]
    if any(type(one) is Array and one._storage is None for one in given):
        return made  # that one's order is not known
    hosts = [layout(one) if type(one) is Array else one for one in given]
    axes = _order(tuple([(one.shape, one.strides) for one in hosts])) if hosts else ()
    storage = storage_of(made)
    if list(axes) != sorted(axes):
        storage.turn(axes)
    return made


def order_of(array: Array) -> Any:
    """Return in which order a result or its whole lies in memory: as NumPy put it if it did."""
    if array._storage is not None:
        return array._storage.layout.strides
    return "K" if array._recorder.turned and type(array._node.value) is np.ndarray else "C"


@lru_cache(maxsize=1024)
def _order(operands: tuple[tuple[Shape, Shape], ...]) -> tuple[int, ...]:
    """Return the axes of what NumPy makes of operands, the one with the longest stride first."""
    few = [as_strided(np.empty(1), [1 if n == 1 else 2 for n in shape], at)
           for shape, at in operands]  # fmt: skip
    made = np.nditer((*few, None)).operands[-1]  # reads no value of them
    return tuple(sorted(range(made.ndim), key=lambda axis: -abs(made.strides[axis])))


def layout(array: Array) -> Host:
    """Return a NumPy array with the strides and flags of `array`; its values are meaningless."""
    return follow(storage_of(array).layout, array._chain)


def _known_layout(array: Array) -> Host:
    made = layout(array)
    if array._recorder.turned and made.ndim > 1 and storage_of(array).source is None:
        # The memory order of NumPy's results depends on that of their operands.
        raise array._recorder.refuse("the memory order of an array is asked for")
    return made


def host_of(array: Array) -> Host:
    """Return the values of an array as a read-only NumPy array."""
    host = array._recorder.host(node_of(array))
    if host.flags.writeable:
        host = host.view()
        host.flags.writeable = False
    return host


def exported(array: Array) -> Host:
    """Return the values of an array for code that needs a real NumPy array.

    They are read-only during the call, and belong to the array's memory afterwards.
    """
    recorder, node, storage = array._recorder, node_of(array), storage_of(array)
    _, held = recorder.exports.get(id(array), (array, None))
    view = None if held is None else held()
    if storage.source is not None and storage.version:
        raise recorder.refuse("a NumPy array is made of an argument that was written into")
    if view is None:
        if storage.source is not None:
            host = follow(storage.original.host, array._chain)
        else:
            host = host_of(array)
            if node.host is None or node.host.base is not None or not node.host.flags.writeable:
                node.host = host.copy(order="K")
            host = node.host
        view = host.view()
        view.flags.writeable = False
        recorder.exports[id(array)] = (array, ref(view))
    return view


def strided(array: Array, *, writeable: bool) -> Host:
    """Return the values of an array for ``as_strided``, which reads memory by given strides.

    Raises
    ------
    NotRecordable
        If the values lie otherwise in memory than NumPy's would.
    """
    made = exported(array)
    if made.strides != _known_layout(array).strides:
        raise array._recorder.refuse("as_strided needs the memory of a NumPy array")
    if writeable:
        made = made.view()
        array._recorder.strided.append(ref(made))
    return made


def is_exported(array: Array) -> bool:
    """Return whether an export of an array's memory is still referenced."""
    storage = array._storage
    return any(
        one._storage is storage
        and (storage.source is not None or getrefcount(one._node.host) > _OWN)
        for one, _ in array._recorder.exports.values()
    )


def _elements(array: Array) -> Iterator[Any]:
    """Yield the current value of each element: the loop body may write into the array."""
    storage, version = storage_of(array), -1
    for place in range(array._node.shape[0]):
        if version != storage.version:
            host, version = host_of(array), storage.version
        yield host[place]


def value_of(array: Array) -> Any:
    """Return what NumPy would have here: a read-only array, or a scalar."""
    host = host_of(array)
    return host[()] if array._scalar else host
