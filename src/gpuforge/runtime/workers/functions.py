"""Call whole functions in worker processes, which are killed if a call takes too long."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from time import monotonic
from typing import Any

from gpuforge.errors import TaskTimeout, WorkerDied, WorkloadError
from gpuforge.runtime.function.naming import name_of
from gpuforge.runtime.workers.channel import Host
from gpuforge.runtime.workers.pickling import loaded, pickled_call
from gpuforge.runtime.workers.process import Lost, Worker
from gpuforge.units import format_seconds, parse_seconds

MOST_IDLE = 4
"""Number of idle worker processes that are kept for later calls."""
_idle: list[Worker] = []
_running: dict[int, Worker] = {}
"""The process in which each thread's call runs."""
_lock = threading.Lock()


def call_isolated(
    function: Callable[..., Any],
    args: tuple[Any, ...] = (),
    kwargs: dict[str, Any] | None = None,
    *,
    timeout: float | str | None = None,
) -> Any:
    """Call a function in a worker process, and return its result.

    Arrays are passed through shared memory. Arguments are copies, and arrays among them are
    read-only. Output of the function is printed.

    Parameters
    ----------
    function
        An importable function is sent by name; lambdas, closures and functions of the main module
        need the extra ``isolate`` (cloudpickle).
    args, kwargs
        Its arguments.
    timeout
        Seconds that it may take, including the start of a worker, or text such as ``"250ms"``; None
        for no limit.

    Raises
    ------
    Exception
        Whatever the function raises, with the traceback of the worker as a note.
    TaskTimeout
        If it took longer; its process is killed.
    WorkerDied
        If the process died during the call. The call is not repeated, since it may have had
        effects.
    WorkloadError
        If the function, an argument or the result cannot be sent.
    InvalidSettings
        If `timeout` is not a duration.
    """
    seconds = None if timeout is None else parse_seconds(timeout, "timeout=")
    name = name_of(function)
    content, arrays = pickled_call(function, args, kwargs or {})
    ends = None if seconds is None else monotonic() + seconds
    for is_last in (False, True):
        begun, worker = False, _take()
        try:
            _running[threading.get_ident()] = worker
            worker.send(("call", content), arrays)
            _receive(worker, ends)
            begun = True
            value, raised, keeps = _made(name, _receive(worker, ends))
            if keeps:
                worker.channel.renew()
        except TimeoutError:
            raise TaskTimeout(
                f"{name} took longer than its timeout of {format_seconds(seconds or 0)}: its worker"
                " process was killed"
            ) from None
        except Lost as lost:
            if begun or is_last:
                raise _died(name, lost, begun=begun) from None
            continue  # an idle process had ended before the function was called
        except BaseException:  # Ctrl-C may come while the result is copied
            worker.kill()
            raise
        finally:
            with _lock:
                _running.pop(threading.get_ident(), None)  # a signal's handler may call, too
        _give_back(worker)
        break
    if raised:
        raise value
    return value


def end_call(thread: int) -> None:
    """Kill the process in which a thread's call runs, if it does; the call raises WorkerDied."""
    with _lock:
        if thread in _running:
            _running[thread].interrupt()


def close_idle() -> None:
    """End the idle worker processes; later calls start new ones."""
    with _lock:
        closing = list(_idle)
        _idle.clear()
    for worker in closing:
        worker.kill()


def _take() -> Worker:
    with _lock:
        while _idle:
            worker = _idle.pop()
            if worker.alive:
                return worker
            worker.kill()
    return Worker(quiet=False)


def _give_back(worker: Worker) -> None:
    with _lock:
        if len(_idle) < MOST_IDLE:
            _idle.append(worker)
            return
    worker.kill()


def _receive(worker: Worker, ends: float | None) -> tuple[Any, list[Host]]:
    return worker.receive(None if ends is None else max(0.0, ends - monotonic()))


def _made(name: str, answer: tuple[Any, list[Host]]) -> tuple[Any, bool, bool]:
    """Return what a function returned or raised, whether it raised, and whether it keeps arrays."""
    (kind, content, notes, keeps), arrays = answer
    raised = kind != "result"
    value: Any
    if kind == "unreadable":
        value = WorkloadError(
            f"{name} cannot be read in a worker process: {content}",
            hint="the modules it needs must be importable there from sys.path",
        )
    elif kind == "unsendable":
        verb, what = content
        value = WorkloadError(
            f"{name} {verb} something that cannot be sent from a worker process: {what}",
            hint="return arrays, numbers, text, and lists or dicts of them",
        )
    else:
        try:
            value = loaded(content, [array.copy() for array in arrays])
        except Exception as error:  # noqa: BLE001 - unpickling runs code of the value's own
            verb, raised = kind.replace("result", "returned"), True
            value = WorkloadError(
                f"{name} ran in a worker process; what it {verb} cannot be read here"
                f" ({type(error).__name__}: {error})",
                hint="give the class a __reduce__ method that recreates it",
            )
    for note in notes:
        value.add_note(note)
    return value, raised, keeps


def _died(name: str, lost: Lost, *, begun: bool) -> WorkerDied:
    retried = (
        "the function was not called again, because it may have had side effects"
        if begun
        else "two processes ended before they called it"
    )
    made = WorkerDied(f"the worker process that ran {name} {lost}; {retried}")
    made.status, made.function = lost.status, name
    return made


def _forget() -> None:
    """Continue in a forked child: the idle processes belong to the parent."""
    global _lock
    _lock = threading.Lock()
    _idle.clear()
    _running.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
