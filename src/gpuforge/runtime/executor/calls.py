"""``f.submit`` and ``f.aio``: tasks in the lanes that the whole program shares."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from gpuforge.runtime.executor.future import TaskFuture
from gpuforge.runtime.executor.opening import shared
from gpuforge.runtime.executor.submission import submit as _submit
from gpuforge.runtime.executor.submission import terms_for


def submit(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *options: Any
) -> TaskFuture[Any]:
    """Let a call of an offloaded function wait for its turn; the options are those of `Terms`."""
    dispatcher, places = shared()
    return _submit(dispatcher, places, function, args, kwargs, terms_for(function, *options))


def aio(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *options: Any
) -> Coroutine[Any, Any, Any]:
    """Return the coroutine of a call of an offloaded function."""
    from gpuforge.runtime.executor import waiting

    dispatcher, places = shared()
    terms = terms_for(function, *options)
    return waiting.call(dispatcher, places, function, args, kwargs, terms)
