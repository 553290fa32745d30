"""Folded stacks, a line for each call path and the nanoseconds it took itself.

The first frame is ``thread`` or ``device``: what devices did overlaps with what threads did. A last
frame in brackets is a label other than ``host``.
"""

from __future__ import annotations

import heapq

from gpuforge.profiler import names
from gpuforge.profiler.model import DEVICE, HOST, LABELS, Profile
from gpuforge.profiler.paths import Path, paths

SUMMARY = "folded stacks in nanoseconds, for flamegraph.pl and inferno"
SUFFIX = ".folded"


MOST_PATHS = 20_000
MOST_FRAMES = 500


def render(profile: Profile) -> str:
    """Return the lines, longest first; a profile without spans has none.

    The paths behind the first `MOST_PATHS` are one, ``(other paths)``, and of a path of more than
    `MOST_FRAMES` the outermost and innermost are written, so that every sum is right.
    """
    everything = list(paths(profile))
    own = [max(path.own_label_ns) for path in everything]
    shown = set(heapq.nlargest(MOST_PATHS, range(len(own)), key=own.__getitem__))
    sums: dict[str, int] = {}
    for place, path in enumerate(everything):
        frames = _frames(path) if place in shown else [path.lane_kind, "(other paths)"]
        for label, own_ns in enumerate(path.own_label_ns):
            if own_ns > 0:
                at = [] if label in (HOST, DEVICE) else [f"[{LABELS[label]}]"]
                stack = ";".join([*frames, *at])
                sums[stack] = sums.get(stack, 0) + own_ns
    ranked = sorted(sums.items(), key=lambda item: (-item[1], item[0]))
    return "".join(f"{stack} {value}\n" for stack, value in ranked)


def _frames(path: Path) -> list[str]:
    found = [names.line(name).replace(";", ":") for name in path.names]
    if len(found) > MOST_FRAMES:
        half = MOST_FRAMES // 2
        found = [*found[:half], f"({len(found) - 2 * half:,} frames)", *found[-half:]]
    return [path.lane_kind, *found]
