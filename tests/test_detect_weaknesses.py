"""Machines that were misread once, each with variants: what a listing shows and what it leaves open."""

# ruff: noqa: E501 - outputs stand here as their tools print them

from __future__ import annotations

from pathlib import Path

import pytest

from gpuforge.detect import detect_machine
from gpuforge.facts import Device, Failed, Machine, known
from gpuforge.probe import SnapshotProbe

GIB = 2**30
MIB = 2**20


def machine_of(folder: Path, **files: str) -> Machine:
    """Return the machine of files; ``__`` in a name is a dot, ``sys_`` begins a path below sysroot."""
    for name, text in files.items():
        path = folder / name.replace("__", ".")
        path.write_text(text)
    return detect_machine(SnapshotProbe(folder))


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        path = folder / "sysroot" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def shown(device: Device) -> tuple[object, ...]:
    return device.vendor, known(device.pci_address), known(device.pci_id)


# lshw

LSHW = """\
  *-display
       description: VGA compatible controller
       product: UHD Graphics 630 (Mobile) [8086:3E9B]
       vendor: Intel Corporation [8086]
       physical id: 2
       bus info: pci@0000:00:02.0
       configuration: driver=i915 latency=0
       resources: irq:128
  *-display UNCLAIMED
       description: 3D controller
       product: TU117M [GeForce GTX 1650 Mobile / Max-Q] [10DE:1F91]
       vendor: NVIDIA Corporation [10DE]
       physical id: 0
       bus info: pci@0000:01:00.0
       configuration: latency=0
"""
LSHW_JSON = """\
[ { "id" : "display", "class" : "display", "claimed" : true, "handle" : "PCI:0000:00:02.0",
    "description" : "VGA compatible controller", "product" : "UHD Graphics 630 (Mobile)",
    "vendor" : "Intel Corporation", "businfo" : "pci@0000:00:02.0",
    "configuration" : { "driver" : "i915", "latency" : "0" } },
  { "id" : "display", "class" : "display", "handle" : "PCI:0000:01:00.0",
    "description" : "3D controller", "product" : "TU117M [GeForce GTX 1650 Mobile / Max-Q]",
    "vendor" : "NVIDIA Corporation", "businfo" : "pci@0000:01:00.0", "configuration" : { "latency" : "0" } } ]
"""
LSHW_XML = """\
<?xml version="1.0" standalone="yes" ?>
<list>
  <node id="display" claimed="true" class="display" handle="PCI:0000:00:02.0">
   <description>VGA compatible controller</description>
   <product>UHD Graphics 630 (Mobile)</product>
   <vendor>Intel Corporation</vendor>
   <businfo>pci@0000:00:02.0</businfo>
   <configuration><setting id="driver" value="i915" /></configuration>
  </node>
  <node id="display" class="display" handle="PCI:0000:01:00.0">
   <product>TU117M [GeForce GTX 1650 Mobile / Max-Q]</product>
   <vendor>NVIDIA Corporation</vendor>
   <businfo>pci@0000:01:00.0</businfo>
  </node>
</list>
"""
LSHW_SHORT = """\
H/W path            Device      Class          Description
==========================================================
/0/100                          bridge         8th Gen Core Processor Host Bridge/DRAM Registers
/0/100/2            /dev/fb0    display        Intel Corporation UHD Graphics 630 (Mobile)
/0/100/1/0                      display        NVIDIA Corporation TU117M [GeForce GTX 1650 Mobile / Max-Q]
"""


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("lshw__txt", LSHW),
        ("lshw-C-display__txt", LSHW.replace("3D controller", "Display controller")),
        ("lshw__json", LSHW_JSON),
        ("lshw-json__txt", LSHW_JSON.strip("[]\n ").replace("},\n  {", "}            {")),
        ("lshw-xml__txt", LSHW_XML),
    ],
)
def test_lshw_shows_the_second_gpu_and_that_no_driver_claims_it(
    tmp_path: Path, name: str, text: str
) -> None:
    machine = machine_of(tmp_path, **{name: text})
    intel, nvidia = machine.devices
    assert known(intel.pci_address) == "0000:00:02.0" and known(intel.integrated) is True
    assert known(intel.driver) is not None
    assert known(nvidia.pci_address) == "0000:01:00.0" and nvidia.vendor == "nvidia"
    assert "GTX 1650" in str(known(nvidia.name))
    if "xml" not in name:
        assert isinstance(nvidia.driver, Failed) or "json" in name
    assert machine.status == "ok"


def test_lshw_in_one_line_each_and_a_card_alone_without_a_driver(tmp_path: Path) -> None:
    vendors = [device.vendor for device in machine_of(tmp_path, lshw_short__txt="").devices]
    assert vendors == []
    (tmp_path / "lshw-short.txt").write_text(LSHW_SHORT)
    devices = detect_machine(SnapshotProbe(tmp_path)).devices
    assert [device.vendor for device in devices] == ["intel", "nvidia"]
    (tmp_path / "lshw-short.txt").write_text(LSHW[LSHW.index("  *-display UNCLAIMED") :])
    machine = detect_machine(SnapshotProbe(tmp_path))
    assert machine.error and machine.error.kind == "no_kernel_driver"
    assert known(machine.devices[0].pci_id) == "10de:1f91"


# Merging

ROCM_IDS = "".join(f"GPU[{n}]\t\t: GPU ID: 0x740c\n" for n in range(4))
ONE_LINE = (
    "[    5.1] [drm] Initialized amdgpu 3.49.0 20150101 for 0000:c1:00.0 on minor 1\n".replace(
        "5.1]", "5.178359]"
    )
)


def test_source_of_ids_alone_keeps_its_count_beside_one_that_located_a_single_card(
    tmp_path: Path,
) -> None:
    machine = machine_of(tmp_path, **{"rocm-smi__txt": ROCM_IDS, "dmesg__txt": ONE_LINE})
    assert [known(device.pci_id) for device in machine.devices] == ["1002:740c"] * 4
    assert known(machine.devices[0].pci_address) == "0000:c1:00.0"


def test_two_kinds_of_cards_are_not_mixed_up(tmp_path: Path) -> None:
    lspci = (
        "03:00.0 VGA compatible controller [0300]: Advanced Micro Devices, Inc. [AMD/ATI] Navi 31 [Radeon RX 7900 XTX] [1002:744c]\n"
        "11:00.0 VGA compatible controller [0300]: Advanced Micro Devices, Inc. [AMD/ATI] Raphael [1002:164e]\n"
    )
    agent = (
        "*******\nAgent 2\n*******\n  Name:                    gfx1036\n  Marketing Name:          AMD Radeon Graphics\n"
        "  Vendor Name:             AMD\n  Device Type:             GPU\n  Chip ID:                 5710(0x164e)\n"
    )
    machine = machine_of(tmp_path, **{"lspci-nn__txt": lspci, "rocminfo__txt": agent})
    card, part = machine.devices
    assert known(card.integrated) is False and known(card.architecture) != "gfx1036"
    assert known(part.architecture) == "gfx1036" and known(part.integrated) is True


def test_identical_cards_of_one_opencl_platform_are_not_one(tmp_path: Path) -> None:
    device = (
        "  Device Name                                     NVIDIA A100\n  Device Vendor                                   NVIDIA Corporation\n"
        "  Device Type                                     GPU\n"
    )
    text = f"Number of platforms                               2\nNumber of devices                                 2\n{device}{device}"
    assert len(machine_of(tmp_path, clinfo__txt=text).devices) == 2
    (tmp_path / "clinfo.txt").write_text(
        text + f"Number of devices                                 2\n{device}{device}"
    )
    assert len(detect_machine(SnapshotProbe(tmp_path)).devices) == 2


# A lost GPU

HEADING = (
    "+-----------------------------------------------------------------------------+\n"
    "| NVIDIA-SMI 470.57.02    Driver Version: 470.57.02    CUDA Version: 11.4     |\n"
    "|-------------------------------+----------------------+----------------------+\n"
)
ROW = (
    "|   {n}  NVIDIA A100-SXM...  Off  | 00000000:{bus}:00.0 Off |                    0 |\n"
    "| N/A   30C    P0    50W / 400W |      0MiB / 40536MiB |      0%      Default |\n"
)
LOST = "Unable to determine the device handle for GPU 0000:87:00.0: GPU is lost.  Reboot the system to recover this GPU\n"


@pytest.mark.parametrize("place", ["before", "after"])
def test_lost_gpu_beside_a_valid_table_is_told_and_the_numbers_stay(
    tmp_path: Path, place: str
) -> None:
    rows = "".join(ROW.format(n=n, bus=bus) for n, bus in ((0, "07"), (1, "0F"), (3, "90")))
    table = HEADING + rows
    text = LOST + table if place == "before" else table + LOST
    machine = machine_of(tmp_path, **{"nvidia-smi__txt": text})
    assert machine.status == "driver_error"
    assert machine.error and machine.error.kind == "gpu_lost"
    assert "0000:87:00.0" in machine.error.message and "GPU 2" in machine.error.message
    assert [device.index for device in machine.devices] == [0, 1, 3]


def test_lost_gpu_that_the_bus_still_shows_is_not_the_best(tmp_path: Path) -> None:
    lspci = "".join(
        f"{bus}:00.0 3D controller [0302]: NVIDIA Corporation GA100 [A100] [10de:20b0]\n"
        for bus in ("07", "87")
    )
    table = LOST + HEADING + ROW.format(n=0, bus="07")
    machine = machine_of(tmp_path, **{"nvidia-smi__txt": table, "lspci-nn__txt": lspci})
    good, lost = machine.devices
    assert isinstance(lost.driver, Failed) and lost.driver.kind == "gpu_lost"
    assert machine.best_device == good.index == 0


def test_list_that_misses_a_number_keeps_the_others(tmp_path: Path) -> None:
    text = (
        "GPU 0: NVIDIA A100 (UUID: GPU-88b1d6aa-9bbf-4bd8-b3a8-6a8e7f2d0d20)\n"
        "Unable to determine the device handle for gpu 0000:87:00.0: Unknown Error\n"
        "GPU 2: NVIDIA A100 (UUID: GPU-88b1d6aa-9bbf-4bd8-b3a8-6a8e7f2d0d22)\n"
    )
    machine = machine_of(tmp_path, **{"nvidia-smi-L__txt": text})
    assert [device.index for device in machine.devices] == [0, 2]
    assert machine.error and "GPU 1" in machine.error.message


def test_driver_that_counts_no_gpus_shows_none(tmp_path: Path) -> None:
    text = "<nvidia_smi_log><driver_version>535.54.03</driver_version><attached_gpus>0</attached_gpus></nvidia_smi_log>"
    machine = machine_of(tmp_path, **{"nvidia-smi-q__xml": text})
    assert not machine.devices and machine.error and machine.error.kind == "no_devices"


# clinfo

CLINFO_UNTYPED = """\
Number of platforms                               1
  Platform Name                                   AMD Accelerated Parallel Processing
Number of devices                                 1
  Device Name                                     gfx1030
  Device Vendor                                   Advanced Micro Devices, Inc.
  Device Vendor ID                                0x1002
  Device Board Name (AMD)                         AMD Radeon RX 6800 XT
  Device PCI-e ID (AMD)                           0x73bf
  Device Topology (AMD)                           PCI-E, 0000:2b:00.0
"""


def test_clinfo_without_a_type_is_a_gpu_by_its_name_and_ids(tmp_path: Path) -> None:
    (device,) = machine_of(tmp_path, clinfo__txt=CLINFO_UNTYPED).devices
    assert shown(device) == ("amd", "0000:2b:00.0", "1002:73bf")
    assert known(device.architecture) == "gfx1030"


def test_clinfo_without_a_type_is_no_gpu_where_it_names_a_processor(tmp_path: Path) -> None:
    text = (
        "Number of devices                                 1\n  Device Name                                     AMD Ryzen 9 5900X 12-Core Processor\n"
        "  Device Vendor                                   AuthenticAMD\n  Device Vendor ID                                0x1022\n"
    )
    assert machine_of(tmp_path, clinfo__txt=text).status == "no_gpu"


def test_pci_ids_of_intels_clinfo_and_of_names(tmp_path: Path) -> None:
    text = (
        "Number of devices                                 1\n  Device Name                                     Intel(R) Graphics\n"
        "  Device Vendor                                   Intel(R) Corporation\n  Device Vendor ID                                0x8086\n"
        "  Device Type                                     GPU\n  Device ID (Intel)                               42912\n"
    )
    (device,) = machine_of(tmp_path, clinfo__txt=text).devices
    assert known(device.pci_id) == "8086:a7a0" and known(device.integrated) is True
    (tmp_path / "clinfo.txt").unlink()
    sycl = "[level_zero:gpu:0] Intel(R) Level-Zero, Intel(R) Graphics [0x56a5] 1.3 [1.3.27642]\n"
    (device,) = machine_of(tmp_path, **{"sycl-ls__txt": sycl}).devices
    assert known(device.pci_id) == "8086:56a5" and known(device.integrated) is False


# An empty list, a runtime that works

AGENT = (
    "ROCk module is loaded\n*******\nAgent 1\n*******\n  Name:                    AMD Ryzen AI MAX+ 395\n"
    "  Vendor Name:             CPU\n  Device Type:             CPU\n  Pool Info:\n    Pool 1\n"
    "      Segment:                 GLOBAL; FLAGS: FINE GRAINED\n      Size:                    {cpu} KB\n"
    "*******\nAgent 2\n*******\n  Name:                    gfx1151\n  Marketing Name:          AMD Radeon Graphics\n"
    "  Vendor Name:             AMD\n  Device Type:             GPU\n  Chip ID:                 5510(0x1586)\n"
    "  Pool Info:\n    Pool 1\n      Segment:                 GLOBAL; FLAGS: COARSE GRAINED\n"
    "      Size:                    {gpu} KB\n"
)


@pytest.mark.parametrize(
    "empty",
    ["No AMD GPUs detected\n", "ERROR: Driver not initialized (amdgpu not found in modules)\n"],
)
def test_empty_list_of_a_tool_does_not_override_a_runtime_that_works(
    tmp_path: Path, empty: str
) -> None:
    rocminfo = AGENT.format(cpu=65536000, gpu=65536000)
    machine = machine_of(tmp_path, **{"rocm-smi__txt": empty, "rocminfo__txt": rocminfo})
    (device,) = machine.devices
    assert machine.status == "ok" and machine.failures
    assert known(device.integrated) is True and known(device.memory_total_bytes) is None


def test_empty_xpu_list_does_not_override_level_zero(tmp_path: Path) -> None:
    sycl = (
        "[level_zero:gpu:0] Intel(R) Level-Zero, Intel(R) Arc(TM) A770 Graphics 1.3 [1.3.27642]\n"
    )
    texts = {"xpu-smi-discovery__txt": "No device discovered\n", "sycl-ls__txt": sycl}
    assert machine_of(tmp_path, **texts).status == "ok"


def test_pool_of_an_integrated_gpu_is_its_own_where_it_is_not_the_processors(
    tmp_path: Path,
) -> None:
    rocminfo = AGENT.format(cpu=65536000, gpu=4194304)
    (device,) = machine_of(tmp_path, rocminfo__txt=rocminfo).devices
    assert known(device.memory_total_bytes) == 4 * GIB and known(device.integrated) is True


# WSL

WSL_ROCMINFO = (
    "ROCk module is NOT loaded, possibly no GPU devices\nhsa api call failure at: rocminfo.cc:1304\n"
    "Call returned HSA_STATUS_ERROR_OUT_OF_RESOURCES: The runtime failed to allocate the necessary resources.\n"
)


def test_under_wsl_the_runtimes_own_error_is_the_news(tmp_path: Path) -> None:
    machine = machine_of(tmp_path, rocminfo__txt=WSL_ROCMINFO)
    assert machine.error and machine.error.kind == "kfd_not_loaded"
    write(tmp_path, **{"proc/version": "Linux version 5.15.153.1-microsoft-standard-WSL2\n"})
    machine = detect_machine(SnapshotProbe(tmp_path))
    assert machine.error and machine.error.kind == "runtime_failed"
    assert "HSA_STATUS_ERROR_OUT_OF_RESOURCES" in machine.error.message
    assert known(machine.host.platform) == "wsl2"


def test_wsl_is_known_by_its_tools_alone(tmp_path: Path) -> None:
    text = "WSL environment detected.\nROCR: unsupported GPU\nhsa api call failure at: rocminfo.cc:1306\n"
    machine = machine_of(tmp_path, rocminfo__txt=text)
    assert known(machine.host.platform) == "wsl2"
    assert machine.error and "unsupported GPU" in machine.error.message


# What is cut tells nothing

LSPCI_K = """\
00:02.0 VGA compatible controller: Intel Corporation UHD Graphics 620 (rev 07)
\tSubsystem: Dell Device 087c
\tKernel driver in use: i915
\tKernel modules: i915
01:00.0 3D controller: NVIDIA Corporation GP108M [GeForce MX150] (rev a1)
"""


@pytest.mark.parametrize(
    "rest",
    ["", "\tSubsystem: Dell Device 087c\n[...]\n", "--\n", "\tFlags: bus master, fast devsel\n"],
)
def test_driver_that_a_cut_listing_does_not_reach_is_not_missing(tmp_path: Path, rest: str) -> None:
    nvidia = machine_of(tmp_path, **{"lspci-k__txt": LSPCI_K + rest}).devices[1]
    assert nvidia.vendor == "nvidia" and not isinstance(nvidia.driver, Failed)


def test_driver_that_a_whole_listing_does_not_show_is_missing(tmp_path: Path) -> None:
    rest = "\tSubsystem: Dell Device 087c\n\tKernel modules: nouveau, nvidia\n"
    nvidia = machine_of(tmp_path, **{"lspci-k__txt": LSPCI_K + rest}).devices[1]
    assert isinstance(nvidia.driver, Failed) and nvidia.driver.kind == "no_kernel_driver"


# Configuration space

DUMP = """\
01:00.0 VGA compatible controller: NVIDIA Corporation Device (rev a1)
00: de 10 04 22 07 04 10 00 a1 00 00 03 10 00 80 00
10: 00 00 00 a3 0c 00 00 90 00 00 00 00 0c 00 00 a0
"""


def test_ids_in_dumps_of_the_configuration_space(tmp_path: Path) -> None:
    (device,) = machine_of(tmp_path, **{"lspci-x__txt": DUMP}).devices
    assert shown(device) == ("nvidia", "0000:01:00.0", "10de:2204")


def test_configuration_space_in_sysfs(tmp_path: Path) -> None:
    folder = tmp_path / "sysroot/sys/bus/pci/devices/0000:01:00.0"
    folder.mkdir(parents=True)
    (folder / "config").write_bytes(
        bytes.fromhex("de100422070410 00a1000003100080 00".replace(" ", ""))
    )
    (device,) = detect_machine(SnapshotProbe(tmp_path)).devices
    assert shown(device) == ("nvidia", "0000:01:00.0", "10de:2204")


# Integrated by name, platform and architecture


@pytest.mark.parametrize(
    ("line", "integrated"),
    [
        ("05:00.0 VGA compatible controller: Advanced Micro Devices, Inc. [AMD/ATI] Renoir (rev c6)", True),
        ("05:00.0 VGA compatible controller: Advanced Micro Devices, Inc. [AMD/ATI] Strix [Radeon 880M / 890M] (rev c1)", True),
        ("05:00.0 VGA compatible controller: Advanced Micro Devices, Inc. [AMD/ATI] Navi 21 [Radeon RX 6800 XT]", False),
        ("00:02.0 VGA compatible controller: Intel Corporation TigerLake-LP GT2 [Iris Xe Graphics]", True),
        ("00:02.0 VGA compatible controller: Intel Corporation Xeon E3-1200 v3/4th Gen Core Processor Integrated Graphics Controller", True),
        ("03:00.0 VGA compatible controller: Intel Corporation DG2 [Arc A770]", False),
        ("01:00.0 VGA compatible controller: NVIDIA Corporation GA102 [GeForce RTX 3090]", False),
    ],
)  # fmt: skip
def test_whether_a_gpu_is_integrated_is_told_by_its_name(
    tmp_path: Path, line: str, integrated: bool
) -> None:
    (device,) = machine_of(tmp_path, lspci__txt=line + "\n").devices
    assert known(device.integrated) is integrated


@pytest.mark.parametrize(
    ("files", "integrated"),
    [
        ({"rocm-smi__txt": "GPU[0]\t\t: GFX Version: \t\tgfx1103\n"}, True),
        ({"rocm-smi__txt": "GPU[0]\t\t: GFX Version: \t\tgfx90a\n"}, False),
        ({"sycl-ls__txt": "[opencl:0] GPU : Intel(R) OpenCL HD Graphics 3.0 [21.33.20678]\n"}, True),
        ({"nvidia-smi-query-gpu__csv": "name, compute_cap\nNVIDIA Graphics Device, 8.7\n"}, True),
        ({"nvidia-smi-L__txt": "GPU 0: NVIDIA Thor (UUID: GPU-88b1d6aa-9bbf-4bd8-b3a8-6a8e7f2d0d24)\n"}, True),
    ],
)  # fmt: skip
def test_whether_a_gpu_is_integrated_is_told_by_architecture_and_platform(
    tmp_path: Path, files: dict[str, str], integrated: bool
) -> None:
    (device,) = machine_of(tmp_path, **files).devices
    assert known(device.integrated) is integrated


# The kernel's own words and links


@pytest.mark.parametrize("name", ["dmesg__txt", "journalctl-k__txt", "kern__log"])
def test_kernel_lines_show_cards(tmp_path: Path, name: str) -> None:
    text = (
        "[    4.511111] [drm] initializing kernel modesetting (NAVI21 0x1002:0x73BF 0x1DA2:0x438E 0xC1).\n"
        "[    4.611111] amdgpu 0000:0b:00.0: amdgpu: VRAM: 16368M 0x0000008000000000 - 0x00000083FEFFFFFF (16368M used)\n"
        "[    5.011111] [drm] Initialized amdgpu 3.42.0 20150101 for 0000:0b:00.0 on minor 0\n"
        "[    5.511111] [drm] Initialized i915 1.6.0 20201103 for 0000:00:02.0 on minor 1\n"
    )
    devices = machine_of(tmp_path, **{name: text}).devices
    assert {known(device.pci_address) for device in devices} == {"0000:0b:00.0", "0000:00:02.0"}
    amd = next(device for device in devices if device.vendor == "amd")
    assert known(amd.pci_id) == "1002:73bf" and known(amd.memory_total_bytes) == 16368 * MIB
    driver = known(amd.driver)
    assert driver and driver.name == "amdgpu"


def test_kernel_that_lost_a_gpu_and_one_of_another_version(tmp_path: Path) -> None:
    fallen = "[ 100.000001] NVRM: Xid (PCI:0000:01:00): 79, pid='<unknown>', GPU has fallen off the bus.\n"
    machine = machine_of(tmp_path, dmesg__txt=fallen)
    assert machine.error and machine.error.kind == "gpu_lost"
    assert [known(device.pci_address) for device in machine.devices] == ["0000:01:00.0"]
    mismatch = (
        "[ 9.000001] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.54.03  Tue Jun  6 22:20:39 UTC 2023\n"
        "[ 99.000001] NVRM: API mismatch: the client has the version 535.104.05, but this kernel module has the version 535.54.03.\n"
    )
    machine = machine_of(tmp_path, dmesg__txt=mismatch)
    assert machine.error and machine.error.kind == "version_mismatch"


def test_links_of_connectors_lead_to_the_cards(tmp_path: Path) -> None:
    write(
        tmp_path,
        **{
            "sys/class/drm/card1-DP-1.link": "../../devices/pci0000:00/0000:00:03.1/0000:0b:00.0/drm/card1/card1-DP-1",
            "sys/class/drm/card1-HDMI-A-1.link": "../../devices/pci0000:00/0000:00:03.1/0000:0b:00.0/drm/card1/card1-HDMI-A-1",
            "sys/class/drm/renderD129.link": "../../devices/pci0000:00/0000:00:02.0/drm/renderD129",
            "sys/devices/pci0000:00/0000:00:03.1/0000:0b:00.0/vendor": "0x1002\n",
            "sys/devices/pci0000:00/0000:00:03.1/0000:0b:00.0/device": "0x73bf\n",
            "sys/devices/pci0000:00/0000:00:02.0/driver.link": "../../../bus/pci/drivers/i915",
        },
    )
    devices = detect_machine(SnapshotProbe(tmp_path)).devices
    assert [shown(device) for device in devices] == [
        ("amd", "0000:0b:00.0", "1002:73bf"),
        ("intel", "0000:00:02.0", None),
    ]


def test_card_whose_folder_was_copied_has_its_place_from_its_connectors(tmp_path: Path) -> None:
    files = {
        "sys/class/drm/card0/device/vendor": "0x1002\n",
        "sys/class/drm/card0/device/device": "0x73bf\n",
        "sys/class/drm/card0/device/mem_info_vram_total": "17163091968\n",
    }
    write(tmp_path, **files)
    (device,) = detect_machine(SnapshotProbe(tmp_path)).devices
    assert shown(device) == ("amd", None, "1002:73bf")
    assert known(device.memory_total_bytes) == 17163091968
    link = "../../devices/pci0000:00/0000:00:03.1/0000:0b:00.0/drm/card0/card0-DP-1"
    write(tmp_path, **{"sys/class/drm/card0-DP-1.link": link})
    (device,) = detect_machine(SnapshotProbe(tmp_path)).devices
    assert shown(device) == ("amd", "0000:0b:00.0", "1002:73bf")


def test_version_of_the_kernel_module_alone_shows_a_gpu_and_its_driver(tmp_path: Path) -> None:
    version = (
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.54.03  Tue Jun  6 22:20:39 UTC 2023\n"
    )
    write(tmp_path, **{"proc/driver/nvidia/version": version})
    (device,) = detect_machine(SnapshotProbe(tmp_path)).devices
    driver = known(device.driver)
    assert device.vendor == "nvidia" and driver and driver.version == "535.54.03"
    lspci = "".join(
        f"0{n}:00.0 3D controller [0302]: NVIDIA Corporation GA100 [A100] [10de:20b0]\n"
        for n in (1, 2)
    )
    devices = machine_of(tmp_path, **{"lspci-nn__txt": lspci}).devices
    assert [known(d.driver) and known(d.driver).version for d in devices] == ["535.54.03"] * 2  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("Xorg__0__log", "[    20.1] (--) PCI:*(1@0:0:0) 10de:2204:1458:403b rev 161, Mem @ 0xa3000000/16777216\n", ("nvidia", "0000:01:00.0", "10de:2204")),
        ("glxinfo-B__txt", "OpenGL renderer string: AMD Radeon RX 6800 XT (radeonsi, navi21, LLVM 15.0.7)\n", ("amd", None, None)),
        ("hipinfo__txt", "Name:                             AMD Radeon RX 7900 XTX\ntotalGlobalMem:                   23.98 GB\ngcnArchName:                      gfx1100\n", ("amd", None, None)),
        ("inxi-Gx__txt", "Graphics:\n  Device-1: AMD Navi 21 driver: amdgpu v: kernel bus-ID: 0b:00.0 chip-ID: 1002:73bf\n", ("amd", "0000:0b:00.0", "1002:73bf")),
        ("hwinfo--gfxcard__txt", "19: PCI 100.0: 0300 VGA compatible controller (VGA)\n  SysFS BusID: 0000:01:00.0\n  Vendor: pci 0x10de \"nVidia Corporation\"\n  Device: pci 0x2204 \"GA102\"\n  Driver: \"nvidia\"\n", ("nvidia", "0000:01:00.0", "10de:2204")),
        ("kubectl-describe-node__txt", "nvidia.com/gpu.product=NVIDIA-A100-SXM4-40GB\nnvidia.com/gpu.count=1\nnvidia.com/cuda.driver.major=535\nnvidia.com/cuda.driver.minor=54\nnvidia.com/cuda.driver.rev=03\n", ("nvidia", None, None)),
        ("torch-collect-env__txt", "Is CUDA available: True\nGPU models and configuration: GPU 0: NVIDIA L4\nNvidia driver version: 535.54.03\n", ("nvidia", None, None)),
    ],
)  # fmt: skip
def test_files_of_other_tools_in_a_snapshot_are_read(
    tmp_path: Path, name: str, text: str, expected: tuple[object, ...]
) -> None:
    (device,) = machine_of(tmp_path, **{name: text}).devices
    assert shown(device) == expected


# Windows by nvidia-smi alone, and garbage


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("nvidia-smi__txt", HEADING.replace("|---", "| GPU  Name            TCC/WDDM |\n|---", 1) + "|   0  GeForce GT 740M    WDDM  | 00000000:0A:00.0 N/A |                  N/A |\n"),
        ("nvidia-smi-q__txt", "==============NVSMI LOG==============\nDriver Version   : 516.59\nGPU 00000000:01:00.0\n    Product Name : NVIDIA T4\n    Driver Model\n        Current                    : WDDM\n"),
        ("nvidia-smi-q__xml", "<nvidia_smi_log><gpu id=\"00000000:01:00.0\"><product_name>NVIDIA T4</product_name><driver_model><current_dm>TCC</current_dm></driver_model></gpu></nvidia_smi_log>"),
    ],
)  # fmt: skip
def test_windows_is_known_by_nvidia_smi_alone(tmp_path: Path, name: str, text: str) -> None:
    machine = machine_of(tmp_path, **{name: text})
    assert known(machine.host.platform) == "windows" and len(machine.devices) == 1
    write(tmp_path, **{"proc/version": "Linux version 5.15.90.1-microsoft-standard-WSL2\n"})
    assert known(detect_machine(SnapshotProbe(tmp_path)).host.platform) == "wsl2"


@pytest.mark.parametrize(
    "text", ["\x00\x01\ufffd\ufffd\x02 asdf\n", "Segmentation fault (core dumped)\n", "Killed\n"]
)
def test_garbage_of_nvidia_smi_is_a_failure(tmp_path: Path, text: str) -> None:
    machine = machine_of(tmp_path, **{"nvidia-smi__txt": text})
    assert machine.status == "driver_error"
    assert machine.error and machine.error.kind == "tool_failed"


def test_nvidia_smi_that_is_not_installed_is_no_failure(tmp_path: Path) -> None:
    machine = machine_of(tmp_path, **{"nvidia-smi__txt": "bash: nvidia-smi: command not found\n"})
    assert machine.status == "no_gpu" and not machine.failures
