"""Every build of the three frameworks that the tables know, in one shape.

A build is what an installer can fetch: a version of a framework compiled for one accelerator, with
the Pythons, platforms and devices it serves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
    variant : what the framework calls it: ``cu126``, ``rocm7.2``, ``and-cuda``, ``cuda13``, ``cpu``
    extra : the extra of the package that asks for it, empty for none
    index : address of the framework's own index; empty where the default index holds this build
    cuda : CUDA version it was compiled with, empty without CUDA
    codes : compute capabilities compiled in; empty where only `capability_min` is known
    pinned : versions of packages that must go with it, ``(("torchvision", "0.29.2"),)``
    usual : the accelerated build that the project itself offers first for that release
    sure : False where the entry rests on a third party or an inference
    """

    framework: str
    version: str
    released: str
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
    pinned: tuple[tuple[str, str], ...] = ()
    usual: bool = False
    sure: bool = True
    note: str = ""
    source: str = ""

    @property
    def cuda_major(self) -> int | None:
        """The CUDA major, or None without CUDA."""
        return int(self.cuda.split(".")[0]) if self.cuda else None

    @property
    def requirement(self) -> str:
        """The requirement that names this build and no other."""
        package = PACKAGE[self.framework]
        extra = f"[{self.extra}]" if self.extra else ""
        local = f"+{self.variant}" if self.index else ""
        return f"{package}{extra}=={self.version}{local}"


@cache
def builds(framework: str) -> tuple[Build, ...]:
    """Return every known build of a framework, the newest release first."""
    readers: dict[str, Callable[[], Iterator[Build]]] = {
        "pytorch": _pytorch,
        "tensorflow": _tensorflow,
        "jax": _jax,
    }
    return tuple(sorted(readers[framework](), key=lambda b: parse_version(b.version), reverse=True))


def releases(framework: str) -> tuple[str, ...]:
    """Return the known versions of a framework, newest first."""
    return tuple(dict.fromkeys(build.version for build in builds(framework)))


def _pytorch() -> Iterator[Build]:
    known = {entry["torch"]: entry for entry in entries("pytorch", "release")}
    for entry in entries("pytorch", "build"):
        for version in entry["torch"]:
            for platform in entry["platforms"]:
                build = _pytorch_build(known[version], entry, platform)
                yield build
                if platform.startswith("osx"):
                    # One wheel serves both; Metal itself needs macOS 14 (PyTorch RELEASE.md).
                    yield replace(build, accelerator="metal", variant="mps", macos_min="14.0")


def _pytorch_build(release: dict[str, Any], entry: dict[str, Any], platform: str) -> Build:
    suffix = entry["suffix"]
    key = platform.replace("-", "_")
    default = release.get(f"default_{key}") == suffix
    # Windows lists are those of Linux unless said otherwise; aarch64 has its own.
    listed = entry.get(f"archs_{key}", entry.get("archs_linux_64", ()) if key == "win_64" else ())
    return Build(
        framework="pytorch",
        version=release["torch"],
        released=release["released"],
        accelerator=_accelerator(suffix),
        variant=suffix,
        platform=platform,
        pythons=tuple(release["python"]),
        glibc_min=release["glibc_min"],
        macos_min=release["macos_min"],
        index="" if default else table("pytorch")["index"].format(suffix=suffix),
        cuda=f"{suffix[2:4]}.{suffix[4:]}" if suffix.startswith("cu") else "",
        codes=tuple(listed),
        usual=suffix == release["default_linux_64"],
        pinned=(("torchvision", release["torchvision"]),),
        sure=entry.get("confidence") != "low",
        note=entry.get("note", ""),
        source=entry["source"],
    )


def _accelerator(suffix: str) -> Accelerator:
    if suffix.startswith("cu"):
        return "cuda"
    if suffix.startswith("rocm"):
        return "rocm"
    return "xpu" if suffix == "xpu" else "cpu"


def _tensorflow() -> Iterator[Build]:
    minimum = next(
        e["compute_capability_min"]
        for e in entries("tensorflow", "requirement")
        if "compute_capability_min" in e
    )
    for entry in entries("tensorflow", "release"):
        for platform in entry["platforms"]:
            shared = _shared("tensorflow", entry, platform)
            yield Build(accelerator="cpu", variant="cpu", **shared)
            if platform == "linux-64":
                yield Build(
                    accelerator="cuda",
                    variant="and-cuda",
                    extra="and-cuda",
                    cuda=entry["cuda_built"],
                    codes=tuple(entry.get("archs", ())),
                    capability_min=minimum if entry["released"] >= "2024-07" else "",
                    **shared,
                )


def _jax() -> Iterator[Build]:
    extras = {entry["extra"]: entry for entry in entries("jax", "extra")}
    accelerators: dict[str, Accelerator] = {
        "cuda13": "cuda",
        "cuda12": "cuda",
        "rocm7-local": "rocm",
        "oneapi": "xpu",
    }
    for entry in entries("jax", "release"):
        for platform in entry["platforms"]:
            shared = _shared("jax", entry, platform)
            yield Build(accelerator="cpu", variant="cpu", **shared)
            for name in entry["extras"]:
                needs = extras[name]
                if platform in needs["platforms"]:
                    yield Build(
                        accelerator=accelerators[name],
                        variant=name,
                        extra=name,
                        cuda=f"{needs['cuda_major']}.0" if "cuda_major" in needs else "",
                        capability_min=needs.get("compute_capability_min", ""),
                        note=needs.get("note", ""),
                        **shared,
                    )


def _shared(framework: str, entry: dict[str, Any], platform: str) -> dict[str, Any]:
    return {
        "framework": framework,
        "version": entry[PACKAGE[framework]],
        "released": entry["released"],
        "platform": platform,
        "pythons": tuple(entry["python"]),
        "glibc_min": entry["glibc_min"],
        "macos_min": entry["macos_min"],
        "source": entry["source"],
    }
