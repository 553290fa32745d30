"""What goes wrong on real machines costs at most its time limit and is a failure in the result."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
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
from gpuforge.detect import detect_machine, stored
from gpuforge.detect.nvml import KINDS
from gpuforge.facts import Absent, Driver, Machine, Reading, Toolkit, known
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


# NVML's functions as its C header declares them; the environment says how they fail.
NVML_IN_C = r"""
#include <stdlib.h>
#include <string.h>
typedef struct { char legacy[16]; unsigned domain, bus, slot, id, sub; char place[32]; } Pci;
typedef struct { unsigned long long total, free, used; } Memory;
static int number(const char *name) { const char *s = getenv(name); return s ? atoi(s) : 0; }
int nvmlInitWithFlags(unsigned flags) {
    if (getenv("NVML_DIES")) *(volatile int *)0 = 1;
    return number("NVML_INIT");
}
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int code) { return "words of the library"; }
int nvmlSystemGetDriverVersion(char *text, unsigned size) { strcpy(text, "590.48.01"); return 0; }
int nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = 13010; return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = number("NVML_COUNT"); return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
    *handle = (void *)(size_t)(index + 1);
    return index + 1 == (unsigned)number("NVML_BAD") ? number("NVML_BAD_CODE") : 0;
}
int nvmlDeviceGetName(void *device, char *text, unsigned size) {
    if ((size_t)device > 100) strcpy(text, "NVIDIA Test MIG 1g.10gb");
    else strcpy(text, number("NVML_GARBAGE") ? "\xff\xfe\xfd" : "NVIDIA Test");
    return number("NVML_ASK");
}
int nvmlDeviceGetUUID(void *device, char *text, unsigned size) {
    strcpy(text, "GPU-12345678-1234-1234-1234-123456789abc"); return number("NVML_ASK");
}
int nvmlDeviceGetMemoryInfo(void *device, Memory *memory) {
    memory->total = 8ull << 30; memory->free = 7ull << 30; return number("NVML_ASK");
}
int nvmlDeviceGetPciInfo_v3(void *device, Pci *pci) {
    strcpy(pci->place, "00000001:01:00.0"); pci->place[7] = '0' + (char)(size_t)device;
    pci->id = 0x220410DE; return number("NVML_ASK");
}
int nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor) {
    *major = 8; *minor = 6; return number("NVML_ASK");
}
int nvmlDeviceGetVirtualizationMode(void *device, unsigned *mode) {
    *mode = number("NVML_VIRTUAL"); return number("NVML_ASK");
}
int nvmlDeviceGetMigMode(void *device, unsigned *now, unsigned *next) {
    *now = *next = number("NVML_MIG") > 0; return number("NVML_ASK");
}
int nvmlDeviceGetMaxMigDeviceCount(void *device, unsigned *count) { *count = 7; return 0; }
int nvmlDeviceGetMigDeviceHandleByIndex(void *device, unsigned index, void **part) {
    *part = (void *)(size_t)(101 + index); return index < (unsigned)number("NVML_MIG") ? 0 : 6;
}
"""
LOAD = (
    "import ctypes, os\n"
    "from gpuforge.facts import Absent\n"
    "from gpuforge.probe import LiveProbe\n"
    "def load(self, name):\n"
    "    mine = name == 'libnvidia-ml.so.1'\n"
    "    return ctypes.CDLL(os.environ['NVML_FILE']) if mine else Absent('no such library')\n"
    "LiveProbe.load_library = load\n"
)
DETECT = LOAD + (
    "import gpuforge, sys\n"
    "from gpuforge.detect import stored\n"
    "print(stored.dumps(gpuforge.detect(refresh=True)))\n"
)


@pytest.fixture(scope="session")
def nvml_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a shared library with NVML's functions, compiled here."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("no C compiler to build a stand-in for NVML with")
    folder = tmp_path_factory.mktemp("nvml")
    source = folder / "nvml.c"
    source.write_text(NVML_IN_C)
    target = folder / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-w", "-o", target, source], check=True)
    return target


def with_nvml(file: Path, **variables: object) -> Machine:
    """Detect in a new process whose NVML is `file`."""
    environ = {**os.environ, "NVML_FILE": str(file), **{k: str(v) for k, v in variables.items()}}
    done = subprocess.run(
        [sys.executable, "-c", DETECT], env=environ, capture_output=True, text=True, check=True
    )
    machine = stored.loads(done.stdout.strip())
    assert isinstance(machine, Machine), done
    return machine


@pytest.mark.parametrize("code", [*range(1, 31), 999])
def test_nvml_that_does_not_start_is_a_failure_of_its_kind(nvml_file: Path, code: int) -> None:
    machine = with_nvml(nvml_file, NVML_INIT=code)
    (failure,) = machine.failures
    assert failure.kind == KINDS.get(code, "nvml_unknown_error")
    assert failure.message.startswith("NVML: ") and len(failure.message) > len("NVML: ")
    assert machine.status == "driver_error" and not machine.devices


@pytest.mark.parametrize("code", [3, 4, 13, 20, 999])
def test_nvml_that_answers_no_question_invents_nothing(nvml_file: Path, code: int) -> None:
    (device,) = with_nvml(nvml_file, NVML_COUNT=1, NVML_ASK=code).devices
    told = ("name", "uuid", "pci_address", "memory_total_bytes", "compute_capability", "partitions")
    assert [known(getattr(device, field)) for field in told] == [None] * len(told)


def test_nvml_tells_every_fact(nvml_file: Path) -> None:
    machine = with_nvml(nvml_file, NVML_COUNT=2)
    assert machine.status == "ok" and not machine.failures
    assert [known(d.pci_address) for d in machine.devices] == ["0001:01:00.0", "0002:01:00.0"]
    device = machine.devices[0]
    assert known(device.name) == "NVIDIA Test" and known(device.pci_id) == "10de:2204"
    assert known(device.memory_total_bytes) == 8 * 2**30
    assert known(device.memory_free_bytes) == 7 * 2**30
    assert known(device.compute_capability) == "8.6" and known(device.partitions) == ()
    assert known(device.driver) == Driver("nvidia", "590.48.01")
    assert device.runtimes == (Toolkit("cuda", "13.1"),)
    assert set(device.origins.values()) <= {"nvml", "table by PCI id or name"}


def test_nvml_shows_mig_instances_and_virtual_gpus(nvml_file: Path) -> None:
    (device,) = with_nvml(nvml_file, NVML_COUNT=1, NVML_MIG=3, NVML_VIRTUAL=2).devices
    assert known(device.partitions) == ("1g.10gb",) * 3
    assert known(device.virtual) is True


def test_nvml_name_that_is_no_text_is_no_name(nvml_file: Path) -> None:
    (device,) = with_nvml(nvml_file, NVML_COUNT=1, NVML_GARBAGE=1).devices
    assert known(device.name) is None and known(device.pci_id) == "10de:2204"


@pytest.mark.parametrize(("code", "kind"), [(15, "gpu_lost"), (999, "nvml_unknown_error")])
def test_nvml_with_one_bad_gpu_tells_of_the_others(nvml_file: Path, code: int, kind: str) -> None:
    machine = with_nvml(nvml_file, NVML_COUNT=3, NVML_BAD=2, NVML_BAD_CODE=code)
    assert [known(d.pci_address) for d in machine.devices] == ["0001:01:00.0", "0003:01:00.0"]
    assert kinds(machine) == [kind] and [d.index for d in machine.devices] == [0, 2]
    assert machine.status == ("driver_error" if kind == "gpu_lost" else "ok")


def test_nvml_without_gpus_says_so(nvml_file: Path) -> None:
    assert kinds(with_nvml(nvml_file, NVML_COUNT=0)) == ["no_devices"]


def test_nvml_without_its_binding_leaves_the_other_routes(
    nvml_file: Path, tmp_path: Path, tool: Callable[..., Path]
) -> None:
    tool(f"cat <<'END'\n{H100}END")
    (tmp_path / "pynvml.py").write_text("raise ImportError('no nvidia-ml-py here')\n")
    machine = with_nvml(nvml_file, NVML_COUNT=1, PYTHONPATH=tmp_path)
    assert known(machine.devices[0].name) == "NVIDIA H100 80GB HBM3" and not machine.failures
    assert any("no nvidia-ml-py here" in note for note in machine.notes)


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


def crumbs(own_home: Path) -> list[Path]:
    return list((own_home / "cache" / "gpuforge" / "detect").glob("in-native-code.*"))


def test_library_that_dies_runs_in_a_child_the_next_time(
    nvml_file: Path, own_home: Path, tmp_path: Path
) -> None:
    # The child loads the same library, so what replaces the probe's door must reach it too.
    (tmp_path / "sitecustomize.py").write_text(LOAD)
    dying = {"NVML_COUNT": 1, "PYTHONPATH": tmp_path}
    with pytest.raises(subprocess.CalledProcessError) as died:
        with_nvml(nvml_file, NVML_DIES=1, **dying)
    assert died.value.returncode == -signal.SIGSEGV and len(crumbs(own_home)) == 1

    machine = with_nvml(nvml_file, NVML_DIES=1, **dying)
    assert kinds(machine) == ["library_crashed"] and "signal 11" in machine.failures[0].message
    assert len(crumbs(own_home)) == 1, "what died again stays outside"

    machine = with_nvml(nvml_file, **dying)
    assert known(machine.devices[0].name) == "NVIDIA Test"
    assert any("child process" in note for note in machine.notes)
    assert not crumbs(own_home), "what came back is trusted again"


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
