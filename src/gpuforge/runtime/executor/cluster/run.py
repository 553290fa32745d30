"""A map in progress on a cluster: send items in chunks, return results and errors in order."""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import CancelledError
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any

from gpuforge.errors import ClusterUnavailable, TaskCancelled, TaskTimeout, WorkerDied
from gpuforge.history import Rows
from gpuforge.runtime.executor import termination
from gpuforge.runtime.executor.cluster.work import (
    HERE,
    Done,
    Ended,
    Function,
    ItemsFailed,
    Outcome,
    pack,
    run_chunk,
)
from gpuforge.runtime.executor.progress import say_ended

CHUNK_SECONDS, LEAST_SECONDS = 0.1, 0.01
"""Target duration of a chunk, some fifty times the overhead of a Dask task; and its minimum when
the last items are shared among all threads."""
CHUNK_BYTES = 4 << 20
MOST_ITEMS = 10_000
AHEAD = 2
"""Chunks queued per worker thread, so that it never waits for the next one."""
WINDOW = 4
"""Chunks per thread that may finish before the oldest one."""
LOOK_SECONDS = 1.0
"""Limit for a single wait: on Windows, Ctrl-C does not interrupt one."""
ASK_SECONDS = 5.0
LOST = "scheduler-connection-lost"


@dataclass(eq=False)
class Chunk:
    """Items that are sent together.

    Attributes
    ----------
    start : index of the first item
    suspect : whether its workers died, so that it is now sent alone
    """

    start: int
    items: list[Any]
    suspect: bool = False


class Run:
    """One map over one iterable; iterating yields the outcome of each item in order.

    Parameters
    ----------
    client
        Dask's client.
    function
        The function, or a Dask future of it.
    options
        Options of Dask's ``submit``: priority, retries, resources, workers.
    length
        Number of items; None if unknown.
    deadline
        Deadline on the clock of `time.monotonic`; None for no limit.
    """

    def __init__(
        self,
        client: Any,
        function: Function | Any,
        items: Iterable[Any],
        options: dict[str, Any],
        *,
        length: int | None = None,
        deadline: float | None = None,
    ) -> None:
        self.client, self.function, self.options = client, function, options
        self.address = client.scheduler.address
        self.length, self.deadline = length, deadline
        self.learned = Rows([], [])
        self.finished = 0
        self._source: Iterator[Any] | None = iter(items)
        self._source_error: BaseException | None = None
        self._taken = self._given = 0
        self._each_seconds = self._each_bytes = 0.0
        self._threads, self._threads_known = 1, -1.0
        self._out: dict[Any, Chunk] = {}
        self._suspects: deque[Chunk] = deque()
        self._done: dict[int, list[Outcome]] = {}
        self._come: SimpleQueue[tuple[Any, Any]] = SimpleQueue()
        self._held = termination.Held(partial(self._come.put, (None, None)))

    def __iter__(self) -> Iterator[Outcome]:
        termination.begin(self, self._say_terminated)
        try:
            while True:
                with self._held:
                    ready = self._next()
                if not ready:
                    break
                yield from ready
            if self._source_error is not None:
                raise self._source_error
        except KeyboardInterrupt as error:
            error.args = (f"{self._so_far()} of the map had finished, the others are given up",)
            raise
        finally:
            termination.end(self)
            for future in self._out:  # cancel what is no longer needed
                future.release()
            self._out.clear()

    def _next(self) -> list[Outcome]:
        """Send chunks, and return the next results once they are there; none at the end."""
        self._send()
        while self._given not in self._done and self._out:
            self._wait()
            self._send()
        ready = self._done.pop(self._given, [])
        self._given += len(ready)
        return ready

    def _wait(self) -> None:
        """Wait for at least one chunk, and handle all that have finished."""
        while True:
            left = LOOK_SECONDS
            if self.deadline is not None:
                left = min(left, self.deadline - monotonic())
            try:
                future, result = self._come.get(timeout=max(left, 0))
            except Empty:
                if self.deadline is not None and monotonic() >= self.deadline:
                    raise self._late() from None
            else:
                if future is None:
                    raise KeyboardInterrupt
                self._settle(self._out.pop(future), future.status, result)
                if self._come.empty():
                    return

    async def _follow(self, future: Any) -> None:
        self._come.put((future, await result_of(future)))

    def rest(self, error: TaskTimeout) -> list[Outcome]:
        """Return the outcomes of the items not yet returned when the time is over."""
        found: list[Outcome] = []
        while self._given + len(found) < (self.length or 0):
            found += self._done.pop(self._given + len(found), [(False, error)])
        return found

    def _late(self) -> TaskTimeout:
        return TaskTimeout(
            f"{self._so_far()} of the map had finished when its timeout was over;"
            " what workers have begun still runs there",
            hint="raise timeout=, or restart workers that hang: cluster.client.restart()",
        )

    def _say_terminated(self) -> None:
        say_ended("the map", self.finished, self.length, "terminated")

    def _so_far(self) -> str:
        return f"{self.finished}{'' if self.length is None else f' of {self.length}'} items"

    def _send(self) -> None:
        """Send chunks until each thread has enough queued; suspects are sent alone."""
        while not self._suspects and self._has_room():
            items = self._take()
            if not items:
                break
            self._submit(Chunk(self._taken, items))
            self._taken += len(items)
        if self._suspects and not self._out:
            self._submit(self._suspects.popleft())

    def _has_room(self) -> bool:
        if self._source is None:
            return False
        self._count_threads()
        waiting = len(self._out) + (len(self._done) if self.length is None else 0)
        most = self._threads * (AHEAD if self.length is not None else WINDOW)
        return len(self._out) < AHEAD * self._threads and waiting < most

    def _count_threads(self) -> None:
        """Query the workers' number of threads every second: workers come and go."""
        if monotonic() - self._threads_known < LOOK_SECONDS:
            return
        self._check()
        try:
            self._threads = sum(self.client.nthreads(callback_timeout=ASK_SECONDS).values()) or 1
        except OSError:
            self._check()  # else the scheduler is busy: keep the last number
        self._threads_known = monotonic()

    def _check(self) -> None:
        if self.client.status != "running":
            raise self._gone()

    def _size(self) -> int:
        """Return the size of the next chunk: one item until the time per item is known."""
        if not self._each_seconds:
            return 1
        size = CHUNK_SECONDS / self._each_seconds
        if self.length is not None:  # share the last items among all threads
            share = (self.length - self._taken) / (AHEAD * self._threads)
            size = min(size, max(share, LEAST_SECONDS / self._each_seconds))
        return max(1, int(min(size, MOST_ITEMS, CHUNK_BYTES / max(self._each_bytes, 1))))

    def _take(self) -> list[Any]:
        """Return the next items; an error of the iterable is raised after the results before it."""
        found: list[Any] = []
        size, until = self._size(), monotonic() + CHUNK_SECONDS
        self._held.open = True  # the caller's iterator may take as long as it likes
        while self._source is not None and len(found) < size and monotonic() < until:
            try:
                found.append(next(self._source))
            except StopIteration:
                self._source = None
            except Exception as error:  # noqa: BLE001 - raised after the results before it
                self._source, self._source_error = None, error
        self._held.open = False
        return found

    def _submit(self, chunk: Chunk) -> None:
        try:
            packed = pack(chunk.items)
        except Exception:  # noqa: BLE001 - each item that cannot be sent gets its own error
            self._submit_singly(chunk)
            return
        self._each_bytes = len(packed) / len(chunk.items)
        again = bool(self.options.get("retries"))
        self._check()
        future = self.client.submit(
            run_chunk, HERE, self.function, packed, again, pure=False, **self.options
        )
        self._out[future] = chunk
        self.client.loop.add_callback(self._follow, future)

    def _submit_singly(self, chunk: Chunk) -> None:
        for place, item in enumerate(chunk.items, chunk.start):
            try:
                pack(item)
            except Exception as error:  # noqa: BLE001 - the item's own error
                self._done[place] = [(False, error)]
                self.finished += 1
            else:
                self._submit(Chunk(place, [item], chunk.suspect))

    def _settle(self, chunk: Chunk, status: str, result: Any) -> None:
        """Handle the outcome of a chunk."""
        from distributed.scheduler import KilledWorker

        if status == "finished":
            self._take_in(chunk, result)
            return
        error = result[1] if isinstance(result, tuple) else result
        if isinstance(error, ItemsFailed):
            self._take_in(chunk, error.args[0])
        elif isinstance(error, KilledWorker):
            self._suspect(chunk)
        elif status == "error":
            raise explained(error)
        elif getattr(error, "reason", LOST) == LOST:
            raise self._gone()
        else:
            raise TaskCancelled(
                f"items {chunk.start} to {chunk.start + len(chunk.items) - 1} of the map were"
                f" cancelled on the cluster: {error}",
                hint="run the map again; closing or restarting its cluster or client cancels it",
            )

    def _take_in(self, chunk: Chunk, done: Done) -> None:
        outcomes: list[Outcome] = pickle.loads(done.outcomes)
        each = done.seconds / len(outcomes)
        self._each_seconds = (self._each_seconds or each) * 0.5 + each * 0.5 + 1e-9
        self.learned.timings.extend(done.learned.timings)
        self.learned.constants.extend(done.learned.constants)
        self.finished += len(outcomes)
        self._done[chunk.start] = outcomes

    def _suspect(self, chunk: Chunk) -> None:
        """Send the items of a chunk whose workers died one by one, with nothing else running.

        Dask cannot tell which of the queued chunks killed a worker; an item that runs alone can.
        """
        if chunk.suspect:
            self.finished += 1
            self._done[chunk.start] = [(False, died(f"item {chunk.start} of the map"))]
            return
        singles = [Chunk(place, [one], True) for place, one in enumerate(chunk.items, chunk.start)]
        self._suspects.extend(singles)

    def _gone(self) -> ClusterUnavailable:
        return gone(self.address, f": {self._so_far()} of the map had finished")


async def result_of(future: Any) -> Any:
    """Return the outcome of a Dask future: status, and the value or error."""
    try:
        return await future._result(raiseit=False)
    except CancelledError as error:
        return error


def gone(address: str, told: str = "") -> ClusterUnavailable:
    """Return the error for a scheduler that no longer answers."""
    return ClusterUnavailable(
        f"the connection to the Dask scheduler at {address} is lost{told}",
        hint="find out why it ended in the scheduler's log, restart it and repeat the call",
    )


def died(what: str) -> WorkerDied:
    """Return the error for a call that ended each worker it ran on."""
    return WorkerDied(
        f"each worker that ran {what} ended in the middle of it; it alone was running there",
        hint="the workers' logs show why; usually memory ran out or a library crashed",
    )


def explained(error: BaseException) -> BaseException:
    """Return what to raise for a call, or a chunk that could not be run at all."""
    if isinstance(error, Ended):
        return error.args[0]  # type: ignore[no-any-return]
    if "No module named 'gpuforge" in str(error):  # Dask may send only the text
        from gpuforge.errors import EnvironmentMismatch

        return EnvironmentMismatch(
            "gpuforge is not installed on a worker of the cluster",
            hint=f"run 'pip install gpuforge=={HERE[0]}' on the workers' machines",
        )
    return error
