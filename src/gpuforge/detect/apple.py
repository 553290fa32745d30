"""GPUs of Macs: Apple's own, and AMD, Intel and NVIDIA GPUs in older models.

1. ``ioreg``, which is fast but shows only Apple's GPU
2. ``system_profiler SPDisplaysDataType`` where ``ioreg`` shows none
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gpuforge.detect import pci_ids
from gpuforge.detect.notation import (
    Facts,
    fields_of,
    json_of,
    kept,
    lines_of,
    name_of,
    pci_id,
    records,
    size,
    told,
    word,
)
from gpuforge.detect.seen import Seen
from gpuforge.detect.source import outputs_of
from gpuforge.facts import Absent, Toolkit
from gpuforge.probe import Probe

# Metal GPU family by chip: Apple, Metal Feature Set Tables (2026-05-21).
FAMILIES = {"M1": "apple7", "M2": "apple8", "M3": "apple9", "M4": "apple9", "M5": "apple10"}
_PAIR = re.compile(
    r'"(\w[\w-]+)"\s*:\s*"([^"\n]{1,200})"|<key>(\w[\w-]+)</key>\s*<string>([^<]{1,200})'
)
UNIFIED = Absent("shared with the CPU")
CEILING = Absent("only a limit on shared memory is shown")


def detect(probe: Probe) -> Seen:
    """Return the GPUs that macOS shows."""
    seen = Seen()
    live = probe.platform == "darwin"
    for said in outputs_of(probe, "ioreg", ["-rc", "AGXAccelerator", "-d", "1"], ask=live):
        seen.add("apple", said.source, parse_ioreg(said.stdout))
    command, ask = ["SPDisplaysDataType", "-json"], live and not seen.sightings
    for said in seen.outputs("apple", probe, "system_profiler", command, ask=ask):
        for entry in parse_system_profiler(said.stdout):
            _add(seen, entry, said.source)
    if seen.sightings and not live:
        seen.host["platform"] = "macos"
    memory = _memory(probe) if live and seen.sightings else None
    for sighting in seen.sightings:
        if sighting.vendor == "apple":
            sighting.facts["memory_total_bytes"] = memory or UNIFIED
    return seen


def _memory(probe: Probe) -> int | None:
    """Return the memory that CPU and GPU share, in bytes."""
    for output in outputs_of(probe, "sysctl", ["-n", "hw.memsize"]):
        return size(output.stdout.strip().rpartition("hw.memsize: ")[2].partition("\n")[0])
    return None


def _add(seen: Seen, entry: Mapping[str, str], route: str) -> None:
    """Add an entry of system_profiler, as a GPU or as a display that is none."""
    named = entry.get("vendor") or entry.get("model") or entry.get("heading", "")
    vendor = pci_ids.vendor_named_in(named)
    heading, model = name_of(entry.get("heading")), name_of(entry.get("model"))
    # Old Macs give the driver's key, "ATI,RadeonHD2600", in place of the model.
    name = heading if model is None or re.fullmatch(r"\w+,\w+", model) else model
    if vendor is None:
        seen.pass_over("virtual", name)
        return
    number = pci_ids.maker_of(vendor)
    found = pci_id(number, entry.get("device", "")) if vendor != "apple" else None
    # Chipset GPUs, such as NVIDIA's 9400M, may also report "PCI".
    built_in = "built" in entry.get("bus", "").lower() or pci_ids.integrated(found)
    facts = kept(
        name=name,
        pci_id=found,
        # Of a card that macOS does not know by name it shows no true size.
        memory_total_bytes=size(entry.get("memory")) if name and entry.get("memory") else None,
        integrated=True if built_in or vendor == "apple" else False if entry.get("bus") else None,
        runtimes=_metal(entry.get("metal", "")),
        architecture=_family(name) if vendor == "apple" else None,
    )
    if entry.get("dynamic") and "memory_total_bytes" not in facts:
        facts["memory_total_bytes"] = CEILING
    seen.add(vendor, route, [facts])


def _family(name: str | None) -> str | None:
    chip = re.match(r"Apple (M\d)", name or "")
    return FAMILIES.get(chip[1]) if chip else None


def _metal(text: str) -> tuple[Toolkit, ...] | None:
    """Return Metal and its version where the text says that it is supported."""
    version = re.search(r"metal\s*(\d)\b", text, re.I)
    if version:
        return (Toolkit("metal", version[1]),)
    return (Toolkit("metal"),) if word(text) and "not" not in text.lower() else None


def parse_ioreg(text: str) -> list[Facts]:
    """Return Apple's GPU from ``ioreg -rc AGXAccelerator``."""
    found = []
    for block in re.split(r"^\+-o ", text, flags=re.M)[1:]:
        model = re.search(r'"model" = "([^"]+)"', block)
        name = name_of(model[1]) if model else None
        if name and name.startswith("Apple"):
            metal = (Toolkit("metal"),)
            found.append(
                kept(name=name, integrated=True, architecture=_family(name), runtimes=metal)
            )
    return found


def parse_system_profiler(text: str) -> list[dict[str, str]]:
    """Return the entries of ``SPDisplaysDataType``, from its JSON or its text."""
    if text.lstrip().startswith("<?xml") and (whole := _of_plist(text)):
        return [_entry(entry) for entry in records(whole)]
    value = json_of(text, '"SPDisplaysDataType"')
    if value is not None:
        listed = value.get("SPDisplaysDataType") if isinstance(value, dict) else None
        return [_entry(entry) for entry in records(listed)]
    if cut := [_entry(fields) for fields in _of_cut(text) if _entry(fields).keys() - {"heading"}]:
        return cut
    pieces = re.split(r"^[ \t]*Chipset Model:[ \t]*(.*)$", text, flags=re.M)
    found = []
    for before, model, after in zip(pieces[0::2], pieces[1::2], pieces[2::2], strict=False):
        headings = [line.strip() for line in lines_of(before) if line.strip()]
        entry = {"model": model.strip(), "heading": headings[-1].rstrip(":") if headings else ""}
        entry.update(_entry(fields_of(after)))
        found.append(entry)
    return found


def _of_plist(text: str) -> list[Any]:
    """Return the entries of ``system_profiler -xml``, a property list."""
    import plistlib
    from xml.parsers.expat import ExpatError

    try:
        value = plistlib.loads(text.encode())
        return [item for part in value for item in part.get("_items", [])]
    except (ExpatError, ValueError, TypeError, AttributeError, LookupError, OverflowError):
        return []


def _of_cut(text: str) -> list[dict[str, str]]:
    """Return the entries of truncated JSON or a truncated property list, each from its name on."""
    found: list[dict[str, str]] = []
    for line in _PAIR.findall(text):
        key, value = line[0] or line[2], line[1] or line[3]
        if key == "_name":
            found.append({})
            driver = re.fullmatch(r"kHW_(\w+?)Item", value)  # a key of the driver, not a name
            value = re.sub(r"(?<=[a-z])(?=[A-Z\d])", " ", driver[1]) if driver else value
        if found:
            found[-1].setdefault(key, value)
    return found


def _entry(fields: Mapping[str, Any]) -> dict[str, str]:
    return {mine: str(value) for mine, value in told(fields, "system_profiler").items()}
