"""The progress of a long map, as a terminal line that is erased at the end."""

from __future__ import annotations

from time import perf_counter

from gpuforge.runtime.progress_line import ProgressLine, say

AFTER_SECONDS, EVERY_SECONDS = 1.0, 0.1


class Progress:
    """The progress line of one map; none if stderr is not a terminal, or the map is short."""

    def __init__(self, name: str, total: int | None) -> None:
        self._name, self._total = name, total
        self._began = perf_counter()
        self._due = self._began + AFTER_SECONDS
        self._line = ProgressLine()

    def update(self, done: int) -> None:
        """Show that `done` items have finished, if an update is due."""
        now = perf_counter()
        if now < self._due:
            return
        self._due = now + EVERY_SECONDS
        rate = done / (now - self._began)
        share = f" of {self._total} ({100 * done // self._total} %)" if self._total else ""
        self._line.show(f"{self._name}: {done}{share}, {rate:.3g} items/s")

    def close(self) -> None:
        """Erase the line."""
        self._line.erase()


def say_ended(name: str, done: int, total: int | None, cause: str = "interrupted") -> None:
    """Report on stderr how many items of a map had finished when it was cut short."""
    of = f" of {total}" if total is not None else ""
    say(f"gpuforge: {name} was {cause}: {done}{of} items finished\n")
