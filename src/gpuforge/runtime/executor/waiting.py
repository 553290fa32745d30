"""``await f.aio(x)``: tasks awaited by an event loop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Any
from weakref import WeakKeyDictionary

from gpuforge.errors import TaskCancelled
from gpuforge.log import logger
from gpuforge.runtime.executor.dispatcher import Dispatcher
from gpuforge.runtime.executor.places import Places
from gpuforge.runtime.executor.submission import make_task
from gpuforge.runtime.executor.task import DEFAULT, Task, Terms

_log = logger("tasks")


class Mailbox:
    """Results for one event loop, which is woken once for all that have arrived."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._letters: deque[tuple[asyncio.Future[Any], Any, BaseException | None]] = deque()
        self._called = False

    def post(self, waiter: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
        """Send a result from any thread."""
        self._letters.append((waiter, value, error))
        if not self._called:
            self._called = True
            try:
                self._loop.call_soon_threadsafe(self._empty)
            except RuntimeError as closed:
                _log.info("a result arrived after its event loop was closed: %s", closed)

    def _empty(self) -> None:
        self._called = False  # first: later posts must wake the loop again
        while self._letters:
            waiter, value, error = self._letters.popleft()
            if waiter.done():
                continue
            if error is None:
                waiter.set_result(value)
            else:
                waiter.set_exception(error)


class LoopEnding:
    """Reports to an event loop how a task ended."""

    __slots__ = ("_mailbox", "_waiter")

    def __init__(self, mailbox: Mailbox, waiter: asyncio.Future[Any]) -> None:
        self._mailbox, self._waiter = mailbox, waiter

    def set_running_or_notify_cancel(self) -> bool:
        return True

    def set_result(self, result: Any, /) -> None:
        self._mailbox.post(self._waiter, result, None)

    def set_exception(self, exception: BaseException | None, /) -> None:
        if isinstance(exception, StopIteration):  # asyncio's futures reject it
            exception = RuntimeError(f"the call raised {exception!r}")
        self._mailbox.post(self._waiter, None, exception)

    def mark_cancelled(self) -> None:
        self.set_exception(TaskCancelled("the task was cancelled before it began"))

    def left_to_parent(self) -> None:
        """Do nothing: the loop is the parent's."""


AT_ONCE_SECONDS = 20e-6
"""Shorter calls run in the event loop itself: handing one over takes twice as long."""
_mailboxes: WeakKeyDictionary[asyncio.AbstractEventLoop, Mailbox] = WeakKeyDictionary()


async def call(
    dispatcher: Dispatcher, places: Places, function: Callable[..., Any], args: tuple[Any, ...],
    kwargs: dict[str, Any], terms: Terms,
) -> Any:  # fmt: skip
    """Make a call without blocking the event loop, and return its result.

    If cancelled, a waiting call never runs and a running one is abandoned. A call that is known to
    take less time than handing it over runs at once, since that blocks the loop for less time.
    """
    task = make_task(places, function, args, kwargs, terms)
    if terms is DEFAULT and len(task.lanes) == 1:
        expected = dispatcher.schedule.expected(task, dispatcher.schedule.lanes[task.lanes[0]])
        if expected is not None and expected < AT_ONCE_SECONDS:
            return await _at_once(dispatcher, task)
    loop = asyncio.get_running_loop()
    mailbox = _mailboxes.get(loop)
    if mailbox is None:
        mailbox = _mailboxes[loop] = Mailbox(loop)
    waiter = loop.create_future()
    task.ending = LoopEnding(mailbox, waiter)
    dispatcher.put(task)
    dispatcher.help(task)  # a loop in a lane's own thread would wait for it in vain
    try:
        return await waiter
    except asyncio.CancelledError:
        dispatcher.give_up(task)
        raise


async def _at_once(dispatcher: Dispatcher, task: Task) -> Any:
    """Make a short call here, then let the loop's other tasks run."""
    start = perf_counter()
    error: BaseException | None = None
    try:
        return task.function(*task.args, **task.kwargs)
    except BaseException as raised:
        error = raised
        raise
    finally:
        dispatcher.made(task, perf_counter() - start, error)
        await asyncio.sleep(0)
