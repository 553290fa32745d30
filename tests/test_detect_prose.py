"""What people write of a machine counts less than what tools show, and talk of GPUs not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuforge.detect import detect_machine
from gpuforge.detect.text import machine_from_text
from gpuforge.detect.text.products import products_in
from gpuforge.facts import known
from gpuforge.probe import SnapshotProbe

TABLE = """\
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 535.54.03    Driver Version: 535.54.03    CUDA Version: 12.2     |
|   0  NVIDIA A10G         On   | 00000000:00:1E.0 Off |                    0 |
|  0%   25C    P8     9W / 300W |      0MiB / 22731MiB |      0%      Default |
+-----------------------------------------------------------------------------+
"""
LSPCI = "01:00.0 VGA compatible controller: NVIDIA Corporation GA102 [GeForce RTX 3090] (rev a1)\n"


@pytest.mark.parametrize(
    "text",
    [
        "Please support the RTX 4090 in the next release.",
        "Requires a card such as a GeForce RTX 3060 or better.",
        "Does this work on an RTX 3060?",
        "GPU: Nvidia/Intel/AMD",
        "GPU: none, CPU only",
        "GPU: 0\nepoch 1",
        "GPU memory: 20 GB\nGPU utilization: 35%",
        "OpenGL renderer string: llvmpipe (LLVM 15.0.7, 256 bits)",
        "CPU: AMD Ryzen 7 5700G with Radeon Graphics",
        "Graphics card #0 name: Parsec Virtual Display Adapter",
        "According to the benchmark on a 3090 it takes 2 s",
        "Kernel: gemm_a100_fp16 x 3090 iterations",
        "trained for 1080 steps with 2080 images",
        "Is the GPU a GTX 1060 or a Tesla C1060?",
        "nvenc only works on Windows, with the latest drivers.",
        "Powerful graphics cards such as the RTX 3090 load it.",
        "I have an i7 6700 and 8 GB RAM",
        "I trained for 2 x 1080 steps at 1920x1080",
        "It failed because it couldn't communicate with the NVIDIA driver.",
        "C:\\Program Files\\NVIDIA GPU Computing Toolkit\\CUDA",
        "I didn't install it, my laptop doesn't have Nvidia graphics cards.",
        "In case we have multiple NVIDIA GPUs an option is wanted.",
        "DeviceName: DISPLAY1, BPP: 32, 1920x1080",
        "My i7-8700 is fine, but the integrated graphics are disabled.",
        "i5-12400: does it run if I use the integrated GPU?",
    ],
)
def test_talk_of_gpus_shows_none(text: str) -> None:
    assert machine_from_text(text).status == "no_gpu"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("I have 3 GPUs: two 3090s and one 4090", ["3090", "3090", "4090"]),
        ("My GPU is a 4090.", ["4090"]),
        ("Windows.rtx3090, cuda13.0", ["rtx3090"]),
        ("It fails on my server with 2 A10 oom", ["A10", "A10"]),
        ("on the same workstation (2x4090)", ["4090", "4090"]),
        ("It crashes on a 4070 laptop (8GB VRAM)", ["4070"]),
        (
            "I tried a few GPU types, i.e. GTX-1080, GTX-980, and K40 GPUs",
            ["GTX-1080", "GTX-980", "K40"],
        ),
        ("Using Titan XPs, the fault is in both the new cards.", ["Titan XP", "Titan XP"]),
        ("It works well with my RTX 2080. It crashes with my RTX 3090.", ["RTX 2080", "RTX 3090"]),
        ("x2 RTX 3090 what FAIL", ["RTX 3090", "RTX 3090"]),
        ("I have a PC with an AMD iGPU and an RTX 3060M dGPU.", ["RTX 3060M", None]),
        ("I'm on ArchLinux w/ 1070 Max-Q", ["1070 Max-Q"]),
        ("System: Ryzen 7 1700X, 2x Vega 56, 56gb of ram", ["Vega 56", "Vega 56"]),
        ("It has both an Intel HD 6000 and an NVIDIA MX150", ["Intel HD 6000", "NVIDIA MX150"]),
        ("I have a radeon 295 x2", ["radeon 295 x2"]),
        ("I have RX 580 x 2", ["RX 580", "RX 580"]),
        ("Ryzen AI MAX+ (Strix Halo) - Radeon 8060S Graphics", ["Radeon 8060S Graphics"]),
        ("GPU: AMD TAHITI (DRM 2.50.0, LLVM 4.0.0)\n- R9 280", ["R9 280"]),
        ("# Slow on an RTX 4050\nI have an RTX 4050 Laptop GPU here.", ["RTX 4050 Laptop GPU"]),
        ("The old desktop features an Nvidia 9800GT", ["Nvidia 9800GT"]),
        ('I have 3 "RX580" here', ["RX580", "RX580", "RX580"]),
        ("My i7-9700 shows it on the integrated GPU, my RTX 3070 renders", ["RTX 3070", None]),
        ("Ryzen 5 5600 without an integrated GPU, my card is an RX 6600", ["RX 6600"]),
        ("CPU: Ryzen 7 8845HS w/ Radeon 780M\nGPU: AMD Radeon Graphics", ["AMD Radeon Graphics"]),
        (
            "* Device #1: Quadro RTX 5000, 7/16125 MB\n* Device #2: pthread-Intel Xeon, 9 MB",
            ["Quadro RTX 5000"],
        ),
        ("I have an RX 7900XT and a 7900XTX", ["RX 7900XT", "7900XTX"]),
        ("My rig: 2x - 5700xt, 1x - 5600xt", ["5700xt", "5700xt", "5600xt"]),
        ("My rig: 3090 x2", ["3090", "3090"]),
        ("У меня две карты RTX 3090", ["RTX 3090", "RTX 3090"]),
        ("Ich habe drei RTX 3090 im Server", ["RTX 3090", "RTX 3090", "RTX 3090"]),
        ("联想 4060笔记本", ["4060"]),
        ("It finds 2 GPUs, all A100. The card is not an H100.", ["A100", "A100"]),
        ("It used a GTX 970.\nI replaced the GTX 970 with my RX 6600 today.", ["RX 6600"]),
        ("GPU: RX 6600 (upgraded from a GTX 970)", ["RX 6600"]),
        ("GPU: [e.g. RTX 2080] RX 580", ["RX 580"]),
        ("OS: Arch\nGPU: AMD ATI Radeon RX 6700/6700 XT/6750 XT", ["AMD ATI Radeon RX 6700"]),
        ("| Card | MH/s | Price |\n|---|---|---|\n| RTX 3090 | 120 | $1500 |", []),
    ],
)
def test_people_name_what_they_have(text: str, names: list[str]) -> None:
    assert [known(one.name) for one in machine_from_text(text).devices] == names


@pytest.mark.parametrize(
    ("text", "mib"),
    [
        ("GPU: RTX 3080\nVRAM was at 9.5/10 GB", 10240),
        ("GPU: GTX 1060 with 6144 MB VRAM", 6144),
        ("GPU: Tesla K40c\nTotal GPU memory 12079136768 bytes.", 11519),
        ("GPU: RTX 3090\nEach layer takes VRAM, some 2 of 3 GB per batch", None),
        ("GPU: GTX 1650\n16384 MB RAM", None),
    ],
)
def test_memory_told_in_sentences_is_that_of_the_only_gpu(text: str, mib: int | None) -> None:
    found = known(machine_from_text(text).devices[0].memory_total_bytes)
    assert (found >> 20 if found else None) == mib


SLURM = """\
gpu/nvml: _get_system_gpu_list_nvml: 2 GPU system device(s) detected
GRES[gpu] Type:nvidia_a100-sxm4-40gb Count:1 Cores(64):0-15 UniqueId:{}
GRES[gpu] Type:nvidia_a100-sxm4-40gb Count:1 Cores(64):0-15 UniqueId:{}
"""
UUIDS = [f"GPU-{number}8b1d6aa-9bbf-4bd8-b3a8-6a8e7f2d0d24" for number in (1, 2)]
LISTED = "{}: {} (8151 MiB, 7573 MiB free)"
RTX, ARL = "NVIDIA GeForce RTX 5060", "Intel(R) Graphics (ARL)"
LLAMA = (("CUDA0", RTX), ("Vulkan0", ARL), ("Vulkan1", RTX))
SPLIT = "Chipset Model: {}\nVRAM (Total): {} MB\nVendor: NVIDIA (0x10de)\nDevice ID: 0x1401\n"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (SLURM.format(*UUIDS), ["nvidia a100-sxm4-40gb"] * 2),
        (SLURM.format("(null)", "(null)") * 2, ["nvidia a100-sxm4-40gb"] * 2),
        ("\n".join(LISTED.format(*one) for one in LLAMA), [RTX, ARL]),
        (
            f"```\n{SPLIT.format('NVIDIA Chip Model', 256)}```\n```\n"
            f"{SPLIT.format('MSI GeForce GTX 960', 2048)}```",
            ["MSI GeForce GTX 960"],
        ),
    ],
)
def test_a_gpu_that_two_lists_name_is_one(text: str, names: list[str]) -> None:
    assert [known(one.name) for one in machine_from_text(text).devices] == names


def test_memory_before_a_name_is_not_that_of_the_gpu_above() -> None:
    raphael = "06:00.0 VGA compatible controller: AMD [AMD/ATI] Raphael (rev c6)\n"
    text = f"{LSPCI}{raphael}name of display: :0\n    Dedicated video memory: 24564 MB\n"
    nvidia, software = (
        "vendor string: NVIDIA Corporation",
        "renderer string: llvmpipe (LLVM 15.0.7)",
    )
    for drawn, sizes in ((nvidia, [24564, None]), (software, [None, None])):
        devices = machine_from_text(f"{text}OpenGL {drawn}\n").devices
        found = [known(one.memory_total_bytes) for one in devices]
        assert [one >> 20 if one else None for one in found] == sizes


def test_what_is_written_adds_to_what_a_tool_shows() -> None:
    machine = machine_from_text(f"GPU: RTX 4090, 24 GB\nGPU: AMD Radeon 780M\n{TABLE}")
    assert [device.vendor for device in machine.devices] == ["nvidia", "amd"]
    assert known(machine.devices[0].name) == "NVIDIA A10G"
    assert known(machine.devices[0].memory_total_bytes) == 22731 * 2**20


def test_a_renderer_of_another_machine_is_no_gpu_of_this_one() -> None:
    machine = machine_from_text(f"{LSPCI}OpenGL renderer string: Mesa DRI Intel(R) HD Graphics 530")
    assert [device.vendor for device in machine.devices] == ["nvidia"]


def test_what_is_written_yields_to_what_was_recorded(tmp_path: Path) -> None:
    (tmp_path / "lspci.txt").write_text(LSPCI)
    (tmp_path / "notes.txt").write_text("GPU: AMD Radeon RX 6600\nGPU: GeForce RTX 3090 24GB\n")
    devices = detect_machine(SnapshotProbe(tmp_path)).devices
    assert [device.vendor for device in devices] == ["nvidia"]
    assert known(devices[0].memory_total_bytes) is None


@pytest.mark.parametrize(
    ("line", "name", "count", "gib"),
    [
        ("2x RTX 3090 24GB", "RTX 3090", 2, 24),
        ("two machines with 8 A100s each", "A100", 8, None),
        ("16GB AMD 7600XT", "AMD 7600XT", 1, 16),
        ("RTX3090ti(24G)", "RTX3090ti", 1, 24),
        ("GeForce RTX 3060 Laptop GPU, 32 GB RAM", "GeForce RTX 3060 Laptop GPU", 1, None),
        ("Tesla V100-PCIE-32GB | 103 / 32510 MB", "Tesla V100-PCIE-32GB", 1, None),
    ],
)
def test_names_stand_apart_from_number_and_memory(
    line: str, name: str, count: int, gib: int | None
) -> None:
    (product,) = products_in(line)
    total = product.total_bytes
    assert (product.name, product.count, total and total >> 30) == (name, count, gib)


def test_cuda_lines_of_a_rocm_build_show_amd() -> None:
    text = "found 1 ROCm devices:\n  Device 0: Radeon RX 7900 XTX, compute capability 11.0\n"
    (device,) = machine_from_text(text).devices
    assert (device.vendor, known(device.compute_capability)) == ("amd", None)


@pytest.mark.parametrize(
    ("text", "driver"),
    [
        ("I have an RTX 3080 with driver 535 on Ubuntu 22.04", "535"),
        ("A5000, nvidia-driver-550 installed", "550"),
        ("RTX 2070\n/var/lib/dkms/nvidia/470.57.02/build/make.log", "470.57.02"),
        ("severe stutter with the newest NVIDIA 555 driver", "555"),
        ("It needs NVIDIA driver 535 or newer. My RTX 2070 has none.", None),
    ],
)
def test_drivers_are_read_by_branch_package_and_folder(text: str, driver: str | None) -> None:
    (device,) = machine_from_text(text).devices
    found = known(device.driver)
    assert (found and known(found.version)) == driver


def test_examples_in_a_form_are_no_answers() -> None:
    form = "- **OS Platform and Distribution (e.g., Linux Ubuntu 16.04)**: Windows 10\n"
    machine = machine_from_text(f"{form}i7 6700HQ and GTX 1070 here, swapped from a GTX 960.")
    assert (known(machine.host.platform), known(machine.host.cpu_model)) == ("windows", "i7 6700HQ")
    assert [known(device.name) for device in machine.devices] == ["GTX 1070"]


def test_names_of_one_chip_are_one_card() -> None:
    """As lspci and lshw name what is sold under several names."""
    text = "GPU: Strix Halo [Radeon Graphics / Radeon 8050S Graphics / Radeon 8060S Graphics]"
    (device,) = machine_from_text(text).devices
    assert known(device.name) == "Strix Halo"


THREAD = """\
# Crash with the new backend

{}
GPU: Intel Arc A770
OS: Windows 11

{}
Mine works, on Ubuntu with an RTX 3090 and driver 550.54.

{}
The driver version is 32.0.101.8331.
"""


@pytest.mark.parametrize(
    ("opens", "answers", "again"),
    [
        ("ann opened on Jan 8, 2026", "bob commented on Jan 9, 2026", "ann commented yesterday"),
        (
            "ann · description · 2026-01-08",
            "bob · comment · 2026-01-09",
            "ann · comment · 2026-01-10",
        ),
        (
            "ann\nopened\non Jan 8, 2026",
            "bob\ncommented\non Jan 9, 2026",
            "ann\ncommented\non Jan 9",
        ),
        ("author:\tann\n--", "author:\tbob\n--", "author:\tann\n--"),
    ],
)
def test_a_thread_tells_of_its_openers_machine(opens: str, answers: str, again: str) -> None:
    machine = machine_from_text(THREAD.format(opens, answers, again))
    (device,) = machine.devices
    assert known(device.name) == "Intel Arc A770"
    assert known(known(device.driver).version) == "32.0.101.8331"
    assert known(machine.host.platform) == "windows"


def test_who_answers_counts_where_the_opener_tells_of_no_gpu() -> None:
    text = (
        "ann opened on Jan 8, 2026\nIt crashes.\nbob commented on Jan 9, 2026\nI have an RTX 3090."
    )
    (device,) = machine_from_text(text).devices
    assert known(device.name) == "RTX 3090"


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("Quadro K600. version of the driver is 377.48 (previous was 376.16)", "377.48"),
        (
            "My card is a GTX 770, Windows shows 21.21.13.7651 for the display driver",
            "21.21.13.7651",
        ),
        ("I have a Radeon 7850. I use the newest drivers for it (21.5.2)", "21.5.2"),
        ("My nvidia current drive version is : 385.89", "385.89"),
        ("I have a 3070. I downgraded nvidia driver 511.65 to 472.84", "472.84"),
        ("RX 6600\nDriver Version 25.10.25.01-250724a-417878C-AMD-Software", "25.10.25.01"),
        ("jetson orin nano, cuda 12.6, driver version 540.4.0", "540.4.0"),
        ("It crashes with AMD Driver 26.2.1 on Windows 11", "26.2.1"),
        ("GPU: RX 6600\nDriver: Mesa 24.1.3", None),
        ("GPU: GTX 1060\nYou need driver 385.41 or newer", None),
    ],
)
def test_drivers_are_told_by_how_their_makers_number_them(text: str, version: str | None) -> None:
    (device,) = machine_from_text(text).devices
    driver = known(device.driver)
    assert (known(driver.version) if driver else None) == version


def test_gpus_of_one_maker_are_told_apart_by_their_targets() -> None:
    text = "Tested on an RX 7900 XT (gfx1100) + Ryzen 7800X3D iGPU (gfx1036)"
    devices = machine_from_text(text).devices
    assert [known(one.architecture) for one in devices] == ["gfx1100", "gfx1036"]
    assert known(devices[1].integrated)


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("CPU: AMD Ryzen 5 3600 (6C/12T)", "AMD Ryzen 5 3600"),
        ("CPU/GPU: AMD Ryzen AI MAX+ - Radeon 8060S", "AMD Ryzen AI MAX+"),
        ("AMD A10-6790K and 12GB of RAM", "AMD A10-6790K"),
        ("12GB DDR3-1333, and a GTX 1060", None),
        ("It runs with Ryzen 2200G-2400G-3200G apus", None),
        ("device = 'Xeon E3-1200 v6/7th Gen Core Processor Host Bridge'", None),
    ],
)
def test_processors_are_told_from_what_looks_like_one(text: str, model: str | None) -> None:
    assert known(machine_from_text(text).host.cpu_model) == model


@pytest.mark.parametrize(
    ("text", "platform"),
    [
        ("- [ ] Windows\n- [x] Mac OS\n- [ ] Linux\nFine in a virtual Windows 10", "macos"),
        ("OS: macOS 13.0\nMaximum password length supported by kernel: 256", "macos"),
        ("OpenCL Platform #1: Apple\n* Device #2: Iris Pro, 384/1536 MB allocatable", "macos"),
        ("drmn0: <drmn> on vgapci0\nIt corresponds to Linux 5.0 DRM.", "freebsd"),
    ],
)
def test_systems_show_in_checked_boxes_and_in_what_they_print(text: str, platform: str) -> None:
    assert known(machine_from_text(text).host.platform) == platform


def test_a_browsers_account_of_its_adapter_is_read() -> None:
    text = (
        '"adapterDescription": "NVIDIA GeForce RTX 2060",\n"adapterVendorID": "0x10de",\n'
        '"adapterDeviceID": "0x1e89",\n"adapterRAM": 6144,'
    )
    (device,) = machine_from_text(text).devices
    assert known(device.pci_id) == "10de:1e89"
    assert known(device.memory_total_bytes) == 6144 << 20


def test_a_chip_of_apples_is_no_card_of_nvidias() -> None:
    (device,) = machine_from_text("OS: macOS\n### GPU Model\n\nm1\n").devices
    assert device.vendor == "apple"
