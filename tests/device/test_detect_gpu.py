"""Detection on a machine with a GPU agrees with what the driver's own tool says."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

import gpuforge
from gpuforge.detect import nvidia_smi
from gpuforge.facts import known

pytestmark = pytest.mark.gpu


@pytest.fixture
def told() -> nvidia_smi.Report:
    tool = shutil.which("nvidia-smi")
    if tool is None:
        pytest.skip("no nvidia-smi on this machine")
    return nvidia_smi.parse(
        subprocess.run([tool, "-q", "-x"], capture_output=True, text=True).stdout
    )


def test_library_and_tool_agree(told: nvidia_smi.Report) -> None:
    machine = gpuforge.detect(refresh=True)
    found = [device for device in machine.devices if device.vendor == "nvidia"]
    assert machine.status == "ok" and len(found) == len(told.devices)
    for device, facts in zip(found, told.devices, strict=True):
        assert device.origins["name"] == "nvml"
        for name in ("name", "uuid", "pci_address", "pci_id"):
            assert known(getattr(device, name)) == facts[name]
        assert known(device.memory_total_bytes) is not None


def test_hidden_gpu_is_not_offered(
    told: nvidia_smi.Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    machine = gpuforge.detect()
    assert all(device.vendor != "nvidia" for device in machine.devices)
    assert len(machine.hidden) == len(told.devices)


def test_detection_creates_no_cuda_context(told: nvidia_smi.Report) -> None:
    """NVML loads the driver's library for its version; a context would open the memory device."""
    code = (
        "import glob, os, gpuforge; gpuforge.detect(refresh=True);"
        "opened = [os.path.realpath(one) for one in glob.glob('/proc/self/fd/*')];"
        "assert '/dev/nvidia-uvm' not in opened, opened"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
