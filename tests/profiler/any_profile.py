"""Any profile that a session file can hold, for property tests of everything that reads one."""

from __future__ import annotations

import dataclasses
from array import array
from typing import Any

from hypothesis import strategies as st

from gpuforge.profiler.model import DEVICE, NO_PARENT, Lane, Placement, Profile, Series

HOSTILE = [
    "</script>", "a;b 12", "\x1b[31m", "\x00", "\ud800", "`|` **x** <b>", "\u202eabc", "a\nb",
    "\N{SNOWMAN}" * 3000, "", " ", "[x](http://evil)", "{{7*7}}", "$(rm)", '"\\',
]  # fmt: skip
texts = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=20))
numbers = st.one_of(st.integers(-5, 10**12), st.floats())
told = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, texts),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
attributes = st.fixed_dictionaries(
    {},
    optional={
        "function": texts, "file": texts | st.just(__file__), "line": numbers, "backend": told,
        "direction": st.sampled_from(["to device", "from device", ["x"], 3]), "error": texts,
        "memory_peak_bytes": numbers, "operation": texts, "more": told,
    },
)  # fmt: skip
headers = st.fixed_dictionaries(
    {},
    optional={
        "program": told, "started": numbers, "gpuforge": told, "python": told, "platform": told,
        "versions": told, "machine": told, "peaks": told, "unknown": told,
        "other": told,
    },
)  # fmt: skip
seconds = st.floats()
placements = st.builds(
    Placement, st.integers(0, 2**50), texts, texts, texts, seconds, st.integers(-1, 10**9),
    st.dictionaries(texts, seconds, max_size=3), seconds, texts,
)  # fmt: skip


@st.composite
def profiles(draw: st.DrawFn) -> Profile:
    kinds = draw(st.lists(st.sampled_from(["thread", "device"]), min_size=1, max_size=4))
    lanes = [Lane(draw(texts), kind, draw(st.integers(0, 9))) for kind in kinds]
    profile = Profile(draw(headers), lanes, placements=draw(st.lists(placements, max_size=3)))
    profile.spans.names = draw(st.lists(texts, min_size=1, max_size=5))
    starts = draw(st.lists(st.integers(0, 10**6), max_size=15))
    for index, start in enumerate(sorted(starts)):
        lane = draw(st.integers(0, len(lanes) - 1))
        device = lanes[lane].kind == "device"
        profile.spans.add(
            draw(st.integers(0, len(profile.spans.names) - 1)),
            draw(st.integers(NO_PARENT, index - 1)),
            lane,
            DEVICE if device else draw(st.integers(0, DEVICE - 1)),
            start,
            draw(st.sampled_from([0, 1, 10, 1000, 10**5, 2**44])),
            draw(st.sampled_from([0, 1, 2**40])),
            draw(st.sampled_from([1, 1, 3])),
            draw(attributes),
        )
    for count in draw(st.lists(st.integers(0, 4), max_size=2)):
        values = draw(st.lists(st.floats(), min_size=count, max_size=count))
        profile.series.append(
            Series(
                draw(texts),
                draw(st.sampled_from(["bytes", "ratio", ""])),
                draw(texts),
                array("q", range(count)),
                array("d", values),
            )
        )
    return dataclasses.replace(
        profile,
        counts=draw(st.dictionaries(texts, st.integers(0, 2**60), max_size=2)),
        notes=draw(st.lists(texts, max_size=2)),
        wall_ns=draw(st.integers(0, 2**45)),
        cost_ns=draw(st.integers(0, 2**40)),
        complete=draw(st.booleans()),
    )


def long_profile(count: int) -> Profile:
    """A profile of `count` spans: steps with a call and a transfer inside, on two threads."""
    profile = Profile({"program": ["python", "long.py"]}, [Lane("MainThread"), Lane("worker")])
    spans = profile.spans
    spans.names += ["step", "call", "put"]
    parent = NO_PARENT
    said: dict[str, Any] = {"direction": "to device", "backend": "torch"}
    for index in range(count):
        kind, at = index % 3, index * 100
        inside = NO_PARENT if kind == 0 else parent
        took = (290, 150, 90)[kind] + index % 7
        spans.add(kind, inside, (index // 3) % 2, (0, 3, 2)[kind], at, took, 8 * (kind == 2), 1,
                  said if kind == 2 else None)  # fmt: skip
        parent = index if kind == 0 else parent
    profile.wall_ns = count * 100 + 500
    return profile
