"""Summaries of where the time went: in one line, in a few lines, and as bottlenecks."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from gpuforge.profiler import names
from gpuforge.profiler.breakdown import breakdown, total_ns
from gpuforge.profiler.model import DEVICE, LABELS, Profile
from gpuforge.profiler.paths import Path, paths
from gpuforge.profiler.tables import percent
from gpuforge.units import counted, format_bytes, format_ns, format_seconds

INCOMPLETE = "incomplete: the recording ended early; what was written before is shown"
NS = 1e9
_VERSIONS = {"gpuforge": "gpuforge ", "python": "Python ", "platform": ""}


class WhereTime(NamedTuple):
    """The wall time of the recording, divided by what its longest thread did.

    Attributes
    ----------
    thread : name of the thread
    wall_ns : wall time of the recording
    part_ns : time of ``host``, ``wait``, ``transfer``, ``overhead`` and ``unexplained`` (no span)
    overlap_ns : by how much the thread's spans exceed the wall time, if asyncio tasks or merged
        spans overlap; the parts add up to the sum of both
    """

    thread: str
    wall_ns: int
    part_ns: dict[str, int]
    overlap_ns: int

    @property
    def percent(self) -> dict[str, int]:
        """The parts in whole percent, rounded so that they add up to 100."""
        whole = sum(self.part_ns.values())
        if not whole:
            return dict.fromkeys(self.part_ns, 0)
        found = {name: 100 * value // whole for name, value in self.part_ns.items()}
        rest = sorted(self.part_ns, key=lambda name: 100 * self.part_ns[name] % whole, reverse=True)
        for name in rest[: 100 - sum(found.values())]:
            found[name] += 1
        return found


def where_time(profile: Profile) -> WhereTime | None:
    """Return where the time went, or None if no thread has a span."""
    threads = [part for part in breakdown(profile) if profile.lanes[part.lane].kind == "thread"]
    if not threads:
        return None
    part = max(threads, key=lambda part: part.wall_ns)
    wall = max(profile.wall_ns, part.wall_ns)
    covered = sum(part.label_ns[:DEVICE])
    found = {name: part.label_ns[label] for label, name in enumerate(LABELS[:DEVICE])}
    found["unexplained"] = max(wall - covered, 0)
    return WhereTime(profile.lanes[part.lane].name, wall, found, max(covered - wall, 0))


def first_line(profile: Profile) -> str:
    """Return where the time went, in one line: ``2 s: host 61 %, wait 20 %, …``."""
    where = where_time(profile)
    if where is None:
        took = f"{format_ns(profile.wall_ns)}: " if profile.wall_ns else ""
        return f"{took}no spans were recorded"
    shares = ", ".join(f"{name} {share} %" for name, share in where.percent.items())
    return f"{format_ns(where.wall_ns)}: {shares}"


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """A call path of threads with much own time, not counting the paths inside it.

    Attributes
    ----------
    path : the names of the spans, outermost first
    label : the label of most of its own time: ``host``, ``wait``, ``transfer`` or ``overhead``
    seconds : own time of all its spans
    share : share of the wall time; above 1 if several threads run it at once
    count : number of spans
    bytes : bytes that its spans and those inside moved
    errors : number of its spans that an exception ended
    file, line : the place in the user's code; empty and 0 if unknown
    attributes : attributes of its longest span
    """

    path: tuple[str, ...]
    label: str
    seconds: float
    share: float
    count: int
    bytes: int
    errors: int
    file: str
    line: int
    attributes: dict[str, Any]

    def __str__(self) -> str:
        """Return the bottleneck as one line."""
        failed = f", of which {self.errors:,} failed" if self.errors else ""
        return (
            f"{names.path(self.path)}: {format_seconds(self.seconds)} of its own "
            f"({percent(self.share)}, {self.label}) in {counted(self.count, 'span')}{failed}"
        )


def bottlenecks(profile: Profile, n: int = 5) -> list[Bottleneck]:
    """Return the `n` call paths of threads with the most own time, longest first."""
    found = (path for path in paths(profile) if path.lane_kind == "thread" and path.own_ns > 0)
    longest = heapq.nlargest(n, found, key=lambda path: path.own_ns)
    return [_bottleneck(profile, path) for path in longest]


def _bottleneck(profile: Profile, path: Path) -> Bottleneck:
    attributes = profile.spans.attributes.get(path.sample, {})
    file, number = where_written(attributes)
    label = max(range(DEVICE), key=path.own_label_ns.__getitem__)
    return Bottleneck(
        path.names, LABELS[label], path.own_ns / NS, path.own_ns / max(profile.wall_ns, 1),
        path.count, path.bytes, path.errors, file, number, attributes,
    )  # fmt: skip


def where_written(attributes: dict[str, Any]) -> tuple[str, int]:
    """Return the file and line of the user's code in a span's attributes; empty and 0 if none."""
    file, number = attributes.get("file"), attributes.get("line")
    if not (isinstance(file, str) and file and isinstance(number, int) and number > 0):
        return "", 0
    return file, number


def recording(profile: Profile) -> list[str]:
    """Return notes on the recording itself: its spans, cost, counts and limitations."""
    parts = breakdown(profile)
    spans, wall = profile.spans, max(profile.wall_ns, 1)
    merged = sum(count - 1 for count in spans.count if count > 1)
    cost = f"{format_ns(profile.cost_ns)} ({percent(profile.cost_ns / wall)})"
    took = f"; recording them took about {cost}" if profile.cost_ns else ""
    more = f", {merged:,} more merged into them" if merged else ""
    found = [f"{counted(len(spans), 'span')}{more}{took}"]
    moved = sum(part.bytes for part in parts)
    busy = total_ns(parts)[DEVICE]
    if moved or busy:
        found.append(f"{format_bytes(moved)} moved; devices busy for {format_ns(busy)}")
    where = where_time(profile)
    if where is not None and where.overlap_ns:
        found.append(
            f"spans of {names.line(where.thread, 40)} overlap by "
            f"{format_ns(where.overlap_ns)}; the shares are of their sum"
        )
    found += [f"{names.line(name, 60)}: {count:,}" for name, count in profile.counts.items()]
    found += map(names.line, profile.notes)
    return [INCOMPLETE, *found] if not profile.complete else found


def summary(profile: Profile) -> str:
    """Return where the time went, notes on the recording, and the top five call paths."""
    return "\n".join([first_line(profile), *recording(profile), *map(str, bottlenecks(profile))])


def started(profile: Profile) -> datetime | None:
    """Return the start of the recording in local time; None if unknown."""
    seconds = profile.header.get("started")
    if not isinstance(seconds, int | float) or not 0 <= seconds < 2**33:
        return None
    return datetime.fromtimestamp(seconds)


def ran(profile: Profile) -> str:
    """Return the program, the start, and the versions of gpuforge, Python and the system."""
    began, header = started(profile), profile.header
    said = [
        profile.program or "unknown program",
        began.strftime("%Y-%m-%d %H:%M") if began else "unknown time",
        *(f"{word}{header[key]}" for key, word in _VERSIONS.items() if header.get(key)),
    ]
    return "; ".join(names.line(text, 200) for text in said)


def machine(profile: Profile) -> str:
    """Return the system, the CPU, its cores and memory, and the devices of the machine."""
    header = profile.header
    try:
        host, devices = profile.said("machine")["host"], profile.said("machine")["devices"]
        memory = host.get("memory_total_bytes")
        found = [
            header.get("platform") or host.get("platform"),
            host.get("cpu_model"),
            (cores := host.get("cores")) and counted(cores, "core"),
            memory and format_bytes(memory),
            *[device.get("name") for device in devices],
        ]
    except (TypeError, KeyError, ValueError, AttributeError):  # not as detect writes it
        found = [header.get("platform")]
    return ", ".join(str(part) for part in found if part)
