"""Do containers and WSL see the GPU that the host has?"""

from __future__ import annotations

import json
from collections.abc import Iterator

from gpuforge.diagnose.finding import Finding, of_cause
from gpuforge.diagnose.site import Site
from gpuforge.facts import known

SUMMARY = "containers and WSL can use the host's GPU"

DRIVER = "/proc/driver/nvidia/version"
WSL_LIBRARIES = "/usr/lib/wsl/lib"


def check(site: Site) -> Iterator[Finding]:
    """Yield problems inside a container, inside WSL, or on a container host."""
    host = site.machine.host
    if known(host.platform) == "wsl2":
        yield _wsl(site)
    elif known(host.container):
        yield _inside(site, str(known(host.container)))
    elif isinstance(site.probe.find_program("docker"), str):
        yield _docker(site)
    else:
        yield Finding("ok", "not in a container or WSL, and Docker is not installed")


def _wsl(site: Site) -> Finding:
    libraries = known(site.probe.list_dir(WSL_LIBRARIES)) or ()
    if site.machine.devices:
        return Finding("ok", "WSL can use the host's GPU")
    evidence = (f"{WSL_LIBRARIES}: {', '.join(libraries) or 'no files'}",)
    return of_cause("wsl_gpu_not_exposed", "warning", evidence=evidence)


def _inside(site: Site, kind: str) -> Finding:
    driver = known(site.probe.read_text(DRIVER))
    if driver and not any(device.vendor == "nvidia" for device in site.machine.devices):
        evidence = (f"{DRIVER}: {driver.splitlines()[0]}",)
        return of_cause("container_no_gpu_passed", "error", evidence=evidence)
    count = len(site.machine.devices)
    seen = f"{count} GPUs are visible, and there is no sign of more on the host"
    return Finding("ok", f"running in {kind}; {seen}")


def _docker(site: Site) -> Finding:
    nvidia = any(device.vendor == "nvidia" for device in site.machine.devices)
    if not nvidia:
        why = "it needs no NVIDIA runtime without an NVIDIA GPU"
        return Finding("ok", f"Docker is installed; {why}")
    text = known(site.probe.read_text("/etc/docker/daemon.json")) or "{}"
    try:
        runtimes = json.loads(text).get("runtimes", {})
    except (ValueError, AttributeError) as error:
        return Finding("warning", f"/etc/docker/daemon.json cannot be read: {error}")
    toolkit = isinstance(site.probe.find_program("nvidia-ctk"), str)
    if toolkit or "nvidia" in runtimes:
        return Finding("ok", "Docker has the NVIDIA runtime")
    evidence = ("no nvidia-ctk on PATH, and no runtime 'nvidia' in /etc/docker/daemon.json",)
    return of_cause("container_toolkit_missing", "warning", evidence=evidence)
