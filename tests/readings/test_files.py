"""AMD's and Intel's GPUs and the host, from recorded files and such as the kernel documents."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path
from typing import Any

import pytest

from gpuforge.detect import detect_machine
from gpuforge.facts import Absent, Device, Failed, known
from gpuforge.probe import LiveProbe, SnapshotProbe
from gpuforge.readings import DeviceReaders, DeviceReading
from gpuforge.readings.amd import parse_metrics
from gpuforge.readings.host import HostReader, read_process
from gpuforge.readings.rate import Rate


class Clock(SnapshotProbe):
    """A recorded machine whose clock goes on by one second each time it is looked at."""

    seconds = 0.0

    def clock(self) -> float:
        self.seconds += 1.0
        return self.seconds


def write(machine: Path, files: dict[str, Any]) -> Clock:
    for name, content in files.items():
        path = machine / "sysroot" / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else f"{content}\n".encode())
    return Clock(machine)


def readings(probe: SnapshotProbe) -> DeviceReaders:
    return DeviceReaders(probe, detect_machine(probe, vendor_seconds=60.0).devices)


def only(corpus: Path, name: str) -> DeviceReading:
    (found,) = readings(SnapshotProbe(corpus / "devices" / name)).read()
    return found


@pytest.fixture
def copy(corpus: Path, tmp_path: Path) -> Any:
    def make(name: str, files: dict[str, Any]) -> Clock:
        shutil.copytree(corpus / "devices" / name, tmp_path / "machine")
        return write(tmp_path / "machine", files)

    return make


def test_recorded_amd_cards(corpus: Path) -> None:
    vega = only(corpus, "amd-vega56-sysfs")
    assert vega.utilization_ratio == 0 and vega.memory_used_bytes == 16613376
    assert (vega.power_watts, vega.power_limit_watts) == (8.0, 260.0)
    assert vega.temperature_celsius == 38.0
    assert (vega.link_generation, vega.link_width, vega.link_width_max) == (3, 16, 16)
    assert only(corpus, "amd-rx580-sysfs").utilization_ratio == pytest.approx(0.11)


def test_no_recorded_machine_makes_a_reader_fail(corpus: Path) -> None:
    """Whatever was recorded, each reading is of its type or says why there is none."""
    for folder in sorted((corpus / "devices").iterdir()):
        if not folder.name.endswith(("-sysfs", "-kfd")):  # what readers look at
            continue
        for gpu in readings(SnapshotProbe(folder)).read():
            share = known(gpu.utilization_ratio)
            assert share is None or 0 <= share <= 1, folder.name
            heat = known(gpu.temperature_celsius)
            assert heat is None or 0 < heat < 120, folder.name
            reasons = [v.reason for v in vars(gpu).values() if isinstance(v, Absent | Failed)]
            assert all(reasons), folder.name


CARD = "/sys/class/drm/card0/device"


def metrics(status: int, energy: int, version: tuple[int, int] = (1, 3)) -> bytes:
    content = bytearray(struct.pack("<HBB", 120, *version).ljust(120, b"\0"))
    struct.pack_into("<Q", content, 24, energy)
    struct.pack_into("<Q", content, 112, status)
    return bytes(content)


def test_amd_throttling_energy_errors_and_clocks(copy: Any) -> None:
    probe = copy("amd-vega56-sysfs", {
        f"{CARD}/gpu_metrics": metrics(1 | 1 << 36, 2**20),
        f"{CARD}/ras/umc_err_count": "ue: 1\nce: 7",
        f"{CARD}/pp_dpm_sclk": "0: 852Mhz *\n1: 991Mhz\n2: 1590Mhz",
        f"{CARD}/hwmon/hwmon4/freq1_input": 852000000,
    })  # fmt: skip
    (gpu,) = readings(probe).read()
    assert gpu.throttle_reasons == ("power cap", "temperature")
    assert gpu.energy_joules == 16.0
    assert (gpu.ecc_corrected, gpu.ecc_uncorrected) == (7, 1)
    assert (gpu.core_clock_hertz, gpu.core_clock_max_hertz) == (852e6, 1590e6)


def test_an_amd_card_at_its_highest_clock_is_not_throttled(copy: Any) -> None:
    probe = copy("amd-vega56-sysfs", {
        f"{CARD}/gpu_metrics": metrics(1 << 36, 0),
        f"{CARD}/pp_dpm_sclk": "0: 852Mhz\n1: 1590Mhz *",
        f"{CARD}/hwmon/hwmon4/freq1_input": 1590000000,
    })  # fmt: skip
    assert readings(probe).read()[0].throttle_reasons == ()


@pytest.mark.parametrize(
    ("content", "word"),
    [(metrics(0, 0, (2, 1)), "2.1"), (b"", "nothing"), (b"x" * 50, "version"),
     (metrics(2**64 - 1, 2**64 - 1), "does not contain it")],
)  # fmt: skip
def test_other_tables_of_metrics_are_absent(content: bytes, word: str) -> None:
    for reading in parse_metrics(content):
        assert isinstance(reading, Absent) and word in reading.reason


def test_a_file_that_holds_no_number_is_a_failure(copy: Any) -> None:
    probe = copy("amd-vega56-sysfs", {f"{CARD}/gpu_busy_percent": "EBUSY \x1b[31m"})
    (gpu,) = readings(probe).read()
    assert isinstance(gpu.utilization_ratio, Failed)
    assert "gpu_busy_percent" in gpu.utilization_ratio.reason


def test_the_link_that_counts_is_that_of_the_cards_own_switch(copy: Any) -> None:
    bus = "/sys/bus/pci/devices"
    files: dict[str, Any] = {}
    way = ("0000:00:01.1", "0000:06:00.0", "0000:07:01.0")
    for name, vendor, speed, width in zip(
        way, ("0x1022", "0x8086", "0x8086"), ("16.0", "8.0", "2.5"), (16, 4, 1), strict=True
    ):
        files |= {f"{bus}/{name}/vendor": vendor, f"{bus}/{name}/current_link_width": width,
                  f"{bus}/{name}/max_link_width": 16,
                  f"{bus}/{name}/current_link_speed": f"{speed} GT/s PCIe",
                  f"{bus}/{name}/max_link_speed": "16.0 GT/s PCIe"}  # fmt: skip
    address = "0000:08:00.0"
    files[f"{bus}/{address}.link"] = f"../../../devices/pci0000:00/{'/'.join(way)}/{address}"
    probe = copy("intel-arc-a380-xe-sysfs", {})
    root = probe.folder / "sysroot"
    place = root / "sys/devices/pci0000:00" / "/".join(way)
    place.mkdir(parents=True)
    shutil.move(root / bus.lstrip("/") / address, place / address)
    (gpu,) = readings(write(probe.folder, files)).read()
    assert (gpu.link_generation, gpu.link_width, gpu.link_width_max) == (3, 4, 16)


def test_the_link_inside_of_an_intel_card_is_not_taken_for_its_own(corpus: Path) -> None:
    for name in ("intel-arc-a380-xe-sysfs", "intel-arc-b580-xe-sysfs"):
        gpu = only(corpus, name)
        assert isinstance(gpu.link_width, Absent) and "switch" in gpu.link_width.reason


IDLE = "/sys/class/drm/card0/device/tile0/gt0/gtidle/idle_residency_ms"
ENERGY = "/sys/class/drm/card0/device/hwmon/hwmon0/energy1_input"
XE = {
    IDLE: 1000,
    "/sys/class/drm/card0/device/tile0/gt0/freq0/act_freq": 1200,
    "/sys/class/drm/card0/device/tile0/gt0/freq0/rp0_freq": 2450,
    "/sys/class/drm/card0/device/tile0/gt0/freq0/throttle/reason_thermal": 1,
    "/sys/class/drm/card0/device/tile0/gt0/freq0/throttle/reason_pl1": 0,
    ENERGY: 5_000_000,
    "/sys/class/drm/card0/device/hwmon/hwmon0/power1_max": 75_000_000,
}


def test_intel_busy_time_power_and_throttling(copy: Any) -> None:
    probe = copy("intel-arc-a380-xe-sysfs", XE)
    reader = readings(probe)
    (first,) = reader.read()
    assert isinstance(first.utilization_ratio, Absent)  # a difference needs two readings
    clock = probe.seconds
    write(probe.folder, {IDLE: 1400, ENERGY: 35_000_000})
    (gpu,) = reader.read()
    elapsed = probe.seconds - clock
    assert gpu.utilization_ratio == pytest.approx(1 - 0.4 / elapsed)
    assert gpu.power_watts == pytest.approx(30 / elapsed)
    assert gpu.power_limit_watts == 75.0 and gpu.energy_joules == 35.0
    assert gpu.throttle_reasons == ("temperature",)
    assert (gpu.core_clock_hertz, gpu.core_clock_max_hertz) == (1200e6, 2450e6)


def client(number: int, place: str, busy: int, memory: int) -> str:
    return (
        f"pos:\t0\nflags:\t02100002\ndrm-driver:\tamdgpu\ndrm-client-id:\t{number}\n"
        f"drm-pdev:\t{place}\ndrm-memory-vram:\t{memory} KiB\ndrm-memory-gtt:\t999 KiB\n"
        f"drm-engine-gfx:\t{busy} ns\ndrm-engine-capacity-gfx:\t1\n"
    )


def test_processes_are_found_by_the_files_that_they_hold(copy: Any) -> None:
    place = "0000:0b:00.0"
    probe = copy("amd-vega56-sysfs", {
        "/proc/7/fd/3.link": "/dev/dri/renderD128", "/proc/7/fdinfo/3": client(1, place, 0, 512),
        "/proc/7/fd/4.link": "/dev/dri/renderD128", "/proc/7/fdinfo/4": client(1, place, 0, 512),
        "/proc/7/fd/5.link": "/tmp/file", "/proc/7/fdinfo/5": "pos: 0",
        "/proc/8/fd/3.link": "/dev/dri/card0",
        "/proc/8/fdinfo/3": client(2, "0000:99:00.0", 0, 1),
    })  # fmt: skip
    reader = readings(probe)
    (gpu,) = reader.read()
    assert [(one.pid, one.memory_bytes) for one in gpu.processes] == [(7, 512 * 1024)]  # type: ignore[union-attr]
    clock = probe.seconds
    for handle in (3, 4):
        write(probe.folder, {f"/proc/7/fdinfo/{handle}": client(1, place, 500_000_000, 512)})
    (process,) = reader.read()[0].processes  # type: ignore[misc]
    assert isinstance(process.utilization_ratio, float)
    assert 0 < process.utilization_ratio <= 0.5 / 1 and clock > 0


def test_processes_of_rocm_are_found_by_kfd(copy: Any) -> None:
    nodes = "/sys/class/kfd/kfd/topology/nodes/1"
    probe = copy("amd-vega56-sysfs", {
        f"{nodes}/properties": "simd_count 224\nvendor_id 4098\ndevice_id 26751\n"
                               f"location_id {0x0B << 8}\ndomain 0",
        f"{nodes}/gpu_id": 4711,
        "/sys/class/kfd/kfd/proc/99/vram_4711": 2**30,
        "/sys/class/kfd/kfd/proc/98/vram_1": 2**30,
    })  # fmt: skip
    gpu = readings(probe).read()[0]
    assert [(one.pid, one.memory_bytes) for one in gpu.processes] == [(99, 2**30)]  # type: ignore[union-attr]


def test_apple_says_who_could_be_told(corpus: Path) -> None:
    gpu = only(corpus, "apple-m1-8core-text")
    assert isinstance(gpu.utilization_ratio, Absent) and "root" in gpu.utilization_ratio.reason


def test_a_vendor_without_a_reader_says_so() -> None:
    (gpu,) = DeviceReaders(LiveProbe(), [Device(0, "other", name="Voodoo")]).read()
    assert isinstance(gpu.power_watts, Absent) and gpu.name == "Voodoo"


PROC = {
    "/proc/stat": "cpu  100 0 100 700 100 0 0 0 0 0\ncpu0 1 1\ncpu1 1 1\n",
    "/proc/meminfo": "MemTotal: 1000 kB\nMemAvailable: 250 kB\nSwapTotal: 100 kB\nSwapFree: 40 kB",
    "/proc/loadavg": "0.50 1.25 2.00 1/100 4242",
    "/proc/pressure/memory": "some avg10=12.50 avg60=1.00 avg300=0.00 total=1\nfull avg10=0.00",
}


def test_the_host_from_its_files(tmp_path: Path) -> None:
    probe = write(tmp_path, PROC)
    reader = HostReader(probe)
    assert isinstance(reader.read().utilization_ratio, Absent)
    write(tmp_path, {"/proc/stat": "cpu  160 0 100 720 120 0 0 0 0 0\ncpu0 1 1\ncpu1 1 1\n"})
    host = reader.read()
    assert host.cores == 2 and host.utilization_ratio == pytest.approx(0.6)
    assert (host.memory_total_bytes, host.memory_available_bytes) == (1024000, 256000)
    assert (host.swap_total_bytes, host.swap_used_bytes) == (102400, 61440)
    assert host.load_averages == (0.5, 1.25, 2.0)
    assert host.memory_pressure_ratio == pytest.approx(0.125)
    assert isinstance(host.cpu_pressure_ratio, Absent)


@pytest.mark.parametrize("text", ["", "cpu", "cpu x y", "\0" * 20, "cpu " + "9" * 5000])
def test_a_damaged_file_of_the_host_is_a_failure(tmp_path: Path, text: str) -> None:
    probe = write(tmp_path, dict.fromkeys(PROC, text))
    reader = HostReader(probe)
    reader.read()
    host = reader.read()
    assert isinstance(host.utilization_ratio, Failed)
    assert isinstance(host.load_averages, Failed)
    assert isinstance(host.memory_pressure_ratio, Failed)


def test_the_own_process_and_one_that_is_not_there(tmp_path: Path) -> None:
    import os

    use = read_process(LiveProbe(), os.getpid())
    assert not isinstance(use, Absent | Failed)
    assert use.resident_bytes > 2**20 and use.threads >= 1 and use.cpu_seconds > 0
    assert isinstance(read_process(LiveProbe(), 2**22 + 1), Absent)
    bad = write(tmp_path, {"/proc/5/stat": "5 (a) b) c) S 1"})
    assert isinstance(read_process(bad, 5), Failed)


def test_a_counter_that_begins_anew_has_no_rate() -> None:
    times = iter((0.0, 2.0, 4.0, 6.0))
    rate = Rate(lambda: next(times))
    assert isinstance(rate.per_second(10), Absent)
    assert rate.per_second(30) == 10.0
    assert isinstance(rate.per_second(5), Absent)
    assert rate.per_second(7) == 1.0
