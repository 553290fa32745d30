"""Comparing two profiles call path by call path."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gpuforge.profiler import names
from gpuforge.profiler.model import LABELS, Profile
from gpuforge.profiler.paths import paths
from gpuforge.profiler.summary import machine


@dataclass(frozen=True)
class PathChange:
    """One call path in two profiles.

    Attributes
    ----------
    names : the names of its steps
    lane_kind : ``thread`` or ``device``
    base_ns, new_ns : own time of each of `LABELS`, without the paths below
    base_count, new_count : number of spans
    """

    names: tuple[str, ...]
    lane_kind: str
    base_ns: tuple[int, ...]
    new_ns: tuple[int, ...]
    base_count: int
    new_count: int

    @property
    def change_ns(self) -> int:
        """Change of its own time."""
        return sum(self.new_ns) - sum(self.base_ns)

    @property
    def largest_label(self) -> str:
        """The label whose own time changed most."""
        changes = [abs(new - base) for base, new in zip(self.base_ns, self.new_ns, strict=True)]
        return LABELS[changes.index(max(changes))]


@dataclass(frozen=True)
class ProfileDifference:
    """The difference of two profiles; weak evidence, because each is a single run.

    Attributes
    ----------
    base_wall_ns, new_wall_ns : wall times of the recordings
    base_ns, new_ns : total own time of each of `LABELS`
    paths : all call paths of both, those whose own time changed most first
    differences : how the conditions of the two runs differ
    problem : why the wall times cannot be compared; empty if they can
    """

    base_wall_ns: int
    new_wall_ns: int
    base_ns: tuple[int, ...]
    new_ns: tuple[int, ...]
    paths: tuple[PathChange, ...]
    differences: tuple[str, ...]
    problem: str = ""

    @property
    def change(self) -> float | None:
        """New wall time over the base's, minus 1; None if the base recorded no time."""
        return self.new_wall_ns / self.base_wall_ns - 1 if self.base_wall_ns else None

    def share(self, path: PathChange) -> float | None:
        """Return a path's share of all changes in its direction on lanes of its kind."""
        up = path.change_ns > 0
        whole = sum(
            other.change_ns
            for other in self.paths
            if (other.change_ns > 0) == up and other.lane_kind == path.lane_kind
        )
        return path.change_ns / whole if whole else None


def profile_difference(base: Profile, new: Profile) -> ProfileDifference:
    """Return what differs between two profiles, call path by call path."""
    sides = [
        {(path.names, path.lane_kind): path for path in paths(profile)} for profile in (base, new)
    ]
    nothing = (0,) * len(LABELS)
    changes = []
    for key in dict.fromkeys([*sides[0], *sides[1]]):
        found = [side.get(key) for side in sides]
        times = [tuple(path.own_label_ns) if path else nothing for path in found]
        counts = [path.count if path else 0 for path in found]
        changes.append(PathChange(*key, times[0], times[1], counts[0], counts[1]))
    changes.sort(key=lambda change: -abs(change.change_ns))
    totals = [
        tuple(sum(column) for column in zip(nothing, *times, strict=True))
        for times in ([c.base_ns for c in changes], [c.new_ns for c in changes])
    ]
    return ProfileDifference(
        base.wall_ns, new.wall_ns, totals[0], totals[1], tuple(changes),
        tuple(_header_differences(base, new)), _problem(base, new),
    )  # fmt: skip


def _problem(base: Profile, new: Profile) -> str:
    for called, profile in (("base", base), ("new run", new)):
        if not profile.complete:
            return f"the recording of the {called} ended early"
    return "" if base.wall_ns else "the base recorded no time"


def _header_differences(base: Profile, new: Profile) -> Iterator[str]:
    both = all("machine" in profile.header for profile in (base, new))
    sides = [dict(_conditions(profile, both)) for profile in (base, new)]
    for name in dict.fromkeys([*sides[0], *sides[1]]):
        before, after = (names.line(side.get(name, "none"), 200) for side in sides)
        if before != after:
            yield f"{names.line(name, 200)}: {before} → {after}"


def _conditions(profile: Profile, whole_machine: bool) -> Iterator[tuple[str, str]]:
    """Yield the facts of the header that times depend on, by name."""
    header = profile.header
    yield "program", profile.program or "unknown"
    for name in ("python", "platform", "gpuforge"):
        yield name, str(header.get(name, "unknown"))
    if whole_machine:
        yield from _leaves("machine", header["machine"])
    elif "machine" in header:
        yield "machine", machine(profile)
    else:
        yield "machine", f"unknown ({profile.said('unknown').get('machine', 'not recorded')})"
    yield from _leaves("", profile.said("versions"))


def _leaves(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield the values inside dicts and lists as text, with the keys on the way as their names."""
    if not isinstance(value, dict | list):
        yield name.strip(), str(value)
        return
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        yield from _leaves(f"{name} {key}", inner)


def folded(difference: ProfileDifference) -> Iterator[str]:
    """Yield lines as ``difffolded.pl`` does: a path, its own microseconds before and after.

    Their flame graph has the widths of the new profile and is coloured by the change. Paths of
    devices begin with the step ``device``.
    """
    for path in sorted(difference.paths, key=lambda path: path.names):
        times = [round(sum(side) / 1000) for side in (path.base_ns, path.new_ns)]
        steps = ("device", *path.names) if path.lane_kind == "device" else path.names
        if any(times):
            clean = (step.replace(";", ":").replace("\n", " ") for step in steps)
            yield f"{';'.join(clean)} {times[0]} {times[1]}"
