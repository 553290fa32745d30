"""Ctrl-C while an environment is made is neither lost nor raised where something is half-done."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from gpuforge.environment.interruption import check, deferred
from gpuforge.environment.process import run_lines

HANGS = [sys.executable, "-c", "import time; print('began', flush=True); time.sleep(600)"]

pytestmark = pytest.mark.skipif(os.name != "posix", reason="sends signals")


@pytest.fixture(autouse=True)
def as_in_a_program() -> Iterator[None]:
    """Let Python handle SIGINT, which pytest's workers ignore."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_it_ends_a_running_installer() -> None:
    with pytest.raises(KeyboardInterrupt), deferred():
        run_lines(HANGS, interrupt)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_it_does_not_wait_for_programs_that_the_installer_started() -> None:
    program = "import subprocess, sys; print('began', flush=True); subprocess.run(['sleep', '9'])"
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt), deferred():
        run_lines([sys.executable, "-c", program], interrupt)
    assert time.monotonic() - began < 8


def test_an_error_that_follows_from_it_is_not_told_instead() -> None:
    with pytest.raises(KeyboardInterrupt), deferred():
        interrupt()
        raise ValueError("the installer was ended")


def test_it_ends_the_downloads_of_other_threads() -> None:
    raised = []

    def download() -> None:
        try:
            run_lines(HANGS, interrupt)
        except KeyboardInterrupt as error:
            raised.append(error)

    thread = threading.Thread(target=download)
    with pytest.raises(KeyboardInterrupt), deferred():
        thread.start()
        thread.join()
    assert raised


def test_it_waits_for_the_end_of_a_step_and_a_second_one_does_not() -> None:
    steps = []
    with pytest.raises(KeyboardInterrupt), deferred():
        interrupt()
        steps.append("whole")
        check()
        steps.append("next")
    assert steps == ["whole"]
    with pytest.raises(KeyboardInterrupt), deferred():
        interrupt()
        steps.append("whole")
        interrupt()
        steps.append("next")
    assert steps == ["whole", "whole"]
    check()  # nothing is left of it


def test_an_installer_that_starts_afterwards_is_ended_at_once() -> None:
    lines: list[str] = []
    with pytest.raises(KeyboardInterrupt), deferred():
        interrupt()
        run_lines(HANGS, lines.append)


def test_a_handler_of_the_program_is_kept() -> None:
    got = []
    signal.signal(signal.SIGINT, lambda *_: got.append("mine"))
    with deferred():
        interrupt()
    assert got == ["mine"]
