"""A function works on a view with gaps between its elements, such as ``x[:, ::8]`` or ``x[:, 0]``.

Memory is read in lines of 64 bytes; what lies in the gaps is read for nothing.

Bound: the calls' time, times the share of each line that is not used: 1 - itemsize / step.
"""

from __future__ import annotations

from functools import lru_cache
from string import ascii_letters

from gpuforge.profiler.advise.facts import Facts, Found
from gpuforge.profiler.tables import percent

SOURCE = "https://docs.nvidia.com/nsight-compute/ProfilingGuide/#memory-tables"
LINE_BYTES, CACHED_BYTES = 64, 256 * 1024


def look(facts: Facts) -> Found:
    """Return one suggestion for each function that NumPy ran; other libraries gather first."""
    attributes = facts.spans.attributes
    for calls in facts.as_written:
        found = [(p, _unused(facts, p)) for p in calls.spans if "strides" in attributes[p]]
        found = [(place, unused) for place, unused in found if unused]
        if not found:
            continue
        places = [place for place, _ in found]
        said = attributes[places[0]]
        yield facts.suggest(
            f"{calls.name} reads an array with gaps between its elements",
            [
                facts.told(places),
                f"shape {said.get('shape')}, steps of {said['strides']} bytes, {said.get('dtype')}",
                f"{percent(found[0][1])} of what is read from memory is not used",
            ],
            sum(facts.spans.duration[place] * unused for place, unused in found),
            "If the view is used more than once, make it contiguous first with "
            "np.ascontiguousarray, or store the array so that what is used lies together.",
            facts.count(places),
            places[0],
        )


def _unused(facts: Facts, place: int) -> float:
    """Return the share of each line that is read for nothing; 0 for arrays that fit the caches."""
    said = facts.spans.attributes[place]
    shape, strides = tuple(said.get("shape", ())), tuple(said["strides"])
    return _unused_of(shape, strides, str(said.get("dtype", "")))


@lru_cache(1000)
def _unused_of(shape: tuple[int, ...], strides: tuple[int, ...], dtype: str) -> float:
    bits = dtype.lstrip(ascii_letters) or "8"  # bool has no number
    if len(shape) != len(strides) or not bits.isdigit():
        return 0.0
    itemsize = int(bits) // 8
    steps = [(abs(step), size) for step, size in zip(strides, shape, strict=True) if size > 1]
    least = min((step for step, _ in steps if step), default=0)
    reach = sum(step * (size - 1) for step, size in steps) + itemsize
    used = itemsize / min(max(least, itemsize), LINE_BYTES)
    return 1 - used if reach > CACHED_BYTES else 0.0
