"""A device that accounts: computes by NumPy, counts what it holds, refuses what it is told to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpuforge.detect.free_memory import FreeMemory
from gpuforge.errors import DeviceOutOfMemory
from gpuforge.runtime.backends import Array, Backend
from gpuforge.runtime.watching import EagerBackend, Library

LIBRARY = "numpy"


class NullArray(np.ndarray[Any, Any]):
    """NumPy's array under another type, as a device's would be."""


@dataclass
class Account:
    """What a null device was asked to do.

    Attributes
    ----------
    put_bytes, got_bytes : moved to and from the device
    waits, releases : how often
    free_percent : of its memory; None where the device does not say
    limit_bytes : a `put` of more raises `DeviceOutOfMemory`
    refused : operations that are declared not exact, with the reason
    """

    put_bytes: int = 0
    got_bytes: int = 0
    waits: int = 0
    releases: int = 0
    free_percent: int | None = None
    limit_bytes: int = 2**62
    refused: dict[str, str] = field(default_factory=dict)


class NullBackend(EagerBackend):
    version = "1"
    writes = True

    def __init__(self, name: str = "null:gpu:0") -> None:
        self.name = name
        self.account = Account()
        self.library = Library(
            "null", np, self.owns, lambda v: v.dtype if self.owns(v) else None,
            lambda name, given: self.account.refused.get(name, ""),
        )  # fmt: skip

    @staticmethod
    def owns(value: Any) -> bool:
        return isinstance(value, NullArray)

    def is_array(self, value: Any) -> bool:
        return isinstance(value, NullArray)

    def put(self, array: Array, *, share: bool) -> Any:
        if array.nbytes > self.account.limit_bytes:
            raise DeviceOutOfMemory(f"{array.nbytes} B asked of {self.account.limit_bytes} B")
        made = super().put(array, share=share)
        self.account.put_bytes += array.nbytes
        made.flags.writeable = not share
        return made

    def _to_device(self, array: Array) -> Any:
        return array.copy(order="K").view(NullArray)

    def get(self, array: Any) -> Array:
        self.account.got_bytes += array.nbytes
        return np.array(array)

    def wait(self, value: Any) -> None:
        self.account.waits += 1

    def exhausted(self, error: BaseException) -> bool:
        return isinstance(error, MemoryError)

    def release(self) -> None:
        self.account.releases += 1

    def memory(self) -> FreeMemory | None:
        free = self.account.free_percent
        return None if free is None else FreeMemory(free, 100)


def open_devices() -> list[Backend]:
    return [NullBackend()]
