"""Chrome's trace events with the names of PyTorch's Kineto, which Perfetto, HTA and others read.

Of more than `MOST_SPANS` spans only the longest and their ancestors are written;
``gpuforge.left_out`` in the file is the number of the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpuforge import __version__
from gpuforge.profiler import json_text, names
from gpuforge.profiler.model import DEVICE, HOST, LABELS, NO_PARENT, OVERHEAD, Profile, Series, Span
from gpuforge.profiler.summary import started
from gpuforge.profiler.timeline import Bar, Row, longest, row_names, rows

SUMMARY = "for Perfetto, chrome://tracing, TensorBoard and Holistic Trace Analysis"
SUFFIX = ".trace.json"

MOST_SPANS = 200_000
MOST_READINGS = 10_000
"""Most readings of one series."""
_COPIES = {"to device": "Memcpy HtoD", "from device": "Memcpy DtoH"}
_Event = dict[str, Any]


class Tracks:
    """Maps lanes of the profile to processes, threads and streams of the trace.

    As in Kineto, the process id of a device queue is the number of its device, and its thread id is
    that of the stream. Devices are numbered in the order of their lanes.
    """

    def __init__(self, profile: Profile, found: list[Row]) -> None:
        self.lanes = profile.lanes
        self.devices: list[str] = []
        for row in found:
            device = self.lanes[row.lane].name.rpartition(" ")[0] or self.lanes[row.lane].name
            if self.is_device(row.lane) and device not in self.devices:
                self.devices.append(device)

    def is_device(self, lane: int) -> bool:
        """Return whether a lane is a queue of a device."""
        return self.lanes[lane].kind == "device"

    def process(self, lane: int) -> int:
        """Return the process id of a lane; those of threads differ from those of devices."""
        name, _, process = self.lanes[lane]
        if self.is_device(lane):
            return self.devices.index(name.rpartition(" ")[0] or name)
        return process if process >= len(self.devices) else len(self.devices) + process


def render(profile: Profile) -> str:
    """Return the trace as one JSON document."""
    spans = profile.spans
    found = rows(spans, longest(spans, MOST_SPANS))
    tracks = Tracks(profile, found)
    shown = sum(len(row.bars) for row in found)
    began = started(profile)
    return json_text.dump(
        {
            "schemaVersion": 1,
            "deviceProperties": [
                {"id": place, "name": names.line(name)} for place, name in enumerate(tracks.devices)
            ],
            "baseTimeNanoseconds": round(began.timestamp() * 1e6) * 1000 if began else 0,
            "displayTimeUnit": "ns",
            "traceName": names.line(profile.program),
            "gpuforge": {
                "version": __version__,
                "complete": profile.complete,
                "left_out": len(spans) - shown,
                "notes": json_text.clean(profile.notes),
            },
            "traceEvents": list(_events(profile, found, tracks)),
        }
    )


def _events(profile: Profile, found: list[Row], tracks: Tracks) -> Iterator[_Event]:
    calls = {
        span.parent
        for row in found
        if tracks.is_device(row.lane)
        for span in map(profile.spans.__getitem__, (bar.span for bar in row.bars))
        if span.parent != NO_PARENT
    }
    host: dict[int, tuple[int, int, int]] = {}
    titles = row_names(profile, found)
    yield from _process_names(found, tracks, profile)
    # Threads first, so that the call that started a device's span is known.
    order = sorted(range(len(found)), key=lambda number: tracks.is_device(found[number].lane))
    for number in order:
        row = found[number]
        process, thread = tracks.process(row.lane), number + 1
        yield _about("thread_name", process, thread, name=titles[number])
        for bar in row.bars:
            span = profile.spans[bar.span]
            event = _event(span, bar, process, thread)
            if tracks.is_device(row.lane):
                event["args"] |= {"device": process, "stream": thread}
                event["args"] |= {"correlation": span.parent + 1} if span.parent in host else {}
                yield event
                yield from _flow(host.get(span.parent), event, bar.span + 1)
            else:
                if bar.span in calls:
                    event["cat"] = "cuda_runtime"
                    event["args"]["correlation"] = bar.span + 1
                    host[bar.span] = process, thread, bar.start_ns
                yield event
    threads = (row.lane for row in found if not tracks.is_device(row.lane))
    program = next(map(tracks.process, threads), len(tracks.devices))
    for series in profile.series:
        on_track = series.device in tracks.devices
        process = tracks.devices.index(series.device) if on_track else program
        yield from _counters(series, process)


def _event(span: Span, bar: Bar, process: int, thread: int) -> _Event:
    args = json_text.clean(span.attributes)
    about: _Event = {"External id": span.parent + 1 if span.label == DEVICE else span.index + 1}
    if span.bytes:
        about["bytes"] = span.bytes
    if span.count != 1:
        about["merged spans"] = span.count
    if span.label != DEVICE:
        about["label"] = LABELS[span.label]
    name, category = names.text(span.name), _category(span)
    if category == "gpu_memcpy":
        about["name"], name = name, _COPIES[span.attributes["direction"]]
    return {
        "ph": "X", "cat": category, "name": name, "pid": process, "tid": thread,
        "ts": bar.start_ns / 1e3, "dur": (bar.end_ns - bar.start_ns) / 1e3, "args": args | about,
    }  # fmt: skip


def _category(span: Span) -> str:
    if span.label == DEVICE:
        direction = span.attributes.get("direction")
        return "gpu_memcpy" if isinstance(direction, str) and direction in _COPIES else "kernel"
    if span.label == HOST:
        return "cpu_op" if "operation" in span.attributes else "user_annotation"
    return "cpu_op" if span.label == OVERHEAD else "cuda_runtime"


def _flow(start: tuple[int, int, int] | None, event: _Event, number: int) -> Iterator[_Event]:
    """Yield the flow arrow from a call on a thread to the device's work for it."""
    if start is None:
        return
    flow = {"cat": "ac2g", "name": "ac2g", "id": number}
    process, thread, at_ns = start
    yield {"ph": "s", **flow, "pid": process, "tid": thread, "ts": at_ns / 1e3}
    end = {name: event[name] for name in ("pid", "tid", "ts")}
    yield {"ph": "f", "bp": "e", **flow, **end}


def _process_names(found: list[Row], tracks: Tracks, profile: Profile) -> Iterator[_Event]:
    program = names.line(profile.program) or "program"
    titles = {
        tracks.process(row.lane): (
            names.line(tracks.devices[tracks.process(row.lane)])
            if tracks.is_device(row.lane)
            else program
        )
        for row in found
    }
    for process, title in titles.items():
        yield _about("process_name", process, 0, name=title)
        # Show programs above devices.
        sort = process if process >= len(tracks.devices) else process + 10**6
        yield _about("process_sort_index", process, 0, sort_index=sort)


def _about(kind: str, process: int, thread: int, **args: object) -> _Event:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "ts": 0, "args": args}


def _counters(series: Series, process: int) -> Iterator[_Event]:
    """Yield the readings of a series, only every nth of them if there are too many."""
    name = names.line(f"{series.device} {series.name}")
    step = -(-len(series.values) // MOST_READINGS) or 1
    for time, value in zip(series.times_ns[::step], series.values[::step], strict=False):
        if (sound := json_text.clean(value)) is not None:
            yield {
                "ph": "C", "name": name, "pid": process, "tid": 0, "ts": time / 1e3,
                "args": {names.line(series.unit) or "value": sound},
            }  # fmt: skip
