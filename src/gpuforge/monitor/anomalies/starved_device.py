"""A device whose utilisation has fallen while tasks wait.

Considers the period in which a process has continuously had waiting tasks, and the GPUs that it
uses, or all GPUs if no driver tells which. Reports when a GPU's
utilisation was above 25 % in the best quarter of that period, and has been below half of that
quarter's level for 30 s and more than twice as long as ever before, while tasks still finished. If
none finishes, that is `stalled_queue`'s case.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median, quantiles

from gpuforge.monitor.anomaly import Anomaly
from gpuforge.monitor.series import Series, Subject

SECONDS = 30.0
BUSY = 0.25
FALLEN, RECOVERED = 0.5, 0.75
LONGER = 2.0
_SMOOTH = 5


def find(subjects: Sequence[Subject]) -> Iterator[Anomaly]:
    """Yield the GPUs that are idle while a process on this machine has waiting tasks."""
    waiting = next(filter(_waits, subjects), None)
    if waiting is None:
        return
    since = max((t for t, count in waiting.series["tasks_waiting"] if not count), default=0.0)
    used = {name for name, _ in waiting.starting("uses:")} or {one.name for one in subjects}
    for subject in subjects:
        series = [one for one in subject.series.get("utilization_ratio", ()) if one[0] > since]
        if subject.kind != "gpu" or subject.name not in used or len(series) < 2 * _SMOOTH:
            continue
        before = quantiles((value for _, value in series), n=4)[2]
        *earlier, now = _stretches(series, before)
        if before > BUSY and now >= SECONDS and now > LONGER * max(earlier, default=0.0):
            share = median(subject.recent("utilization_ratio", SECONDS))
            yield Anomaly(
                "starved_device", subject.name, "warning",
                f"utilisation fell from {100 * before:.0f} % to {100 * share:.0f} % while tasks of "
                f"{waiting.name} wait",
                "look where the time goes on the host: reading and preparing inputs, transfers,"
                " or a lock",
            )  # fmt: skip


def _stretches(series: Series, before: float) -> list[float]:
    """Return the seconds of each stretch of low utilisation; the last one is that until now.

    It is 0 if there is none now. A stretch ends when utilisation is nearly back to its old level.
    """
    found, since = [], None
    for n, (moment, _) in enumerate(series):
        use = median(value for _, value in series[max(0, n - _SMOOTH + 1) : n + 1])
        if since is None and use < FALLEN * before:
            since = moment
        elif since is not None and use > RECOVERED * before:
            found.append(moment - since)
            since = None
    return [*found, 0.0 if since is None else series[-1][0] - since]


def _waits(subject: Subject) -> bool:
    tasks = subject.recent("tasks_waiting", SECONDS)
    finished = subject.recent("tasks_finished", SECONDS)
    return bool(tasks) and min(tasks) > 0 and bool(finished) and finished[-1] > finished[0]
