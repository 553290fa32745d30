"""One thread works for all recordings of a process."""

from __future__ import annotations

import gc
import os
import threading
import weakref
from time import perf_counter_ns

import pytest

import gpuforge as gf
from gpuforge.profiler import watching


def thread_of_work() -> int:
    found: list[int] = []
    watching.begin(lambda: found.append(threading.get_ident())).wait()
    return found[0]


def test_works_are_done_one_after_another_by_one_thread() -> None:
    assert thread_of_work() == thread_of_work() != threading.get_ident()


def test_a_program_has_one_thread_however_often_it_is_profiled() -> None:
    found = set()
    for _ in range(3):
        with gf.profile():
            found |= {one for one in threading.enumerate() if one.name == "gpuforge profile"}
    assert len(found) == 1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_what_fails_is_over_and_the_next_is_done() -> None:
    def fail() -> None:
        raise ValueError("on purpose")

    watching.begin(fail).wait()
    assert thread_of_work()


def test_what_failed_is_told_and_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(threading, "excepthook", lambda hook: told.append(hook.exc_type.__name__))

    class Work:
        def __call__(self) -> None:
            raise SystemExit(self)

    work = Work()
    gone = weakref.ref(work)
    watching.begin(work).wait()
    del work
    thread_of_work()
    gc.collect()
    assert told == ["SystemExit"]
    assert gone() is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:.*JAX is multithreaded")
def test_a_forked_child_has_a_thread_of_its_own() -> None:
    thread_of_work()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            done = watching.begin(lambda: None)
            status = 0 if done.wait(30) else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not [one for one in threading.enumerate() if one.name == "gpuforge profile"]
    assert thread_of_work()


def test_a_thread_without_work_rests_during_a_fork() -> None:
    watching.ready()
    watching._rest()
    watching._forget()
    assert not [one for one in threading.enumerate() if one.name == "gpuforge profile"]


def test_the_clock_of_a_recording_starts_after_its_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []
    ready = watching.ready
    monkeypatch.setattr(watching, "ready", lambda: begun.append(perf_counter_ns()) or ready())
    recording = gf.profile()
    recording.start()
    recording.stop()
    assert begun[0] < recording._begin_ns
