"""Profiles made by hand, for the tests of everything that reads one."""

from __future__ import annotations

from typing import Any

from gpuforge.profiler.model import LABELS, NO_PARENT, Lane, Profile, Spans

MS = 1_000_000


class Making:
    """A profile that grows span by span.

    ``making.span("solve", 0, 10 * MS)`` is the outermost of the main thread; what it returns may be
    given as `inside`.
    """

    def __init__(self, wall_ns: int = 0, **header: Any) -> None:
        self.profile = Profile(header={"program": ["python", "program.py"], **header})
        self.profile.lanes.append(Lane("MainThread"))
        self.profile.wall_ns = wall_ns

    def lane(self, name: str, kind: str = "thread") -> int:
        """Return the place of a lane, made where there is none of this name."""
        lanes = self.profile.lanes
        for place, lane in enumerate(lanes):
            if lane.name == name:
                return place
        lanes.append(Lane(name, kind))
        return len(lanes) - 1

    def span(
        self, name: str, start_ns: int, duration_ns: int, *, inside: int = NO_PARENT, lane: int = 0,
        label: str = "host", nbytes: int = 0, count: int = 1, **attributes: Any,
    ) -> int:  # fmt: skip
        """Add a span and return its place."""
        spans: Spans = self.profile.spans
        if name not in spans.names:
            spans.names.append(name)
        self.profile.wall_ns = max(self.profile.wall_ns, start_ns + duration_ns)
        return spans.add(
            spans.names.index(name), inside, lane, LABELS.index(label), start_ns, duration_ns,
            nbytes, count, attributes or None,
        )  # fmt: skip
