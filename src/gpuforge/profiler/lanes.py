"""Which lane a span is on: that of its thread, or one beside it.

On one thread, spans of several tasks of an event loop overlap, with none inside the other; so do
those of a generator and its caller. A lane holds spans that nest, so these are put beside, where
times can be added up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import itemgetter

from gpuforge.profiler.model import DEVICE, Lane
from gpuforge.trace import Span

_BESIDE = 1 << 32
"""Numbers of lanes beside those of threads begin here."""
_OPEN = 1 << 63
_number, _start = itemgetter(2), itemgetter(4)


class Lanes:
    """The lanes of a recording, whose spans come in portions.

    Parameters
    ----------
    process
        Its number.
    """

    def __init__(self, process: int) -> None:
        self._process = process
        self._stacks: dict[int, list[list[list[int]]]] = {}
        self._numbers: dict[tuple[int, int], int] = {}
        self._open: dict[int, tuple[list[int], int]] = {}

    def place(self, finished: Iterable[Span], standing: Iterable[Span]) -> dict[int, int]:
        """Return the number of a span to its lane, where that is not the one of its thread."""
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
            if stack and stack[-1][0] == parent and end:  # as nearly all
                stack.append(entry)
                continue
            lane = _find(stacks, parent, start, entry)
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
        return self._numbers.setdefault((thread, lane), _BESIDE + len(self._numbers))

    def named(self, names: Mapping[int, str]) -> dict[int, Lane]:
        """Return each lane by its number, from the names of threads and devices."""
        found = {
            number: Lane(name, "thread" if number > 0 else "device", self._process)
            for number, name in names.items()
        }
        for (thread, lane), number in self._numbers.items():
            beside = f"{names.get(thread, f'thread {thread}')} ({lane + 1})"
            found[number] = Lane(beside, "thread", self._process)
        return found


def _find(stacks: list[list[list[int]]], parent: int, start: int, entry: list[int]) -> int:
    """Put a span on the lane of its thread whose innermost span is the one around it."""
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
