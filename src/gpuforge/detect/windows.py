"""GPUs on Windows.

1. WMI's ``Win32_VideoController`` for the adapters; its 32-bit ``AdapterRAM`` ends at 4 GiB
2. the registry's display class, for sizes that WMI cannot express
3. ``dxdiag`` as recorded: the adapters with their dedicated memory
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from gpuforge.detect import pci_ids
from gpuforge.detect.notation import (
    fields_of,
    json_of,
    kept,
    lines_of,
    name_of,
    pci_id,
    records,
    rows_of,
    size,
    told,
    whole,
)
from gpuforge.detect.seen import Seen
from gpuforge.detect.source import outputs_of
from gpuforge.facts import Absent, Driver, Failed, Reading
from gpuforge.probe import Probe

CLASS_KEY = r"HKLM\SYSTEM\CurrentControlSet\Control\Class\{4d36e968-e325-11ce-bfc1-08002be10318}"
CIM = "Get-CimInstance Win32_VideoController | ConvertTo-Json"
# Drivers saturate the 32-bit field at the last MiB or page below 4 GiB.
CAPPED_FROM_BYTES = 2**32 - 2**21
CAPPED = Absent("AdapterRAM shows at most 4 GiB: the memory may be larger")
SHARED = Absent("shared with the CPU")
# A listing of adapters has at least one of these; other WMI listings have none.
KEYS = {"PNPDeviceID", "AdapterRAM", "VideoProcessor", "Name", "Caption"}


def detect(probe: Probe) -> Seen:
    """Return the GPUs that Windows shows."""
    seen = Seen()
    live = probe.platform == "win32"
    command = ["-NoProfile", "-NonInteractive", "-Command", CIM]
    listings = ("win32_videocontroller", "wmic", "get-ciminstance", "get-wmiobject", "powershell")
    for name in listings:
        ask = live and name == "powershell"
        for said in seen.outputs("windows", probe, name, command, ask=ask):
            for entry in parse_wmi(said.stdout):
                _add(seen, entry, said.source)
    for said in () if seen.sightings else outputs_of(probe, "dxdiag"):
        for entry in parse_dxdiag(said.stdout):
            _add(seen, entry, said.source)
    if seen.sightings and not live:
        seen.host["platform"] = "windows"
    for said in outputs_of(probe, "reg", ["query", CLASS_KEY, "/s"], ask=live):
        # An entry without an adapter belongs to a card that was removed.
        sizes = parse_reg(said.stdout)
        for facts in (sighting.facts for sighting in seen.sightings):
            if facts.get("pci_id") in sizes and not facts.get("integrated"):
                facts["memory_total_bytes"] = sizes[facts["pci_id"]]
    return seen


def _add(seen: Seen, entry: Mapping[str, str], route: str) -> None:
    place = entry.get("PNPDeviceID", "").replace("&amp;", "&")
    ids = re.search(r"VEN_([0-9A-F]{4})&DEV_([0-9A-F]{4})", place, re.I)
    name = name_of(entry.get("Name")) or name_of(entry.get("Caption"))
    maker = ids[1].lower() if ids else ""
    # A listing of selected columns may lack the device's address.
    vendor = pci_ids.vendor_of(maker) if place else pci_ids.vendor_named_in(name or "")
    chip = re.search(r"\(0x([0-9A-F]{4})\)", entry.get("VideoProcessor", ""), re.I)  # AMD's
    if vendor is None:
        virtual = not maker or pci_ids.not_computing(maker, None) == "virtual"
        seen.pass_over("virtual" if virtual else "other vendor", name)
        return
    amd = pci_id("1002", chip[1]) if chip and vendor == "amd" else None
    found = pci_id(ids[1], ids[2]) if ids else amd
    shared = pci_ids.integrated(found)
    facts = kept(name=name, pci_id=found, integrated=shared, driver=_driver(entry, vendor, name))
    memory = _memory(entry, vendor, shared)
    if memory is not None:
        facts["memory_total_bytes"] = memory
    seen.add(vendor, route, [facts], trust=1)


def _driver(entry: Mapping[str, str], vendor: str, name: str | None) -> Reading[Driver] | None:
    """Return the driver, or why the adapter has none that can compute."""
    code = whole(entry.get("ConfigManagerErrorCode"))
    if code:
        return Failed(f"Windows reports problem code {code}", kind="driver_not_loaded")
    if (name or "").startswith("Microsoft Basic"):
        return Failed("Windows uses its basic display driver", kind="no_kernel_driver")
    version = entry.get("DriverVersion", "")
    return Driver(vendor, version) if re.fullmatch(r"[\d.]+", version) else None


def _memory(entry: Mapping[str, str], vendor: str, shared: bool | None) -> Reading[int] | None:
    # AMD's driver shows the firmware's carve-out for the GPU, Intel's a share of all memory.
    if shared and vendor != "amd":
        return SHARED
    if "DedicatedMemory" in entry:
        return size(entry["DedicatedMemory"], "M") or (SHARED if shared else None)
    count = whole(entry.get("AdapterRAM"))
    if count and count >= CAPPED_FROM_BYTES:
        return CAPPED
    return count or None


def parse_wmi(text: str) -> list[dict[str, str]]:
    """Parse WMI adapters from JSON, CSV, a table, or ``key=value`` or ``key : value`` blocks."""
    value = json_of(text, '"PNPDeviceID"')
    if value is not None:
        entries = [
            {str(key): "" if found is None else str(found) for key, found in entry.items()}
            for entry in ([value] if isinstance(value, dict) else records(value))
        ]
        return [entry for entry in entries if KEYS & entry.keys()]
    lines = [line for line in lines_of(text) if line.strip() and not line.startswith("#TYPE")]
    if lines and KEYS & set(re.split(r'[",]+', lines[0])) and "," in lines[0]:
        heading, *rows = rows_of("\n".join(lines))
        return [dict(zip(heading, row, strict=False)) for row in rows]
    if lines and KEYS & set(lines[0].split()) and not re.search("[=:]", lines[0]):
        return _of_columns(lines)
    found: list[dict[str, str]] = [{}]
    for line in lines:
        match = re.match(r"\s*(\w+)\s*(?:=|: )(.*)", line)
        if match is None:
            continue
        if match[1] in found[-1]:
            found.append({})
        found[-1][match[1]] = match[2].strip()
    return [entry for entry in found if KEYS & entry.keys()]


def _of_columns(lines: list[str]) -> list[dict[str, str]]:
    """Return the rows of a table whose columns start where their headings do."""
    heads = [(match[0], match.start()) for match in re.finditer(r"\S+", lines[0])]
    ends = [start for _, start in heads[1:]] + [None]
    rows = [line for line in lines[1:] if line.strip("- ")]
    return [
        {head: row[start:end].strip() for (head, start), end in zip(heads, ends, strict=True)}
        for row in rows
    ]


def parse_dxdiag(text: str) -> list[dict[str, str]]:
    """Parse the adapters of ``dxdiag``'s text, each once even if several screens show it."""
    found: dict[str, dict[str, str]] = {}
    for block in re.split(r"^(?=[ \t]*Card name:)", text, flags=re.M)[1:]:
        entry = told(fields_of(block), "dxdiag")
        entry["DedicatedMemory"] = entry.get("DedicatedMemory", "").replace("n/a", "")
        found.setdefault(entry.get("PNPDeviceID", entry["Name"]), entry)
    return list(found.values())


def parse_reg(text: str) -> dict[str, int]:
    """Return memory in bytes by PCI id, from the display class as queried or exported."""
    found = {}
    for block in re.split(r"^\[?HKEY_", text, flags=re.M)[1:]:
        values = dict(re.findall(r"^[ \t]+(\S+)[ \t]+REG_\w+[ \t]+(\S.*)", block, re.M))
        values |= dict(re.findall(r'^"([^"]+)"=(\S.*)', block, re.M))
        place = values.get("MatchingDeviceId", "")
        ids = re.search(r"ven_([0-9a-f]{4})&dev_([0-9a-f]{4})", place, re.I)
        number = values.get("HardwareInformation.qwMemorySize", "")
        if number.startswith("hex(b):"):  # bytes, the lowest first
            number = "".join(reversed(number.strip()[len("hex(b):") :].split(",")))
        count = whole(number, 16)
        ident = pci_id(ids[1], ids[2]) if ids else None
        if ident and count:
            found[ident] = count
    return found
