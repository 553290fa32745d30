"""What doctor says and does in an environment that the conda of this machine made."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from channel import build_channel

from gpuforge.cli.main import main
from gpuforge.diagnose.run import run_checks

CONDA = shutil.which("conda") or ""

pytestmark = pytest.mark.skipif(not CONDA, reason="no conda here")


@pytest.fixture
def channel(tmp_path: Path) -> str:
    return build_channel(tmp_path)


@pytest.fixture
def active(tmp_path: Path, channel: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create an environment and name it as ``conda activate`` does."""
    path = tmp_path / "env"
    conda("create", path, "-c", channel, "--override-channels", "--offline", "-y", "python", "pip")
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.setenv("CONDA_PREFIX", str(path))
    return path


def conda(command: str, path: Path, *arguments: str, status: int = 0) -> str:
    argv = [CONDA, command, "-p", str(path), *arguments]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    return done.stdout + done.stderr


def states() -> dict[str, str]:
    return {f.message: f.state for f in run_checks("package_tools").findings}


def test_a_record_that_conda_calls_corrupted_is_found_and_the_step_mends_it(
    active: Path, channel: str
) -> None:
    assert states()["pip works and finds all requirements met"] == "ok"
    assert not [message for message in states() if "damaged" in message]
    (record,) = (active / "conda-meta").glob("pip-*.json")
    record.write_bytes(record.read_bytes()[:100])
    assert "corrupted" in conda("list", active, status=1).lower()
    (found,) = [f for f in run_checks("package_tools").findings if "damaged" in f.message]
    assert found.state == "error" and found.message == "conda's record of pip is damaged"
    assert found.steps == (f"rm {record}; conda install --force-reinstall pip",)
    record.unlink()
    source = ("-c", channel, "--override-channels", "--offline", "-y")
    conda("install", active, "--force-reinstall", "pip", *source)
    assert not [message for message in states() if "damaged" in message]


def test_a_package_that_pip_put_over_the_one_of_conda_is_told(active: Path) -> None:
    # The channel's record says pip 25.0 while the files are those of ensurepip, as after `pip
    # install pip==OTHER`.
    (laid,) = [message for message in states() if message.startswith("pip of conda (25.0) lies")]
    assert states()[laid] == "warning"


def test_a_variable_that_a_repair_writes_is_there_where_conda_activates(
    active: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["doctor", "gpu_memory_fragmentation", "--fix", "--yes"])
    assert "repaired" in capsys.readouterr().out
    shown = conda("run", active, "env", status=0)
    assert "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True" in shown.splitlines()
