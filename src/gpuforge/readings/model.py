"""Data classes for the live values of a machine: of each device, and of the host."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpuforge.facts import NOT_SHOWN, Reading, Vendor


@dataclass(frozen=True)
class ProcessOnDevice:
    """One process that uses a device.

    Attributes
    ----------
    memory_bytes : device memory that the driver attributes to it
    utilization_ratio : share of the time since the last reading in which it used an engine
    """

    pid: int
    memory_bytes: Reading[int] = NOT_SHOWN
    utilization_ratio: Reading[float] = NOT_SHOWN


@dataclass(frozen=True)
class DeviceReading:
    """Live values of one GPU. Ratios are from 0 to 1.

    Attributes
    ----------
    index, vendor, name, pci_address, uuid : as in `gpuforge.facts.Device`
    utilization_ratio : share of a short period in which any work ran; this is busy time, not
        occupancy
    memory_used_bytes, memory_total_bytes : device memory, of all processes together
    memory_activity_ratio : share of the time in which device memory was read or written
    power_watts, power_limit_watts : power draw, and the limit that the driver enforces
    energy_joules : since the driver was loaded
    temperature_celsius, temperature_limit_celsius : of the GPU, and where it starts to throttle
    core_clock_hertz, memory_clock_hertz : current clocks; ``..._max_hertz`` are the highest allowed
    throttle_reasons : what limits the clocks now, empty for nothing; an idle GPU is not throttled
    link_generation, link_width : of the PCIe link now; ``..._max``: what both of its ends support
    link_received_bytes_per_second, link_sent_bytes_per_second : PCIe traffic as seen by the GPU
    ecc_corrected, ecc_uncorrected : memory errors since the driver was loaded
    xids : codes of NVIDIA's Xid errors since the reader was opened, oldest first
    processes : the processes that use the device, as far as this user may see them
    origins : by field name, how the value was measured, where that affects its meaning
    """

    index: int
    vendor: Vendor
    name: Reading[str] = NOT_SHOWN
    pci_address: Reading[str] = NOT_SHOWN
    uuid: Reading[str] = NOT_SHOWN
    utilization_ratio: Reading[float] = NOT_SHOWN
    memory_used_bytes: Reading[int] = NOT_SHOWN
    memory_total_bytes: Reading[int] = NOT_SHOWN
    memory_activity_ratio: Reading[float] = NOT_SHOWN
    power_watts: Reading[float] = NOT_SHOWN
    power_limit_watts: Reading[float] = NOT_SHOWN
    energy_joules: Reading[float] = NOT_SHOWN
    temperature_celsius: Reading[float] = NOT_SHOWN
    temperature_limit_celsius: Reading[float] = NOT_SHOWN
    core_clock_hertz: Reading[float] = NOT_SHOWN
    core_clock_max_hertz: Reading[float] = NOT_SHOWN
    memory_clock_hertz: Reading[float] = NOT_SHOWN
    memory_clock_max_hertz: Reading[float] = NOT_SHOWN
    throttle_reasons: Reading[tuple[str, ...]] = NOT_SHOWN
    link_generation: Reading[int] = NOT_SHOWN
    link_generation_max: Reading[int] = NOT_SHOWN
    link_width: Reading[int] = NOT_SHOWN
    link_width_max: Reading[int] = NOT_SHOWN
    link_received_bytes_per_second: Reading[float] = NOT_SHOWN
    link_sent_bytes_per_second: Reading[float] = NOT_SHOWN
    ecc_corrected: Reading[int] = NOT_SHOWN
    ecc_uncorrected: Reading[int] = NOT_SHOWN
    xids: Reading[tuple[int, ...]] = NOT_SHOWN
    processes: Reading[tuple[ProcessOnDevice, ...]] = NOT_SHOWN
    origins: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class HostReading:
    """Live values of the host. Ratios are from 0 to 1.

    Attributes
    ----------
    cores : number of logical CPUs
    utilization_ratio : busy share of all CPU time since the last reading
    memory_total_bytes, memory_available_bytes : of the machine, or of the strictest control group
    swap_used_bytes, swap_total_bytes : of the machine
    load_averages : mean number of runnable tasks over the last 1, 5 and 15 minutes
    cpu_pressure_ratio, memory_pressure_ratio, io_pressure_ratio : share of the last ten seconds in
        which some task waited for the resource
    """

    cores: Reading[int] = NOT_SHOWN
    utilization_ratio: Reading[float] = NOT_SHOWN
    memory_total_bytes: Reading[int] = NOT_SHOWN
    memory_available_bytes: Reading[int] = NOT_SHOWN
    swap_used_bytes: Reading[int] = NOT_SHOWN
    swap_total_bytes: Reading[int] = NOT_SHOWN
    load_averages: Reading[tuple[float, ...]] = NOT_SHOWN
    cpu_pressure_ratio: Reading[float] = NOT_SHOWN
    memory_pressure_ratio: Reading[float] = NOT_SHOWN
    io_pressure_ratio: Reading[float] = NOT_SHOWN
