"""What the history holds, read once: constants and timings of earlier processes."""

from __future__ import annotations

from bisect import bisect_left, insort
from functools import cached_property
from itertools import islice, takewhile
from typing import Any

from gpuforge.history import History, Timing, timings_of

READ_SINGLY, READ_AT_ONCE = 2, 32
"""The timings of the first few functions are read one by one, which takes 0.5 ms each; those of all
once so many times as many functions were asked for as the history holds."""


class Kept:
    """A cache of the history; `write` writes new constants."""

    def __init__(self, history: History) -> None:
        self.history = history
        self._known: dict[str, Any] = {}
        self._unwritten: dict[str, Any] = {}
        self._read = 0
        self._rows: dict[str, list[tuple[Any, ...]]] = {}

    @cached_property
    def _texts(self) -> dict[str, str]:
        return self.history.constant_texts("")

    @cached_property
    def _names(self) -> list[str]:
        return sorted(self._texts)

    @cached_property
    def measured(self) -> frozenset[str]:
        """Digests of the functions that other processes measured."""
        return self.history.functions()

    def timings(self, function: str) -> list[Timing]:
        """Return every timing of a function; those of all are read once that takes less time."""
        if not self._rows:  # also if the history could not be read last time
            self._read += 1
            if self._read <= max(READ_SINGLY, len(self.measured) // READ_AT_ONCE):
                return self.history.timings(function)
            self._rows = self.history.timing_rows()
        return timings_of(self._rows.get(function, ()))

    def constant(self, name: str) -> Any:
        """Return the constant with this name, or None."""
        if name not in self._known and name in self._texts:
            self._known.setdefault(name, self.history.parsed(name, self._texts[name]))
        return self._known.get(name)

    def constants(self, start: str) -> dict[str, Any]:
        """Return the constants whose names begin with `start`."""
        place = bisect_left(self._names, start)
        names = takewhile(lambda name: name.startswith(start), islice(self._names, place, None))
        found = {name: self.constant(name) for name in names}
        return {name: value for name, value in found.items() if value is not None}

    def has(self, start: str) -> bool:
        """Return whether any constant's name begins with `start`."""
        place = bisect_left(self._names, start)
        return place < len(self._names) and self._names[place].startswith(start)

    def keep(self, name: str, value: Any, *, later: bool = False) -> None:
        """Store a constant for this session and later processes.

        `later` defers the write to the session's next one: a write takes 10 to 50 ms.
        """
        if name not in self._known and name not in self._texts:
            insort(self._names, name)
        self._known[name] = self._unwritten[name] = value
        if not later:
            self.write()

    def write(self) -> None:
        """Write the constants that are not in the history yet."""
        while self._unwritten:
            now, self._unwritten = self._unwritten, {}
            self.history.keep_constants(now)
