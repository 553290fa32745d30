"""A queue in which work waits and nothing finishes.

It speaks when tasks waited for all of the last 30 s, or three times the longest pause between two
of the process's tasks before, whichever is more, and none finished in that time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuforge.monitor.anomaly import Anomaly
from gpuforge.monitor.series import Series, Subject
from gpuforge.units import format_seconds

AT_LEAST_SECONDS = 30.0
PAUSES = 3.0


def find(subjects: Sequence[Subject]) -> Iterator[Anomaly]:
    """Yield the processes whose queue stands still."""
    for subject in subjects:
        finished = subject.series.get("tasks_finished", ())
        still, longest = _pauses(finished)
        if still < max(AT_LEAST_SECONDS, PAUSES * longest):
            continue
        waiting = subject.recent("tasks_waiting", still)
        if waiting and min(waiting) > 0:
            yield Anomaly(
                "stalled_queue", subject.name, "warning",
                f"{waiting[-1]:.0f} tasks wait, and none has finished for {format_seconds(still)}",
                "see what the running task does: py-spy dump, or give tasks a timeout",
            )  # fmt: skip


def _pauses(finished: Series) -> tuple[float, float]:
    """Return how long a counter has stood still, and the longest that it did so before."""
    if not finished:
        return 0.0, 0.0
    (since, count), longest = finished[0], 0.0
    for moment, value in finished:
        if value != count:
            longest, since, count = max(longest, moment - since), moment, value
    return finished[-1][0] - since, longest
