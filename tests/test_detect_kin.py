"""What one report tells in its own way is read in its kin's too, and not in what only resembles it."""

# ruff: noqa: E501 - lines stand here as their tools and people write them

from __future__ import annotations

from typing import Any

import pytest

from gpuforge.detect.text import machine_from_text
from gpuforge.facts import known
from tests.test_detect_reports import judged

NVIDIA, AMD, INTEL = ({"vendor": vendor} for vendor in ("nvidia", "amd", "intel"))
IN_PROCESSOR = {"integrated": True}


def gpu(vendor: str, name: str = "", **facts: Any) -> dict[str, Any]:
    return {"vendor": vendor, **({"name": name} if name else {}), **facts}


def wrong(text: str, **facts: Any) -> list[str]:
    """Return the facts that a text tells and its machine lacks."""
    machine = machine_from_text(text)
    report = {"status": machine.status, **facts}
    return [said for said, right in judged(report, machine) if not right]


# A GPU in the processor that is named beside a card, in an answer and in other languages.
@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("GPU: RTX 4070 with AMD Radeon Integrated", [gpu("nvidia", "4070"), AMD | IN_PROCESSOR]),
        ("Graphics card: GTX 1650 + Intel integrated", [gpu("nvidia"), INTEL | IN_PROCESSOR]),
        ("GPU: RTX 3050 and integrated AMD graphics", [gpu("nvidia"), AMD | IN_PROCESSOR]),
        ("GPU: GeForce RTX 4060 / Intel iGPU", [gpu("nvidia"), INTEL | IN_PROCESSOR]),
        ("GPU: RTX 3060 (no Intel integrated graphics)", [gpu("nvidia", "3060")]),
        ("GPU: RTX 3060, the AMD integrated one is disabled", [gpu("nvidia", "3060")]),
        (
            "Процессор i5 3570, видеокарта GTX 1060, работает только встройка",
            [gpu("nvidia"), INTEL],
        ),
        ("CPU: i7-8700\nGPU: GTX 1080\nIch nutze die integrierte Grafik", [gpu("nvidia"), INTEL]),
        ("CPU: Ryzen 5 5600G\n显卡: RTX 3060\n显示器接在核显上", [gpu("nvidia"), AMD]),
        ("CPU: i7-8700\nGPU: GTX 1080, keine integrierte Grafik", [gpu("nvidia", "1080")]),
        ("CPU: i7-8700\n显卡: GTX 1080, 没有核显", [gpu("nvidia", "1080")]),
    ],
)
def test_the_gpu_in_the_processor_beside_a_card(text: str, gpus: list[dict[str, Any]]) -> None:
    assert wrong(text, gpu=gpus) == []


# How many there are, behind a name, in the words around it, and by SLI.
@pytest.mark.parametrize(
    ("text", "name", "count"),
    [
        ("Each host:\nH100 =8\nnccl 2.21", "H100", 8),
        ("Each host:\nH100 = 4 cards\nnccl 2.21", "H100", 4),
        ("GPU: NVIDIA A800-SXM4-80GB (GA100; 8 per node, bare metal)", "A800", 8),
        ("GPU: NVIDIA A100, 4 per server", "A100", 4),
        ("8 GPUs per node: NVIDIA H200", "H200", 8),
        ("It hangs with the A100 SXM4 when using all 4 GPUs", "A100", 4),
        ("My RTX 3090 server uses all eight GPUs", "3090", 8),
        ("It used to max out 1 of the 2 GPUs in SLI, with a clean nVidia driver install", "", 2),
        ("My two GPUs in SLI, GTX 980", "980", 2),
        ("Each host:\nV100 = 32 GB\nnccl 2.21", "V100", 1),
        ("GPU: NVIDIA A100, 4 users per server", "A100", 1),
        ("GPU: RTX 2080. SLI is not supported for all 4 GPUs.", "2080", 1),
    ],
)
def test_how_many_there_are(text: str, name: str, count: int) -> None:
    devices = machine_from_text(text).devices
    assert [name in (known(one.name) or "") for one in devices] == [True] * count


# Processors: Macs by their speed, and what stands behind a model's name.
@pytest.mark.parametrize(
    ("text", "facts"),
    [
        (
            "Model: iMac11,2, BootROM IM112.0057.B00, 2 processors, Intel Core i3, 3.2 GHz, 4 GB",
            {"cpu": "Intel Core i3"},
        ),
        (
            "Model: MacPro5,1, BootROM 144.0.0, 12 processors, 6-Core Intel Xeon, 3.46 GHz, 32 GB",
            {"cpu": "6-Core Intel Xeon"},
        ),
        (
            "Model: MacBookPro16,1, BootROM 1554.0, 8 processors, 8-Core Intel Core i9, 2,3 GHz, 16 GB",
            {"cpu": "8-Core Intel Core i9"},
        ),
        (
            "macOS Catalina 10.15.3\n2.6 GHz 6-Core Intel Core i7\nAMD Radeon Pro 5300M",
            {"cpu": "Intel Core i7"},
        ),
        ("MacBook Pro\n2,3 GHz Quad-Core Intel Core i5\n8 GB", {"cpu": "Intel Core i5"}),
        ("Mac Pro\n3.5 GHz 6-Core Intel Xeon E5\n16 GB", {"cpu": "Intel Xeon E5"}),
        ("The game needs a\n3.5 GHz Intel Core i7 or better", {"cpu": None}),
        (
            "Processor: AMD FX(tm)-8150 Eight-Core Processor            (8 CPUs), ~4.0GHz",
            {"cpu": "AMD FX(tm)-8150 Eight-Core Processor", "cores": 8},
        ),
        (
            "Processor: Intel Core i5-2450M CPU @ 2.50 GHz, 2501 Mhz, 2 Cores, 4 Logical Processors",
            {"cpu": "Intel Core i5-2450M CPU @ 2.50 GHz", "cores": 4},
        ),
        (
            "Processor\tIntel(R) Core(TM) i7-4770 CPU @ 3.40GHz, 3401 Mhz, 4 Core(s), 8 Logical Processor(s)",
            {"cpu": "Intel(R) Core(TM) i7-4770 CPU @ 3.40GHz", "cores": 8},
        ),
        (
            "CPU: AMD Ryzen 7 2700X Eight-Core, 16 threads, x86-64",
            {"cpu": "AMD Ryzen 7 2700X Eight-Core", "cores": 16},
        ),
        (
            "Processors: 12 × AMD Ryzen 5 5600X 6-Core Processor",
            {"cpu": "AMD Ryzen 5 5600X 6-Core Processor", "cores": 12},
        ),
        (
            "CPU Brand: Intel(R) Core(TM) Ultra 7 155H\n22 logical processors\n16 physical processors",
            {"cores": 22},
        ),
        (
            "CPU: Intel(R) Core(TM) i7-3820 CPU @ 3.60GHz\n - logical processor count: 8",
            {"cores": 8},
        ),
        (
            "Model Name: Mac Studio\nTotal Number of Cores: 16 (12 Performance and 4 Efficiency)",
            {"cores": 16},
        ),
        ("cpu: ryzen 3900xt\n\n### CPU\n\nAMD", {"cpu": "ryzen 3900xt"}),
        (
            "a MacBook Pro with a 2.8GHz Core 2 Duo with NVIDIA 9400M/9600M GT",
            {"cpu": "Core 2 Duo"},
        ),
    ],
)
def test_processors(text: str, facts: dict[str, Any]) -> None:
    assert wrong(text, **facts) == []


# Systems, architectures and C libraries by their versions.
@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("RTX 3060 Ti, Windoes 11. 64bit", {"platform": "windows"}),
        ("I use Widnows 10 and a GTX 970", {"platform": "windows"}),
        ("There are windmills 10 km away", {"platform": None}),
        ('"driverVersion": "31.0.21912.3005"', {"platform": "windows"}),
        ("| Kernel | 6.17.7-ba29.fc43.x86_64 |", {"machine": "x86_64"}),
        ("running 5.14.0-362.8.1.el9_3.aarch64 here", {"machine": "aarch64"}),
        ("Running DaVinci Resolve v17.4.1.0004 (Linux/Clang x86_64)", {"machine": "x86_64"}),
        ("GPU: A800, Vulkan 1.4, Ubuntu 22.04, glibc 2.35", {"libc": "glibc 2.35"}),
        ("- glibc: 2.17", {"libc": "glibc 2.17"}),
        ("$ ldd --version\nldd (Ubuntu GLIBC 2.35-0ubuntu3.1) 2.35", {"libc": "glibc 2.35"}),
        ("/lib/libc.so.6: version `GLIBC_2.34' not found", {"libc": None}),
        ("The wheel requires Ubuntu 20.04, glibc 2.28 or newer", {"libc": None}),
    ],
)
def test_systems(text: str, facts: dict[str, Any]) -> None:
    assert wrong(text, **facts) == []


# Which driver of several, and where its version stands.
@pytest.mark.parametrize(
    ("text", "vendor", "version"),
    [
        (
            "# A100 hangs (driver 570.172.08 + CUDA 12.8) but works on driver 550.163.01",
            "nvidia",
            "570.172.08",
        ),
        (
            "My A100.\nWorking: Driver 550.163.01, CUDA 12.4\nProblematic: Driver 570.172.08, CUDA 12.8",
            "nvidia",
            "570.172.08",
        ),
        (
            "RTX 3090. It works on driver 535.183.01 and fails on driver 550.54.14.",
            "nvidia",
            "550.54.14",
        ),
        ("RTX 3090. It works on driver 535.183.01.", "nvidia", "535.183.01"),
        ("GPU Information:\n  Intel(R) HD Graphics 530 - 21.20.16.5127", "intel", "21.20.16.5127"),
        ("GPU Information:\n  NVIDIA GeForce RTX 2060 - 31.0.15.3623", "nvidia", "31.0.15.3623"),
        (
            "GPU Information:\n  Intel(R) Arc(TM) 140V GPU (16GB) - 32.0.101.5730",
            "intel",
            "32.0.101.5730",
        ),
        ("GPU Information:\n  AMD Radeon RX 6600 - 31.0.14043.7000", "amd", "31.0.14043.7000"),
        ("GPU: GeForce GTX 1060 - 10.0.19041.1", "nvidia", None),
    ],
)
def test_drivers(text: str, vendor: str, version: str | None) -> None:
    assert wrong(text, gpu=[gpu(vendor, driver=version)]) == []


# The rows of a table are answers where its headings are none.
@pytest.mark.parametrize(
    "heads", ["| Requirements | Version |", "| Component | Version |", "| Item | Value |"]
)
def test_rows_of_a_table_are_answers(heads: str) -> None:
    text = f"{heads}\n|:---:|:---:|\n| NCCL | v2.7.8 |\n| CUDA | 11.0 |\n| GPU | A100-SXM-80GB |\n"
    assert wrong(text, versions={"cuda": "11.0"}, gpu=[gpu("nvidia", "A100")]) == []


# GPUs of laptops and Macs written as one, boards, and makers without a product.
@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        (
            "Running on a MacBook Pro with NVIDIA 9400M/9600M GT, and 4GB of RAM.",
            [gpu("nvidia", "9400M"), gpu("nvidia", "9600M GT")],
        ),
        ("GPU: GeForce 9400M / 9600M GT", [gpu("nvidia", "9400M"), gpu("nvidia", "9600M GT")]),
        (
            "MacBook Pro with Intel HD 3000/GeForce GT 330M",
            [gpu("intel", "3000"), gpu("nvidia", "330M")],
        ),
        (
            "3D controller: NVIDIA Corporation GA106M [GeForce RTX 3060 Mobile / Max-Q]",
            [gpu("nvidia", "3060")],
        ),
        ("Jetson NX (jetpack 4.6.2)", [gpu("nvidia", "Jetson NX", integrated=True)]),
        ("Board: Jetson AGX, JetPack 4.4", [gpu("nvidia", "Jetson AGX", integrated=True)]),
        (
            "I'm on a 2007 Mbp with a nvidia graphics card i think it's a 2500gtx or something",
            [NVIDIA],
        ),
        ("My laptop has an nvidia card, maybe it could be that", [NVIDIA]),
        ("It could be any nvidia graphics card", []),
        ("# Crashes in `libtogl.so` with Intel Arc", [gpu("intel", "Arc")]),
        ("# Black screen on Intel Iris Xe", [gpu("intel", "Iris Xe")]),
        ("# Please support Intel Arc", []),
        ("# Does it run on Intel Arc?", []),
        ("Graphics: Intel Graphics", [gpu("intel", integrated=True)]),
        (
            "dom0:00_02.0  Display: Intel Corporation Meteor Lake-P [Intel Graphics]",
            [gpu("intel", integrated=True)],
        ),
        (
            "I have two graphics cards, one integrated in the intel cpu and another in a slot",
            [INTEL | IN_PROCESSOR],
        ),
        (
            "GPU: GTX 1070\nThe GPU is capped at 60 FPS at 1080p, 1440p and 4K",
            [gpu("nvidia", "1070")],
        ),
        ("GPU: RTX 3060\nThe GPU runs at 1080 p or 1440 × 900", [gpu("nvidia", "3060")]),
    ],
)
def test_names(text: str, gpus: list[dict[str, Any]]) -> None:
    assert wrong(text, gpu=gpus) == []


# A card that was there before.
@pytest.mark.parametrize(
    "text",
    [
        "Recently I upgraded my GPU from 2080Ti to 3090. It fails on 3090 but not on 2080Ti",
        "I switched my card from a GTX 1080 Ti to an RTX 3090",
        "I moved from a 2080Ti to 3090, and now it fails",
    ],
)
def test_a_card_of_before(text: str) -> None:
    assert wrong(text, gpu=[gpu("nvidia", "3090")]) == []


# The GPU's memory, apart from the computer's.
@pytest.mark.parametrize(
    ("text", "mib"),
    [
        ("| GPU | RX 5700 XT (Navi 10), VBIOS `113-AA01AM-U06`, 8 GB |", 8192),
        ("GPU: Radeon RX 6800, RDNA2, 16 GB", 16384),
        ("Radeon HD5450 1gb ddr3", 1024),
        ("GPU: Radeon R7 240 2GB DDR3", 2048),
        ("GPU: Radeon RX 580\nbut the card should have 8 GB of physical memory", 8192),
        ("GPU: Radeon RX 580\nThis card only has 8GB of memory", 8192),
        ("GPU: Radeon RX 580, Ryzen 5600, 32 GB", False),
        ("GPU: Radeon RX 580 16GB DDR4", False),
        ("GPU: Radeon RX 580\ncards should have 8 GB of memory", False),
        ("GPU: Radeon RX 580\nthe card should have at least 8 GB of memory", False),
        (" - Processor(CPU): [r7-9700x]\n - Graphics Card:[9070xt]\n - Memory:[32GB]", False),
        ("Processor: Ryzen 5 5600\nGraphics: Radeon RX 580\nMemory: 16 GB", False),
    ],
)
def test_memory(text: str, mib: int | bool) -> None:
    assert wrong(text, gpu=[gpu("amd", mib=mib)]) == []


# What the kernel writes of a card without its driver's usual line.
@pytest.mark.parametrize(
    ("text", "facts"),
    [
        (
            "nouveau  [  DEVICE][0000:01:00.0] Chipset: GM204 (NV124)",
            gpu("nvidia", "GM204", address="0000:01:00.0", kernel_driver="nouveau"),
        ),
        (
            "[drm] nouveau 0000:01:00.0: Detected an NVc0 generation card (0x0c8000a1)",
            gpu("nvidia", address="0000:01:00.0", kernel_driver="nouveau"),
        ),
        (
            "[    2.1] nouveau 0000:02:00.0: NVIDIA GT218 (0a8280b1)",
            gpu("nvidia", "GT218", address="0000:02:00.0", kernel_driver="nouveau"),
        ),
        (
            "RX580: `[drm:amdgpu_job_timedout`` [amdgpu]] *ERROR* ring gfx timeout",
            gpu("amd", kernel_driver="amdgpu"),
        ),
        (
            "My HD 6850: [drm:radeon_gem_object_create [radeon]] *ERROR* Failed",
            gpu("amd", kernel_driver="radeon"),
        ),
        (
            "GTX 970: [drm:nv50_disp_atomic_commit_tail [nouveau]] *ERROR*",
            gpu("nvidia", kernel_driver="nouveau"),
        ),
    ],
)
def test_lines_of_the_kernel(text: str, facts: dict[str, Any]) -> None:
    assert wrong(text, gpu=[facts]) == []


def test_a_version_that_requires_something_is_not_there() -> None:
    text = "My RX-7900XTX: Error 5004: CUDA 12 requires minimum driver version: 525.60."
    machine = machine_from_text(text)
    assert not machine.toolkits
    assert wrong(text, gpu=[gpu("amd", "7900XTX", driver=None)]) == []


# Processors by a number, a speed or another language's word alone.
@pytest.mark.parametrize(
    ("text", "facts"),
    [
        (
            "All experiments were run on a machine with an AMD 5950x CPU and NVIDIA RTX 3090 GPU.",
            {"cpu": "AMD 5950x"},
        ),
        ("We used an AMD 7950X3D and an RTX 4090.", {"cpu": "AMD 7950X3D"}),
        (
            "The server has two RTX 5090 and an Intel Xeon 6530 processor.",
            {"cpu": "Intel Xeon 6530"},
        ),
        ("It has an Intel Xeon 8480+ and one H100 GPU.", {"cpu": "Intel Xeon 8480"}),
        (
            "running on a MacBook Pro with 2.8 GHz Quad-Core Intel Core i7 CPU",
            {"cpu": "Intel Core i7"},
        ),
        ("my iMac has a 3.4 GHz Intel Core i5", {"cpu": "Intel Core i5"}),
        ("- Processador: Apple M5 com 10 núcleos, sendo 4 de performance", {"cpu": "Apple M5"}),
        ("Prozessor: AMD Ryzen 7 5800X mit 8 Kernen", {"cpu": "AMD Ryzen 7 5800X"}),
        ("Processore: Intel Core i7-9700K con 8 core", {"cpu": "Intel Core i7-9700K"}),
        ("Ryzen 2700X |\nRTX 2080 |", {"cpu": "Ryzen 2700X"}),
        ("Intel Core i5 6402P quad core CPU\n8 x GeForce GTX 1060", {"cpu": "Intel Core i5 6402P"}),
        ("Recommended: 2.8 GHz Intel Core i7 or faster", {"cpu": None}),
        ("goos: linux\ngoarch: arm64", {"platform": "linux", "machine": "arm64"}),
        ("goos: darwin\ngoarch: arm64", {"platform": "macos", "machine": "arm64"}),
        ("goos: windows\ngoarch: amd64", {"platform": "windows"}),
        ("GOOS=linux GOARCH=arm64 go build # on Windows 11", {"machine": None}),
        ("run on macOS/arm64 (Apple M3 Pro)", {"platform": "macos", "machine": "arm64"}),
    ],
)
def test_processors_in_few_words(text: str, facts: dict[str, Any]) -> None:
    machine = machine_from_text(text)
    wanted = {"cpu": "cpu_model", "platform": "platform", "machine": "machine"}
    assert {fact: known(getattr(machine.host, wanted[fact])) for fact in facts} == facts


# Chipsets' graphics, old mobile cards, and a chip that stands before the product.
@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        (
            "my graphics card is an Intel 945GM shared graphics card",
            [gpu("intel", "945GM") | IN_PROCESSOR],
        ),
        ("Graphics: Intel GM965", [gpu("intel", "GM965") | IN_PROCESSOR]),
        ("I have an Intel 82865G", [gpu("intel", "82865G") | IN_PROCESSOR]),
        ("GeForce 7600 GT on an Intel 945G motherboard", [gpu("nvidia", "7600")]),
        ("my laptop has an Nvidia GeForce Go 7300 graphics card", [gpu("nvidia", "Go 7300")]),
        ("my laptop has a GeForce Go 6150", [gpu("nvidia", "Go 6150")]),
        ("NVIDIA Corporation GT218 [GeForce G210]", [gpu("nvidia", "GeForce G210")]),
        ("NVIDIA Corporation GK208B [GeForce GT 710]", [gpu("nvidia", "GeForce GT 710")]),
        ("Benchmarks were run on an Apple M1 Pro with 2048-bit keys.", [gpu("apple", "M1 Pro")]),
        ("All benchmarks were measured on an RTX 3090.", [gpu("nvidia", "3090")]),
        (
            "8 x GeForce GTX 1060\nNvidia RTX 3000-series cards look to be faster",
            [gpu("nvidia", "1060")] * 8,
        ),
        ("GPU: RTX 2080\nRadeon RX 6000 series cards are affected too", [gpu("nvidia", "2080")]),
    ],
)
def test_names_of_chipsets_and_families(text: str, gpus: list[dict[str, Any]]) -> None:
    assert wrong(text, gpu=gpus) == []


# A memory amid what a bracket says of a card; of two sizes, neither.
@pytest.mark.parametrize(
    ("text", "mib"),
    [
        ("conducted on a single NVIDIA H100 SXM5 GPU (700 W TDP, 96 GB HBM2e)", 98304),
        ("We use an NVIDIA A100 (Ampere, 80 GB)", 81920),
        ("GPU: RTX 4090 (450 W, 24 GB GDDR6X)", 24576),
        ("GPU: RTX 4090 (i9-13900K, 64 GB RAM)", False),
        ("GPU: RTX 4090 (Ryzen 7950X, 64 GB)", False),
        ("8 x Nvidia GeForce GTX 1060 (3GB or 6GB)", False),
    ],
)
def test_memory_in_brackets(text: str, mib: int | bool) -> None:
    device = machine_from_text(text).devices[0]
    assert known(device.memory_total_bytes) == (mib << 20 if mib else None)


# Cards counted before their board's maker, in a list, in a line of their own and in Chinese.
@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("6 asus strix RX580 8gb (Hynix)", ["RX580"] * 6),
        (
            "My rig has 5 MSI RX570 4gb and 2 Gigabyte RTX 3060",
            ["RX570"] * 5 + ["RTX 3060"] * 2,
        ),
        ("GPU 2 ASUS RX580 crashes", ["RX580"]),
        ("Slot 1: ASUS Strix GTX 1080", ["GTX 1080"]),
        (
            "Setup: 2x 1660 SUPER (Mining ERGO) , 3x 3070 (Mining FIRO with other miner)",
            ["1660 SUPER"] * 2 + ["3070"] * 3,
        ),
        ("2x 3090 (training), 1x 4090 (inference)", ["3090"] * 2 + ["4090"]),
        ("It works fine on my other machine with 4x 3070", []),
        ("one machine\n4 GPUs (A40)\n- GPU type: NVIDIA A40", ["A40"] * 4),
        ("GPU type: NVIDIA A40\n4 GPUs are required", ["A40"]),
        ("GPU: 2x RTX 3060\nGPU 0: RTX 3060\nGPU 1: RTX 3060", ["RTX 3060"] * 2),
        ("GPU: RTX 3060\nDevice #0: NVIDIA GeForce RTX 3060", ["RTX 3060"]),
        ("我使用4个3090GPU训练,一定要8个GPU才能进行训练吗", ["3090"] * 4),
        ("两块3090,CUDA 11.8", ["3090"] * 2),
        ("我有8卡A100服务器", ["A100"] * 8),
        ("建议使用4张V100", []),
        ("需要4个3090吗", []),
    ],
)
def test_cards_that_are_counted(text: str, names: list[str]) -> None:
    devices = machine_from_text(text).devices
    assert len(devices) == len(names)
    assert all(name in (known(one.name) or "") for one, name in zip(devices, names, strict=True))


# The machine on which a fault does not show is not that of the report.
@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Slow since the update on my M1 Pro.\n\nI'm not seeing this on my M2 Max MBP.", "M1 Pro"),
        ("On my RTX 3060 it crashes. I cannot reproduce this on my RX 6800.", "RTX 3060"),
        ("It hangs with my RTX 3060. I don't have this issue on my GTX 1080.", "RTX 3060"),
        ("My card: RTX 3060. Not seeing it here with a 6700 XT.", "RTX 3060"),
        ("I can't get any output on my RTX 3060", "RTX 3060"),
        ("I don't have sound on my RTX 3060 HDMI", "RTX 3060"),
        ("The system should handle this easily (RX 6900 XT, Ryzen 9 5900X)", "RX 6900 XT"),
        ("This hardware should suffice: RTX A6000", "RTX A6000"),
        ("You should be able to run it on an RTX 3060", ""),
        ("Your laptop should have an RTX 2060", ""),
        ("My Xiaomi mi8 runs Android 10", ""),
    ],
)
def test_whose_card_it_is(text: str, name: str) -> None:
    assert [known(one.name) for one in machine_from_text(text).devices] == ([name] if name else [])


# A memory behind the words of a board, in Cyrillic units, and the computer's beside it.
@pytest.mark.parametrize(
    ("text", "mib"),
    [
        ("GPU: MSI Radeon RX 5700 XT EVOKE OC 8GB", 8192),
        ("GPU: GT 1030 ITX 2 GB", 2048),
        ("Sapphire Toxic R9 280X 384 Bit 3GB", 3072),
        ("GPU: Powercolor RX 6700 XT Red Devil 12GB", 12288),
        ("Видеокарта: NVIDIA P106-100, 6 ГБ", 6144),
        ("Видеокарта GeForce GTX 1650 4096 МБ", 4096),
        ("RTX 3060, 16 ГБ ОЗУ", False),
        ("GPU: GTX 1060 RAM 16GB", False),
        ("GPU: GTX 1060 Memory: 16GB CPU: i5-6600 OS: Windows 10", False),
    ],
)
def test_memory_behind_a_name(text: str, mib: int | bool) -> None:
    assert wrong(text, gpu=[{"mib": mib}]) == []


# Ids in two lines, decimal or not; a GPU that one line names by its id and another by its product.
@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        (
            '{\n"device": "Intel(R) Arc(TM) A750 Graphics",\n"vendor_id": 32902,\n"device_id": 22177\n}',
            [gpu("intel", "A750", id="8086:56a1")],
        ),
        (
            "{\n deviceId: 22802,\n driverDate: '12-10-2018',\n vendorId: 32902\n}",
            [gpu("intel", id="8086:5912")],
        ),
        ("VendorId = 0x1002\nDeviceId = 0x73bf", [gpu("amd", id="1002:73bf")]),
        (
            '[{"deviceId":7170,"vendorId":4318},{"deviceId":16017,"vendorId":32902}]',
            [gpu("nvidia", id="10de:1c02"), gpu("intel", id="8086:3e91")],
        ),
        ("vendor_id: 0x8086\ndevice_id: 0x15b8", []),
        ("vendorId: 4318\n}\n{\ndeviceId: 9348", []),
        (
            "GPU: Intel Arc B580\nPlatform #0: Intel(R) OpenCL Graphics\n `-- Device #0: Intel(R) Graphics [0xe20b]",
            [gpu("intel", "B580", id="8086:e20b")],
        ),
        (
            "GPU: Iris Xe\nDevice 0: Intel(R) Graphics [0x46a8]",
            [gpu("intel", "Iris", id="8086:46a8")],
        ),
        (
            "GPU: Arc A770\nDevice 0: Intel(R) Graphics [0x46a8]",
            [gpu("intel", "A770", id=None), gpu("intel", id="8086:46a8")],
        ),
        (
            'GPU 0: 8086:56a1 "Intel(R) Arc(tm) A750 Graphics (DG2)" discrete GPU 0000:03:00.0\n'
            'GPU 1: 8086:9a49 "Intel(R) Xe Graphics (TGL GT2)" integrated GPU 0000:00:02.0\n'
            'GPU 2: 10005:0 "llvmpipe (LLVM 21.1.8, 256 bits)" CPU 0000:00:00.0',
            [
                gpu("intel", "A750", id="8086:56a1", address="0000:03:00.0", integrated=False),
                gpu("intel", "Xe", id="8086:9a49", address="0000:00:02.0", integrated=True),
            ],
        ),
        ("Device name: Genuine Intel(R) 0000\nDevice type: CPU", []),
        (
            "Device name: AMD Eng Sample: 100-000000425\nDevice type: CPU\nDevice name: gfx1036",
            [gpu("amd", architecture="gfx1036")],
        ),
        ("GPU: RTX 3060\nDevice type: CPU", [gpu("nvidia", "3060")]),
        ("I have an NVidia GeForce RX 4090", [gpu("nvidia", "4090")]),
        ("I use an NVIDIA RX 3060", [gpu("nvidia", "3060")]),
        ("CPU: Ryzen 5 5600G\nGraphics card: onboard", [AMD | IN_PROCESSOR]),
        ("CPU: i7-8700\nGPU: integrated graphics disabled, GTX 1060", [gpu("nvidia", "1060")]),
    ],
)
def test_which_gpu_it_is(text: str, gpus: list[dict[str, Any]]) -> None:
    assert wrong(text, gpu=gpus) == []


# Versions of drivers: a whole answer, Catalyst's numbers, X's driver, and CUDA's, which is none.
@pytest.mark.parametrize(
    ("text", "facts"),
    [
        (
            "Device name: Mesa Intel(R) Iris(R) Xe Graphics (RPL-P)\nDriver version: 25.1.9",
            gpu("intel", driver="25.1.9"),
        ),
        ("GPU: Intel HD 4400\nDriver version: 1.3", gpu("intel", driver="1.3")),
        ("GPU: Intel Arc A770\nCUDA driver version: 12.2", gpu("intel", driver=None)),
        (
            "GPU: ATI Radeon HD 4500\nDriver version: 8.970.100.9001",
            gpu("amd", driver="8.970.100.9001"),
        ),
        ("GPU: Radeon R9 270, driver 15.201.1151.1008", gpu("amd", driver="15.201.1151.1008")),
        (
            "Graphics Card: AMD Radeon(TM) 8060S\nWindows Graphics Driver Version: 32.0.22032.1",
            gpu("amd", driver="32.0.22032.1"),
        ),
        (
            "GPU: RTX 3070\nNVIDIA-SMI 535.113.01\nDriver Version: 535.113.01\nCUDA Version: 12.2",
            gpu("nvidia", driver="535.113.01", runtime=["12.2"]),
        ),
        (
            "NVRM: GPU at 0000:01:00: GPU-009fc6be-db2e-11be-ceae-9ba664de1bac",
            gpu("nvidia", address="0000:01:00.0", uuid="GPU-009fc6be-db2e-11be-ceae-9ba664de1bac"),
        ),
        (
            "Graphics:  Card: NVIDIA G92GLM [Quadro FX 2800M] bus-ID: 01:00.0\n"
            "           Display Server: X.Org 1.19.3 drivers: nouveau (unloaded: fbdev,nv,vesa)",
            gpu("nvidia", kernel_driver="nouveau"),
        ),
        (
            "Graphics:  Card: AMD Barts PRO [Radeon HD 6850] bus-ID: 01:00.0\n"
            "           Display Server: X.Org 1.19.2 drivers: ati,radeon (unloaded: vesa)",
            gpu("amd", kernel_driver="radeon"),
        ),
        (
            "Graphics:  Card: Intel HD Graphics 520 bus-ID: 00:02.0\n"
            "           Display Server: X.Org 1.18.4 drivers: modesetting (unloaded: fbdev)",
            gpu("intel", kernel_driver=None),
        ),
    ],
)
def test_which_driver_it_has(text: str, facts: dict[str, Any]) -> None:
    assert wrong(text, gpu=[facts]) == []


# Hosts: answers, labels on one line, processors by their class, and what is not told.
@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("### Addon Version\n\nWindows (CUDA)\n\nGTX 1050 Ti", {"platform": "windows"}),
        ("### Package\n\nLinux (AppImage)", {"platform": "linux"}),
        ("- Windows\n- Linux\n- macOS\n", {"platform": None}),
        ("# Dual GPU Macbooks return two displays", {"platform": "macos"}),
        ("OS: Could not collect\n===\nOS: windows 10", {"platform": "windows"}),
        ("Running on Windows 11 (not using WSL)", {"platform": "windows"}),
        ("build: 3917 with cc (Ubuntu 13.2.0) 13.2.0 for x86_64-linux-gnu", {"machine": "x86_64"}),
        ("built with Apple clang 15.0.0 for arm64-apple-darwin23.6.0", {"machine": "arm64"}),
        ("# Flickering on Intel Core Ultra 225h", {"cpu": "Intel Core Ultra 225h"}),
        ("I have an Ultra 9 285K", {"cpu": "Ultra 9 285K"}),
        ("My Samsung Galaxy S24 Ultra 256 GB", {"cpu": None}),
        ("a new PC with an RTX 4090 and Intel i9 Chip", {"cpu": "Intel i9"}),
        (
            "My rig is GPU: 8400GS CPU: Intel i3 Memory: 4GB Operating system: Window 10 pro",
            {"cpu": "Intel i3", "platform": "windows"},
        ),
        (
            "OS: Win 10 CPU: i5-9400F GPU: GTX 1660",
            {"cpu": "i5-9400F", "platform": "windows"},
        ),
        ("CPU: AMD Ryzen 9 5900X      (2999.82 MHz)", {"cpu": "AMD Ryzen 9 5900X"}),
    ],
)
def test_hosts_in_other_words(text: str, facts: dict[str, Any]) -> None:
    assert wrong(text, **facts) == []
