"""Call paths: spans with the same name and the same ancestors, aggregated."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from gpuforge.profiler.breakdown import own_ns
from gpuforge.profiler.model import DEVICE, LABELS, NO_PARENT, Profile, once


@dataclass
class Path:
    """The aggregated spans of one call path.

    Attributes
    ----------
    name : name of the last step; empty for the root
    lane_kind : ``thread`` or ``device``
    count : number of spans
    total_ns : sum of their durations
    own_ns : `total_ns` without the spans inside
    label_ns : own time of each of `LABELS`, including all paths below
    own_label_ns : the same without the paths below
    bytes : bytes that they moved, including all paths below
    sample : index of the longest span, whose attributes represent the path
    errors : number of spans that an exception ended
    """

    name: str
    parent: Path | None = None
    lane_kind: str = "thread"
    count: int = 0
    total_ns: int = 0
    own_ns: int = 0
    label_ns: list[int] = field(default_factory=lambda: [0] * len(LABELS))
    own_label_ns: list[int] = field(default_factory=lambda: [0] * len(LABELS))
    bytes: int = 0
    sample: int = NO_PARENT
    errors: int = 0
    children: dict[tuple[str, str], Path] = field(default_factory=dict)

    @property
    def utilisation(self) -> float | None:
        """Estimated utilisation of the devices: their busy time over the time of these spans.

        At most 1, which several queues at a time may exceed; None without work on a device, and for
        the spans of devices themselves.
        """
        busy = self.label_ns[DEVICE]
        if self.lane_kind == "device" or not busy or not self.total_ns:
            return None
        return min(busy / self.total_ns, 1.0)

    @property
    def names(self) -> tuple[str, ...]:
        """The steps from the root to here."""
        found: list[str] = []
        path = self
        while path.parent is not None:
            found.append(path.name)
            path = path.parent
        return tuple(reversed(found))

    def __iter__(self) -> Iterator[Path]:
        """Yield all paths below this one, parents first."""
        todo = list(reversed(self.children.values()))
        while todo:
            path = todo.pop()
            yield path
            todo += reversed(path.children.values())

    def child(self, name: str, lane_kind: str) -> Path:
        """Return a child of this path, created if it does not exist yet."""
        key = name, lane_kind
        found = self.children.get(key)
        if found is None:
            found = self.children[key] = Path(name, self, lane_kind)
        return found


def paths(profile: Profile) -> Path:
    """Return the root of all call paths; threads are aggregated, devices are separate paths."""
    return paths_of_spans(profile)[0]


def largest(root: Path, limit: int) -> list[Path]:
    """Return the `limit` paths with the most time and their ancestors, in the tree's order."""
    everything = list(root)
    if len(everything) <= limit:
        return everything
    kept: set[int] = set()
    for path in heapq.nlargest(limit, everything, key=attrgetter("total_ns")):
        while path.parent is not None and id(path) not in kept:
            kept.add(id(path))
            path = path.parent
    return [path for path in everything if id(path) in kept]


@once
def paths_of_spans(profile: Profile) -> tuple[Path, list[Path]]:
    """Return the root of all call paths, and the path of each span."""
    spans, root = profile.spans, Path("")
    kinds = [lane.kind for lane in profile.lanes]
    own = own_ns(profile)
    places: list[Path] = []
    for index, parent in enumerate(spans.parent):
        above = root if parent == NO_PARENT else places[parent]
        path = above.child(spans.names[spans.name[index]], kinds[spans.lane[index]])
        places.append(path)
        path.count += spans.count[index]
        path.total_ns += spans.duration[index]
        path.own_ns += own[index]
        path.own_label_ns[spans.label[index]] += own[index]
        path.bytes += spans.bytes[index]
        attributes: dict[str, Any] = spans.attributes.get(index, {})
        path.errors += "error" in attributes
        if path.sample == NO_PARENT or spans.duration[index] > spans.duration[path.sample]:
            path.sample = index
    _add_up(root)
    return root, places


def _add_up(root: Path) -> None:
    everything = list(root)
    for path in everything:
        path.label_ns = list(path.own_label_ns)
    for path in reversed(everything):
        above = path.parent
        assert above is not None
        for label, value in enumerate(path.label_ns):
            above.label_ns[label] += value
        above.bytes += path.bytes
        if above is root:
            root.total_ns += path.total_ns
            root.count += path.count
