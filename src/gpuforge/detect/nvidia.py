"""NVIDIA GPUs.

1. NVML, the driver's own library: everything, in milliseconds
2. ``/proc/driver/nvidia``: addresses, names, driver version
3. ``nvidia-smi``, only where NVML did not answer
4. ``nvidia-settings`` and Jetson's device tree and ``tegrastats``, as recorded or where nothing
   else knows
"""

from __future__ import annotations

import re

from gpuforge.detect import nvidia_smi, nvml
from gpuforge.detect.notation import Facts, fields_of, kept, name_of, pci_address, word
from gpuforge.detect.nvidia_smi import Report
from gpuforge.detect.seen import Seen, Sighting
from gpuforge.facts import Driver, Failed, Reading, Toolkit, VendorFailure, known
from gpuforge.probe import Output, Probe

NATIVE = True  # loads a library of the vendor into this process
PROC = "/proc/driver/nvidia"
MODEL_FILES = ("/proc/device-tree/model", "/sys/firmware/devicetree/base/model")
# Modules and systems whose GPU shares the memory of the CPU.
INTEGRATED = re.compile(r"\b(Jetson|Tegra|Orin|Xavier|Thor|GB10|nvgpu)\b")


def detect(probe: Probe) -> Seen:
    """Return the GPUs that NVIDIA's driver, its library or its tools show."""
    seen = Seen()
    answered = False
    for name in nvml.LIBRARIES.get(probe.platform, nvml.LINUX_LIBRARIES):
        library = probe.load_library(name)
        if known(library) is not None:
            try:
                answered = _add(seen, nvml.read(library), "nvml")
            except ImportError as error:
                seen.notes.append(f"NVML was not asked: {error}")
            break
    _add_proc(seen, probe)
    if not answered:
        for output in probe.outputs("nvidia-smi", ["-q", "-x"]):
            _add_output(seen, output)
    for output in probe.outputs("nvidia-settings"):
        if isinstance(output, Output):
            _add_settings(seen, nvidia_smi.parse_settings(output.stdout), output.source)
    if not seen.sightings:
        _add_jetson(seen, probe)
    return seen


def _add(seen: Seen, report: Report, route: str) -> bool:
    """Add the GPUs of one report; return whether it had any."""
    driver = Driver("nvidia", report.driver) if report.driver else None
    toolkit = Toolkit("cuda", report.cuda) if report.cuda else None
    runtimes = (toolkit,) if toolkit else (Toolkit("cuda"),)
    if toolkit:
        seen.toolkits.append(toolkit)
    for facts in report.devices:
        shared = bool(INTEGRATED.search(facts.get("name", "")))
        more = kept(driver=driver, runtimes=runtimes if driver else None)
        seen.sightings.append(
            Sighting("nvidia", route, {**more, **facts, "integrated": shared}, report.trust)
        )
    if report.error:
        seen.failures.append(VendorFailure("nvidia", *report.error))
    return bool(report.devices)


def _add_output(seen: Seen, output: Reading[Output]) -> None:
    if isinstance(output, Failed):
        seen.fail("nvidia", output)
    if not isinstance(output, Output):
        return
    report = nvidia_smi.parse(output.stdout)
    if not report.devices and report.error is None:
        report.error = nvidia_smi.parse_error(output.stderr)
    if output.status and not report.devices and report.error is None:
        first = (output.stderr or output.stdout).strip().partition("\n")[0][:200]
        report.error = ("tool_failed", f"nvidia-smi ended with status {output.status}: {first}")
    _add(seen, report, output.source)


def _add_proc(seen: Seen, probe: Probe) -> None:
    """Add what the kernel module shows; folders alone, without a file, still count GPUs."""
    slots = probe.list_dir(f"{PROC}/gpus")
    if not isinstance(slots, tuple):
        return
    text = probe.read_text(f"{PROC}/version")
    version = re.search(r"Kernel Module.*?\s(\d+\.[\d.]+)", text if isinstance(text, str) else "")
    driver = Driver("nvidia", version[1]) if version else Driver("nvidia")
    for slot in slots:
        text = probe.read_text(f"{PROC}/gpus/{slot}/information")
        fields = fields_of(text) if isinstance(text, str) else {}
        facts = kept(
            name=name_of(fields.get("Model")),
            uuid=word(fields.get("GPU UUID")),
            pci_address=pci_address(slot),
            driver=driver,
        )
        if "?" in facts.get("uuid", ""):
            del facts["uuid"]  # the kernel writes question marks until the GPU is first used
        if "pci_address" in facts:
            seen.sightings.append(Sighting("nvidia", PROC, facts))


def _add_settings(seen: Seen, devices: list[Facts], route: str) -> None:
    for facts in devices:
        version = facts.pop("version", None)
        more = kept(driver=Driver("nvidia", version) if version else None)
        seen.sightings.append(Sighting("nvidia", route, {**facts, **more}, trust=2))


def _add_jetson(seen: Seen, probe: Probe) -> None:
    """Add the one GPU of a Jetson, which no PCI bus shows."""
    for path in MODEL_FILES:
        text = probe.read_text(path)
        if isinstance(text, str) and INTEGRATED.search(text):
            facts = kept(name=name_of(text.strip("\0 \n")), integrated=True)
            facts["memory_total_bytes"] = nvidia_smi.UNIFIED
            seen.sightings.append(Sighting("nvidia", "device tree", facts))
            return
    for output in probe.outputs("tegrastats"):
        if isinstance(output, Output) and re.search(r"\bGR3D(_FREQ)? \d+%", output.stdout):
            facts = {"integrated": True, "memory_total_bytes": nvidia_smi.UNIFIED}
            seen.sightings.append(Sighting("nvidia", output.source, facts))
            return
