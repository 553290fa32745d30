"""A channel between two processes: messages go over a socket, arrays through shared memory.

Each side writes into one segment of shared memory that the other reads. A segment has no name: its
descriptor is sent over the socket. So there is nothing to unlink, and the kernel frees it when both
processes have ended, however they end.
"""

from __future__ import annotations

import mmap
import os
import pickle
import select
import socket
import struct
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

Host = np.ndarray[Any, Any]
Spec = tuple[str, tuple[int, ...], Literal["C", "F"], int]
"""dtype, shape, order and offset of one array in a segment"""
_HEAD = struct.Struct("=Q?")
"""Length of a message, and whether the descriptor of a new segment is attached."""
_QUIETLY = getattr(socket, "MSG_NOSIGNAL", 0)
"""No SIGPIPE: the program may have restored its default action, which ends the process."""
_ALIGNMENT = 64
_LEAST_BYTES = 1 << 20
_LONGEST_SECONDS = 1e6
"""The longest single wait: the milliseconds of poll() are a C int."""
_KEPT_BYTES = 64 << 20
"""A larger segment is replaced by a smaller one once a message needs at most a quarter of it."""


class Channel:
    """One end of a channel. Not thread-safe: one message at a time."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._written: mmap.mmap | None = None
        self._read: mmap.mmap | None = None

    def send(self, message: Any, arrays: Sequence[Host] = ()) -> None:
        """Send a message and copies of arrays, overwriting the arrays sent before.

        Raises
        ------
        OSError
            If the other side has ended.
        """
        specs, nbytes = _layout(arrays)
        descriptor = self._reserve(nbytes) if arrays else -1
        try:
            for array, place in zip(arrays, _views(self._written, specs), strict=True):
                np.copyto(place, array)
            content = pickle.dumps((message, specs), protocol=5)
            head = _HEAD.pack(len(content), descriptor >= 0)
            handed = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("@i", descriptor))]
            self._socket.sendmsg([head], handed if descriptor >= 0 else [], _QUIETLY)
            self._socket.sendall(content, _QUIETLY)
        finally:
            if descriptor >= 0:
                os.close(descriptor)

    def receive(self, timeout: float | None = None) -> tuple[Any, list[Host]]:
        """Return a message and its arrays, in memory that the next message overwrites.

        Raises
        ------
        TimeoutError
            If nothing came within `timeout` seconds.
        EOFError, OSError
            If the other side has ended.
        """
        if timeout is not None and not self.ready(timeout):
            raise TimeoutError
        head, descriptors, _, _ = socket.recv_fds(self._socket, _HEAD.size, 1)
        if descriptors:
            self._read = mmap.mmap(descriptors[0], os.fstat(descriptors[0]).st_size)
            os.close(descriptors[0])
        length, _ = _HEAD.unpack(head + self._exactly(_HEAD.size - len(head)))
        message, specs = pickle.loads(self._exactly(length))
        return message, _views(self._read, specs)

    def ready(self, timeout: float = 0.0) -> bool:
        """Return whether a message, or the end, comes within `timeout` seconds."""
        waiting = select.poll()  # select() takes no descriptor beyond 1023
        waiting.register(self._socket, select.POLLIN)
        while timeout > _LONGEST_SECONDS and not waiting.poll(_LONGEST_SECONDS * 1e3):
            timeout -= _LONGEST_SECONDS
        return bool(waiting.poll(max(0, min(timeout, _LONGEST_SECONDS) * 1e3)))

    def renew(self) -> None:
        """Write the next arrays into a new segment: the other side keeps views of this one."""
        self._written = None

    def close(self) -> None:
        """Close this end, which the other side notices."""
        self._socket.close()
        self._written = self._read = None

    def _exactly(self, length: int) -> bytearray:
        found = bytearray(length)
        rest = memoryview(found)
        while rest:
            count = self._socket.recv_into(rest)
            if not count:
                raise EOFError
            rest = rest[count:]
        return found

    def _reserve(self, nbytes: int) -> int:
        """Reserve `nbytes`; return a new segment's descriptor, or -1 if the old one suffices."""
        room = len(self._written) if self._written else 0
        if nbytes <= room and not (room > _KEPT_BYTES and nbytes <= room // 4):
            return -1
        room = max(_LEAST_BYTES, 1 << (nbytes - 1).bit_length())
        descriptor = anonymous_file("gpuforge arrays")
        try:
            os.ftruncate(descriptor, room)
            self._written = mmap.mmap(descriptor, room)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor


def anonymous_file(name: str) -> int:
    """Return the descriptor of a new unnamed file, in memory if possible."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create(name)
    import tempfile

    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _layout(arrays: Sequence[Host]) -> tuple[list[Spec], int]:
    specs: list[Spec] = []
    end = 0
    for array in arrays:
        flags = array.flags
        order: Literal["C", "F"] = "F" if flags.f_contiguous and not flags.c_contiguous else "C"
        specs.append((array.dtype.str, array.shape, order, end))
        end += -(-array.nbytes // _ALIGNMENT) * _ALIGNMENT
    return specs, max(end, 1)


def _views(segment: mmap.mmap | None, specs: Sequence[Spec]) -> list[Host]:
    return [
        np.ndarray(shape, dtype, segment, offset, order=order)
        for dtype, shape, order, offset in specs
    ]
