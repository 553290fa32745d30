"""The future of a task: a `concurrent.futures.Future` with informative errors."""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from gpuforge.errors import TaskCancelled

if TYPE_CHECKING:
    from gpuforge.runtime.executor.dispatcher import Dispatcher
    from gpuforge.runtime.executor.task import Task

R = TypeVar("R")


class _Waiters(list[Any]):
    """Those who wait for a future by `concurrent.futures.wait` or `as_completed`.

    These append a waiter with the locks of all their futures held, and wait for its event then.
    """

    def __init__(self, help_out: Callable[[], None]) -> None:
        super().__init__()
        self._help_out = help_out

    def append(self, waiter: Any) -> None:
        super().append(waiter)
        if not isinstance(waiter.event, _Helping):
            waiter.event = _Helping()
        waiter.event.todo.append(self._help_out)


class _Helping(threading.Event):
    """An event whose waiting thread first runs in place what it waits for and has not begun."""

    def __init__(self) -> None:
        super().__init__()
        self.todo: deque[Callable[[], None]] = deque()

    def wait(self, timeout: float | None = None) -> bool:
        while self.todo and not self.is_set():
            self.todo.popleft()()
        return super().wait(timeout)


class CallFuture(Future[R]):
    """The result of a call, once it is there.

    If the call was cancelled, ``result`` and ``exception`` raise TaskCancelled, which is a
    `concurrent.futures.CancelledError`.
    """

    def result(self, timeout: float | None = None) -> R:
        """Return the value, or raise what the call raised."""
        try:
            return super().result(timeout)
        except CancelledError:
            raise self._told() from None

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Return what the call raised; None if it returned a value."""
        try:
            return super().exception(timeout)
        except CancelledError:
            raise self._told() from None

    def _told(self) -> BaseException:
        if self.cancelled():
            return TaskCancelled(self._fate())
        found = super().exception()  # the call itself raised a CancelledError
        assert found is not None
        return found

    def _fate(self) -> str:
        """Return which call was cancelled, and when."""
        raise NotImplementedError


class TaskFuture(CallFuture[R]):
    """The result of a task.

    A task that waits for another one runs it in place if it has not begun, so tasks that wait for
    each other never block a lane.
    """

    def __init__(self, task: Task, dispatcher: Dispatcher) -> None:
        super().__init__()
        self._task = task
        self._dispatcher = dispatcher
        self._waiters = _Waiters(partial(dispatcher.help, task))

    def add_done_callback(self, fn: Callable[[Future[R]], object]) -> None:
        """Call a function with this future when it has ended."""
        super().add_done_callback(fn)
        running_loop = getattr(sys.modules.get("asyncio"), "_get_running_loop", None)
        if running_loop is not None and running_loop() is not None:  # it may await this
            self._dispatcher.help(self._task)

    def cancel(self) -> bool:
        """Cancel the task if it has not begun; return whether it is cancelled."""
        if not self._dispatcher.cancel(self._task):
            return self.cancelled()
        self.mark_cancelled()
        return True

    def mark_cancelled(self) -> None:
        """Set the state to cancelled, and notify waiters."""
        super().cancel()
        self.set_running_or_notify_cancel()

    def result(self, timeout: float | None = None) -> R:
        """Return the value, or raise what the call raised."""
        self._dispatcher.help(self._task)
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Return what the call raised; None if it returned a value."""
        self._dispatcher.help(self._task)
        return super().exception(timeout)

    def left_to_parent(self) -> None:
        """Fail in a forked child, where the thread that held this future's lock may not exist."""
        self._condition = threading.Condition()
        self._waiters.clear()
        text = f"task {self._task.name!r} belongs to the parent of this forked process"
        self.set_exception(TaskCancelled(text, hint="submit it in this process, too"))

    def _fate(self) -> str:
        return f"task {self._task.name!r} was cancelled before it began"
