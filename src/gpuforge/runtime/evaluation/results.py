"""The result of a recorded call, with real NumPy arrays in place of the recorded ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import numpy as np

from gpuforge.runtime.array.array import Array, node_of, order_of, value_of
from gpuforge.runtime.array.graph import Node
from gpuforge.runtime.array.recorder import Host, Recorder
from gpuforge.runtime.array.storage import Storage, follow, in_order
from gpuforge.runtime.evaluation.objects import (
    ATOMS,
    WITHOUT_RESULTS,
    attributes,
    made_of,
    may_hold,
    replace_keys,
    set_partial,
    slots,
)


class Results:
    """Replaces the recorded arrays in a result with real NumPy arrays."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.seen: dict[int, Any] = {}
        self.hosts: list[Host] = []
        self.alive: list[Any] = []

    def of(self, value: Any) -> Any:
        """Return a value with every recorded array replaced; containers keep their identity."""
        kind = type(value)
        if kind is Array:
            return self._array(value)
        if kind is np.ndarray and value.dtype.kind != "O":
            return self._exported(value)
        if isinstance(value, np.ndarray):
            self.open(value)
        if kind in ATOMS or id(value) in self.seen:
            return self.seen.get(id(value), value)
        self.alive.append(value)
        self.seen[id(value)] = value
        made: Any
        if isinstance(value, tuple):
            made = self._tuple(value)
        elif isinstance(value, list):
            made = value
            value[:] = [self.of(item) for item in value]
        elif isinstance(value, dict | set):
            made = value
            replace_keys(value, self.of)
            for key, item in list(value.items()) if isinstance(value, dict) else ():
                made[key] = self.of(item)
        else:
            made = value
            if isinstance(value, np.ndarray) and value.dtype.kind == "O":
                self._elements(value.view(np.ndarray))
            if kind is not np.ndarray:
                self._object(value)
        self.seen[id(value)] = made
        return made

    def _elements(self, value: Host) -> None:
        """Replace what an array of objects holds, in place, even if it is read-only."""
        holding = set(filter(may_hold, set(map(type, value.flat))))
        if not holding:
            return
        pairs = [(item, self.of(item) if type(item) in holding else item) for item in value.flat]
        if all(made is item for item, made in pairs):
            return
        with _writable(value):
            for place, (item, made) in enumerate(pairs):
                if made is not item:
                    value.flat[place] = made

    def _tuple(self, value: tuple[Any, ...]) -> Any:
        items = [self.of(item) for item in value]
        if all(a is b for a, b in zip(items, value, strict=True)):
            return value
        return made_of(value, items)

    def _object(self, value: Any) -> None:
        if isinstance(value, partial):
            set_partial(value, self.of(value.args), self.of(value.keywords))
            return
        for slot, item in slots(value):
            made = self.of(item)
            if made is not item:
                slot.__set__(value, made)
        held = attributes(value)
        if type(held) is dict and not isinstance(value, WITHOUT_RESULTS):
            for name, item in list(held.items()):
                made = self.of(item)
                if made is not item:
                    held[name] = made

    def _array(self, value: Array) -> Any:
        found = self.seen.get(id(value))
        if found is None:
            found = self.seen[id(value)] = self._made(value)
            self.alive.append(value)
        return found

    def _made(self, value: Array) -> Any:
        if value._scalar:
            return value_of(value)
        storage = value._storage
        if storage is not None and storage.source is not None:
            return follow(storage.source, value._chain)
        if storage is not None:
            return follow(self._whole(storage), value._chain)
        return self._owned(node_of(value), order_of(value))

    def _whole(self, storage: Storage) -> Host:
        """Return a storage's memory, which several results may share."""
        found = self.seen.get(id(storage))
        if found is None:
            found = self.seen[id(storage)] = self._owned(storage.node, storage.layout.strides)
            self.alive.append(storage)
        return found

    def _owned(self, node: Node, order: Any) -> Host:
        """Return the value of a node in memory that no other result uses."""
        host = self.recorder.host(node)
        taken = any(host is other for other in self.hosts)
        self.hosts.append(host)
        if (placed := in_order(host, order)) is not host:
            return placed  # libraries lay out their factors as they like
        shared = taken or 0 in host.strides  # a library repeats one number without copying it
        if shared or not host.flags.writeable or isinstance(host.base, np.ndarray):
            return host.copy(order="K")
        return host

    def given_to_numpy(self, value: Host) -> Any:
        """Return the result array for an exported array or a view of one; else None."""
        for array, held in self.recorder.exports.values():
            if held() is value:
                return self._array(array)
        return value if self.open(value) else None

    def open(self, value: Host) -> bool:
        """Let an array that NumPy made of an export be written into; return whether it is one."""
        lengths = zip(value.shape, value.strides, strict=True)
        found = all(step or length < 2 for length, step in lengths) and any(
            np.may_share_memory(value, memory)
            for array, _ in self.recorder.exports.values()
            for memory in (array._storage.source, array._node.host)
            if memory is not None
        )
        if found:
            with suppress(ValueError):  # the caller's array is read-only
                _unlock(value)
        return found

    def _exported(self, value: Host) -> Any:
        """Return the caller's own array for what ``np.asarray`` returned for an argument."""
        if value.flags.writeable or id(value) in self.seen:
            return value
        found = self.given_to_numpy(value)
        if found is not None:
            return found
        for array in self.recorder.arguments:
            if value is array._storage.original.host:
                return array._storage.source
        base = value.base
        if not isinstance(base, np.ndarray) or base.base is not None or 0 in value.strides:
            return value
        if not base.flags.writeable or value.nbytes < base.nbytes:
            return value  # NumPy made it read-only: a diagonal, the imaginary part of real numbers
        return value.copy(order="K")


@contextmanager
def _writable(array: Host) -> Iterator[None]:
    """Let a read-only array be written into, and for that the one whose memory it uses."""
    closed = _unlock(array)
    try:
        yield
    finally:
        for one in closed:
            one.flags.writeable = False


def _unlock(array: Host) -> list[Host]:
    """Make an array writable, and what it views; return those that were not."""
    closed: list[Host] = []
    owner: Any = array
    while isinstance(owner, np.ndarray) and not owner.flags.writeable:
        closed.append(owner)
        owner = owner.base
    for one in reversed(closed):
        one.flags.writeable = True
    return closed
