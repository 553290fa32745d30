"""Folded stacks: a line for each call path with its own time in nanoseconds.

The first frame is ``thread`` or ``device``, as devices and threads work concurrently. A last frame
in brackets is a label other than ``host``.
"""

from __future__ import annotations

import heapq

from gpuforge.profiler import names
from gpuforge.profiler.model import DEVICE, HOST, LABELS, Profile
from gpuforge.profiler.paths import Path, paths

SUMMARY = "folded stacks in nanoseconds, for flamegraph.pl and inferno"
SUFFIX = ".folded"


MOST_PATHS = 20_000
MOST_FRAMES = 200


def render(profile: Profile) -> str:
    """Return the lines, longest first; empty for a profile without spans.

    Paths beyond the first `MOST_PATHS` are combined as ``(other paths)``, and frames deeper than
    `MOST_FRAMES` as ``(deeper)``, so that all sums are right.
    """
    everything = list(paths(profile))
    own = [max(path.own_label_ns) for path in everything]
    shown = set(heapq.nlargest(MOST_PATHS, range(len(own)), key=own.__getitem__))
    sums: dict[str, int] = {}
    frames: dict[int, tuple[str, ...]] = {}
    for place, path in enumerate(everything):
        frames[id(path)] = above = _frames(path, frames.get(id(path.parent), ()))
        for label, own_ns in enumerate(path.own_label_ns):
            if own_ns > 0:
                found = above if place in shown else ("(other paths)",)
                at = () if label in (HOST, DEVICE) else (f"[{LABELS[label]}]",)
                stack = ";".join((path.lane_kind, *found, *at))
                sums[stack] = sums.get(stack, 0) + own_ns
    ranked = sorted(sums.items(), key=lambda item: (-item[1], item[0]))
    return "".join(f"{stack} {value}\n" for stack, value in ranked)


def _frames(path: Path, above: tuple[str, ...]) -> tuple[str, ...]:
    if len(above) > MOST_FRAMES:
        return above
    deeper = len(above) == MOST_FRAMES
    return (*above, "(deeper)" if deeper else names.line(path.name, 200).replace(";", ":"))
