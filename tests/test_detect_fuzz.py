"""No snapshot, however broken, raises, hangs or makes gpuforge invent a value."""

from __future__ import annotations

import random
import re
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuforge.detect import (
    amd,
    amd_tools,
    apple,
    detect_machine,
    intel,
    nvidia_smi,
    opencl,
    pci_text,
    stored,
    windows,
)
from gpuforge.detect.text import hwinfo, inxi, lshw, machine_from_text, vulkaninfo
from gpuforge.facts import Device, Machine, known
from gpuforge.probe import SnapshotProbe
from gpuforge.probe.files import text_of

REPORTS = [
    report
    for path in sorted((Path(__file__).parent / "reports").glob("*.toml"))
    for report in tomllib.loads(path.read_text(encoding="utf-8"))["report"]
]
PARSERS: dict[str, Callable[[str], Any]] = {
    "nvidia-smi": nvidia_smi.parse,
    "nvidia-settings": nvidia_smi.parse_settings,
    "rocm-smi": amd_tools.parse_rocm_smi,
    "amd-smi": amd_tools.parse_amd_smi,
    "rocminfo": amd_tools.parse_rocminfo,
    "amdgpu_top": amd_tools.parse_amdgpu_top,
    "kfd": amd.parse_node,
    "xpu-smi": intel.parse_xpu_smi,
    "sycl-ls of others": intel.parse_sycl_ls_of_others,
    "dxdiag": windows.parse_dxdiag,
    "sycl-ls": intel.parse_sycl_ls,
    "lspci": pci_text.parse_lspci,
    "udevadm": pci_text.parse_udev,
    "pciconf": pci_text.parse_pciconf,
    "uevent": pci_text.parse_uevent,
    "system_profiler": apple.parse_system_profiler,
    "ioreg": apple.parse_ioreg,
    "wmi": windows.parse_wmi,
    "reg": windows.parse_reg,
    "clinfo": opencl.parse_clinfo,
    "lshw": lshw.parse_lshw,
    "inxi": inxi.parse_inxi,
    "hwinfo": hwinfo.parse_block,
    "vulkaninfo": vulkaninfo.parse_vulkaninfo,
}
WORDS = st.sampled_from(
    (
        'GPU 0: | N/A MiB / : = , <gpu id=> </gpu> [10de:2204] 01:00.0 0300 card0 { } [ ] " \n \t '
        "VRAM Bus-Id Agent **** GLOBAL; Size: KB 18446744073709551616 -1 1e999 \0 \U0001f600 NaN "
        "Device Name Type: DeviceID PNPDeviceID=PCI\\VEN_10DE&DEV_2204 AdapterRAM= E: P: PCI_ID="
    ).split(" ")
)
TEXTS = st.one_of(st.text(max_size=400), st.lists(WORDS, max_size=60).map(" ".join))


@pytest.mark.parametrize("name", PARSERS)
@settings(max_examples=60, deadline=None)
@given(text=TEXTS)
def test_no_parser_raises(name: str, text: str) -> None:
    PARSERS[name](text)


def digits_of(folder: Path) -> str:
    """Return everything the snapshot says, in one text."""
    files = (path for path in folder.rglob("*") if path.is_file())
    parts = [
        f"{path.relative_to(folder)}\n{text_of(path.read_bytes())}"
        for path in files
        if path.name not in ("expected.toml", "source.txt")
    ]
    return letters("\n".join(parts))


def letters(text: str) -> str:
    """Return letters and digits alone: blanks and what no terminal shows are tidied away."""
    return "".join(c for c in text.lower().replace("&amp;", "") if c.isalnum())


def assert_sane(machine: Machine) -> None:
    assert machine.status in ("ok", "no_gpu", "driver_error")
    for device in machine.devices:
        total, free = known(device.memory_total_bytes), known(device.memory_free_bytes)
        assert total is None or 0 < total < 2**50
        assert free is None or (total is not None and 0 <= free <= total)
        assert 0 <= (known(device.score) or 0) <= 100
        address, ident = known(device.pci_address), known(device.pci_id)
        assert address is None or re.fullmatch(
            r"[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]", address
        )
        assert ident is None or re.fullmatch(r"[0-9a-f]{4}:[0-9a-f]{4}", ident)
        name = known(device.name)
        assert name is None or (name.isprintable() and 0 < len(name) <= 200)
    assert stored.loads(stored.dumps(machine)) == machine


def said(device: Device, text: str) -> bool:
    """Return whether the device's name and UUID stand in the text they were read from."""
    words = [known(device.name), known(device.uuid)]
    return all(
        letters(word.removeprefix("GPU-")) in text
        for word in words
        if word and not word.startswith("GPU-0")
    )


def mutated(content: bytes, rng: random.Random) -> bytes:
    """Return bytes that were flipped, cut, doubled or filled with something else."""
    found = bytearray(content)
    for _ in range(rng.randint(1, 12)):
        if not found:
            break
        place = rng.randrange(len(found))
        length = rng.choice((1, 1, 3, 40, len(found)))
        way = rng.randrange(5)
        if way == 0:
            found[place] = rng.randrange(256)
        elif way == 1:
            del found[place : place + length]
        elif way == 2:
            found[place:place] = found[place : place + min(length, 4000)]
        elif way == 3:
            found[place : place + 8] = rng.randbytes(8)
        else:
            found[place:place] = rng.choice(
                (b"N/A", b"-1", b"99999999999999999999", b"\0", b"ERR!")
            )
    return bytes(found)


def mutate_folder(source: Path, target: Path, rng: random.Random) -> None:
    shutil.copytree(source, target)
    files = [path for path in sorted(target.rglob("*")) if path.is_file()]
    for path in rng.sample(files, min(len(files), 4)):
        if rng.random() < 0.1 and len(list(target.iterdir())) > 1:  # an empty one is refused
            path.unlink()
        else:
            path.write_bytes(mutated(path.read_bytes(), rng))


def check_mutations(corpus: Path, folder: Path, seeds: range) -> None:
    for source in sorted(path for path in (corpus / "devices").iterdir() if path.is_dir()):
        for seed in seeds:
            rng = random.Random(f"{source.name}-{seed}")
            target = folder / f"{source.name}-{seed}"
            mutate_folder(source, target, rng)
            machine = detect_machine(SnapshotProbe(target), vendor_seconds=30)
            assert_sane(machine)
            text = digits_of(target)
            for device in machine.devices:
                # KFD writes the UUID as a decimal number.
                assert said(device, text) or "uniqueid" in text, (target, device)
            assert not [f for f in machine.failures if f.kind in ("detector_failed", "timeout")]
            shutil.rmtree(target)


def test_one_mutation_of_every_snapshot(corpus: Path, tmp_path: Path) -> None:
    check_mutations(corpus, tmp_path, range(1))


@pytest.mark.slow
def test_many_mutations_of_every_snapshot(corpus: Path, tmp_path: Path) -> None:
    check_mutations(corpus, tmp_path, range(1, 12))


def damaged(text: str, rng: random.Random) -> str:
    """Return a text that was cut, shuffled, mixed with another, or is no text at all."""
    way = rng.randrange(6)
    lines = text.splitlines(keepends=True)
    if way == 0:
        return text_of(rng.randbytes(rng.randrange(4000)))
    if way == 1:
        start = rng.randrange(len(text))
        return text[start : start + rng.randrange(len(text))]
    if way == 2:
        rng.shuffle(lines)
        return "".join(lines)
    if way == 3:
        return "".join(line[rng.randrange(20) :] for line in lines)
    if way == 4:
        mixed = lines + rng.choice(REPORTS)["text"].splitlines(keepends=True)
        return "".join(rng.choices(mixed, k=rng.randrange(1, 200)))
    return text_of(mutated(text.encode(), rng))


def check_pasted(seeds: range) -> None:
    for seed in seeds:
        rng = random.Random(seed)
        machine = machine_from_text(damaged(rng.choice(REPORTS)["text"], rng))
        assert_sane(machine)
        assert not [f for f in machine.failures if f.kind in ("detector_failed", "timeout")], seed


def test_no_pasted_text_raises() -> None:
    check_pasted(range(120))


@pytest.mark.slow
def test_no_pasted_text_raises_in_a_thousand() -> None:
    check_pasted(range(120, 1120))
