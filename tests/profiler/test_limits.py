"""Limits on what a profile shows, and the pytest marker and notebook magic that use recordings."""

from __future__ import annotations

import os
import subprocess
import sys
from array import array
from pathlib import Path
from typing import Any

import pytest

from gpuforge.profiler import notebook
from gpuforge.profiler.limits import exceeded, used
from gpuforge.profiler.model import Placement, Profile, Series
from tests.profiler.made import MS, Making

# The plugin by its module: an installed gpuforge has it by its name, too.
PYTEST = [sys.executable, "-m", "pytest", "-q", "-p", "no:gpuforge", "-p", "no:cacheprovider"]
PLUGIN = ["-p", "gpuforge.profiler.pytest_plugin"]


def example() -> Profile:
    making = Making()
    making.span("put", 0, MS, label="transfer", nbytes=3_000_000, count=2)
    making.span("get", MS, MS, label="transfer", nbytes=1_000_000)
    making.profile.placements += [
        Placement(0, "f", "", "torch", 1.0, 7), Placement(0, "g", "", "numpy", 1.0, 100),
    ]  # fmt: skip
    return making.profile


def test_what_is_used_is_counted() -> None:
    profile = example()
    assert used(profile) == {
        "calls": 7, "transfers": 3, "transfer_bytes": 4_000_000, "device_bytes": None,
    }  # fmt: skip
    memory = [("torch:cuda:0", [5.0, 9.0, 2.0]), ("host", [100.0])]
    for device, values in memory:
        series = Series("memory", "bytes", device, array("q", range(len(values))))
        series.values.extend(values)
        profile.series.append(series)
    assert used(profile)["device_bytes"] == 9


def test_what_opening_a_library_moves_is_not_counted() -> None:
    making = Making()
    call = making.span("f", 0, 5 * MS, label="overhead", function="f")
    opened = making.span("open", 0, 3 * MS, inside=call, label="overhead", backend="torch")
    making.span("put", 0, MS, inside=opened, label="transfer", nbytes=8)
    making.span("get", 3 * MS, MS, inside=call, label="transfer", nbytes=16)
    assert (used(making.profile)["transfers"], used(making.profile)["transfer_bytes"]) == (1, 16)
    for label, said in (("host", {}), ("overhead", {"function": "open"})):
        users = making.span("open", 0, MS, label=label, **said)
        making.span("put", 0, MS, inside=users, label="transfer", nbytes=16)
    assert used(making.profile)["transfers"] == 3


def test_a_profile_in_which_nothing_was_placed_holds_no_device_memory() -> None:
    assert used(Making().profile)["device_bytes"] == 0


def test_limits_are_exceeded_by_more_and_by_what_is_not_known() -> None:
    profile = example()
    assert exceeded(profile, {"calls": 7, "transfers": 3, "transfer_bytes": 4_000_000}) == []
    assert exceeded(profile, {"calls": 6, "transfer_bytes": 1 << 20, "device_bytes": 1 << 30}) == [
        "7 calls, more than the limit of 6",
        "3.81 MiB transfer bytes, more than the limit of 1 MiB",
        "device bytes could not be read: no backend that ran reports its memory",
    ]


def run_pytest(source: str, folder: Path) -> tuple[int, str]:
    (folder / "test_it.py").write_text(source)
    done = subprocess.run(
        [*PYTEST, *PLUGIN, "--strict-markers", "test_it.py"],
        cwd=folder, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


MARKED = """
import numpy as np, pytest, gpuforge as gf
double = gf.offload(backend="torch")(lambda x: x * 2 + 1)
x = np.ones(1000)

@pytest.mark.gpuforge(max_calls=3, max_transfer_bytes="1 MB")
def test_within():
    for _ in range(3):
        double(x)

@pytest.mark.gpuforge(max_calls=2)
def test_beyond():
    for _ in range(3):
        double(x)

@pytest.mark.gpuforge(max_calls=2)
def test_that_fails_by_itself():
    assert False, "its own reason"

@pytest.mark.gpuforge(max_calls=0)
def test_that_skips():
    pytest.skip("its own skip")

def test_not_marked():
    for _ in range(30):
        double(x)
"""


def test_the_marker_fails_what_exceeds_its_limits(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    status, said = run_pytest(MARKED, tmp_path)
    assert status == 1
    assert "2 failed, 2 passed, 1 skipped" in said, said
    assert "gpuforge: 3 calls, more than the limit of 2" in said
    assert "its own reason" in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("max_kernels=1", "has no limit 'max_kernels'; it has max_calls, max_transfers,"),
        ("3", "takes limits by name, such as max_calls=10"),
        ("", "takes limits by name, such as max_calls=10"),
        ("max_transfer_bytes='much'", "'much' is not a size in bytes"),
        ("max_calls=-1", "is below 0"),
        ("max_calls=2.7", "'float' object cannot be interpreted as an integer"),
    ],
)
def test_a_wrong_limit_is_said_before_tests_run(
    arguments: str, message: str, tmp_path: Path
) -> None:
    source = f"import pytest\n@pytest.mark.gpuforge({arguments})\ndef test_it(): print('ran')\n"
    status, said = run_pytest(source, tmp_path)
    assert status == 4
    assert "test_it.py::test_it: the " in said
    assert message in said


class Shell:
    """What of IPython's shell the magic uses."""

    def __init__(self) -> None:
        self.magics: dict[str, Any] = {}
        self.names: dict[str, Any] = {}

    def register_magic_function(self, function: Any, kind: str, name: str) -> None:
        self.magics[kind, name] = function

    def run_cell(self, cell: str) -> None:
        exec(cell, self.names)


@pytest.mark.parametrize("line", ["", "run.gfp", "'run.gfp'", ' "run.gfp"'])
def test_a_cell_is_profiled(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shell = Shell()
    notebook.load_ipython_extension(shell)
    cell = "import gpuforge as gf\nwith gf.span('in the cell'):\n    found = sum(range(1000))"
    shown = shell.magics["cell", "gpuforge"](line, cell)
    assert shell.names["found"] == 499500
    assert "in the cell" in shown.recording.profile.spans.names
    assert repr(shown) == shown.recording.summary()
    assert (tmp_path / "run.gfp").exists() == bool(line)


@pytest.mark.parametrize(
    ("line", "message"),
    [("--help", "no option '--help'"), ("none/run.gfp", "'none/run.gfp' cannot be written")],
)
def test_a_wrong_file_of_a_cell_is_said_in_a_line(line: str, message: str) -> None:
    wrong = pytest.importorskip("IPython.core.error").UsageError
    shell = Shell()
    notebook.load_ipython_extension(shell)
    with pytest.raises(wrong, match=f"{message}.*; name a file"):
        shell.magics["cell", "gpuforge"](line, "ran = True")
    assert not shell.names


def test_ipython_loads_the_magic(tmp_path: Path) -> None:
    pytest.importorskip("IPython")
    code = (
        "from IPython.testing.globalipapp import start_ipython\n"
        "shell = start_ipython()\n"
        "shell.run_line_magic('load_ext', 'gpuforge')\n"
        "shell.run_cell('%%gpuforge\\nkept = 6 * 7')\n"
        "print('kept', shell.user_ns['kept'])\n"
        "shell.run_cell('%%gpuforge\\n1 / 0')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120,
        env={**os.environ, "IPYTHONDIR": str(tmp_path)},
    )  # fmt: skip
    assert "kept 42" in done.stdout, done.stderr
    assert "ZeroDivisionError" in done.stdout


def test_gpuforge_is_not_rewritten_by_pytest(tmp_path: Path) -> None:
    """As every package with a plugin would be, which takes longer than to import it."""
    (tmp_path / "test_it.py").write_text(
        "def test_it():\n"
        "    import gpuforge.runtime.execution.pipeline as pipeline\n"
        "    assert type(pipeline.__loader__).__name__ == 'SourceFileLoader'\n"
    )
    done = subprocess.run(
        [*PYTEST, *PLUGIN], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout
