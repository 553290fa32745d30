"""Assigning spans to lanes: that of their thread, or an additional one.

The spans of a lane must nest, so that times can be added up. Spans of several tasks of an event
loop overlap on one thread without nesting, as do those of a generator and its caller, so they are
put on additional lanes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import itemgetter

from gpuforge.profiler.model import DEVICE, Lane
from gpuforge.trace import Span

_ADDITIONAL = 1 << 32
"""First number of additional lanes; lower ones are threads."""
_OPEN = 1 << 63
_number, _start = itemgetter(2), itemgetter(4)


class Lanes:
    """The lanes of a recording, whose spans arrive in portions.

    Parameters
    ----------
    process
        The process id.
    """

    def __init__(self, process: int) -> None:
        self._process = process
        self._stacks: dict[int, list[list[list[int]]]] = {}
        self._numbers: dict[tuple[int, int], int] = {}
        self._open: dict[int, tuple[list[int], int]] = {}

    def place(self, finished: Iterable[Span], standing: Iterable[Span]) -> dict[int, int]:
        """Return the lanes of spans, by span number, that are not on the lane of their thread."""
        elsewhere: dict[int, int] = {}
        known, todo = self._open, []
        for span in finished:
            if span[2] not in known:
                todo.append(span)
                continue
            entry, beside = known.pop(span[2])
            entry[1] = span[5]
            if beside:
                elsewhere[span[2]] = beside
        todo += [span for span in standing if span[2] not in known]
        todo.sort(key=_number)
        todo.sort(key=_start)
        for _, label, number, parent, start, end, thread, _, _ in todo:
            if label == DEVICE:
                continue
            entry = [number, end or _OPEN]
            stacks = self._stacks.get(thread) or self._stacks.setdefault(thread, [[]])
            stack = stacks[0]
            while stack and stack[-1][1] <= start:
                stack.pop()
            if stack and stack[-1][0] == parent and end:  # the usual case
                stack.append(entry)
                continue
            lane = _push(stacks, parent, start, entry)
            beside = self._number(thread, lane) if lane else 0
            if beside:
                elsewhere[number] = beside
            if not end:
                self._open[number] = entry, beside
        for number, (_, beside) in self._open.items():
            if beside:
                elsewhere[number] = beside
        return elsewhere

    def _number(self, thread: int, lane: int) -> int:
        return self._numbers.setdefault((thread, lane), _ADDITIONAL + len(self._numbers))

    def named(self, names: Mapping[int, str]) -> dict[int, Lane]:
        """Return all lanes by number, given the names of threads and devices."""
        found = {
            number: Lane(name, "thread" if number > 0 else "device", self._process)
            for number, name in names.items()
        }
        for (thread, lane), number in self._numbers.items():
            beside = f"{names.get(thread, f'thread {thread}')} ({lane + 1})"
            found[number] = Lane(beside, "thread", self._process)
        return found


def _push(stacks: list[list[list[int]]], parent: int, start: int, entry: list[int]) -> int:
    """Put a span on the lane whose innermost open span is its parent, or a free one; return it."""
    free = -1
    for place, stack in enumerate(stacks):
        while stack and stack[-1][1] <= start:
            stack.pop()
        if stack and stack[-1][0] == parent:
            stack.append(entry)
            return place
        if not stack and free < 0:
            free = place
    if free < 0:
        free = len(stacks)
        stacks.append([])
    stacks[free].append(entry)
    return free
