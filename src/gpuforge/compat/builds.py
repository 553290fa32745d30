"""All known builds of the three frameworks, as one data class.

A build is what an installer can fetch: a version of a framework compiled for one accelerator,
together with the Pythons, platforms and devices that it supports.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal

from gpuforge.compat.tables import entries, table
from gpuforge.compat.versions import parse_version

Accelerator = Literal["cuda", "rocm", "xpu", "metal", "cpu"]
Platform = Literal["linux-64", "linux-aarch64", "osx-arm64", "win-64"]
FRAMEWORKS = ("pytorch", "tensorflow", "jax")
ACCELERATORS: tuple[Accelerator, ...] = ("cuda", "rocm", "xpu", "metal", "cpu")
PLATFORMS: tuple[Platform, ...] = ("linux-64", "linux-aarch64", "osx-arm64", "win-64")
PACKAGE = {"pytorch": "torch", "tensorflow": "tensorflow", "jax": "jax"}


@dataclass(frozen=True)
class Build:
    """One build of a framework on one platform.

    Attributes
    ----------
    variant : the framework's name for it: ``cu126``, ``rocm7.2``, ``and-cuda``, ``cuda13``, ``cpu``
    extra : the extra of the package that selects it; empty for none
    index : URL of the framework's own index; empty if the default index has this build
    cuda : CUDA version it was compiled with; empty without CUDA
    codes : compute capabilities compiled in; empty if only `capability_min` is known
    numpy : the NumPy versions that it requires, ``">=1.26,<2.1"``; empty if it does not limit them
    cudnn : the cuDNN version that it brings; ``any`` if an installer would take the newest
    pinned : packages and the versions that this build requires, ``(("torchvision", "0.29.2"),)``
    usual : the accelerated build that the project itself offers first for that release
    sure : False if the entry rests on a third party or an inference
    """

    framework: str
    version: str
    accelerator: Accelerator
    variant: str
    platform: str
    pythons: tuple[str, ...]
    glibc_min: str
    macos_min: str
    extra: str = ""
    index: str = ""
    cuda: str = ""
    codes: tuple[str, ...] = ()
    capability_min: str = ""
    numpy: str = ""
    cudnn: str = ""
    pinned: tuple[tuple[str, str], ...] = ()
    usual: bool = False
    sure: bool = True
    note: str = ""
    source: str = ""

    @property
    def cuda_major(self) -> int | None:
        """The CUDA major version; None without CUDA."""
        return int(self.cuda.split(".")[0]) if self.cuda else None

    @property
    def requirement(self) -> str:
        """The requirement that selects exactly this build."""
        package = PACKAGE[self.framework]
        extra = f"[{self.extra}]" if self.extra else ""
        local = f"+{self.variant}" if self.index else ""
        return f"{package}{extra}=={self.version}{local}"


@cache
def builds(framework: str) -> tuple[Build, ...]:
    """Return all known builds of a framework, newest release first."""
    known = {entry["version"]: entry for entry in entries(framework, "release")}
    found = (
        _build(framework, known[version], entry, platform)
        for entry in entries(framework, "build")
        for version in entry["versions"]
        for platform in entry["platforms"]
    )
    return tuple(sorted(found, key=lambda b: parse_version(b.version), reverse=True))


def builds_for(framework: str, accelerator: str, platform: str) -> tuple[Build, ...]:
    """Return the builds of a framework for one accelerator on one platform, newest first."""
    found = builds(framework)
    return tuple(b for b in found if (b.accelerator, b.platform) == (accelerator, platform))


def build_on_default_index(build: Build) -> Build | None:
    """Return the equivalent of a build on the default index, or None if it has none.

    For a CPU build this is any build of the same release: builds for GPUs run on the CPU as well.
    """
    if not build.index:
        return build
    same = (b for b in builds(build.framework) if b.version == build.version and not b.index)
    held = next((b for b in same if b.platform == build.platform), None)
    if build.accelerator != "cpu" or held is None:
        return None
    note = f"the default index holds the {held.variant} build, which is larger and runs on the CPU"
    return replace(build, variant=held.variant, index="", note=note)


def releases(framework: str) -> tuple[str, ...]:
    """Return the known versions of a framework, newest first."""
    return tuple(dict.fromkeys(build.version for build in builds(framework)))


def _build(framework: str, release: dict[str, Any], entry: dict[str, Any], platform: str) -> Build:
    """Return one build; its entry overrides the values of its release."""
    told, variant = {**release, **entry}, entry["variant"]
    key = platform.replace("-", "_")
    on_default = told.get("on_default_index", release.get(f"default_{key}") == variant)
    address = "" if on_default else table(framework).get("index", "").format(variant=variant)
    on_cuda = entry["accelerator"] == "cuda"
    # Windows has the architectures of Linux unless its own are listed; aarch64 always has its own.
    listed = told.get(f"archs_{key}", told.get("archs_linux_64", ()) if key == "win_64" else ())
    pinned = (("torchvision", release["torchvision"]),) if "torchvision" in release else ()
    return Build(
        framework=framework,
        version=release["version"],
        accelerator=entry["accelerator"],
        variant=variant,
        platform=platform,
        pythons=tuple(release["python"]),
        glibc_min=told["glibc_min"],
        macos_min=told["macos_min"],
        extra=told.get("extra", ""),
        index=address,
        cuda=told["cuda"] if on_cuda else "",
        codes=tuple(listed) if on_cuda else (),
        capability_min=told.get("capability_min", "") if on_cuda else "",
        numpy=release.get("numpy", ""),
        cudnn=told.get("cudnn", "") if on_cuda else "",
        usual=variant == release.get("default_linux_64"),
        pinned=pinned,
        sure=told.get("confidence") != "low",
        note=entry.get("note", ""),
        source=entry["source"],
    )
