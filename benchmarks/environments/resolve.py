"""Do the exported files resolve? Every profile, framework, accelerator and Python, by uv.

usage: python benchmarks/environments/resolve.py [--python 3.12] [--accelerator cuda] [-o FILE]

Files that need no other index than the default one are resolved as they are. What a framework's own
index holds cannot be reached from everywhere: such a file is "unproven", and the rest of its
packages is resolved with the framework's plain version in place of the build. Each resolved list is
checked for what resolves but cannot work.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from gpuforge.compat.builds import FRAMEWORKS
from gpuforge.environment import advice
from gpuforge.environment.installed import check_resolved, parse_pins
from gpuforge.environment.installers import find_uv
from gpuforge.environment.planning import Plan
from gpuforge.environment.profile import load_profiles
from gpuforge.facts import Device, Driver, Host, Machine

RESULTS = Path(__file__).parents[1] / "results" / "resolve.json"
PYTHONS = ("3.11", "3.12", "3.13")
LINUX = Host(platform="linux", machine="x86_64", libc="glibc 2.35", memory_total_bytes=64 * 10**9)
MAC = Host(platform="macos", machine="arm64", memory_total_bytes=64 * 10**9)
MACHINES = {
    "cuda": Machine(
        "ok",
        devices=(
            Device(
                0,
                "nvidia",
                name="NVIDIA H100",
                compute_capability="9.0",
                driver=Driver("nvidia", "580.65.06"),
            ),
        ),
        host=LINUX,
    ),
    "rocm": Machine("ok", devices=(Device(0, "amd", architecture="gfx942"),), host=LINUX),
    "xpu": Machine(
        "ok", devices=(Device(0, "intel", name="Intel(R) Arc(TM) A770 Graphics"),), host=LINUX
    ),
    "metal": Machine("ok", devices=(Device(0, "apple", name="Apple M3"),), host=MAC),
    "cpu": Machine("no_gpu", host=LINUX),
}
UV_PLATFORM = {"linux-64": "x86_64-manylinux_2_28", "osx-arm64": "aarch64-apple-darwin"}


@dataclass(frozen=True)
class Result:
    """What came of one file: ``resolved``, ``unproven``, ``refused`` or ``failed``, and why."""

    profile: str
    framework: str
    accelerator: str
    python: str
    outcome: str
    detail: str
    packages: int = 0


def resolve(plan: Plan, text: str) -> tuple[dict[str, str], str]:
    """Return what a requirements file resolves to, or nothing and what uv said."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "requirements.txt"
        path.write_text(text, encoding="utf-8")
        argv = [find_uv() or "uv", "pip", "compile", str(path), "--no-header", "--no-annotate"]
        argv += ["--quiet", "--python", sys.executable, "--python-version", plan.target.python]
        argv += ["--python-platform", UV_PLATFORM[plan.target.platform], "--only-binary", ":all:"]
        done = subprocess.run(
            argv,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "MACOSX_DEPLOYMENT_TARGET": "14.0"},
        )
    return parse_pins(done.stdout) if done.returncode == 0 else {}, done.stderr.strip()


def try_one(profile: str, framework: str, accelerator: str, python: str) -> Result:
    """Return what comes of one case."""
    case = (profile, framework, accelerator, python)
    plan = advice.plan(
        load_profiles()[profile],
        framework,
        machine=MACHINES[accelerator],
        accelerator=accelerator,  # type: ignore[arg-type]
        python=python,
    )
    if plan.refusal is not None:
        return Result(*case, "refused", plan.refusal.reason)
    if not plan.indexes:
        pins, said = resolve(plan, advice.export(plan, "requirements"))
        return _judge(case, plan, pins, said, "resolved", "as exported")
    plain = [package.requirement.split("+")[0] for package in plan.packages]
    pins, said = resolve(plan, "\n".join(plain) + "\n")
    detail = f"needs {plan.indexes[0]}; the rest resolves with {plain[0]} of the default index"
    return _judge(case, plan, pins, said, "unproven", detail)


def _judge(
    case: tuple[str, str, str, str],
    plan: Plan,
    pins: dict[str, str],
    said: str,
    outcome: str,
    detail: str,
) -> Result:
    if not pins:
        return Result(*case, "failed", " ".join(said.split())[:500])
    problems = check_resolved(pins, plan)
    if problems:
        return Result(*case, "failed", "; ".join(problems), len(pins))
    return Result(*case, outcome, detail, len(pins))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", nargs="*", default=PYTHONS)
    parser.add_argument("--accelerator", nargs="*", default=list(MACHINES))
    parser.add_argument("-o", "--output", type=Path, default=RESULTS)
    found = parser.parse_args()
    results = [
        try_one(profile, framework, accelerator, python)
        for accelerator in found.accelerator
        for framework in FRAMEWORKS
        for profile in sorted(load_profiles())
        for python in found.python
    ]
    counts = Counter(result.outcome for result in results)
    document = {
        "schema_version": 1,
        "measured": datetime.now(UTC).isoformat(timespec="seconds"),
        "counts": dict(counts),
        "not_reached": "the frameworks' own indexes, conda channels",
        "results": [asdict(result) for result in results],
    }
    found.output.parent.mkdir(parents=True, exist_ok=True)
    found.output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    for result in results:
        if result.outcome == "failed":
            print(*asdict(result).values())
    print(dict(counts))
    return int(counts["failed"] > 0)


if __name__ == "__main__":
    sys.exit(main())
