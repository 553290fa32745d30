"""The score ranks recorded machines as a reviewer did, and rests on parts that can be shown."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib import resources
from pathlib import Path

import pytest

from gpuforge.detect import detect_machine, pci_ids, score
from gpuforge.facts import Absent, Device, Driver, Failed, known
from gpuforge.probe import SnapshotProbe

# Best first, as reviewed: memory and matrix units first, then bandwidth and what builds serve.
RANKING = [
    ("nv-gb200-1x-container-580", 0),
    ("nv-h200-590", 0),
    ("nv-h100-vm-590", 0),
    ("nv-a100-sxm4-mig-535-xml", 0),
    ("nv-rtx4090-535-xml", 0),
    ("amd-mi100-rocm602-json", 0),
    ("nv-rtx3090-525-vm-xml", 0),
    ("nv-a10g-515-xml", 0),
    ("nv-rtx3080-595-v13-xml", 0),
    ("nv-rtx3060-570-xml", 0),
    ("nv-t4-515-xml", 0),
    ("nv-rtx2080super-linux-595", 0),
    ("amd-rx6900xt-sysfs", 0),
    ("nv-wsl2-t1000-510", 0),
    ("nv-p100-510-xml", 0),
    ("amd-vega56-sysfs", 0),
    ("nv-quadro-p2000-525-xml", 0),
    ("nv-quadro-p400-418-xml", 0),
    ("amd-rx580-sysfs", 0),
    ("amd-r7-240-sysfs", 0),
    ("mac-ati-2600-snowleopard-text", 0),
]
BEST = {
    "hybrid-tigerlake-gtx1650-lspci": 1,
    "amd-rx9060xt-amdgpu-top-json": 0,
    "amd-rx6800xt-plus-rx5600xt-rocminfo": 0,
    "intel-arc-a770-plus-uhd730-syclls": 0,
    "win-intel-nvidia-rdp-wmi": 1,
    "mac-intel-amd-dual-mojave-text": 1,
    "hybrid-haswell-gt750m-udev": 0,
    "nogpu-vmware-udev": None,
}


def test_ranking_of_recorded_machines(corpus: Path) -> None:
    found = []
    for name, index in RANKING:
        machine = detect_machine(SnapshotProbe(corpus / "devices" / name))
        found.append((known(machine.devices[index].score), name))
    ordered = sorted(found, key=lambda row: -(row[0] or 0))
    assert [name for _, name in ordered] == [name for name, _ in RANKING], found


@pytest.mark.parametrize("name", BEST)
def test_best_device_of_mixed_machines(corpus: Path, name: str) -> None:
    assert detect_machine(SnapshotProbe(corpus / "devices" / name)).best_device == BEST[name]


GOOD = Device(
    0,
    "nvidia",
    name="NVIDIA H100 80GB HBM3",
    memory_total_bytes=80 * 2**30,
    driver=Driver("nvidia", "590.48"),
    compute_capability="9.0",
)


def test_score_is_the_documented_formula() -> None:
    parts = {part.name: part.value for part in score.parts_of(GOOD)}
    assert parts["health"] == parts["compute"] == parts["framework"] == 1.0
    total = sum(score.WEIGHTS[name] * (parts[name] or 0) for name in score.WEIGHTS)
    assert score.score_of(GOOD) == round(100 * total)


def test_each_loss_lowers_the_score() -> None:
    worse = [
        replace(GOOD, memory_total_bytes=8 * 2**30),
        replace(GOOD, memory_total_bytes=Absent("?")),
        replace(GOOD, driver=Failed("none bound")),
        replace(GOOD, driver=Driver("nouveau")),
        replace(GOOD, compute_capability="6.1", name="NVIDIA X"),
    ]
    assert all(score.score_of(device) < score.score_of(GOOD) for device in worse)


def test_table_ranges_do_not_overlap_and_patterns_compile() -> None:
    seen: list[tuple[str, int, int]] = []
    for row in score.table()["architecture"]:
        for low, high in pci_ids.ranges(row.get("ranges", "")):
            assert low <= high
            clash = [s for s in seen if s[0] == row["vendor"] and s[1] <= high and low <= s[2]]
            assert not clash, (row, clash)
            seen.append((row["vendor"], low, high))


def test_every_group_of_figures_names_its_source() -> None:
    text = resources.files("gpuforge.detect").joinpath("architectures.toml").read_text("utf-8")
    figures = text[text.index("# Memory bandwidth") :].split("[[bandwidth]]")
    for before in figures[:-1]:
        comment = before.strip().rpartition("\n\n")[2]
        assert comment.startswith("# ") and re.search(r"\w+\.(com|net)|@[0-9a-f]{8}", comment)


@pytest.mark.parametrize(
    ("name", "rate"),
    [("NVIDIA GH200 480GB", "4000"), ("NVIDIA H200", "4800"), ("NVIDIA A100-SXM4-40GB", "1555"),
     ("NVIDIA A100-SXM4-80GB", "2000"), ("NVIDIA RTX A1000", "not in"), ("Apple M3", "100"),
     ("NVIDIA GeForce RTX 3080 Laptop GPU", "not in"), ("NVIDIA GeForce RTX 2080 SUPER", "496")],
)  # fmt: skip
def test_bandwidth_by_name(name: str, rate: str) -> None:
    part = next(p for p in score.parts_of(Device(0, "nvidia", name=name)) if p.name == "bandwidth")
    assert part.why.startswith(rate)


def test_turing_without_tensor_cores_is_told_from_turing_with_them() -> None:
    known_by = {"name": "NVIDIA GeForce GTX 1650", "compute_capability": "7.5"}
    without = score.architecture_of(Device(0, "nvidia", **known_by))
    having = score.architecture_of(Device(0, "nvidia", **{**known_by, "name": "Tesla T4"}))
    assert without and having and having["matrix"] and "matrix" not in without


@pytest.mark.parametrize(
    ("pci_id", "shared"),
    [("10de:0866", True), ("10de:2e12", True), ("10de:2204", False), ("8086:0be1", True),
     ("8086:0bd5", False), ("8086:b080", True), ("8086:e20b", False), ("1002:9712", True),
     ("1002:1586", True), ("1002:744c", False)],
)  # fmt: skip
def test_parts_of_a_processor_by_pci_id(pci_id: str, shared: bool) -> None:
    assert pci_ids.integrated(pci_id) is shared


@pytest.mark.parametrize(
    ("pci_id", "capability"),
    [("10de:2330", "9.0"), ("10de:2204", "8.6"), ("10de:20b0", "8.0"), ("10de:1eb8", "7.5"),
     ("10de:15f8", "6.0"), ("10de:102d", "3.7"), ("10de:2684", "8.9"), ("10de:2901", "10.0")],
)  # fmt: skip
def test_capability_by_pci_id(pci_id: str, capability: str) -> None:
    device = score.identify(Device(0, "nvidia", pci_id=pci_id))
    assert known(device.compute_capability) == capability
    assert device.origins["compute_capability"] == "table by PCI id or name"


def test_table_agrees_with_every_capability_that_a_tool_printed(corpus: Path) -> None:
    for folder in sorted(path for path in (corpus / "devices").iterdir() if path.is_dir()):
        for device in detect_machine(SnapshotProbe(folder)).devices:
            told = device.origins.get("compute_capability", "table")
            if "table" not in told and known(device.pci_id):
                blank = replace(device, compute_capability=Absent("hidden"))
                assert known(score.identify(blank).compute_capability) == device.compute_capability
            route = device.origins.get("architecture", "table")
            if device.vendor == "amd" and "table" not in route:
                blank = replace(device, architecture=Absent("hidden"))
                found = known(score.identify(blank).architecture)
                assert found in (None, device.architecture), folder.name
