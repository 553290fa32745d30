"""Every command that gpuforge advises is run, but for those of `NOT_RUN`, each with the reason.

What a reader fills in is a file that is there: a program, a profile of it, a log, a recorded
machine. Home, caches, settings and the active environment are the test's own, so that what changes
something changes nothing of the machine.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from .test_advice import advised

PROGRAM = """
import numpy as np
import gpuforge as gf

@gf.offload
def work(x):
    return (x * 2).sum()

print(work(np.ones(1000)))
"""
BENCH = """
def bench_words():
    return " ".join(map(str, range(100))).split()
"""
LOG = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
# What stands for a word of the reader's, by command, and what that command is given besides.
WORDS = {
    "SCRIPT": "script.py", "NAME": "run.gfp", "FOLDER": "machine", "DIR": "machine", "REF": "HEAD",
    "CAUSE": "numpy_abi_mismatch", "COMMAND": "env", "BASE": "base.gfp", "NEW": "run.gfp",
    "BASE.gfp": "base.gfp", "NEW.gfp": "run.gfp", "RESULT": "result.json", "FILE.gfp": "new.gfp",
}  # fmt: skip
FILES = {
    "bench": "bench_words.py",
    "report": "run.gfp",
    "run": "new.gfp",
}
MORE = {
    "gpuforge bench --save FILE": ["bench_words.py"],
    "gpuforge run": ["script.py"],
    "gpuforge run --accelerate": ["script.py"],
    "gpuforge run --lazy-imports": ["script.py"],
    "gpuforge run --save FILE": ["script.py"],
    "gpuforge run --save FILE --peaks": ["script.py"],
    "gpuforge run --save FILE.gfp": ["script.py"],
    # Shorter, and on this machine alone: the network is another test's, as are slow checks.
    "gpuforge doctor --network": ["package_index"],
    "gpuforge startup --validate": ["--quick"],
    "gpuforge explain": ["build.log"],
    "gpuforge top": ["--once"],
}
BEFORE = {
    "gpuforge env edit mine": ["env", "new", "mine", "--extends", "nlp"],
}
SHORT = {"bench": ["--time-limit", "0.2s"]}
# 0 where nothing else is said. 1: something is wrong with the machine, or no index answers; 3:
# there is nothing to show, or the time was too short to tell.
STATUS = {
    "gpuforge bench --against REF": {0, 3},
    "gpuforge bench FILE --against REF": {0, 3},
    "gpuforge env refresh": {1},
    "gpuforge startup --validate": {0, 1, 3},
    "gpuforge bench --history": {3},
    "gpuforge detect": {0, 3},
    "gpuforge detect --json": {0, 3},
    "gpuforge detect --json --refresh": {0, 3},
    "gpuforge detect --record DIR": {0, 3},
    "gpuforge doctor gpu_health": {0, 3},
    "gpuforge doctor --network": {1},
    "gpuforge env verify": {1},
    "gpuforge startup": {3},
    "gpuforge startup --measure": {3},
}
NOT_RUN = {
    "gpuforge env create": ("installs from an index", "environment/test_create.py"),
    "gpuforge env create --replace": ("installs from an index", "environment/test_create.py"),
    "gpuforge env fetch": (
        "downloads from an index: runs there to its error",
        "cli/test_advice.py",
    ),
    "gpuforge calibrate --export FILE": ("calibrates at first", "runtime/test_exchange.py"),
    "gpuforge calibrate --reset": ("calibrates anew", "runtime/test_learning.py"),
    "gpuforge detect --watch": ("runs until it is interrupted", "cli/test_watch.py"),
    "gpuforge serve": ("runs until it is interrupted", "monitor/test_server.py"),
    "gpuforge doctor --undo ID": ("needs a repair before it", "diagnose/test_repairs.py"),
}
ADVISED = advised()
# A calibration of every library takes a minute, and one of NumPy alone is none.
SECOND = next((name for name in ("jax", "torch") if find_spec(name)), "")
STATUS |= {c: {0} if SECOND else {2, 3} for c in ADVISED if "calibrate" in c}
TESTS = Path(__file__).parents[1]


def gpuforge(*words: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PYTHONPATH": str(TESTS.parent / "src"), **variables}
    return subprocess.run(
        [sys.executable, "-m", "gpuforge", *words], cwd=folder, env=environ, text=True,
        capture_output=True, stdin=subprocess.DEVNULL, timeout=300,
    )  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, corpus: Path) -> Path:
    """Return a folder with all that the commands name, and an environment that may be changed."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "script.py").write_text(PROGRAM)
    (folder / "bench_words.py").write_text(BENCH)
    (folder / "build.log").write_text(LOG)
    recorded = next(f for f in sorted((corpus / "devices").iterdir()) if f.is_dir())
    (folder / "machine").symlink_to(recorded)
    for name in ("run.gfp", "base.gfp"):
        done = gpuforge("run", "--save", name, "script.py", folder=folder,
                        XDG_CACHE_HOME=str(folder / "cache"))  # fmt: skip
        assert done.returncode == 0, done.stderr
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "own"], check=True)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(folder)]
    for words in (["init", "-q"], ["add", "bench_words.py"], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], check=True)
    return folder


@pytest.fixture
def place(tmp_path: Path, whole: Path) -> Path:
    """Return a folder of this test's own with the same."""
    return shutil.copytree(whole, tmp_path / "place", symlinks=True)


def words_of(command: str) -> list[str]:
    """Return the words that run an advised command, without its first."""
    words = shlex.split(command)[1:]
    name = words[0]
    filled = [
        FILES.get(name, "FILE") if word == "FILE" else WORDS.get(word, word) for word in words
    ]
    if "--record" in filled:
        filled[-1] = "recorded"
    return [*filled, *SHORT.get(name, []), *MORE.get(command.strip(), [])]


@pytest.mark.parametrize("command", [c for c in ADVISED if c.strip() not in NOT_RUN])
def test_an_advised_command_runs(command: str, place: Path) -> None:
    for words in (BEFORE.get(command), words_of(command)):
        if words is None:
            continue
        done = gpuforge(
            *words, folder=place, VIRTUAL_ENV=str(place / "own"), EDITOR="true",
            PIP_INDEX_URL="http://127.0.0.1:9/simple", PIP_CACHE_DIR=str(place / "pip"),
            **({"GPUFORGE_BACKENDS": f"numpy,{SECOND}"} if "calibrate" in command else {}),
        )  # fmt: skip
    assert done.returncode in STATUS.get(command, {0}), (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", NOT_RUN)
def test_what_is_not_run_here_is_run_by_another_test(command: str) -> None:
    assert command in {c.strip() for c in ADVISED}
    _, other = NOT_RUN[command]
    words = [word for word in shlex.split(command)[1:] if word.islower()]
    text = (TESTS / other).read_text(encoding="utf-8")
    for word in words:
        assert re.search(rf"[\"' ]{re.escape(word)}[\"' ]", text), (command, other, word)
