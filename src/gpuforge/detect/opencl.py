"""OpenCL: the platforms that are registered, and what a recorded ``clinfo`` shows.

1. the ICD files in ``/etc/OpenCL/vendors``; no platform is opened, for that takes 16 to 300 ms
   and starts threads
2. ``clinfo`` as recorded; a bystander: its word counts last
"""

from __future__ import annotations

import re

from gpuforge.detect.notation import (
    Facts,
    gfx,
    kept,
    lines_of,
    name_of,
    pci_address,
    pci_address_of,
    size,
)
from gpuforge.detect.pci_ids import vendor_named_in
from gpuforge.detect.seen import Seen
from gpuforge.detect.source import names_in, outputs_of, text_at
from gpuforge.facts import Absent, Failed, Toolkit, Vendor
from gpuforge.probe import Probe

ICD_FOLDER = "/etc/OpenCL/vendors"
CL_PLATFORM_VERSION, CL_PLATFORM_NAME = 0x0901, 0x0902  # cl.h
AMD_KEYS = {
    "Board name": "Device Board Name (AMD)",
    "Name": "Device Name",
    "Vendor": "Device Vendor",
    "Version": "Device Version",
}
SOFTWARE = re.compile(r"llvmpipe|pocl|portable computing|swrast|oclgrind|cpu", re.I)


def detect(probe: Probe) -> Seen:
    """Return the registered platforms, and the GPUs of a recorded ``clinfo``."""
    seen = Seen()
    for name in registered(probe):
        seen.toolkits.append(Toolkit(f"opencl:{name}"))
    for output in outputs_of(probe, "clinfo"):
        for vendor, facts in parse_clinfo(output.stdout):
            seen.add(vendor, output.source, [facts], trust=2)
    return seen


def registered(probe: Probe) -> tuple[str, ...]:
    """Return the names of the libraries that the ICD files name."""
    files = [name for name in names_in(probe, ICD_FOLDER) if name.endswith(".icd")]
    texts = (text_at(probe, f"{ICD_FOLDER}/{name}").strip() for name in files)
    return tuple(lines_of(text)[0][:200].rpartition("/")[2] for text in texts if text)


def open_platforms(probe: Probe) -> list[Toolkit]:
    """Open every registered platform and return its name and version; slow, so only when asked."""
    import ctypes

    library = probe.load_library("libOpenCL.so.1" if probe.platform == "linux" else "OpenCL")
    if isinstance(library, Absent | Failed):
        return []
    count, handles = ctypes.c_uint(), (ctypes.c_void_p * 64)()
    if library.clGetPlatformIDs(64, handles, ctypes.byref(count)) != 0:
        return []
    found = []
    for handle in handles[: min(count.value, 64)]:
        texts = []
        for what in (CL_PLATFORM_NAME, CL_PLATFORM_VERSION):
            buffer = ctypes.create_string_buffer(256)
            library.clGetPlatformInfo(ctypes.c_void_p(handle), what, 256, buffer, None)
            texts.append(buffer.value.decode("utf-8", "replace"))
        found.append(Toolkit(f"OpenCL platform {texts[0]}", texts[1]))
    return found


def parse_clinfo(text: str) -> list[tuple[Vendor, Facts]]:
    """Return the GPUs of ``clinfo``, each once though several platforms show it."""
    found: list[tuple[Vendor, Facts]] = []
    # AMD's own clinfo begins a device with its type and writes "Key: value".
    for block in re.split(r"^(?=[ \t]*Device (?:Name[ \t]{2}|Type:))", text, flags=re.M)[1:]:
        fields: dict[str, str] = {}
        for line in lines_of(block):
            match = re.match(r"\s*(\S.*?)(?:\s{2,}|:\s+)(\S.*)", line[:400])
            if match:
                key = match[1].rstrip(":")
                fields.setdefault(AMD_KEYS.get(key, key), match[2].rstrip())
        vendor = vendor_named_in(fields.get("Device Vendor", ""))
        if "GPU" not in fields.get("Device Type", "") or vendor is None:
            continue
        facts = _device(fields, vendor)
        if not any(_same(facts, other) for _, other in found):
            found.append((vendor, facts))
    return found or _of_list(text)


def _device(fields: dict[str, str], vendor: Vendor) -> Facts:
    name = fields.get("Device Board Name (AMD)") or fields.get("Device Name")
    capability = fields.get("Compute Capability (NV)", "").strip()
    place = " ".join(value for key, value in fields.items() if re.search(r"PCI|Topology", key))
    unified = fields.get("Unified memory for Host and Device") in ("Yes", "1")
    total = re.match(r"\d+", fields.get("Global memory size", ""))
    version = re.search(r"OpenCL (\d\.\d)", fields.get("Device Version", ""))
    return kept(
        name=name_of(name),
        pci_address=pci_address(place) or _decimal_place(place),
        compute_capability=capability if re.fullmatch(r"\d+\.\d", capability) else None,
        architecture=gfx(fields.get("Device Name", "")) if vendor == "amd" else None,
        memory_total_bytes=size(total[0]) if total and not unified else None,
        runtimes=(Toolkit("opencl", version[1]) if version else Toolkit("opencl"),),
    )


def _decimal_place(text: str) -> str | None:
    """Return the address in ``PCI[ B#45, D#0, F#0 ]``, whose numbers are decimal."""
    match = re.search(r"B#(\d+), D#(\d+), F#(\d+)", text)
    return pci_address_of(0, *match.groups()) if match else None


def _same(one: Facts, other: Facts) -> bool:
    key = "pci_address" if "pci_address" in one and "pci_address" in other else "name"
    return bool(one.get(key) == other.get(key))


def _of_list(text: str) -> list[tuple[Vendor, Facts]]:
    """Return the GPUs of ``clinfo -l``, which shows platforms and names alone."""
    found: list[tuple[Vendor, Facts]] = []
    vendor: Vendor | None = None
    for line in lines_of(text):
        platform = re.match(r"Platform #\d+: (.*)", line)
        device = re.match(r"\s{1,8}[`+|]?-*\s{0,4}Device #\d+: (.*)", line)
        if platform:
            vendor = None if SOFTWARE.search(platform[1]) else vendor_named_in(platform[1])
        elif device and vendor and not SOFTWARE.search(device[1]):
            found.append((vendor, kept(name=name_of(device[1]), runtimes=(Toolkit("opencl"),))))
    return found
