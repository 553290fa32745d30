"""What goes wrong on real machines costs at most its time limit and is a failure in the result."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import gpuforge
from gpuforge.detect import detect_machine, nvml
from gpuforge.detect.nvml import KINDS
from gpuforge.facts import Absent, Machine, Reading, known
from gpuforge.probe import LiveProbe
from gpuforge.settings import Settings

H100 = (
    "Driver Version: 590.48.01   CUDA Version: 13.1\n"
    "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-12345678-1234-1234-1234-123456789abc)\n"
)
posix = pytest.mark.skipif(sys.platform == "win32", reason="the tools are shell scripts")


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Put a vendor tool of one's own first on the search path."""

    def make(body: str, name: str = "nvidia-smi", mode: int = 0o755) -> Path:
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(mode)
        monkeypatch.setenv("PATH", f"{path.parent}:/usr/bin:/bin")
        return path

    return make


def detected(vendor_seconds: float = 60, **settings: Any) -> Machine:
    """Detect with a time limit that a busy machine does not reach, unless it is what is tested."""
    chosen = replace(Settings(), detect_cache=False, vendor_seconds=vendor_seconds, **settings)
    return gpuforge.detect(settings=chosen)


def kinds(machine: Machine) -> list[str]:
    return [failure.kind for failure in machine.failures if failure.vendor == "nvidia"]


@posix
def test_tool_that_sleeps_costs_its_limit_and_names_itself(tool: Callable[..., Path]) -> None:
    tool("sleep 60")
    started = time.monotonic()
    machine = detected(vendor_seconds=0.5)
    assert time.monotonic() - started < 30  # far from the minute, with room for a busy machine
    assert kinds(machine) == ["timeout"]
    assert "nvidia-smi" in machine.failures[0].message
    assert machine.status == "driver_error"


@posix
def test_tool_that_prints_garbage_invents_nothing(tool: Callable[..., Path]) -> None:
    tool("head -c 20000 /dev/urandom")
    machine = detected()
    assert not machine.devices


@posix
def test_tool_that_prints_a_gigabyte_is_cut_and_ended(tool: Callable[..., Path]) -> None:
    tool("yes 'GPU line without end' | head -c 1000000000")
    machine = detected(vendor_seconds=20)
    assert not machine.devices


@posix
def test_tool_that_prints_an_error_and_exits_zero_is_a_failure(tool: Callable[..., Path]) -> None:
    tool("echo 'Failed to initialize NVML: Driver/library version mismatch'")
    machine = detected()
    assert machine.status == "driver_error"
    assert machine.error and machine.error.kind == "version_mismatch"


@posix
def test_tool_that_fails_without_words_is_a_failure(tool: Callable[..., Path]) -> None:
    tool("exit 7")
    assert kinds(detected()) == ["tool_failed"]


@posix
def test_tool_that_is_no_program_is_a_failure(tool: Callable[..., Path]) -> None:
    path = tool("", mode=0o755)
    path.write_bytes(b"\x7fELF\x00\x00nonsense")
    assert kinds(detected()) == ["not_runnable"]


@posix
def test_tool_that_may_not_be_run_is_not_there(tool: Callable[..., Path]) -> None:
    tool("echo", mode=0o644)
    assert kinds(detected()) == []


@posix
def test_tool_that_needs_a_permission_says_so(tool: Callable[..., Path]) -> None:
    tool("echo 'Unable to open /dev/kfd read-write: Permission denied'; exit 1", name="rocminfo")
    machine = detected()
    assert [(f.vendor, f.kind) for f in machine.failures] == [("amd", "kfd_permission")]


@posix
def test_tool_that_works_is_believed(tool: Callable[..., Path]) -> None:
    tool(f"cat <<'END'\n{H100}END")
    machine = detected()
    assert machine.status == "ok"
    assert known(machine.devices[0].name) == "NVIDIA H100 80GB HBM3"
    assert machine.devices[0].origins["name"].startswith("nvidia-smi")


@posix
def test_tool_whose_child_holds_the_pipe_does_not_hang(tool: Callable[..., Path]) -> None:
    tool("sleep 60 & echo 'No devices were found'")
    assert kinds(detected(vendor_seconds=0.5)) == ["timeout"]


class FakeNvml:
    """A library with NVIDIA's functions, as ctypes would hand it out."""

    def __init__(self, *, init: int = 0, count: int = 1, lost: tuple[int, ...] = ()) -> None:
        self.init, self.count, self.lost = init, count, lost
        self.open = 0

    def nvmlErrorString(self, code: int) -> bytes:
        return f"error number {code}".encode()

    nvmlErrorString.restype = None  # type: ignore[attr-defined]

    def nvmlInit_v2(self) -> int:
        self.open += self.init == 0
        return self.init

    def nvmlShutdown(self) -> int:
        self.open -= 1
        return 0

    def nvmlDeviceGetCount_v2(self, out: Any) -> int:
        out._obj.value = self.count
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, index: int, out: Any) -> int:
        if index in self.lost:
            return 15
        out._obj.value = index + 1
        return 0

    def nvmlDeviceGetName(self, handle: Any, buffer: Any, size: int) -> int:
        buffer.value = b"NVIDIA Test"
        return 0

    def nvmlDeviceGetMemoryInfo(self, handle: Any, out: Any) -> int:
        out._obj.total, out._obj.free = 8 * 2**30, 7 * 2**30
        return 0

    def nvmlDeviceGetPciInfo_v3(self, handle: Any, out: Any) -> int:
        out._obj.bus_id = f"0000000{handle.value}:01:00.0".encode()
        out._obj.pci_device_id = 0x220410DE
        return 0

    def nvmlDeviceGetCudaComputeCapability(self, handle: Any, major: Any, minor: Any) -> int:
        major._obj.value, minor._obj.value = 8, 6
        return 0

    def nvmlSystemGetCudaDriverVersion_v2(self, out: Any) -> int:
        out._obj.value = 12040
        return 0


def error_string(library: FakeNvml) -> Any:
    """Bound methods take no attributes, so ctypes' ``restype`` needs a plain function."""

    def describe(code: int) -> bytes:
        return f"error number {code}".encode()

    library.nvmlErrorString = describe  # type: ignore[method-assign]
    return library


@pytest.mark.parametrize("code", [*range(1, 30), 999])
def test_nvml_that_does_not_start_is_a_failure_of_its_kind(code: int) -> None:
    library = error_string(FakeNvml(init=code))
    report = nvml.read(library)
    assert report.error is not None
    assert report.error[0] == KINDS.get(code, "nvml_unknown_error")
    assert f"error number {code}" in report.error[1]
    assert not report.devices and library.open == 0


def test_nvml_tells_every_fact_and_is_shut_down() -> None:
    library = error_string(FakeNvml(count=2))
    report = nvml.read(library)
    assert library.open == 0
    assert report.cuda == "12.4"
    assert [device["pci_address"] for device in report.devices] == ["0001:01:00.0", "0002:01:00.0"]
    assert report.devices[0]["pci_id"] == "10de:2204"
    assert report.devices[0]["memory_total_bytes"] == 8 * 2**30
    assert report.devices[0]["compute_capability"] == "8.6"


def test_nvml_with_one_lost_gpu_tells_of_the_others() -> None:
    report = nvml.read(error_string(FakeNvml(count=3, lost=(1,))))
    assert len(report.devices) == 2
    assert report.error and report.error[0] == "gpu_lost"


def test_nvml_without_gpus_says_so() -> None:
    report = nvml.read(error_string(FakeNvml(count=0)))
    assert report.error and report.error[0] == "no_devices"


class WithLibrary(LiveProbe):
    """This machine, with a library of one's own."""

    def __init__(self, load: Callable[[str], Any]) -> None:
        self._load = load

    def load_library(self, name: str) -> Reading[ctypes.CDLL]:
        found: Reading[ctypes.CDLL] = self._load(name)
        return found


def test_library_that_hangs_costs_its_limit() -> None:
    release = threading.Event()

    def hang(name: str) -> Any:
        release.wait(60)
        return Absent("too late")

    try:
        machine = detect_machine(WithLibrary(hang), vendor_seconds=0.3)
        assert "timeout" in kinds(machine)
    finally:
        release.set()


def test_detector_that_raises_is_a_failure_of_that_vendor() -> None:
    def explode(name: str) -> Any:
        raise RuntimeError("boom")

    machine = detect_machine(WithLibrary(explode))
    assert kinds(machine) == ["detector_failed"]
    assert "boom" in machine.failures[0].message


@posix
def test_library_that_dies_runs_in_a_child_the_next_time(own_home: Path) -> None:
    code = (
        "import ctypes, sys, gpuforge\n"
        "from gpuforge.probe import LiveProbe\n"
        "LiveProbe.load_library = lambda self, name: ctypes.string_at(0)\n"
        "gpuforge.detect()\n"
    )
    first = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert first.returncode < 0, first
    (crumb,) = (own_home / "cache" / "gpuforge" / "detect").glob("in-native-code.*")
    machine = gpuforge.detect()
    assert machine.status == "no_gpu"
    assert any("child process" in note for note in machine.notes)
    assert not crumb.exists()


@posix
def test_library_that_dies_again_is_a_failure_and_stays_in_the_child(
    own_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = own_home / "cache" / "gpuforge" / "detect"
    folder.mkdir(parents=True)
    from gpuforge.detect import crash

    crumb = folder / f"{crash.PREFIX}.{crash._node()}.nvidia.{2**22 + 1}"
    crumb.touch()
    (tmp_path / "sitecustomize.py").write_text(
        "import ctypes\n"
        "from gpuforge.probe import LiveProbe\n"
        "LiveProbe.load_library = lambda self, name: ctypes.string_at(0)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    machine = gpuforge.detect()
    assert kinds(machine) == ["library_crashed"]
    assert crumb.exists()


@posix
def test_fifty_processes_on_one_cache_agree(own_home: Path) -> None:
    code = "import gpuforge; m = gpuforge.detect(); print(m.status, len(m.devices), m.notes)"
    running = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        for _ in range(50)
    ]
    said = {process.communicate(timeout=120)[0] for process in running}
    assert said == {"no_gpu 0 ()\n"} or len(said) == 1
    assert all(process.returncode == 0 for process in running)
    folder = own_home / "cache" / "gpuforge" / "detect"
    assert [path.suffix for path in folder.iterdir()] == [".json"]
