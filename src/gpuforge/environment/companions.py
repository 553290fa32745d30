"""The packages installed with the framework: the right build of each, and conflicts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from packaging.specifiers import SpecifierSet

from gpuforge.compat import cuda
from gpuforge.compat.builds import PACKAGE, Build
from gpuforge.compat.tables import entries
from gpuforge.compat.versions import at_least, parse_version
from gpuforge.environment.obstacles import capabilities, driver_version
from gpuforge.environment.profile import shipped_names
from gpuforge.environment.requirement import Requirement, parse_requirement
from gpuforge.environment.selection import Refusal, Selection, select
from gpuforge.environment.target import Target

_CUDA_SUFFIX = re.compile(r"-cu(?:da)?(1\d)x?$")
# Similarity from which an unknown name is taken for a misspelling: "numpyy" for "numpy".
_MISSPELT_FROM = 0.85
# Packages whose wheels are on PyTorch's own index.
_OF_PYTORCH = ("torchvision", "torchaudio")


@dataclass(frozen=True)
class Package:
    """One line of a plan: a requirement, the reason for it, and the index it comes from.

    Attributes
    ----------
    index : URL of the index that it must come from; empty for the default index
    """

    requirement: str
    reason: str
    index: str = ""

    @property
    def key(self) -> str:
        return parse_requirement(self.requirement).key


@dataclass
class Gathered:
    """The packages to install for a profile, and warnings about what was changed."""

    packages: list[Package]
    warnings: list[str]


def gather(
    wanted: Sequence[Requirement], selection: Selection, target: Target
) -> Gathered | Refusal:
    """Return the packages to install with the selected framework, each with its reason.

    A package whose build must match the accelerator is replaced by the matching build; if there is
    none, it is left out with a warning. A package of another CUDA major version is refused.
    """
    found = Gathered([], [])
    for requirement in wanted:
        result = _place(requirement, selection, target)
        if isinstance(result, Refusal):
            return result
        if isinstance(result, str):
            found.warnings.append(result)
        else:
            found.packages.append(result)
    found.packages += _cudnn(selection)
    _keep_one_wheel_a_module(found)
    found.warnings += [*_idle(found.packages), *_misspelt(wanted)]
    return found


def _place(
    requirement: Requirement, selection: Selection, target: Target
) -> Package | str | Refusal:
    """Return the package for one requirement, a sentence on why it is left out, or a refusal."""
    build, key = selection.build, requirement.key
    pinned = dict(build.pinned)
    if key == PACKAGE[build.framework]:
        return Package(str(requirement), "version set by the profile")
    if key in PACKAGE.values():
        return _other_framework(key, selection, target)
    if build.framework == "pytorch" and key in _OF_PYTORCH:
        local = f"+{build.variant}" if build.index else ""
        version = f"=={pinned[key]}{local}" if key in pinned else requirement.versions
        return Package(f"{key}{version}", f"the release for torch {build.version}", build.index)
    if build.framework == "pytorch" and (pair := _paired(key, build.version)):
        return _of_torch(pair, requirement, build, target)
    name = _companion_name(key)
    if name is not None:
        return _companion(name, requirement, selection, target)
    suffix = _CUDA_SUFFIX.search(key)
    if suffix and build.cuda_major is None:
        return (
            f"{requirement} is omitted: it is for CUDA, the environment is for {build.accelerator}"
        )
    if suffix and int(suffix[1]) != build.cuda_major:
        return Refusal(
            f"{requirement} is for CUDA {suffix[1]}, {build.requirement} for CUDA "
            f"{build.cuda_major}: both install the same library files"
        )
    return Package(str(requirement), "requested by the profile")


def _other_framework(key: str, selection: Selection, target: Target) -> Package | Refusal:
    """Return the package of a second framework, for the same CUDA major version as the first."""
    build = selection.build
    framework = next(name for name, package in PACKAGE.items() if package == key)
    second = select(
        framework, build.accelerator, selection.devices, target, cuda_major=build.cuda_major
    )
    if isinstance(second, Refusal):
        of_major = f" of CUDA {build.cuda_major}" if build.cuda_major else ""
        return Refusal(
            f"{framework} cannot be installed together with {build.requirement}: "
            f"no build{of_major} fits ({second.reason}); create one environment for each"
        )
    reason = f"second framework, for the same accelerator: {second.reason}"
    return Package(second.build.requirement, reason, second.build.index)


def _paired(key: str, version: str) -> dict[str, Any] | None:
    """Return the entry on which releases of a package work with torch `version`; None: all do."""
    found = [
        entry
        for entry in entries("companions", "pair")
        if entry["name"] == key and at_least(version, entry["from"])
    ]
    newest = max(found, key=lambda entry: parse_version(entry["from"]), default=None)
    return newest if newest and parse_requirement(newest["requirement"]).versions else None


def _of_torch(
    pair: dict[str, Any], requirement: Requirement, build: Build, target: Target
) -> Package | str:
    """Return a package restricted to releases that work with this torch, or why it is left out."""
    if target.platform not in pair.get("platforms", (target.platform,)):
        return (
            f"{requirement} is omitted: the releases for torch {build.version} "
            f"have no wheel for {target.platform}"
        )
    chosen = _bounded(parse_requirement(pair["requirement"]), requirement)
    return Package(str(chosen), f"a release that works with torch {build.version}")


def _companion_name(key: str) -> str | None:
    """Return the companion that `key` names, directly or as one of its CUDA builds."""
    names = {entry["name"] for entry in entries("companions", "companion")}
    stem = _CUDA_SUFFIX.sub("", key)
    return key if key in names else stem if stem in names and stem != key else None


def _companion(
    name: str, requirement: Requirement, selection: Selection, target: Target
) -> Package | str:
    build = selection.build
    reasons = []
    for entry in entries("companions", "companion"):
        if entry["name"] != name or entry["accelerator"] not in (build.accelerator, "any"):
            continue
        obstacle = next(_companion_obstacles(entry, selection, target), None)
        if obstacle:
            reasons.append(obstacle)
            continue
        chosen = _bounded(parse_requirement(entry["requirement"]), requirement)
        changed = chosen.key != requirement.key or chosen.versions != requirement.versions
        by_table = (
            f"the build of {name} for {_kind(build)}" if changed else "requested by the profile"
        )
        return Package(str(chosen), f"{by_table} ({entry['source']})" if changed else by_table)
    why = "; ".join(dict.fromkeys(reasons)) or f"it has no build for {build.accelerator}"
    return f"{requirement} is omitted: {why}"


def _kind(build: Build) -> str:
    return f"CUDA {build.cuda_major}" if build.cuda_major else build.accelerator


def _companion_obstacles(
    entry: dict[str, Any], selection: Selection, target: Target
) -> Iterator[str]:
    """Yield the reasons why an entry of the table does not fit."""
    device = selection.devices[0] if selection.devices else None
    nvidia = device if device and device.vendor == "nvidia" else None
    have = next(iter(capabilities(nvidia)), None) if nvidia else None
    if entry.get("cuda_major", selection.build.cuda_major) != selection.build.cuda_major:
        yield "it is for another CUDA version"
    if target.platform not in entry["platforms"]:
        yield f"no wheel for {target.platform}"
    if target.python not in entry.get("python", (target.python,)):
        yield f"no wheel for Python {target.python}"
    for what, found, key in (
        ("glibc", target.glibc, "glibc_min"),
        ("macOS", target.macos, "macos_min"),
        ("compute capability", have, "capability_min"),
        ("driver", driver_version(nvidia) if nvidia else None, "driver_min"),
    ):
        if key in entry and found is not None and not at_least(found, entry[key]):
            yield f"needs {what} {entry[key]}"
    older = entry.get("capability_below")
    if older and (have is None or at_least(have, older)):
        yield "it is for older GPUs"


def _bounded(entry: Requirement, asked: Requirement) -> Requirement:
    """Return the entry's requirement, with the versions asked for if the entry allows them."""
    merged = replace(entry, extras=tuple(dict.fromkeys((*entry.extras, *asked.extras))))
    if not asked.versions or not _allows(entry.versions, asked.versions):
        return replace(merged, extras=entry.extras) if entry.key != asked.key else merged
    exact = asked.versions.startswith("==")
    both = asked.versions if exact or not entry.versions else f"{entry.versions},{asked.versions}"
    return replace(merged, versions=both)


def _allows(bounds: str, versions: str) -> bool:
    """Return whether `bounds` allow an exact version; ranges are left to the resolver."""
    if not versions.startswith("=="):
        return not bounds.startswith("==")
    exact = versions.lstrip("=").split("+")[0]
    return SpecifierSet(bounds).contains(exact.removesuffix(".*"), prereleases=True)


def _cudnn(selection: Selection) -> Iterator[Package]:
    """Yield a cuDNN pin if an installer would choose a release that dropped the device."""
    build = selection.build
    if build.cudnn != "any" or not selection.devices or not build.cuda_major:
        return
    for have in capabilities(selection.devices[0]):
        last = cuda.last_cudnn(have, build.cuda_major)
        if last:
            reason = f"the last cuDNN with kernels for compute capability {have}"
            yield Package(f"nvidia-cudnn-cu{build.cuda_major}=={last}", reason)
            return


def _keep_one_wheel_a_module(found: Gathered) -> None:
    keys = {package.key for package in found.packages}
    for entry in entries("companions", "module"):
        present = [name for name in entry["packages"] if name in keys]
        for name in present[1:]:
            found.packages = [p for p in found.packages if p.key != name]
            found.warnings.append(
                f"{name} is omitted: it and {present[0]} both install the module {entry['name']}"
            )


def _idle(packages: Sequence[Package]) -> Iterator[str]:
    idle = {entry["name"]: entry for entry in entries("companions", "idle")}
    for package in packages:
        entry = idle.get(package.key)
        if entry:
            yield f"{package.key}: last release {entry['last']}; use {entry['instead']}"


def _misspelt(wanted: Sequence[Requirement]) -> Iterator[str]:
    """Yield a "did you mean" warning for each name that is similar to a known one."""
    there = known_names()
    strange = [r.key for r in wanted if not {r.key, _CUDA_SUFFIX.sub("", r.key)} & there]
    if not strange:
        return
    import difflib

    for key in strange:
        near = difflib.get_close_matches(key, there, n=1, cutoff=_MISSPELT_FROM)
        if near:
            yield f"{key} is not a known package: did you mean {near[0]!r}?"


@cache
def known_names() -> frozenset[str]:
    """Return the normalised names of all packages in the tables and shipped profiles."""
    names = {entry["name"] for entry in entries("companions", "companion")}
    for entry in entries("companions", "module"):
        names |= set(entry["packages"])
    return shipped_names() | names | set(PACKAGE.values()) | set(_OF_PYTORCH)
