"""GPUs from NVML, through ``nvidia-ml-py``: every fact, without creating a CUDA context.

Importing the binding takes about 20 ms, so it is imported only where the library itself exists.
Source: NVML API reference, https://docs.nvidia.com/deploy/nvml-api/ (return codes).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from gpuforge.detect.notation import Facts, kept, name_of, pci_address, pci_id
from gpuforge.detect.nvidia_smi import UNIFIED
from gpuforge.detect.report import Report
from gpuforge.facts import Failed

LIBRARIES = {"win32": ("nvml.dll",)}
LINUX_LIBRARIES = ("libnvidia-ml.so.1", "/usr/lib/wsl/lib/libnvidia-ml.so.1")
# Return codes of nvmlInit and of a device as error kinds of `detect --json`; others are unknown.
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
UNKNOWN = "nvml_unknown_error"
GPUS_AT_MOST, PARTS_AT_MOST = 1024, 64


def read(library: Any) -> Report:
    """Return what NVML says of every GPU, or its error if it does not initialise.

    Raises
    ------
    ImportError
        If ``nvidia-ml-py`` is not installed.
    """
    import pynvml

    if pynvml.nvmlLib is None:
        pynvml.nvmlLib = library  # opened by the probe, as pynvml does not search WSL's folder
    try:
        pynvml.nvmlInit()
        try:
            return _read(pynvml)
        finally:
            with suppress(pynvml.NVMLError):
                pynvml.nvmlShutdown()
    except pynvml.NVMLError as error:
        return Report(error=(KINDS.get(error.value, UNKNOWN), f"NVML: {error}"))


def _query(nvml: Any, ask: Callable[..., Any], *arguments: Any) -> Any:
    """Return the result of one call, or None if only this query fails; a lost GPU raises."""
    try:
        return ask(*arguments)
    except nvml.NVMLError as error:
        if KINDS.get(error.value) == "gpu_lost":
            raise
    except UnicodeDecodeError:
        pass  # a name that is not valid text counts as unknown
    return None


def _read(nvml: Any) -> Report:
    report = Report(driver=_query(nvml, nvml.nvmlSystemGetDriverVersion))
    version = _query(nvml, nvml.nvmlSystemGetCudaDriverVersion_v2) or 0
    if version > 0:
        report.runtime = f"{version // 1000}.{version % 1000 // 10}"
    count = nvml.nvmlDeviceGetCount()
    for index in range(min(count, GPUS_AT_MOST)):
        try:
            facts = _device(nvml, nvml.nvmlDeviceGetHandleByIndex(index))
            report.devices.append({"index": index, **facts})
        except nvml.NVMLError as error:
            kind = KINDS.get(error.value, UNKNOWN)
            report.error = (kind, f"NVML, GPU {index}: {error}")
    if not count:
        report.error = ("no_devices", "NVML: No devices were found")
    return report


def _device(nvml: Any, handle: Any) -> Facts:
    def told(name: str) -> Any:
        return _query(nvml, getattr(nvml, name), handle)

    pci, memory = told("nvmlDeviceGetPciInfo"), told("nvmlDeviceGetMemoryInfo")
    sized = memory is not None and memory.total
    capability = told("nvmlDeviceGetCudaComputeCapability")
    mode = told("nvmlDeviceGetVirtualizationMode")
    return kept(
        name=name_of(told("nvmlDeviceGetName")),
        uuid=told("nvmlDeviceGetUUID"),
        pci_address=pci_address(pci.busId or pci.busIdLegacy) if pci else None,
        pci_id=pci_id(f"{pci.pciDeviceId & 0xFFFF:x}", f"{pci.pciDeviceId >> 16:x}")
        if pci
        else None,
        memory_total_bytes=memory.total if sized else UNIFIED,
        memory_free_bytes=memory.free if sized else None,
        compute_capability="{}.{}".format(*capability) if capability and capability[0] else None,
        partitions=_partitions(nvml, handle),
        virtual=True if mode == nvml.NVML_GPU_VIRTUALIZATION_MODE_VGPU else None,
    )


def _partitions(nvml: Any, handle: Any) -> tuple[str, ...] | Failed | None:
    """Return the names of the MIG instances: empty if MIG is off, None where it is unsupported."""
    mode = _query(nvml, nvml.nvmlDeviceGetMigMode, handle)
    if mode is None:
        return None
    if not mode[0]:
        return ()
    count = _query(nvml, nvml.nvmlDeviceGetMaxMigDeviceCount, handle)
    if count is None:
        return Failed("NVML does not report the number of MIG devices")
    names = []
    for index in range(min(count, PARTS_AT_MOST)):
        part = _query(nvml, nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, index)
        if part is not None:
            name = _query(nvml, nvml.nvmlDeviceGetName, part) or "MIG"
            names.append(name.rpartition("MIG ")[2])
    return tuple(names)
