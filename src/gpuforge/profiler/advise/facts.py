"""The view of a profile that all rules share, computed in one pass."""

from __future__ import annotations

import os
import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from statistics import median
from typing import Any, NamedTuple

from gpuforge.facts import Absent
from gpuforge.profiler.advise.suggestion import Suggestion
from gpuforge.profiler.breakdown import own_ns
from gpuforge.profiler.gpus import gpu_of, name_of
from gpuforge.profiler.model import DEVICE, HOST, ITSELF, LABELS, NO_PARENT, TRANSFER, Profile
from gpuforge.profiler.rates import rate
from gpuforge.profiler.tables import percent
from gpuforge.units import format_bytes, format_ns, significant

NUMPY = "numpy"
Found = Iterator[Suggestion]


@dataclass
class Calls:
    """The calls of one function on one backend.

    Attributes
    ----------
    function, name : full name with the module, and short name
    spans : indices of the calls' spans, in order
    inside : indices of the spans inside them, by name
    work : indices of the device's spans for them
    label_ns : own time by label (`LABELS`) of the calls and the spans inside
    """

    function: str
    backend: str
    name: str
    spans: list[int] = field(default_factory=list)
    work: list[int] = field(default_factory=list)
    inside: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    label_ns: list[int] = field(default_factory=lambda: [0] * len(LABELS))


def short(name: str) -> str:
    """Return a function's name without the functions that enclose its definition."""
    return name.rpartition("<locals>.")[2]


class Move(NamedTuple):
    """One move of an array to a device or back.

    Attributes
    ----------
    array : identity of the array: backend, host address, bytes, and a sample of its contents
    ns : its share of the transfer's time, in proportion to its bytes
    """

    place: int
    direction: str
    array: tuple[Any, ...]
    bytes: int
    ns: float


class Facts:
    """A profile as the rules see it; spans are identified by their index (`place`).

    Attributes
    ----------
    calls : calls by function and backend
    called : the `Calls` of each span that is a call
    transfers : the spans that move bytes
    devices : the computations of each device: the spans of a lane, by its index
    owner : for each span the call that it belongs to, or `NO_PARENT`
    """

    def __init__(self, profile: Profile) -> None:
        self.profile, self.spans = profile, profile.spans
        self.wall_ns = profile.wall_ns
        self.calls: dict[tuple[str, str], Calls] = {}
        self.called: dict[int, Calls] = {}
        self.transfers: list[int] = []
        self.devices: dict[int, list[int]] = defaultdict(list)
        self.owner: list[int] = []
        self.own = own_ns(profile)
        self._collect()

    def _collect(self) -> None:
        spans, names, owner = self.spans, self.spans.names, self.owner
        attributes, lanes = spans.attributes, self.profile.lanes
        for index, (parent, label, name) in enumerate(
            zip(spans.parent, spans.label, spans.name, strict=True)
        ):
            above = NO_PARENT if parent == NO_PARENT else owner[parent]
            said = attributes.get(index)
            function = said.get("function") if said else None
            if said and label == HOST and "backend" in said and "function" not in said:
                function = names[name]  # short programs record no "function" attribute
            if label == DEVICE:
                if not lanes[spans.lane[index]].name.endswith(" copy"):
                    self.devices[spans.lane[index]].append(index)
                    if above >= 0:
                        self.called[above].work.append(index)
                owner.append(above)
                continue
            if label == TRANSFER:
                self.transfers.append(index)
            if function and said and (above < 0 or self.called[above].function != function):
                above = index
                key = function, said.get("backend", NUMPY)
                self.called[index] = self.calls.setdefault(key, Calls(*key, short(names[name])))
                self.called[index].spans.append(index)
            elif above >= 0:
                self.called[above].inside[names[name]].append(index)
            owner.append(above)
            if above >= 0:
                self.called[above].label_ns[label] += self.own[index]

    @property
    def placed(self) -> Iterator[Calls]:
        """The calls that ran on another backend than NumPy."""
        return (calls for calls in self.calls.values() if calls.backend != NUMPY)

    @property
    def as_written(self) -> Iterator[Calls]:
        """The calls that ran on NumPy."""
        return (calls for calls in self.calls.values() if calls.backend == NUMPY)

    # ---------------------------------------------------------------- sums over spans

    def count(self, places: Iterable[int]) -> int:
        """Return the number of spans, counting each merged span as all that it merges."""
        return sum(map(self.spans.count.__getitem__, places))

    def time(self, places: Iterable[int]) -> int:
        """Return their total duration in nanoseconds."""
        return sum(map(self.spans.duration.__getitem__, places))

    def bytes(self, places: Iterable[int]) -> int:
        """Return the total bytes that they moved."""
        return sum(map(self.spans.bytes.__getitem__, places))

    def each(self, place: int) -> float:
        """Return the mean duration in nanoseconds of the spans merged into this one."""
        return self.spans.duration[place] / max(self.spans.count[place], 1)

    def usual(self, places: Iterable[int]) -> float:
        """Return the median duration in nanoseconds; 0 for no spans."""
        return median(times) if (times := list(map(self.each, places))) else 0.0

    def fastest(self, places: Iterable[int]) -> float:
        """Return the shortest duration in nanoseconds."""
        return min(map(self.each, places))

    def end(self, place: int) -> int:
        """Return when a span ended, in nanoseconds since the profile began."""
        return self.spans.start[place] + self.spans.duration[place]

    # ---------------------------------------------------------------- attributes

    def said(self, place: int, key: str, default: Any = None) -> Any:
        """Return an attribute of a span, or of its nearest ancestor that has it."""
        attributes, parent = self.spans.attributes, self.spans.parent
        while place != NO_PARENT:
            found = attributes.get(place, {}).get(key)
            if found not in (None, ""):
                return found
            place = parent[place]
        return default

    def name(self, place: int) -> str:
        """Return the name of a span."""
        return short(self.spans.names[self.spans.name[place]])

    def caller(self, place: int) -> str:
        """Return the short name of the function whose call a span belongs to."""
        owner = self.owner[place]
        return "the program" if owner == NO_PARENT else self.called[owner].name

    def backend(self, place: int) -> str:
        """Return the backend of a span, for device lanes the first word of the lane's name."""
        if self.owner[place] != NO_PARENT:
            return str(self.spans.attributes[self.owner[place]].get("backend", NUMPY))
        lane = self.profile.lanes[self.spans.lane[place]]
        given = lane.name.split()[0] if lane.kind == "device" else NUMPY
        return str(self.said(place, "backend", given))

    def peak(self, place: int) -> float:
        """Return the link's peak in bytes per second in the span's direction; 0 if unknown."""
        found = rate(self.profile, self.backend(place), str(self.said(place, "direction", "")))
        return 0.0 if isinstance(found, Absent) else found.per_second

    def least_ns(self, place: int) -> float:
        """Return the nanoseconds that a transfer would take at the link's peak; 0 if unknown."""
        peak = self.peak(place)
        return self.spans.bytes[place] / peak * 1e9 if peak else 0.0

    def gpu(self, place: int) -> dict[str, Any]:
        """Return the detected facts about the GPU that a span ran on; empty if none is known."""
        return gpu_of(self.profile.header, self.backend(place))

    @cached_property
    def worked(self) -> dict[str, tuple[dict[str, Any], list[int]]]:
        """The facts and spans of each GPU that computed anything, by the name of its readings."""
        found: dict[str, tuple[dict[str, Any], list[int]]] = {}
        for places in self.devices.values():
            if gpu := self.gpu(places[0]):
                found.setdefault(name_of(gpu), (gpu, []))[1].extend(places)
        return found

    def series(self, device: str, name: str) -> dict[int, float]:
        """Return the readings of a device by time; empty if there are none."""
        found = (s for s in self.profile.series if s.device == device and s.name == name)
        return {t: v for one in found for t, v in zip(one.times_ns, one.values, strict=True)}

    # ---------------------------------------------------------------- text

    def at(self, place: int) -> str:
        """Return ``name (file.py:12)``."""
        file, line, name = self.said(place, "file"), self.said(place, "line"), self.name(place)
        return f"{name} ({os.path.basename(file)}:{line})" if file else name

    def told(self, places: Sequence[int], what: str = "") -> str:
        """Return a line of evidence: the spans, their number, time, bytes and speed."""
        time, moved = self.time(places), self.bytes(places)
        text = f"{what or self.at(places[0])}: {self.count(places):,} in {format_ns(time)}"
        if moved and time:
            text += f", {format_bytes(moved)} at {significant(moved / time)} GB/s"
            peak = self.peak(places[0])
            text += f" (the link reaches {significant(peak / 1e9)})" if peak else ""
        return text

    def share(self, ns: float) -> str:
        """Return a time with its share of the wall time, as text."""
        return f"{format_ns(ns)} ({percent(ns / max(self.wall_ns, 1))} of the wall time)"

    def again(self, *flags: str) -> str:
        """Return the command that records the program again, with flags for ``gpuforge run``.

        A program that records itself cannot be recorded from outside as well.
        """
        words = self.profile.command
        if any("ipykernel_launcher" in word for word in words):
            return "run the cell again"
        if words and os.path.basename(words[0]).startswith("python"):
            words = words[1:]
        program = shlex.join(words) if words else "PROGRAM"
        if self.profile.header.get("recorded_by") != ITSELF:
            return " ".join(["gpuforge run", *flags, "--save after.gfp", program])
        return " ".join(["gpuforge run", *flags, program] if flags else ["python", program])

    def suggest(
        self, title: str, evidence: Sequence[str], bound_ns: float, advice: str, samples: int,
        at: int = NO_PARENT, check: str = "",
    ) -> Suggestion:  # fmt: skip
        """Return a suggestion, with its bound limited to the wall time."""
        bound = max(0.0, min(bound_ns, self.wall_ns))
        return Suggestion(
            "", title, list(evidence), bound / 1e9, bound / max(self.wall_ns, 1), advice,
            check or self.again(), str(self.said(at, "file", "")), int(self.said(at, "line", 0)),
            samples,
        )  # fmt: skip

    # ---------------------------------------------------------------- ordered by time

    @cached_property
    def moves(self) -> list[Move]:
        """The moves of large arrays, ordered by start."""
        found = []
        for place in sorted(self.transfers, key=self.spans.start.__getitem__):
            said = self.spans.attributes.get(place, {})
            for address, nbytes, sample in said.get("sources", ()):
                ns = self.spans.duration[place] * nbytes / max(self.spans.bytes[place], nbytes)
                array = self.backend(place), address, nbytes, sample
                found.append(Move(place, said.get("direction", ""), array, nbytes, ns))
        return found

    @cached_property
    def gaps(self) -> dict[int, list[tuple[int, int]]]:
        """The idle periods of each GPU between its first and its last computation, by lane."""
        return {
            lane: list(self._gaps(places))
            for lane, places in self.devices.items()
            if self.backend(places[0]).partition(":")[2] not in ("", "cpu")
        }

    def _gaps(self, places: list[int]) -> Iterator[tuple[int, int]]:
        reached = self.end(places[0])
        for _, place in pairwise(places):
            if self.spans.start[place] > reached:
                yield reached, self.spans.start[place]
            reached = max(reached, self.end(place))
