"""Scripts and kernels that start what is gone."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest

from gpuforge.diagnose.run import run_checks

from .environments import Environment, make_wheel

SCRIPT = (
    "#!{}\n# -*- coding: utf-8 -*-\nimport re\nimport sys\nfrom {}.cli import main\n\nif __name__"
)


def named() -> list[str]:
    found = run_checks("program_launchers").having("error", "warning", "unknown")
    return [finding.message for finding in found]


def test_a_script_of_a_package_that_is_gone_is_named(environment: Environment) -> None:
    python = environment.prefix / "bin" / "python"
    for name in ("pip", "gone"):
        (environment.prefix / "bin" / name).write_text(SCRIPT.format(python, name))
    (message,) = named()
    assert message.startswith("1 script of packages that are gone") and "import gone" in message


def test_a_script_of_the_standard_library_is_not_named(environment: Environment) -> None:
    python = environment.prefix / "bin" / "python"
    for name, module in {"2to3-3.11": "lib2to3", "idle3.11": "idlelib.pyshell"}.items():
        text = f"#!{python}\nfrom {module} import main\nif __name__"
        (environment.prefix / "bin" / name).write_text(text)
    assert not named()


def test_a_script_may_import_what_a_path_file_adds(environment: Environment) -> None:
    text = SCRIPT.format(environment.prefix / "bin" / "python", "mine")
    (environment.prefix / "bin" / "mine").write_text(text)
    (environment.packages / "mine.pth").write_text(f"{environment.prefix.parent}\n")
    assert not named()


def test_a_kernel_of_a_python_that_is_gone_is_named(
    environment: Environment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "jupyter"))
    for name, program in {"old": "/opt/gone/bin/python", "new": sys.executable}.items():
        folder = tmp_path / "jupyter" / "kernels" / name
        folder.mkdir(parents=True)
        (folder / "kernel.json").write_text(json.dumps({"argv": [program, "-m", "ipykernel"]}))
    assert not named()
    environment.add(make_wheel(tmp_path, "jupyter-client", "8.6.0"))
    (message,) = named()
    assert "the Jupyter kernel old starts /opt/gone/bin/python" in message


def test_a_program_that_nobody_may_execute_is_named(
    environment: Environment, tmp_path: Path
) -> None:
    files = {"imageio_ffmpeg/binaries/ffmpeg-linux-v7": "", "imageio_ffmpeg/binaries/README.md": ""}
    environment.add(make_wheel(tmp_path, "imageio-ffmpeg", "0.6", files=files))
    (message,) = named()
    assert "imageio-ffmpeg 0.6 cannot start" in message and "not executable" in message
    (environment.packages / "imageio_ffmpeg/binaries/ffmpeg-linux-v7").chmod(0o755)
    assert named() == []


def test_the_step_that_lets_a_program_run_can_be_pasted(
    environment: Environment, tmp_path: Path
) -> None:
    path = "imageio_ffmpeg/binaries/ffmpeg-linux v7"
    environment.add(make_wheel(tmp_path, "imageio-ffmpeg", "0.6", files={path: ""}))
    (finding,) = run_checks("program_launchers").having("warning")
    assert shlex.split(finding.steps[0])[2:] == [str(environment.packages / path)]


def test_a_program_that_only_its_mount_bars_needs_no_permission(
    environment: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"imageio_ffmpeg/binaries/ffmpeg-linux": ""}
    environment.add(make_wheel(tmp_path, "imageio-ffmpeg", "0.6", files=files))
    monkeypatch.setattr("os.access", lambda path, mode: False)
    assert named()
    (environment.packages / "imageio_ffmpeg/binaries/ffmpeg-linux").chmod(0o755)
    assert named() == []


def test_a_script_with_line_ends_of_windows_is_named(environment: Environment) -> None:
    script = environment.prefix / "bin" / "tool"
    script.write_bytes(b"#!/usr/bin/env python\nimport sys\n")
    assert not run_checks("python_environment").having("warning")
    script.write_bytes(b"#!/usr/bin/env python\r\nimport sys\r\n")
    (finding,) = run_checks("python_environment").having("warning")
    assert finding.message == f"{script} starts /usr/bin/env python\\r, which does not exist"


def test_a_kernel_of_a_python_without_ipykernel_is_named(
    environment: Environment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "jupyter"))
    environment.add(make_wheel(tmp_path, "jupyter-client", "8.6.0"))
    (tmp_path / "jupyter" / "kernels" / "mine").mkdir(parents=True)
    argv = [str(environment.prefix / "bin" / "python"), "-m", "ipykernel_launcher"]
    place = tmp_path / "jupyter" / "kernels" / "mine" / "kernel.json"
    place.write_text(json.dumps({"argv": [argv[0], "-m", "bash_kernel"]}))
    assert not named()
    place.write_text(json.dumps({"argv": argv, "env": {"PYTHONPATH": "/elsewhere"}}))
    assert not named()
    place.write_text(json.dumps({"argv": argv}))
    (message,) = named()
    assert message.endswith("which has no ipykernel")
    environment.add(make_wheel(tmp_path, "ipykernel", "7.0.0"))
    assert not named()
