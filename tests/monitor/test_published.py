"""A gpuforge process is seen by others through its file, as long as it lives and no longer."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpuforge as gf
from gpuforge import published
from gpuforge.published import BackendUse, Pressure
from gpuforge.runtime.record import CachedDecision

HEAD = "import os, sys; from gpuforge import published as p\n"
PLACED = pytest.mark.filterwarnings("default")
"""Where warnings are turned into errors, calls are made as written and not placed."""
TAIL = "\nprint('ready', flush=True); sys.stdin.readline()"


@contextmanager
def program(code: str) -> Iterator[subprocess.Popen[str]]:
    """Run `code` in another process until the block ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HEAD + code + TAIL],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin and process.stdout
    try:
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


def files() -> list[Path]:
    return sorted(published.folder().iterdir())


COUNTS = """
p.count('numpy', 3, 0.5); p.count('torch:cuda:0', 1, 2.0); p.count('numpy', 1, 0.5)
p.transferred('torch:cuda:0', 0.25); p.tasks(5, 0); p.tasks(-1, 1); p.tasks(0, -1, 1)
p.settled(); p.retried(); p.batched(); p.batched(); p.now('epoch 3')
p.transferred('torch:cuda:0', 0.0, 4096, 8); p.compared('numpy', 2, 0.125)
p.pressed('torch:cuda:0', warnings=1, criticals=1); p.pressed('torch:cuda:0', exhausted=2)
p.pressed('torch:cuda:0', released=1, released_bytes=2**40)
"""


def test_another_process_sees_the_counters_without_set_up() -> None:
    with program(COUNTS) as process:
        (seen,) = published.read_all()
        assert seen.pid == process.pid and seen.program == "python -c" and seen.span == "epoch 3"
        pressed = seen.backends[1].pressure
        assert seen.backends == (
            BackendUse("numpy", 4, 2.0, 0.0, 0, 0, 2, 0.125),
            BackendUse("torch:cuda:0", 1, 2.0, 0.25, 4096, 8, pressure=pressed),
        )
        assert pressed == Pressure(1, 1, 2, 1, 2**40, pressed.last_at)
        assert seen.started_at <= pressed.last_at <= time.time()
        assert (seen.queued, seen.running, seen.done, seen.failed) == (4, 0, 1, 0)
        assert (seen.settled, seen.retries, seen.batches) == (1, 1, 2)
        assert seen.started_at <= seen.updated_at
    assert published.read_all() == [] and files() == []


def test_only_the_user_can_enter_the_folder() -> None:
    with program("p.settled()"):
        (file,) = files()
        assert published.folder().stat().st_mode & 0o777 == 0o700
        assert file.stat().st_mode & 0o777 == 0o600


def test_what_a_killed_process_left_is_removed_by_the_next_reader() -> None:
    with program("p.settled()") as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert len(files()) == 1
        assert published.read_all() == [] and files() == []


def test_a_number_that_is_used_again_is_not_mistaken_for_the_process_before() -> None:
    with program("p.settled()") as process:
        (file,) = files()
        pid, ticks = file.name.split("-")
        earlier = file.with_name(f"{pid}-{int(ticks) - 1}")
        earlier.write_bytes(file.read_bytes())
        assert [one.pid for one in published.read_all()] == [process.pid]
        assert files() == [file]


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # JAX, if it is loaded
@pytest.mark.filterwarnings("ignore:Exception ignored in:pytest.PytestUnraisableExceptionWarning")
def test_a_forked_child_has_a_file_of_its_own() -> None:
    fork = """
p.count('numpy', 1, 1.0)
child = os.fork()
if child == 0:
    p.count('numpy', 7, 1.0)
"""
    code = fork + "    print('ready', flush=True); os.read(0, 1); os._exit(0)"
    wait = "\nsys.stdout.flush(); assert sys.stdin.readline() is not None; os.waitpid(child, 0)"
    process = subprocess.Popen(
        [sys.executable, "-c", HEAD + code + wait],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin and process.stdout
    assert process.stdout.readline() == "ready\n"
    seen = {one.pid: one.backends[0].calls for one in published.read_all()}
    assert seen.pop(process.pid) == 1 and list(seen.values()) == [7]
    process.stdin.write("\n\n")
    process.stdin.close()
    assert process.wait() == 0
    process.stdout.close()
    assert published.read_all() == [] and files() == []  # the child ended without cleaning up


@pytest.mark.parametrize(
    "name", ["\x1b[2J\x1b]0;x\x07", "a\nb\r", "\u202egnp", "é" * 200, "\ud800"]
)
def test_hostile_names_do_no_harm(name: str) -> None:
    with program(f"sys.argv[0] = {name!r}; p.now({name!r}); p.count({name!r}, 1, 1.0)"):
        (seen,) = published.read_all()
        for text in (seen.span, seen.program, seen.backends[0].name):
            assert text and text.isprintable()
            assert len(text.encode()) <= 3 * 96


def test_many_backends_share_the_last_row() -> None:
    with program("[p.count(f'b{n}', 1, 1.0) for n in range(40)]"):
        (seen,) = published.read_all()
        assert [one.name for one in seen.backends[-2:]] == ["b14", "others"]
        assert sum(one.calls for one in seen.backends) == 40


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "cut": lambda content: content[:100],
    "another version": lambda content: content[:7] + b"1" + content[8:],
    "of the version before": lambda content: content[:7] + b"1" + content[8:1536],
    "no magic": lambda content: b"\0" * 8 + content[8:],
    "not a number": lambda content: content[:40] + struct.pack("d", float("nan")) + content[48:],
    "negative": lambda content: content[:56] + struct.pack("q", -1) + content[64:],
    "other process": lambda content: content[:16] + struct.pack("q", 1) + content[24:],
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_of_a_living_process_is_passed_over(damage: str) -> None:
    with program("p.settled()"):
        (file,) = files()
        content = DAMAGES[damage](file.read_bytes())
        os.replace(file, file.with_suffix(".away"))
        file.write_bytes(content)
        assert published.read_all() == [] and file.exists()
        os.replace(file.with_suffix(".away"), file)


@given(st.binary(min_size=published._SIZE, max_size=published._SIZE), st.booleans())
def test_no_content_of_a_file_makes_a_reader_fail(content: bytes, whole: bool) -> None:
    if whole:  # else nearly all would be refused for the first eight bytes
        content = published._MAGIC + content[8:16] + struct.pack("q", 7) + content[24:]
    seen = published._parsed(content, 7)
    assert seen is None or (seen.pid == 7 and seen.span.isprintable())


def test_a_program_of_another_version_is_told_of_and_its_file_is_left(
    caplog: pytest.LogCaptureFixture,
) -> None:
    published.settled()
    (mine,) = files()
    content = b"GPUFORG1" + mine.read_bytes()[8:1536]
    published.end()
    mine.write_bytes(content)
    elsewhere = mine.with_name(f"{2**22}-1")
    elsewhere.write_bytes(content[:8] + struct.pack("q", published._namespace() + 1) + content[16:])
    with caplog.at_level("INFO", "gpuforge"):
        assert published.read_all() == []
    assert f"process {os.getpid()} is not shown: it runs another version" in caplog.text
    assert mine.exists() and elsewhere.exists()
    mine.unlink()


def test_files_that_are_none_of_ours_are_left_alone(tmp_path: Path) -> None:
    published.settled()
    other, pipe, link = (published.folder() / name for name in ("notes.txt", "1-1", "2-2"))
    other.write_text("x")
    os.mkfifo(pipe)
    link.symlink_to(other)
    assert [one.pid for one in published.read_all()] == [os.getpid()]
    assert other.read_text() == "x"


def test_a_process_of_another_container_is_neither_shown_nor_removed() -> None:
    published.settled()
    (mine,) = files()
    other = mine.with_name(f"{2**22}-1")
    content = mine.read_bytes()
    other.write_bytes(content[:8] + struct.pack("q", published._namespace() + 1) + content[16:])
    assert [one.pid for one in published.read_all()] == [os.getpid()]
    assert other.exists()


def test_a_folder_that_others_could_write_into_is_not_used(own_home: Path) -> None:
    (own_home / "runtime" / "gpuforge").mkdir(mode=0o777)
    (own_home / "runtime" / "gpuforge").chmod(0o777)
    published.settled()
    assert list((own_home / "runtime" / "gpuforge").iterdir()) == []
    assert published.read_all() == []


def test_without_a_runtime_folder_the_temporary_one_is_used(
    own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    monkeypatch.setenv("TMPDIR", str(own_home))
    published.settled()
    assert published.folder() == own_home / f"gpuforge-{os.getuid()}"
    assert len(published.read_all()) == 1


def test_a_full_disk_means_that_nothing_is_shown() -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "write", full)
        published.settled()
    published.settled()
    assert files() == [] and published.read_all() == []


def test_a_process_that_ended_and_was_not_waited_for_is_gone() -> None:
    with program("p.settled()") as process:
        assert process.stdin
        process.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert published.read_all() == [] and files() == []


def test_a_signal_may_count_in_the_middle_of_a_count() -> None:
    code = """
import signal, threading
signal.signal(signal.SIGALRM, lambda *_: p.settled())
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
while not p._board or p._board.whole[p._SETTLED] < 20:
    p.retried()
signal.setitimer(signal.ITIMER_REAL, 0)
"""
    with program(code):
        (seen,) = published.read_all()
        assert seen.settled >= 20 and seen.retries > 0


def test_a_crowd_of_dead_files_is_cleared_by_the_next_process() -> None:
    published.settled()
    (mine,) = files()
    for number in range(published._CROWD):
        mine.with_name(f"{2**22 + number}-1").write_bytes(mine.read_bytes())
    with program("p.settled()"):
        assert len(files()) == 2


@PLACED
def test_calls_and_tasks_are_shown() -> None:
    @gf.offload(backend="numpy")
    def double(x: np.ndarray) -> np.ndarray:
        return x + x

    with gf.executor() as tasks:
        futures = [tasks.submit(double, np.ones(10)) for _ in range(20)]
        assert all(future.result().sum() == 20 for future in futures)
    published.count_held()
    (seen,) = published.read_all()
    assert [(one.name, one.calls) for one in seen.backends] == [("numpy", 20)]
    assert (seen.queued, seen.running, seen.done, seen.failed) == (0, 0, 20, 0)


@PLACED
def test_a_held_call_shows_nothing_until_it_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[int] = []
    monkeypatch.setattr(published, "count", lambda name, calls, seconds: shown.append(calls))

    @gf.offload
    def double(x: np.ndarray) -> np.ndarray:
        return x + x

    x = np.ones(8)
    while not any(held.left > 100 for held in _held(double)):
        double(x)
    before = len(shown)
    for _ in range(100):
        double(x)
    assert len(shown) == before
    published.count_held()
    assert sum(shown[before:]) >= 100


@PLACED
@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # JAX, if it is loaded
@pytest.mark.filterwarnings("ignore:Exception ignored in:pytest.PytestUnraisableExceptionWarning")
def test_a_forked_child_does_not_show_the_calls_of_its_parent() -> None:
    @gf.offload
    def double(x: np.ndarray) -> np.ndarray:
        return x + x

    x = np.ones(8)
    while not any(held.left > 100 for held in _held(double)):
        double(x)
    before = files()
    child = os.fork()
    if child == 0:
        os._exit(0 if files() == before else 1)
    assert os.waitpid(child, 0)[1] == 0


def _held(function: object) -> list[CachedDecision]:
    return list(function._hot[1].values())  # type: ignore[attr-defined]
