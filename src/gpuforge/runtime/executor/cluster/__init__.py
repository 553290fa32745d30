"""``gpuforge.cluster``: maps and single calls on the workers of a Dask cluster.

Dask does scheduling, priorities, retries, resources and scaling. Each worker is a process that
places calls on its own hardware; what it learns is sent back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from contextvars import Token
from math import inf
from time import monotonic
from typing import Any
from uuid import uuid4

from gpuforge.errors import InvalidSettings, TaskTimeout
from gpuforge.log import logger
from gpuforge.runtime import context
from gpuforge.runtime.executor.cluster.calls import ClusterFuture, follow
from gpuforge.runtime.executor.cluster.connection import Connection, connect
from gpuforge.runtime.executor.cluster.learning import learned, stored
from gpuforge.runtime.executor.cluster.run import Run, explained, gone
from gpuforge.runtime.executor.cluster.work import HERE, Function, run_call, same
from gpuforge.runtime.executor.mapping import check_items
from gpuforge.runtime.function.naming import name_of

SHARED_BYTES = 256 << 10
"""A larger pickled function is sent once instead of with each chunk."""
MOST_SHARED = 8
HANDED_OVER = 5_000
"""Number of the newest rows of each history table that are sent to new workers."""
REPORT_TIMEOUT = 5.0
"""Time limit for workers to report what they learned, when the cluster is closed."""
_log = logger("cluster")


class Cluster:
    """A Dask cluster that makes calls. Made by `gpuforge.cluster`; use it in a `with` statement.

    Attributes
    ----------
    client : Dask's client, for Dask's own functions
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._shared: dict[str, Any] = {}
        self._tokens: list[tuple[Token[Any], Any]] = []
        self._closed = False
        self.client = connection.client
        self._name = f"gpuforge-{uuid4().hex}"
        try:
            self._prepare_workers()
        except Exception as error:  # noqa: BLE001 - of a worker: anything
            self._forget()
            connection.close(at_once=True)
            raise explained(error) from None
        except BaseException:
            connection.close(at_once=True)
            raise

    def _prepare_workers(self) -> None:
        """Send each worker, also later ones, what is known about its machine."""
        from gpuforge.runtime.executor.cluster.plugin import Joining

        known = stored().rows(newest=HANDED_OVER, everywhere=True)
        self.client.register_plugin(
            Joining(self._name, known, local=self._connection.folder is not None)
        )

    def _forget(self) -> None:
        """Unregister the worker plugin after a failure, or new workers would be refused."""
        try:
            self.client.unregister_worker_plugin(self._name)
        except Exception as error:  # noqa: BLE001 - workers that refused it cannot take it back
            _log.info("some workers did not have the plugin %s: %r", self._name, error)

    def __repr__(self) -> str:
        return f"<gpuforge cluster at {self._connection.address}{' (closed)' * self._closed}>"

    def __enter__(self) -> Cluster:
        default = self.client.as_current()
        default.__enter__()
        self._tokens.append((context.cluster.set(self), default))
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        token, default = self._tokens.pop()
        context.cluster.reset(token)
        default.__exit__(kind, *rest)
        self.close(at_once=kind is not None and not issubclass(kind, Exception))

    def close(self, *, at_once: bool = False) -> None:
        """Store what the workers learned, and end what was started for this cluster.

        Parameters
        ----------
        at_once
            Kill the workers of a cluster that was started here, even if they are busy.
        """
        if self._closed:
            return
        self._closed = True
        self._shared.clear()
        try:
            if not at_once and self.client.status == "running":
                self._take_in_what_was_learned()
        finally:
            self._connection.close(at_once=at_once)

    def map(
        self,
        function: Callable[[Any], Any],
        items: Iterable[Any],
        *,
        on_error: str = "raise",
        timeout: float | None = None,
        priority: float = 0,
        retries: int = 0,
        resources: Mapping[str, float] | None = None,
        workers: Any = None,
    ) -> list[Any] | Iterator[Any]:
        """Call a function for each item, on the workers.

        Parameters
        ----------
        function
            An offloaded function or any other. Bind values that all calls share with
            ``functools.partial``, so that they are sent once.
        items
            A list, an array or another collection gives a list; an iterator gives an iterator,
            which reads some items ahead of the results requested. Workers get copies.
        on_error
            ``"raise"``: the first failing item, in order, raises its error. ``"return"``: errors
            are returned in place of results, and the other items finish.
        timeout
            Seconds from now until the last result must be there.
        priority, retries, resources, workers
            As in Dask. Higher priorities go first; `retries` limits how often the chunk of a
            failing item is repeated.

        Returns
        -------
        list or iterator
            The results in the order of the items, equal to those of local calls.

        Raises
        ------
        TaskTimeout
            If the time is over; with ``on_error="return"`` and a list, it is returned in place of
            the unfinished results.
        ClusterUnavailable
            If the scheduler is gone.
        WorkerDied
            If an item ended the process of each worker it ran on.
        WorkloadError, EnvironmentMismatch
            If a worker cannot load the function, or has another version of gpuforge or Python, or
            `items` are none.
        """
        if on_error not in ("raise", "return"):
            raise InvalidSettings(f"on_error={on_error!r} is neither 'raise' nor 'return'")
        options = self._options(timeout, priority, retries, resources, workers)
        check_items("the map", items)
        length = len(items) if isinstance(items, Sized) else None
        deadline = None if timeout is None else monotonic() + timeout
        sent = self._sent(function)
        run = Run(self.client, sent, items, options, length=length, deadline=deadline)
        results = self._results(run, on_error)
        return results if length is None else list(results)

    def submit(
        self,
        function: Callable[..., Any],
        /,
        *args: Any,
        timeout: float | None = None,
        priority: float = 0,
        retries: int = 0,
        resources: Mapping[str, float] | None = None,
        workers: Any = None,
        name: str = "",
        **kwargs: Any,
    ) -> ClusterFuture:
        """Make one call on a worker.

        Parameters
        ----------
        function, args, kwargs
            The call. A future returned by this method may be an argument: its value stays on the
            cluster.
        timeout
            Seconds from now until the result must be there.
        priority, retries, resources, workers
            As in Dask. Higher priorities go first.
        name
            Name of the call in Dask's dashboard and in errors.

        Returns
        -------
        ClusterFuture
            A ``concurrent.futures.Future``; its ``dask`` is Dask's future. It raises what the call
            raises, and what `map` raises.
        """
        options = self._options(timeout, priority, retries, resources, workers)
        text = name or name_of(function)
        values = tuple(map(_of_dask, args))
        named = {key: _of_dask(value) for key, value in kwargs.items()}
        sent = self._sent(function)
        dask = self.client.submit(
            run_call, HERE, sent, values, named,
            pure=False, key=f"{text}-{uuid4().hex}", **options,
        )  # fmt: skip
        return follow(self.client, dask, text, timeout)

    def map_blocks(
        self, function: Callable[..., Any], *arrays: Any, dtype: Any = None, **options: Any
    ) -> Any:
        """Apply a function to each block of Dask arrays, and return a Dask array.

        Parameters
        ----------
        function
            Takes one block of each array, and returns a block of as many axes.
        arrays
            Arrays with the same grid of blocks.
        dtype
            The dtype of the result. Without it, dtype and chunks are inferred by recording the
            function on arrays of each block's shape, without computing anything.
        options
            Options of ``dask.array.map_blocks``: ``chunks=``, ``drop_axis=``, ``new_axis=``, ...

        Returns
        -------
        dask.array.Array
            Computed where Dask computes it: inside ``with cluster:`` that is this cluster.

        Raises
        ------
        WorkloadError
            If dtype and chunks cannot be inferred and must be given.
        """
        from gpuforge.runtime.executor.cluster.blocks import map_blocks

        return map_blocks(Function(function), function, arrays, dtype, options)

    def _results(self, run: Run, on_error: str) -> Iterator[Any]:
        """Yield results in order, and store what was learned."""
        try:
            for good, value in self._outcomes(run, on_error):
                if not good and on_error == "raise":
                    raise value
                yield value
        finally:
            stored().merge(run.learned)

    def _outcomes(self, run: Run, on_error: str) -> Iterator[tuple[bool, Any]]:
        try:
            yield from run
        except TaskTimeout as error:
            if on_error == "raise" or run.length is None:
                raise
            yield from run.rest(error)

    def _options(
        self, timeout: Any, priority: Any, retries: Any, resources: Any, workers: Any
    ) -> dict[str, Any]:
        """Return the validated Dask options of a task."""
        if self._closed:
            raise gone(self._connection.address, ": the cluster was closed")
        if self.client.status != "running":
            raise gone(self._connection.address)
        _check_number("priority", priority, (int, float))
        _check_number("retries", retries, (int,), least=0)
        if timeout is not None:
            _check_number("timeout", timeout, (int, float), least=0)
        return {
            "priority": priority,
            "retries": retries,
            "resources": dict(resources) if resources else None,
            "workers": workers,
        }

    def _sent(self, function: Callable[..., Any]) -> Any:
        """Return a function in the form sent with each chunk; a large one is a separate task."""
        made = Function(function)
        if len(made.payload) <= SHARED_BYTES:
            return made
        found = self._shared.get(made.digest)
        if found is None or found.status in ("cancelled", "lost", "error"):
            if len(self._shared) >= MOST_SHARED:
                self._shared.pop(next(iter(self._shared)))
            key = f"gpuforge-function-{made.digest}"
            found = self._shared[made.digest] = self.client.submit(same, made, key=key)
        return found

    def _take_in_what_was_learned(self) -> None:
        async def ask() -> Any:
            told = self.client.run(learned, on_error="return")
            return await asyncio.wait_for(told, REPORT_TIMEOUT)

        try:
            found = self.client.sync(ask)
            if self._connection.folder is None:
                self._forget()
        except (OSError, TimeoutError) as error:
            _log.warning("the timings learned by the workers could not be collected: %r", error)
            return
        for address, rows in found.items():
            if isinstance(rows, BaseException):
                _log.warning("the timings learned by %s could not be collected: %r", address, rows)
            else:
                stored().merge(rows)


def cluster(
    where: Any = None,
    /,
    *,
    local: int | None = None,
    adaptive: tuple[int, int] | None = None,
    security: Any = None,
    timeout: float = 5.0,
) -> Cluster:
    """Return a cluster of Dask workers, for a ``with`` statement.

    Parameters
    ----------
    where
        The address of a scheduler (``"tcp://scheduler:8786"``), a Dask client, or any Dask cluster
        object. It is not changed when the block is left.
    local
        Number of worker processes of a new cluster on this machine, which ends with the block.
    adaptive
        Minimum and maximum number of workers, if Dask can start them: for a `local` cluster or a
        cluster object.
    security
        A ``distributed.Security`` with the certificates of the cluster; True for a `local` one that
        makes its own.
    timeout
        Seconds that the scheduler may take to answer.

    Raises
    ------
    ClusterUnavailable
        If no scheduler answers.
    BackendUnavailable
        If Dask is not installed.
    EnvironmentMismatch
        If gpuforge is missing on the workers, or is of another version, or their Python is.
    InvalidSettings
        If the arguments contradict each other.
    """
    nothing = where is None and local is None and adaptive is None
    if nothing or (where is not None and local is not None):
        raise InvalidSettings(
            "gpuforge.cluster takes an address, a Dask cluster or client, or local=",
            hint="gpuforge.cluster(local=4) starts four workers on this machine",
        )
    if local is not None:
        _check_number("local", local, (int,), least=1)
    _check_number("timeout", timeout, (int, float), least=0)
    if adaptive is not None:
        _check_adaptive(adaptive)
    return Cluster(connect(where, local, adaptive, security, timeout))


def _check_number(name: str, value: Any, kinds: Any, *, least: float = -inf) -> None:
    if isinstance(value, bool) or not isinstance(value, kinds):
        wanted = " or ".join(kind.__name__ for kind in kinds)
        raise InvalidSettings(f"{name}={value!r} is not a number ({wanted})")
    if not value >= least:
        raise InvalidSettings(f"{name}={value!r} is less than {least}")


def _check_adaptive(adaptive: Any) -> None:
    good = isinstance(adaptive, tuple | list) and len(adaptive) == 2
    if not good or not all(type(n) is int for n in adaptive) or not 0 <= adaptive[0] <= adaptive[1]:
        raise InvalidSettings(
            f"adaptive={adaptive!r} is not the fewest and the most workers",
            hint="adaptive=(1, 8)",
        )


def _of_dask(value: Any) -> Any:
    return value.dask if isinstance(value, ClusterFuture) else value
