"""A device whose utilisation has fallen while work waits for it.

It looks at the time for which a process has had tasks waiting without a break. It speaks when a GPU
was busy for a quarter of the time or more in the best quarter of that, and has been busy for less
than half as much for 30 s, more than twice as long as ever before, while tasks finished: a queue in
which none does is `stalled_queue`'s.
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
    """Yield the GPUs that idle while a process of this machine has work for them."""
    waiting = next(filter(_waits, subjects), None)
    if waiting is None:
        return
    since = max((t for t, count in waiting.series["tasks_waiting"] if not count), default=0.0)
    for subject in subjects:
        series = [one for one in subject.series.get("utilization_ratio", ()) if one[0] > since]
        if subject.kind != "gpu" or len(series) < 2 * _SMOOTH:
            continue
        before = quantiles((value for _, value in series), n=4)[2]
        *earlier, now = _stretches(series, before)
        if before > BUSY and now >= SECONDS and now > LONGER * max(earlier, default=0.0):
            share = median(subject.recent("utilization_ratio", SECONDS))
            yield Anomaly(
                "starved_device", subject.name, "warning",
                f"utilisation fell from {before:.0%} to {share:.0%} while tasks of "
                f"{waiting.name} wait",
                "look where the time goes on the host: reading and preparing inputs, transfers,"
                " or a lock",
            )  # fmt: skip


def _stretches(series: Series, before: float) -> list[float]:
    """Return the seconds of each stretch with less use, the one that lasts until now at the end.

    It is 0 where there is none now. Use has to come back nearly to what it was to end a stretch.
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
