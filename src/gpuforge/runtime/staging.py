"""Large copies between pageable host memory and a device, through two page-locked chunks.

While a device moves one chunk, on a separate stream, the host fills or empties the other. Before a
chunk is reused, and before a copy returns, an event is waited for, so a returned copy is complete
on every stream. Nothing is staged before `check` has compared it with the library's plain copy, bit
for bit and by time.

Sources: CUDA C++ Best Practices Guide, "Pinned Memory" and "Asynchronous and Overlapping Transfers
with Computation"; CUDA Runtime API, "API synchronization behavior" (pageable memory is staged).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from operator import methodcaller
from time import perf_counter
from typing import Any

import numpy as np

from gpuforge.dataclass import dataclass

CHUNK_BYTES = 4 << 20
LEAST_BYTES = 2 * CHUNK_BYTES
"""Smaller copies have nothing to overlap with."""
WAYS = TO_DEVICE, TO_HOST = "to the device", "to the host"
_CHECK_BYTES = 6 * CHUNK_BYTES + 12_345
_TURNS, _IN_A_ROW = 5, 4
_GAIN = 0.9
"""Copies are staged in a direction if they take at most this share of the time of direct ones.

Source: CuPy's copies to the host on an H200 machine took the same time at 24 MiB, and 1.6 times as
long at 10 to 16 MiB.
"""


@dataclass(frozen=True)
class Lane:
    """A library's primitives for staged copies; memory is bytes that can be sliced.

    Attributes
    ----------
    chunks : two buffers of `CHUNK_BYTES` in page-locked memory of the host
    begin : makes later copies wait for the current stream
    queue : (target, source) submits an asynchronous copy between a chunk and the device
    mark : returns an event after all copies submitted so far
    wait : (event) blocks until it has occurred
    copy : (target, source) copies from host memory to host memory
    """

    chunks: tuple[Any, Any]
    begin: Callable[[], Any]
    queue: Callable[[Any, Any], Any]
    mark: Callable[[], Any]
    wait: Callable[[Any], Any] = methodcaller("synchronize")
    copy: Callable[[Any, Any], Any] = np.copyto


class Staging:
    """The staged copies of one device; one at a time, concurrent ones are plain copies.

    Attributes
    ----------
    refused : direction -> why copies are not staged; empty if they are
    """

    def __init__(self, open_lane: Callable[[], Lane]) -> None:
        self.refused = dict.fromkeys(WAYS, "not checked")
        self._open_lane = open_lane
        self._lane: Lane | None = None
        self._lock = threading.Lock()

    def takes(self, way: str, count: int) -> bool:
        """Return whether copies of `count` bytes in a direction are staged."""
        return count >= LEAST_BYTES and not self.refused[way]

    def copy(self, way: str, host: Any, device: Any) -> bool:
        """Copy all bytes between `host` and `device`; return False if a plain copy is needed."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            lane, self._lane = self._lane or self._open_lane(), None
            lane.begin()
            _move(lane, way, host, device)
            self._lane = lane  # only now: after an interruption the chunks must not be reused
        except Exception as error:  # noqa: BLE001 - whatever it raises, the plain copy settles it
            self.refused[way] = f"{type(error).__name__}: {error}"[:160]
            return False
        else:
            return True
        finally:
            self._lock.release()

    def link_seconds(self, way: str, device: Any) -> float:
        """Return the seconds of the link alone for `device`, `CHUNK_BYTES` of device memory.

        The host's part is page-locked, so nothing is staged; copies run back to back.
        """
        lane = self._open_lane()
        pair = (device, lane.chunks[0]) if way == TO_DEVICE else (lane.chunks[0], device)
        lane.begin()
        times = []
        for _ in range(1 + _TURNS):
            start = perf_counter()
            for _ in range(_IN_A_ROW):
                lane.queue(*pair)
            lane.wait(lane.mark())
            times.append((perf_counter() - start) / _IN_A_ROW)
        return min(times[1:])


def _move(lane: Lane, way: str, host: Any, device: Any) -> None:
    """Copy chunk by chunk, with two in flight."""
    under_way: dict[int, tuple[Any, Any, Any]] = {}

    def land(place: int) -> None:
        event, part, chunk = under_way[place]
        lane.wait(event)
        if way == TO_HOST:
            lane.copy(part, chunk)
        del under_way[place]

    try:
        for turn, start in enumerate(range(0, len(host), CHUNK_BYTES)):
            part = host[start : start + CHUNK_BYTES]
            there = device[start : start + len(part)]
            chunk = lane.chunks[turn % 2][: len(part)]
            if turn > 1:
                land(turn % 2)
            if way == TO_DEVICE:
                lane.copy(chunk, part)
            lane.queue(*((there, chunk) if way == TO_DEVICE else (chunk, there)))
            under_way[turn % 2] = (lane.mark(), part, chunk)
        for place in sorted(under_way, key=lambda place: place == turn % 2):
            land(place)
    finally:
        for event, *_ in under_way.values():
            lane.wait(event)


def plain_copies(backend: Any) -> list[str]:
    """Return which large copies of a device could be staged but are plain, and why."""
    refused = backend.staging.refused.items() if backend.staging else ()
    return [f"{backend.name}: staged copies {way}: {reason}" for way, reason in refused if reason]


def check(backend: Any) -> None:
    """Enable staged copies in the directions in which they are correct and faster."""
    try:
        verdicts = _verdicts(backend)
    except Exception as error:  # noqa: BLE001 - a device may fail in any way, memory included
        verdicts = dict.fromkeys(WAYS, f"{type(error).__name__}: {error}"[:160])
    backend.staging.refused = verdicts


def _verdicts(backend: Any) -> dict[str, str]:
    """Return for each direction why copies are not staged; empty if they are."""
    values = np.random.default_rng(0).integers(0, 256, _CHECK_BYTES, dtype=np.uint8)
    seconds: dict[str, list[tuple[float, ...]]] = {"measured without staging": [], "": []}
    for _ in range(1 + _TURNS):
        for refused, measured in seconds.items():
            backend.staging.refused = dict.fromkeys(WAYS, refused)
            found, took = _round_trip(backend, values)
            for reason in backend.staging.refused.values():
                if reason != refused:
                    return dict.fromkeys(WAYS, reason)
            if not all(np.array_equal(each, ~values) for each in found):
                return dict.fromkeys(WAYS, "a round trip changed the data")
            measured.append(took)
    plain, staged = (np.median(measured[1:], axis=0) for measured in seconds.values())
    return {
        way: f"took {ratio:.2f} times as long as direct copies" if ratio > _GAIN else ""
        for way, ratio in zip(WAYS, staged / plain, strict=True)
    }


def _round_trip(backend: Any, values: Any) -> tuple[tuple[Any, Any], tuple[float, ...]]:
    """Return `values` inverted by the device, without and after waiting; and seconds each way."""
    start = perf_counter()
    there = backend.put(values)
    with backend.scope():
        backend.wait(there)
        put = perf_counter() - start
        unwaited = backend.get(~there)
        made = ~there
        backend.wait(made)
        start = perf_counter()
        found = backend.get(made)
        got = perf_counter() - start
    return (unwaited, found), (put, got)
