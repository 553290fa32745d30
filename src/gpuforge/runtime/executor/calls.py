"""``f.submit`` and ``f.aio``: tasks in the lanes shared by the whole program."""

from __future__ import annotations

from collections.abc import Coroutine
from concurrent.futures import Future
from functools import partial
from typing import Any

from gpuforge.errors import InvalidSettings
from gpuforge.runtime.context import cluster
from gpuforge.runtime.executor.opening import shared
from gpuforge.runtime.executor.submission import submit as _submit
from gpuforge.runtime.executor.submission import terms_for
from gpuforge.runtime.executor.task import Terms
from gpuforge.runtime.function.naming import name_of


def submit(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *options: Any
) -> Future[Any]:
    """Queue a call of an offloaded function; the options are those of `Terms`.

    Inside ``with gpuforge.cluster(...)`` it runs on one of the cluster's workers.
    """
    workers = cluster.get()
    if workers is not None:
        return _on_cluster(workers, function, args, kwargs, terms_for(function, *options))
    dispatcher, places = shared()
    return _submit(dispatcher, places, function, args, kwargs, terms_for(function, *options))


def aio(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *options: Any
) -> Coroutine[Any, Any, Any]:
    """Return the coroutine of a call of an offloaded function."""
    if cluster.get() is not None:
        return _awaited(submit(function, args, kwargs, *options))
    from gpuforge.runtime.executor import waiting

    dispatcher, places = shared()
    terms = terms_for(function, *options)
    return waiting.call(dispatcher, places, function, args, kwargs, terms)


def _on_cluster(
    workers: Any, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], terms: Terms
) -> Future[Any]:
    if terms.memory is not None:
        raise InvalidSettings(
            "memory= cannot be used inside 'with gpuforge.cluster(...)'",
            hint="cluster.submit(f, x, resources=...) asks Dask for the resources of a call",
        )
    found: Future[Any] = workers.submit(
        partial(function, **kwargs), *args,
        priority=terms.priority, timeout=terms.timeout, name=terms.name or name_of(function),
    )  # fmt: skip
    return found


async def _awaited(future: Future[Any]) -> Any:
    from asyncio import wrap_future

    return await wrap_future(future)
