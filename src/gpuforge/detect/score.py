"""How suitable a device is for machine learning, as a score from 0 to 100; pure functions.

::

    score = 100 x health x (0.40 memory + 0.25 compute + 0.20 framework + 0.15 bandwidth)

    memory     log2(1 + GiB) / log2(1 + 192), at most 1; a sixth if unknown, which stands for
               1.4 GiB, as nearly every GPU has
    compute    0.5 for matrix units, 0.25 for bf16, 0.25 for fp8 in hardware
    framework  1: current PyTorch builds support the architecture; 0.5: only older builds or an
               override do; 0: none does, or the table does not know the architecture
    bandwidth  log2(1 + GB/s / 50) / log2(1 + 8000 / 50), at most 1; if the table has no value,
               this part is left out and the others weigh more, but it is 0 for a GPU that
               shares the CPU's memory bus
    health     1: the vendor's driver works; 0.9: no source shows the driver; 0.1: none is bound,
               or one that cannot compute (nouveau, radeon, vfio-pci)

Any other unknown part counts as 0: a device gets no credit for what no source confirms.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from gpuforge import registry
from gpuforge.detect import pci_ids
from gpuforge.detect.notation import as_makers_write
from gpuforge.facts import Absent, Device, Failed, known

WEIGHTS = {"memory": 0.40, "compute": 0.25, "framework": 0.20, "bandwidth": 0.15}
TOP_MEMORY_GIB, TOP_BANDWIDTH, LOW_BANDWIDTH = 192, 8000, 50
IDLE_DRIVERS = {"nouveau", "radeon", "fglrx_pci", "fglrx", "vfio-pci", "nvidiafb", "pci-stub"}
UNKNOWN_SHARE = 1 / 6
LAPTOP = re.compile(r"Laptop|Mobile|Max-Q|\d{3,4}M\b", re.I)


@dataclass(frozen=True)
class Part:
    """One part of a score: its name, its value from 0 to 1 or None, and why."""

    name: str
    value: float | None
    why: str


def table() -> dict[str, Any]:
    """Return the shipped facts about architectures."""
    return registry.table(__file__, "architectures")


def architecture_of(device: Device) -> dict[str, Any] | None:
    """Return a device's row of the table, by capability, gfx, PCI id, chip name or product."""
    name, family = known(device.name) or "", known(device.architecture)
    written = as_makers_write(name)
    rows = [row for row in table()["architecture"] if row["vendor"] == device.vendor]
    capability = known(device.compute_capability)
    number = int((known(device.pci_id) or "0:0").split(":")[1], 16)

    def fits(pattern: str | None) -> bool:
        return bool(pattern and re.search(pattern, written, re.I))

    tests: tuple[Callable[[dict[str, Any]], bool], ...] = (
        lambda row: device.vendor != "nvidia" and family == row["name"],
        lambda row: pci_ids.within(row.get("ranges", ""), number),
        lambda row: fits(f"\\b({row['codes']})" if "codes" in row else None),
        lambda row: fits(row.get("products")),
    )
    if capability is not None:
        # Rows may share a capability: Turing comes with and without tensor cores.
        rows = [row for row in rows if row.get("capability") == capability]
        tests = (*tests, lambda row: True)
    return next((row for test in tests for row in rows if test(row)), None)


def identify(device: Device) -> Device:
    """Return the device with facts from the tables where no route reported them."""
    row = architecture_of(device) or {}
    found: dict[str, Any] = {}
    if "capability" in row and known(device.compute_capability) is None:
        found["compute_capability"] = row["capability"]
    if row and known(device.architecture) is None:
        found["architecture"] = row["name"]
    if known(device.integrated) is None:
        family = known(device.compute_capability) or known(device.architecture) or ""
        shared = pci_ids.integrated(known(device.pci_id))
        if shared is None:
            name = known(device.name) or ""
            shared = pci_ids.integrated_by_name(device.vendor, as_makers_write(name), family)
        if shared is None and device.vendor == "intel":
            # Intel's datasheets of processors and chipsets place their graphics at device 2.
            shared = known(device.pci_address) == "0000:00:02.0" or None
        if shared is not None:
            found["integrated"] = shared
    origins = {**device.origins, **dict.fromkeys(found, "table by PCI id or name")}
    return replace(device, **found, origins=origins) if found else device


def parts_of(device: Device) -> tuple[Part, ...]:
    """Return the parts of a device's score, each with the fact it is based on."""
    row = architecture_of(device) or {}
    return _memory(device), _compute(row), _framework(row), _bandwidth(device), _health(device)


def score_of(device: Device) -> int:
    """Return the score of a device from 0 to 100."""
    *weighed, health = parts_of(device)
    values = [(WEIGHTS[part.name], part.value) for part in weighed if part.value is not None]
    total = sum(weight * value for weight, value in values) / sum(weight for weight, _ in values)
    return round(100 * total * (health.value or 0.0))


def best_of(devices: list[Device]) -> int | None:
    """Return the index of the highest-scoring device, the first of several equal ones."""
    usable = [device for device in devices if known(device.score) is not None]
    return max(usable, key=lambda d: (known(d.score) or 0, -d.index)).index if usable else None


def _memory(device: Device) -> Part:
    total = device.memory_total_bytes
    count = known(total)
    if count is None:
        why = total.reason if isinstance(total, Absent | Failed) else "unknown"
        return Part("memory", UNKNOWN_SHARE, f"unknown: {why}")
    gib = count / 2**30
    value = min(1.0, math.log2(1 + gib) / math.log2(1 + TOP_MEMORY_GIB))
    return Part("memory", value, f"{gib:.1f} GiB")


def _compute(row: dict[str, Any]) -> Part:
    if not row:
        return Part("compute", 0.0, "unknown architecture")
    have = [name for name in ("matrix", "bf16", "fp8") if row.get(name)]
    value = 0.5 * ("matrix" in have) + 0.25 * ("bf16" in have) + 0.25 * ("fp8" in have)
    return Part("compute", value, ", ".join(have) or "no matrix units, bf16 or fp8")


def _framework(row: dict[str, Any]) -> Part:
    words = {1: "in current PyTorch builds", 0.5: "only in older builds or with an override"}
    value = float(row.get("framework", 0.0))
    return Part("framework", value, words.get(value, "in no PyTorch build"))


def bandwidth_of(device: Device) -> int | None:
    """Return a device's memory bandwidth in GB/s from the table, or None if it is unknown."""
    name = known(device.name) or ""
    patterns = [pair for group in table()["bandwidth"] for pair in group.items()]
    shown = () if LAPTOP.search(name) else patterns
    return next((rate for pattern, rate in shown if re.search(pattern, name, re.I)), None)


def _bandwidth(device: Device) -> Part:
    rate = bandwidth_of(device)
    if rate is not None:
        scale = math.log2(1 + TOP_BANDWIDTH / LOW_BANDWIDTH)
        value = min(1.0, math.log2(1 + rate / LOW_BANDWIDTH) / scale)
        return Part("bandwidth", value, f"{rate} GB/s")
    if known(device.integrated) is True:
        return Part("bandwidth", 0.0, "shares the memory bus of the CPU")
    return Part("bandwidth", None, "not in the table; not counted")


def _health(device: Device) -> Part:
    driver = device.driver
    if isinstance(driver, Failed):
        return Part("health", 0.1, driver.reason)
    if isinstance(driver, Absent):
        apple = device.vendor == "apple"
        return Part("health", 1.0 if apple else 0.9, "part of macOS" if apple else driver.reason)
    if driver.name in IDLE_DRIVERS:
        return Part("health", 0.1, f"{driver.name} cannot be used for computing")
    version = known(driver.version)
    return Part("health", 1.0, f"{driver.name} {version or '(version not shown)'}")
