"""A task queue in which work waits and nothing finishes.

Reports when tasks have waited and none has finished for 30 s, or for much longer than the longest
pause between two finished tasks so far, whichever is more. "Much longer" is three times, or one and
a half times if the pauses are similar.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from gpuforge.monitor.anomaly import Anomaly
from gpuforge.monitor.series import Series, Subject
from gpuforge.units import format_seconds

AT_LEAST_SECONDS = 30.0
PAUSES = 3.0
PAUSES_ALIKE = 1.5
ALIKE_FROM = 3


def find(subjects: Sequence[Subject]) -> Iterator[Anomaly]:
    """Yield the processes whose queue is stalled."""
    for subject in subjects:
        finished = subject.series.get("tasks_finished", ())
        still, pauses = _pauses(finished)
        if still < max(AT_LEAST_SECONDS, _usual(pauses)):
            continue
        waiting = subject.recent("tasks_waiting", still)
        if waiting and min(waiting) > 0:
            yield Anomaly(
                "stalled_queue", subject.name, "warning",
                f"no task has finished for {format_seconds(still)}, with {waiting[-1]:.0f} waiting",
                "see what the running task does: py-spy dump --pid PID; or give tasks a timeout",
            )  # fmt: skip


def _pauses(finished: Series) -> tuple[float, list[float]]:
    """Return for how long a counter has not changed, and the lengths of its earlier pauses."""
    if not finished:
        return 0.0, []
    (since, count), pauses = finished[0], []
    for moment, value in finished:
        if value != count:
            pauses.append(moment - since)
            since, count = moment, value
    return finished[-1][0] - since, pauses


def _usual(pauses: list[float]) -> float:
    """Return how long a pause may be: the more pauses vary, the further beyond the longest."""
    longest = max(pauses, default=0.0)
    whole = pauses[1:]  # the first one began before the first sample
    if len(whole) < ALIKE_FROM:
        return PAUSES * longest
    beyond = 2 * (longest - median(whole))
    return min(max(PAUSES_ALIKE * longest, longest + beyond), PAUSES * longest)
