"""Functions called whole in worker processes: every way to end, and that nothing stays behind."""

from __future__ import annotations

import asyncio
import functools
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import numpy as np
import pytest

import gpuforge as gf
from gpuforge.errors import InvalidSettings, TaskTimeout, WorkerDied, WorkloadError
from gpuforge.runtime.executor.dispatcher import Dispatcher
from gpuforge.runtime.workers import functions, pickling, process
from gpuforge.runtime.workers.functions import call_isolated

from .conftest import places
from .test_workers import until

pytestmark = pytest.mark.skipif(os.name != "posix", reason="workers need Unix sockets")


def add(x: Any, y: Any = 1) -> Any:
    return x + y


def die(number: int) -> None:
    os.kill(os.getpid(), number)


def leave(status: int) -> None:
    os._exit(status)


def hang() -> None:
    while True:
        pass


def fail(text: str) -> None:
    raise KeyError(text)


def write(x: Any) -> None:
    x[0] = 1


KEPT: list[Any] = []


def keep(x: Any) -> list[float]:
    KEPT.append(x)
    return [float(one.sum()) for one in KEPT]


def knot(x: Any) -> Any:
    many = one = [x]
    for _ in range(40):
        many = [many, many]
    one.append(many)
    return {"many": many, "one": one}


def parts(x: Any) -> Any:
    return x, [x[:2], x.T]


def mute() -> None:
    sys.stdout.close()
    sys.stderr = None


def surroundings() -> tuple[str, str | None, bool]:
    return os.getcwd(), os.environ.get("GPUFORGE_OF_A_TEST"), "/of/a/test" in sys.path


def fork() -> str:
    child = os.fork()
    if child:
        os.waitpid(child, 0)
    return "parent" if child else "child"


def start(told: Path) -> None:
    told.write_text(str(subprocess.Popen(["sleep", "60"]).pid))
    os.kill(os.getpid(), signal.SIGKILL)


class Locked(Exception):
    def __init__(self, text: str, more: str) -> None:
        super().__init__(text)
        self.lock = threading.Lock() if more == "lock" else None


def lock(more: str) -> None:
    raise Locked("the door is closed", more)


class Interrupting:
    """Interrupts the process in which it is unpickled."""

    def __reduce__(self) -> Any:
        return interrupts, ()


def interrupts() -> None:
    raise KeyboardInterrupt


class TestOneCall:
    def test_results_and_arrays(self) -> None:
        x = np.arange(12.0).reshape(3, 4)
        found = call_isolated(add, (x.T,), {"y": np.ones((4, 3))})
        assert np.array_equal(found, x.T + 1) and found.flags.writeable
        assert call_isolated(os.getpid) != os.getpid()
        assert call_isolated(dict, (), {"a": [x, x]})["a"][1][2, 3] == 11

    def test_it_goes_on_in_the_same_process(self) -> None:
        assert call_isolated(os.getpid) == call_isolated(os.getpid)

    def test_an_exception_is_the_functions_own(self) -> None:
        with pytest.raises(KeyError, match="missing") as raised:
            call_isolated(fail, ("missing",))
        assert "test_isolation.py" in raised.value.__notes__[0]
        assert "in fail" in raised.value.__notes__[0]

    def test_arguments_are_read_only(self) -> None:
        x = np.zeros(3)
        with pytest.raises(ValueError, match="read-only") as raised:
            call_isolated(write, (x,))
        assert any("write into a copy" in note for note in raised.value.__notes__)
        assert not x.any()

    def test_arguments_that_it_keeps_are_not_overwritten(self) -> None:
        assert [call_isolated(keep, (np.full(9, value),))[0] for value in (1.0, 2.0)] == [9, 9]
        assert call_isolated(keep, (np.full(9, 3.0),)) == [9, 18, 27]

    def test_results_made_of_arguments_can_be_written_into(self) -> None:
        whole, (some, turned) = call_isolated(parts, (np.ones((3, 2), order="F"),))
        assert all(one.flags.writeable for one in (whole, some, turned))
        assert whole.flags.f_contiguous and turned.shape == (2, 3)

    def test_results_may_refer_to_each_other_and_to_themselves(self) -> None:
        found = call_isolated(knot, (np.ones(3),))
        assert found["one"][1] is found["many"] and found["many"][0] is found["many"][1]
        assert found["one"][0].flags.writeable

    def test_the_program_may_replace_the_mapping_of_variables(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(os, "environ", dict(os.environ))
        assert call_isolated(add, (1,)) == 2

    def test_ctrl_c_while_the_result_is_copied_ends_the_process(self) -> None:
        before = set(process._all) - set(functions._idle)
        with pytest.raises(KeyboardInterrupt):
            call_isolated(Interrupting)
        assert set(process._all) - before <= set(functions._idle)
        assert call_isolated(add, (1,)) == 2

    def test_a_process_ends_although_a_wait_for_it_was_interrupted(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """In the middle of a lock of `subprocess`, which stays locked."""
        monkeypatch.setattr(process, "_ENDING_SECONDS", 0.1)
        worker = process.Worker(quiet=False)
        worker.process._waitpid_lock.acquire()  # type: ignore[attr-defined]
        worker.kill()
        assert not worker.alive
        worker.process._waitpid_lock.release()  # type: ignore[attr-defined]
        assert worker.process.wait(60) == -signal.SIGKILL

    def test_it_may_close_its_output(self) -> None:
        call_isolated(mute)
        assert call_isolated(add, (1,)) == 2
        os.kill(call_isolated(os.getpid), signal.SIGKILL)

    def test_it_finds_the_folder_variables_and_path_of_the_program(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before = call_isolated(surroundings)
        assert before == (os.getcwd(), None, False)
        call_isolated(os.chdir, ("/",))
        assert call_isolated(surroundings) == before
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("GPUFORGE_OF_A_TEST", "set")
        monkeypatch.syspath_prepend("/of/a/test")
        assert call_isolated(surroundings) == (str(tmp_path.resolve()), "set", True)
        monkeypatch.undo()
        assert call_isolated(surroundings) == before

    def test_a_child_that_it_forks_gives_no_answer(self) -> None:
        assert call_isolated(fork) == "parent"
        assert call_isolated(add, (1,)) == 2

    @pytest.mark.skipif(not Path("/proc").is_dir(), reason="/proc is Linux's")
    def test_what_it_started_ends_with_its_process(self, tmp_path: Path) -> None:
        with pytest.raises(WorkerDied):
            call_isolated(start, (tmp_path / "told",))
        until(lambda: is_gone(int((tmp_path / "told").read_text())))

    @pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGKILL])
    def test_a_signal_is_named(self, number: signal.Signals) -> None:
        with pytest.raises(WorkerDied, match=f"die was ended by signal {number.name}") as died:
            call_isolated(die, (number,))
        assert died.value.status == -number
        assert died.value.function.endswith("die")
        assert "not called again" in str(died.value)
        if number is not signal.SIGKILL:
            assert "test_isolation.py" in str(died.value)  # where it was
        assert call_isolated(add, (1,)) == 2

    def test_an_exit_is_told(self) -> None:
        with pytest.raises(WorkerDied, match="ended with exit status 7"):
            call_isolated(leave, (7,))

    def test_a_hanging_function_is_killed(self) -> None:
        pid = call_isolated(os.getpid)
        with pytest.raises(TaskTimeout, match="hang took longer than its timeout of 300 ms"):
            call_isolated(hang, timeout=0.3)
        assert not Path(f"/proc/{pid}").exists()
        assert isinstance(TaskTimeout(""), TimeoutError)

    @pytest.mark.parametrize("timeout", [-1, float("nan"), "soon", True])
    def test_a_timeout_that_means_nothing(self, timeout: Any) -> None:
        with pytest.raises(InvalidSettings, match=r"timeout=.* is not a duration"):
            call_isolated(add, (1,), timeout=timeout)

    @pytest.mark.parametrize("timeout", ["30s", 30 * 86400, 1e300])
    def test_a_timeout_may_be_text_or_long(self, timeout: Any) -> None:
        assert call_isolated(add, (1,), timeout=timeout) == 2

    def test_an_idle_worker_that_died_is_replaced(self) -> None:
        os.kill(call_isolated(os.getpid), signal.SIGKILL)
        assert call_isolated(add, (1,)) == 2


def twice(function: Any) -> Any:
    @functools.wraps(function)
    def called(*args: Any) -> Any:
        return function(*args) * 2

    return called


@twice
def doubled(x: Any) -> Any:
    return x + 0


class TestWhatADecoratorMade:
    def test_a_decorated_function_stays_decorated(self) -> None:
        assert call_isolated(doubled, (2,)) == 4
        assert call_isolated(doubled.__wrapped__, (2,)) == 2

    def test_an_offloaded_function_of_the_main_program_is_placed_there(
        self, tmp_path: Path
    ) -> None:
        then = """program = gf.offload(lambda x: (x + 1, os.getpid()))
made, pid = call_isolated(program, (np.ones(3),))
assert (made == 2).all() and pid in pids()
assert (call_isolated(placed, (np.ones(3),)) == 2).all()
"""
        with started(tmp_path, then) as parent:
            _, err = parent.communicate(timeout=60)
        assert (parent.returncode, err) == (0, "")


class TestWhatCannotBeSent:
    def test_an_argument(self) -> None:
        with pytest.raises(WorkloadError, match=r"add cannot be sent .*: argument 'y'") as raised:
            call_isolated(add, (1,), {"y": threading.Lock()})
        assert "inside the function" in raised.value.hint

    def test_a_result(self) -> None:
        with pytest.raises(WorkloadError, match=r"returned something that cannot be sent .*lock"):
            call_isolated(threading.Lock)

    @pytest.mark.parametrize("more", ["lock", "a second parameter"])
    def test_an_exception_is_told_all_the_same(self, more: str) -> None:
        with pytest.raises(WorkloadError, match="raised") as raised:
            call_isolated(lock, (more,))
        assert "Locked: the door is closed" in "\n".join(raised.value.__notes__)
        assert "in lock" in "\n".join(raised.value.__notes__)

    def test_a_lambda_without_cloudpickle(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "cloudpickle", None)
        with pytest.raises(WorkloadError, match="its code cannot be pickled") as raised:
            call_isolated(lambda: 1)
        assert "gpuforge[isolate]" in raised.value.hint

    def test_a_closure_with_a_lock(self) -> None:
        pytest.importorskip("cloudpickle", reason="cloudpickle is not installed")
        lock = threading.Lock()
        with pytest.raises(WorkloadError, match="its code cannot be pickled"):
            call_isolated(lambda: lock)


@gf.offload(pure=False, isolate=True)
def pids(x: Any) -> Any:
    return x.sum() + 0 * os.getpid(), os.getpid()


class TestOffloaded:
    def test_an_impure_function_runs_whole_in_a_worker(self) -> None:
        total, pid = pids(np.ones(5))
        assert total == 5 and pid != os.getpid()
        assert places(pids)["worker"] == 1

    def test_closures_are_sent_by_value(self) -> None:
        pytest.importorskip("cloudpickle", reason="cloudpickle is not installed")
        scale = np.full(3, 2.0)
        function = gf.offload(pure=False, isolate=True)(lambda x: x * scale)
        assert np.array_equal(function(np.ones(3)), scale)

    def test_one_that_cannot_be_pickled_says_what_to_do(self) -> None:
        lock = threading.Lock()

        @gf.offload(pure=False, isolate=True)
        def guarded(x: Any) -> Any:
            with lock:
                return x

        with pytest.raises(WorkloadError, match="guarded cannot be sent to a worker") as raised:
            guarded(np.ones(3))
        assert raised.value.hint

    def test_as_written_where_gpuforge_is_off(self) -> None:
        with gf.session(enabled=False):
            assert pids(np.ones(2))[1] == os.getpid()

    def test_a_recorded_function_needs_no_pickling(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(pickling, "pickled_call", None)
        lock = threading.Lock()

        @gf.offload(backend="numpy", isolate=True)
        def guarded(x: Any) -> Any:
            with lock:
                return x + 1

        with gf.session(history=False):
            assert np.array_equal(guarded(np.zeros(3)), np.ones(3))
            assert places(guarded) == {"numpy:cpu:worker": 1}


def task(number: int, folder: str) -> int:
    """Fail at 5 %, hang at 0.2 %, crash at 0.2 %."""
    with open(f"{folder}/{number}", "a", encoding="ascii") as file:
        file.write("x")
    if number % 20 == 3:
        raise ValueError(number)
    if number % 500 == 70:
        hang()
    if number % 500 == 90:
        die(signal.SIGSEGV if number < 500 else signal.SIGABRT)
    return number


def expected(number: int) -> Any:
    if number % 20 == 3:
        return ValueError
    return {70: TaskTimeout, 90: WorkerDied}.get(number % 500, number)


def test_a_thousand_calls_end_once_each(tmp_path: Path) -> None:
    files = len(os.listdir("/proc/self/fd"))

    def call(number: int) -> Any:
        args = (number, str(tmp_path))
        try:
            return call_isolated(task, args, timeout=1 if expected(number) is TaskTimeout else 60)
        except Exception as error:
            return type(error)

    with ThreadPoolExecutor(2) as threads:
        found = list(threads.map(call, range(1000)))
    assert not {n: one for n, one in enumerate(found) if one != expected(n)}
    assert all((tmp_path / str(n)).read_text() == "x" for n in range(1000))  # each ran once
    assert len(os.listdir("/proc/self/fd")) <= files + 3 * 4  # idle workers, three files each


PROGRAM = """
import os, sys, threading
import numpy as np
import gpuforge as gf
from gpuforge.runtime.workers.functions import call_isolated

@gf.offload(backend="numpy", isolate=True, fallback=True)
def placed(x):
    return x + 1

def hang():
    while True:
        pass

def pids():
    from gpuforge.runtime.workers.process import _all
    return sorted(worker.process.pid for worker in _all)

if __name__ == "__main__":
    placed(np.ones(300_000))
    call_isolated(os.getpid)
    {then}
"""


def started(tmp_path: Path, then: str, **more: Any) -> subprocess.Popen[str]:
    pytest.importorskip("cloudpickle", reason="cloudpickle is not installed")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.replace("{then}", then.replace("\n", "\n    ")))
    return subprocess.Popen(
        [sys.executable, str(program)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        **more,
    )  # fmt: skip


def is_gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):  # before it was opened, or before it was read
        return True
    return state == "Z"  # dead: whoever adopted it has not looked yet


needs_proc = pytest.mark.skipif(not Path("/proc").is_dir(), reason="/proc is Linux's")
HANG = """threading.Thread(target=lambda: call_isolated(hang), daemon=True).start()
while len(pids()) < 2 or not any("R" in open(f"/proc/{p}/stat").read() for p in pids()): pass
print(*pids(), flush=True)
"""


@needs_proc
class TestNothingStays:
    def test_workers_end_with_a_parent_that_is_killed(self, tmp_path: Path) -> None:
        with started(tmp_path, HANG + "threading.Event().wait()") as parent:
            assert parent.stdout is not None
            found = [int(pid) for pid in parent.stdout.readline().split()]
            assert len(found) == 2 and not any(map(is_gone, found))
            mapped = "".join(Path(f"/proc/{pid}/maps").read_text() for pid in (parent.pid, *found))
            assert "memfd:gpuforge arrays" in mapped and "/dev/shm/" not in mapped  # no names
            parent.kill()
        until(lambda: all(map(is_gone, found)))

    def test_the_end_of_a_program_is_silent(self, tmp_path: Path) -> None:
        with started(tmp_path, "print(*pids())") as parent:
            out, err = parent.communicate(timeout=60)
        assert (parent.returncode, err) == (0, "")
        assert len(out.split()) == 2 and all(is_gone(int(pid)) for pid in out.split())

    def test_ctrl_c_is_the_parents_alone(self, tmp_path: Path) -> None:
        then = 'print(*pids(), "ready", flush=True)\ncall_isolated(hang)'
        with started(tmp_path, then, start_new_session=True) as parent:
            assert parent.stdout is not None
            *found, _ = parent.stdout.readline().split()
            sleep(0.2)
            began = monotonic()
            os.killpg(parent.pid, signal.SIGINT)
            _, err = parent.communicate(timeout=60)
            assert monotonic() - began < 30
        assert err.count("Traceback") == 1 and err.rstrip().endswith("KeyboardInterrupt")
        assert all(is_gone(int(pid)) for pid in found)

    def test_a_call_that_is_interrupted_leaves_a_usable_state(self, tmp_path: Path) -> None:
        then = """import signal
signal.setitimer(signal.ITIMER_REAL, 0.5)
def ring(*_): raise RuntimeError("rung")
signal.signal(signal.SIGALRM, ring)
try: call_isolated(hang)
except RuntimeError as error: print(error)
print(call_isolated(int, ("3",)))
"""
        with started(tmp_path, then) as parent:
            out, err = parent.communicate(timeout=60)
        assert (out, err) == ("rung\n3\n", "")

    def test_a_forked_child_has_workers_of_its_own(self, tmp_path: Path) -> None:
        then = """mine = call_isolated(os.getpid)
before = pids()
child = os.fork()
if not child:
    assert not pids()
    assert (placed(np.ones(3)) == 2).all()
    assert call_isolated(os.getpid) not in (mine, *before)
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
assert call_isolated(os.getpid) == mine and pids() == before
assert (placed(np.ones(3)) == 2).all() and pids() == before
"""
        with started(tmp_path, then) as parent:
            _, err = parent.communicate(timeout=60)
        assert parent.returncode == 0, err


@gf.offload(isolate=True)
def never_ends(x: Any) -> Any:
    while x.sum() > 0:
        pass


@needs_proc
def test_a_call_that_is_given_up_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Dispatcher.give_up, "__defaults__", (0.05,))
    pid = call_isolated(os.getpid)

    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await gf.offload(hang, pure=False, isolate=True).aio()

    asyncio.run(main())
    until(lambda: is_gone(pid) and not gf.executor().stats().abandoned)


def test_a_map_kills_the_call_that_takes_too_long() -> None:
    naps = gf.offload(sleep, pure=False, isolate=True)
    call_isolated(os.getpid)  # the start of a process counts, too
    with pytest.raises(TaskTimeout) as late:
        naps.map([0.0, 60.0, 0.0], timeout=3.0)
    assert late.value.done == [(0, None)]
    (found,) = naps.map([60.0], timeout=0.1, on_error="return")
    assert isinstance(found, TaskTimeout)


def test_a_submitted_call_is_killed_at_its_timeout_and_others_go_on() -> None:
    late = never_ends.submit(np.ones(3), timeout=1)
    other = gf.offload(isolate=True)(add).submit(np.ones(3), timeout=60)
    with pytest.raises(TaskTimeout, match="killed"):
        late.result()
    assert other.result().tolist() == [2, 2, 2]
