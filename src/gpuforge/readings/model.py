"""Live values of a machine: what was read of each device and of the host, at one time."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpuforge.facts import NOT_SHOWN, Reading, Vendor


@dataclass(frozen=True)
class ProcessOnDevice:
    """What one process has of a device.

    Attributes
    ----------
    memory_bytes : device memory that the driver books to it
    utilization_ratio : share of the time since the last reading in which it kept an engine busy
    """

    pid: int
    memory_bytes: Reading[int] = NOT_SHOWN
    utilization_ratio: Reading[float] = NOT_SHOWN


@dataclass(frozen=True)
class DeviceReading:
    """One GPU now. Ratios are 0 to 1.

    Attributes
    ----------
    index, vendor, name, pci_address, uuid : as in `gpuforge.facts.Device`
    utilization_ratio : share of a short time in which any work ran; it says nothing of how full
        the device was
    memory_used_bytes, memory_total_bytes : device memory, of all processes
    memory_activity_ratio : share of the time in which device memory was read or written
    power_watts, power_limit_watts : draw, and where the driver caps it
    energy_joules : since the driver was loaded
    temperature_celsius, temperature_limit_celsius : of the GPU, and where it slows itself down
    core_clock_hertz, memory_clock_hertz : now; ``..._max_hertz`` is the highest it may run at
    throttle_reasons : why clocks are held down now, empty for nothing; an idle GPU is not throttled
    link_generation, link_width : of the PCIe link now; ``..._max`` is what both of its ends can
    link_received_bytes_per_second, link_sent_bytes_per_second : as the GPU sees it
    ecc_corrected, ecc_uncorrected : memory errors since the driver was loaded
    xids : numbers of NVIDIA's error reports since the reader was opened, the oldest first
    processes : who uses the device, as far as this user may see it
    origins : field to how it was found, where that changes what it means
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
    """The CPU side of a machine now. Ratios are 0 to 1.

    Attributes
    ----------
    cores : logical CPUs of the machine
    utilization_ratio : busy share of all of them since the last reading
    memory_total_bytes, memory_available_bytes : of the machine, or of the narrowest control group
    swap_used_bytes, swap_total_bytes : of the machine
    load_averages : runnable tasks over 1, 5 and 15 minutes
    cpu_pressure_ratio, memory_pressure_ratio, io_pressure_ratio : share of the last ten seconds in
        which some task waited for it
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
