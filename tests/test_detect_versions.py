"""Versions, systems and GPUs in the wordings of issue reports; short variants, none a report."""

from __future__ import annotations

import pytest

from gpuforge.detect.text import machine_from_text
from gpuforge.facts import Machine, known

LSPCI = "01:00.0 VGA compatible controller: NVIDIA Corporation GA102 [GeForce RTX 3090] (rev a1)\n"


def told(machine: Machine) -> dict[str, str | None]:
    return {tool.name: known(tool.version) for tool in machine.toolkits}


def names(text: str) -> list[str | None]:
    return [known(device.name) for device in machine_from_text(text).devices]


@pytest.mark.parametrize(
    ("text", "tool", "version"),
    [
        ("CUDA version: 12.1", "cuda toolkit", "12.1"),
        ("- **CUDA/cuDNN version**: 11.8 / 8.6", "cuda toolkit", "11.8"),
        ("| CUDA | 11.7 |\n| Python | 3.10.6 |", "cuda toolkit", "11.7"),
        ("| CUDA | 11.7 |\n| Python | 3.10.6 |", "python", "3.10.6"),
        ("nvcc: NVIDIA (R)\nCuda compilation tools, release 11.5, V11.5.119", "cuda toolkit", None),
        ("I am using CUDA 12.4 on this machine", "cuda toolkit", "12.4"),
        ("cuda capability 6.1, CUDA toolkit 10.2", "cuda toolkit", "10.2"),
        ("ROCm version: 6.2.1", "rocm", "6.2.1"),
        ("I have the rocm libs v 6.4.0 installed", "rocm", "6.4.0"),
        ("CUDA: v. 12.2", "cuda toolkit", "12.2"),
        ("# It takes CUDA 11.8 here\n- CUDA 12.1 via conda", "cuda toolkit", "12.1"),
        ("/env/lib/python3.10/site-packages/x.py", "python", "3.10"),
        ("python v3.10, cuda toolkit v11.8, PyTorch v2.4.1", "torch", "2.4.1"),
        ("After ROCm 5.7 was installed the GPU hangs", "rocm", "5.7"),
        ("PyTorch version: 2.1.0+cu118", "torch", "2.1.0+cu118"),
        ("[('torch', '1.13.1'), ('numpy', '1.24')]", "torch", "1.13.1"),
        ("pytorch 2.3.1 on python 3.11", "python", "3.11"),
        ("Python 3.9 here, to be exact:\nPython: 3.9.18", "python", "3.9.18"),
        ("Using Windows 10\nCuda 9\ncuDNN 7", "cuda toolkit", "9"),
        (
            "NVCC: Cuda compilation tools, release 10.1, V10.1.243\n  - CUDA Runtime 10.2",
            "cuda toolkit",
            "10.1",
        ),
    ],
)
def test_versions_are_read_in_their_usual_wordings(
    text: str, tool: str, version: str | None
) -> None:
    found = told(machine_from_text(text)).get(tool)
    assert found == version if version else found and found.startswith("11.5")


@pytest.mark.parametrize(
    "text",
    [
        "Requires CUDA 12.1 and Python 3.10",
        "Please support ROCm 6.3",
        "pip install torch==2.1.0",
        "torch>=2.0.0",
        "It should work with CUDA 11.8 or newer.",
        "I downgraded from ROCm 6.0, and do not use Python 3.12",
        "see https://docs.example.org/cuda-12.1/install",
        "I use CUDA 8-bit optimizers and CUDA 9 kernels",
    ],
)
def test_wanted_or_former_versions_are_not_there(text: str) -> None:
    assert not told(machine_from_text(text))


@pytest.mark.parametrize(
    ("text", "platform"),
    [
        ("Kernel: 6.5.0-14-generic", "linux"),
        ("it happens on 5.15.0-91-generic", "linux"),
        ("me@box:~/work$ make test", "linux"),
        ("01:00.0 VGA compatible controller: NVIDIA Corporation Device 2684", "linux"),
        ("[    2.345678] nvidia 0000:01:00.0: enabling device", "linux"),
        ("I run it inside WSL2", "wsl2"),
        (" * ABOUT        Miner/6.0.0 MSVC/2022", "windows"),
        ("Running on 64 bit Windows with 8 GB RAM", "windows"),
        ("File /Users/me/app/main.py, line 3", "macos"),
        ("Traceback: C:\\tools\\app\\main.py", "windows"),
        ("Installed with pacman -S cuda", "linux"),
        ("Will this ever work on Windows 11?", None),
        ("I pass the card through to a Windows VM", None),
        ("It works on Windows 10, but is slow on Fedora 39", "linux"),
        ("My old pc had windows 10, so maybe that is a cause?", "windows"),
        ("/mnt/x/lib/python3.11/site-packages/vllm/worker.py", "linux"),
        ("# jetpack 5.0.2: detectnet does not work", "jetson"),
    ],
)
def test_systems_show_in_what_is_quoted(text: str, platform: str | None) -> None:
    assert known(machine_from_text(text).host.platform) == platform


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I replaced my GTX 1080 with an RTX 4070.", ["RTX 4070"]),
        ("My GPU is an RTX 4070. It works fine on another PC with a GTX 1650.", ["RTX 4070"]),
        ("I have an RTX 3080. My friend's RTX 2060 is fast.", ["RTX 3080"]),
        ("I have a 13 GPU system with P106-100 cards stops", ["P106-100"] * 13),
        ("GPU: 2x4090", ["4090", "4090"]),
        ("GPU #0 01:00.0 AMD Radeon (TM) R9 M390X (Name) 925 MHz", ["R9 M390X"]),
        ("Hardware: A6000 (48GiB) * 8", ["A6000"] * 8),
        ("I have 3 cards: RTX 3090, RTX 3080 and RTX 3060", ["RTX 3090", "RTX 3080", "RTX 3060"]),
        ("My GPU is a Radeon RX 6800. Radeon RX 6000 series are slow.", ["Radeon RX 6800"]),
        ("The kernel dmesg tells of rx_580_quirk at boot", []),
    ],
)
def test_only_gpus_that_are_there_are_counted(text: str, expected: list[str]) -> None:
    found = names(text)
    assert len(found) == len(expected)
    assert all(want in (name or "") for name, want in zip(found, expected, strict=True))


def test_a_product_merely_named_counts_only_alone() -> None:
    talk = "The RX 580 gave a black screen after the update.\n"
    assert names(talk) == ["RX 580"]
    assert [device.vendor for device in machine_from_text(LSPCI + talk).devices] == ["nvidia"]


@pytest.mark.parametrize(
    ("text", "driver"),
    [
        ("GPU: RX 6700 XT\nDriver: Adrenalin 23.5.2", "23.5.2"),
        ("GPU: Intel Arc A770\nDriver: 31.0.101.4953", "31.0.101.4953"),
        ("GPU: RTX 3060\nDriver version: 546.17", "546.17"),
        ("I have an RTX 3060 with NVIDIA driver 535.129.03", "535.129.03"),
        ("I have an RTX 3060, NVIDIA-Linux-x86_64-550.54.14.run is installed", "550.54.14"),
    ],
)
def test_drivers_are_read_by_the_form_of_their_maker(text: str, driver: str) -> None:
    (device,) = machine_from_text(text).devices
    assert (one := known(device.driver)) and known(one.version) == driver


def test_two_makers_of_a_hybrid_laptop() -> None:
    machine = machine_from_text("Hybrid laptop with Intel + NVIDIA, the screen stays black")
    assert {device.vendor for device in machine.devices} == {"intel", "nvidia"}


@pytest.mark.parametrize(
    ("text", "gib"),
    [
        ("GPU: RTX 3070, 512GB PCIe SSD", None),
        ("显卡：RTX 3090 24GB\n内存：64GB", 24),
        ("GPU: Radeon AI PRO R9700 (gfx1201/RDNA4), 32GB VRAM", 32),
        ("a laptop with an NVIDIA RTX A2000 Laptop GPU with about 20GB of VRAM", 20),
        ("GPU: RTX 4090. Most models require 4GB VRAM while it has 24GB VRAM.", 24),
        ("My GTX 1070 is fine, I've seen it on GPU's with 4gb of VRAM", None),
    ],
)
def test_memory_of_other_parts_is_not_the_gpus(text: str, gib: int | None) -> None:
    (device,) = machine_from_text(text).devices
    total = known(device.memory_total_bytes)
    assert (total and total >> 30) == gib


def test_a_sentence_behind_a_list_is_no_device() -> None:
    listing = "$ nvidia-smi -L\nGPU 0: NVIDIA L4 (UUID: GPU-88b1d6aa-9bbf-4bd8-b3a8-6a8e7f2d0d24)\n"
    assert names(f"{listing}GPU memory is full then: nothing runs.") == ["NVIDIA L4"]


def test_laptop_maxwell_is_five_zero() -> None:
    (device,) = machine_from_text("GPU: GeForce GTX 960M").devices
    assert known(device.compute_capability) == "5.0"


def test_a_driver_that_cannot_start_the_gpu_is_not_ready() -> None:
    machine = machine_from_text(
        f"{LSPCI}[  9.1] NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x25:0x65:1457)\n"
    )
    assert machine.status not in ("ready", "no_gpu")
