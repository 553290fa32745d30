"""Trace an evaluation: its parts, the bytes moved, when the device was busy.

While tracing is off, each part costs only the check whether it is on.
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
"""part -> label of its time; all other parts are overhead"""
DIRECTIONS = {"put": "to device", "get": "from device"}
_LARGE_BYTES, _SAMPLED = 1 << 20, 64
"""Arrays of at least this size are listed one by one, with a checksum of this many elements."""
_MEMORY_EVERY_NS = 50_000_000
"""Minimum time between reads of a device's memory: some libraries take 10 µs for it."""
_read_at: dict[str, int] = {}


def part(what: str, backend: Backend) -> trace.OpenSpan | trace.Nothing:
    """Return a context manager that traces one part of an evaluation as a span."""
    if not trace.enabled:
        return trace.NOTHING
    return trace.within(what, LABELS.get(what, trace.OVERHEAD), backend=backend.name)


def moved(span: trace.OpenSpan | trace.Nothing, backend: Backend, arrays: Sequence[Any]) -> None:
    """Add the bytes that a part moved to its span before it ends; none if memory is shared."""
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
    """Return shape and dtype of the largest array, and its strides if it is not contiguous."""
    largest = max(arrays, key=lambda array: array.nbytes, default=None)
    if largest is None:
        return {}
    said = {"shape": largest.shape, "dtype": largest.dtype.name}
    contiguous = largest.flags.c_contiguous or largest.flags.f_contiguous
    return said if contiguous else {**said, "strides": largest.strides}


def _source(array: Any) -> tuple[int, int, int]:
    """Return an array's address, bytes, and a checksum of some of its elements.

    If these are equal for two transfers, most likely the same unchanged array was moved twice.
    """
    flat = array.reshape(-1, copy=False) if array.flags.c_contiguous else array.flat
    sample = np.asarray(flat[:: max(array.size // _SAMPLED, 1)])
    return array.__array_interface__["data"][0], array.nbytes, crc32(sample.tobytes())


class Running:
    """One traced run of a program on a backend."""

    def __init__(self, backend: Backend, program: Program, lines: Lines) -> None:
        self.backend, self.program, self.lines = backend, program, lines
        self.span = trace.within("run", trace.WAIT, backend=backend.name)

    def __enter__(self) -> Running:
        self.span.__enter__()
        self.timer = self.backend.timer()
        self.start = perf_counter_ns()
        return self

    def call(self, call: Callable[..., Any], given: Sequence[Any]) -> Any:
        """Run the program, with a span per step if it runs step by step."""
        made = _traced_program(self.program, self.lines) if call is self.program else call
        values = made(*given)
        if self.timer is not None:
            self.timer.stop()
        return values

    def __exit__(self, kind: type[BaseException] | None, error: Any, traceback: Any) -> None:
        if kind is None:
            self._record_busy(perf_counter_ns())
        self.span.__exit__(kind, error, traceback)

    def _record_busy(self, end: int) -> None:
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


class _Untraced:
    """A run while tracing is off."""

    __slots__ = ()

    def __enter__(self) -> _Untraced:
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing."""

    @staticmethod
    def call(call: Callable[..., Any], given: Sequence[Any]) -> Any:
        """Run the program."""
        return call(*given)


_UNTRACED = _Untraced()


def run(backend: Backend, program: Program, lines: Lines) -> Running | _Untraced:
    """Return the context of one run of a program; its `call` method runs it."""
    return Running(backend, program, lines) if trace.enabled else _UNTRACED


def _traced_program(program: Any, lines: Lines) -> Any:
    """Return the program with a span around each of its steps."""
    from gpuforge.runtime.evaluation.program import Program

    if type(program) is not Program:  # it runs in another process
        return program
    made = copy(program)
    made.steps = tuple([_traced_step(program, step, lines) for step in program.steps])
    return made


def _traced_step(program: Program, step: Step, lines: Lines) -> Step:
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
    """Trace the memory in use on a device, if its library reports it and it is due."""
    now = perf_counter_ns()
    if device_of(backend.name) == "cpu" or now - _read_at.get(backend.name, 0) < _MEMORY_EVERY_NS:
        return
    _read_at[backend.name] = now
    memory = backend.memory()
    if memory is not None:
        used = memory.total_bytes - memory.free_bytes
        trace.read("memory", "bytes", backend.name, float(used))
