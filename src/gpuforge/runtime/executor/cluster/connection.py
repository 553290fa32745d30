"""Connect to a Dask cluster or start one, check it, and end it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import multiprocessing
import os
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any

from gpuforge.errors import BackendUnavailable, ClusterUnavailable, InvalidSettings, WorkloadError
from gpuforge.installation import install_command
from gpuforge.log import logger
from gpuforge.runtime.executor import termination

CLOSE_SECONDS, END_SECONDS = 0.5, 10.0
"""Time limits for Dask to close what was interrupted or lost, and anything else."""
Folder = TemporaryDirectory[str]
_log = logger("cluster")


class Connection:
    """A Dask client and, if there is one, its cluster object.

    Attributes
    ----------
    client : Dask's client
    cluster : Dask's cluster object; None for a scheduler given by its address
    folder : folder for workers of a cluster that was started here; None for others
    """

    def __init__(
        self, client: Any, cluster: Any, *, opened: bool, folder: Folder | None = None
    ) -> None:
        self.client, self.cluster, self.folder = client, cluster, folder
        self._opened = opened

    @property
    def address(self) -> str:
        """The address of the scheduler."""
        scheduler = self.client.scheduler
        return str(scheduler.address if scheduler is not None else "a scheduler that is gone")

    def close(self, *, at_once: bool = False) -> None:
        """End what was started here, and nothing else; `at_once` kills the workers."""
        with _quiet() if at_once else contextlib.nullcontext():
            if self.folder is not None and at_once:
                _kill(self.cluster)
            if self._opened:
                hurried = at_once or self.client.status != "running"
                with contextlib.suppress(TimeoutError):  # on a busy machine; the rest ends here
                    self.client.close(timeout=CLOSE_SECONDS if hurried else END_SECONDS)
            if self.folder is not None:
                end(self.cluster, self.folder, at_once=at_once)


def connect(
    where: Any, local: int | None, adaptive: tuple[int, int] | None, security: Any, timeout: float
) -> Connection:
    """Return the connection for the arguments of `gpuforge.cluster`."""
    try:
        import distributed
    except ImportError as error:
        raise BackendUnavailable(
            f"a cluster needs dask and distributed: {error}",
            hint=f"run '{install_command('cluster', 'dask', 'distributed')}'",
        ) from None
    if isinstance(where, str):
        if security is True:
            raise InvalidSettings(
                "security=True makes certificates for a local cluster only",
                hint="pass distributed.Security(...) with the certificates of the cluster",
            )
        client = _client(distributed, where, security, timeout)
        found = Connection(client, None, opened=True)
    elif isinstance(where, distributed.Client):
        if where.status != "running":
            raise ClusterUnavailable(
                f"the Dask client is not connected to a scheduler: it is {where.status}",
                hint="pass a new distributed.Client(address), or the address itself",
            )
        found = Connection(where, where.cluster, opened=False)
    elif where is not None:
        if not hasattr(where, "scheduler_address"):
            raise InvalidSettings(
                f"gpuforge.cluster takes an address, a Dask cluster or client, not {where!r}",
                hint="gpuforge.cluster(local=4) starts one on this machine",
            )
        client = _client(distributed, where, security, timeout)
        found = Connection(client, where, opened=True)
    else:
        found = _start(distributed, local, adaptive, security, timeout)
    _adapt(found, adaptive)
    return found


def _client(distributed: Any, where: Any, security: Any, timeout: float) -> Any:
    """Return a client of a cluster or address; errors name the address."""
    address = where if isinstance(where, str) else where.scheduler_address
    try:
        with _quiet():
            if isinstance(where, str):
                _ask(distributed, where, security, timeout)
            return distributed.Client(
                where, security=security, timeout=timeout, set_as_default=False
            )
    except (OSError, ValueError, TypeError, RuntimeError) as error:
        reason = str(error) or type(error).__name__
        raise ClusterUnavailable(
            f"no Dask scheduler responds at {address} within {timeout:g} s: {reason}",
            hint="start one ('dask scheduler'), or correct the address and its port",
        ) from error


def _ask(distributed: Any, address: str, security: Any, timeout: float) -> None:
    """Raise why a scheduler does not answer; in some cases Dask's client would wait for ever."""
    options = (security or distributed.Security()).get_connection_args("client")

    async def ask() -> Any:
        scheduler = distributed.rpc(address, timeout=timeout, connection_args=options)
        try:
            return await asyncio.wait_for(scheduler.identity(), timeout)
        finally:
            await scheduler.close_rpc()

    with ThreadPoolExecutor(1) as thread:  # a notebook's thread already runs a loop
        found = thread.submit(asyncio.run, ask()).result()
    if found["type"] != "Scheduler":
        raise ValueError(f"what answers there is a {found['type']}")


def _start(
    distributed: Any, local: int | None, adaptive: Any, security: Any, timeout: float
) -> Connection:
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise WorkloadError(
            "gpuforge.cluster(local=...) is called while a worker imports this program",
            hint="put the main code of the program under: if __name__ == '__main__':",
        )
    import dask.config

    folder = TemporaryDirectory(prefix="gpuforge-cluster-", ignore_cleanup_errors=True)
    workers = local if local is not None else adaptive[0]
    # the scheduler has a folder too
    with dask.config.set({"temporary-directory": folder.name}), _own_variables(dask):
        cluster = distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",
            local_directory=folder.name,
            security=security,
        )
    try:
        client = _client(distributed, cluster, None, timeout)
    except BaseException:
        end(cluster, folder)
        raise
    termination.begin(folder, partial(_leave, cluster, folder))
    return Connection(client, cluster, opened=True, folder=folder)


@contextlib.contextmanager
def _own_variables(dask: Any) -> Iterator[None]:
    """Restore environment variables: Dask sets those for its workers in this process too."""
    names = dask.config.get("distributed.nanny.pre-spawn-environ", {})
    before = {name: os.environ.get(name) for name in names}
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _adapt(found: Connection, adaptive: tuple[int, int] | None) -> None:
    """Let Dask add and remove workers; raise if there are none and none can be added."""
    if adaptive is not None:
        if not hasattr(found.cluster, "adapt"):
            found.close()
            raise InvalidSettings(
                "adaptive= needs a Dask cluster object, which can start workers",
                hint="pass the cluster itself instead of its scheduler's address",
            )
        found.cluster.adapt(minimum=adaptive[0], maximum=adaptive[1])
    elif found.cluster is None and not found.client.nthreads():
        warnings.warn(
            f"the scheduler at {found.address} has no workers yet: calls wait until one joins"
            f" (start one: 'dask worker {found.address}')",
            stacklevel=4,
        )


def end(cluster: Any, folder: Folder, *, at_once: bool = False) -> None:
    """End a cluster that was started here; kill workers that do not end."""
    try:
        cluster.close(timeout=CLOSE_SECONDS if at_once else END_SECONDS)
    except TimeoutError:
        _kill(cluster)
        _log.warning("the local cluster did not end in time: its workers were killed")
        with contextlib.suppress(TimeoutError):  # only threads that end by themselves are left
            cluster.close(timeout=CLOSE_SECONDS if at_once else END_SECONDS)
    finally:
        termination.end(folder)
        if at_once:  # Dask accesses its subfolder again when the program ends
            logging.getLogger("distributed.diskutils").setLevel(logging.CRITICAL)
        folder.cleanup()


def _leave(cluster: Any, folder: Folder) -> None:
    """Leave no process and no file of a local cluster when the program is terminated."""
    _kill(cluster)
    folder.cleanup()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep Dask from logging to stderr what is raised here anyway."""
    told = logging.getLogger("distributed")
    before = told.level
    told.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        told.setLevel(before)


def _kill(cluster: Any) -> None:
    """Kill the worker processes of a local cluster without restarting them."""
    import psutil

    cluster.shutdown_on_close = False  # else Dask waits 10 seconds for them when the program ends
    with contextlib.suppress(AttributeError):
        cluster._adaptive.stop()
    for nanny in list(cluster.workers.values()):
        nanny.auto_restart = False
        if nanny.pid is not None:
            with contextlib.suppress(psutil.NoSuchProcess):
                psutil.Process(nanny.pid).kill()
