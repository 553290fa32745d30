"""A device whose utilisation has fallen while work waits for it.

It speaks when a GPU was busy more than half of the time in the best quarter of the last minutes,
has been busy for less than half of that in the last 30 s, and a process has had tasks waiting all
the while, some of which finished: a queue in which none does is `stalled_queue`'s.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median, quantiles

from gpuforge.monitor.anomaly import Anomaly
from gpuforge.monitor.series import Subject

SECONDS = 30.0
BUSY = 0.5
FALLEN = 0.5


def find(subjects: Sequence[Subject]) -> Iterator[Anomaly]:
    """Yield the GPUs that idle while a process of this machine has work for them."""
    waiting = [subject for subject in subjects if _waits(subject)]
    for subject in subjects if waiting else ():
        used = [value for _, value in subject.series.get("utilization_ratio", ())]
        now = subject.recent("utilization_ratio", SECONDS)
        if subject.kind != "gpu" or len(used) < 2 * len(now) or not now:
            continue
        before = quantiles(used[: -len(now)], n=4)[2]
        if before > BUSY and median(now) < FALLEN * before:
            yield Anomaly(
                "starved_device", subject.name, "warning",
                f"utilisation fell from {before:.0%} to {median(now):.0%} while tasks of "
                f"{waiting[0].name} wait",
                "look where the time goes on the host: reading and preparing inputs, transfers,"
                " or a lock",
            )  # fmt: skip


def _waits(subject: Subject) -> bool:
    tasks = subject.recent("tasks_waiting", SECONDS)
    finished = subject.recent("tasks_finished", SECONDS)
    return bool(tasks) and min(tasks) > 0 and bool(finished) and finished[-1] > finished[0]
