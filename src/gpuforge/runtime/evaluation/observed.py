"""What tracing is told of an evaluation: its parts, the bytes moved, when the device was busy.

While tracing is off nothing of this is done, and each part costs the look whether it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

from gpuforge import trace
from gpuforge.runtime.array.graph import Lines
from gpuforge.runtime.backends import Backend, device_of

if TYPE_CHECKING:
    from gpuforge.runtime.evaluation.program import Program, Step

LABELS = {"put": trace.TRANSFER, "get": trace.TRANSFER, "run": trace.WAIT}
"""part -> what its time is; that of all others is gpuforge's own work"""
DIRECTIONS = {"put": "to device", "get": "from device"}
_LARGE_BYTES, _SAMPLED = 1 << 20, 64
"""Arrays of so many bytes are told one by one; so many of their elements are looked at."""
_MEMORY_EVERY_NS = 50_000_000
"""The memory of a device is not read more often: some libraries take 10 µs for it."""
_read_at: dict[str, int] = {}


def part(what: str, backend: Backend) -> trace.OpenSpan | trace.Nothing:
    """Return what keeps a span around one part of an evaluation."""
    if not trace.enabled:
        return trace.NOTHING
    return trace.within(what, LABELS.get(what, trace.OVERHEAD), backend=backend.name)


def moved(span: trace.OpenSpan | trace.Nothing, backend: Backend, arrays: Sequence[Any]) -> None:
    """Say how many bytes a part moved, which is about to end; none, where memory is shared."""
    if isinstance(span, trace.OpenSpan):
        hosts = [one for one in arrays if isinstance(one, np.ndarray)]
        span.note(direction=DIRECTIONS[span.name], **described(hosts))
        if not backend.on_host:
            large = [_source(host) for host in hosts if host.nbytes >= _LARGE_BYTES]
            span.note(**({"sources": large} if large else {}))
            span.nbytes = nbytes = sum(host.nbytes for host in hosts)
            lane = f"{backend.name} copy"
            trace.keep_device(lane, span.name, span.start, perf_counter_ns(), bytes=nbytes)


def described(arrays: Sequence[Any]) -> dict[str, Any]:
    """Return shape and dtype of the largest array, and its strides where it has gaps."""
    largest = max(arrays, key=lambda array: array.nbytes, default=None)
    if largest is None:
        return {}
    said = {"shape": largest.shape, "dtype": largest.dtype.name}
    contiguous = largest.flags.c_contiguous or largest.flags.f_contiguous
    return said if contiguous else {**said, "strides": largest.strides}


def _source(array: Any) -> tuple[int, int, int]:
    """Return where an array lies, its bytes, and a checksum of some of its elements.

    Two arrays for which this is the same are most likely one that was not written into.
    """
    flat = array.reshape(-1, copy=False) if array.flags.c_contiguous else array.flat
    sample = np.asarray(flat[:: max(array.size // _SAMPLED, 1)])
    return array.__array_interface__["data"][0], array.nbytes, crc32(sample.tobytes())


class Running:
    """One run of a program on a backend, whose device is watched."""

    def __init__(self, backend: Backend, program: Program, lines: Lines) -> None:
        self.backend, self.program, self.lines = backend, program, lines
        self.span = trace.within("run", trace.WAIT, backend=backend.name)

    def __enter__(self) -> Running:
        self.span.__enter__()
        self.timer = self.backend.timer()
        self.start = perf_counter_ns()
        return self

    def call(self, call: Callable[..., Any], given: Sequence[Any]) -> Any:
        """Run the program; its steps are spans where they run one by one."""
        made = _watched(self.program, self.lines) if call is self.program else call
        values = made(*given)
        if self.timer is not None:
            self.timer.stop()
        return values

    def __exit__(self, kind: type[BaseException] | None, error: Any, traceback: Any) -> None:
        if kind is None:
            self._tell_busy(perf_counter_ns())
        self.span.__exit__(kind, error, traceback)

    def _tell_busy(self, end: int) -> None:
        name = self.backend.name
        lane = f"{name} compute"
        if self.timer is not None:
            for kernel, began, ended in self.timer.read():
                trace.keep_device(lane, kernel, max(began, self.start), min(ended, end))
        else:
            trace.keep_device(lane, "run", self.start, end)
            trace.tell(
                f"{name} does not report when its device is busy: its times are measured from the "
                "start of a run until its results are ready"
            )
        _read_memory(self.backend)


class _Unwatched:
    """A run while tracing is off."""

    __slots__ = ()

    def __enter__(self) -> _Unwatched:
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing."""

    @staticmethod
    def call(call: Callable[..., Any], given: Sequence[Any]) -> Any:
        """Run the program."""
        return call(*given)


_UNWATCHED = _Unwatched()


def run(backend: Backend, program: Program, lines: Lines) -> Running | _Unwatched:
    """Return what watches one run of a program; its `call` runs it."""
    return Running(backend, program, lines) if trace.enabled else _UNWATCHED


def _watched(program: Any, lines: Lines) -> Any:
    """Return the program with a span around each of its steps."""
    from gpuforge.runtime.evaluation.program import Program

    if type(program) is not Program:  # it runs in another process
        return program
    made = copy(program)
    made.steps = tuple([_watched_step(program, step, lines) for step in program.steps])
    return made


def _watched_step(program: Program, step: Step, lines: Lines) -> Step:
    function, places, params, place, *rest = step
    name = program.graph.entries[place][0].name
    file, line = lines.get(place, ("", 0))

    def watched(*given: Any) -> Any:
        with trace.within(name, trace.WAIT, operation=name, file=file, line=line) as span:
            result = function(*given)
            span.note(
                output_bytes=getattr(result, "nbytes", None),
                dtype=str(getattr(result, "dtype", "")),
            )
        return result

    return (watched, places, params, place, *rest)  # type: ignore[return-value]


def _read_memory(backend: Backend) -> None:
    """Keep what is in use of a device's memory, where its library tells; not too often."""
    now = perf_counter_ns()
    if device_of(backend.name) == "cpu" or now - _read_at.get(backend.name, 0) < _MEMORY_EVERY_NS:
        return
    _read_at[backend.name] = now
    memory = backend.memory()
    if memory is not None:
        used = memory.total_bytes - memory.free_bytes
        trace.read("memory", "bytes", backend.name, float(used))
