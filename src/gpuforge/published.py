"""What a gpuforge process shows of itself: counters in one small file that it maps into its memory.

A process writes its counters where any other process of the same user can read them, without a
thread and without a system call. The file lies in a folder that only the user can enter, and is
removed when the process ends, or by the next reader if it died without doing so.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class BackendUse:
    """What a process did on one backend.

    Attributes
    ----------
    seconds : wall time of its calls; calls that were not timed count as the last timed
    transfer_seconds : the part of the timed calls in which arrays were moved there and back
    """

    name: str
    calls: int
    seconds: float
    transfer_seconds: float


@dataclass(frozen=True)
class Published:
    """The counters of one process, as it last wrote them.

    Attributes
    ----------
    program : name of the program that it runs
    started_at, updated_at : seconds since the epoch
    span : name of what it does now; empty where nothing was named
    backends : what it did on each, in the order of their first use
    queued, running : tasks of its executors now
    done, failed : tasks that ended so far
    batches : batches that were made of tasks or of mapped items so far
    settled : calls that NumPy had to settle, because a backend failed or differed
    retries : calls that were started again as written
    """

    pid: int
    program: str
    started_at: float
    updated_at: float
    span: str
    backends: tuple[BackendUse, ...]
    queued: int
    running: int
    done: int
    failed: int
    batches: int
    settled: int
    retries: int
