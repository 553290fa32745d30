"""Machines that tests plan for: made by hand, at random, or as the facts of a whole grid."""

from __future__ import annotations

from hypothesis import strategies as st

from gpuforge.compat.tables import entries
from gpuforge.facts import NOT_SHOWN, Absent, Device, Driver, Host, Machine, Vendor

GB = 10**9
CAPABILITIES = [entry["cc"] for entry in entries("nvidia", "arch")]
TARGETS = [entry["gfx"] for entry in entries("rocm", "gpu")] + ["gfx803", "gfx9999"]
INTEL = ["Intel(R) Arc(TM) A770 Graphics", "Intel(R) UHD Graphics 730", "Intel Xe of tomorrow"]
DRIVERS = [
    "390.157",
    "450.80.02",
    "470.256.02",
    "511.65",
    "525.60.13",
    "526.98",
    "528.33",
    "535.104.05",
    "550.54.15",
    "570.124.06",
    "580.65.06",
    "595.71.05",
    "610.43.02",
]
LINUX = Host(platform="linux", machine="x86_64", libc="glibc 2.35", memory_total_bytes=64 * GB)
MAC = Host(platform="macos", machine="arm64", memory_total_bytes=64 * GB)


def nvidia(
    capability: str | Absent = "9.0",
    driver: str | Absent = "580.65.06",
    *,
    memory: int = 24 * GB,
    host: Host = LINUX,
    name: str = "NVIDIA GPU",
) -> Machine:
    device = Device(
        0,
        "nvidia",
        name=name,
        compute_capability=capability,
        memory_total_bytes=memory,
        driver=Driver("nvidia", driver),
        score=80,
    )
    return Machine("ok", devices=(device,), host=host, best_device=0)


def of_vendor(vendor: Vendor, host: Host = LINUX, **facts: object) -> Machine:
    facts = {"memory_total_bytes": 24 * GB, "score": 60, **facts}
    device = Device(0, vendor, **facts)  # type: ignore[arg-type]
    return Machine("ok", devices=(device,), host=host, best_device=0)


def cpu_only(host: Host = LINUX) -> Machine:
    return Machine("no_gpu", host=host)


GRID = {
    "cuda": nvidia(),
    "rocm": of_vendor("amd", name="Instinct MI300X", architecture="gfx942"),
    "xpu": of_vendor("intel", name="Intel(R) Arc(TM) A770 Graphics"),
    "metal": of_vendor("apple", MAC, name="Apple M3 Max"),
    "cpu": cpu_only(),
}


def readings(values: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return values | st.just(NOT_SHOWN)


@st.composite
def devices(draw: st.DrawFn, index: int) -> Device:
    vendor: Vendor = draw(st.sampled_from(["nvidia", "amd", "intel", "apple", "other"]))
    return Device(
        index,
        vendor,
        name=draw(readings(st.sampled_from([*INTEL, "NVIDIA T4", "GPU"]))),
        memory_total_bytes=draw(readings(st.integers(0, 200 * GB))),
        driver=draw(
            readings(st.builds(Driver, st.just("nvidia"), readings(st.sampled_from(DRIVERS))))
        ),
        compute_capability=draw(readings(st.sampled_from(CAPABILITIES)))
        if vendor == "nvidia"
        else NOT_SHOWN,
        architecture=draw(readings(st.sampled_from(TARGETS))) if vendor == "amd" else NOT_SHOWN,
        score=draw(readings(st.integers(0, 100))),
    )


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    count = draw(st.integers(0, 3))
    found = tuple(draw(devices(index)) for index in range(count))
    host = Host(
        platform=draw(
            readings(st.sampled_from(["linux", "windows", "macos", "wsl2", "jetson", "freebsd"]))
        ),
        machine=draw(readings(st.sampled_from(["x86_64", "aarch64", "arm64", "AMD64", "ppc64le"]))),
        libc=draw(
            readings(
                st.sampled_from(["glibc 2.17", "glibc 2.27", "glibc 2.28", "2.39", "musl 1.2"])
            )
        ),
        memory_total_bytes=draw(readings(st.integers(0, 512 * GB))),
    )
    return Machine("ok" if found else "no_gpu", devices=found, host=host)
