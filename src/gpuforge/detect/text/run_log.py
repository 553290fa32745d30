"""Logs of programs that name the GPU they run on, by the patterns in ``run_log.toml``."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from gpuforge import registry
from gpuforge.detect import pci_ids
from gpuforge.detect.notation import (
    Facts,
    gfx,
    kept,
    lines_of,
    name_of,
    pci_address,
    pci_address_of,
    pci_id,
    size,
    whole,
)
from gpuforge.detect.seen import Seen, Sighting
from gpuforge.detect.text.products import GPUS_AT_MOST, products_in
from gpuforge.facts import Driver, Toolkit, Vendor

PROGRAM = "lines"
_LIBRARIES: dict[str, Vendor] = {"cuda": "nvidia", "nvml": "nvidia", "rocm": "amd",
                                 "rsmi": "amd", "amdgpu": "amd", "oneapi": "intel"}  # fmt: skip
_SHARED = {"0": False, "1": True, "discrete": False, "integrated": True, "igpu": True,
           "built-in": True}  # fmt: skip
# How many lines apart the lines of one device may be.
REACH = 4


@dataclass
class _Device:
    tool: str
    vendor: Vendor | None
    line: int
    facts: Facts = field(default_factory=dict)
    count: int = 1
    last: int = 0


@cache
def _lines() -> list[tuple[dict[str, Any], re.Pattern[str]]]:
    entries = registry.table(__file__, "run_log")["line"]
    return [(entry, re.compile(entry["pattern"], re.I | re.M)) for entry in entries]


def read(text: str, route: str, seen: Seen) -> None:
    """Add the GPUs that programs name in a text."""
    folded = text.lower()
    entries = [(entry, pattern) for entry, pattern in _lines() if entry["word"] in folded]
    found: dict[tuple[str, str], _Device] = {}
    for block in (True, False):
        these = [one for one in entries if ("block" in one[0]) is block]
        for number, piece in enumerate(([text] if block else lines_of(text)) if these else ()):
            low = piece.lower()  # to look for a word is far faster than to try a pattern
            for entry, pattern in these:
                if not entry.get("apart") and entry["word"] not in low:
                    continue
                for match in pattern.finditer(piece):
                    said = {name: value for name, value in match.groupdict().items() if value}
                    _add(entry, said, number + piece.count("\n", 0, match.start()), found, seen)
    devices = [device for device in found.values() if device.vendor]
    for tool, vendor in dict.fromkeys((one.tool, one.vendor) for one in devices):
        own = [
            facts
            for one in devices
            if (one.tool, one.vendor) == (tool, vendor)
            for facts in [one.facts] * one.count
        ]
        last = max(one.last for one in devices if (one.tool, one.vendor) == (tool, vendor))
        if len({facts.get("name") for facts in own}) == 1:
            own += [own[0]] * (min(last + 1, GPUS_AT_MOST) - len(own))
        if vendor:
            seen.add(vendor, f"log of {tool}", own, trust=2)


def _add(
    entry: dict[str, Any],
    said: dict[str, str],
    number: int,
    found: dict[tuple[str, str], _Device],
    seen: Seen,
) -> None:
    """Add one line's facts: of a device, of the one before it, or of all of a vendor."""
    tool, name = entry["tool"], said.get("name", "")
    last = next((one for one in reversed(found.values()) if one.tool == tool), None)
    near = last is not None and number - last.line <= entry.get("reach", REACH)
    vendor = entry.get("vendor") or _LIBRARIES.get(said.get("library", "").lower())
    vendor = vendor or pci_ids.vendor_of(said.get("maker", "").lower())
    vendor = vendor or pci_ids.vendor_named_in(said.get("company", ""))
    # ROCm builds of a program print the same lines as CUDA builds.
    vendor = pci_ids.vendor_named_in(name) or vendor
    if vendor is None and name and (products := products_in(name.replace("_", " "), asked=True)):
        vendor = products[0].vendor
    if entry.get("everywhere"):
        if vendor:
            facts = facts_of(said, vendor)
            seen.sightings.append(Sighting(vendor, f"log of {tool}", facts, 2, everywhere=True))
        return
    unique = said.get("uuid") or said.get("index") or said.get("address") or name
    unique = unique or said.get("gfx", "")
    if entry.get("fresh") or not unique:
        unique = f"line {number}"
    if entry.get("continues") and near and last is not None:
        device = last
    elif vendor or entry.get("continues"):
        # Facts that precede a device, such as its memory, are kept for it without a vendor.
        waits = last is not None and near and last.vendor is None
        device = (
            last
            if waits and last
            else found.setdefault((tool, unique), _Device(tool, vendor, number))
        )
    else:
        return
    device.vendor = device.vendor or vendor
    device.last = (entry.get("numbered") and whole(said.get("index"))) or 0
    device.count = min(whole(said.get("count")) or device.count, GPUS_AT_MOST)
    facts = facts_of(said, device.vendor or "other")
    device.facts.update({key: value for key, value in facts.items() if key not in device.facts})


def _unpacked(said: dict[str, str]) -> str:
    """Return the address ``1a:00.0`` for NCCL's 1a000, and for its tests' 0x1a and 0000:1a:00."""
    number = said.get("packed", f"{said['bus_hex']}000" if "bus_hex" in said else "")
    digits = number.zfill(9)
    spelled = f"{digits[-9:-5]}:{digits[-5:-3]}:{digits[-3:-1]}.{digits[-1]}" if number else ""
    return spelled or f"{said.get('place', '')}.0"


def _driver(said: dict[str, str], vendor: Vendor) -> Driver | None:
    name = said.get("module", vendor)
    if "driver" in said:
        return Driver(name, said["driver"])
    return Driver(name) if "module" in said else None


def facts_of(said: dict[str, str], vendor: Vendor) -> Facts:
    """Return facts from the named groups of a line's match."""
    compute = said.get("compute", said.get("capability", ""))
    uuid, runtime = said.get("uuid", ""), said.get("runtime")
    numbers = [said.get(key, "0") for key in ("domain", "bus", "slot", "function")]
    place = numbers if said.get("bus") else ["0", *said.get("decimal", "").split(":")]
    kinds = {"nvidia": "cuda", "amd": "rocm", "intel": "level_zero"}
    device, maker, name = (said.get(key, "").strip() for key in ("device", "maker", "name"))
    if ident := re.fullmatch("([0-9a-f]{4}):([0-9a-f]{4})", name):
        maker, device, name = *ident.groups(), ""
    name = name if " " in name else name.replace("_", " ")
    maker = maker or (pci_ids.maker_of(vendor) if device and vendor != "other" else "")
    compute = compute or ".".join(said[key] for key in ("major", "minor") if key in said)
    compute = compute or re.sub(r"(?<=\d)(?=\d$)", ".", said.get("sm", ""))
    compute, runtime = "" if compute == "0.0" else compute, None if runtime == "0.0" else runtime
    shared = _SHARED.get(said.get("shared", "").lower())
    if shared is None and "chip" in said:
        shared = pci_ids.integrated_by_name(vendor, said["chip"], "")
    own = vendor == "intel" and pci_ids.integrated_by_name(vendor, name, "")  # has no memory
    parts = [int(said.get(key, "0")) for key in ("gfx_major", "gfx_minor", "gfx_step")]
    target = f"gfx{parts[0]}{parts[1]:x}{parts[2]:x}" if parts[0] else said.get("gfx", compute)
    return kept(
        name=name_of(pci_ids.split_maker(name)[1] if "[" in name else name),
        uuid=uuid if uuid.startswith("GPU-") else None,
        memory_total_bytes=None if own else size(said.get("total")) or size(said.get("mib"), "M"),
        compute_capability=compute
        if vendor == "nvidia" and re.fullmatch(r"\d+\.\d", compute)
        else None,
        architecture=gfx(target),
        pci_address=pci_address(said.get("address", "") or _unpacked(said))
        or (pci_address_of(*place) if len(place) == 4 else None),
        pci_id=pci_id(maker, device) if device and maker else None,
        integrated=shared,
        driver=_driver(said, vendor),
        runtimes=(Toolkit(kinds.get(vendor, vendor), runtime),) if runtime else None,
    )
