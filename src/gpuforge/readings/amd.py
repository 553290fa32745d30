"""Live values of AMD GPUs, from the sysfs files of the amdgpu driver.

Sources: Linux ``Documentation/gpu/amdgpu/thermal.rst`` (busy, sensors, ``gpu_metrics``),
``drivers/gpu/drm/amd/include/kgd_pp_interface.h`` (``gpu_metrics_v1_3``),
``drivers/gpu/drm/amd/pm/swsmu/inc/amdgpu_smu.h`` (throttler bits), amdkfd's ``kfd_process.c``.
``pcie_bw`` is not read, because each read of it takes a second.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Sequence
from dataclasses import replace

from gpuforge.detect.amd import NODES, parse_node
from gpuforge.detect.notation import whole
from gpuforge.detect.source import names_in, text_at
from gpuforge.facts import Absent, Device, Failed, Reading, known
from gpuforge.probe import Probe
from gpuforge.readings import identity, unread
from gpuforge.readings.clients import Clients
from gpuforge.readings.model import DeviceReading, ProcessOnDevice
from gpuforge.readings.sysfs import MHZ, MICRO, MILLI, card_of, first, hwmon, link, number

KFD = "/sys/class/kfd/kfd/proc"
NO_CARD = Absent("the amdgpu driver shows no card at this PCI address")
NO_TRAFFIC = Absent("reading PCIe traffic from the amdgpu driver takes a second")
# Bit ranges of the ASIC-independent throttler status: first bit, end, reason.
_THROTTLERS = ((0, 16, "power cap"), (16, 32, "current"), (32, 48, "temperature"))
_ENERGY_UNIT = 2**-16  # joules


class Reader:
    """Reads AMD GPUs."""

    def __init__(self, probe: Probe, devices: Sequence[Device]) -> None:
        self._probe, self._clients = probe, Clients(probe)
        self._cards = [(identity(device), card_of(probe, device)) for device in devices]
        self._compute = _compute_nodes(probe)

    def read(self) -> list[DeviceReading]:
        """Return one reading for each GPU."""
        clients = self._clients.read()
        return [
            self._card(blank, f"{card}/device", clients) if card else unread(blank, NO_CARD)
            for blank, card in self._cards
        ]

    def _card(
        self, blank: DeviceReading, folder: str, clients: dict[str, tuple[ProcessOnDevice, ...]]
    ) -> DeviceReading:
        probe, sensor = self._probe, hwmon(self._probe, folder)
        address = known(blank.pci_address) or ""
        reasons, energy = parse_metrics(probe.read_bytes(f"{folder}/gpu_metrics"))
        errors = _errors(probe, folder)
        clock = sensor("freq1_input", 1.0)
        highest = _highest(probe.read_text(f"{folder}/pp_dpm_sclk"))
        if isinstance(reasons, tuple) and (known(clock) or 0) >= (known(highest) or math.inf):
            reasons = ()  # at the highest clock the firmware still reports what limits it
        return replace(
            blank,
            utilization_ratio=number(probe, f"{folder}/gpu_busy_percent", 0.01),
            memory_activity_ratio=number(probe, f"{folder}/mem_busy_percent", 0.01),
            memory_used_bytes=number(probe, f"{folder}/mem_info_vram_used", 1),
            memory_total_bytes=first(
                number(probe, f"{folder}/mem_info_vram_total", 1), blank.memory_total_bytes
            ),
            power_watts=first(sensor("power1_average", MICRO), sensor("power1_input", MICRO)),
            power_limit_watts=sensor("power1_cap", MICRO),
            energy_joules=energy,
            temperature_celsius=sensor("temp1_input", MILLI),
            temperature_limit_celsius=sensor("temp1_crit", MILLI),
            core_clock_hertz=clock,
            core_clock_max_hertz=highest,
            memory_clock_hertz=sensor("freq2_input", 1.0),
            memory_clock_max_hertz=_highest(probe.read_text(f"{folder}/pp_dpm_mclk")),
            throttle_reasons=reasons,
            link_received_bytes_per_second=NO_TRAFFIC,
            link_sent_bytes_per_second=NO_TRAFFIC,
            ecc_corrected=errors["ce"],
            ecc_uncorrected=errors["ue"],
            xids=Absent("Xid errors exist only on NVIDIA GPUs"),
            processes=self._processes(address, clients.get(address, ())),
            **link(probe, folder, address, switched=False),
        )

    def _processes(
        self, address: str, clients: tuple[ProcessOnDevice, ...]
    ) -> tuple[ProcessOnDevice, ...]:
        """Return the clients of the graphics driver and those of KFD, ROCm's compute driver."""
        found = {one.pid: one for one in clients}
        node = self._compute.get(address)
        for pid in names_in(self._probe, KFD) if node else ():
            held = number(self._probe, f"{KFD}/{pid}/vram_{node}", 1)
            if isinstance(held, int) and held and pid.isdigit():
                before = found.get(int(pid), ProcessOnDevice(int(pid)))
                found[int(pid)] = replace(before, memory_bytes=held)
        return tuple(found.values())

    def close(self) -> None:
        """Do nothing: no file stays open between readings."""


def _compute_nodes(probe: Probe) -> dict[str, str]:
    """Return KFD's numbers of the GPUs, by PCI address."""
    found = {}
    for node in names_in(probe, NODES):
        facts = parse_node(text_at(probe, f"{NODES}/{node}/properties"))
        if facts and "pci_address" in facts:
            found[str(facts["pci_address"])] = text_at(probe, f"{NODES}/{node}/gpu_id")
    return found


def parse_metrics(content: Reading[bytes]) -> tuple[Reading[tuple[str, ...]], Reading[float]]:
    """Return throttle reasons and energy in joules from ``gpu_metrics``, version 1.3 only."""
    if not isinstance(content, bytes):
        return content, content
    if len(content) < 120 or tuple(content[2:4]) != (1, 3):
        version = ".".join(map(str, content[2:4])) or "nothing"
        other = Absent(f"gpu_metrics has version {version}; only 1.3 is supported")
        return other, other
    energy, status = (struct.unpack_from("<Q", content, place)[0] for place in (24, 112))
    missing = Absent("gpu_metrics does not contain it")
    unknown = 2**64 - 1  # the driver's value for what the firmware does not report
    reasons = tuple(
        reason for low, high, reason in _THROTTLERS if status >> low & (1 << high - low) - 1
    )
    return (
        missing if status == unknown else reasons,
        missing if energy == unknown else energy * _ENERGY_UNIT,
    )


def _highest(text: Reading[str]) -> Reading[float]:
    """Return the highest clock, in hertz, of a table with lines such as ``1: 2600Mhz *``."""
    if not isinstance(text, str):
        return text
    levels = [int(level) for level in re.findall(r"^\d+: (\d{1,5})Mhz", text, re.M | re.I)]
    return max(levels) * MHZ if levels else Failed("the table of clocks is empty")


def _errors(probe: Probe, folder: str) -> dict[str, Reading[int]]:
    """Return the counts of corrected (``ce``) and uncorrected (``ue``) memory errors."""
    text = probe.read_text(f"{folder}/ras/umc_err_count")
    if not isinstance(text, str):
        return dict.fromkeys(("ce", "ue"), Absent("the driver counts no memory errors"))
    counts = {key: whole(value) for key, value in re.findall(r"^(ce|ue): (\d+)", text, re.M)}
    none = Failed(f"{folder}/ras/umc_err_count contains no count")
    return {key: none if counts.get(key) is None else counts[key] or 0 for key in ("ce", "ue")}
