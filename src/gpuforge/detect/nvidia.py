"""NVIDIA GPUs.

1. NVML, the driver's own library: everything, in milliseconds
2. ``/proc/driver/nvidia``: addresses, names, driver version
3. ``nvidia-smi``, only where NVML did not answer
4. ``nvidia-settings``, Jetson's device tree and ``tegrastats``, as recorded or where no other
   route shows the GPU
"""

from __future__ import annotations

import re

from gpuforge.detect import nvidia_smi, nvml
from gpuforge.detect.notation import Facts, fields_of, kept, name_of, pci_address, word
from gpuforge.detect.report import Teller
from gpuforge.detect.seen import Seen, Sighting
from gpuforge.detect.source import names_in, outputs_of, text_at
from gpuforge.facts import Driver, known
from gpuforge.probe import Probe

NATIVE = True  # loads a vendor library into this process
SPEECH = r"NVIDIA|NVSMI|nvidia_smi|^ *#|\bpid\b|Legend|No running|processes|driver_version"
NVIDIA = Teller("nvidia", "nvidia", "cuda", always_runs=True, speech=SPEECH)
PROC = "/proc/driver/nvidia"
MODEL_FILES = ("/proc/device-tree/model", "/sys/firmware/devicetree/base/model")
# Modules and systems whose GPU shares the memory of the CPU.
INTEGRATED = re.compile(r"\b(Jetson|Tegra|Orin|Xavier|Thor|GB10|nvgpu)\b")


def detect(probe: Probe) -> Seen:
    """Return the GPUs that NVIDIA's driver, library or tools show."""
    seen = Seen()
    answered = _ask_nvml(seen, probe)
    _add_proc(seen, probe)
    if not answered:
        for output in seen.outputs("nvidia", probe, "nvidia-smi", ["-q", "-x"]):
            NVIDIA.take(seen, output, nvidia_smi.parse)
        if seen.sightings:
            seen.failures = [f for f in seen.failures if f.kind != "tool_failed"]
    for said in outputs_of(probe, "nvidia-settings"):
        _add_settings(seen, nvidia_smi.parse_settings(said.stdout), said.source)
    if not seen.sightings:
        _add_jetson(seen, probe)
    return seen


def _ask_nvml(seen: Seen, probe: Probe) -> bool:
    """Add what NVML says; return whether it showed GPUs."""
    for name in nvml.LIBRARIES.get(probe.platform, nvml.LINUX_LIBRARIES):
        library = probe.load_library(name)
        if known(library) is not None:
            try:
                return NVIDIA.add(seen, nvml.read(library), "nvml")
            except ImportError as error:
                seen.notes.append(f"NVML was not used: {error}")
                return False
    return False


def _add_proc(seen: Seen, probe: Probe) -> None:
    """Add what the kernel module shows; folders without a file still count as GPUs."""
    version = re.search(r"Kernel Module.*?\s(\d+\.[\d.]+)", text_at(probe, f"{PROC}/version"))
    driver = Driver("nvidia", version[1]) if version else Driver("nvidia")
    slots = names_in(probe, f"{PROC}/gpus")
    if version and not slots:  # the module is unloaded where it finds no GPU
        seen.sightings.append(Sighting("nvidia", PROC, {"driver": driver}, everywhere=True))
    for slot in slots:
        fields = fields_of(text_at(probe, f"{PROC}/gpus/{slot}/information"))
        # Drivers before 346 number the folders, and write the address as 0000:01.00.0.
        place = re.sub(r"\.(?=\d\d\.)", ":", fields.get("Bus Location", ""))
        uuid = word(fields.get("GPU UUID"))
        facts = kept(
            name=name_of(fields.get("Model")),
            # The kernel shows question marks until the GPU is first used.
            uuid=None if uuid and "?" in uuid else uuid,
            pci_address=pci_address(slot) or pci_address(place),
            driver=driver,
        )
        if "pci_address" in facts:
            seen.add("nvidia", PROC, [facts])


def _add_settings(seen: Seen, devices: list[Facts], route: str) -> None:
    for facts in devices:
        version = facts.pop("version", None)
        more = kept(driver=Driver("nvidia", version) if version else None)
        seen.add("nvidia", route, [{**facts, **more}], trust=2)


def _add_jetson(seen: Seen, probe: Probe) -> None:
    """Add the GPU of a Jetson, which is not on a PCI bus."""
    models = [text_at(probe, path) for path in MODEL_FILES]
    name = next((name_of(text) for text in models if INTEGRATED.search(text)), None)
    route = "device tree" if name else ""
    if not route and text_at(probe, "/etc/nv_tegra_release"):
        route = "/etc/nv_tegra_release"
    for said in () if route else outputs_of(probe, "tegrastats"):
        if re.search(r"\bGR3D(_FREQ)? \d+%", said.stdout):
            route = said.source
    if route:
        facts = kept(name=name, integrated=True, memory_total_bytes=nvidia_smi.UNIFIED)
        seen.add("nvidia", route, [facts])
