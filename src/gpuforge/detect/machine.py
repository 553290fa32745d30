"""From a probe to a `Machine`: run all detectors, then merge, score and judge."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from gpuforge import registry
from gpuforge.detect import crash, visible
from gpuforge.detect.host import read_host
from gpuforge.detect.merge import merge
from gpuforge.detect.notation import is_virtual, pci_address
from gpuforge.detect.pci_ids import vendor_named_in
from gpuforge.detect.score import IDLE_DRIVERS, best_of, identify, score_of
from gpuforge.detect.seen import Seen
from gpuforge.facts import (
    Absent,
    Device,
    Failed,
    Host,
    Machine,
    Status,
    Toolkit,
    VendorFailure,
    known,
)
from gpuforge.probe import LiveProbe, Probe
from gpuforge.probe.recording import RecordingProbe

VENDOR_SECONDS = 2.0
ENTRY_POINTS = "gpuforge.detectors"


def detect_machine(
    probe: Probe,
    *,
    vendor_seconds: float = VENDOR_SECONDS,
    parallel: bool = True,
    plugins: bool = False,
    crumbs: Path | None = None,
) -> Machine:
    """Return the machine that `probe` shows; nothing that is read from it raises.

    Parameters
    ----------
    probe
        The machine.
    vendor_seconds
        Time limit per vendor, in seconds; exceeding it is a failure in the result.
    parallel
        Whether the detectors run concurrently.
    plugins
        Whether to run detectors of other packages too; finding them takes about 30 ms.
    crumbs
        Folder that records vendor libraries that crashed their process (see `crash`).
    """
    started = probe.clock()
    live = isinstance(probe, LiveProbe)
    memory = probe if isinstance(probe, RecordingProbe) else RecordingProbe(probe)
    if memory.recorded("") is not None:
        from gpuforge.detect.text import unpacked

        memory = RecordingProbe(unpacked(memory))
    loaded = registry.load("gpuforge.detect", entry_points=ENTRY_POINTS if plugins else None)
    detectors = {
        name: module for name, module in loaded.modules.items() if hasattr(module, "detect")
    }
    tasks = {
        name: _Task(name, _reader(name, module, memory, crumbs if live else None, vendor_seconds))
        for name, module in detectors.items()
    }
    tasks["host"] = host = _Task("host", lambda: read_host(memory))
    for task in tasks.values():
        task.start()
        if not parallel:
            task.join(vendor_seconds)
    deadline = probe.clock() + vendor_seconds
    for task in tasks.values():
        task.join(max(0.0, deadline - probe.clock()))
    seen = [task.result(vendor_seconds) for name, task in tasks.items() if name != "host"]
    lost = [f"cannot load detector {one.name}: {one.reason}" for one in loaded.failures]
    seen.append(Seen(notes=lost))
    machine = assemble(seen, memory, host.found if isinstance(host.found, Host) else Host())
    timings = {name: task.seconds for name, task in tasks.items() if task.seconds is not None}
    return replace(machine, elapsed_seconds=probe.clock() - started, timings=timings)


class _Task(threading.Thread):
    """A running detector. A thread cannot be stopped, so it is abandoned at its time limit."""

    def __init__(self, name: str, work: Callable[[], Seen | Host]) -> None:
        super().__init__(name=f"gpuforge-detect-{name}", daemon=True)
        self.vendor, self._work = name, work
        self.found: Seen | Host | None = None
        self.seconds: float | None = None
        self._error = ""

    def run(self) -> None:
        from time import perf_counter

        started = perf_counter()
        try:
            self.found = self._work()
        except Exception as error:  # noqa: BLE001 - a bug in one detector must not hide the others
            self._error = f"{type(error).__name__}: {error}"
        self.seconds = perf_counter() - started

    def result(self, limit: float) -> Seen:
        """Return what it saw, or a failure if it did not finish in time."""
        if isinstance(self.found, Seen):
            return self.found
        kind, reason = "detector_failed", self._error
        if self.is_alive() or not reason:
            kind, reason = "timeout", f"{self.vendor} did not answer within {limit:g} s"
        return Seen(failures=[VendorFailure(self.vendor, kind, reason)])


def _reader(
    name: str, module: ModuleType, memory: RecordingProbe, crumbs: Path | None, seconds: float
) -> Callable[[], Seen]:
    """Return the function that runs a detector, in a child if its library crashed before."""
    native = crumbs is not None and getattr(module, "NATIVE", False)

    def read() -> Seen:
        # Programs time out before the vendor does, so that the failure names the program.
        within = memory.limited(seconds * 0.9)
        if not native or crumbs is None:
            found = module.detect(within)
        elif left := crash.left_by_dead(crumbs, name):
            found = crash.in_child(name, seconds * 0.9, left)
        else:
            with crash.breadcrumb(crumbs, name) if native else nullcontext():
                found = module.detect(within)
        return found if isinstance(found, Seen) else Seen()

    return read


def assemble(seen: list[Seen], probe: Probe, host: Host) -> Machine:
    """Combine what the detectors saw into a machine."""
    toolkits = tuple(dict.fromkeys(toolkit for one in seen for toolkit in one.toolkits))
    merged = merge([sighting for one in seen for sighting in one.sightings])
    everything = [_finished(device, toolkits) for device in merged]
    failures = tuple(dict.fromkeys(failure for one in seen for failure in one.failures))
    everything = [_unless_lost(device, failures) for device in everything]
    devices, hidden = visible.split(everything, probe.environ)
    for one in seen:
        told = {k: v for k, v in one.host.items() if isinstance(getattr(host, k), Absent)}
        host = replace(host, **told)
    error = judge(everything, list(failures))
    status: Status = "driver_error" if error else "ok" if devices else "no_gpu"
    return Machine(
        status,
        devices=tuple(devices),
        failures=failures,
        error=error,
        host=host,
        hidden=tuple(hidden),
        others=tuple(dict.fromkeys(other for one in seen for other in one.others)),
        toolkits=toolkits,
        visibility=visible.settings_of(probe.environ),
        best_device=best_of(devices),
        notes=tuple(note for one in seen for note in one.notes),
    )


def _unless_lost(device: Device, failures: Sequence[VendorFailure]) -> Device:
    """Return the device, with a failed driver if a tool reports the GPU at its address as lost."""
    driver = known(device.driver)
    lost = next((f for f in failures if f.kind == "gpu_lost" and pci_address(f.message)), None)
    if lost is None or known(device.pci_address) != pci_address(lost.message):
        return device
    if known(device.memory_total_bytes) or (driver and known(driver.version)):
        return device
    device = replace(device, driver=Failed(lost.message, kind=lost.kind))
    return replace(device, score=score_of(device))


def _finished(device: Device, toolkits: tuple[Toolkit, ...]) -> Device:
    """Return a device completed from the tables and OpenCL platforms, with its score."""
    platforms = [toolkit.name for toolkit in toolkits if toolkit.name.startswith("opencl:")]
    served = any(vendor_named_in(name) == device.vendor for name in platforms)
    if served and all(toolkit.name != "opencl" for toolkit in device.runtimes):
        device = replace(device, runtimes=(*device.runtimes, Toolkit("opencl")))
    if device.vendor == "nvidia" and is_virtual(known(device.name) or ""):
        device = replace(device, virtual=True)
    device = identify(device)
    return replace(device, score=score_of(device))


def _is_served(device: Device) -> bool:
    driver = known(device.driver)
    return driver is not None and driver.name not in IDLE_DRIVERS


def judge(devices: list[Device], failures: list[VendorFailure]) -> VendorFailure | None:
    """Return the failure that makes the whole machine a ``driver_error``, or None.

    A lost GPU always counts. A vendor's failure counts unless its GPUs work all the same, or
    unless GPUs of other vendors work and none of its own are seen. GPUs without a driver count
    if no GPU has one.
    """
    working = [device for device in devices if not isinstance(device.driver, Failed)]
    lost = next((failure for failure in failures if failure.kind == "gpu_lost"), None)
    if lost:
        return lost
    for failure in failures:
        own = [device for device in devices if device.vendor == failure.vendor]
        answering = [one for one in own if known(one.memory_total_bytes) or one.runtimes]
        if failure.kind == "no_devices" and failure.vendor != "nvidia":
            # The tools of AMD and Intel know fewer GPUs than their drivers serve.
            answering += [one for one in own if _is_served(one)]
        if not answering and (own or not working):
            return failure
    if devices and not working:
        reason = devices[0].driver
        assert isinstance(reason, Failed)
        return VendorFailure(devices[0].vendor, reason.kind, reason.reason)
    return None
