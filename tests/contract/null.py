"""A device that accounts: computes by NumPy, counts what it holds, refuses what it is told to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpuforge.detect.free_memory import FreeMemory
from gpuforge.errors import DeviceOutOfMemory
from gpuforge.runtime.array.table import OPERATIONS
from gpuforge.runtime.backends import Array, Backend
from gpuforge.runtime.lowering.contract import Lowering

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
    refused : operations that it is said not to do as NumPy, with the reason
    """

    put_bytes: int = 0
    got_bytes: int = 0
    waits: int = 0
    releases: int = 0
    free_percent: int | None = None
    limit_bytes: int = 2**62
    refused: dict[str, str] = field(default_factory=dict)


class NullBackend(Backend):
    version = "1"

    def __init__(self, name: str = "null:gpu:0") -> None:
        self.name = name
        self.account = Account()
        self.lowering = Lowering(
            "null",
            {name: _on_device(row.compute) for name, row in OPERATIONS.items()},
            frozenset("?bBhHiIlLqQefdFD"),
            guards={"add": lambda left, right: False},  # kept on NumPy by "exact" numerics
            refused={name: self._refusal(name) for name in OPERATIONS},
        )

    def _refusal(self, name: str) -> Any:
        return lambda dtype: self.account.refused.get(name, "")

    def put(self, array: Array) -> Any:
        if array.nbytes > self.account.limit_bytes:
            raise DeviceOutOfMemory(f"{array.nbytes} B asked of {self.account.limit_bytes} B")
        self.account.put_bytes += array.nbytes
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


def _on_device(compute: Any) -> Any:
    def row(*given: Any) -> Any:
        made = compute(*given)
        if isinstance(made, tuple):
            return tuple(np.array(one).view(NullArray) for one in made)
        return np.array(made).view(NullArray)

    return row


def open_devices() -> list[Backend]:
    return [NullBackend()]
