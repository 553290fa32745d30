"""A profile in a few lines: the parts of its time, and what took the most of it."""

from __future__ import annotations

from typing import NamedTuple

from gpuforge.profiler.breakdown import Breakdown, breakdown
from gpuforge.profiler.model import DEVICE, LABELS, Profile
from gpuforge.profiler.paths import paths
from gpuforge.units import format_bytes, format_seconds

_SHOWN = ("host", "waiting for a device", "transfer", "overhead of gpuforge")


class Bottleneck(NamedTuple):
    """The spans of one call path.

    Attributes
    ----------
    path : names of the spans, from the outermost to this one
    label : what most of the time was, of `gpuforge.profiler.model.LABELS`
    seconds : by themselves, without the spans inside
    share : of the wall time of the profile; beyond 1 where several threads did it
    calls : spans
    file, line : where the code stands; empty and 0 where that was not told
    """

    path: tuple[str, ...]
    label: str
    seconds: float
    share: float
    calls: int
    file: str
    line: int


def find_bottlenecks(profile: Profile, most: int) -> list[Bottleneck]:
    """Return the call paths that took the most time by themselves, the longest first."""
    threads = [path for path in paths(profile) if path.lane_kind == "thread" and path.own_ns]
    threads.sort(key=lambda path: -path.own_ns)
    found = []
    for path in threads[:most]:
        said = profile.spans.attributes.get(path.sample, {})
        label = LABELS[max(range(len(LABELS)), key=path.own_label_ns.__getitem__)]
        share = path.own_ns / max(profile.wall_ns, 1)
        where = str(said.get("file", "")), int(said.get("line", 0))
        found.append(Bottleneck(path.names, label, path.own_ns / 1e9, share, path.count, *where))
    return found


def render_summary(profile: Profile) -> str:
    """Return where the time of a profile went."""
    wall, spans = profile.wall_ns, sum(profile.spans.count)
    cost = profile.cost_ns / max(wall, 1)
    lines = [
        f"{format_seconds(wall / 1e9)} in {spans:,} spans; recording them took {cost:.1%} of it"
    ]
    lines += [_lane_line(profile, part) for part in breakdown(profile)]
    for one in find_bottlenecks(profile, 5):
        where = f"  {one.file}:{one.line}" if one.file else ""
        lines.append(
            f"  {one.share:6.1%}  {format_seconds(one.seconds):>8}  {one.calls:>7,} x "
            f"{' > '.join(one.path)} ({one.label}){where}"
        )
    return "\n".join([*lines, *(f"note: {note}" for note in profile.notes)])


def _lane_line(profile: Profile, part: Breakdown) -> str:
    lane = profile.lanes[part.lane]
    start = f"{lane.name}: {format_seconds(part.wall_ns / 1e9)}"
    if lane.kind == "device":
        return f"{start}, busy {format_seconds(part.label_ns[DEVICE] / 1e9)}"
    shares = [
        f"{name} {part.label_ns[label] / max(part.wall_ns, 1):.1%}"
        for label, name in enumerate(_SHOWN)
        if part.label_ns[label]
    ]
    if part.unexplained_ns > part.wall_ns / 1000:
        shares.append(f"in no span {part.unexplained_ns / part.wall_ns:.1%}")
    moved = f"; {format_bytes(part.bytes)} moved" if part.bytes else ""
    return f"{start}: {', '.join(shares)}{moved}"
