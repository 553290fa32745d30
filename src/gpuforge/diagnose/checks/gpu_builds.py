"""Were the installed frameworks built for the GPUs and the driver of this machine?"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gpuforge.compat import cuda, rocm
from gpuforge.compat.tables import entries
from gpuforge.compat.versions import at_least, parse_version
from gpuforge.diagnose.finding import Finding, of_cause
from gpuforge.diagnose.repair import pip
from gpuforge.diagnose.site import Site
from gpuforge.facts import Device, known

if TYPE_CHECKING:
    from gpuforge.changes.action import RunPip

SUMMARY = "the installed framework builds fit the GPUs of this machine"
LIVE = True

FRAMEWORKS = {"torch": "pytorch", "jax": "jax", "tensorflow": "tensorflow"}
BESIDE_TORCH = ("torchvision", "torchaudio")
PLATFORMS = {("linux", "x86_64"): "linux-64", ("linux", "aarch64"): "linux-aarch64",
             ("win32", "AMD64"): "win-64", ("darwin", "arm64"): "osx-arm64"}  # fmt: skip
# Packages that compile at run time: the cause if they cannot, and the toolkit packages they need.
# From CUDA 13 on these have other names and layouts, so they are not checked.
COMPILED_WITH = {
    "cupy-cuda12x": ("cupy_headers_missing", ("nvidia-cuda-runtime",)),
    "numba-cuda": ("numba_nvvm_missing",
                   ("nvidia-cuda-nvcc", "nvidia-cuda-nvrtc", "nvidia-cuda-runtime")),
}  # fmt: skip
_VARIANT = r"\+(cpu|xpu|cu\d{2,3}|rocm[\d.]+)"


def check(site: Site) -> Iterator[Finding]:
    """Yield the packages that do not fit this machine."""
    looks = (_torch, _mixed_torch, _jax, _tensorflow, _cupy, _compilers)
    found = [finding for look in looks for finding in look(site)]
    installed = [n for n in site.packages if n in FRAMEWORKS or n.startswith("cupy")]
    if found:
        yield from found
    elif installed:
        versions = tuple(f"{name} {', '.join(site.packages[name])}" for name in installed)
        yield Finding("ok", "the installed frameworks fit this machine", evidence=versions)
    else:
        yield Finding("ok", "no GPU framework is installed in this environment")


def driver_cuda(site: Site) -> int | None:
    """Return the newest CUDA major version that the NVIDIA driver supports; None if unknown."""
    for device in _gpus(site, "nvidia"):
        driver = known(device.driver)
        if driver and (version := known(driver.version)):
            on_windows = site.probe.platform == "win32"
            kind = cuda.driver_kind(version, "windows" if on_windows else "linux")
            return max(cuda.majors(version, kind), default=0)
    everything = [*site.machine.toolkits, *(t for d in site.machine.devices for t in d.runtimes)]
    versions = [known(t.version) for t in everything if t.name == "cuda"]
    return max((parse_version(v)[0] for v in versions if v), default=None)


class _Torch(NamedTuple):
    """The installed build of PyTorch: its variant, CUDA version and compute capabilities."""

    variant: str
    cuda: str
    codes: tuple[str, ...]


def _torch(site: Site) -> Iterator[Finding]:
    version = site.version("torch")
    build = _installed_torch(site, version) if version and site.machine.devices else None
    if version is None or build is None:
        return
    plain = "" if "+" in version else f" ({build.variant})"
    names = (known(device.name) or device.vendor for device in site.machine.devices)
    evidence = (f"torch {version}{plain}", *names)
    misfit = _misfit(site, build)
    if misfit is not None:
        cause, why = misfit
        repair, refused = _planned(site, "torch")
        # A CPU build is right if no GPU build would run.
        if cause != "torch_cpu_only_build" or not refused:
            shown = (*evidence, *filter(None, (why, refused)))
            yield of_cause(cause, "error", evidence=shown, repair=repair)


def _mixed_torch(site: Site) -> Iterator[Finding]:
    """Find torchvision and torchaudio of another build than torch, which PEP 440 cannot tell."""
    have = site.version("torch") or ""
    for name in BESIDE_TORCH:
        beside = site.version(name) or ""
        builds = {_build(site, "torch", have), _build(site, name, beside)}
        # Versions on PyPI do not show the CUDA version.
        both_cuda = "cu" in builds and all(build.startswith("cu") for build in builds)
        if len(builds) == 2 and "" not in builds and not both_cuda:
            repair, _ = _planned(site, "torch")
            message = f"torch {have} and {name} {beside} are builds for different accelerators"
            yield of_cause("torch_extension_abi_mismatch", "error", message, repair=repair)


def _build(site: Site, name: str, version: str) -> str:
    """Return what a package was built for, by its version; empty if unknown."""
    if named := re.search(_VARIANT, version):
        return named[1]
    on_pypi = site.probe.platform == "linux" and os.uname().machine == "x86_64"
    known_there = version and "+" not in version and name in ("torch", "torchvision")
    return "cu" if on_pypi and known_there else ""


def _misfit(site: Site, build: _Torch) -> tuple[str, str] | None:
    """Return the cause why a build cannot use the GPUs, and the evidence; None if it can."""
    nvidia, amd = _gpus(site, "nvidia"), _gpus(site, "amd")
    if build.variant == "cpu":
        usable = bool(nvidia and driver_cuda(site)) or any(
            rocm.wheels(known(device.architecture) or "") for device in amd
        )
        return ("torch_cpu_only_build", "") if usable else None
    if (build.cuda and amd and not nvidia) or (
        build.variant.startswith("rocm") and nvidia and not amd
    ):
        return "wrong_vendor_build", ""
    if not build.cuda or not nvidia:
        return None
    served, wanted = driver_cuda(site), parse_version(build.cuda)[0]
    if served is not None and wanted > served:
        why = f"it needs CUDA {wanted}; the driver supports at most CUDA {served}"
        return "driver_too_old_for_cuda", why
    capabilities = [c for device in nvidia if (c := _capability(device))]
    if capabilities and build.codes and not any(_runs(c, build) for c in capabilities):
        held, have = ", ".join(build.codes), ", ".join(capabilities)
        why = f"it was compiled for compute capability {held}; the GPU has {have}"
        return "torch_no_kernel_for_gpu", why
    return None


def _installed_torch(site: Site, version: str) -> _Torch | None:
    """Return the build of an installed version of PyTorch; None if it cannot be determined.

    A version without a variant is the one of the default index. For a release that is not in the
    tables, the CUDA packages that it requires show its CUDA version.
    """
    from gpuforge.compat.builds import builds

    here = PLATFORMS.get(
        (site.probe.platform, os.uname().machine if os.name == "posix" else "AMD64")
    )
    named, plain = re.search(_VARIANT, version), version.split("+")[0]
    candidates = [build for build in builds("pytorch") if build.platform == here]
    for build in candidates:
        is_default = named is None and "+" not in version and not build.index
        if build.version == plain and (is_default or (named and build.variant == named[1])):
            return _Torch(build.variant, build.cuda, build.codes)
    if named:
        digits = named[1].removeprefix("cu")
        found = f"{digits[:2]}.{digits[2:] or 0}" if digits.isdecimal() else ""
        return _Torch(named[1], found, ())
    installed = site.distribution("torch")
    required = " ".join(installed.requirements if installed else ())
    major = re.search(
        r"nvidia-[\w-]+-cu(1\d)\b|(?:nvidia-cuda-runtime|cuda-toolkit)\S*?==(1\d)\.", required
    )
    return (
        _Torch(f"CUDA {major[1] or major[2]}", f"{major[1] or major[2]}.0", ()) if major else None
    )


def _planned(site: Site, package: str) -> tuple[tuple[RunPip, ...], str]:
    """Return the repair that installs a build for this machine, or why there is none."""
    if site.planner is None:
        return (), ""
    beside = tuple(n for n in BESIDE_TORCH if n in site.packages) if package == "torch" else ()
    version = (site.version(package) or "").split("+")[0]
    python = ".".join(site.environment.version.split(".")[:2])
    plan = site.planner(site.machine, FRAMEWORKS[package], version, beside, python)
    if isinstance(plan, str):
        return (), f"no other build fits: {plan}"
    # "===" does not match builds with a local version, unlike "==".
    wanted = [r if index or "+" in r else r.replace("==", "===") for r, index in plan]
    indexes = dict.fromkeys(index for _, index in plan if index)
    where = [part for index in indexes for part in ("--extra-index-url", index)]
    return pip(site, "install", *wanted, *where), ""


def _extra_planned(site: Site, package: str) -> tuple[RunPip, ...]:
    """Return the repair that adds the GPU packages to an installed framework."""
    repair, _ = _planned(site, package)
    planned = re.match(rf"{package}(\[[\w,-]+\])", repair[0].arguments[1]) if repair else None
    return (
        pip(site, "install", f"{package}{planned[1]}=={site.version(package)}") if planned else ()
    )


def _jax(site: Site) -> Iterator[Finding]:
    version, served = site.version("jax"), driver_cuda(site)
    if version is None or not _gpus(site, "nvidia") or site.probe.platform != "linux":
        return
    plugins = [name for name in site.packages if re.match(r"jax-(cuda|rocm)\d+-plugin", name)]
    if not plugins and (repair := _extra_planned(site, "jax")):
        evidence = (f"jax {version} is installed without a GPU plugin",)
        yield of_cause("jax_cpu_fallback", "warning", evidence=evidence, repair=repair)
    for name in plugins:
        major = int(re.sub(r"\D", "", name))
        if "cuda" in name and served is not None and major > served:
            evidence = (f"{name} needs CUDA {major}; the driver supports at most CUDA {served}",)
            yield of_cause("driver_too_old_for_cuda", "error", evidence=evidence)


def _tensorflow(site: Site) -> Iterator[Finding]:
    version = site.version("tensorflow")
    libraries = [name for name in site.packages if name.startswith("nvidia-cudnn")]
    wanted = version and _gpus(site, "nvidia") and site.probe.platform == "linux"
    if wanted and not libraries and (repair := _extra_planned(site, "tensorflow")):
        evidence = (f"tensorflow {version} is installed without nvidia-cudnn",)
        yield of_cause("tf_gpu_libs_missing", "warning", evidence=evidence, repair=repair)


def _cupy(site: Site) -> Iterator[Finding]:
    wheels = [name for name in site.packages if name.startswith("cupy-cuda")]
    served = driver_cuda(site)
    if len(wheels) != 1 or not served:
        return
    have = int(wheels[0][9:11])
    capability = max((_capability(d) or "0" for d in _gpus(site, "nvidia")), key=parse_version)
    fitting = [major for major in _cupy_majors(capability) if major <= served]
    if have > served or (fitting and have not in _cupy_majors(capability) and have > fitting[0]):
        evidence = (
            wheels[0],
            f"the driver supports at most CUDA {served}; the GPU has capability {capability}",
        )
        repair: tuple[RunPip, ...] = ()
        if fitting:
            repair = (*pip(site, "uninstall", "-y", wheels[0]),
                      *pip(site, "install", f"cupy-cuda{fitting[0]}x"))  # fmt: skip
        yield of_cause("cupy_wrong_cuda_wheel", "error", evidence=evidence, repair=repair)


def _cupy_majors(capability: str) -> list[int]:
    """Return the CUDA major versions whose CuPy supports a compute capability, newest first."""
    rows = [
        e for e in entries("companions", "companion") if e["name"] == "cupy" and "cuda_major" in e
    ]
    fitting = {e["cuda_major"] for e in rows
               if capability == "0" or at_least(capability, e["capability_min"])}  # fmt: skip
    return sorted(fitting, reverse=True)


def _compilers(site: Site) -> Iterator[Finding]:
    """Find packages that compile for the GPU at run time and lack the toolkit packages."""
    environ = site.probe.environ
    toolkit = environ.get("CUDA_HOME") or environ.get("CUDA_PATH") or "/usr/local/cuda"
    if not _gpus(site, "nvidia") or Path(toolkit, "include").is_dir():
        return
    for package, (cause, parts) in COMPILED_WITH.items():
        major = package[9:11] if package.startswith("cupy") else str(driver_cuda(site) or 12)
        lacking = [
            f"{part}-cu{major}" for part in parts if f"{part}-cu{major}" not in site.packages
        ]
        if package in site.packages and major == "12" and lacking:
            evidence = (f"{package} needs {', '.join(lacking)}, or a CUDA toolkit in {toolkit}",)
            repair = pip(site, "install", *lacking)
            yield of_cause(cause, "warning", evidence=evidence, repair=repair)


def _gpus(site: Site, vendor: str) -> list[Device]:
    return [device for device in site.machine.devices if device.vendor == vendor]


def _capability(device: Device) -> str:
    return known(device.compute_capability) or cuda.capability_of(known(device.name) or "") or ""


def _runs(capability: str, build: _Torch) -> bool:
    return cuda.serving_code(capability, build.codes, build.cuda, build.cuda) is not None
