"""Outputs of other releases than the recorded ones, as their tools print them."""

# ruff: noqa: E501 - outputs stand here as their tools print them

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuforge.detect import detect_machine
from gpuforge.facts import Absent, Device, Machine, known
from gpuforge.probe import SnapshotProbe

MIB = 2**20
GIB = 2**30


def machine_of(folder: Path, name: str, text: str) -> Machine:
    """Return the machine of one output."""
    (folder / name).write_text(text)
    return detect_machine(SnapshotProbe(folder))


def shown(device: Device, *fields: str) -> dict[str, Any]:
    return {field: known(getattr(device, field)) for field in fields}


def assert_device(device: Device, **expected: Any) -> None:
    found = shown(device, *(set(expected) - {"driver", "runtime"}))
    if "driver" in expected:
        driver = known(device.driver)
        found["driver"] = known(driver.version) if driver else None
    if "runtime" in expected:
        found["runtime"] = known(device.runtimes[0].version) if device.runtimes else None
    assert found == expected


TABLE_304 = """\
+------------------------------------------------------+
| NVIDIA-SMI 4.304.54   Driver Version: 304.54         |
|-------------------------------+----------------------+----------------------+
| GPU  Name                     | Bus-Id        Disp.  | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap| Memory-Usage         | GPU-Util  Compute M. |
|===============================+======================+======================|
|   0  Tesla C2050              | 0000:06:00.0     On  |                    0 |
| 30%   52C    P0    N/A /  N/A |   3%   78MB / 2687MB |      0%      Default |
+-------------------------------+----------------------+----------------------+
|   1  GeForce GTX 690          | 0000:09:00.0     N/A |                  N/A |
| 33%   42C  N/A     N/A /  N/A |   7%  150MB / 2047MB |     N/A      Default |
+-------------------------------+----------------------+----------------------+
"""
TABLE_DOMAIN = """\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 560.35.03              Driver Version: 560.35.03      CUDA Version: 12.6     |
|-----------------------------------------+------------------------+----------------------+
|   0  NVIDIA GH200 480GB             On  |   00000009:01:00.0 Off |                    0 |
| N/A   29C    P0             68W /  900W |       1MiB /  97871MiB |      0%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+
|  12  NVIDIA H100 80GB HBM3          On  |   00010000:1B:00.0 Off |                    0 |
| N/A   29C    P0             68W /  700W |       1MiB /  81559MiB |      0%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+
"""
QUERY_304 = """
==============NVSMI LOG==============

Timestamp                       : Wed Jan  2 10:02:00 2013
Driver Version                  : 304.54

Attached GPUs                   : 1
GPU 0000:05:00.0
    Product Name                : Tesla K10.G1.8GB
    Display Mode                : Disabled
    Driver Model
        Current                 : N/A
        Pending                 : N/A
    Serial Number               : N/A
    GPU UUID                    : GPU-88b1d6aa-9bbf-4bd8-b3a8-6a8e7f2d0d24
    PCI
        Bus                     : 0x05
        Device                  : 0x00
        Domain                  : 0x0000
        Device Id               : 0x118F10DE
        Bus Id                  : 0000:05:00.0
    Fan Speed                   : N/A
    Memory Usage
        Total                   : 3583 MB
        Used                    : 7 MB
        Free                    : 3576 MB
    Compute Mode                : Default
"""
XML_OLD = """<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v4.dtd">
<nvidia_smi_log><driver_version>319.37</driver_version><attached_gpus>1</attached_gpus>
<gpu id="0000:03:00.0"><product_name>Tesla K20c</product_name><uuid>GPU-88b1d6aa-9bbf-4bd8-b3a8-6a8e7f2d0d24</uuid>
<pci><pci_bus_id>0000:03:00.0</pci_bus_id><pci_device_id>102210DE</pci_device_id></pci>
<memory_usage><total>4799 MB</total><used>11 MB</used><free>4788 MB</free></memory_usage></gpu></nvidia_smi_log>
"""


def test_nvidia_table_in_megabytes(tmp_path: Path) -> None:
    one, two = machine_of(tmp_path, "nvidia-smi.txt", TABLE_304).devices
    assert_device(one, name="Tesla C2050", memory_total_bytes=2687 * MIB, driver="304.54")
    assert_device(two, pci_address="0000:09:00.0", memory_total_bytes=2047 * MIB)


def test_nvidia_table_with_gaps_and_long_domains(tmp_path: Path) -> None:
    one, two = machine_of(tmp_path, "nvidia-smi.txt", TABLE_DOMAIN).devices
    assert_device(one, pci_address="0009:01:00.0", memory_total_bytes=97871 * MIB, partitions=())
    assert_device(two, pci_address="10000:1b:00.0", name="NVIDIA H100 80GB HBM3")


def test_nvidia_table_in_utf16_as_powershell_redirects(tmp_path: Path) -> None:
    (tmp_path / "nvidia-smi.txt").write_bytes(TABLE_304.encode("utf-16"))
    assert len(detect_machine(SnapshotProbe(tmp_path)).devices) == 2


@pytest.mark.parametrize("form", ["as printed", "without indentation"])
def test_nvidia_query_of_an_old_driver(tmp_path: Path, form: str) -> None:
    text = QUERY_304
    if form == "without indentation":
        text = "\n".join(line.strip() for line in text.splitlines())
    (device,) = machine_of(tmp_path, "nvidia-smi-q.txt", text).devices
    assert_device(
        device,
        name="Tesla K10.G1.8GB",
        pci_id="10de:118f",
        memory_total_bytes=3583 * MIB,
        uuid="GPU-88b1d6aa-9bbf-4bd8-b3a8-6a8e7f2d0d24",
        driver="304.54",
    )


def test_nvidia_xml_of_an_old_driver(tmp_path: Path) -> None:
    (device,) = machine_of(tmp_path, "nvidia-smi-q.xml", XML_OLD).devices
    assert_device(device, name="Tesla K20c", memory_total_bytes=4799 * MIB, pci_id="10de:1022")


@pytest.mark.parametrize(
    "text",
    [
        "index, uuid, memory.total [MiB], pci.bus_id\n0, GPU-88b1d6aa-9bbf-4bd8-b3a8-6a8e7f2d0d24, 24564 MiB, 00000000:01:00.0\n",
        "0, NVIDIA GeForce RTX 4090, 00000000:01:00.0, 24564 MiB, 23000 MiB, 8.9, 535.86.05\n",
        "NVIDIA GeForce RTX 4090, 24564 MiB, GPU-88b1d6aa-9bbf-4bd8-b3a8-6a8e7f2d0d24, 00000000:01:00.0\n",
    ],
)
def test_nvidia_csv_with_other_columns_and_without_heading(tmp_path: Path, text: str) -> None:
    (device,) = machine_of(tmp_path, "nvidia-smi-query-gpu.csv", text).devices
    assert_device(device, memory_total_bytes=24564 * MIB, pci_address="0000:01:00.0")


def test_nvidia_list_with_serials_and_topology_alone(tmp_path: Path) -> None:
    listing = "GPU 0: Tesla K20m (S/N: 0325212070012)\nGPU 1: Tesla K20m (S/N: 0325212070013)\n"
    devices = machine_of(tmp_path, "nvidia-smi-L.txt", listing).devices
    assert [known(device.name) for device in devices] == ["Tesla K20m"] * 2
    (tmp_path / "nvidia-smi-L.txt").unlink()
    topology = (
        "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tNV18\tPIX\t0-55\t0\n"
        "GPU1\tNV18\t X \tSYS\t0-55\t0\nNIC0\tPIX\tSYS\t X \n\nLegend:\n\n  X    = Self\n"
    )
    assert len(machine_of(tmp_path, "nvidia-smi-topo-m.txt", topology).devices) == 2


def test_nvidia_list_that_ends_at_a_lost_gpu(tmp_path: Path) -> None:
    text = (
        "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-88b1d6aa-9bbf-4bd8-b3a8-6a8e7f2d0d24)\n"
        "Unable to determine the device handle for gpu 0000:87:00.0: Unknown Error\n"
    )
    machine = machine_of(tmp_path, "nvidia-smi-L.txt", text)
    assert len(machine.devices) == 1
    assert [failure.kind for failure in machine.failures] == ["gpu_lost"]


def test_nvidia_library_that_is_missing_is_a_driver_that_is_not_loaded(tmp_path: Path) -> None:
    text = (
        "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. Please make sure that the "
        "NVIDIA Display Driver is properly installed and present in your system.\n"
    )
    machine = machine_of(tmp_path, "nvidia-smi.txt", text)
    assert machine.error and machine.error.kind == "driver_not_loaded"


def test_nvidia_proc_of_old_and_new_drivers(tmp_path: Path) -> None:
    proc = tmp_path / "sysroot/proc/driver/nvidia"
    (proc / "gpus/0").mkdir(parents=True)
    (proc / "gpus/0/information").write_text(
        "Model: \t\t Tesla K20m\nIRQ:   \t\t 40\nGPU UUID: \t GPU-????????-????-????-????-????????????\n"
        "Video BIOS: \t 80.10.11\nBus Type: \t PCIe\nBus Location: \t 0000:03.00.0\n"
    )
    (proc / "version").write_text(
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  555.42.02  Release Build\n"
    )
    (device,) = detect_machine(SnapshotProbe(tmp_path)).devices
    assert_device(
        device, name="Tesla K20m", pci_address="0000:03:00.0", uuid=None, driver="555.42.02"
    )


def test_jetson_by_its_release_file(tmp_path: Path) -> None:
    (tmp_path / "sysroot/etc").mkdir(parents=True)
    (tmp_path / "sysroot/etc/nv_tegra_release").write_text("# R35 (release), REVISION: 4.1\n")
    machine = detect_machine(SnapshotProbe(tmp_path))
    (device,) = machine.devices
    assert known(device.integrated) is True and known(machine.host.platform) == "jetson"


ROCM_60 = """\
========================================= ROCm System Management Interface =========================================
=================================================== Concise Info ===================================================
Device  [Model : Revision]    Temp        Power     Partitions      SCLK     MCLK     Fan  Perf  PwrCap  VRAM%  GPU%
        Name (20 chars)       (Junction)  (Socket)  (Mem, Compute)
====================================================================================================================
0       [0x0b0c : 0x00]       35.0°C      132.0W    NPS1, SPX       132Mhz   900Mhz   0%   auto  750.0W    0%   0%
        AMD Instinct MI300X
1       [0x0b0c : 0x00]       36.0°C      131.0W    NPS1, SPX       132Mhz   900Mhz   0%   auto  750.0W    0%   0%
        AMD Instinct MI300X
====================================================================================================================
"""
ROCM_PRODUCT = """\
GPU[0]\t\t: Card Series: \t\tAMD Instinct MI210
GPU[0]\t\t: Card Model: \t\t0x740f
GPU[0]\t\t: Card Vendor: \t\tAdvanced Micro Devices, Inc. [AMD/ATI]
GPU[0]\t\t: Card SKU: \t\tD67301V
GPU[0]\t\t: Subsystem ID: \t0x0c34
GPU[0]\t\t: GFX Version: \t\tgfx90a
"""


def test_rocm_smi_of_release_6(tmp_path: Path) -> None:
    assert len(machine_of(tmp_path, "rocm-smi.txt", ROCM_60).devices) == 2
    (device,) = machine_of(tmp_path, "rocm-smi.txt", ROCM_PRODUCT).devices
    assert_device(device, name="AMD Instinct MI210", pci_id="1002:740f", architecture="gfx90a")


def test_amd_smi_list_in_its_forms(tmp_path: Path) -> None:
    forms = {
        "amd-smi-list.txt": "GPU: 0\n    BDF: 0000:23:00.0\n    UUID: 4dff74a1-0000-1000-80d2-5c0ef1d4bb5a\n    KFD_ID: 45412\n    NODE_ID: 1\n",
        "amd-smi-list.json": '[{"gpu": 0, "bdf": "0000:23:00.0", "uuid": "4dff74a1-0000-1000-80d2-5c0ef1d4bb5a"}]',
        "amd-smi-list.csv": "gpu,gpu_bdf,gpu_uuid\n0,0000:23:00.0,4dff74a1-0000-1000-80d2-5c0ef1d4bb5a\n",
    }
    for name, text in forms.items():
        (tmp_path / name).write_text(text)
        (device,) = detect_machine(SnapshotProbe(tmp_path)).devices
        expected = {"pci_address": "0000:23:00.0", "uuid": "4dff74a1-0000-1000-80d2-5c0ef1d4bb5a"}
        assert_device(device, **expected)
        (tmp_path / name).unlink()


def test_amd_smi_csv_and_an_older_json(tmp_path: Path) -> None:
    csv = (
        "gpu,market_name,vendor_id,device_id,target_graphics_version,bdf,size\n"
        "0,AMD Instinct MI300X,0x1002,0x74a1,gfx942,0000:0C:00.0,196592\n"
    )
    json = """[{"gpu": 0, "asic": {"market_name": "AMD Instinct MI300X", "family": 141, "device_id": "0x74a1"},
      "bus": {"bdf": "0000:0C:00.0"}, "driver": {"driver_name": "amdgpu", "driver_version": "6.2.4"},
      "vram": {"vram_type": "HBM", "vram_vendor": "HYNIX", "vram_size_mb": 196592}}]"""
    for name, text in (("amd-smi-static.csv", csv), ("amd-smi-static.json", json)):
        (tmp_path / name).write_text(text)
        (device,) = detect_machine(SnapshotProbe(tmp_path)).devices
        assert_device(
            device,
            name="AMD Instinct MI300X",
            pci_address="0000:0c:00.0",
            pci_id="1002:74a1",
            architecture="gfx942",
            memory_total_bytes=196592 * MIB,
        )
        (tmp_path / name).unlink()


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: WARNING: User is missing the following required groups: render, video. Please add user to these groups.\n",
        "Permission needed to access required GPU device node(s):\n  - /dev/dri/card0: Permission denied; owner=root(0):video(39);\n",
    ],
)
def test_amd_smi_without_permission(tmp_path: Path, text: str) -> None:
    machine = machine_of(tmp_path, "amd-smi.txt", text)
    assert machine.error and machine.error.kind == "kfd_permission"


def test_amdgpu_card_without_uevent(tmp_path: Path) -> None:
    place = "../../../0000:0b:00.0"
    card = tmp_path / "sysroot/sys/class/drm/card1"
    device = tmp_path / "sysroot/sys/class/drm/0000:0b:00.0"
    card.mkdir(parents=True)
    device.mkdir()
    (card / "device.link").write_text("../0000:0b:00.0")
    for name, text in {
        "vendor": "0x1002\n", "device": "0x744c\n", "class": "0x030000\n",
        "mem_info_vram_total": "25753026560\n", "mem_info_vram_used": "1000000000\n",
        "driver.link": "../../bus/pci/drivers/amdgpu",
    }.items():  # fmt: skip
        (device / name).write_text(text)
    (found,) = detect_machine(SnapshotProbe(tmp_path)).devices
    assert_device(found, pci_id="1002:744c", memory_total_bytes=25753026560)
    assert place.rpartition("/")[2] == known(found.pci_address)


def test_sycl_ls_of_every_age_and_vendor(tmp_path: Path) -> None:
    oldest = (
        "[opencl:0] GPU : Intel(R) OpenCL HD Graphics 3.0 [21.33.20678]\n"
        "[level_zero:0] GPU : Intel(R) Level-Zero 1.1 [1.1.20678]\n"
    )
    (device,) = machine_of(tmp_path, "sycl-ls.txt", oldest).devices
    assert_device(device, name=None, runtime="1.1.20678")
    newest = (
        "[level_zero:gpu][level_zero:0] Intel(R) oneAPI Unified Runtime over Level-Zero V2, Intel(R) Arc(TM) B580 Graphics 20.1.0 [1.6.32224]\n"
        "[cuda:gpu][cuda:0] NVIDIA CUDA BACKEND, NVIDIA GeForce RTX 4090 8.9 [CUDA 12.4]\n"
        "[hip:gpu][hip:0] AMD HIP BACKEND, AMD Radeon RX 7900 XTX gfx1100 [HIP 60342.13]\n"
    )
    devices = machine_of(tmp_path, "sycl-ls.txt", newest).devices
    assert [(device.vendor, known(device.name)) for device in devices] == [
        ("intel", "Intel(R) Arc(TM) B580 Graphics"),
        ("nvidia", "NVIDIA GeForce RTX 4090"),
        ("amd", "AMD Radeon RX 7900 XTX"),
    ]


def test_xpu_smi_dump_and_errors(tmp_path: Path) -> None:
    dump = (
        "Device Name,SOC UUID,PCI BDF Address,Memory Physical Size\n"
        '"Intel(R) Arc(TM) Pro B60 Graphics","00000000-0000-0003-0000-0000e2118086","0000:03:00.0","24480.00 MiB"\n'
    )
    (device,) = machine_of(tmp_path, "xpu-smi-discovery-dump.csv", dump).devices
    assert_device(device, pci_address="0000:03:00.0", memory_total_bytes=24480 * MIB)
    (tmp_path / "xpu-smi-discovery-dump.csv").unlink()
    for text, kind in (
        ('{"error": "Level Zero Initialization Error", "errno": 1}', "driver_not_loaded"),
        ("zeInit failed: ZE_RESULT_ERROR_INSUFFICIENT_PERMISSIONS", "no_level_zero_permission"),
    ):
        machine = machine_of(tmp_path, "xpu-smi-discovery.txt", text)
        assert machine.error and machine.error.kind == kind


def test_panther_lake_is_part_of_its_processor(tmp_path: Path) -> None:
    line = "[level_zero:gpu][level_zero:0] Intel(R) Level-Zero, Intel(R) Arc(TM) B390 Graphics 30.0.4 [1.13.1]\n"
    (device,) = machine_of(tmp_path, "sycl-ls.txt", line).devices
    assert_device(device, integrated=True, architecture="panther lake")


CLINFO_AMD = """\
Number of platforms:\t\t\t\t 1
  Platform Name:\t\t\t\t AMD Accelerated Parallel Processing
Number of devices:\t\t\t\t 1
  Device Type:\t\t\t\t\t CL_DEVICE_TYPE_GPU
  Vendor ID:\t\t\t\t\t 1002h
  Board name:\t\t\t\t\t AMD Radeon RX 6800 XT
  Device Topology:\t\t\t\t PCI[ B#45, D#0, F#0 ]
  Global memory size:\t\t\t\t 17163091968
  Unified memory for Host and Device:\t\t 0
  Platform ID:\t\t\t\t\t 0x7f0a1c7f5d30
  Name:\t\t\t\t\t\t gfx1030
  Vendor:\t\t\t\t\t Advanced Micro Devices, Inc.
  Driver version:\t\t\t\t 3513.0 (HSA1.1,LC)
  Version:\t\t\t\t\t OpenCL 2.0
"""


def test_clinfo_as_amd_writes_it(tmp_path: Path) -> None:
    (device,) = machine_of(tmp_path, "clinfo.txt", CLINFO_AMD).devices
    assert device.vendor == "amd"
    expected = {"pci_address": "0000:2d:00.0", "architecture": "gfx1030"}
    assert_device(device, name="AMD Radeon RX 6800 XT", memory_total_bytes=17163091968, **expected)


PLIST = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0"><array><dict><key>_dataType</key><string>SPDisplaysDataType</string>
<key>_items</key><array><dict><key>_name</key><string>Apple M1 Pro</string>
<key>sppci_model</key><string>Apple M1 Pro</string><key>sppci_bus</key><string>spdisplays_builtin</string>
<key>spdisplays_vendor</key><string>sppci_vendor_Apple</string><key>sppci_cores</key><string>16</string>
<key>spdisplays_mtlgpufamilysupport</key><string>spdisplays_metal3</string></dict></array></dict></array></plist>
"""


def test_system_profiler_as_a_property_list(tmp_path: Path) -> None:
    machine = machine_of(tmp_path, "system_profiler.xml", PLIST)
    (device,) = machine.devices
    assert device.vendor == "apple" and device.runtimes[0].name == "metal"
    assert_device(device, name="Apple M1 Pro", architecture="apple7", integrated=True)
    (cut,) = machine_of(tmp_path, "system_profiler.xml", PLIST[:400]).devices
    assert_device(cut, name="Apple M1 Pro")
    assert machine_of(tmp_path, "system_profiler.xml", PLIST[:250]).devices == ()


def test_system_profiler_vendor_written_out(tmp_path: Path) -> None:
    text = (
        "Graphics/Displays:\n\n    Intel Iris Pro:\n\n      Chipset Model: Intel Iris Pro\n      Bus: Built-In\n"
        "      VRAM (Dynamic, Max): 1536 MB\n      Vendor: Intel Corporation (0x8086)\n      Device ID: 0x0d26\n\n"
        "    NVIDIA GeForce GT 750M:\n\n      Chipset Model: NVIDIA GeForce GT 750M\n      Bus: PCIe\n"
        "      VRAM (Total): 2048 MB\n      Vendor: NVIDIA Corporation (0x10de)\n      Device ID: 0x0fe9\n"
    )
    one, two = machine_of(tmp_path, "system_profiler.txt", text).devices
    assert (one.vendor, two.vendor) == ("intel", "nvidia")
    assert_device(two, memory_total_bytes=2 * GIB, pci_id="10de:0fe9", integrated=False)


WMI_FORMS = {
    "wmic.txt": (
        "AdapterRAM  DriverVersion   Name                         PNPDeviceID                                         \n"
        "2147483648  31.0.15.1694    NVIDIA GeForce GTX 950       PCI\\VEN_10DE&DEV_1402&SUBSYS_0&REV_A1\\4&1          \n"
    ),
    "wmic-csv.txt": (
        "\nNode,AdapterRAM,DriverVersion,Name,PNPDeviceID\n"
        "PC,2147483648,31.0.15.1694,NVIDIA GeForce GTX 950,PCI\\VEN_10DE&amp;DEV_1402&amp;SUBSYS_0&amp;REV_A1\\4&amp;1\n"
    ),
    "Get-CimInstance.csv": (
        '#TYPE Microsoft.Management.Infrastructure.CimInstance#root/cimv2/Win32_VideoController\n'
        '"Name","AdapterRAM","DriverVersion","PNPDeviceID"\n'
        '"NVIDIA GeForce GTX 950","2147483648","31.0.15.1694","PCI\\VEN_10DE&DEV_1402&SUBSYS_0&REV_A1\\4&1"\n'
    ),
    "win32_videocontroller.txt": (
        "\nName                   AdapterRAM DriverVersion\n----                   ---------- -------------\n"
        "NVIDIA GeForce GTX 950 2147483648 31.0.15.1694\n\n"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WMI_FORMS)
def test_wmi_as_table_and_csv(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(WMI_FORMS[name])
    machine = detect_machine(SnapshotProbe(tmp_path))
    (device,) = machine.devices
    assert_device(
        device,
        name="NVIDIA GeForce GTX 950",
        memory_total_bytes=2 * GIB,
        driver="31.0.15.1694",
    )
    assert known(machine.host.platform) == "windows"


DXDIAG = """\
---------------
Display Devices
---------------
           Card name: NVIDIA GeForce RTX 3080
        Manufacturer: NVIDIA
           Chip type: NVIDIA GeForce RTX 3080
            DAC type: Integrated RAMDAC
         Device Type: Full Device (POST)
          Device Key: Enum\\PCI\\VEN_10DE&DEV_2206&SUBSYS_16121234&REV_A1
      Display Memory: 26462 MB
    Dedicated Memory: 10067 MB
       Shared Memory: 16395 MB
      Driver Version: 30.0.15.1165

           Card name: NVIDIA GeForce RTX 3080
          Device Key: Enum\\PCI\\VEN_10DE&DEV_2206&SUBSYS_16121234&REV_A1
    Dedicated Memory: 10067 MB
      Driver Version: 30.0.15.1165

           Card name: Intel(R) UHD Graphics 770
          Device Key: Enum\\PCI\\VEN_8086&DEV_4680&SUBSYS_86941043&REV_0C
    Dedicated Memory: 128 MB
      Driver Version: 30.0.101.1340
"""


def test_dxdiag_shows_each_adapter_once(tmp_path: Path) -> None:
    one, two = machine_of(tmp_path, "dxdiag.txt", DXDIAG).devices
    assert_device(one, pci_id="10de:2206", memory_total_bytes=10067 * MIB, driver="30.0.15.1165")
    assert_device(two, pci_id="8086:4680", integrated=True)
    assert isinstance(two.memory_total_bytes, Absent)
