"""Backends are found without their library, left out with a reason, and added by other packages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpuforge as gf
from gpuforge.cli.main import main
from gpuforge.errors import BackendUnavailable, UnknownName
from gpuforge.runtime import backends
from gpuforge.runtime.evaluation import opening
from gpuforge.runtime.placement.policy import NUMPY

from ..runtime.conftest import places

HEAVY = {"torch", "jax", "mlx", "dpnp", "dpctl", "cupy", "pyopencl"}


def test_listing_imports_no_library() -> None:
    code = (
        "import sys; from gpuforge.runtime.backends import list_backends; list_backends();"
        f"assert not {HEAVY} & set(sys.modules), {HEAVY} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_file_is_listed_with_its_library_or_the_reason() -> None:
    listed = {entry.name: entry for entry in backends.list_backends()}
    files = Path(backends.__file__).parent.glob("[a-z]*.py")
    assert set(listed) == {file.stem for file in files}
    assert listed["opencl"].library == "pyopencl"
    assert listed[NUMPY].found and not listed[NUMPY].reason
    assert all(entry.found or "not installed" in entry.reason for entry in listed.values())


def test_calibrate_lists_what_is_not_installed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUFORGE_BACKENDS", "numpy")
    real = backends.find_spec
    monkeypatch.setattr(backends, "find_spec", lambda n: None if n == "cupy" else real(n))
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    assert main(["calibrate", "--list", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [entry["name"] for entry in document["backends"]] == ["numpy"]
    assert "cupy: cupy is not installed" in document["left_out"]


def test_what_may_end_the_process_is_listed_as_computing_in_a_worker(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("mlx.core", reason="mlx is not installed")
    assert main(["calibrate", "--list"]) == 0
    assert "mlx:cpu:worker" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("raise RuntimeError('half installed')", "RuntimeError: half installed"),
        ("import ctypes; ctypes.CDLL('libnowhere.so.1')", "OSError: libnowhere.so.1: cannot open"),
        (
            "import nowhere_to_be_found",
            "ModuleNotFoundError: No module named 'nowhere_to_be_found'",
        ),
        ("raise SystemExit('no licence')", "SystemExit: no licence"),
        ("", "AttributeError: module 'cupy' has no attribute 'cuda'"),
    ],
)
def test_a_broken_library_is_listed_with_the_reason(
    content: str,
    reason: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "cupy").mkdir()
    (tmp_path / "cupy" / "__init__.py").write_text(content, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    monkeypatch.setattr(opening, "_tested", {})
    monkeypatch.setattr("gpuforge.runtime.session._default", None)
    monkeypatch.setenv("GPUFORGE_BACKENDS", "numpy,cupy")
    try:
        assert main(["calibrate", "--list"]) == 0
    finally:
        sys.modules.pop("cupy", None)
    written = capsys.readouterr()
    assert written.out.split()[0] == "numpy"
    assert f"not used: cupy: {reason}" in written.err


def double(x: Any) -> Any:
    return gf.namespace(x).exp(x) * 2


X = np.linspace(0, 1, 50)


class TestNullDevice:
    def test_calls_run_there_and_are_accounted(self, null_device: Any) -> None:
        _, device = null_device
        placed = gf.offload(backend="null")(double)
        for _ in range(4):
            np.testing.assert_array_equal(placed(X), double(X))
        assert places(placed) == {"null:gpu:0": 4}
        assert device.account.put_bytes >= 4 * X.nbytes
        assert device.account.got_bytes >= 4 * X.nbytes

    def test_what_it_refuses_stays_on_numpy_with_the_reason(self, null_device: Any) -> None:
        _, device = null_device
        device.account.refused["exp"] = "it was told to refuse exp"
        placed = gf.offload(backend="null")(double)
        for _ in range(3):
            np.testing.assert_array_equal(placed(X), double(X))
        assert places(placed) == {"null:gpu:0": 3}
        told = str(placed.explain(X))
        assert "NumPy computes exp on the host (it was told to refuse exp)" in told

    def test_memory_that_runs_out_later_is_released_and_settled_by_numpy(
        self, null_device: Any
    ) -> None:
        _, device = null_device
        placed = gf.offload(backend="null", fallback=True)(double)
        placed(X), placed(X)
        device.account.limit_bytes = 8
        np.testing.assert_array_equal(placed(X), double(X))
        assert device.account.releases == 1

    def test_a_gpu_is_left_out_where_only_the_cpu_may_be_used(
        self, null_device: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("GPUFORGE_CPU_ONLY", "1")
        with gf.session(history=False):
            placed = gf.offload(backend="null")(double)
            with pytest.raises(BackendUnavailable, match="cannot be used"):
                placed(X)

    def test_a_write_through_a_local_view_is_numpys(self, null_device: Any) -> None:
        def written(x: Any) -> Any:
            y = x * 2
            y[0] += 1
            y += 1
            return y

        placed = gf.offload(backend="null")(written)
        for _ in range(3):
            np.testing.assert_array_equal(placed(X), written(X))
        assert places(placed)["null:gpu:0"] == 3


def test_a_name_nobody_registered_is_an_error() -> None:
    with pytest.raises(UnknownName, match="no_such_library"):
        gf.offload(backend="no_such_library")(double)


@pytest.mark.parametrize("name", backends.names())
def test_what_is_known_of_a_module_is_what_it_says(name: str) -> None:
    module = backends.load(name)
    said = module.LIBRARY, getattr(module, "NAMED_ONLY", False)
    assert backends.about(name) == said
    assert said[0]


def test_one_file_more_is_one_backend_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written down of the others, so that they are not imported, is not needed of it."""
    (tmp_path / "later.py").write_text('LIBRARY = "json"\nNAMED_ONLY = True\n')
    (tmp_path / "__init__.py").write_text("")
    monkeypatch.setattr(backends, "__file__", str(tmp_path / "__init__.py"))
    monkeypatch.setattr(backends, "__path__", [str(tmp_path)])
    backends._own.cache_clear()
    try:
        one = next(one for one in backends.list_backends() if one.name == "later")
    finally:
        monkeypatch.undo()
        backends._own.cache_clear()
        sys.modules.pop(f"{backends.__name__}.later", None)
    assert (one.name, one.library, one.found, one.named_only) == ("later", "json", True, True)


def test_pinning_a_library_means_its_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    module = import_module("gpuforge.runtime.backends.torch")
    monkeypatch.setattr(module, "TorchBackend", lambda library, name: name)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert module.open_devices()[:3] == ["cuda:0", "cuda:1", "cpu"]


@pytest.mark.parametrize("chosen", ["", "XLA_PYTHON_CLIENT_MEM_FRACTION"])
def test_jax_takes_memory_as_needed(chosen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = import_module("gpuforge.runtime.backends.jax")
    for name in module._MEMORY_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    if chosen:
        monkeypatch.setenv(chosen, ".5")
    with module._memory_as_needed():
        assert os.environ.get("XLA_PYTHON_CLIENT_PREALLOCATE") == (None if chosen else "false")
    assert "XLA_PYTHON_CLIENT_PREALLOCATE" not in os.environ
