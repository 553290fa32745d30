"""On-disk cache of detected machines: one small file per machine and view of its devices.

An entry is valid while its fingerprint matches: ids and drivers on the PCI bus, versions of driver
modules and libraries, device nodes, the identity of the machine or container, and the variables
that hide devices. These come from a dozen small files, read in well under a millisecond.
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from gpuforge.detect import stored, visible
from gpuforge.detect.source import text_at
from gpuforge.facts import Absent, Device, Machine, known
from gpuforge.probe import Probe
from gpuforge.probe.files import decoded, read
from gpuforge.stored import write

MACHINES_KEPT = 32
NOT_NOW = Absent("cached facts hold no free memory: it changes from one moment to the next")
IDENTITY_FILES = ("/etc/machine-id", "/proc/sys/kernel/hostname", "/proc/self/cgroup")
FILES = (
    "/proc/driver/nvidia/version",
    "/sys/module/nvidia/version",
    "/sys/module/amdgpu/version",
    "/proc/sys/kernel/osrelease",
    "/opt/rocm/.info/version",
)
LINKS = (
    "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
    "/usr/lib/aarch64-linux-gnu/libnvidia-ml.so.1",
    "/usr/lib64/libnvidia-ml.so.1",
)
FOLDERS = (
    "/dev/dri",
    "/proc/driver/nvidia/gpus",
    "/sys/class/kfd/kfd/topology/nodes",
    "/etc/OpenCL/vendors",
)
VARIABLES = ("PATH", "LD_LIBRARY_PATH", "HSA_OVERRIDE_GFX_VERSION", "NVIDIA_VISIBLE_DEVICES")


def identity(probe: Probe) -> str:
    """Return what identifies this machine or container and its view of the devices."""
    parts = [text_at(probe, path) for path in IDENTITY_FILES]
    parts += [probe.platform, repr(sorted(visible.settings_of(probe.environ).items()))]
    return f"{zlib.crc32('|'.join(parts).encode()):08x}"


def fingerprint(probe: Probe) -> str:
    """Return what must not change for a cached result to stay valid."""
    return f"{zlib.crc32('|'.join(_signs(probe)).encode('utf-8', 'replace')):08x}"


def _signs(probe: Probe) -> Iterator[str]:
    from gpuforge import __version__

    yield __version__
    bus = known(probe.read_text("/proc/bus/pci/devices"))
    if bus is None:
        yield repr(known(probe.list_dir("/sys/bus/pci/devices")))
    for line in (bus or "").splitlines():
        cells = line.split("\t")
        # Address, ids and driver; the interrupt and the BARs between them may change.
        yield f"{cells[0]} {cells[1:2]} {cells[17:]}"
    for path in FILES:
        yield text_at(probe, path)
    for path in LINKS:
        yield known(probe.read_link(path)) or ""
    for path in FOLDERS:
        yield repr(known(probe.list_dir(path)))
    for name in VARIABLES:
        yield probe.environ.get(name, "")


class Cache:
    """The machines cached in one folder.

    Parameters
    ----------
    folder
        Where the files are; shared between processes, and between machines that share a home.
    seconds
        How long an entry is valid.
    """

    def __init__(self, folder: Path, seconds: float) -> None:
        self.folder, self.seconds = folder, seconds
        self.rebuilt = 0

    def get(self, probe: Probe) -> Machine | None:
        """Return the machine if its entry is recent and nothing has changed since."""
        path = self._path(probe)
        text = known(decoded(read(path, "the cache")))
        if text is None:
            return None
        head, _, body = text.partition("\n")
        stamp, _, mark = head.partition(" ")
        machine = stored.loads(body)
        if not isinstance(machine, Machine) or not stamp.replace(".", "", 1).isdecimal():
            self.rebuilt += 1
            return None
        age = time.time() - float(stamp)
        if not 0 <= age < self.seconds or mark != fingerprint(probe):
            with suppress(OSError):
                path.unlink()
            return None
        with suppress(OSError):
            os.utime(path)
        return replace(machine, from_cache=True)

    def put(self, probe: Probe, machine: Machine) -> None:
        """Store a machine without its free memory, and drop the oldest entries."""
        still = replace(
            machine,
            devices=tuple(map(_without_free, machine.devices)),
            hidden=tuple(map(_without_free, machine.hidden)),
            notes=(),
            timings={},
        )
        path = self._path(probe)
        text = f"{time.time():.3f} {fingerprint(probe)}\n{stored.dumps(still)}"
        # Without a writable folder detection is slower, but still works.
        with suppress(OSError):
            write(path, text, parents=True)
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        with suppress(OSError):
            files = sorted(self.folder.glob("machine-*.json"), key=lambda p: p.stat().st_mtime)
            for path in files[:-MACHINES_KEPT]:
                path.unlink(missing_ok=True)

    def _path(self, probe: Probe) -> Path:
        return self.folder / f"machine-{identity(probe)}.json"


def _without_free(device: Device) -> Device:
    return replace(device, memory_free_bytes=NOT_NOW)
