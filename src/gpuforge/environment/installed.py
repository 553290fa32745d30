"""Conflicts among resolved or installed packages that resolvers do not detect."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from gpuforge.compat.tables import entries
from gpuforge.compat.versions import parse_version
from gpuforge.environment.planning import Plan
from gpuforge.environment.requirement import normal_name, parse_requirement

_PIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;#\\]+)")
_NVIDIA = re.compile(r"nvidia-.+-cu(1\d)$")
_PLUGIN = re.compile(r"(?:jax-cuda|cupy-cuda|cudf-cu|rmm-cu|cuml-cu)(1\d)")


def parse_pins(text: str) -> dict[str, str]:
    """Return versions by package from lines such as ``numpy==2.5.5``; other lines are ignored."""
    found = {}
    for line in text.splitlines():
        match = _PIN.match(line.strip())
        if match:
            found[normal_name(match[1])] = match[2]
    return found


def check_resolved(pins: Mapping[str, str], plan: Plan | None = None) -> list[str]:
    """Return the problems of a complete set of packages, one sentence each.

    They are libraries of two CUDA major versions, two wheels that install the same module, and
    versions below the plan's bounds.
    """
    return [*_mixed_majors(pins), *_same_module(pins), *_older_than_planned(pins, plan)]


def _mixed_majors(pins: Mapping[str, str]) -> Iterable[str]:
    majors: dict[int, list[str]] = {}
    for name, version in pins.items():
        match = _NVIDIA.match(name) or _PLUGIN.match(name)
        if match:
            majors.setdefault(int(match[1]), []).append(name)
        elif name in ("cuda-bindings", "cuda-toolkit", "nvidia-cuda-runtime"):
            majors.setdefault(parse_version(version)[0], []).append(f"{name} {version}")
    if len(majors) > 1:
        parts = (f"CUDA {major}: {names[0]}" for major, names in sorted(majors.items()))
        yield f"libraries of two CUDA majors overwrite each other ({'; '.join(parts)})"


def _same_module(pins: Mapping[str, str]) -> Iterable[str]:
    for entry in entries("companions", "module"):
        present = [name for name in entry["packages"] if name in pins]
        if len(present) > 1:
            yield f"{' and '.join(present)} both install the module {entry['name']}"


def _older_than_planned(pins: Mapping[str, str], plan: Plan | None) -> Iterable[str]:
    for package in plan.packages if plan else ():
        wanted = parse_requirement(package.requirement)
        have = pins.get(wanted.key)
        if have is None:
            yield f"{wanted.name} was planned but is not installed"
            continue
        for clause in SpecifierSet(wanted.versions):
            low = clause.operator in (">=", "==", "~=")
            if low and Version(have) < Version(clause.version.removesuffix(".*")):
                yield f"{wanted.key} {have} is older than the planned {clause}"
