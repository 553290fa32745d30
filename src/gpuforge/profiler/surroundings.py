"""The machine that a recording runs on: its devices, readings and peaks."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from gpuforge import trace
from gpuforge.profiler.gpus import kind_of
from gpuforge.profiler.model import Series

if TYPE_CHECKING:
    from gpuforge.profiler.machine import Watched

_SHORT = "the profile ended before the machine was read, about three seconds after the start"
_NO_BACKEND = "no call ran on a backend"


class Surroundings:
    """The machine as a recording sees it; its readers are loaded when first needed.

    Parameters
    ----------
    measures
        Whether to measure links at the end that were never measured.
    """

    def __init__(self, measures: bool) -> None:
        self._measures = measures
        self._watched: Watched | None = None
        self._unread = _SHORT
        self._peaks: dict[str, Any] = {}
        self._why = "they are looked up when the profile ends"
        self._used: set[str] = set()

    def saw(self, kept: trace.Trace) -> None:
        """Add the backends that were used in a part of the recording."""
        queues = {kept.lanes[span.thread] for span in kept.spans if span[1] == trace.DEVICE}
        self._used.update(queue.rpartition(" ")[0] for queue in queues)

    def sample(self, at_ns: int) -> None:
        """Read the devices and the CPU; a failure ends the readings and is reported as reason."""
        try:
            if self._open():
                self._watched.sample(at_ns)  # type: ignore[union-attr]
        except Exception as error:  # noqa: BLE001 - a driver may fail in any way
            self._fail(error)

    def _open(self) -> bool:
        if self._watched is None and self._unread == _SHORT:
            self._watched = import_module("gpuforge.profiler.machine").Watched()
        return self._watched is not None

    def _fail(self, error: Exception) -> None:
        self._unread = f"{type(error).__name__}: {error}"
        self._watched = None

    def settle(self) -> None:
        """Complete the facts at the end: the GPUs, if one was used, and the peaks."""
        try:
            if any(map(kind_of, self._used)):
                self._open()
            if self._watched is not None:
                self._watched.close()
        except Exception as error:  # noqa: BLE001 - a driver may fail in any way
            self._fail(error)
        self._why = _NO_BACKEND
        if trace.peaks is not None and self._used:
            self._peaks = trace.peaks(sorted(self._used), self._measures)

    def series(self) -> Iterable[Series]:
        """Return the readings since the last call."""
        return self._watched.take() if self._watched is not None else ()

    def header(self) -> dict[str, Any]:
        """Return the machine's part of the profile's header."""
        found, unknown = {}, {}
        if self._watched is None:
            unknown["machine"] = self._unread
        else:
            found["machine"] = self._watched.header()
            unknown.update(self._watched.unknown())
        if self._peaks:
            found["peaks"] = self._peaks
        else:
            unknown["peaks"] = self._why
        return {**found, "unknown": unknown}
