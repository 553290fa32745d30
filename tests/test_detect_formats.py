"""Forms of output that the recorded machines do not all show: old, new, cut, renamed."""

# ruff: noqa: E501 - outputs stand here as their tools print them

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from gpuforge import registry
from gpuforge.detect import (
    amd_tools,
    apple,
    detect_machine,
    intel,
    notation,
    nvidia_smi,
    opencl,
    pci_ids,
    pci_text,
    windows,
)
from gpuforge.facts import Absent, Machine, Vendor, known
from gpuforge.probe import SnapshotProbe

MIB = 2**20


def machine_of(folder: Path, **files: str) -> Machine:
    for name, text in files.items():
        path = folder / name.replace("__", ".").replace("_", "-")
        path.write_text(text)
    return detect_machine(SnapshotProbe(folder))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("00000000:01:00.0", "0000:01:00.0"),
        ("0000000F:01:00.0", "000f:01:00.0"),
        ("10000:00:02.0", "10000:00:02.0"),
        ("01:00.0", "0000:01:00.0"),
        ("2DE1:00:00.0", "2de1:00:00.0"),
        ("N/A", None),
        ("0000:01:3f.0", None),
        ("12:34:56.789", None),
    ],
)
def test_pci_address_in_every_notation(text: str, expected: str | None) -> None:
    assert notation.pci_address(text) == expected


@pytest.mark.parametrize(
    "text",
    ["N/A", "[N/A]", "[Not Supported]", "Not Supported", "ERR!", "[Unknown Error]", "", "None",
     "GPU is lost", "[GPU requires reset]", "Requested functionality has been deprecated", "-", "--",
     "Insufficient Permissions", "[Insufficient Permissions]", "GPU-XX", "unknown"],
)  # fmt: skip
def test_every_word_for_nothing_is_nothing(text: str) -> None:
    assert notation.word(text) is None


@pytest.mark.parametrize(
    ("text", "unit", "expected"),
    [
        ("8192 MiB", "", 8192 * MIB),
        ("8192MiB", "", 8192 * MIB),
        ("8192", "M", 8192 * MIB),
        ("14336.00 MiB", "", 14336 * MIB),
        ("8 GB", "", 8 * 2**30),
        ("0 MiB", "", None),
        ("-1", "", None),
        ("9" * 30, "", None),
    ],
)
def test_size_in_every_unit(text: str, unit: str, expected: int | None) -> None:
    assert notation.size(text, unit) == expected


def test_gfx_target_version_prints_hex_digits() -> None:
    pairs = {
        90010: "gfx90a",
        90402: "gfx942",
        110003: "gfx1103",
        120001: "gfx1201",
        90012: "gfx90c",
    }
    assert {number: notation.gfx_of_target(number) for number in pairs} == pairs
    assert notation.gfx_of_target(0) is None


OLD_TABLE = """\
+------------------------------------------------------+
| NVIDIA-SMI 340.29     Driver Version: 340.29         |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|===============================+======================+======================|
|   0  Tesla K20m          On   | 0000:03:00.0     Off |                    0 |
| N/A   26C    P8    17W / 225W |     11MiB /  4799MiB |      0%      Default |
+-------------------------------+----------------------+----------------------+
|   2  Tesla K20m          On   | 0000:84:00.0     Off |                 ERR! |
|ERR!   ERR!   ERR!  N/A / ERR! |     11MiB /  4799MiB |     ERR!     Default |
+-------------------------------+----------------------+----------------------+
| Compute processes:                                               GPU Memory |
|  GPU       PID  Process name                                     Usage      |
|=============================================================================|
|    0      1234  ./a.out                                          11MiB      |
"""


def test_nvidia_table_of_an_old_driver_with_a_gap_and_errors() -> None:
    report = nvidia_smi.parse(OLD_TABLE)
    assert report.driver == "340.29" and report.runtime is None
    assert [device["pci_address"] for device in report.devices] == ["0000:03:00.0", "0000:84:00.0"]
    assert {device["memory_total_bytes"] for device in report.devices} == {4799 * MIB}


ORIN = """\
+---------------------------------------------------------------------------------------+
| NVIDIA-SMI 540.3.0                Driver Version: N/A          CUDA Version: 12.2     |
|-----------------------------------------+----------------------+----------------------+
|   0  Orin (nvgpu)                  N/A  | N/A              N/A |                  N/A |
| N/A   N/A  N/A               N/A /  N/A | Not Supported        |     N/A          N/A |
"""


def test_nvidia_table_of_a_jetson(tmp_path: Path) -> None:
    machine = machine_of(tmp_path, nvidia_smi__txt=ORIN)
    (device,) = machine.devices
    assert known(device.name) == "Orin (nvgpu)"
    assert known(device.integrated) is True
    assert isinstance(device.memory_total_bytes, Absent)


def test_nvidia_xml_that_is_cut_off_keeps_what_it_holds() -> None:
    text = (
        '<?xml version="1.0" ?><nvidia_smi_log><driver_version>550.54</driver_version>'
        '<gpu id="00000000:01:00.0"><product_name>NVIDIA A10</product_name><fb_memory_usage>'
        "<total>23028 MiB</total></fb_memory_usage></gpu>"
        '<gpu id="00000000:02:00.0"><product_name>NVIDIA A10</product_na'
    )
    report = nvidia_smi.parse(text)
    assert [d.get("memory_total_bytes") for d in report.devices] == [23028 * MIB, None]
    assert "name" not in report.devices[1]


def test_nvidia_csv_with_and_without_units() -> None:
    for unit, suffix in ((" [MiB]", " MiB"), ("", "")):
        text = (
            f"index, name, pci.bus_id, memory.total{unit}, compute_cap, driver_version, uuid\n"
            f"0, Tesla T4, 00000000:00:1E.0, 15360{suffix}, 7.5, 535.104.05, [N/A]\n"
        )
        report = nvidia_smi.parse(text)
        (device,) = report.devices
        assert device["memory_total_bytes"] == 15360 * MIB
        assert device["compute_capability"] == "7.5" and "uuid" not in device
        assert report.driver == "535.104.05"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Failed to initialize NVML: Unknown Error", "nvml_unknown_error"),
        ("Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 550.90",
         "version_mismatch"),
        ("Unable to determine the device handle for GPU 0000:83:00.0: GPU is lost.  Reboot the system"
         " to recover this GPU", "gpu_lost"),
        ("Unable to determine the device handle for GPU3: 0000:5F:00.0: Unknown Error", "gpu_lost"),
        ("Failed to initialize NVML: GPU access blocked by the operating system\n"
         "Failed to properly shut down NVML: GPU access blocked by the operating system", "os_blocked"),
        ("No devices were found", "no_devices"),
        ("Failed to initialize NVML: Driver Not Loaded", "driver_not_loaded"),
    ],
)  # fmt: skip
def test_nvidia_errors_have_their_kind(tmp_path: Path, text: str, kind: str) -> None:
    machine = machine_of(tmp_path, nvidia_smi__txt=text)
    assert machine.status == "driver_error"
    assert machine.error and machine.error.kind == kind


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("ROCk module is loaded\nUnable to open /dev/kfd read-write: Invalid argument",
         "kfd_invalid_argument"),
        ("WSL environment detected.\nNo WDDM adapters found.\nhsa_init Failed", "no_wddm_adapters"),
        ("ROCk module is NOT loaded, possibly no GPU devices", "kfd_not_loaded"),
    ],
)  # fmt: skip
def test_rocminfo_errors_have_their_kind(tmp_path: Path, text: str, kind: str) -> None:
    machine = machine_of(tmp_path, rocminfo__txt=text)
    assert machine.error and machine.error.kind == kind


def test_amd_smi_static_as_text_and_as_json() -> None:
    text = """\
GPU: 0
    ASIC:
        MARKET_NAME: AMD Instinct MI300X
        VENDOR_ID: 0x1002
        DEVICE_ID: 0x74a1
        TARGET_GRAPHICS_VERSION: gfx942
    BUS:
        BDF: 0000:0C:00.0
    DRIVER:
        NAME: amdgpu
        VERSION: 6.8.5
    VRAM:
        TYPE: HBM3
        SIZE: 196592 MB
"""
    json = """{"gpu_data": [{"gpu": 0, "asic": {"market_name": "AMD Instinct MI300X",
      "device_id": "0x74a1", "target_graphics_version": "gfx942"}, "bus": {"bdf": "0000:0c:00.0"},
      "driver": {"name": "amdgpu", "version": "6.8.5"},
      "vram": {"type": "HBM3", "size": {"value": 196592, "unit": "MB"}}}]}"""
    for form in (text, json, f"WARNING: something\n{json}"):
        report = amd_tools.parse_amd_smi(form)
        (device,) = report.devices
        assert device["name"] == "AMD Instinct MI300X"
        assert device["pci_id"] == "1002:74a1" and device["pci_address"] == "0000:0c:00.0"
        assert device["architecture"] == "gfx942"
        assert device["memory_total_bytes"] == 196592 * MIB
        assert report.driver == "6.8.5"


def test_rocm_smi_lines_csv_and_table() -> None:
    lines = (
        "GPU[0]\t\t: Device ID: 0x740f\nGPU[0]\t\t: Card Series: Instinct MI210\n"
        "GPU[0]\t\t: PCI Bus: 0000:C1:00.0\nGPU[0]\t\t: VRAM Total Memory (B): 68702699520\n"
    )
    csv = (
        "device,Device ID,Card Series,PCI Bus,VRAM Total Memory (B)\n"
        "card0,0x740f,Instinct MI210,0000:C1:00.0,68702699520\n\n"
    )
    for text in (lines, csv):
        (device,) = amd_tools.parse_rocm_smi(text).devices
        assert device["name"] == "Instinct MI210"
        assert device["pci_address"] == "0000:c1:00.0"
        assert device["memory_total_bytes"] == 68702699520
    old = "GPU  Temp   AvgPwr  SCLK\n0    31.0c  35.0W   300Mhz\n1    33.0c  36.0W   300Mhz\n"
    assert len(amd_tools.parse_rocm_smi(old).devices) == 2


XPU_TABLE = """\
|            Intel XPU-SMI v2.0    Driver: 1CF0B7A60BF9DB210B10E48    Level Zero: 1.28.0             |
+----------------------------------------------+----------------------------+------------------------+
| GPU  Name                    Persistence-M   | Bus-Id            Disp.A   |   Volatile Uncorr. ECC |
| Fan              Temp  Pwr:Usage/Cap         | Memory-Usage               |   GPU-Util  Compute M. |
+----------------------------------------------+----------------------------+------------------------+
|   0  Intel(R) Arc(TM) B580   Off             | 0000:09:00.0      Off      |               Disabled |
|      Graphics                                |                            |                        |
| N/A               N/A  35W / 190W            | 11610MiB / 12216MiB        |      N/A       Default |
"""


def test_xpu_smi_in_its_forms() -> None:
    (device,) = intel.parse_xpu_smi(XPU_TABLE).devices
    assert device["name"] == "Intel(R) Arc(TM) B580 Graphics"
    assert device["memory_total_bytes"] == 12216 * MIB and device["integrated"] is False
    one = """{"device_id": 0, "device_name": "Intel(R) Data Center GPU Max 1550",
      "driver_version": "1.3.27", "memory_physical_size_byte": "68719476736",
      "pci_bdf_address": "0000:18:00.0", "pci_device_id": "0xbd5", "pci_vendor_id": "0x8086"}"""
    (device,) = intel.parse_xpu_smi(one).devices
    assert device["pci_id"] == "8086:0bd5" and device["memory_total_bytes"] == 68719476736
    error = "Error: Failed to init: no permission to access /dev/dri"
    assert intel.parse_xpu_smi(error).devices == []


def test_sycl_ls_of_old_and_new_releases() -> None:
    old = (
        "[opencl:gpu:1] Intel(R) OpenCL HD Graphics, Intel(R) UHD Graphics 770 3.0 [22.28.23726.1]\n"
        "[ext_oneapi_level_zero:gpu:0] Intel(R) Level-Zero, Intel(R) UHD Graphics 770 1.3 [1.3.23726]\n"
        "[ext_oneapi_cuda:gpu:0] NVIDIA CUDA BACKEND, NVIDIA A100 8.0 [CUDA 12.2]\n"
    )
    (device,) = intel.parse_sycl_ls(old).devices
    assert device["name"] == "Intel(R) UHD Graphics 770" and device["integrated"] is True
    assert [t.version for t in device["runtimes"]] == ["1.3.23726", "22.28.23726.1"]


def test_lspci_in_machine_readable_forms() -> None:
    mm = '01:00.0 "3D controller [0302]" "NVIDIA Corporation [10de]" "GA100 [A100] [20b0]" -ra1 "" ""'
    vmm = "Slot:\t01:00.0\nClass:\t3D controller\nVendor:\tNVIDIA Corporation\nDevice:\tGA100\n"
    numeric = "01:00.0 0302: 10de:20b0 (rev a1)"
    for text in (mm, vmm, numeric):
        (function,) = pci_text.parse_lspci(text)
        assert (function.vendor, function.kind) == ("10de", 0x0302)
    assert pci_text.parse_lspci(mm)[0].name == "GA100 [A100]"


def test_lspci_name_with_an_id_inside_is_no_name() -> None:
    line = "07:00.0 3D controller [0302]: NVIDIA Corporation GA102GL [A10] [10de:2236]{} (rev a1)"
    (whole,) = pci_text.parse_lspci(line.format(""))
    (mangled,) = pci_text.parse_lspci(line.format("A Corporation GA102GL [A10] [10de:2236]"))
    assert whole.name == "GA102GL [A10]" and mangled.name == ""
    assert whole.pci_id == mangled.pci_id == "10de:2236"


def test_pciconf_addresses_are_decimal() -> None:
    text = (
        "vgapci0@pci0:10:0:0:\tclass=0x030000 rev=0xa1 hdr=0x00 vendor=0x10de device=0x2204 "
        "subvendor=0x1458 subdevice=0x403b\n    vendor     = 'NVIDIA Corporation'\n"
        "    device     = 'GA102 [GeForce RTX 3090]'\n"
    )
    (function,) = pci_text.parse_pciconf(text)
    assert function.address == "0000:0a:00.0" and function.name == "GA102 [GeForce RTX 3090]"
    (old,) = pci_text.parse_pciconf("none1@pci0:1:0:0: class=0x030000 card=0x1 chip=0x220410de\n")
    assert old.pci_id == "10de:2204"


def test_system_profiler_json_of_an_intel_mac() -> None:
    text = """{"SPDisplaysDataType": [{"_name": "kHW_AMDRadeonPro5500MItem",
      "sppci_model": "AMD Radeon Pro 5500M", "spdisplays_vendor": "sppci_vendor_amd",
      "spdisplays_device-id": "0x7340", "spdisplays_vram": "8 GB", "sppci_bus":
      "spdisplays_pcie_device", "spdisplays_mtlgpufamilysupport": "spdisplays_metal3"}]}"""
    (entry,) = apple.parse_system_profiler(text)
    assert entry["memory"] == "8 GB" and entry["device"] == "0x7340"


def test_wmi_as_powershell_list_and_json(tmp_path: Path) -> None:
    listing = (
        "Name                 : NVIDIA GeForce RTX 3080\nAdapterRAM           : 4293918720\n"
        "DriverVersion        : 31.0.15.3640\n"
        "PNPDeviceID          : PCI\\VEN_10DE&DEV_2206&SUBSYS_16121234&REV_A1\\4&1\n"
    )
    json = (
        '[{"Name": "NVIDIA GeForce RTX 3080", "AdapterRAM": 4293918720, "DriverVersion": '
        '"31.0.15.3640", "PNPDeviceID": "PCI\\\\VEN_10DE&DEV_2206&SUBSYS_1"}]'
    )
    for text in (listing, json):
        (entry,) = windows.parse_wmi(text)
        assert entry["Name"] == "NVIDIA GeForce RTX 3080"
    (tmp_path / "win32_videocontroller.wmi").write_text(listing)
    (device,) = detect_machine(SnapshotProbe(tmp_path)).devices
    assert isinstance(device.memory_total_bytes, Absent)
    (tmp_path / "reg.txt").write_text(
        "HKEY_LOCAL_MACHINE\\SYSTEM\\CurrentControlSet\\Control\\Class\\{4d36e968}\\0000\n"
        "    MatchingDeviceId    REG_SZ    pci\\ven_10de&dev_2206\n"
        "    HardwareInformation.qwMemorySize    REG_QWORD    0x280000000\n"
    )
    (device,) = detect_machine(SnapshotProbe(tmp_path)).devices
    assert known(device.memory_total_bytes) == 10 * 2**30


CLINFO = """\
Number of platforms                               2
  Platform Name                                   NVIDIA CUDA
Number of devices                                 1
  Device Name                                     NVIDIA GeForce RTX 3070
  Device Vendor                                   NVIDIA Corporation
  Device Version                                  OpenCL 3.0 CUDA
  Device Type                                     GPU
  Device Topology (NV)                            PCI-E, 0000:2b:00.0
  Compute Capability (NV)                         8.6
  Global memory size                              8361017344 (7.787GiB)
  Platform Name                                   Portable Computing Language
Number of devices                                 1
  Device Name                                     cpu-haswell-AMD Ryzen
  Device Vendor                                   AuthenticAMD
  Device Type                                     CPU
"""


def test_clinfo_in_full_and_as_a_list() -> None:
    ((vendor, facts),) = opencl.parse_clinfo(CLINFO)
    assert vendor == "nvidia" and facts["pci_address"] == "0000:2b:00.0"
    assert facts["compute_capability"] == "8.6" and facts["memory_total_bytes"] == 8361017344
    listing = (
        "Platform #0: Intel(R) OpenCL HD Graphics\n `-- Device #0: Intel(R) UHD Graphics 620\n"
        "Platform #1: Portable Computing Language\n `-- Device #0: pthread-haswell\n"
    )
    ((vendor, facts),) = opencl.parse_clinfo(listing)
    assert (vendor, facts["name"]) == ("intel", "Intel(R) UHD Graphics 620")


def test_routes_of_one_gpu_are_merged_by_address(tmp_path: Path) -> None:
    files: dict[str, Any] = {
        "lspci_nn__txt": "01:00.0 VGA compatible controller [0300]: NVIDIA Corporation GA104 "
        "[GeForce RTX 3070] [10de:2484] (rev a1)\n",
        "clinfo__txt": CLINFO.replace("2b:00.0", "01:00.0"),
        "nvidia_smi_L__txt": "GPU 0: NVIDIA GeForce RTX 3070 (UUID: GPU-abcdef01-0000-0000-0000-1)\n",
    }
    (device,) = machine_of(tmp_path, **files).devices
    assert known(device.name) == "NVIDIA GeForce RTX 3070"
    assert device.origins["pci_id"] == "lspci-nn.txt"
    assert device.origins["name"] == "nvidia-smi-L.txt"
    assert device.origins["memory_total_bytes"] == "clinfo.txt"


def test_hybrid_with_one_failing_vendor_is_a_driver_error_where_its_gpu_is_seen(
    tmp_path: Path,
) -> None:
    lspci = (
        "00:02.0 VGA compatible controller [0300]: Intel Corporation UHD [8086:9b41]\n"
        "\tKernel driver in use: i915\n"
    )
    failing = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n"
    machine = machine_of(tmp_path, lspci_nnk__txt=lspci, nvidia_smi__txt=failing)
    assert machine.status == "ok" and machine.failures[0].kind == "driver_not_loaded"
    card = "01:00.0 3D controller [0302]: NVIDIA Corporation TU117M [10de:1f9d]\n"
    machine = machine_of(tmp_path, lspci_nnk__txt=lspci + card, nvidia_smi__txt=failing)
    assert machine.status == "driver_error"
    assert len(machine.devices) == 2


@pytest.mark.parametrize("tool", ["nvidia-smi", "amd", "xpu-smi", "system_profiler", "dxdiag"])
def test_a_word_of_a_tool_means_one_fact(tool: str) -> None:
    words = [word for names in notation.words_of(tool).values() for word in names]
    assert len(words) == len(set(words))


def test_every_error_of_a_tool_has_a_kind_and_a_pattern() -> None:
    for vendor, errors in registry.table(notation.__file__, "tool_errors").items():
        assert vendor in ("nvidia", "amd", "intel")
        for error in errors:
            re.compile(error["pattern"])
            assert re.fullmatch(r"[a-z_]+", error["kind"])


@pytest.mark.parametrize("vendor", ["nvidia", "amd", "intel", "apple"])
def test_a_maker_is_known_by_id_and_by_word(vendor: Vendor) -> None:
    assert pci_ids.vendor_of(pci_ids.maker_of(vendor)) == vendor
    assert pci_ids.vendor_named_in(f"{vendor} (0x{pci_ids.maker_of(vendor)})") == vendor


def test_ranges_of_parts_and_cards_ascend() -> None:
    for maker in registry.table(pci_ids.__file__, "pci_ids")["maker"]:
        numbers = [
            n for pair in pci_ids.ranges(maker.get("parts", maker.get("cards", ""))) for n in pair
        ]
        assert numbers == sorted(numbers), maker["vendor"]


def test_virtual_display_of_windows_is_virtual_whatever_the_case_of_its_id(tmp_path: Path) -> None:
    listing = "Name : Display\nPNPDeviceID : PCI\\VEN_15AD&DEV_0405\\1\n"
    (tmp_path / "win32_videocontroller.wmi").write_text(listing)
    machine = detect_machine(SnapshotProbe(tmp_path))
    assert not machine.devices and [other.why for other in machine.others] == ["virtual"]


def test_registry_entry_without_an_id_leaves_the_others() -> None:
    entry = (
        "HKEY_LOCAL_MACHINE\\{{}}\\000{}\n    MatchingDeviceId    REG_SZ    pci\\ven_10de&dev_{}\n"
        "    HardwareInformation.qwMemorySize    REG_QWORD    0x280000000\n"
    )
    text = entry.format(0, "ffff") + entry.format(1, "2206")
    assert windows.parse_reg(text) == {"10de:2206": 0x280000000}


@pytest.mark.parametrize(
    ("text", "vendor"),
    [
        ("opencl:libamdocl64.so", "amd"),
        ("opencl:libamdocl-orca64.so", "amd"),
        ("opencl:libigdrcl.so", "intel"),
        ("opencl:libnvidia-opencl.so.1", "nvidia"),
        ("NVIDIA Corporation", "nvidia"),
        ("Advanced Micro Devices, Inc.", "amd"),
        ("sppci_vendor_amd", "amd"),
        ("ATI Radeon HD 2600", "amd"),
        ("Microsoft Remote Display Adapter", None),
        ("opencl:libpocl.so.2", None),
    ],
)
def test_vendor_by_the_name_of_a_product_platform_or_library(
    text: str, vendor: Vendor | None
) -> None:
    assert pci_ids.vendor_named_in(text) == vendor
