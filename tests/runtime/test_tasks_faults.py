"""Many tasks with every kind of ending; interrupted, terminated and forked programs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from gpuforge.runtime.executor import opening
from tests.runtime.many_tasks import CHUNK, run

FORKS = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
HEAD = """
import os, signal, sys, threading, time
import numpy as np
import gpuforge as gf
X = np.ones(4)

@gf.offload(pure=False)
def quick(x):
    return x

@gf.offload(pure=False)
def slow(x):
    time.sleep(60)

def ready():
    print("ready", flush=True)
"""


def test_five_thousand_tasks_end_once_and_right() -> None:
    seen = run(5 * CHUNK, seed=1)
    assert not seen.wrong
    assert seen.tasks == sum(seen.outcomes.values()) == 5 * CHUNK
    assert min(seen.outcomes[kind] for kind in ("cancelled", "Planned", "TaskTimeout", "done")) > 0
    dispatcher, _ = opening.shared()
    assert not dispatcher.pending
    assert dispatcher.schedule.waiting == 0
    assert all(lane.used_bytes == 0 for lane in dispatcher.schedule.lanes.values())
    assert all(not lane.running for lane in dispatcher.schedule.lanes.values())
    stats = dispatcher.stats()
    while dispatcher.stats().abandoned:  # their threads end by themselves
        time.sleep(0.01)
    assert stats.timed_out >= seen.outcomes["TaskTimeout"]
    assert seen.memory_bytes[-1] < 1.2 * seen.memory_bytes[1]
    for thread in threading.enumerate():
        if thread.name.startswith("gpuforge lane"):
            thread.join(30)
            assert not thread.is_alive()


def start(code: str) -> subprocess.Popen[str]:
    """Start a program and return once it has said that it is ready."""
    process = subprocess.Popen(
        [sys.executable, "-c", HEAD + textwrap.dedent(code)], text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n", process.communicate()
    return process


def group_is_gone(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


def end(process: subprocess.Popen[str], number: int) -> str:
    """Send a signal; return what the process, which must end soon, wrote to stderr."""
    process.send_signal(number)
    start = time.monotonic()
    _, told = process.communicate(timeout=30)
    # Asked for are 2 s; a busy machine is allowed more, and far less than a call of these takes.
    assert time.monotonic() - start < 20
    assert group_is_gone(process.pid)
    return told


WITH_BLOCK = """
    with gf.executor() as executor:
        quick.submit(X).result()
        done = [executor.submit(pow, 2, n) for n in range(10)]
        for future in done:
            future.result()
        futures = [executor.submit(slow, X) for n in range(5)]
        while not futures[0].running():
            time.sleep(0.001)
        ready()
        futures[0].result()
    """
NO_BLOCK = """
    for n in range(10):
        quick.submit(X).result()
    futures = [slow.submit(X) for n in range(5)]
    while not futures[0].running():
        time.sleep(0.001)
    ready()
    futures[0].result()
    """
RUN = """
    def last(x):
        while (now := gf.executor().stats()).done < 10 or now.queued < 3:
            time.sleep(0.01)
        ready()
        time.sleep(60)
    with gf.executor() as executor:
        executor.run([(quick, X)] * 10 + [(last, X)] + [(slow, X)] * 4)
    """
MAP = """
    @gf.offload(pure=False)
    def step(number):
        if number == 10:
            ready()
            time.sleep(60)
    list(gf.executor().map(step, range(15)))
    """
AIO = """
    import asyncio
    async def main():
        for n in range(10):
            await quick.aio(X)
        calls = [asyncio.ensure_future(slow.aio(X)) for n in range(5)]
        await asyncio.sleep(0.2)
        ready()
        await asyncio.gather(*calls)
    asyncio.run(main())
    """


@pytest.mark.parametrize(
    "code", [WITH_BLOCK, NO_BLOCK, RUN, MAP], ids=["with", "without", "run", "map"]
)
def test_an_interrupted_program_ends_soon_and_says_what_finished(code: str) -> None:
    told = end(start(code), signal.SIGINT)
    lines = [line for line in told.splitlines() if line.startswith("gpuforge: ")]
    assert len(lines) == 1, told
    assert lines[0].startswith("gpuforge: interrupted: 10 of 15 tasks had finished, "), told
    assert "abandoned while they ran (" in lines[0]
    assert "KeyboardInterrupt" in told


def test_an_interrupted_event_loop_ends_soon() -> None:
    told = end(start(AIO), signal.SIGINT)
    assert "KeyboardInterrupt" in told


@pytest.mark.parametrize("code", [WITH_BLOCK, NO_BLOCK, AIO], ids=["with", "without", "aio"])
def test_a_terminated_program_ends_soon_and_says_what_finished(code: str) -> None:
    process = start(code)
    told = end(process, signal.SIGTERM)
    assert process.returncode == -signal.SIGTERM
    lines = [line for line in told.splitlines() if line.startswith("gpuforge: ")]
    assert len(lines) == 1, told
    assert "terminated: 1" in lines[0]
    assert "4 cancelled before they began, 1 abandoned while they ran (__main__.slow)" in lines[0]


def test_a_handler_of_the_program_itself_is_left_alone() -> None:
    process = start("""
        signal.signal(signal.SIGTERM, lambda *_: os._exit(7))
        futures = [slow.submit(X)]
        ready()
        futures[0].result()
        """)
    assert end(process, signal.SIGTERM) == ""
    assert process.returncode == 7


def ran(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", HEAD + textwrap.dedent(code)], text=True, capture_output=True,
        timeout=120, check=False,
    )  # fmt: skip


def test_the_end_of_a_program_waits_for_its_tasks_and_not_for_abandoned_ones() -> None:
    done = ran("""
        def say(x):
            time.sleep(0.05)
            sys.stdout.write(f"said {x}\\n")  # whole: print writes a line in parts
            sys.stdout.flush()
        try:
            slow.submit(X, timeout=0.05).result()
        except TimeoutError:
            print("timed out", flush=True)
        executor = gf.executor()
        for n in range(3):
            executor.submit(say, n)
        """)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert sorted(done.stdout.splitlines()) == ["said 0", "said 1", "said 2", "timed out"]


@FORKS
def test_a_forked_child_has_lanes_of_its_own_and_its_parents_tasks_end() -> None:
    done = ran("""
        import warnings
        warnings.simplefilter("ignore")
        from gpuforge.errors import TaskCancelled
        executor = gf.executor()
        gate = threading.Event()
        running, waiting = quick.submit(X), None
        running.result()
        running = executor.submit(gate.wait, 60)
        blocked = [slow.submit(X, timeout=60) for _ in range(3)]
        while not running.running():
            time.sleep(0.001)
        child = os.fork()
        if child == 0:
            for future in (running, *blocked):
                try:
                    future.result(10)
                except TaskCancelled as error:
                    assert "belongs to the parent" in str(error), error
                else:
                    os._exit(2)
            assert quick.submit(X).result(10).tolist() == [1, 1, 1, 1]
            assert executor.submit(pow, 2, 3).result(10) == 8
            assert gf.executor().stats().done == 2
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        gate.set()
        assert running.result(10)
        assert quick.submit(X, priority=1) and not blocked[2].done()
        os._exit(0)
        """)
    assert done.returncode == 0, done.stderr


def test_importing_gpuforge_loads_no_queue() -> None:
    code = "import sys, gpuforge; from gpuforge import errors; errors.TaskTimeout; gpuforge.offload"
    code += "; assert 'concurrent.futures' not in sys.modules"
    code += "; assert not any('runtime.executor' in name for name in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert Path(__file__).exists()
