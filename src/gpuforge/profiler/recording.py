"""``gf.profile``: records this program in memory or to a session file."""

from __future__ import annotations

import atexit
import io
import os
import platform
import sys
import threading
import time
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from time import perf_counter_ns, thread_time_ns
from typing import IO, TYPE_CHECKING, Any

from gpuforge import __version__, flow, trace
from gpuforge.errors import WorkloadError
from gpuforge.installation import loaded
from gpuforge.profiler import listeners, watching
from gpuforge.profiler.lanes import Lanes
from gpuforge.profiler.model import ITSELF, PROGRAM, Placement, Profile, Series
from gpuforge.profiler.session_file.writer import Writer
from gpuforge.profiler.session_path import check_target
from gpuforge.profiler.surroundings import Surroundings

if TYPE_CHECKING:
    from pathlib import Path

    from gpuforge.profiler.summary import Bottleneck

SAMPLE_SECONDS, SAMPLES_PER_FLUSH, FLUSHES_BEFORE_MACHINE = 0.2, 5, 3
"""Interval of memory readings; number of readings between flushes; and number of flushes before the
machine is read, too, because loading the readers takes some 40 ms of CPU time."""
_PATIENCE_SECONDS = 1.0
_LIBRARIES = "numpy torch jax cupy mlx dpnp pyopencl scipy".split()
_running: list[Recording] = []


def profile(path: str | os.PathLike[str] | None = None, *, peaks: bool = False) -> Recording:
    """Return a recording of this program, for a ``with`` block or from ``start`` to ``stop``.

    Parameters
    ----------
    path
        The session file (``.gfp``) to write. It is flushed about once a second and readable up to
        the last flush, whatever ends the program. None keeps the profile in memory.
    peaks
        Whether to measure the links of the used devices at the end, which takes about 50 ms,
        unless ``gpuforge calibrate`` has measured them.

    Returns
    -------
    Recording
        Once it has ended, gives access to the profile: ``summary()``, ``bottlenecks(5)``,
        ``export("json", path)``, ``profile``.
    """
    return Recording(path, peaks=peaks)


class Recording:
    """A recording of this process, running or finished.

    Attributes
    ----------
    path : the session file; None if recorded in memory
    problem : why the profile is incomplete; empty if everything was written
    gave_way : whether it ended because the program began a recording of its own

    Parameters
    ----------
    by
        What records, for the header and for the error of a second recording.
    gives_way
        Whether to end when another recording starts, which otherwise fails.
    """

    def __init__(
        self, path: str | os.PathLike[str] | None = None, *, by: str = ITSELF, peaks: bool = False,
        gives_way: bool = False,
    ) -> None:  # fmt: skip
        self._target = os.fspath(path) if path is not None else None
        self._written: str | None = None
        self.problem = ""
        self.gave_way = False
        self._by, self._gives_way = by, gives_way
        self._measures = peaks
        self._process = 0
        self._profile: Profile | None = None

    def start(self) -> Recording:
        """Start recording.

        Raises
        ------
        WorkloadError
            If this process is already being recorded, or the file cannot be written.
        """
        _running[:] = [one for one in _running if one._process == os.getpid()]  # after a fork
        if _running and _running[0]._gives_way:
            if self._target is not None:
                check_target(self._target)  # the other would end for nothing
            _running[0]._give_way()
        if _running:
            raise WorkloadError(
                f"this process is already being profiled, by {_running[0]._by}",
                hint="stop that profile before starting another, or record in one of the ways only",
            )
        self._process, self._begun_by = os.getpid(), threading.get_ident()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._lanes = Lanes(self._process)
        self._counts: Counter[str] = Counter()
        self._notes: list[str] = []
        self._memory = Series("memory", "bytes")
        self._written_samples = 0
        self._around = Surroundings(self._measures)
        self._spans = self._counted = self._cost_ns = 0
        trace.enable(False)
        flow.forget()
        self._span_ns, self._counted_ns = _measure_costs()
        self._profile, self.problem = None, ""
        watching.ready()  # before the clock runs
        self._begin_ns, self._started = perf_counter_ns(), time.time()
        self._memory_file: IO[bytes] = io.BytesIO()
        target = self._target
        # The program may change its folder.
        self._written = None if target is None else os.path.abspath(target)
        into = self._memory_file if target is None else target
        self._writer = Writer(into, self._full_header(), self._begin_ns)
        _running.append(self)
        self._sample()
        trace.drainer = self._flush_inline
        trace.enable()
        self._stop_listeners = listeners.attach()
        self._watched = watching.begin(self._watch)
        atexit.register(self.stop)
        self._whole = trace.span(PROGRAM)
        self._whole.__enter__()
        return self

    def stop(self) -> None:
        """End the recording; does nothing in a forked child or when already ended."""
        if self not in _running or os.getpid() != self._process:
            return
        atexit.unregister(self.stop)
        self._whole.__exit__(None, None, None)
        end_ns = perf_counter_ns()
        trace.enable(False)
        self._stop_listeners()
        self._ended.set()
        try:
            self._watched.wait()
            self._sample()
            self.flush()
            self._around.settle()
        except Exception as error:  # noqa: BLE001 - another recording can start all the same
            self._failed(error)
        trace.drainer = None
        _running.remove(self)
        notes = self._notes + ([self.problem] if self.problem else [])
        try:
            self._writer.tell(self._full_header())  # now with libraries loaded since the start
            self._writer.close(end_ns - self._begin_ns, self._cost(), self._counts, notes)
        except OSError as error:
            self._failed(error)
        if self._target is not None:
            self._close()

    def _give_way(self) -> None:
        self.gave_way = True
        self._notes.append("this profile ends where the program began one of its own")
        self.stop()

    def _close(self) -> None:
        """Close the file, even if remaining data cannot be written."""
        try:
            self._writer.file.close()
        except OSError as error:
            self._failed(error)

    def __enter__(self) -> Recording:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def path(self) -> Path | None:
        """The session file; None if recorded in memory."""
        from pathlib import Path  # here: importing it takes longer than starting a recording

        return None if self._target is None else Path(self._target)

    @property
    def profile(self) -> Profile:
        """The profile, once the recording has ended.

        Raises
        ------
        WorkloadError
            If the recording has not ended, or its file cannot be read.
        """
        if self in _running or not self._process:
            raise WorkloadError(
                "the profile has not been recorded yet",
                hint="use it after the 'with' block, or after stop()",
            )
        if self._profile is None:
            self._memory_file.seek(0)
            reader = import_module("gpuforge.profiler.session_file.reader")
            self._profile = reader.read(self._written or self._memory_file)
        return self._profile

    def summary(self) -> str:
        """Return a summary of where the time went, in a few lines."""
        from gpuforge.profiler.summary import summary

        return summary(self.profile)

    def bottlenecks(self, most: int = 5) -> list[Bottleneck]:
        """Return the `most` call paths with the most own time, longest first."""
        from gpuforge.profiler.summary import bottlenecks

        return bottlenecks(self.profile, most)

    def export(self, format: str, path: str | os.PathLike[str]) -> None:  # noqa: A002
        """Write the profile in another format: ``json``, ``chrome-trace``, ``speedscope``, ...

        Raises
        ------
        UnknownName
            If there is no such format.
        WorkloadError
            If the file cannot be written, or is a session file.
        """
        formats = import_module("gpuforge.profiler.formats")
        formats.write(path, formats.render(self.profile, format))

    def flush(self) -> None:
        """Collect and write everything recorded so far."""
        with self._lock:
            self._drain()

    def _flush_inline(self) -> None:
        """Flush from the program's own code, unless a flush is already running.

        A program that creates spans faster than they are written has to wait, but only for so
        long, since a span may end in a finalizer that runs during a flush on the same thread.
        """
        pressing = trace.waiting() > 2 * trace.MOST_SPANS
        if self._lock.acquire(timeout=_PATIENCE_SECONDS if pressing else 0):
            try:
                self._drain()
            finally:
                self._lock.release()

    def _drain(self) -> None:
        start = thread_time_ns()  # CPU time, so that waiting is not counted
        kept = trace.drain()
        self._counts.update(kept.counts)
        self._notes += kept.notes
        self._spans += len(kept.spans)
        self._counted += sum(one.times for one in kept.repeated)
        self._around.saw(kept)
        try:
            self._write(kept)
        except OSError as error:
            self._failed(error)
        self._cost_ns += thread_time_ns() - start

    def _write(self, kept: trace.Trace) -> None:
        spans, elsewhere = kept.spans, self._lanes.place(kept.spans, kept.standing)
        long_ns = SAMPLE_SECONDS * 1e9
        changed = [n for n, s in enumerate(spans) if s[5] - s[4] >= long_ns or s[2] in elsewhere]
        for n in changed:
            thread = elsewhere.get(spans[n].number, spans[n].thread)
            spans[n] = spans[n]._replace(thread=thread, attributes=self._with_peak(spans[n]))
        standing = [
            span._replace(thread=elsewhere.get(span.number, span.thread)) for span in kept.standing
        ]
        self._writer.write(
            spans, standing, self._lanes.named(kept.lanes),
            self._placements(kept), self._series(kept.readings),
            [(self._on_lane(one.span, elsewhere), one.times) for one in kept.repeated],
        )  # fmt: skip
        self._writer.reached(perf_counter_ns() - self._begin_ns, self._cost())

    def _cost(self) -> int:
        """Return the cost of the recording so far in nanoseconds."""
        counted = self._counted_ns * self._counted
        return self._cost_ns + self._span_ns * self._spans + counted

    @staticmethod
    def _on_lane(span: trace.Span, elsewhere: dict[int, int]) -> trace.Span:
        """Return a span that stands for several, on the lane of its parent."""
        return span._replace(thread=elsewhere.get(span.parent, span.thread))

    def _with_peak(self, span: trace.Span) -> dict[str, Any] | None:
        """Return a span's attributes with the highest memory reading during the span."""
        times, begin = self._memory.times_ns, self._begin_ns
        first = bisect_left(times, span.start_ns - begin)
        last = bisect_right(times, span.end_ns - begin)
        if first == last:
            return span.attributes
        peak = int(max(self._memory.values[first:last]))
        return {**(span.attributes or {}), "memory_peak_bytes": peak}

    def _placements(self, kept: trace.Trace) -> list[Placement]:
        """Return one placement for each choice since the last flush, with its calls added up."""
        made = [(choice, seconds, 1, transfer) for choice, seconds, transfer in kept.choices]
        made += [
            (one.choice, (one.span.end_ns - one.span.start_ns) / 1e9, one.times, 0.0)
            for one in kept.repeated if one.choice is not None
        ]  # fmt: skip
        together: dict[int, list[Any]] = {}
        for choice, seconds, calls, transfer in made:
            known = together.get(id(choice))
            if known is None:
                known = together[id(choice)] = [choice, 0.0, 0, 0.0]
            known[1] += seconds
            known[2] += calls
            known[3] += transfer
        return [
            Placement(
                choice.at_ns - self._begin_ns, choice.function, choice.signature, choice.backend,
                seconds, calls, choice.predicted_seconds, transfer, choice.reason,
            )
            for choice, seconds, calls, transfer in together.values()
        ]  # fmt: skip

    def _series(self, readings: list[trace.Reading]) -> list[Series]:
        new = slice(self._written_samples, None)
        times, values = self._memory.times_ns[new], self._memory.values[new]
        self._written_samples += len(times)
        found = {("memory", "host"): Series("memory", "bytes", "host", times, values)}
        for one in readings:
            series = found.setdefault(
                (one.name, one.device), Series(one.name, one.unit, one.device)
            )
            series.times_ns.append(one.at_ns - self._begin_ns)
            series.values.append(one.value)
        return [*(one for one in found.values() if one.times_ns), *self._around.series()]

    def _failed(self, error: Exception) -> None:
        """Record the problem and continue: the program must not fail because of its profile."""
        if not self.problem:
            why = (error.strerror if isinstance(error, OSError) else "") or error
            what = "profile" if self._target is None else f"session file {self._target!r}"
            self.problem = f"the {what} is incomplete: writing to it failed: {why}"
            import_module("gpuforge.log").logger("profiler").warning("%s", self.problem)

    def _watch(self) -> None:
        """Read memory every `SAMPLE_SECONDS`; publish the open span and flush now and then."""
        turn = 0
        while not self._ended.wait(SAMPLE_SECONDS):
            self._sample()
            turn += 1
            if turn >= SAMPLES_PER_FLUSH:
                _show(trace.current(self._begun_by))
            if turn % SAMPLES_PER_FLUSH == 0:
                if turn >= SAMPLES_PER_FLUSH * FLUSHES_BEFORE_MACHINE:
                    start = thread_time_ns()
                    self._around.sample(perf_counter_ns() - self._begin_ns)
                    self._cost_ns += thread_time_ns() - start
                self.flush()
        if turn >= SAMPLES_PER_FLUSH:
            _show("")

    def _sample(self) -> None:
        start, now = thread_time_ns(), perf_counter_ns()
        used = _read_memory()
        if isinstance(used, int):
            self._memory.times_ns.append(now - self._begin_ns)
            self._memory.values.append(float(used))
        elif used not in self._notes:
            self._notes.append(used)
        self._cost_ns += thread_time_ns() - start

    def _full_header(self) -> dict[str, Any]:
        libraries = {name: module for name in _LIBRARIES if (module := loaded(name)) is not None}
        return {
            "program": [sys.executable, *sys.orig_argv[1:]],
            "started": self._started,
            "gpuforge": __version__,
            "python": platform.python_version(),
            "platform": f"{platform.system()}-{platform.release()}-{platform.machine()}",
            "versions": {
                name: str(module.__version__)
                for name, module in libraries.items()
                if hasattr(module, "__version__")
            },
            "cost_ns_per_span": self._span_ns,
            "recorded_by": self._by,
            **self._around.header(),
        }


def _show(span: str) -> None:
    """Publish the current span; the module is imported late, as short programs do not need it."""
    import_module("gpuforge.published").now(span)


def _measure_costs() -> tuple[int, int]:
    """Return what a span costs in this process, and a counted one, in nanoseconds.

    Each is the minimum of a few runs.
    """
    trace.restart()
    trace.enable()
    repeating = trace.repeating(_measure_costs, "calibration")

    def kept() -> None:
        with trace.span("calibration"):
            pass

    def counted() -> None:
        repeating.is_counted()
        repeating.add(trace.latest(), {}, None, perf_counter_ns(), perf_counter_ns())

    found = [min(_time_each(one) for _ in range(5)) for one in (kept, counted)]
    trace.enable(False)
    trace.restart()
    return found[0], found[1]


def _time_each(function: Callable[[], None]) -> int:
    start = perf_counter_ns()
    for _ in range(40):
        function()
    return (perf_counter_ns() - start) // 40


def _read_memory() -> int | str:
    """Return the resident memory of this process in bytes, or why it is unknown."""
    if sys.platform != "linux":
        return f"the memory of the process was not read: this is not supported on {sys.platform}"
    try:
        with open("/proc/self/statm", "rb", buffering=0) as file:
            pages = int(file.read().split()[1])
    except OSError as error:
        return f"the memory of the process was not read: {error.strerror or error}"
    return pages * os.sysconf("SC_PAGE_SIZE")
