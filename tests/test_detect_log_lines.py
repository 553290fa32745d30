"""Lines that programs log of the GPUs they find, and listings whose clothing was changed."""

from __future__ import annotations

import pytest

from gpuforge.detect.text import machine_from_text
from gpuforge.facts import Machine, known

UUID = "GPU-11111111-2222-3333-4444-555555555555"
CARD = "01:00.0 VGA compatible controller: NVIDIA Corporation GP107 [GeForce GTX 1050 Ti] (rev a1)"


def sizes(machine: Machine) -> list[tuple[str | None, int]]:
    return [
        (known(one.name), (known(one.memory_total_bytes) or 0) >> 20) for one in machine.devices
    ]


@pytest.mark.parametrize(
    ("text", "devices"),
    [
        (
            "LogD3D12RHI: Found D3D12 adapter 0: NVIDIA GeForce RTX 3070 (VendorId: 10de, "
            "DeviceId: 2484, SubSysId: 1, Revision: 00a1)\n"
            "LogD3D12RHI:   Adapter has 8014MB of dedicated video memory",
            [("NVIDIA GeForce RTX 3070", 8014)],
        ),
        (
            "binding to CUDA device 0 on node1: 'Tesla V100-SXM2-16GB'  Mem: 16160MB  Rev: 7.0",
            [("Tesla V100-SXM2-16GB", 16160)],
        ),
        (
            " 0 01:00.0 Gpu  NVIDIA GeForce GTX 1060 6GB  Yes  6.1  5.94 GB",
            [("NVIDIA GeForce GTX 1060 6GB", 6082)],
        ),
        (
            "INFO Torch detected GPU: NVIDIA GeForce RTX 3060 VRAM 12288 Arch (8, 6) Cores 28",
            [("NVIDIA GeForce RTX 3060", 12288)],
        ),
        (
            "torch-2.0.1+cu117 CUDA:0 (NVIDIA A30, 24060MiB)\n"
            "                  CUDA:1 (NVIDIA A30, 24060MiB)",
            [("NVIDIA A30", 24060)] * 2,
        ),
        ("GPU0 gfx1031 12GB\nGPU1 gfx1010 8GB", [(None, 12288), (None, 8192)]),
        (
            "0, NVIDIA GeForce RTX 3090, 535.54.03, 24576 MiB\n"
            "1, NVIDIA GeForce RTX 3090, 535.54.03, 24576 MiB",
            [("NVIDIA GeForce RTX 3090", 24576)] * 2,
        ),
        (f"host1 out: GPU 0: Tesla V100-16GB (UUID: {UUID})", [("Tesla V100-16GB", 16384)]),
        (f"[1,0]<stdout>:GPU 0: Tesla V100-16GB (UUID: {UUID})", [("Tesla V100-16GB", 16384)]),
        (f"lspci | grep VGA {CARD}", [("GP107 [GeForce GTX 1050 Ti]", 0)]),
        (
            f"{CARD} Subsystem: ASUS Device 8613 Kernel driver in use: nvidia",
            [("GP107 [GeForce GTX 1050 Ti]", 0)],
        ),
    ],
)
def test_gpus_of_a_log_have_names_and_memory(
    text: str, devices: list[tuple[str | None, int]]
) -> None:
    machine = machine_from_text(text)
    assert machine.status == "ok"
    assert sizes(machine) == devices


@pytest.mark.parametrize("bus", ["0x17", "0000:17:00"])
def test_nccls_tests_show_addresses(bus: str) -> None:
    line = f"#  Rank  0 Group  0 Pid 12 on node1 device  0 [{bus}] NVIDIA A100-SXM4-80GB"
    machine = machine_from_text(line)
    assert sizes(machine) == [("NVIDIA A100-SXM4-80GB", 81920)]
    assert known(machine.devices[0].pci_address) == "0000:17:00.0"


def test_boincs_line_shows_driver_runtime_and_capability() -> None:
    machine = machine_from_text(
        "CUDA: NVIDIA GPU 0: NVIDIA GeForce GTX 1080 (driver version 560.94, CUDA version 12.6, "
        "compute capability 6.1, 8192MB, 8192MB available, 8873 GFLOPS peak)"
    )
    assert sizes(machine) == [("NVIDIA GeForce GTX 1080", 8192)]
    [card] = machine.devices
    driver = known(card.driver)
    assert driver is not None and known(driver.version) == "560.94"
    assert [known(toolkit.version) for toolkit in card.runtimes] == ["12.6"]
    assert known(card.compute_capability) == "6.1"


def test_a_driver_that_was_tried_is_not_that_of_a_card_on_nouveau() -> None:
    machine = machine_from_text(
        f"{CARD}\n\tKernel driver in use: nouveau\nI tried the driver 470.57.02 as well"
    )
    driver = known(machine.devices[0].driver)
    assert driver is not None and driver.name == "nouveau" and known(driver.version) is None


def test_the_driver_line_of_clpeak_is_no_failure_of_nvidia_smi() -> None:
    machine = machine_from_text(
        "Platform: NVIDIA CUDA\n  Device: Tesla T4\n    Driver version  : 440.33.01 (Linux x64)\n"
    )
    assert machine.status == "ok"
