"""OpenCL: the registered platforms, and the GPUs of a recorded ``clinfo``.

1. the ICD files in ``/etc/OpenCL/vendors``; no platform is opened, as that takes 16 to 300 ms
   and starts threads
2. ``clinfo`` as recorded, the least trusted of the tools
"""

from __future__ import annotations

import re

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
    product_of,
    size,
    whole,
)
from gpuforge.detect.pci_ids import integrated_by_name, maker_of, vendor_named_in, vendor_of
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
    "Vendor ID": "Device Vendor ID",
    "Version": "Device Version",
}
SOFTWARE = re.compile(
    r"llvmpipe|pocl|portable computing|swrast|oclgrind|cpu|Core\(TM\)|Xeon|Ryzen|EPYC|Threadripper|"
    r"Processor$|FPGA",
    re.I,
)


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
    """Open every registered platform and return names and versions; slow, so only on request."""
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
    """Return the GPUs of ``clinfo``, each once even if several platforms show it."""
    found: list[tuple[Vendor, Facts]] = []
    for platform in re.split(r"^(?=Number of devices)", text, flags=re.M):
        # AMD's clinfo starts a device with its type and prints "Key: value".
        blocks = re.split(r"^(?=[ \t]*Device (?:Name[ \t]{2}|Type:))", platform, flags=re.M)[1:]
        _join(found, [device for block in blocks if (device := _of_block(block))])
    return found or _of_list(text)


def _join(found: list[tuple[Vendor, Facts]], platform: list[tuple[Vendor, Facts]]) -> None:
    """Add the GPUs of one platform that no earlier platform showed."""
    before = list(found)
    for device in platform:
        same = next((one for one in before if _same(device, one)), None)
        if same:
            before.remove(same)
        else:
            found.append(device)


def _of_block(block: str) -> tuple[Vendor, Facts] | None:
    fields: dict[str, str] = {}
    for line in lines_of(block):
        match = re.match(r"\s*(\S.*?)(?:\s{2,}|:\s+)(\S.*)", line[:400])
        if match:
            key = match[1].rstrip(":")
            fields.setdefault(AMD_KEYS.get(key, key), match[2].rstrip())
    number = re.match(r"(?:0x)?([0-9a-f]{4})h?$", fields.get("Device Vendor ID", ""), re.I)
    maker = number[1].lower() if number else ""
    name = fields.get("Device Board Name (AMD)") or fields.get("Device Name") or ""
    vendor = vendor_named_in(fields.get("Device Vendor", "")) or vendor_of(maker)
    if vendor is None or "GPU" not in fields.get("Device Type", "GPU") or SOFTWARE.search(name):
        return None
    facts = _device(fields, vendor, maker)
    # A device of unknown type counts as a GPU if it has a field that only GPUs have.
    signs = ("pci_address", "pci_id", "architecture", "compute_capability")
    known_as = integrated_by_name(vendor, name, "") is not None
    if "Device Type" not in fields and not known_as and not any(sign in facts for sign in signs):
        return None
    return vendor, facts


def _device(fields: dict[str, str], vendor: Vendor, maker: str) -> Facts:
    name = fields.get("Device Board Name (AMD)") or fields.get("Device Name")
    capability = fields.get("Compute Capability (NV)", "").strip()
    place = " ".join(value for key, value in fields.items() if re.search(r"PCI|Topology", key))
    ids = [v for key, v in fields.items() if re.search(r"\bPCI-?E? ID\b|^Device ID\b", key, re.I)]
    number = whole(ids[0].split()[0], 0) if ids else None
    unified = fields.get("Unified memory for Host and Device") in ("Yes", "1")
    total = re.match(r"\d+", fields.get("Global memory size", ""))
    version = re.search(r"OpenCL (\d\.\d)", fields.get("Device Version", ""))
    return kept(
        name=name_of(name),
        pci_address=pci_address(place) or _decimal_place(place),
        pci_id=pci_id(maker or maker_of(vendor), f"{number:x}")
        if number
        else pci_ids.id_in_name(vendor, name or ""),
        compute_capability=capability if re.fullmatch(r"\d+\.\d", capability) else None,
        architecture=gfx(fields.get("Device Name", "")) if vendor == "amd" else None,
        memory_total_bytes=size(total[0]) if total and not unified else None,
        runtimes=(Toolkit("opencl", version[1]) if version else Toolkit("opencl"),),
    )


def _decimal_place(text: str) -> str | None:
    """Return the address in ``PCI[ B#45, D#0, F#0 ]``, whose numbers are decimal."""
    match = re.search(r"B#(\d+), D#(\d+), F#(\d+)", text)
    return pci_address_of(0, *match.groups()) if match else None


def _same(one: tuple[Vendor, Facts], other: tuple[Vendor, Facts]) -> bool:
    """Return whether two platforms show the same GPU: by its address, else by its name."""
    (vendor, facts), (maker, others) = one, other
    if "pci_address" in facts and "pci_address" in others:
        return bool(facts["pci_address"] == others["pci_address"])
    names = [product_of(str(each.get("name", ""))) for each in (facts, others)]
    return vendor == maker and (not all(names) or bool(names[0] & names[1]))


def _of_list(text: str) -> list[tuple[Vendor, Facts]]:
    """Return the GPUs of ``clinfo -l``, which shows only platforms and names."""
    found: list[tuple[Vendor, Facts]] = []
    for block in re.split(r"^(?=Platform #\d+: )", text, flags=re.M)[1:]:
        platform, *lines = lines_of(block)
        listed: list[tuple[Vendor, Facts]] = []
        for line in () if SOFTWARE.search(platform) else lines:
            device = re.match(r"(?:\s{1,8}|(?=[`+|-]))[`+|]?-*\s{0,4}Device #\d+: (.*)", line)
            vendor = vendor_named_in(platform) or vendor_named_in(device[1]) if device else None
            if device and vendor and not SOFTWARE.search(device[1]):
                facts = kept(name=name_of(device[1]), runtimes=(Toolkit("opencl"),))
                listed.append((vendor, facts))
        _join(found, listed)
    return found
