"""The host: read from files on Linux, ``sysctl`` on macOS and variables on Windows."""

from __future__ import annotations

import math
import re
from typing import Any

from gpuforge import registry
from gpuforge.detect.free_memory import CGROUP, control_groups, limits
from gpuforge.detect.notation import fields_of, lines_of, size, whole, word
from gpuforge.detect.source import outputs_of, text_at, under_wsl
from gpuforge.facts import NOT_SHOWN, Absent, Host, Reading, known
from gpuforge.probe import Probe

DMI = "/sys/class/dmi/id"


def _signs() -> dict[str, Any]:
    return registry.table(__file__, "host_signs")


def read_host(probe: Probe) -> Host:
    """Return the host, as far as the machine shows it."""
    if probe.platform == "unknown":
        return Host()
    if probe.platform == "darwin":
        return _mac(probe)
    if probe.platform == "win32":
        return _windows(probe)
    text = text_at(probe, "/proc/cpuinfo")
    cpu = fields_of(text)
    flags = f"{cpu.get('flags', '')} {cpu.get('Features', '')}".split()
    return Host(
        platform=_platform(probe),
        machine=_machine(probe, cpu, flags),
        cpu_model=word(cpu.get("model name") or cpu.get("cpu")) or NOT_SHOWN,
        cores=_cores(probe, text),
        memory_total_bytes=_memory(probe),
        isa=tuple(name for name in _signs()["vectors"] if name in flags),
        libc=_libc(probe),
        virtual_machine=_virtual_machine(probe, flags),
        container=_container(probe),
        cloud_instance=_cloud_instance(probe),
    )


def _platform(probe: Probe) -> Reading[str]:
    if probe.platform.startswith("freebsd"):
        return "freebsd"
    if under_wsl(probe):
        return "wsl2"
    model = text_at(probe, "/proc/device-tree/model")
    tegra = isinstance(probe.read_text("/etc/nv_tegra_release"), str) or probe.outputs("tegrastats")
    return "jetson" if "Jetson" in model or tegra else "linux"


def _machine(probe: Probe, cpu: dict[str, str], flags: list[str]) -> Reading[str]:
    told = word(text_at(probe, "/proc/sys/kernel/arch"))
    if told:
        return told
    if "lm" in flags:
        return "x86_64"
    return "aarch64" if cpu.get("CPU architecture") == "8" else NOT_SHOWN


def _cores(probe: Probe, cpuinfo: str) -> Reading[int]:
    """Return the number of CPUs that affinity and the cgroup's quota leave to this process."""
    status = fields_of(text_at(probe, "/proc/self/status"))
    allowed = parse_cpu_list(status.get("Cpus_allowed_list", ""))
    count = allowed or len(re.findall(r"^processor\s*:", cpuinfo, re.M))
    quotas = [quota for name in control_groups(probe) if (quota := _quota(probe, CGROUP + name))]
    if count and quotas:
        count = min(count, max(1, math.ceil(min(quotas))))
    return count or NOT_SHOWN


def parse_cpu_list(text: str) -> int:
    """Return how many CPUs a list such as ``0-3,8`` names."""
    count = 0
    for part in text.split(","):
        low, mark, high = part.strip().partition("-")
        first, last = whole(low), whole(high) if mark else whole(low)
        if first is not None and last is not None and first <= last < 2**20:
            count += last - first + 1
    return count


def _quota(probe: Probe, folder: str) -> float | None:
    limit, _, period = text_at(probe, f"{folder}/cpu.max").partition(" ")
    if not limit:
        limit = text_at(probe, f"{folder}/cpu/cpu.cfs_quota_us")
        period = text_at(probe, f"{folder}/cpu/cpu.cfs_period_us")
    quota, length = whole(limit), whole(period)
    return quota / length if quota and length else None


def _memory(probe: Probe) -> Reading[int]:
    fields = fields_of(text_at(probe, "/proc/meminfo"))
    found = [size(fields.get("MemTotal")), *(limit for limit, _ in limits(probe))]
    sizes = [value for value in found if value]
    return min(sizes) if sizes else NOT_SHOWN


def _libc(probe: Probe) -> Reading[str]:
    """Return the C library, such as ``glibc 2.36``, from the text inside the library itself."""
    for path in _signs()["glibc"]:
        content = probe.read_bytes(path)
        if isinstance(content, bytes):
            place = max(0, content.find(b"GNU C Library"))
            match = re.search(rb"version (\d+\.\d+)", content[place : place + 120])
            if match:
                return f"glibc {match[1].decode()}"
    for path in _signs()["musl"]:
        if known(probe.read_bytes(path)) is not None:
            return "musl"
    return NOT_SHOWN


def _virtual_machine(probe: Probe, flags: list[str]) -> Reading[str]:
    texts = (text_at(probe, f"{DMI}/{name}") for name in ("sys_vendor", "product_name"))
    firmware = " ".join(texts).lower()
    for words, name in _signs()["hypervisor"].items():
        if words in firmware and ".metal" not in firmware:
            return str(name)
    return "unknown hypervisor" if "hypervisor" in flags else Absent("no sign of a hypervisor")


def _container(probe: Probe) -> Reading[str]:
    signs: dict[str, dict[str, str]] = _signs()["container"]
    group = text_at(probe, "/proc/self/cgroup")
    shown = [
        *(
            name
            for path, name in signs["file"].items()
            if known(probe.read_bytes(path)) is not None
        ),
        *(name for variable, name in signs["variable"].items() if variable in probe.environ),
        *(name for sign, name in signs["cgroup"].items() if sign in group),
    ]
    return shown[0] if shown else Absent("no sign of a container")


def _cloud_instance(probe: Probe) -> Reading[str]:
    """Return the instance type, which EC2's firmware and cloud-init write to files."""
    vendor = text_at(probe, f"{DMI}/sys_vendor")
    product = word(text_at(probe, f"{DMI}/product_name"))
    if vendor == "Amazon EC2" and product:
        return product
    text = text_at(probe, "/run/cloud-init/instance-data.json")
    match = re.search(
        r'"(?:instance[_-]type|vmSize|machine[_-]type|shape)"\s*:\s*"([^"]{1,80})"', text
    )
    return match[1].rpartition("/")[2] if match else Absent("no file shows an instance type")


def _mac(probe: Probe) -> Host:
    keys = ("machdep.cpu.brand_string", "hw.memsize", "hw.logicalcpu", "hw.machine")
    text = "\n".join(output.stdout for output in outputs_of(probe, "sysctl", keys))
    found = fields_of(text)
    values = [found.get(key) for key in keys]
    if not found and len(lines := lines_of(text)) == len(keys):
        values = list(lines)
    return Host(
        platform="macos",
        machine=word(values[3]) or NOT_SHOWN,
        cpu_model=word(values[0]) or NOT_SHOWN,
        cores=whole(values[2]) or NOT_SHOWN,
        memory_total_bytes=size(values[1]) or NOT_SHOWN,
    )


def _windows(probe: Probe) -> Host:
    variables = probe.environ
    return Host(
        platform="windows",
        machine=word(variables.get("PROCESSOR_ARCHITECTURE", "").lower()) or NOT_SHOWN,
        cpu_model=word(variables.get("PROCESSOR_IDENTIFIER")) or NOT_SHOWN,
        cores=whole(variables.get("NUMBER_OF_PROCESSORS")) or NOT_SHOWN,
    )
