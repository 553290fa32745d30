"""A report tells the same in any dress: Markdown, HTML, typesetters' signs, other spellings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpuforge.detect.text import machine_from_text
from gpuforge.detect.text.plain import plain
from gpuforge.detect.text.products import products_in
from gpuforge.facts import Machine, known

REPORT = """\
# It crashes

- OS: Windows 11
- CPU: AMD Ryzen 7 5800X
- GPU: NVIDIA GeForce RTX 3060
- VRAM: 12 GB
- Driver version: 531.41
- Python version: 3.10.9
- PyTorch version: 2.1.0+cu118
"""


def told(machine: Machine) -> dict[str, Any]:
    """Return the facts of a machine with one GPU or none."""
    device = next(iter(machine.devices), None)
    driver = known(device.driver) if device else None
    return {
        "platform": known(machine.host.platform),
        "cpu": known(machine.host.cpu_model),
        "versions": {tool.name: known(tool.version) for tool in machine.toolkits},
        "gpus": len(machine.devices),
        "vendor": device.vendor if device else None,
        "name": known(device.name) if device else None,
        "memory": known(device.memory_total_bytes) if device else None,
        "driver": known(driver.version) if driver else None,
    }


def labels(form: str) -> Callable[[str], str]:
    """Return a function that writes each label of the report in a form."""

    def dressed(text: str) -> str:
        lines = text.splitlines()
        parts = [line.removeprefix("- ").split(": ") for line in lines[2:]]
        return "\n".join(lines[:2] + [form.format(*part) for part in parts])

    return dressed


@pytest.mark.parametrize(
    "dress",
    [
        labels("- **{0}:** {1}"),
        labels("- **{0}**: `{1}`"),
        labels("`{0}`: {1}"),
        labels("* <b>{0}</b>: {1}<br>"),
        labels("{0} -> {1}"),
        labels("{0} => {1}"),
        labels("- [x] {0}: {1}"),
        labels("{0}:\u00a0{1}"),
        labels("{0}： {1}"),
        labels("| {0} | {1} |"),
        labels("{0}: {1}."),
        lambda text: "<br>".join(text.splitlines()),
        lambda text: text.replace(": ", ":&nbsp;"),
    ],
)
def test_report_tells_the_same_in_any_dress(dress: Callable[[str], str]) -> None:
    assert told(machine_from_text(dress(REPORT))) == told(machine_from_text(REPORT))


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (r"gpu\_name: RTX 3060", ["gpu_name: RTX 3060"]),
        (r"D:\venv\_main.py", [r"D:\venv\_main.py"]),
        ("**Describe the bug**", ["**Describe the bug**"]),
        ("显存1906MB的MX450", ["显存 1906MB 的 MX450"]),
        ("- [ ] macOS", [""]),
        ("one<br/>two", ["one", "two"]),
        ("```shell", ["```shell"]),
        ("a &lt; b &amp;amp", ["a < b &amp"]),
    ],
)
def test_line_is_read_as_it_is_rendered(line: str, shown: list[str]) -> None:
    assert plain(line) == shown


def test_box_that_is_not_checked_tells_nothing() -> None:
    machine = machine_from_text("- [ ] GPU: RTX 3060\n- [ ] Windows 11\n- [x] Fedora 41")
    assert told(machine)["gpus"] == 0
    assert known(machine.host.platform) == "linux"


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("R9-390", "R9-390"),
        ("AMD RX-6900 XT", "AMD RX-6900 XT"),
        ("TeslaT4", "TeslaT4"),
        ("RadeonRX480 8GB", "RadeonRX480"),
        ("Intel-HD-Graphics-4600", "Intel-HD-Graphics-4600"),
        ("NVIDIA-2060", "NVIDIA-2060"),
        ("ATI X1300", "ATI X1300"),
    ],
)
def test_series_and_number_are_joined_in_any_way(line: str, name: str) -> None:
    assert [product.name for product in products_in(line)] == [name]


@pytest.mark.parametrize(
    "line", ["nvidia-driver-470", "radeonsi", "ThinkPad X390", "FireProxy", "Radeon " + "31415" * 9]
)
def test_what_looks_like_a_product_is_none(line: str) -> None:
    assert products_in(line) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (  # jellyfin/jellyfin-ffmpeg#297
            "- **CPU & GPU Model**: Intel N95 with Intel UHD 730 (Alder Lake), passed through",
            {"cpu": "Intel N95", "name": "Intel UHD 730"},
        ),
        (  # pop-os/cosmic-comp#2711
            "- Arch Linux\n- Ryzen 7 7800X3D (Raphael iGPU at 7c:00.0)",
            {"cpu": "Ryzen 7 7800X3D", "gpus": 1},
        ),
        (  # AUTOMATIC1111/stable-diffusion-webui#5052
            "Just use a laptop with an RTX 3050.\n"
            "On my desktop PC I don't get this error (there I have an RTX 3060).",
            {"gpus": 1, "name": "RTX 3050"},
        ),
        (  # NVIDIA/Isaac-GR00T#41
            "It reboots on my orin nano, but everything goes well when I run it on my x86 computer "
            "with RTX3060.",
            {"gpus": 1, "platform": "jetson"},
        ),
        (  # yuzu-emu/yuzu#6136
            "I play with the Radeon R7 260 card. The same does not happen with another GT 710.",
            {"gpus": 1, "vendor": "amd"},
        ),
        (  # apache/mxnet#913
            "# Speed differs\nI test on my GTX 970.\nIt said the GTX 980 is twice as fast.",
            {"gpus": 1, "name": "GTX 970"},
        ),
        (  # phvu/cuda-smi#10
            "I use CUDA 9.2 with driver 396.148 under macOS 10.13.6.",
            {"vendor": "nvidia", "driver": "396.148", "platform": "macos"},
        ),
        (  # RPCS3/rpcs3#12923
            "Found GPU: 'NVIDIA GeForce RTX 3060 Ti' running on driver 526.47.0.0",
            {"driver": "526.47"},
        ),
        (  # flathub/net.lutris.Lutris#292
            "GL drivers: nvidia-515-65-01\nUsing NVIDIA drivers 515.65.01\nGPU: GTX 970",
            {"driver": "515.65.01"},
        ),
        (  # tensorflow/tensorflow#70845
            "GPU model: NVIDIA GeForce RTX 4060\n" + "\n" * 50 + "Using device: cuda",
            {"gpus": 1, "name": "NVIDIA GeForce RTX 4060"},
        ),
        (  # jax-ml/jax#10349
            "I use an A100 GPU in the cloud.\n>>> name()\n'NVIDIA A100-SXM4-40GB'",
            {"gpus": 1, "name": "NVIDIA A100-SXM4-40GB"},
        ),
        (  # intel/compute-runtime#941
            "Hardware: 2× Intel Arc Pro B60 (BMG-G21, 24 GB each)",
            {"gpus": 2, "memory": 24 << 30},
        ),
        (  # lshqqytiger/stable-diffusion-webui-amdgpu#592
            "Videocard AMD RX 570 Series\nIt is slow as I have only 8 Gb on videocard.",
            {"memory": 8 << 30},
        ),
        (  # jianchang512/stt#65
            "我的笔记本2个显卡，一个是Intel的显存128MB，第二个是英伟达MX450，显存1906MB",
            {"gpus": 2},
        ),
        (  # Comfy-Org/ComfyUI#4475
            "[2024-08-18 19:24] Total VRAM 4096 MB, total RAM 16167 MB\n"
            "[2024-08-18 19:24] Device: cuda:0 NVIDIA GeForce RTX 3050 Laptop GPU : native",
            {"memory": 4 << 30},
        ),
        (  # doitsujin/dxvk#757
            "- GPU: AMD RADV Raven (LLVM 7.0.0)\n- Wine version: 3.19 staging\ngame.exe crashes",
            {"platform": "linux", "vendor": "amd"},
        ),
        (  # ROCm/legacy-rocm-build#5264
            "### CPU\n\nIntel(R) Xeon(R) W-2102 CPU @ 2.90GHz\n\n### GPU\n\n"
            "2x AMD Radeon (TM) Pro WX 5100 Graphics",
            {"cpu": "Intel(R) Xeon(R) W-2102 CPU @ 2.90GHz", "gpus": 2},
        ),
    ],
)
def test_what_a_person_reads_is_read(text: str, expected: dict[str, Any]) -> None:
    found = told(machine_from_text(text))
    assert {fact: found[fact] for fact in expected} == expected


@pytest.mark.parametrize(
    ("text", "name", "version"),
    [
        ("python (version 3.8.10)", "python", "3.8.10"),  # microsoft/WSL#7056
        ("pytorch package (version 1.7.1)", "torch", "1.7.1"),
        ("the cuda is cuda_7.0.28_linux.run", "cuda toolkit", "7.0.28"),  # Theano/Theano#3655
        ("PyTorch version: 2.6.0+cu124 (nightly)", "torch", "2.6.0+cu124"),
        ("I want to use CUDA 10.", "cuda toolkit", None),  # NVIDIA/k8s-device-plugin#97
    ],
)
def test_versions_are_read_as_people_write_them(text: str, name: str, version: str | None) -> None:
    assert told(machine_from_text(text))["versions"].get(name) == version


@pytest.mark.parametrize("answer", [r"Installed in C:\AMD\ROCm", "NVIDIA Driver Version: 531.41"])
def test_answer_that_is_no_name_is_none(answer: str) -> None:
    assert told(machine_from_text(f"GPU: {answer}"))["name"] is None


def test_name_of_a_family_yields_to_the_product() -> None:
    listed = "Agent 2\n  Name: gfx1102\n  Marketing Name: AMD Radeon Graphics\n  Device Type: GPU\n"
    machine = machine_from_text(f"ROCk module is loaded\n{listed}\n\nGPU: RX 7600\n")
    assert [known(device.name) for device in machine.devices] == ["RX 7600"]
