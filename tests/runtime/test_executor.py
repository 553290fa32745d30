"""``f.submit``, ``f.aio`` and ``gf.executor()``, with real threads."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import heapq
import pickle
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextvars import ContextVar, copy_context
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gpuforge as gf
from gpuforge import errors
from gpuforge.errors import (
    BackendUnavailable,
    DeviceOutOfMemory,
    ExecutorClosed,
    InvalidSettings,
    TaskCancelled,
    TaskTimeout,
    UnknownName,
)
from gpuforge.runtime.backends import is_on
from gpuforge.runtime.executor import dispatcher as dispatching
from gpuforge.runtime.executor import opening
from gpuforge.runtime.executor.future import TaskFuture
from gpuforge.runtime.executor.lane import Lane
from gpuforge.runtime.executor.places import Places
from gpuforge.runtime.executor.quota import Quota
from gpuforge.runtime.executor.running import on_lane
from gpuforge.runtime.executor.schedule import Schedule
from gpuforge.runtime.executor.task import WAITING, Task, Terms
from gpuforge.runtime.function.options import Options
from gpuforge.runtime.session import current_session

X = np.arange(4.0)
SECONDS = 30.0
"""Longer than anything here takes: what waits so long hangs."""


@gf.offload
def double(x: Any) -> Any:
    return x * 2.0


def test_tasks_that_ended_leave_nothing_to_the_garbage_collector() -> None:
    """A program that submits many would be held up again and again while it looks for them."""
    with gf.executor() as executor:
        executor.submit(double, X).result()
        gc.collect()
        gc.disable()
        try:
            concurrent.futures.wait([executor.submit(double, X) for _ in range(100)])
            double.submit(X).result()
            assert gc.collect() < 100
        finally:
            gc.enable()


class Gate:
    """Calls of `stand` begin and then wait until the gate is opened."""

    def __init__(self) -> None:
        self.began, self.opened = threading.Semaphore(0), threading.Event()
        self.order: list[Any] = []
        self.offloaded = gf.offload(self.stand, pure=False)

    def stand(self, x: Any, mark: Any = None) -> Any:
        self.began.release()
        assert self.opened.wait(SECONDS)
        self.order.append(mark)
        return x


def lane_threads() -> list[threading.Thread]:
    """Return the threads of tasks; those of blocks and of profiles stay until the process ends."""
    found = [t for t in threading.enumerate() if t.name.startswith("gpuforge") and t.is_alive()]
    return [t for t in found if not t.name.startswith(("gpuforge blocks", "gpuforge profile"))]


@pytest.fixture(autouse=True)
def no_lane_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give each test shared lanes of its own, and fail one that leaves a thread behind."""
    monkeypatch.setattr(dispatching, "IDLE_SECONDS", 0.2)
    opening.shared.cache_clear()
    yield
    for each in list(dispatching.everyone):
        assert each.wait(each.pending, SECONDS)
        each.close()
    for thread in lane_threads():
        thread.join(SECONDS)
    assert not lane_threads()
    opening.shared.cache_clear()


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.opened.set()


def wait_for(items: list[Any]) -> int:
    found = concurrent.futures.wait([double.submit(x) for x in items], SECONDS)
    return len(found.done)


def as_completed(items: list[Any]) -> int:
    futures = [double.submit(x) for x in items]
    return len([one.result() for one in concurrent.futures.as_completed(futures, SECONDS)])


def in_a_loop(items: list[Any]) -> int:
    async def main() -> int:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(SECONDS):
            others = [loop.run_in_executor(gf.executor(), double, x) for x in items[1:]]
            return len(await asyncio.gather(double.aio(items[0]), *others))

    return asyncio.run(main())


class TestSubmit:
    def test_a_future_has_the_result_or_what_the_function_raised(self) -> None:
        @gf.offload
        def fails(x: Any) -> Any:
            raise ZeroDivisionError("of its own")

        future = double.submit(X)
        assert isinstance(future, concurrent.futures.Future)
        assert future.result(SECONDS).tolist() == [0, 2, 4, 6]
        failed = fails.submit(X)
        with pytest.raises(ZeroDivisionError, match="of its own"):
            failed.result(SECONDS)
        assert isinstance(failed.exception(), ZeroDivisionError)

    def test_options_are_the_tasks_and_everything_else_the_functions(self) -> None:
        @gf.offload
        def scaled(x: Any, factor: float, *, plus: float = 0.0) -> Any:
            return x * factor + plus

        future = scaled.submit(
            X, 2.0, plus=1.0, priority=3, timeout="20s", memory="5MB", name="scaling"
        )
        assert future.result(SECONDS).tolist() == [1, 3, 5, 7]

    @pytest.mark.parametrize("when", ["while it runs", "afterwards"])
    def test_no_thread_waits_for_a_timeout_once_its_lanes_are_closed(
        self, gate: Gate, when: str
    ) -> None:
        future = gate.offloaded.submit(X, timeout="1h")
        assert gate.began.acquire(timeout=SECONDS)
        if when == "afterwards":
            gate.opened.set()
            assert future.result(SECONDS) is X
        for each in list(dispatching.everyone):
            each.close()
        gate.opened.set()
        assert future.result(SECONDS) is X
        for thread in lane_threads():
            thread.join(SECONDS)
        assert not lane_threads()

    def test_a_parameter_with_the_name_of_an_option_is_not_guessed_at(self) -> None:
        @gf.offload
        def named(x: Any, name: str = "none") -> str:
            return name

        with pytest.raises(InvalidSettings, match="name= is an option of submit and a parameter"):
            named.submit(X, name="mine")
        assert named.submit(X, "mine").result(SECONDS) == "mine"
        assert named.submit(X, priority=1).result(SECONDS) == "none"
        assert named.submit(X, priority=np.int64(2)).result(SECONDS) == "none"
        with gf.executor() as executor:
            assert executor.submit(named, X, name="mine").result(SECONDS) == "mine"

    def test_a_method_is_submitted_with_its_object(self) -> None:
        class Scale:
            factor = 3.0

            @gf.offload
            def apply(self, x: Any) -> Any:
                return x * self.factor

        scale = Scale()
        assert scale.apply.submit(X).result(SECONDS).tolist() == [0, 3, 6, 9]
        with gf.executor() as executor:
            assert executor.submit(scale.apply, X).result(SECONDS).tolist() == [0, 3, 6, 9]
        assert asyncio.run(scale.apply.aio(X)).tolist() == [0, 3, 6, 9]

    def test_a_task_runs_in_the_session_and_context_it_was_submitted_in(self) -> None:
        variable: ContextVar[str] = ContextVar("variable")

        @gf.offload(pure=False)
        def where(x: Any) -> Any:
            return current_session(), variable.get("unset"), np.geterr()["divide"]

        variable.set("mine")
        with gf.session(backends=["numpy"]) as session, np.errstate(divide="ignore"):
            future = where.submit(X)
            assert future.result(SECONDS) == (session, "mine", "ignore")
        assert where.submit(X).result(SECONDS)[0] is not session

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"timeout": -1}, "timeout=-1 is not a positive duration"),
            ({"timeout": 0}, "timeout=0 is not"),
            ({"timeout": "soon"}, "timeout='soon' is not"),
            ({"priority": "high"}, "priority='high' is not an integer from -100 to 100"),
            ({"priority": 1.5}, "priority=1.5 is not"),
            ({"priority": 101}, "priority=101 is not"),
            ({"priority": False}, "priority=False is not"),
            ({"memory": "5 bananas"}, "memory='5 bananas' is not a size in bytes"),
            ({"memory": -5}, "memory=-5 is not"),
            ({"name": 3}, "name=3 is not text"),
        ],
    )
    def test_options_that_mean_nothing_are_refused(
        self, options: dict[str, Any], message: str
    ) -> None:
        for refused in (double.submit, double.aio, lambda x, **o: gf.executor().with_options(**o)):
            with pytest.raises(InvalidSettings, match=message):
                refused(X, **options)

    def test_the_order_of_priorities_holds_and_nothing_runs_twice(self, gate: Gate) -> None:
        gate.offloaded.submit(X, "first")
        assert gate.began.acquire(timeout=SECONDS)
        futures = [
            gate.offloaded.submit(X, (priority, number), priority=priority)
            for number in range(5)
            for priority in (0, 5, -5)
        ]
        gate.opened.set()
        concurrent.futures.wait(futures, SECONDS)
        wanted = [(priority, number) for priority in (5, 0, -5) for number in range(5)]
        assert gate.order == ["first", *wanted]

    def test_a_task_may_wait_for_another_one(self) -> None:
        @gf.offload(pure=False)
        def outer(x: Any, depth: int) -> Any:
            return x if depth == 0 else outer.submit(x + 1.0, depth - 1).result()

        assert outer.submit(X, 5).result(SECONDS).tolist() == [5, 6, 7, 8]
        with gf.executor() as executor:

            def fan(depth: int) -> int:
                inner = [executor.submit(fan, depth - 1) for _ in range(2)] if depth else []
                return 1 + sum(one.result() for one in inner)

            assert executor.submit(fan, 6).result(SECONDS) == 127

    @pytest.mark.parametrize("await_all", [wait_for, as_completed, in_a_loop])
    def test_a_task_may_wait_for_several(self, await_all: Callable[[Any], int]) -> None:
        outer = gf.offload(await_all, pure=False)
        assert outer.submit([X] * 3).result(SECONDS) == 3

    def test_a_task_may_wait_for_several_that_wait_for_each_other(self) -> None:
        with gf.executor(quotas={"host": gf.Quota(concurrency=1)}) as executor:

            def outer() -> int:
                one = executor.submit(int)
                other = executor.submit(lambda: one.result())
                return len(concurrent.futures.wait([one, other], SECONDS / 10).not_done)

            # In which order they are waited for depends on their addresses.
            assert [executor.submit(outer).result(SECONDS) for _ in range(20)] == [0] * 20

    def test_a_task_that_waits_for_several_holds_no_locks_of_theirs(self) -> None:
        quotas = {name: gf.Quota(concurrency=1) for name in ("cpu", "host")}
        with gf.executor(quotas=quotas) as executor:
            offloaded = gf.offload(lambda x: x, pure=False)

            def outer() -> int:
                here = executor.submit(lambda: there[1].running() or there[0].exception())
                there = [executor.submit(offloaded, X) for _ in range(2)]
                return len(concurrent.futures.wait([here, *there], SECONDS / 10).not_done)

            assert [executor.submit(outer).result(SECONDS) for _ in range(5)] == [0] * 5

    def test_arguments_are_let_go_when_the_task_ended(self) -> None:
        class Big(list[int]):
            pass

        @gf.offload(pure=False)
        def length(x: Any, big: Any) -> int:
            return len(big)

        big = Big([1, 2])
        gone = weakref.ref(big)
        future = length.submit(X, big)
        assert future.result(SECONDS) == 2
        del big
        double.submit(X).result(SECONDS)  # the lane has gone on
        assert gone() is None

    @pytest.mark.parametrize(("module", "name"), [(heapq, "heappush"), (dispatching, "_starts")])
    def test_tasks_go_on_after_ctrl_c_in_the_middle_of_submit(
        self, module: Any, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As in a notebook: what is submitted next runs, and threads end as before."""
        function = getattr(module, name)

        def interrupted(*args: Any) -> None:
            function(*args)
            raise KeyboardInterrupt

        for _ in range(3):
            with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
                patched.setattr(module, name, interrupted)
                double.submit(X)
            for _ in range(2):
                futures = [double.submit(X + n) for n in range(20)]
                assert [f.result(SECONDS).sum() for f in futures] == [12 + 8 * n for n in range(20)]
                gf.executor().shutdown()
                for thread in lane_threads():  # which then end
                    thread.join(SECONDS)

    def test_a_destructor_of_an_argument_may_submit_a_task(self) -> None:
        """In a process of its own, because a lock that is held would hold up all other tests."""
        program = """if True:
            import time, gpuforge as gf

            class Argument:
                def __del__(self):
                    submitted.append(nap.submit(0))

            @gf.offload(pure=False)
            def nap(seconds, argument=None):
                time.sleep(seconds)

            submitted = []
            nap.submit(0, Argument()).result()
            try:
                nap.submit(0.5, Argument(), timeout=0.05).result()
            except TimeoutError:
                pass
            first, second = nap.submit(0.2), nap.submit(0, Argument())
            assert second.cancel()
            first.result()
            while len(submitted) < 3:
                time.sleep(0.01)
            [future.result() for future in submitted]
        """
        subprocess.run([sys.executable, "-c", program], check=True, timeout=SECONDS)


class TestErrors:
    def test_a_task_for_which_no_thread_starts_is_refused_and_forgotten(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def start(self: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", start)
            with pytest.raises(RuntimeError, match="can't start"):
                double.submit(X)
        assert gf.executor().stats().queued == 0
        assert double.submit(X).result(SECONDS).tolist() == [0, 2, 4, 6]

    def test_a_task_runs_in_the_threads_there_are_if_no_more_start(
        self, gate: Gate, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def start(self: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        with gf.executor(quotas={"host": gf.Quota(concurrency=2)}) as executor:
            first = executor.submit(gate.stand, X)
            assert gate.began.acquire(timeout=SECONDS)
            with monkeypatch.context() as patched:
                patched.setattr(threading.Thread, "start", start)
                second = executor.submit(int)
            gate.opened.set()
            assert first.result(SECONDS) is X and second.result(SECONDS) == 0

    def test_tasks_run_without_their_timeouts_if_no_thread_watches_these(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        start = threading.Thread.start

        def start_lanes(self: threading.Thread) -> None:
            if "timeouts" in self.name:
                raise RuntimeError("can't start new thread")
            start(self)

        monkeypatch.setattr(threading.Thread, "start", start_lanes)
        with gf.executor(quotas={"host": gf.Quota(concurrency=1)}) as executor:
            limited = executor.with_options(timeout="1h")
            assert [limited.submit(int).result(SECONDS) for _ in range(2)] == [0, 0]

    def test_a_timeout_is_told_if_no_thread_replaces_the_late_one(
        self, gate: Gate, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with gf.executor(quotas={"host": gf.Quota(concurrency=1)}) as executor:
            late = executor.with_options(timeout=0.2).submit(gate.stand, X)
            assert gate.began.acquire(timeout=SECONDS)
            with monkeypatch.context() as patched:
                patched.setattr(dispatching, "_starts", lambda thread: False)
                with pytest.raises(TaskTimeout):
                    late.result(SECONDS)
            gate.opened.set()
            assert executor.submit(int).result(SECONDS) == 0

    def test_they_are_the_builtin_ones_too_and_can_be_pickled(self) -> None:
        assert issubclass(TaskTimeout, TimeoutError)
        assert issubclass(TaskTimeout, concurrent.futures.TimeoutError)
        assert issubclass(TaskCancelled, concurrent.futures.CancelledError)
        assert issubclass(ExecutorClosed, RuntimeError)
        assert errors.TaskCancelled is TaskCancelled
        for kind in (TaskTimeout, TaskCancelled, ExecutorClosed):
            again = pickle.loads(pickle.dumps(kind("what", hint="do")))
            assert (type(again), str(again), again.hint) == (kind, "what", "do")
        with pytest.raises(AttributeError):
            errors.NoSuchError

    def test_a_cancelled_task_never_runs_and_says_so(self, gate: Gate) -> None:
        gate.offloaded.submit(X, "first")
        assert gate.began.acquire(timeout=SECONDS)
        future = gate.offloaded.submit(X, "second", name="the second")
        assert future.cancel()
        assert future.cancel()  # it still is
        assert concurrent.futures.wait([future], SECONDS).done == {future}
        with pytest.raises(concurrent.futures.CancelledError, match="task 'the second'") as info:
            future.result()
        assert type(info.value) is TaskCancelled
        with pytest.raises(TaskCancelled):
            future.exception()
        gate.opened.set()
        double.submit(X).result(SECONDS)
        assert gate.order == ["first"]
        assert gf.executor().stats().cancelled == 1

    def test_a_running_task_cannot_be_cancelled(self, gate: Gate) -> None:
        future = gate.offloaded.submit(X)
        assert gate.began.acquire(timeout=SECONDS)
        assert not future.cancel()
        assert future.running()
        gate.opened.set()
        assert future.result(SECONDS) is X

    def test_a_cancelled_error_of_the_function_itself_is_told_as_it_is(self) -> None:
        def raises() -> None:
            raise concurrent.futures.CancelledError("mine")

        with (
            gf.executor() as executor,
            pytest.raises(concurrent.futures.CancelledError, match="mine") as info,
        ):
            executor.submit(raises).result(SECONDS)
        assert not isinstance(info.value, TaskCancelled)


class TestTimeouts:
    def test_a_task_that_another_one_runs_in_place_goes_on(self) -> None:
        inner = gf.offload(lambda x: time.sleep(1.0) or x.sum(), isolate=True, pure=False)
        began: list[Any] = []

        def wait(x: Any) -> Any:
            began.append(executor.submit(inner, x))
            return began[0].result()

        with gf.executor(quotas={"cpu": gf.Quota(concurrency=1)}) as executor:
            executor.submit(inner, X).result(SECONDS)  # the process is there
            outer = executor.with_options(timeout=0.3).submit(gf.offload(wait, pure=False), X)
            with pytest.raises(TaskTimeout):
                outer.result(SECONDS)
            assert began[0].result(SECONDS) == X.sum()

    def test_a_call_that_takes_too_long_is_abandoned_and_others_go_on(self, gate: Gate) -> None:
        future = gate.offloaded.submit(X, timeout=0.05, name="stuck")
        with pytest.raises(TimeoutError, match=r"task 'stuck' ran for .* was abandoned") as info:
            future.result(SECONDS)
        assert type(info.value) is TaskTimeout
        assert double.submit(X).result(SECONDS).tolist() == [0, 2, 4, 6]
        stats = gf.executor().stats()
        assert stats.timed_out == 1
        assert stats.abandoned == ("stuck",)
        assert "abandoned and still running: stuck" in str(stats)
        gate.opened.set()
        abandoned = [t for t in lane_threads() if t.name == "gpuforge lane cpu"]
        assert all(t.daemon for t in abandoned)
        while gf.executor().stats().abandoned:  # its thread ends with the call
            double.submit(X).result(SECONDS)
        assert isinstance(future.exception(), TaskTimeout)  # what came later changes nothing

    def test_a_timeout_holds_also_after_nothing_had_one_for_a_while(self, gate: Gate) -> None:
        for seconds in (0.02, 2 * dispatching.IDLE_SECONDS):
            with pytest.raises(TaskTimeout):
                gate.offloaded.submit(X, timeout=seconds).result(SECONDS)

    def test_a_timeout_of_ages_leaves_the_others_as_they_are(self, gate: Gate) -> None:
        assert double.submit(X, timeout=1e300).result(SECONDS).tolist() == [0, 2, 4, 6]
        with gf.executor(quotas={"cpu": Quota(concurrency=2)}) as executor:
            later = executor.with_options(timeout="100000000000h").submit(gate.offloaded, X)
            with pytest.raises(TaskTimeout):
                executor.with_options(timeout=0.02).submit(gate.offloaded, X).result(SECONDS)
            gate.opened.set()
            later.result(SECONDS)

    def test_waiting_for_a_turn_does_not_count(self, gate: Gate) -> None:
        gate.offloaded.submit(X)
        assert gate.began.acquire(timeout=SECONDS)
        future = double.submit(X, timeout=0.1)
        with pytest.raises(TimeoutError):
            future.result(0.3)  # not the task's own
        assert not future.done()
        gate.opened.set()
        assert future.result(SECONDS).tolist() == [0, 2, 4, 6]

    def test_many_timeouts_at_once(self, gate: Gate) -> None:
        with gf.executor() as executor:
            limited = executor.with_options(timeout=0.05)
            futures = [limited.submit(gate.stand, number) for number in range(20)]
            assert all(isinstance(f.exception(SECONDS), TaskTimeout) for f in futures)
            assert len(executor.stats().abandoned) == 20
            assert executor.submit(pow, 2, 3).result(SECONDS) == 8
            gate.opened.set()


class TestMemory:
    def test_what_can_never_fit_is_refused_at_submit(self) -> None:
        with gf.session(memory_limit="1MB"):
            with pytest.raises(DeviceOutOfMemory, match=r"needs 7\.63 MiB, .* may use 977 KiB"):
                double.submit(np.zeros(10**6))
            with pytest.raises(MemoryError, match="task 'huge' needs"):
                double.submit(X, memory="2MB", name="huge")
            assert double.submit(X, memory="1MB").result(SECONDS).tolist() == [0, 2, 4, 6]

    def test_tasks_begin_once_they_have_their_memory(self) -> None:
        gate = Gate()
        with gf.executor(quotas={"host": Quota(memory="100MB", concurrency=4)}) as executor:
            first = executor.with_options(memory="60MB").submit(gate.stand, 1)
            assert gate.began.acquire(timeout=SECONDS)
            second = executor.with_options(memory="60MB").submit(gate.stand, 2)
            third = executor.submit(pow, 2, 2)
            assert not gate.began.acquire(timeout=0.1)  # 120 MB are too many
            assert not second.running()
            gate.opened.set()
            assert [f.result(SECONDS) for f in (first, second, third)] == [1, 2, 4]


class TestExecutor:
    def test_it_is_one_of_concurrent_futures(self) -> None:
        with gf.executor() as executor:
            assert isinstance(executor, concurrent.futures.Executor)
            assert list(executor.map(pow, [1, 2, 3], [2, 2, 2])) == [1, 4, 9]
            futures = [executor.submit(double, X + n) for n in range(20)]
            done = [f.result()[0] for f in concurrent.futures.as_completed(futures, SECONDS)]
            assert sorted(done) == [2.0 * n for n in range(20)]

    def test_leaving_the_block_by_sys_exit_waits_for_the_tasks(self) -> None:
        with pytest.raises(SystemExit), gf.executor() as executor:
            future = executor.submit(pow, 2, 3)
            raise SystemExit
        assert future.result(0) == 8

    def test_run_takes_different_functions_and_keeps_their_order(self) -> None:
        def plain(a: int, b: int = 0, *, c: int = 0) -> tuple[int, int, int, bool]:
            return a, b, c, "host" in threading.current_thread().name

        with gf.executor() as executor:
            found = executor.run(
                [(double, X), (plain, (1, 2)), (plain, 3), (plain, (4,), {"c": 5}), (dict,)],
                timeout=SECONDS,
            )
        assert found[0].tolist() == [0, 2, 4, 6]
        assert found[1:] == [(1, 2, 0, True), (3, 0, 0, True), (4, 0, 5, True), {}]

    def test_run_raises_the_first_error_once_all_have_ended(self) -> None:
        ended: list[int] = []

        def odd(n: int) -> int:
            ended.append(n)
            if n % 2:
                raise ValueError(f"{n} is odd")
            return n

        with gf.executor() as executor:
            calls = [(odd, n) for n in range(6)]
            with pytest.raises(ValueError, match="1 is odd"):
                executor.run(calls)
            assert sorted(ended) == list(range(6))
            found = executor.run(calls, on_error="return")
        assert [str(one) for one in found] == [
            "0", "1 is odd", "2", "3 is odd", "4", "5 is odd",
        ]  # fmt: skip

    def test_run_ends_what_took_too_long(self, gate: Gate) -> None:
        with gf.executor(quotas={"host": Quota(concurrency=1)}) as executor:
            calls: list[Any] = [(pow, (2, 2)), (gate.stand, 1), (gate.stand, 2)]
            found = executor.run(calls, timeout=0.3, on_error="return")
            assert found[0] == 4
            assert all(isinstance(one, TaskTimeout) for one in found[1:])
            assert "was abandoned while it ran" in str(found[1])
            assert "had not begun" in str(found[2])
            with pytest.raises(TaskTimeout):
                executor.run(calls[1:], timeout=0.1)

    @pytest.mark.parametrize("calls", [[3], [()], [("f", 1)], [(pow, 1, 2)], [(1, 2, 3, 4)]])
    def test_run_refuses_what_is_no_call(self, calls: Any) -> None:
        with gf.executor() as executor, pytest.raises(InvalidSettings, match="entry 0 of run"):
            executor.run(calls)

    def test_nothing_is_taken_after_shutdown(self) -> None:
        executor = gf.executor()
        executor.shutdown()
        with pytest.raises(RuntimeError, match="submitted after the executor was shut down"):
            executor.submit(pow, 2, 2)
        with pytest.raises(ExecutorClosed):
            executor.with_options(priority=1).submit(pow, 2, 2)
        assert double.submit(X).result(SECONDS) is not None  # others' executors go on

    def test_shutdown_waits_or_cancels(self, gate: Gate) -> None:
        executor = gf.executor(quotas={"host": Quota(concurrency=1)})
        running = executor.submit(gate.stand, 1)
        assert gate.began.acquire(timeout=SECONDS)
        waiting = [executor.submit(gate.stand, n) for n in range(5)]
        executor.shutdown(wait=False, cancel_futures=True)
        assert all(f.cancelled() for f in waiting)
        gate.opened.set()
        executor.shutdown()
        assert running.done()
        assert gate.order == [None]

    def test_leaving_the_block_waits_and_leaves_no_thread(self) -> None:
        with gf.executor(quotas={"host": Quota(concurrency=2)}) as executor:
            futures = [executor.submit(pow, 2, n) for n in range(50)]
        assert all(f.done() for f in futures)
        for thread in lane_threads():
            thread.join(SECONDS)
        assert not lane_threads()

    @pytest.mark.parametrize("fail", [lambda _: 1 / 0, sys.exit])
    def test_a_callback_that_fails_harms_nobody(
        self, fail: Callable[[Any], Any], gate: Gate, caplog: pytest.LogCaptureFixture
    ) -> None:
        with gf.executor() as executor:
            executor.submit(gate.offloaded, X).add_done_callback(fail)
            gate.opened.set()
            assert executor.submit(double, X).result(SECONDS).tolist() == [0, 2, 4, 6]
        assert "callback" in caplog.text

    def test_stats_tell_what_became_of_the_tasks(self) -> None:
        def fails() -> None:
            raise KeyError("x")

        with gf.executor(quotas={"host": Quota(concurrency=1)}) as executor:
            executor.run([(double, X), (pow, (2, 2)), (fails, ())], on_error="return")
            stats = executor.stats()
        assert (stats.done, stats.failed, stats.queued, stats.running) == (2, 1, 0, 0)
        assert stats.lanes["host"].calls == 2
        assert stats.lanes["cpu"].calls == 1
        assert stats.lanes["cpu"].busy_seconds > 0
        assert stats.batches == {1: 3}
        assert stats.median_wait_seconds is not None
        assert "2 done, 1 failed" in str(stats)

    @pytest.mark.parametrize(
        ("options", "kind"),
        [
            ({"quotas": {"gpux": Quota()}}, UnknownName),
            ({"quotas": {"cpu": 0.8}}, InvalidSettings),
            ({"devices": ["tensorfoo"]}, UnknownName),
            ({"latency": "long"}, InvalidSettings),
            ({"latency": -1}, InvalidSettings),
            ({"devices": ["numpy"], "quotas": {"torch": Quota()}}, UnknownName),
        ],
    )
    def test_options_that_mean_nothing_are_refused(
        self, options: dict[str, Any], kind: type[Exception]
    ) -> None:
        with pytest.raises(kind):
            gf.executor(**options)

    @pytest.mark.parametrize(
        "limits", [{"memory": -1}, {"memory": "much"}, {"concurrency": 0}, {"share": 1.5}]
    )
    def test_a_limit_that_means_nothing_is_named(self, limits: dict[str, Any]) -> None:
        ((name, value),) = limits.items()
        with pytest.raises(InvalidSettings, match=f"{name}={value!r} is not"):
            Quota(**limits)

    def test_a_device_that_is_not_there_is_refused(self) -> None:
        pytest.importorskip("torch")
        with pytest.raises(BackendUnavailable):
            gf.executor(devices=["torch:cuda:17"])


class TestCoalescing:
    def test_calls_that_wait_together_are_made_together_if_that_gains(
        self, monkeypatch: pytest.MonkeyPatch, gate: Gate
    ) -> None:
        from gpuforge.runtime.executor import running
        from gpuforge.runtime.executor.together import Result

        sizes: list[int] = []

        def together(function: Callable[..., Any], calls: Any) -> list[Result]:
            sizes.append(len(calls))
            threading.Event().wait(0.002)
            return [Result(error=ValueError("3")) if args[0][0] == 3 else Result(args[0] * 2)
                    for args, _ in calls]  # fmt: skip

        @gf.offload
        def slowly(x: Any) -> Any:
            threading.Event().wait(0.002)
            return x * 2

        monkeypatch.setattr(running, "call_together", together)
        for _ in range(3):
            slowly.submit(X).result(SECONDS)
        blocked = gate.offloaded.submit(X)
        assert gate.began.acquire(timeout=SECONDS)
        futures = [slowly.submit(np.full(4, float(n))) for n in range(200)]
        gate.opened.set()
        blocked.result(SECONDS)
        for n, future in enumerate(futures):
            if n == 3 and isinstance(future.exception(SECONDS), ValueError):
                continue
            assert future.result(SECONDS).tolist() == [2.0 * n] * 4
        assert max(sizes) >= 16
        stats = gf.executor().stats()
        assert max(stats.batches) == max(sizes)
        assert "were batched" in str(stats)

    def test_a_batch_that_fails_as_a_whole_is_told_to_each(
        self, monkeypatch: pytest.MonkeyPatch, gate: Gate
    ) -> None:
        from gpuforge.runtime.executor import running

        def together(function: Any, calls: Any) -> Any:
            raise OSError("the device is gone")

        monkeypatch.setattr(running, "call_together", together)
        for _ in range(3):
            double.submit(X).result(SECONDS)
        gate.offloaded.submit(X)
        assert gate.began.acquire(timeout=SECONDS)
        futures = [double.submit(X) for _ in range(20)]
        gate.opened.set()
        found = [f.exception(SECONDS) for f in futures]
        assert any(isinstance(one, OSError) for one in found)
        assert all(one is None or str(one) == "the device is gone" for one in found)


class TestAio:
    def test_it_awaits_results_and_errors(self) -> None:
        @gf.offload
        def fails(x: Any) -> Any:
            raise StopIteration("in here")

        async def main() -> None:
            assert (await double.aio(X)).tolist() == [0, 2, 4, 6]
            found = await asyncio.gather(*[double.aio(X + n, priority=n % 3) for n in range(50)])
            assert [one[0] for one in found] == [2.0 * n for n in range(50)]
            for _ in range(3):
                with pytest.raises(RuntimeError, match="StopIteration"):
                    await fails.aio(X)

        asyncio.run(main())

    def test_run_in_executor(self) -> None:
        async def main() -> None:
            loop = asyncio.get_running_loop()
            with gf.executor() as executor:
                found = await loop.run_in_executor(executor, double, X)
                assert found.tolist() == [0, 2, 4, 6]
                urgent = executor.with_options(priority=5)
                assert await loop.run_in_executor(urgent, pow, 2, 3) == 8

        asyncio.run(main())

    def test_a_timeout_abandons_what_runs_and_the_lane_goes_on(
        self, gate: Gate, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(dispatching.Dispatcher.give_up, "__defaults__", (0.05,))

        async def main() -> None:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await gate.offloaded.aio(X)
            assert (await double.aio(X)).tolist() == [0, 2, 4, 6]  # in a new thread

        asyncio.run(main())
        stats = gf.executor().stats()
        assert (stats.cancelled, stats.done) == (1, 1)

    def test_a_cancelled_call_that_waits_never_runs(self, gate: Gate) -> None:
        async def main() -> None:
            first = asyncio.ensure_future(gate.offloaded.aio(X, "first"))
            await asyncio.to_thread(gate.began.acquire, timeout=SECONDS)
            second = asyncio.ensure_future(gate.offloaded.aio(X, "second"))
            await asyncio.sleep(0)
            second.cancel()
            with pytest.raises(asyncio.CancelledError):
                await second
            gate.opened.set()
            await first

        asyncio.run(main())
        assert gate.order == ["first"]

    def test_short_calls_are_made_at_once_and_still_let_others_go_on(self) -> None:
        seen: list[str] = []

        @gf.offload(pure=False)
        def short(x: Any) -> Any:
            seen.append(threading.current_thread().name)

        async def main() -> None:
            turns = 0

            async def other() -> None:
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)

            beside = asyncio.ensure_future(other())
            dispatcher, _ = opening.shared()
            for _ in range(300):
                await short.aio(X)
            schedule = dispatcher.schedule
            for key in schedule._seconds:  # however busy this machine is
                schedule._seconds[key] = 1e-6
            seen.clear()
            before = turns
            await short.aio(X)
            assert turns > before
            beside.cancel()

        asyncio.run(main())
        assert seen == ["MainThread"]


class TestSeveralDevices:
    def test_calls_stay_on_the_named_backends_and_keep_both_busy(self) -> None:
        pytest.importorskip("torch")
        rng = np.random.default_rng(0)
        large = rng.normal(size=(160, 160))

        @gf.offload
        def work(x: Any) -> Any:
            for _ in range(6):
                x = np.tanh(x @ x)
            return x

        with gf.session(learn=False), gf.executor(devices=["numpy", "torch:cpu"]) as executor:
            executor.run([(work, large + 0.0) for _ in range(10)])
            before = executor.stats().lanes
            wanted = work(large)
            found = executor.run([(work, large + 0.0) for _ in range(80)])
            after = executor.stats().lanes
        assert all(np.allclose(one, wanted) for one in found)
        names = [name for name in after if name != "host"]
        assert names == ["numpy", "torch:cpu"]
        busy = [after[name].busy_seconds - before[name].busy_seconds for name in names]
        assert min(busy) > 0.4 * max(busy), busy  # wide: other programs run on this machine, too
        assert all(after[name].calls > before[name].calls for name in names)

    def test_a_task_that_each_device_leaves_to_the_other_is_taken(self) -> None:
        """The device that it was left to took longer than expected, and leaves it to the other."""
        schedule = Schedule([Lane("a"), Lane("b")])
        dispatcher = dispatching.Dispatcher(schedule)
        began, opened = threading.Event(), threading.Event()

        def stand() -> None:
            began.set()
            assert opened.wait(SECONDS)

        first, second = (Task(work, (), {}, Terms(), copy_context()) for work in (stand, int))
        for each in (first, second):
            each.kind, each.lanes = "kind", ("a", "b")
            each.ending = TaskFuture(each, dispatcher)
        schedule.learn(first, schedule.lanes["a"], 0.01)
        schedule.learn(first, schedule.lanes["b"], 0.0101)
        dispatcher.put(first)
        assert began.wait(SECONDS)
        slow = next(name for name, lane in schedule.lanes.items() if lane.running)
        # The other lane leaves the second one to this lane, which is expected to end at once ...
        schedule.lanes[slow].running[0].expected_seconds = 1e-9
        other = "b" if slow == "a" else "a"
        schedule._seconds["kind", other] = 1.0
        dispatcher.put(second)
        time.sleep(3 * dispatching.IDLE_SECONDS)
        assert second.state == WAITING
        # ... but takes so long that from then on it leaves such tasks to the other.
        schedule._seconds["kind", slow] = 10.0
        opened.set()
        assert dispatcher.wait(dispatcher.pending, SECONDS)
        assert schedule.lanes[other].calls == 1

    def test_each_gpu_of_a_session_gets_a_lane(self) -> None:
        names = ["torch:cpu", "torch:cuda:0", "torch:cuda:1", "cupy:cuda:0"]
        backends = [SimpleNamespace(name=name) for name in names]
        session: Any = SimpleNamespace(
            backends=lambda: backends,
            find=lambda name, device="": SimpleNamespace(name=f"{name}:cuda:1"),
        )
        dispatcher = dispatching.Dispatcher(Schedule())
        places = Places(dispatcher, quotas={"torch:cuda:0": Quota(share=0.8), "cuda:1": Quota()})
        assert places.lanes(Options(), current_session()) == ("cpu",)
        assert places.lanes(Options(), session) == ("cpu", "cuda:0", "cuda:1")
        assert places.lanes(Options(device="cuda"), session) == ("cuda:0", "cuda:1")
        assert places.lanes(Options(device="gpu"), session) == ("cuda:0", "cuda:1")
        assert places.lanes(Options(device="cpu"), session) == ("cpu",)
        assert places.lanes(Options(backend="torch"), session) == ("cuda:1",)
        assert places.lanes(None, session) == ("host",)
        lanes = dispatcher.schedule.lanes
        assert [lanes[name].share.share for name in ("cuda:0", "cuda:1")] == [0.8, 1.0]
        held = on_lane(double, lanes["cuda:1"])
        assert held is on_lane(double, lanes["cuda:1"])
        assert held._options.device == "cuda:1"
        pinned = gf.offload(backend="numpy")(lambda x: x)
        assert on_lane(pinned, lanes["cpu"]) is pinned
        assert is_on("torch:cuda:1", "cuda:1")
        assert not is_on("torch:cuda:0", "cuda:1")

    def test_a_quota_caps_the_share_of_the_time(self) -> None:
        def work(event: threading.Event) -> None:
            event.wait(0.01)

        never = threading.Event()
        with gf.executor(quotas={"host": Quota(concurrency=1, share=0.5)}) as executor:
            executor.run([(work, never)])
            start = dispatching.perf_counter()
            executor.run([(work, never) for _ in range(40)])
            seconds = dispatching.perf_counter() - start
            busy = executor.stats().lanes["host"].busy_seconds
        assert busy / seconds < 0.65  # wide: a quiet machine gives 0.5
