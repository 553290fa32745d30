"""``gf.executor()``: run functions in the lanes of the devices and of the host."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from time import monotonic
from typing import Any, TypeVar

from gpuforge.errors import InvalidSettings, TaskTimeout
from gpuforge.runtime.executor import interruption
from gpuforge.runtime.executor.dispatcher import Dispatcher
from gpuforge.runtime.executor.future import TaskFuture
from gpuforge.runtime.executor.places import Places
from gpuforge.runtime.executor.quota import Quota
from gpuforge.runtime.executor.schedule import LATENCY_SECONDS, Schedule
from gpuforge.runtime.executor.stats import ExecutorStats
from gpuforge.runtime.executor.submission import submit
from gpuforge.runtime.executor.task import DEFAULT, Task, Terms, check_terms, check_timeout
from gpuforge.units import format_seconds, parse_seconds

R = TypeVar("R")


class Home:
    """The state shared by the tasks of one executor.

    Attributes
    ----------
    pending : its tasks that have not ended
    given, finished, cancelled : numbers of tasks, as in `Counts`
    """

    def __init__(self, dispatcher: Dispatcher, places: Places, *, shared: bool) -> None:
        self.dispatcher, self.places, self.shared = dispatcher, places, shared
        self.pending: dict[Task, None] = {}
        self.given = self.finished = self.cancelled = 0
        self.closed = False


class Executor(concurrent.futures.Executor):
    """Runs functions in the lanes of the devices and of the host. Made by `executor`."""

    def __init__(self, home: Home, terms: Terms = DEFAULT) -> None:
        self._home, self._terms = home, terms

    def submit(self, fn: Callable[..., R], /, *args: Any, **kwargs: Any) -> TaskFuture[R]:
        """Queue a call.

        All arguments are the function's own; use `with_options` for a priority or a timeout.

        Parameters
        ----------
        fn
            An offloaded function, which runs in the lane of a device, or any other one, which runs
            in a thread of the host.

        Raises
        ------
        ExecutorClosed
            After `shutdown`.
        DeviceOutOfMemory
            If the call needs more memory than it can ever get.
        """
        home = self._home
        return submit(home.dispatcher, home.places, fn, args, kwargs, self._terms, home)

    def with_options(
        self, *, priority: int = 0, timeout: float | str | None = None,
        memory: int | str | None = None, name: str = "",
    ) -> Executor:  # fmt: skip
        """Return this executor with other options for its tasks; see `Offloaded.submit`."""
        return Executor(self._home, check_terms(priority, timeout, memory, name))

    def run(
        self, calls: Iterable[Sequence[Any]], *, timeout: float | str | None = None,
        on_error: str = "raise",
    ) -> list[Any]:  # fmt: skip
        """Make calls of different functions, and return their results in order.

        Parameters
        ----------
        calls
            Pairs of a function and its argument, or a tuple of its arguments; a third entry holds
            keyword arguments: ``[(f, x), (g, (a, b)), (h, (a,), {"scale": 2.0})]``.
        timeout
            Seconds for all of them together. Then waiting calls are cancelled and running ones are
            abandoned.
        on_error
            ``"raise"``: raise the first exception after all calls have ended. ``"return"``: return
            exceptions in place of results.

        Raises
        ------
        TaskTimeout
            If they took longer than `timeout`.
        InvalidSettings
            If an option or an entry of `calls` is invalid.
        """
        if on_error not in ("raise", "return"):
            raise InvalidSettings(f"on_error={on_error!r} is neither 'raise' nor 'return'")
        seconds = check_timeout(timeout)
        parts = [_parts(place, call) for place, call in enumerate(calls)]
        end = None if seconds is None else monotonic() + seconds
        futures: list[TaskFuture[Any]] = []
        try:
            for function, args, kwargs in parts:  # one by one, so that an interruption sees each
                futures.append(self.submit(function, *args, **kwargs))
            for future in futures:
                self._await(future, end, seconds)
        except BaseException as error:
            mine = dict.fromkeys(future._task for future in futures if not future.done())
            abandoned = interruption.cut_short(self._home.dispatcher, mine)
            if mine and isinstance(error, KeyboardInterrupt):
                cancelled = sum(future.cancelled() for future in futures)
                finished = len(futures) - cancelled - len(abandoned)
                interruption.tell("interrupted", len(futures), finished, cancelled, abandoned)
            raise
        errors = [future.exception() for future in futures]
        first = next((error for error in errors if error is not None), None)
        if first is not None and on_error == "raise":
            raise first
        return [
            future.result() if error is None else error
            for future, error in zip(futures, errors, strict=True)
        ]

    def _await(self, future: TaskFuture[Any], end: float | None, seconds: float | None) -> None:
        """Wait for a task, and end it if the common time is over."""
        try:
            future.exception(None if end is None else max(end - monotonic(), 0.0))
        except TimeoutError:
            task = future._task
            began = task.state
            if self._home.dispatcher.give_up(task):
                what = "its call was abandoned while it ran" if began else "it had not begun"
                limit = format_seconds(seconds or 0.0)
                future.set_exception(TaskTimeout(
                    f"task {task.name!r} did not end within the {limit} of the whole run: {what}"
                ))  # fmt: skip

    def stats(self) -> ExecutorStats:
        """Return how many tasks wait and run, how they ended, and how long they waited.

        Executors without devices and quotas of their own share lanes and counts with ``f.submit``.
        """
        return self._home.dispatcher.stats()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Refuse new tasks.

        Parameters
        ----------
        wait
            Whether to block until all tasks of this executor have ended.
        cancel_futures
            Whether tasks that have not begun are cancelled.
        """
        home = self._home
        home.closed = True
        if cancel_futures:
            for task in list(home.pending):
                if home.dispatcher.cancel(task):
                    task.ending.mark_cancelled()
        if wait:
            home.dispatcher.wait(home.pending)
        (home.dispatcher.rest if home.shared else home.dispatcher.close)()

    def __exit__(self, kind: type[BaseException] | None, error: Any, trace: Any) -> None:
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            home = self._home
            home.closed = True
            interruption.interrupt(home.dispatcher, home.pending, home)
        self.shutdown()


def _parts(place: int, call: Any) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """Return the function and the arguments of an entry of `run`."""
    entry = tuple(call) if isinstance(call, list | tuple) else ()
    if not 1 <= len(entry) <= 3 or not callable(entry[0]):
        raise InvalidSettings(
            f"entry {place} of run is {call!r}, not a function and its arguments",
            hint="use for example [(f, x), (g, (a, b))]",
        )
    args = entry[1] if len(entry) > 1 else ()
    kwargs = entry[2] if len(entry) > 2 else {}
    if not isinstance(kwargs, Mapping):
        raise InvalidSettings(
            f"entry {place} of run has {kwargs!r} for keyword arguments",
            hint="several arguments are one tuple: (f, (a, b, c))",
        )
    return entry[0], args if isinstance(args, tuple) else (args,), dict(kwargs)


@cache
def shared() -> tuple[Dispatcher, Places]:
    """Return the lanes of ``f.submit`` and of executors without their own."""
    interruption.watch_for_termination()
    dispatcher = Dispatcher(Schedule())
    return dispatcher, Places(dispatcher)


def executor(
    devices: Iterable[str] = (),
    *,
    quotas: Mapping[str, Quota] | None = None,
    latency: float | str | None = None,
) -> Executor:
    """Return an executor of `concurrent.futures` whose threads belong to the devices.

    Parameters
    ----------
    devices
        Backends among which offloaded calls are distributed, each to the one that is expected to
        finish first: ``["torch:cuda:0", "torch:cuda:1"]``. Default: the CPU and every GPU that the
        session uses.
    quotas
        Limits for tasks on a device, by name: ``{"cuda:0": gf.Quota(share=0.8)}``; ``"cpu"`` and
        ``"host"`` are the lanes of offloaded and of other functions.
    latency
        Seconds that a small call may wait to be batched with others. Default: 5 ms; 0 for no wait.

    Returns
    -------
    Executor
        With devices, quotas or a latency it has its own lanes; else it shares those of
        ``f.submit``, so that all tasks of the program take turns on a device.

    Raises
    ------
    UnknownName, BackendUnavailable, InvalidSettings
        If a device, a quota or the latency is invalid.
    """
    if not devices and not quotas and latency is None:
        dispatcher, places = shared()
        return Executor(Home(dispatcher, places, shared=True))
    interruption.watch_for_termination()
    seconds = LATENCY_SECONDS if latency is None else parse_seconds(latency, "latency=")
    made = Dispatcher(Schedule(latency=seconds))
    devices = (devices,) if isinstance(devices, str) else devices
    return Executor(Home(made, Places(made, devices, quotas), shared=False))
