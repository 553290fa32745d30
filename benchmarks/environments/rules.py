"""Is any plan impossible, or needlessly on the CPU? Every recorded machine, profile, framework.

The rules below are written from the facts in ``src/gpuforge/compat`` and do not use the planner: a
build works where its Python, platform and glibc are there, the driver runs its CUDA or ROCm, its
kernels and its cuDNN serve the device, and the packages beside it work with it. A plan whose build
does not work is impossible. A plan for the CPU is needless where some build would work on the
fittest GPU.

usage: python benchmarks/environments/rules.py FOLDER-OF-SNAPSHOTS     writes results/plans.json
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

from gpuforge.compat.builds import FRAMEWORKS, Build, builds
from gpuforge.compat.tables import entries
from gpuforge.detect import read_machine
from gpuforge.environment import advice
from gpuforge.environment.obstacles import capabilities, driver_version, gfx_target
from gpuforge.environment.planning import Plan
from gpuforge.environment.profile import load_profiles
from gpuforge.environment.selection import devices_for
from gpuforge.environment.target import Target
from gpuforge.facts import Device, Machine, known
from gpuforge.probe import SnapshotProbe

RESULT = Path(__file__).parents[1] / "results" / "plans.json"
PYTHON = "3.12"
TODAY = date(2026, 11, 21)
LAST_CUDNN = (9, 10, 2)
VENDOR = {"cuda": "nvidia", "rocm": "amd", "xpu": "intel", "metal": "apple"}


_SERVED_BY_XPU = (
    r"\barc\b|gpu max|ponte vecchio|alchemist|battlemage|(meteor|arrow|lunar|panther) lake"
    r"|\b(mtl|arl|lnl|ptl)\b|7d[d5][15]|64[ab]0|6420"
)


def numbers(text: str) -> tuple[int, ...]:
    """Return the first dotted number in a text."""
    found = re.search(r"\d+(?:\.\d+)*", text)
    return tuple(map(int, found[0].split("."))) if found else ()


def works(build: Build, device: Device | None, target: Target) -> str:
    """Return why a build does not work on a device, empty if it does."""
    if build.platform != target.platform or target.python not in build.pythons:
        return f"no wheel for Python {target.python} on {target.platform}"
    glibc = target.glibc if target.platform.startswith("linux") else None
    if glibc and numbers(glibc) < numbers(build.glibc_min):
        return f"glibc {glibc} is older than {build.glibc_min}"
    if build.accelerator == "cpu":
        return ""
    if device is None or device.vendor != VENDOR[build.accelerator]:
        return f"no device for {build.accelerator}"
    return {"cuda": _cuda, "rocm": _rocm, "xpu": _xpu}.get(build.accelerator, _anything)(
        build, device, target
    )


def _anything(build: Build, device: Device, target: Target) -> str:
    return ""


def _cuda(build: Build, device: Device, target: Target) -> str:
    driver, major = driver_version(device), int(build.cuda.split(".")[0])
    kind = "windows" if driver and driver.count(".") == 1 else target.driver_kind
    least = next(e for e in entries("cuda", "minor_compat") if e["cuda_major"] == major)
    if not driver or numbers(driver) < numbers(least[f"{kind}_min"]):
        return f"driver {driver} does not run CUDA {major}"
    for have in capabilities(device) or ("0",):
        if not _serves(build, have, driver, kind):
            return f"no kernels for {have}"
        exact = build.cudnn not in ("", "any")
        if numbers(have) < (7, 5) and exact and numbers(build.cudnn)[:3] > LAST_CUDNN:
            return f"cuDNN {build.cudnn} has no kernels for {have}"
    return ""


def _serves(build: Build, have: str, driver: str, kind: str) -> bool:
    device, on_jetson = numbers(have), have in ("5.3", "6.2", "7.2", "8.7", "10.1", "11.0")
    newest = max(
        (
            numbers(e["cuda"])
            for e in entries("cuda", "toolkit")
            if f"toolkit_{kind}" in e and numbers(driver) >= numbers(e[f"toolkit_{kind}"])
        ),
        default=(),
    )
    if not build.codes:
        least = build.capability_min
        return bool(least) and device >= numbers(least) and not (on_jetson and device < (10,))
    for code in build.codes:
        of = numbers(code)
        same_chip = not on_jetson or of == device or numbers(build.cuda) >= (13,)
        if of[0] == device[0] and of[1] <= device[1] and same_chip:
            return True
        if code.endswith("+PTX") and of <= device and newest >= numbers(build.cuda):
            return True
    return False


def _rocm(build: Build, device: Device, target: Target) -> str:
    entry = next((e for e in entries("rocm", "gpu") if e["gfx"] == gfx_target(device)), {})
    release = ".".join(map(str, numbers(build.variant)[:2]))
    if build.framework == "pytorch" and build.variant not in entry.get("torch_rocm_wheels", ()):
        return f"{build.variant} does not hold {gfx_target(device)}"
    if build.framework != "pytorch" and not any(
        one.startswith("7.") for one in entry.get("rocm_official", ())
    ):
        return f"ROCm 7 does not list {gfx_target(device)}"
    driver = known(device.driver)
    module = (known(driver.version) if driver else None) or ""
    rows = {e["module"]: e["rocm"] for e in entries("rocm", "driver")}
    release = release if "." in release else "7.2"
    old = re.fullmatch(r"\d+\.\d+\.\d+", module) and numbers(module) < min(map(numbers, rows))
    if old or (module in rows and release not in rows[module]):
        return f"ROCm {release} does not run on amdgpu {module}"
    return ""


def _xpu(build: Build, device: Device, target: Target) -> str:
    name, family = (known(device.name) or "").lower(), (known(device.architecture) or "").lower()
    words = f"{name} {family} {known(device.pci_id) or ''}"
    served = re.search(_SERVED_BY_XPU, words.replace("(tm)", ""))
    return "" if served and "flex" not in name else "no XPU build serves it"


def beside(plan: Plan) -> Iterator[str]:
    """Yield what cannot work among the packages of a plan."""
    build = plan.build
    assert build is not None
    pins = dict(re.split(r"(?=[<>=!~])", f"{p.key}{_versions(p.requirement)}", maxsplit=1)
                if _versions(p.requirement) else (p.key, "") for p in plan.packages)  # fmt: skip
    for entry in entries("companions", "module"):
        if len(set(entry["packages"]) & set(pins)) > 1:
            yield f"two wheels of {entry['name']}"
    majors = {int(name[-2:]) for name in pins if re.search(r"-cu1\d$", name)}
    majors |= {int(name[-3:-1]) for name in pins if re.search(r"-cuda1\dx$", name)}
    if majors - {build.cuda_major}:
        yield f"packages of CUDA {majors} beside CUDA {build.cuda_major}"
    if build.cuda_major == 12 and pins.get("onnxruntime-gpu", "==1.26.0") != "==1.26.0":
        yield "onnxruntime-gpu of CUDA 13 beside CUDA 12"
    old = build.framework == "pytorch" and numbers(build.version) < (2, 11)
    for name in ("torchcodec", "torchao") if old else ():
        if name in pins and not pins[name].startswith("=="):
            yield f"any {name} beside torch {build.version}"
    if build.framework == "pytorch" and numbers(build.version) < (2, 6):
        for name in ("transformers", "torchrl"):
            if name in pins and not pins[name]:
                yield f"any {name} beside torch {build.version}"


def _versions(requirement: str) -> str:
    found = re.search(r"[<>=!~].*$", requirement)
    return found[0] if found else ""


def dropped(plan: Plan, device: Device) -> bool:
    """Return whether a resolver would bring a cuDNN without kernels for the device."""
    build = plan.build
    old = any(numbers(have) < (7, 5) for have in capabilities(device))
    pinned = any(p.requirement == "nvidia-cudnn-cu12==9.10.2.21" for p in plan.packages)
    return build is not None and build.cudnn == "any" and old and not pinned


def wrong(plan: Plan, machine: Machine) -> Iterator[str]:
    """Yield what is impossible about a plan, or needless."""
    devices = {a: devices_for(machine, a)[:1] for a in VENDOR}  # type: ignore[arg-type]
    fitting = [
        build
        for build in builds(plan.framework)
        if build.accelerator != "cpu"
        and not works(build, next(iter(devices[build.accelerator]), None), plan.target)
    ]
    if plan.refusal is not None:
        if fitting:
            yield f"refused although {fitting[0].requirement} works"
        return
    assert plan.build is not None
    if plan.accelerator == "cpu":
        if fitting:
            yield f"needless: on the CPU although {fitting[0].requirement} works"
        why = works(plan.build, None, plan.target)
    else:
        first = next(iter(devices[plan.accelerator]), None)
        why = works(plan.build, first, plan.target)
        if first is not None and plan.accelerator == "cuda" and dropped(plan, first):
            yield "impossible: a resolver takes a cuDNN that dropped the device"
    if why:
        yield f"impossible: {plan.build.requirement}: {why}"
    yield from (f"impossible: {text}" for text in beside(plan))


def measure(folder: Path) -> dict[str, Any]:
    """Return what the rules find in the plans of all machines."""
    profiles = load_profiles()
    found: list[str] = []
    planned = machines = 0
    for snapshot in sorted(path for path in folder.iterdir() if (path / "expected.toml").is_file()):
        machine = read_machine(SnapshotProbe(snapshot))
        machines += 1
        for name, profile in profiles.items():
            for framework in FRAMEWORKS:
                plan = advice.plan(
                    profile, framework, machine=machine, python=PYTHON, today=TODAY, cpu_only=False
                )
                planned += 1
                found += [f"{snapshot.name} {name} {framework}: {t}" for t in wrong(plan, machine)]
    return {
        "machines": machines,
        "plans": planned,
        "impossible": [text for text in found if "needless" not in text],
        "needless_cpu": [text for text in found if "needless" in text],
    }


def main() -> int:
    result = measure(Path(sys.argv[1]))
    RESULT.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(result, indent=1))
    return int(bool(result["impossible"] or result["needless_cpu"]))


if __name__ == "__main__":
    sys.exit(main())
