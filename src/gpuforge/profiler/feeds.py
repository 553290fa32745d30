"""Which operation feeds which: by the arrays that were passed, or as the order suggests."""

from __future__ import annotations

import heapq
from array import array
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from typing import NamedTuple

from gpuforge.profiler.model import HOST, NO_PARENT, TRANSFER, Profile, Spans

_STEP = {"function", "operation"}
"""Attributes that make a span a step, whatever its label."""


class Feed(NamedTuple):
    """A step of the user's program and one that uses its result, or may do so.

    Attributes
    ----------
    first, then : names of the steps
    times : number of occurrences
    passed : bytes of the arrays that `first` returned and `then` was given; 0 if only the order of
        the steps, inside the same span, suggests that `then` uses the result
    moved : bytes moved between successive steps
    """

    first: str
    then: str
    times: int
    passed: int
    moved: int


def feeds(profile: Profile, n: int) -> list[Feed]:
    """Return `n` pairs of steps, those between which arrays were passed first, by frequency.

    A step is work of the program or a call of an offloaded function, but not gpuforge's own work.
    Merged spans have no order and tell no arguments, so they are left out. Work on a result between
    two calls makes a new array, whose origin is not known: then the order has to suggest it. A step
    that an exception ended has no result, see also `_may_feed`.
    """
    ordered, passed = _by_order(profile), _by_arrays(profile)
    fed_by = _reachable(passed)
    found = [
        Feed(*pair, times, nbytes, ordered.get(pair, (0, 0))[1])
        for pair, (times, nbytes) in passed.items()
    ]
    found += [
        Feed(*pair, row[0], 0, row[1])
        for pair, row in ordered.items()
        if pair not in passed and _may_feed(pair, row, ordered, fed_by)
    ]
    return heapq.nlargest(n, found, key=lambda feed: (feed.passed > 0, feed.times, feed.passed))


def _is_step(spans: Spans, index: int) -> bool:
    return spans.label[index] == HOST or not _STEP.isdisjoint(spans.attributes.get(index, ()))


def _by_arrays(profile: Profile) -> dict[tuple[str, str], list[int]]:
    """Return the number of calls and bytes by the names of both steps, as the calls noted them."""
    spans = profile.spans
    found: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    for index, attributes in spans.attributes.items():
        told = attributes.get("from")
        if spans.count[index] > 1 or not isinstance(told, list) or not _is_step(spans, index):
            continue
        for one in told:
            match one:  # a session file may hold anything
                case [str(name), int(nbytes)] if nbytes > 0:
                    row = found[name, spans.names[spans.name[index]]]
                    row[0] += 1
                    row[1] += nbytes
    return found


def _by_order(profile: Profile) -> dict[tuple[str, str], list[int]]:
    """Return the occurrences of successive steps, and the bytes moved, by the names of both.

    The third number is the order of the first occurrence, earlier ones higher.
    """
    spans = profile.spans
    before = array("q", [NO_PARENT]) * len(spans)
    moved = array("q", [0]) * len(spans)
    outermost: dict[int, tuple[int, int]] = {}
    found: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0, -len(found)])
    for index, parent in enumerate(spans.parent):
        if spans.count[index] > 1:
            continue
        lane, inside = spans.lane[index], parent != NO_PARENT
        inside = inside and spans.lane[parent] == lane
        last, nbytes = (before[parent], moved[parent]) if inside else outermost.get(lane, (-1, 0))
        if spans.label[index] == TRANSFER:
            nbytes += spans.bytes[index]
        elif _is_step(spans, index):
            if last != NO_PARENT:
                row = found[spans.name[last], spans.name[index]]
                row[0] += 1
                row[1] += nbytes
            failed = "error" in spans.attributes.get(index, ())
            last, nbytes = NO_PARENT if failed else index, 0
        if inside:
            before[parent], moved[parent] = last, nbytes
        else:
            outermost[lane] = last, nbytes
    return {
        (spans.names[first], spans.names[then]): row for (first, then), row in found.items()
    }  # fmt: skip


def _may_feed(
    pair: tuple[str, str],
    row: list[int],
    ordered: Mapping[tuple[str, str], list[int]],
    fed_by: Callable[[str], Collection[str]],
) -> bool:
    """Return whether the order means more than a loop that begins again.

    In the order a, b, a, b, only a and b are a pair unless bytes were moved from b to a; nor is the
    last step of a chain that passes arrays paired with the first. Rows hold the occurrences, the
    bytes, and the order of the first occurrence, earlier ones higher. `fed_by` returns the steps
    that get a step's result, directly or through others.
    """
    back = ordered.get(pair[::-1])
    first, then = pair
    return bool(row[1]) or ((back is None or row > back) and first not in fed_by(then))


def _reachable(pairs: Iterable[tuple[str, str]]) -> Callable[[str], Collection[str]]:
    """Return a function that returns what can be reached from a step, which is found once."""
    following: dict[str, set[str]] = defaultdict(set)
    for first, then in pairs:
        following[first].add(then)

    @cache
    def reached(step: str) -> Collection[str]:
        found: set[str] = set()
        todo = [step]
        while todo:
            new = following.get(todo.pop(), set()) - found
            found |= new
            todo += new
        return found

    return reached
