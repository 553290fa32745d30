"""Call paths: spans of one name under the same spans, taken together."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from gpuforge.profiler.breakdown import own_ns
from gpuforge.profiler.model import LABELS, NO_PARENT, Profile, once


@dataclass
class Path:
    """All spans of one call path.

    Attributes
    ----------
    name : of the last step; the root's is empty
    lane_kind : ``thread`` or ``device``
    count : spans
    total_ns : their durations together
    own_ns : less that of the spans inside
    label_ns : own time of each of `LABELS`, with that of all paths below
    own_label_ns : the same without the paths below
    bytes : that they moved, with those below
    sample : the place of the longest of the spans, for what was said of it
    errors : how many an exception ended
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
    def names(self) -> tuple[str, ...]:
        """The steps from the root to here."""
        found: list[str] = []
        path = self
        while path.parent is not None:
            found.append(path.name)
            path = path.parent
        return tuple(reversed(found))

    def __iter__(self) -> Iterator[Path]:
        """All paths below this one, each before those below it."""
        todo = list(reversed(self.children.values()))
        while todo:
            path = todo.pop()
            yield path
            todo += reversed(path.children.values())

    def child(self, name: str, lane_kind: str) -> Path:
        """Return the path one step down, made where there is none yet."""
        key = name, lane_kind
        found = self.children.get(key)
        if found is None:
            found = self.children[key] = Path(name, self, lane_kind)
        return found


def paths(profile: Profile) -> Path:
    """Return the root of all call paths; threads are taken together, and devices stand apart."""
    return paths_of_spans(profile)[0]


def largest(root: Path, limit: int) -> list[Path]:
    """Return the `limit` paths of the most time, in order, with all paths above them."""
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
