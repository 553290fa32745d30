"""Live values of Intel GPUs, from the sysfs files of the i915 and xe drivers.

Sources: Linux ``Documentation/ABI/testing/sysfs-driver-intel-i915-hwmon`` and
``sysfs-driver-intel-xe-hwmon`` (sensors), ``drivers/gpu/drm/i915/gt/intel_gt_sysfs_pm.c`` and
``drivers/gpu/drm/xe/xe_gt_freq.c``, ``xe_gt_idle.c``, ``xe_gt_throttle.c`` (clocks, idle time,
throttle reasons). A GPU has one or more GTs: the first does compute and graphics, others do video.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpuforge.facts import Absent, Device, Reading, known
from gpuforge.probe import Probe
from gpuforge.readings import identity, unread
from gpuforge.readings.clients import Clients
from gpuforge.readings.model import DeviceReading
from gpuforge.readings.rate import Rate
from gpuforge.readings.sysfs import MHZ, MICRO, MILLI, card_of, first, hwmon, link, number

NO_CARD = Absent("no card of i915 or xe is shown at this PCI address")
NO_MEMORY = Absent("i915 and xe show device memory of single processes only")
NO_TRAFFIC = Absent("i915 and xe count no PCIe traffic")
NO_ERRORS = Absent("i915 and xe show no memory errors in files")
# A GT's folder and files: clock, highest clock, idle ms, throttle prefix; new and old i915, xe.
_GTS = (
    ("gt/gt0", "rps_act_freq_mhz", "rps_RP0_freq_mhz", "rc6_residency_ms", "throttle_"),
    ("", "gt_act_freq_mhz", "gt_RP0_freq_mhz", "power/rc6_residency_ms", "gt/gt0/throttle_"),
    ("device/tile0/gt0", "freq0/act_freq", "freq0/rp0_freq", "gtidle/idle_residency_ms",
     "freq0/throttle/"),
)  # fmt: skip
_REASONS = {
    "pl1": "power cap", "pl2": "power cap", "pl4": "current", "vr_tdc": "current",
    "thermal": "temperature", "prochot": "temperature", "ratl": "temperature",
    "vr_thermalert": "temperature",
}  # fmt: skip


class _Rates:
    """Rates of change of one GPU's counters: idle seconds and joules."""

    def __init__(self, probe: Probe) -> None:
        self.idle, self.energy = Rate(probe.clock), Rate(probe.clock)


@dataclass
class _Card:
    """One GPU; `folder` is its DRM folder, None if there is none."""

    blank: DeviceReading
    folder: str | None
    discrete: bool
    rates: _Rates


class Reader:
    """Reads Intel GPUs."""

    def __init__(self, probe: Probe, devices: Sequence[Device]) -> None:
        self._probe, self._clients = probe, Clients(probe)
        self._cards = [
            _Card(identity(d), card_of(probe, d), not known(d.integrated), _Rates(probe))
            for d in devices
        ]

    def read(self) -> list[DeviceReading]:
        """Return one reading for each GPU."""
        clients = self._clients.read()
        found = []
        for card in self._cards:
            if card.folder is None:
                found.append(unread(card.blank, NO_CARD))
                continue
            address = known(card.blank.pci_address) or ""
            way = link(self._probe, f"{card.folder}/device", address, switched=card.discrete)
            reading = self._card(card.blank, card.folder, card.rates)
            found.append(replace(reading, processes=clients.get(address, ()), **way))
        return found

    def _card(self, blank: DeviceReading, card: str, rates: _Rates) -> DeviceReading:
        probe, sensor = self._probe, hwmon(self._probe, f"{card}/device")
        clocks = [number(probe, f"{card}/{gt}/{now}", MHZ) for gt, now, *_ in _GTS]
        highest = [number(probe, f"{card}/{gt}/{most}", MHZ) for gt, _, most, *_ in _GTS]
        resting = first(*(number(probe, f"{card}/{gt}/{rest}", 1e-3) for gt, *_, rest, _ in _GTS))
        energy = sensor("energy1_input", MICRO)
        return replace(
            blank,
            utilization_ratio=_busy(rates.idle, resting),
            memory_used_bytes=NO_MEMORY,
            power_watts=rates.energy.per_second(energy) if isinstance(energy, float) else energy,
            power_limit_watts=first(sensor("power1_max", MICRO), sensor("power1_cap", MICRO)),
            energy_joules=energy,
            temperature_celsius=first(*(sensor(f"temp{n}_input", MILLI) for n in (1, 2))),
            temperature_limit_celsius=first(*(sensor(f"temp{n}_crit", MILLI) for n in (1, 2))),
            core_clock_hertz=first(*clocks),
            core_clock_max_hertz=first(*highest),
            throttle_reasons=self._throttled(card),
            link_received_bytes_per_second=NO_TRAFFIC,
            link_sent_bytes_per_second=NO_TRAFFIC,
            ecc_corrected=NO_ERRORS,
            ecc_uncorrected=NO_ERRORS,
            xids=Absent("Xid is NVIDIA's"),
            origins={"utilization_ratio": "time outside of its sleep state: busy, or about to be"},
        )

    def _throttled(self, card: str) -> Reading[tuple[str, ...]]:
        for gt, *_, start in _GTS:
            place = f"{card}/{gt}/{start}reason_"
            if known(number(self._probe, f"{place}thermal")) is not None:
                found = (r for n, r in _REASONS.items() if known(number(self._probe, place + n)))
                return tuple(dict.fromkeys(found))
        return Absent("this driver shows no throttle reasons")

    def close(self) -> None:
        """Do nothing: no file stays open between readings."""


def _busy(idle: Rate, resting: Reading[float]) -> Reading[float]:
    """Return the share of the time since the last reading in which the GPU was not idle."""
    rested = idle.per_second(resting) if isinstance(resting, float) else resting
    return min(1.0, max(0.0, 1.0 - rested)) if isinstance(rested, float) else rested
