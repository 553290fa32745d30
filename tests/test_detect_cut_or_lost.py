"""What outputs still show that are cut off, picked by grep, or tell of a lost GPU only.

After public reports: xxd3vin/workspace#19, meta-llama/llama-models#200, sgl-project/sglang#965,
NVIDIA/nvidia-docker#1753, ROCm/legacy-rocm-build#2866 and #804, tensorflow/tensorrt#169,
ollama/ollama#5124, ggml-org/llama.cpp#15793, microsoft/WSL#6423,
AdnanHodzic/displaylink-debian#383, ROCm/k8s-device-plugin#112, gpustack/gpustack#4123,
smxi/inxi#96, pop-os/pop#608, gnif/vendor-reset#81, rxrbln/t2sde#285,
isc30/ryzen-gpu-passthrough-proxmox#45, darktable-org/darktable#16984,
ROCm/rocm-install-on-linux#656, NVIDIA/nvidia-docker#895, pop-os/pop#3968, NVIDIA/DCGM#152,
henrygd/beszel#605, GPGPUCourse/GPGPUTasks2025#17, GPGPUCourse/GPGPUTasks2023#187,
ROCm/legacy-rocm-build#216 and #4499, GPUOpen-Drivers/AMDVLK#248, ublue-os/bazzite#5729.
"""

from __future__ import annotations

import pytest

from gpuforge.detect.text import machine_from_text
from gpuforge.detect.text.sections import outputs_in
from gpuforge.facts import Device, known

HANDLE = "Unable to determine the device handle for"


def driver_of(device: Device) -> str | None:
    driver = known(device.driver)
    return known(driver.version) if driver else None


@pytest.mark.parametrize(
    ("text", "places"),
    [
        (f"$ nvidia-smi\n{HANDLE} GPU 0000:0B:00.0: Unknown Error", ["0000:0b:00.0"]),
        (f"{HANDLE} GPU0000:65:00.0: Unknown Error", ["0000:65:00.0"]),
        (
            f"{HANDLE} GPU0: 0000:C1:00.0: Unknown Error\n"
            f"{HANDLE} GPU1: 0000:E1:00.0: Unknown Error\nNo devices were found",
            ["0000:c1:00.0", "0000:e1:00.0"],
        ),
    ],
)
def test_a_lost_gpu_that_is_all_there_is_has_its_address(text: str, places: list[str]) -> None:
    machine = machine_from_text(text)
    assert machine.status == "driver_error"
    assert [known(one.pci_address) for one in machine.devices] == places


def test_a_lost_gpu_is_one_of_those_that_the_text_tells_of() -> None:
    machine = machine_from_text(f"I use 4 A30. Now {HANDLE} GPU0000:17:00.0: Unknown Error")
    assert [known(one.name) for one in machine.devices] == ["A30"] * 4


def test_a_cut_topology_counts_by_its_heading() -> None:
    heading = "".join(f"\tGPU{number}" for number in range(8))
    machine = machine_from_text(f"{heading}\tNIC0\nGPU0\t X \tNV12\tNV12\nGPU1\tNV12\t X \tNV12\n")
    assert len(machine.devices) == 8


def test_a_query_without_its_beginning_has_the_ids() -> None:
    machine = machine_from_text(
        "    GPU Part Number                       : 1401-300-A1\n    PCI\n"
        "        Bus                               : 0x01\n"
        "        Device Id                         : 0x140110DE\n"
        "        Bus Id                            : 00000000:01:00.0\n"
    )
    [card] = machine.devices
    assert (known(card.pci_id), known(card.pci_address)) == ("10de:1401", "0000:01:00.0")


AGENT = """\
  Name:                    gfx1100
  Uuid:                    GPU-0aac02dbebd629ee
  Marketing Name:          Radeon RX 7900 XTX
"""


def test_an_agent_without_its_number_is_a_gpu() -> None:
    machine = machine_from_text(
        f"{AGENT}  Vendor Name:             AMD\n  Device Type:             GPU\n"
        "  Chip ID:                 29772(0x744c)\n  BDFID:                   8960\n"
    )
    [card] = machine.devices
    assert known(card.pci_address) == "0000:23:00.0"
    assert (known(card.pci_id), known(card.uuid)) == ("1002:744c", "GPU-0aac02dbebd629ee")


def test_lines_picked_from_rocminfo_are_no_error() -> None:
    machine = machine_from_text(
        f"{AGENT}      Name:                    amdgcn-amd-amdhsa--gfx1100\n"
    )
    assert machine.status == "ok"
    assert [known(one.architecture) for one in machine.devices] == ["gfx1100"]


def test_a_tree_of_the_bus_shows_cards_and_no_hub() -> None:
    card = "Advanced Micro Devices, Inc. [AMD/ATI] Ellesmere [Radeon Pro WX 7100]"
    machine = machine_from_text(
        "-[0000:00]-+-00.0  Intel Corporation 5500 I/O Hub to ESI Port\n"
        f"             +-01.0-[01-04]----00.0-[02-04]--+-08.0-[03]--+-00.0  {card}\n"
        f"             |                               \\-10.0-[04]----00.0  {card}\n"
        "kfd kfd: skipped device 1002:67c4, PCI rejects atomics\n"
    )
    assert {one.vendor for one in machine.devices} == {"amd"}
    assert [known(one.pci_address) for one in machine.devices] == ["0000:03:00.0", "0000:04:00.0"]


def test_numbers_of_a_cut_log_count_the_devices() -> None:
    line = "I xla/service.cc:176]   StreamExecutor device ({}): Tesla T4, Compute Capability 7.5\n"
    machine = machine_from_text("".join(map(line.format, (3, 4, 5))))
    assert [known(one.name) for one in machine.devices] == ["Tesla T4"] * 6


def test_adapters_without_their_memory_have_amds_ids() -> None:
    machine = machine_from_text(
        "Name                    VideoProcessor                         DriverVersion\n"
        "----                    --------------                         -------------\n"
        "AMD Radeon(TM) Graphics AMD Radeon Graphics Processor (0x164E) 31.0.24019.1006\n"
        "AMD Radeon RX 7900 XTX  AMD Radeon Graphics Processor (0x744C) 31.0.24019.1006\n"
    )
    assert [known(one.pci_id) for one in machine.devices] == ["1002:164e", "1002:744c"]
    assert [driver_of(one) for one in machine.devices] == ["31.0.24019.1006"] * 2


def test_a_gpu_of_two_lists_of_vulkan_is_one() -> None:
    name = "NVIDIA GeForce RTX 4060 Laptop GPU"
    machine = machine_from_text(
        f"ggml_vulkan: 0 = {name} (NVIDIA) | uma: 0 | fp16: 1\n"
        f"  Vulkan0: {name} (7957 MiB, 7189 MiB free)\n"
    )
    assert [known(one.name) for one in machine.devices] == [name]


def test_a_version_of_a_file_or_of_another_part_is_no_driver() -> None:
    machine = machine_from_text(
        "Name: NVIDIA GeForce RTX 2060\nDriver: C:\\WINDOWS\\x\\NvContainer.exe, 1.28.2851.9944\n"
    )
    assert [driver_of(one) for one in machine.devices] == [None]
    machine = machine_from_text(
        "---- DisplayLink info ----\n\nDriver version: 5.2.14\n\n---- Graphics card ----\n\n"
        "VGA: Intel Corporation 3rd Gen Core processor Graphics Controller (rev 09)\n"
    )
    assert [driver_of(one) for one in machine.devices] == [None]


def test_a_node_of_amd_counts_its_gpus_by_label() -> None:
    machine = machine_from_text(
        "kubernetes.io/arch=amd64\namd.com/gpu.device-id: 74b5\namd.com/gpu.vram: 191G\n"
        'beta.amd.com/gpu.device-id.74b5: "8"\n'
    )
    assert [known(one.pci_id) for one in machine.devices] == ["1002:74b5"] * 8
    assert known(machine.host.machine) == "x86_64"


def test_amds_library_printed_by_python_is_read() -> None:
    one = (
        "{{'market_name': 'AMD Instinct MI308X OAM', 'vendor_id': '0x1002', 'device_id': '0x74a2', "
        "'oam_id': {}, 'num_compute_units': 80, 'target_graphics_version': 'gfx942'}}"
    )
    machine = machine_from_text(f"[{one.format(0)}, {one.format(1)}]")
    assert [known(card.architecture) for card in machine.devices] == ["gfx942"] * 2


def test_inxi_shows_the_id_of_a_card_without_a_name() -> None:
    machine = machine_from_text("Graphics:  Card-1: NVIDIA Device 1b00\n")
    assert [known(one.pci_id) for one in machine.devices] == ["10de:1b00"]


def test_intels_graphics_at_device_2_are_in_the_processor() -> None:
    machine = machine_from_text("[ 2.4] i915 0000:00:02.0: [drm] *ERROR* GT0: timed out waiting\n")
    assert [known(one.integrated) for one in machine.devices] == [True]


def test_a_card_given_to_a_virtual_machine_has_its_place() -> None:
    machine = machine_from_text(
        "Vega 56 (eGPU)\n\nJun 15 11:58:44 kernel: vfio-pci 0000:0b:00.0: AMD_VEGA10: version 1.0\n"
        "Jun 15 11:58:45 kernel: vfio-pci 0000:0b:00.0: AMD_VEGA10: entering BACO\n"
    )
    [card] = machine.devices
    driver = known(card.driver)
    assert (card.vendor, known(card.pci_address)) == ("amd", "0000:0b:00.0")
    assert driver is not None and driver.name == "vfio-pci"


def test_the_chips_that_a_driver_serves_are_not_in_the_machine() -> None:
    machine = machine_from_text(
        "# startx returns no screen found on nvidia gtx 1650\n\n"
        "(II) NOUVEAU driver for NVIDIA chipset families :\n"
        "   GeForce 256         (NV10)\n   GeForce 4MX         (NV17, NV18)\n"
    )
    assert len(machine.devices) == 1


def test_a_small_computers_model_is_no_chip_of_apple() -> None:
    machine = machine_from_text(
        "Hardware: GMKTEC M5 PRO\nCPU: AMD Ryzen 7 5700U\nGPU: Radeon Graphics\nMachine: q35\n"
    )
    assert {one.vendor for one in machine.devices} == {"amd"}


def test_a_device_known_by_its_target_has_its_memory() -> None:
    machine = machine_from_text(
        "   DEVICE:                   0: 'gfx1102'\n   DEVICE_TYPE:              GPU\n"
        "   GLOBAL MEM SIZE:          8176 MB\n"
    )
    [card] = machine.devices
    assert known(card.architecture) == "gfx1102"
    assert known(card.memory_total_bytes) == 8176 << 20


def test_one_name_is_that_of_all_cards_with_one_id() -> None:
    card = "{}:00.0 Display controller: Advanced Micro Devices, Inc. [AMD/ATI] Device 74b5\n"
    machine = machine_from_text("GPU: AMD MI300X\n\n" + card.format("0e") + card.format("11"))
    assert [known(one.name) for one in machine.devices] == ["AMD MI300X"] * 2


def test_nvidia_smi_that_a_sentence_quotes_has_failed() -> None:
    machine = machine_from_text("# `nvidia-smi` fails with `No devices were found` on RTX 5090")
    assert machine.status == "driver_error"
    assert [known(one.name) for one in machine.devices] == ["RTX 5090"]


def test_a_laptop_with_two_gpus_has_the_one_that_no_tool_shows() -> None:
    machine = machine_from_text(
        "I have a laptop with both an NVIDIA RTX 4060 and Intel Arc Integrated GPU.\n\n```\n"
        "ggml_vulkan: 0 = NVIDIA GeForce RTX 4060 Laptop GPU (NVIDIA) | uma: 0 | fp16: 1\n```\n"
    )
    assert [one.vendor for one in machine.devices] == ["nvidia", "intel"]


def test_the_table_of_amd_smi_is_known_by_the_heading_of_its_columns() -> None:
    machine = machine_from_text(
        "+ | BDF                        GPU-Name | Mem-Uti   Temp   UEC       Power-Usage |\n"
        "+ |=====================================+========================================|\n"
        "+ | 0000:09:00.0    AMD Instinct MI325X | 0 %      49 °C   0          144/1000 W |\n"
        "+ |   0       0       3        SPX/NPS1 | 0 %        N/A           283/262128 MB |\n"
    )
    [card] = machine.devices
    assert known(card.memory_total_bytes) == 262128 << 20


@pytest.mark.parametrize(
    "text",
    [
        'Device 0: "NVIDIA Tegra X1"\n  CUDA Driver Version / Runtime Version  10.2 / 10.0\n',
        "NVRM version:   384.130\nCUDA version:   10.2\n\nModel:          GeForce 920M\n",
    ],
)
def test_the_cuda_of_the_driver_is_the_runtime(text: str) -> None:
    [card] = machine_from_text(text).devices
    assert [known(one.version) for one in card.runtimes] == ["10.2"]


def test_a_code_name_before_a_product_is_no_name() -> None:
    machine = machine_from_text("- **CPU/iGPU:** AMD Ryzen 7 8840U (Phoenix, Radeon 780M)\n")
    assert [known(one.name) for one in machine.devices] == ["Radeon 780M"]


def test_vega64_needs_no_blank() -> None:
    assert [known(one.name) for one in machine_from_text("ROCm 1.7, Vega64:").devices] == ["Vega64"]


def test_few_of_many_lines_without_a_word_are_read() -> None:
    rule = "-" * 900 + "\n"
    [(_, whole), _] = outputs_in(f"GPU: RTX 3060\n{rule * 4000}\n\nDriver: 535.54.03\n")
    assert len(whole.stdout) < 10_000
    [card] = machine_from_text(whole.stdout).devices
    assert driver_of(card) == "535.54.03"


def test_a_query_that_is_cut_at_both_ends_has_the_uuid() -> None:
    machine = machine_from_text(
        "        Pending                           : N/A\n"
        "    GPU UUID                              : GPU-072b19bd-4ccf-63cf-6435-cf462aff833d\n"
        "    Minor Number                          : 5\n"
        "    GSP Firmware Version                  : 535.104.05\n"
    )
    assert [known(one.uuid) for one in machine.devices] == [
        "GPU-072b19bd-4ccf-63cf-6435-cf462aff833d"
    ]


def test_a_csv_without_heading_lists_its_gpus_by_their_numbers() -> None:
    rows = "\n".join(f"{n}, NVIDIA A100-PCIE-40GB, 3{n}, 74, 40960, [N/A], 35.2" for n in range(3))
    machine = machine_from_text(f"`nvidia-smi --format=csv,noheader,nounits`\n```\n{rows}\n```\n")
    assert [known(one.name) for one in machine.devices] == ["NVIDIA A100-PCIE-40GB"] * 3
    assert {known(one.memory_total_bytes) for one in machine.devices} == {40 << 30}


def test_a_processor_that_opencl_lists_is_no_gpu() -> None:
    machine = machine_from_text(
        "Number of OpenCL platforms: 1\n    Device #1/1\n"
        "        Device name: AMD Ryzen 5 4600H with Radeon Graphics\n        Device type: CPU\n"
    )
    assert machine.devices == ()


def test_devices_counted_as_one_of_two_are_two() -> None:
    machine = machine_from_text(
        "    Platform name: AMD Accelerated Parallel Processing\n"
        "Vendor: Advanced Micro Devices, Inc.\n"
        "    Device #1/2\nName: gfx1100\nNumber of CUs: 48\n"
        "    Device #2/2\nName: gfx1036\nNumber of CUs: 1\n"
    )
    assert [known(one.architecture) for one in machine.devices] == ["gfx1100", "gfx1036"]
    assert [known(one.integrated) for one in machine.devices] == [False, True]


def test_an_unnamed_board_of_clinfo_has_its_id() -> None:
    machine = machine_from_text(
        "Number of devices:\t\t\t\t 4\n  Device Type:\t\t\t\t\t CL_DEVICE_TYPE_GPU\n"
        "  Vendor ID:\t\t\t\t\t 1002h\n  Board name:\t\t\t\t\t Device 6860\n"
        "  Device Topology:\t\t\t\t PCI[ B#6, D#0, F#0 ]\n"
    )
    assert [known(one.pci_id) for one in machine.devices] == ["1002:6860"]


def test_the_processor_is_the_first_agent_that_rocminfo_shows() -> None:
    name = "AMD Eng Sample: 100-000001243-50_Y"
    machine = machine_from_text(
        f"Agent 1\n*******\n  Name:                    {name} \n"
        "  Uuid:                    CPU-XX                             \n"
    )
    assert known(machine.host.cpu_model) == name


def test_a_name_that_ends_amid_a_word_gives_way_to_the_whole_one() -> None:
    machine = machine_from_text(
        "  *-display\n       product: HD Graphics 620\n       vendor: Intel Corporation\n"
        "       bus info: pci@0000:00:02.0\n       configuration: driver=i915 latency=0\n```\n"
        "$ lspci -k\n00:02.0 VGA compatible controller: Intel Corporation HD Graphic"
    )
    assert [known(one.name) for one in machine.devices] == ["HD Graphics 620"]


def test_a_card_named_in_a_title_is_not_the_gpu_in_the_processor() -> None:
    machine = machine_from_text(
        "# Resets on Navi31 (RX 7900 XTX)\n"
        "kernel: amdgpu 0000:12:00.0: kiq ring mec 2 pipe 1 q 0\n"
        "kernel: amdgpu: Topology: Add GPU node [0x1002:0x164e]\n"
        "kernel: [drm] Initialized amdgpu 3.64.0 for 0000:12:00.0 on minor 0\n"
        "kernel: amdgpu 0000:03:00.0: [drm] REG_WAIT timeout 1us * 100 tries\n"
    )
    names = {known(one.pci_address): known(one.name) for one in machine.devices}
    assert names == {"0000:12:00.0": None, "0000:03:00.0": "RX 7900 XTX"}


def test_rows_of_rocm_smi_are_known_without_their_heading() -> None:
    machine = machine_from_text(
        "15      17    0x74a1,   48427  42.0°C      131.0W    NPS1, CPX, 7        145Mhz  900Mhz\n"
        "16      18    0x74a1,   57602  46.0°C      136.0W    NPS1, CPX, 0        122Mhz  900Mhz\n"
    )
    assert [known(one.pci_id) for one in machine.devices] == ["1002:74a1"] * 2


def test_equal_gpus_have_none_of_two_names() -> None:
    row = "{0}      17    0x74a1,   48427  42.0°C      131.0W    NPS1, CPX, 7        145Mhz\n"
    rows = "".join(row.format(number) for number in (15, 16, 17))
    machine = machine_from_text(f"# Memory of partitioned MI300A and MI300X\n{rows}")
    assert [known(one.name) for one in machine.devices] == [None] * 3
