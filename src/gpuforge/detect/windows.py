"""GPUs of Windows.

1. WMI's ``Win32_VideoController``: the adapters; its ``AdapterRAM`` has 32 bits and stops at 4 GiB
2. the registry's display class, for the memory that WMI cannot say
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from gpuforge.detect import pci
from gpuforge.detect.notation import Facts, json_of, kept, lines_of, name_of, pci_id, records, whole
from gpuforge.detect.seen import Seen, Sighting
from gpuforge.facts import Absent, Driver, Failed, NotGpu, Reading
from gpuforge.probe import Output, Probe

CLASS_KEY = r"HKLM\SYSTEM\CurrentControlSet\Control\Class\{4d36e968-e325-11ce-bfc1-08002be10318}"
CIM = "Get-CimInstance Win32_VideoController | ConvertTo-Json"
# Drivers round the 32-bit field down to the last MiB or page below 4 GiB.
CAPPED_FROM_BYTES = 2**32 - 2**21
CAPPED = Absent("AdapterRAM holds at most 4 GiB: the size may be larger")
SHARED = Absent("shared with the CPU")


def detect(probe: Probe) -> Seen:
    """Return the GPUs that Windows shows."""
    seen = Seen()
    live = probe.platform == "win32"
    command = [["-NoProfile", "-NonInteractive", "-Command", CIM]] if live else []
    outputs = probe.outputs("win32_videocontroller")
    outputs += probe.outputs("wmic") + probe.outputs("powershell", *command)
    for output in outputs:
        if isinstance(output, Failed):
            seen.fail("windows", output)
        elif isinstance(output, Output):
            for entry in parse_wmi(output.stdout):
                _add(seen, entry, output.source)
    for output in probe.outputs("reg", *([["query", CLASS_KEY, "/s"]] if live else [])):
        if isinstance(output, Output):
            _add_sizes(seen, parse_reg(output.stdout))
    return seen


def _add(seen: Seen, entry: Mapping[str, str], route: str) -> None:
    place = entry.get("PNPDeviceID", "").replace("&amp;", "&")
    ids = re.search(r"VEN_([0-9A-F]{4})&DEV_([0-9A-F]{4})", place, re.I)
    name = name_of(entry.get("Name")) or name_of(entry.get("Caption"))
    vendor = pci.VENDORS.get(ids[1].lower()) if ids else None
    if ids is None or vendor is None:
        why = "virtual" if ids is None or ids[1] in pci.NOT_COMPUTING["virtual"] else "other vendor"
        shown = name or Absent("no name shown")
        seen.others.append(NotGpu(shown, Absent("not shown"), Absent("not shown"), why))
        return
    found = pci_id(ids[1], ids[2])
    shared = pci.integrated(found)
    facts = kept(name=name, pci_id=found, integrated=shared, driver=_driver(entry, vendor, name))
    memory = _memory(entry, shared)
    if memory is not None:
        facts["memory_total_bytes"] = memory
    seen.sightings.append(Sighting(vendor, route, facts, trust=1))


def _driver(entry: Mapping[str, str], vendor: str, name: str | None) -> Reading[Driver] | None:
    """Return the driver, or why the adapter has none that computes."""
    code = whole(entry.get("ConfigManagerErrorCode"))
    if code:
        return Failed(f"Windows reports problem code {code}", kind="driver_not_loaded")
    if (name or "").startswith("Microsoft Basic"):
        return Failed("Windows uses its basic display driver", kind="no_kernel_driver")
    version = entry.get("DriverVersion", "")
    return Driver(vendor, version) if re.fullmatch(r"[\d.]+", version) else None


def _memory(entry: Mapping[str, str], shared: bool | None) -> Reading[int] | None:
    count = whole(entry.get("AdapterRAM"))
    if shared:
        return SHARED
    if count and count >= CAPPED_FROM_BYTES:
        return CAPPED
    return count or None


def parse_wmi(text: str) -> list[dict[str, str]]:
    """Return WMI's adapters from ``key=value`` or ``key : value`` blocks, or from JSON."""
    value = json_of(text) if text.lstrip()[:1] in "{[" else None
    if value is not None:
        entries = [
            {str(key): "" if found is None else str(found) for key, found in entry.items()}
            for entry in ([value] if isinstance(value, dict) else records(value))
        ]
        return [entry for entry in entries if "PNPDeviceID" in entry]
    found: list[dict[str, str]] = [{}]
    for line in lines_of(text):
        match = re.match(r"\s*(\w+)\s*(?:=|: )(.*)", line)
        if match is None:
            continue
        if match[1] in found[-1]:
            found.append({})
        found[-1][match[1]] = match[2].strip()
    return [entry for entry in found if "PNPDeviceID" in entry]


def parse_reg(text: str) -> list[Facts]:
    """Return id and memory of the adapters in ``reg query ... /s`` of the display class."""
    found = []
    for block in re.split(r"^HKEY_", text, flags=re.M)[1:]:
        values = dict(re.findall(r"^[ \t]+(\S+)[ \t]+REG_\w+[ \t]+(\S.*)", block, re.M))
        place = values.get("MatchingDeviceId", "")
        ids = re.search(r"ven_([0-9a-f]{4})&dev_([0-9a-f]{4})", place, re.I)
        count = whole(values.get("HardwareInformation.qwMemorySize"), 16)
        if ids and count:
            found.append(kept(pci_id=pci_id(ids[1], ids[2]), memory_total_bytes=count))
    return found


def _add_sizes(seen: Seen, sizes: list[Facts]) -> None:
    """Give each card the registry's size; an entry without an adapter is of a card long gone."""
    for sighting in seen.sightings:
        for entry in sizes:
            if entry["pci_id"] == sighting.facts.get("pci_id") and not sighting.facts.get(
                "integrated"
            ):
                sighting.facts["memory_total_bytes"] = entry["memory_total_bytes"]
