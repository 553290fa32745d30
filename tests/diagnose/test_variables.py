"""The table of what variables must hold: what is right is not named, what is wrong is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpuforge.diagnose.finding import Finding
from gpuforge.diagnose.run import run_checks

from .environments import Environment, make_wheel

RIGHT = {
    "OMP_NUM_THREADS": "4,2",
    "PYTHONHASHSEED": "0",
    "PYTHONIOENCODING": "utf-8:replace",
    "PYTHONPATH": "/usr:/tmp",
    "JAX_PLATFORMS": "cpu",
    "KERAS_BACKEND": "torch",
    "MPLBACKEND": "QtAgg",
    "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True,max_split_size_mb:128",
    "PYTORCH_ALLOC_CONF": "roundup_power2_divisions:[256:1,>:8],expandable_segments:True",
    "HTTPS_PROXY": "http://me@proxy:3128",
    "https_proxy": "me:secret@proxy:3128",
    "SSL_CERT_DIR": "/not/there:/usr",
    "HF_HOME": "/tmp/not/there/yet",
    "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
}
WRONG = {
    "PYTHONIOENCODING": "utf8mb4",
    "PYTHONPATH": "~/project",
    "JAX_PLATFORMS": "cuda,cpu",
    "KERAS_BACKEND": "theano",
    "MPLBACKEND": "Qt4Agg",
    "PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb=128",
    "HTTPS_PROXY": "socks://127.0.0.1:1080",
    "TORCH_HOME": "/proc/torch",
    "CXX": "/opt/gone/g++",
}
PACKAGES = ("keras", "jax", "torch", "httpx", "matplotlib", "pyqt6")


def found(environment: Environment) -> tuple[Finding, ...]:
    for name in PACKAGES:
        environment.add(make_wheel(environment.prefix.parent, name, "3.1"))
    return run_checks("environment_variables").having("error", "warning", "unknown")


@pytest.fixture(autouse=True)
def no_other_variables(environment: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in {*RIGHT, *WRONG, *(n for n in os.environ if n.lower().endswith("_proxy"))}:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("KERAS_BACKEND", "jax")


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_value_is_not_named(
    name: str, environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, RIGHT[name])
    assert found(environment) == ()


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_value_is_named(
    name: str, environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, WRONG[name])
    (finding,) = found(environment)
    assert name in finding.message


def test_a_flag_of_another_version_is_named(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"jaxlib/lib.so": "xla_dump_to\0"}
    environment.add(make_wheel(environment.prefix.parent, "jaxlib", "3.1", files=files))
    monkeypatch.setenv("XLA_FLAGS", "--xla_dump_to=/tmp --xla_gone=1")
    (finding,) = found(environment)
    assert "sets xla_gone, a flag that jaxlib rejects" in finding.message


def test_a_folder_that_is_mounted_noexec_is_named(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Mounted:
        f_flag = os.ST_NOEXEC

    monkeypatch.setattr(os, "statvfs", lambda path: Mounted)
    (finding,) = run_checks("python_environment").having("error")
    assert "noexec" in finding.message


def test_generated_code_that_is_optional_is_not_named(environment: Environment) -> None:
    old = {"mine/__init__.py": "", "mine/a_pb2.py": "DESCRIPTOR = _descriptor.FileDescriptor(1)"}
    folder: Path = environment.prefix.parent
    environment.add(make_wheel(folder, "protobuf", "7.36.2"))
    environment.add(make_wheel(folder, "mine", "1", ("protobuf; extra == 'sentencepiece'",), old))
    assert run_checks("package_versions").having("error", "warning") == ()


def test_a_backend_of_keras_that_its_own_file_names_is_not_missed(
    environment: Environment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KERAS_BACKEND")
    (finding,) = found(environment)
    assert "KERAS_BACKEND=tensorflow" in finding.message
    (tmp_path / ".keras").mkdir()
    (tmp_path / ".keras" / "keras.json").write_text('{"backend": "jax"}')
    assert found(environment) == ()


def test_one_script_of_another_python_is_no_moved_environment(environment: Environment) -> None:
    script = environment.prefix / "bin" / "old"
    script.write_text("#!/gone/bin/python3\n")
    script.chmod(0o755)
    (finding,) = run_checks("python_environment").having("error", "warning")
    assert finding.state == "warning"
    assert "/gone/bin/python3" in finding.message
