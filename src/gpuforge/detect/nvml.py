"""NVIDIA's management library, called directly: a few milliseconds, no CUDA context.

Source: NVML API reference, https://docs.nvidia.com/deploy/nvml-api/ (return codes, structures).
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gpuforge.detect.notation import Facts, kept, name_of, pci_address, pci_id
from gpuforge.detect.nvidia_smi import UNIFIED, Report
from gpuforge.facts import Failed

LIBRARIES = {"win32": ("nvml.dll",)}
LINUX_LIBRARIES = ("libnvidia-ml.so.1", "/usr/lib/wsl/lib/libnvidia-ml.so.1")
NOT_SUPPORTED = 3
# Return codes of nvmlInit and of a device to the kinds of `detect --json`; the rest are unknown.
KINDS = {
    4: "no_permission",
    6: "no_devices",
    9: "driver_not_loaded",
    15: "gpu_lost",
    16: "gpu_lost",
    17: "os_blocked",
    18: "version_mismatch",
    28: "no_devices",
}
TEXT_BYTES = 96


class PciInfo(ctypes.Structure):
    """``nvmlPciInfo_t``."""

    _fields_ = (
        ("bus_id_legacy", ctypes.c_char * 16),
        ("domain", ctypes.c_uint),
        ("bus", ctypes.c_uint),
        ("device", ctypes.c_uint),
        ("pci_device_id", ctypes.c_uint),
        ("pci_subsystem_id", ctypes.c_uint),
        ("bus_id", ctypes.c_char * 32),
    )


class Memory(ctypes.Structure):
    """``nvmlMemory_t``."""

    _fields_ = (
        ("total", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    )


class NvmlError(Exception):
    """A call returned something else than success."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.kind = KINDS.get(code, "nvml_unknown_error")


class Nvml:
    """The library between `session` and its end."""

    def __init__(self, library: Any) -> None:
        self._library = library

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function that returns a code; raise `NvmlError` for any but success."""
        function = getattr(self._library, name, None)
        code = 13 if function is None else int(function(*arguments))
        if code != 0:
            raise NvmlError(code, f"{name}: {self._words(code)}")

    def _words(self, code: int) -> str:
        describe = getattr(self._library, "nvmlErrorString", None)
        if describe is None:
            return f"error {code}"
        describe.restype = ctypes.c_char_p
        text = describe(code)
        return text.decode("utf-8", "replace") if text else f"error {code}"

    def text(self, name: str, *handle: Any) -> str | None:
        """Return a text, or None where the device has none."""
        buffer = ctypes.create_string_buffer(TEXT_BYTES)
        worked = self.maybe(name, *handle, buffer, TEXT_BYTES)
        return buffer.value.decode("utf-8", "replace") if worked else None

    def maybe(self, name: str, *arguments: Any) -> bool | None:
        """Return True if a call worked, None if it failed for this device alone."""
        try:
            self.call(name, *arguments)
        except NvmlError as error:
            if error.kind == "gpu_lost":
                raise
            return None
        return True


@contextmanager
def session(library: Any) -> Iterator[Nvml]:
    """Start the library and end it again, whatever happens between."""
    nvml = Nvml(library)
    nvml.call("nvmlInit_v2")
    try:
        yield nvml
    finally:
        nvml.maybe("nvmlShutdown")


def read(library: Any) -> Report:
    """Return what NVML says of every GPU; its error where it does not start."""
    try:
        with session(library) as nvml:
            return _read(nvml)
    except NvmlError as error:
        return Report(error=(error.kind, f"NVML: {error}"))


def _read(nvml: Nvml) -> Report:
    report = Report(driver=nvml.text("nvmlSystemGetDriverVersion"))
    version = ctypes.c_int()
    if nvml.maybe("nvmlSystemGetCudaDriverVersion_v2", ctypes.byref(version)) and version.value > 0:
        report.cuda = f"{version.value // 1000}.{version.value % 1000 // 10}"
    count = ctypes.c_uint()
    nvml.call("nvmlDeviceGetCount_v2", ctypes.byref(count))
    for index in range(min(count.value, 1024)):
        try:
            report.devices.append(_device(nvml, index))
        except NvmlError as error:
            report.error = (error.kind, f"NVML, GPU {index}: {error}")
    if not count.value:
        report.error = ("no_devices", "NVML: No devices were found")
    return report


def _device(nvml: Nvml, index: int) -> Facts:
    handle = ctypes.c_void_p()
    nvml.call("nvmlDeviceGetHandleByIndex_v2", index, ctypes.byref(handle))
    pci, memory = PciInfo(), Memory()
    major, minor = ctypes.c_int(), ctypes.c_int()
    placed = nvml.maybe("nvmlDeviceGetPciInfo_v3", handle, ctypes.byref(pci)) or nvml.maybe(
        "nvmlDeviceGetPciInfo_v2", handle, ctypes.byref(pci)
    )
    sized = nvml.maybe("nvmlDeviceGetMemoryInfo", handle, ctypes.byref(memory)) and memory.total
    capable = nvml.maybe(
        "nvmlDeviceGetCudaComputeCapability", handle, ctypes.byref(major), ctypes.byref(minor)
    )
    ids = pci.pci_device_id
    return kept(
        name=name_of(nvml.text("nvmlDeviceGetName", handle)),
        uuid=nvml.text("nvmlDeviceGetUUID", handle),
        pci_address=pci_address((pci.bus_id or pci.bus_id_legacy).decode()) if placed else None,
        pci_id=pci_id(f"{ids & 0xFFFF:x}", f"{ids >> 16:x}") if placed else None,
        memory_total_bytes=memory.total if sized else UNIFIED,
        memory_free_bytes=memory.free if sized else None,
        compute_capability=f"{major.value}.{minor.value}" if capable and major.value else None,
        partitions=_partitions(nvml, handle),
    )


def _partitions(nvml: Nvml, handle: Any) -> tuple[str, ...] | Failed | None:
    """Return the names of the MIG instances, empty when MIG is off, None where there is no MIG."""
    mode, pending, count = ctypes.c_uint(), ctypes.c_uint(), ctypes.c_uint()
    if not nvml.maybe("nvmlDeviceGetMigMode", handle, ctypes.byref(mode), ctypes.byref(pending)):
        return None
    if not mode.value:
        return ()
    if not nvml.maybe("nvmlDeviceGetMaxMigDeviceCount", handle, ctypes.byref(count)):
        return Failed("NVML does not say how many MIG devices there are")
    names = []
    for index in range(min(count.value, 64)):
        part = ctypes.c_void_p()
        if nvml.maybe("nvmlDeviceGetMigDeviceHandleByIndex", handle, index, ctypes.byref(part)):
            name = nvml.text("nvmlDeviceGetName", part) or "MIG"
            names.append(name.rpartition("MIG ")[2])
    return tuple(names)
