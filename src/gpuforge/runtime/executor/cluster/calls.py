"""Single calls on a cluster: a standard future that follows Dask's."""

from __future__ import annotations

from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Any

from gpuforge.errors import TaskTimeout
from gpuforge.runtime.executor.cluster.run import LOST, died, explained, gone, result_of
from gpuforge.runtime.executor.future import CallFuture


class ClusterFuture(CallFuture[Any]):
    """A ``concurrent.futures.Future`` of a call on a cluster.

    Attributes
    ----------
    dask : Dask's future of the same call; used as an argument, its value stays on the cluster
    """

    def __init__(self, dask: Any, name: str) -> None:
        super().__init__()
        self.dask, self._name = dask, name
        self.add_done_callback(_let_go)

    def _fate(self) -> str:
        return f"{self._name} was cancelled, as what is not done is when its cluster is closed"


def follow(client: Any, dask: Any, name: str, timeout: float | None) -> ClusterFuture:
    """Return a future that gets the outcome of Dask's."""
    made = ClusterFuture(dask, name)
    address = client.scheduler.address
    client.loop.add_callback(_follow, made, name, address)
    if timeout is not None:
        client.loop.add_callback(client.loop.call_later, timeout, _end_late, made, name, timeout)
    return made


async def _follow(made: ClusterFuture, name: str, address: str) -> None:
    from distributed.scheduler import KilledWorker

    result = await result_of(made.dask)
    with suppress(InvalidStateError):  # it was cancelled or timed out
        if made.dask.status == "finished":
            made.set_result(result)
            return
        error = result[1] if isinstance(result, tuple) else result
        if isinstance(error, KilledWorker):
            made.set_exception(died(name))
        elif made.dask.status == "error":
            made.set_exception(explained(error.with_traceback(result[2])))
        elif getattr(error, "reason", LOST) == LOST:
            made.set_exception(gone(address, f" before {name} was done"))
        elif made.cancel():
            made.set_running_or_notify_cancel()


def _end_late(made: ClusterFuture, name: str, timeout: float) -> None:
    error = TaskTimeout(
        f"{name} was not done within {timeout:g} s; if a worker has begun it, it still runs there",
        hint="raise timeout=, or restart workers that hang: cluster.client.restart()",
    )
    with suppress(InvalidStateError):
        made.set_exception(error)


def _let_go(made: Future[Any]) -> None:
    """Cancel the Dask call of a future that ended without its result."""
    assert isinstance(made, ClusterFuture)
    if made.cancelled() or made.exception() is not None:
        made.dask.release()
