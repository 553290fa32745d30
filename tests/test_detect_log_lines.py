"""Lines that programs log of the GPUs they find, and listings whose clothing was changed."""

from __future__ import annotations

import pytest

from gpuforge.detect.text import machine_from_text
from gpuforge.detect.text.labels import told_lines
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


@pytest.mark.parametrize(
    ("text", "platform"),
    [
        ("gpu management search paths: [/usr/lib/wsl/lib/libcudart.so* /usr/lib/x/a.so*]", "linux"),
        (
            "me@my-iMac:~$ clinfo\n  Device Name  AMD TURKS (DRM 2.50.0 / 5.15.0-72-generic)",
            "linux",
        ),
        ("MacBook Pro 2012 on Omarchy\nNVRM: The NVIDIA GeForce GT 650M GPU is", "linux"),
        ("drmn0: GPU reset begin!\n[drm ERROR :amdgpu_job_timedout] ring gfx timeout", "freebsd"),
        ("Instance Extensions: count = 1\n\tVK_KHR_xcb_surface : extension revision 6", "linux"),
    ],
)
def test_the_system_is_that_whose_lines_are_shown(text: str, platform: str) -> None:
    assert known(machine_from_text(text).host.platform) == platform


@pytest.mark.parametrize(
    ("line", "cores"),
    [
        ("system info: n_threads = 8, n_threads_batch = 8, total_threads = 16", 16),
        ("system_info: n_threads = 8 (n_threads_batch = 8) / 32 | CUDA : ARCHS = 890", 32),
        (" CPUs: 64", 64),
        ("\tNumber of logical CPUs: 12", 12),
        ("Godot v4.3 - Vulkan - AMD Ryzen 7 2700X Eight-Core Processor (16 Threads)", 16),
    ],
)
def test_logical_processors_are_counted(line: str, cores: int) -> None:
    assert known(machine_from_text(line).host.cores) == cores


@pytest.mark.parametrize(
    ("line", "mib"),
    [
        ("11:30:36.607: Physical Memory: 16283MB Total, 11149MB Free", 16283),
        ("             Memory: 16384MB RAM", 16384),
        ("Total VRAM 24564 MB, total RAM 60985 MB", 60985),
        (" Total Memory: 376.5GiB", 385536),
        ("Total Physical Memory:     32,451 MB", 32451),
        ("   RealMemory=1031533 AllocMem=0 FreeMem=932840", 1031533),
        ("Memory: 4241MiB / 7894MiB", 7894),
        ("- RAM: 32 GB", 32768),
        ("GPU RAM: 8 GB", 0),
    ],
)
def test_the_memory_of_the_computer_is_told(line: str, mib: int) -> None:
    assert (known(machine_from_text(line).host.memory_total_bytes) or 0) >> 20 == mib


def test_a_source_file_in_a_log_is_no_label() -> None:
    machine = machine_from_text(
        "tensorflow/core/common_runtime/gpu/gpu_device.cc:1640] Found device 0 with\nproperties:\n"
        "name: GeForce RTX 2080 major: 7 minor: 5\npciBusID: 0000:01:00.0\n"
    )
    assert [known(one.name) for one in machine.devices] == ["GeForce RTX 2080"]


def test_ids_in_decimal_may_stand_behind_tabulators() -> None:
    machine = machine_from_text(
        "Graphics device: Mobile Intel(R) 4 Series Express Chipset Family\n"
        "VendorId:\t32902\nDeviceId:\t10818\n"
    )
    [card] = machine.devices
    assert known(card.name) == "Mobile Intel 4 Series Express Chipset Family"
    assert (known(card.pci_id), known(card.integrated)) == ("8086:2a42", True)


def test_speccy_joins_a_size_with_the_maker() -> None:
    machine = machine_from_text("GPU\n\t8192 MBATI Radeon RX 580 Series (C.P. Technology)\n")
    assert sizes(machine) == [("ATI Radeon RX 580 Series", 8192)]


def test_names_are_joined_as_people_write_them() -> None:
    machine = machine_from_text("### Graphic Card [Required]\n\nA770LE\n\nmy Ryzen 7950X 3D\n")
    assert [known(one.vendor) for one in machine.devices] == ["intel"]
    assert known(machine.host.cpu_model) == "Ryzen 7950X 3D"


def test_hearsay_is_read_from_the_two_ends_of_a_dense_text() -> None:
    dense = "\n".join(f"{number} {'word ' * 190}" for number in range(2000))
    read = told_lines(f"GPU: RTX 3060\n{dense}\nDriver: 535.54.03")
    assert (read[0], read[-1]) == ("GPU: RTX 3060", "Driver: 535.54.03")
    assert sum(map(len, read)) <= 360_000


def test_pytorch_with_cuda_runs_on_a_gpu_of_nvidia() -> None:
    report = (
        "CUDA used to build PyTorch: {0}\nROCM used to build PyTorch: {1}\n\n"
        "Is CUDA available: True"
    )
    [card] = machine_from_text(report.format("11.0", "N/A")).devices
    assert card.vendor == "nvidia"
    assert machine_from_text(report.format("N/A", "6.1")).devices == ()
