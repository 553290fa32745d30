"""Make the calls of a batch."""

from __future__ import annotations

import sys
from typing import Any
from weakref import WeakKeyDictionary

from gpuforge.runtime.executor.lane import Batch, Lane
from gpuforge.runtime.executor.task import Task
from gpuforge.runtime.executor.together import Result, call_together
from gpuforge.runtime.function.options import Options

_bound: WeakKeyDictionary[Any, dict[tuple[str, str], Any]] = WeakKeyDictionary()


def run(batch: Batch) -> list[Result]:
    """Make the calls of a batch, and return how each ended; never raises."""
    tasks = batch.tasks
    context = tasks[0].context
    if context is None:  # all timed out before they began
        return [Result() for _ in tasks]
    try:
        function = on_lane(tasks[0].function, batch.lane)
        if len(tasks) == 1:
            return [Result(context.run(_call, function, tasks[0]))]
        calls = [(task.args, task.kwargs) for task in tasks]
        return context.run(call_together, function, calls)
    except BaseException as error:  # noqa: BLE001 - passed on to the waiting caller
        return [Result(error=error) for _ in tasks]


def _call(function: Any, task: Task) -> Any:
    """Make one call: in this process, or in a worker process that can be killed at its timeout."""
    if task.killable:
        from gpuforge.runtime.workers.functions import call_isolated

        return call_isolated(function._function, task.args, task.kwargs, timeout=task.terms.timeout)
    return function(*task.args, **task.kwargs)


def end_call(thread: int) -> None:
    """Kill the worker process in which a thread's call runs, if it does."""
    functions = sys.modules.get("gpuforge.runtime.workers.functions")
    if functions is not None:
        functions.end_call(thread)


def on_lane(function: Any, lane: Lane) -> Any:
    """Return an offloaded function restricted to the lane's device, if there are several."""
    options = options_of(function)
    if options is None or not (lane.device or lane.backend):
        return function
    if options.backend and not lane.backend:
        return function
    held = _bound.setdefault(function, {})
    key = (lane.backend, lane.device)
    if key not in held:
        wanted = options._replace(backend=lane.backend or options.backend, device=lane.device)
        held[key] = type(function)(function._function, wanted)
    return held[key]


def options_of(function: Any) -> Options | None:
    """Return the options of an offloaded function; None for any other function."""
    options = getattr(function, "_options", None)
    return options if isinstance(options, Options) else None
