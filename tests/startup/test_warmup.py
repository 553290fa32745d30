"""Warm-up: its order, what it tells, and that whatever goes wrong costs the program nothing."""

from __future__ import annotations

import asyncio
import io
import json
import os
import pty
import select
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

import gpuforge as gf
from gpuforge.runtime import progress_line
from gpuforge.runtime.evaluation.background import FORK_PATIENCE_SECONDS, Background
from gpuforge.runtime.evaluation.program_store import ProgramStore
from gpuforge.runtime.libraries import Library
from gpuforge.runtime.progress_line import ProgressLine
from gpuforge.runtime.session import current_session
from gpuforge.runtime.startup import ahead, opening, record, warming

LIMIT_SECONDS = 120.0
HANGS = "import os, time\nif os.environ.get('HANGS'):\n    time.sleep(1000)\n"


def run(
    source: str, folder: Path, *, variables: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program whose folder is searched for libraries first."""
    program = folder / "program.py"
    program.write_text(source)
    return subprocess.run(
        [sys.executable, program], cwd=folder, capture_output=True, text=True,
        timeout=LIMIT_SECONDS, env={**os.environ, **(variables or {})},
    )  # fmt: skip


KNOWN = """
import gpuforge as gf, os, sys, time, json
from gpuforge.runtime.session import current_session
s = current_session()
s.kept.keep(s.openings._devices_key(s.libraries["torch"]), ["torch:cpu"])
"""
"""The library is not tested in a separate process: it was open on this machine before."""


def test_the_order_learned_in_one_run_is_used_in_the_next(tmp_path: Path) -> None:
    pytest.importorskip("jax")
    source = """
import numpy as np, gpuforge as gf, os, sys, json
from gpuforge.runtime.prelude import prelude
from gpuforge.runtime.session import current_session
@gf.offload
def double(x):
    return 2 * x
@gf.offload(backend="jax")
def triple(x):
    return 3 * x
x = np.ones(4)
assert "jax" not in sys.modules
double(x)
prelude.wait()
begun = [(one.library.name, one.by) for one in current_session().openings.all]
if not os.environ.get("GPUFORGE_WARMUP"):
    triple(x); triple(x)
for one in current_session().openings.all:
    one.wait()
current_session().openings.collect()
print(json.dumps(begun), [b.name for b in current_session().backends()])
"""
    first = run(source, tmp_path)
    assert first.stdout == "[] ['jax:cpu']\n", first.stderr
    assert record.of_program(str(tmp_path / "program.py"))["libraries"]["jax"]["uses"] == 2
    second = run(source, tmp_path, variables={"GPUFORGE_WARMUP": "1"})
    assert second.stdout == '[["jax", "the setting warmup"]] [\'jax:cpu\']\n', second.stderr
    third = json.loads(json.dumps(record.of_program(str(tmp_path / "program.py"))["libraries"]))
    assert third["jax"]["uses"] == 0  # loaded in vain: not warmed up again
    assert run(source, tmp_path, variables={"GPUFORGE_WARMUP": "1"}).stdout == "[] []\n"


@pytest.mark.skipif(sys.platform != "linux", reason="settings are looked for at once elsewhere")
def test_the_first_call_does_not_wait_for_gpuforges_own_modules(tmp_path: Path) -> None:
    source = """
import sys
import numpy as np, gpuforge as gf
from gpuforge.runtime.prelude import prelude
@gf.offload
def double(x):
    assert "gpuforge.runtime.session" not in sys.modules
    return 2 * x
double(np.ones(4))
prelude.wait()
from gpuforge.runtime.session import current_session
print(prelude.over, current_session().warms)
"""
    done = run(source, tmp_path, variables={"GPUFORGE_WARMUP": "1"})
    assert done.stdout == "True False\n", done.stderr


def test_a_warm_library_is_ready_when_it_is_named() -> None:
    pytest.importorskip("jax")
    with gf.session(history=False):
        made = gf.warmup(["jax"], wait=True)
        assert made.done and made.stats["jax"].state == "open", made.stats
        assert gf.offload(lambda x: 2 * x, backend="jax")(np.ones(2)).tolist() == [2, 2]
        assert current_session().backend("jax:cpu") is not None
        assert len(current_session().openings.all) == 1


def test_it_is_awaited() -> None:
    pytest.importorskip("jax")

    async def wait() -> bool:
        return await gf.warmup(["jax"])

    with gf.session(history=False):
        assert asyncio.run(wait())
        assert current_session().backends()


def test_priorities_order_the_libraries() -> None:
    assert warming.ordered({"jax": 1, "torch": 5, "mlx": 3}) == ["torch", "mlx", "jax"]
    assert warming.ordered(["jax", "torch"]) == ["jax", "torch"]
    assert warming.ordered("jax") == ["jax"]


def test_the_most_used_library_of_the_last_run_is_first(monkeypatch: Any, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("")
    monkeypatch.setattr(sys, "argv", [str(program)])
    monkeypatch.setattr(record, "_kept", {})
    record.keep("libraries", {"jax": {"uses": 1}, "mlx": {"uses": 0}, "torch": {"uses": 7}})
    assert warming.learned() == ["torch", "jax"]


def test_nothing_is_warmed_up_for_a_program_that_is_not_known() -> None:
    with gf.session(history=False):
        made = gf.warmup()
        assert made.wait() and made.stats == {} and "name one" in made.reason


def test_a_name_that_means_nothing_is_an_error() -> None:
    with gf.session(history=False), pytest.raises(gf.errors.UnknownName):
        gf.warmup(["tourch"])


@pytest.mark.parametrize(
    ("names", "said"), [(5, "5 is not the name"), ([3], "3 is not"), ({"jax": "high"}, "priority")]
)
def test_what_is_no_name_is_an_error(names: Any, said: str) -> None:
    with (
        gf.session(history=False),
        pytest.raises(gf.errors.InvalidSettings, match=f"^gf.warmup: .*{said}"),
    ):
        gf.warmup(names)


def test_a_library_that_is_not_installed_any_more_is_left_out(
    monkeypatch: Any, tmp_path: Path
) -> None:
    if __import__("importlib.util").util.find_spec("cupy"):
        pytest.skip("cupy is installed here")
    program = tmp_path / "program.py"
    program.write_text("")
    monkeypatch.setattr(sys, "argv", [str(program)])
    monkeypatch.setattr(record, "_kept", {})
    record.keep("libraries", {"cupy": {"uses": 3}})
    with gf.session():
        made = gf.warmup()
        assert made.wait()
        assert made.stats["cupy"].state == "left out"
        assert "not installed" in made.stats["cupy"].reason


@pytest.mark.parametrize(
    ("library", "reason"),
    [
        ("import os\nos.abort()\n", "was ended by signal SIGABRT"),
        ("raise ImportError('its library is damaged')\n", "its library is damaged"),
        ("raise SystemExit(3)\n", "SystemExit"),
    ],
    ids=["crashes", "raises", "exits"],
)
def test_a_library_that_cannot_be_opened_is_told(library: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text(library)
    done = run(
        "import gpuforge as gf, sys\nmade = gf.warmup(['torch'], wait=True)\n"
        "print(made.stats['torch'].state, made.stats['torch'].reason, 'torch' in sys.modules)",
        tmp_path,
    )
    assert done.returncode == 0 and done.stderr == "", done.stderr
    assert done.stdout.startswith("failed ") and reason in done.stdout
    assert "torch: " not in done.stdout, "the name is told once"
    assert done.stdout.endswith("False\n"), "the program's own process did not import it"


def test_a_library_that_hangs_is_met_in_another_process(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text(HANGS)
    done = run(
        "import gpuforge as gf, sys\nmade = gf.warmup(['torch'])\n"
        "print(made.wait(1.0), made.stats['torch'].state, 'torch' in sys.modules)",
        tmp_path, variables={"HANGS": "1"},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "False tested in a separate process False\n"


def test_a_fork_does_not_wait_for_a_library_that_hangs_in_another_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, ends = threading.Event(), threading.Event()
    monkeypatch.setattr(opening, "try_out", lambda name: begun.set() or str(ends.wait()))
    background, library = Background(), cast(Library, SimpleNamespace(name="jax"))
    one = opening.Opening(library, "a test", felt=0.0, tried=True)
    background.start(partial(one.run, background, ProgramStore()), imports=True)
    assert begun.wait(LIMIT_SECONDS)
    start = time.perf_counter()
    background.wait(FORK_PATIENCE_SECONDS)
    assert background.is_busy and time.perf_counter() - start < FORK_PATIENCE_SECONDS
    ends.set()
    assert one.wait(LIMIT_SECONDS) and one.state == "failed"


@pytest.mark.parametrize(
    "stand_in",
    [
        "sys.modules['jax'] = types.ModuleType('jax')",
        "sys.modules['jax'] = unittest.mock.MagicMock()",
        "class Refusing:\n    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'jax':\n            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Refusing())",
    ],
)
def test_a_stand_in_for_a_library_is_no_error(stand_in: str, tmp_path: Path) -> None:
    """As tests and builders of documentation put it in the place of what is not installed."""
    done = run(
        f"import sys, types, unittest.mock\n{stand_in}\nimport gpuforge as gf, numpy as np\n"
        "print(gf.warmup(['jax']).wait(60), gf.warmup().wait(60))\n"
        "print(gf.offload(np.exp)(np.zeros(2)))",
        tmp_path,
    )
    assert (done.stdout, done.stderr) == ("True True\n[1. 1.]\n", "")


def test_the_program_ends_although_an_import_hangs_in_it(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text(HANGS)
    done = run(
        KNOWN + "made = gf.warmup(['torch'])\nprint(made.wait(1.0), made.stats['torch'].state)",
        tmp_path, variables={"HANGS": "1"},
    )  # fmt: skip
    assert (done.stdout, done.returncode, done.stderr) == ("False importing\n", 0, "")


def test_a_child_that_is_forked_while_an_import_hangs_can_import_it(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text(HANGS)
    done = run(
        KNOWN + "gf.warmup(['torch']).wait(1.0)\n"
        "if os.fork() == 0:\n"
        "    del os.environ['HANGS']\n"
        "    import torch\n"
        "    print('imported', torch.__name__, flush=True)\n"
        "    os._exit(4)\n"
        "print(os.waitstatus_to_exitcode(os.wait()[1]))",
        tmp_path,
        # Since 3.12, Python warns of a fork while another thread runs.
        variables={"HANGS": "1", "PYTHONWARNINGS": "ignore:This process:DeprecationWarning"},
    )  # fmt: skip
    assert (done.stdout, done.returncode) == ("imported torch\n4\n", 0)
    assert "NumPy only" in done.stderr or done.stderr == ""


@pytest.mark.parametrize("seconds", [0.0, 0.1, 0.4])
def test_a_program_that_ends_meanwhile_is_neither_held_up_nor_disturbed(
    seconds: float, tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    done = run(
        KNOWN + f"gf.warmup(['torch'])\ntime.sleep({seconds})\nprint('end')\nsys.exit(3)", tmp_path
    )
    assert (done.stdout, done.stderr, done.returncode) == ("end\n", "", 3)


def test_a_stopped_import_is_not_told_as_a_fault_of_the_library(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text(
        "import time\n"
        "ends = time.monotonic() + 0.8\n"
        "while time.monotonic() < ends:\n    pass\n"
        "try:\n    import colorsys\nexcept BaseException:\n    pass\n"
        "raise RuntimeError('only a part was imported')\n"
    )
    done = run(KNOWN + "gf.warmup(['torch'])\ntime.sleep(0.3)\n", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    told = record.last()["libraries"]["torch"]
    assert (told["state"], told["reason"]) == ("failed", "the program ended first")


def test_a_program_that_forks_meanwhile_goes_on(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    done = run(
        KNOWN + "made = gf.warmup(['torch'])\ntime.sleep(0.2)\n"
        "if os.fork() == 0:\n    print('child', flush=True)\n    os._exit(5)\n"
        "print(os.waitstatus_to_exitcode(os.wait()[1]), made.wait(60))",
        tmp_path,
    )
    assert (done.stdout, done.returncode) == ("child\n5 True\n", 0), done.stderr


def test_what_an_import_registers_for_forks_meanwhile_is_called_in_pairs(tmp_path: Path) -> None:
    """As `concurrent.futures` does: Python alone would release a lock that nobody acquired."""
    (tmp_path / "torch.py").write_text(
        "import os, threading, time\n"
        "ends = time.monotonic() + 0.8\n"
        "while time.monotonic() < ends:\n    pass\n"
        "for lock in (threading.Lock(), threading.RLock()):\n"
        "    os.register_at_fork(\n"
        "        before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)\n"
    )
    done = run(
        KNOWN + "register = os.register_at_fork\n"
        "made = gf.warmup(['torch'])\ntime.sleep(0.2)\n"
        "for _ in range(2):\n    if os.fork() == 0:\n        os._exit(0)\n    os.wait()\n"
        "print(made.wait(60), 'torch' in sys.modules, os.register_at_fork is register)",
        tmp_path, variables={"PYTHONWARNINGS": "ignore::DeprecationWarning"},
    )  # fmt: skip
    assert (done.stdout, done.stderr, done.returncode) == ("True True True\n", "", 0)


def test_a_forked_child_ends_although_jax_was_opened(tmp_path: Path) -> None:
    """Freeing a client of JAX would wait for threads that only the parent has."""
    pytest.importorskip("jax")
    done = run(
        KNOWN + "gf.warmup(['jax'], wait=True)\n"
        "if os.fork() == 0:\n    sys.exit(5)\n"
        "print(os.waitstatus_to_exitcode(os.wait()[1]))",
        tmp_path, variables={"PYTHONWARNINGS": "ignore::DeprecationWarning"},
    )  # fmt: skip
    assert (done.stdout, done.stderr, done.returncode) == ("5\n", "", 0)


def test_an_interrupt_ends_the_waiting(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text(HANGS)
    (tmp_path / "program.py").write_text(
        KNOWN + "made = gf.warmup(['torch'])\nprint('waiting', flush=True)\nmade.wait()\n"
    )
    started = subprocess.Popen(
        [sys.executable, tmp_path / "program.py"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "HANGS": "1"}, cwd=tmp_path, text=True,
    )  # fmt: skip
    assert started.stdout is not None and started.stdout.readline() == "waiting\n"
    started.send_signal(signal.SIGINT)
    _, err = started.communicate(timeout=LIMIT_SECONDS)
    assert started.returncode == -signal.SIGINT and "KeyboardInterrupt" in err


@pytest.mark.parametrize("columns", [80, 20])
def test_a_terminal_shows_how_far_it_is_while_somebody_waits(columns: int, tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text(HANGS)
    (tmp_path / "program.py").write_text(KNOWN + "gf.warmup(['torch']).wait(1.5)\n")
    ours, theirs = pty.openpty()
    started = subprocess.Popen(
        [sys.executable, tmp_path / "program.py"], stderr=theirs, cwd=tmp_path,
        env={**os.environ, "HANGS": "1", "COLUMNS": str(columns)},
    )  # fmt: skip
    os.close(theirs)
    text = b""
    while select.select([ours], [], [], LIMIT_SECONDS)[0]:
        try:
            text += os.read(ours, 4096)
        except OSError:  # Linux: the other end is closed
            break
    os.close(ours)
    assert started.wait() == 0
    shown = b"warm-up: torch, 1 of 1, importing ("[: columns - 1]
    assert shown in text and text.endswith(b"\r\x1b[K"), text
    assert all(len(line) < columns for line in text.split(b"\r\x1b[K"))


def test_one_line_at_a_time_shows_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", terminal)
    first, second = ProgressLine(), ProgressLine()
    first.show("first")
    second.show("second")
    second.erase()
    first.erase()
    second.show("third")
    assert terminal.getvalue() == "\r\x1b[Kfirst\r\x1b[K\r\x1b[Kthird"
    monkeypatch.setattr(progress_line, "STALE_SECONDS", -1.0)  # it was abandoned
    first.show("fourth")
    assert terminal.getvalue().endswith("fourth")
    first.erase()
    monkeypatch.setenv("TERM", "dumb")
    first.show("not here")
    assert "not here" not in terminal.getvalue()
    monkeypatch.setattr(sys, "stderr", object())
    first.show("not here either")


def test_a_library_was_not_waited_for_longer_than_it_took() -> None:
    one = opening.Opening(cast(Any, SimpleNamespace(name="jax")), "", felt=0.0)
    one.elapsed_seconds, one.waited_seconds = 2.0, 5.0
    jax = warming.components([one], {})["jax"]
    assert (jax.elapsed_seconds, jax.waited_seconds, jax.overlapped_seconds) == (2.0, 2.0, 0.0)


def test_files_are_read_ahead_by_a_process_that_is_no_child(
    monkeypatch: Any, tmp_path: Path
) -> None:
    """A program that waits for any child does not meet it; it ends with what was opened for it."""
    if not hasattr(os, "posix_fadvise"):
        pytest.skip("posix_fadvise is not there on this system")
    started: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def seen(*args: Any, **kwargs: Any) -> subprocess.Popen[bytes]:
        started.append(popen(*args, **kwargs))
        return started[-1]

    for number in range(20_000):
        (tmp_path / str(number)).mkdir()
    monkeypatch.setattr(ahead, "_is_in_memory", lambda folder: False)
    monkeypatch.setattr(ahead, "_folders", lambda name: [str(tmp_path)] * 50)
    monkeypatch.setattr(subprocess, "Popen", seen)
    reading = ahead.read_ahead("numpy")
    assert reading is not None
    group = started[0].pid
    os.killpg(group, 0)  # it is there
    with pytest.raises(ChildProcessError):
        os.waitpid(-group, os.WNOHANG)
    reading.close()
    end = time.monotonic() + LIMIT_SECONDS
    with pytest.raises(ProcessLookupError):
        while time.monotonic() < end:
            os.killpg(group, 0)
            time.sleep(0.01)
    monkeypatch.setattr(ahead, "_folders", lambda name: [])
    assert ahead.read_ahead("no_such_library") is None


def test_files_that_are_in_memory_are_not_read_again(tmp_path: Path) -> None:
    if not hasattr(os, "RWF_NOWAIT"):
        pytest.skip("this system does not tell what is in memory")
    path = tmp_path / "file"
    path.write_bytes(b"x" * 100_000)
    path.read_bytes()
    in_memory = ahead._is_in_memory(str(tmp_path))
    if not in_memory:
        pytest.skip("this file system does not tell what is in memory")
    end = time.monotonic() + LIMIT_SECONDS
    with path.open("rb") as file:
        os.fsync(file.fileno())
        while ahead._is_in_memory(str(tmp_path)):  # the kernel may let go of it a little later
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            assert time.monotonic() < end
            time.sleep(0.01)


def test_the_setting_begins_nothing_before_the_first_call() -> None:
    with gf.session(history=False, warmup=True, backends=["numpy", "jax"]) as held:
        assert held.warms and not held.openings.all
        gf.offload(lambda x: x + 1)(np.ones(2))
        assert not held.warms
        assert [one.by for one in held.openings.all] in ([], ["the setting warmup"])
