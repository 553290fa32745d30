"""Were the installed frameworks built for the GPUs of this machine?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from gpuforge.changes.action import RunPip
from gpuforge.diagnose.finding import Finding, of_cause
from gpuforge.diagnose.requirement import release
from gpuforge.diagnose.site import NOT_RECORDED, Site
from gpuforge.facts import Device, known

SUMMARY = "frameworks are builds for the GPUs of this machine"

INDEX = "https://download.pytorch.org/whl"
# PyTorch's CUDA indexes, newest first, with the CUDA version a driver must serve.
# Source: https://pytorch.org/get-started/previous-versions/ ; checked 2026-11.
CUDA_INDEXES = (("cu130", (13, 0)), ("cu128", (12, 8)), ("cu126", (12, 6)), ("cu118", (11, 8)))
# Blackwell and later need code of CUDA 12.8: https://docs.nvidia.com/cuda/blackwell-compatibility-guide/
BLACKWELL, BLACKWELL_CUDA = (10, 0), (12, 8)
# What compiles while it runs, the cause when it cannot, and the packages of a toolkit it needs.
# From CUDA 13 on these packages are named and laid out otherwise; nothing is promised there.
COMPILED_WITH = {
    "cupy-cuda12x": ("cupy_headers_missing", ("nvidia-cuda-runtime",)),
    "numba-cuda": (
        "numba_nvvm_missing",
        ("nvidia-cuda-nvcc", "nvidia-cuda-nvrtc", "nvidia-cuda-runtime"),
    ),
}
_LOCAL = re.compile(r"\+(cpu|xpu|cu(\d{2,3})|rocm([\d.]+))")


def check(site: Site) -> Iterator[Finding]:
    """Return what does not fit, package by package."""
    if not site.live:
        yield Finding("skipped", NOT_RECORDED.reason)
        return
    vendors: set[str] = {device.vendor for device in site.machine.devices}
    found = [*_torch(site, vendors), *_jax(site, vendors), *_tensorflow(site, vendors)]
    found += [*_cupy(site), *_compilers(site, vendors)]
    frameworks = ("torch", "jax", "tensorflow")
    installed = [n for n in site.packages if n in frameworks or n.startswith("cupy")]
    if found:
        yield from found
    elif installed:
        versions = tuple(f"{name} {', '.join(site.packages[name])}" for name in installed)
        yield Finding("ok", "the frameworks fit the machine", evidence=versions)
    else:
        yield Finding("ok", "no GPU framework is installed in this environment")


def driver_cuda(site: Site) -> tuple[int, ...]:
    """Return the highest CUDA version that the NVIDIA driver serves; empty when unknown."""
    everything = [*site.machine.toolkits, *(t for d in site.machine.devices for t in d.runtimes)]
    versions = [known(t.version) for t in everything if t.name == "cuda"]
    return max((release(version)[:2] for version in versions if version), default=())


def _torch(site: Site, vendors: set[str]) -> Iterator[Finding]:
    version = site.version("torch")
    if version is None or not vendors & {"nvidia", "amd"}:
        return
    build = _LOCAL.search(version)
    evidence = (f"torch {version}", *_names(site))
    if build and build[1] == "cpu":
        yield of_cause("torch_cpu_only_build", "error", evidence=evidence, repair=_torch_fix(site))
    elif build and ((build[2] and "nvidia" not in vendors) or (build[3] and "amd" not in vendors)):
        yield of_cause("wrong_vendor_build", "error", evidence=evidence, repair=_torch_fix(site))
    elif build and build[2]:
        wanted, served = _cuda_of(build[2]), driver_cuda(site)
        newest = max((_capability(device) for device in site.machine.devices), default=())
        if newest >= BLACKWELL and wanted < BLACKWELL_CUDA:
            repair = _torch_fix(site)
            yield of_cause("torch_no_kernel_for_gpu", "error", evidence=evidence, repair=repair)
        elif served and wanted[0] > served[0]:
            driver = f"the driver serves CUDA {'.'.join(map(str, served))}"
            yield of_cause("driver_too_old_for_cuda", "error", evidence=(*evidence, driver))


def _torch_fix(site: Site) -> tuple[RunPip, ...]:
    """Return the reinstallation for the GPUs here; nothing where no index is certain."""
    vendors = {device.vendor for device in site.machine.devices}
    served = driver_cuda(site)
    index = next((name for name, cuda in CUDA_INDEXES if served >= cuda), None)
    if "nvidia" not in vendors or index is None:
        return ()
    packages = [name for name in ("torch", "torchvision", "torchaudio") if name in site.packages]
    where = ("--index-url", f"{INDEX}/{index}")
    return (_pip(site, "install", "--force-reinstall", "--no-deps", *where, *packages),)


def _jax(site: Site, vendors: set[str]) -> Iterator[Finding]:
    version = site.version("jax")
    plugins = [name for name in site.packages if name.startswith(("jax-cuda", "jax-rocm"))]
    if version and "nvidia" in vendors and not plugins and site.probe.platform == "linux":
        cuda = driver_cuda(site)
        extra = "cuda13" if cuda >= (13, 0) else "cuda12"
        repair = (_pip(site, "install", f"jax[{extra}]=={version}"),) if cuda >= (12, 0) else ()
        yield of_cause(
            "jax_cpu_fallback", "warning", evidence=(f"jax {version}, no plugin",), repair=repair
        )


def _tensorflow(site: Site, vendors: set[str]) -> Iterator[Finding]:
    version = site.version("tensorflow")
    libraries = [name for name in site.packages if name.startswith("nvidia-cudnn")]
    if version and "nvidia" in vendors and not libraries and site.probe.platform == "linux":
        repair = (_pip(site, "install", f"tensorflow[and-cuda]=={version}"),)
        evidence = (f"tensorflow {version}, no nvidia-cudnn package",)
        yield of_cause("tf_gpu_libs_missing", "warning", evidence=evidence, repair=repair)


def _cupy(site: Site) -> Iterator[Finding]:
    wheels = [name for name in site.packages if re.fullmatch(r"cupy-cuda\d\dx", name)]
    served = driver_cuda(site)
    if len(wheels) == 1 and served and int(wheels[0][9:11]) > served[0]:
        right = f"cupy-cuda{served[0]}x"
        evidence = (wheels[0], f"the driver serves CUDA {served[0]}")
        repair = (_pip(site, "uninstall", "-y", wheels[0]), _pip(site, "install", right))
        yield of_cause("cupy_wrong_cuda_wheel", "error", evidence=evidence, repair=repair)


def _compilers(site: Site, vendors: set[str]) -> Iterator[Finding]:
    """Find packages that compile for the GPU while they run and lack what they compile with."""
    environ = site.probe.environ
    toolkit = environ.get("CUDA_HOME") or environ.get("CUDA_PATH") or "/usr/local/cuda"
    if "nvidia" not in vendors or Path(toolkit, "include").is_dir():
        return
    for package, (cause, parts) in COMPILED_WITH.items():
        major = package[9:11] if package.startswith("cupy") else str((*driver_cuda(site), 12)[0])
        lacking = [
            f"{part}-cu{major}" for part in parts if f"{part}-cu{major}" not in site.packages
        ]
        if package in site.packages and major == "12" and lacking:
            evidence = (f"{package}, no {', no '.join(lacking)}, no {toolkit}",)
            repair = (_pip(site, "install", *lacking),)
            yield of_cause(cause, "warning", evidence=evidence, repair=repair)


def _pip(site: Site, *arguments: str) -> RunPip:
    return RunPip(site.python, site.prefix, arguments)


def _names(site: Site) -> tuple[str, ...]:
    return tuple(known(device.name) or device.vendor for device in site.machine.devices)


def _capability(device: Device) -> tuple[int, ...]:
    return release(known(device.compute_capability) or "")


def _cuda_of(digits: str) -> tuple[int, ...]:
    return int(digits[:2]), int(digits[2:] or 0)
