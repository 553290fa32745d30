"""Folded stacks, a line for each call path and the nanoseconds it took itself.

The first frame is ``thread`` or ``device``: what devices did overlaps with what threads did. A last
frame in brackets is a label other than ``host``.
"""

from __future__ import annotations

from gpuforge.profiler import names
from gpuforge.profiler.model import DEVICE, HOST, LABELS, Profile
from gpuforge.profiler.paths import Path, paths

SUMMARY = "folded stacks in nanoseconds, for flamegraph.pl and inferno"
SUFFIX = ".folded"


def render(profile: Profile) -> str:
    """Return the lines, longest first; a profile without spans has none."""
    sums: dict[str, int] = {}
    for path in paths(profile):
        for label, own in enumerate(path.own_label_ns):
            if own > 0:
                stack = _stack(path, label)
                sums[stack] = sums.get(stack, 0) + own
    ranked = sorted(sums.items(), key=lambda item: (-item[1], item[0]))
    return "".join(f"{stack} {value}\n" for stack, value in ranked)


def _stack(path: Path, label: int) -> str:
    frames = [path.lane_kind, *(names.line(name).replace(";", ":") for name in path.names)]
    if label not in (HOST, DEVICE):
        frames.append(f"[{LABELS[label]}]")
    return ";".join(frames)
