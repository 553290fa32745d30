"""Logs of programs that name the GPU they run on, by the lines in ``run_log.toml``."""

from __future__ import annotations

import re
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
)
from gpuforge.detect.seen import Seen, Sighting
from gpuforge.facts import Driver, Toolkit, Vendor

PROGRAM = "lines"
_LIBRARIES: dict[str, Vendor] = {"cuda": "nvidia", "rocm": "amd", "oneapi": "intel"}
# Of a tool that writes the memory on a line of its own.
_ALONE = re.compile(
    r"^\s*Total VRAM (\d+ MB)|NVIDIA\(\d\): Memory: (\d+ k)Bytes|"
    r"^\s*Total amount of global memory:\s+(\d+ MB)"
)


@cache
def _lines() -> list[tuple[dict[str, Any], re.Pattern[str]]]:
    entries = registry.table(__file__, "run_log")["line"]
    return [(entry, re.compile(entry["pattern"], re.I)) for entry in entries]


def read(text: str, route: str, seen: Seen) -> None:
    """Add the GPUs that programs name in a text."""
    found: dict[tuple[str, str, str], tuple[Vendor, Facts]] = {}
    memory: list[int] = []
    for line in lines_of(text):
        alone = _ALONE.search(line)
        if alone:
            shown = size(next(part for part in alone.groups() if part))
            memory += [shown] if shown else []
        for entry, pattern in _lines():
            for match in pattern.finditer(line):
                _add(entry, {k: v for k, v in match.groupdict().items() if v}, found, seen)
    devices = list(found.values())
    if len(devices) == 1 and len(set(memory)) == 1:
        devices[0][1].setdefault("memory_total_bytes", memory[0])
    for tool, vendor in dict.fromkeys((key[0], vendor) for key, (vendor, _) in found.items()):
        own = [f for key, (maker, f) in found.items() if (key[0], maker) == (tool, vendor)]
        seen.add(vendor, f"log of {tool}", own, trust=2)


def _add(
    entry: dict[str, Any],
    said: dict[str, str],
    found: dict[tuple[str, str, str], tuple[Vendor, Facts]],
    seen: Seen,
) -> None:
    tool, name = entry["tool"], said.get("name", "")
    vendor = entry.get("vendor") or _LIBRARIES.get(said.get("library", "").lower())
    vendor = vendor or pci_ids.vendor_named_in(name)
    if vendor is None:
        return
    facts = facts_of(said, vendor)
    if entry.get("everywhere"):
        seen.sightings.append(Sighting(vendor, f"log of {tool}", facts, 2, everywhere=True))
        return
    unique = said.get("uuid") or said.get("index") or said.get("address") or name
    _, known = found.setdefault((tool, vendor, unique), (vendor, {}))
    known.update({key: value for key, value in facts.items() if key not in known})


def facts_of(said: dict[str, str], vendor: Vendor) -> Facts:
    """Return facts from the groups of a line."""
    compute = said.get("compute", said.get("capability", ""))
    uuid, runtime = said.get("uuid", ""), said.get("runtime")
    place = said.get("decimal", "").split(":")
    kinds = {"nvidia": "cuda", "amd": "rocm", "intel": "level_zero"}
    device = said.get("device", "")
    return kept(
        name=name_of(said.get("name")),
        uuid=uuid if uuid.startswith("GPU-") else None,
        memory_total_bytes=size(said.get("total")),
        compute_capability=compute if re.fullmatch(r"\d+\.\d", compute) else None,
        architecture=gfx(said.get("gfx", compute)),
        pci_address=pci_address(said.get("address", ""))
        or (pci_address_of(0, *place) if len(place) == 3 else None),
        pci_id=pci_id(said.get("maker", pci_ids.maker_of(vendor)), device) if device else None,
        integrated={"0": False, "1": True}.get(said.get("shared", "")),
        driver=Driver(vendor, said["driver"]) if "driver" in said else None,
        runtimes=(Toolkit(kinds.get(vendor, vendor), runtime),) if runtime else None,
    )
