"""How long does a plan take, and the whole way detect, recommend, plan, export as one process?"""

from __future__ import annotations

import compileall
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, date, datetime
from pathlib import Path

import gpuforge
from gpuforge.compat.builds import FRAMEWORKS
from gpuforge.environment.planning import Wish, plan_environment
from gpuforge.environment.profile import load_profiles
from gpuforge.environment.target import target_of
from gpuforge.facts import Device, Driver, Host, Machine

RESULTS = Path(__file__).parent / "results" / "environment_speed.json"
ROUNDS = 15
MACHINE = Machine(
    "ok",
    devices=(
        Device(
            0,
            "nvidia",
            name="NVIDIA H100",
            compute_capability="9.0",
            memory_total_bytes=80 * 10**9,
            driver=Driver("nvidia", "580.65.06"),
        ),
    ),
    host=Host(platform="linux", machine="x86_64", libc="glibc 2.35"),
)


def plans() -> list[float]:
    """Return the seconds of each plan in this process: every profile and framework."""
    profiles = load_profiles().values()
    target = target_of(MACHINE, python="3.12")
    taken = []
    for _ in range(ROUNDS):
        for profile in profiles:
            for framework in FRAMEWORKS:
                started = time.perf_counter()
                plan_environment(MACHINE, Wish(profile, framework), target, today=date.today())
                taken.append(time.perf_counter() - started)
    return taken


def first_plan() -> list[float]:
    """Return the seconds of a process's first plan, tables read anew."""
    code = (
        "import time; from gpuforge.environment import advice; from gpuforge.facts import *;"
        "m = Machine('no_gpu', host=Host(platform='linux', machine='x86_64'));"
        "s = time.perf_counter(); advice.plan('nlp', machine=m); print(time.perf_counter() - s)"
    )
    run = [sys.executable, "-c", code]
    return [
        float(subprocess.run(run, capture_output=True, text=True, check=True).stdout)
        for _ in range(ROUNDS)
    ]


def whole_way(*, cached: bool) -> list[float]:
    """Return the seconds of ``gpuforge env export``, which recommends, plans and writes."""
    argv = [sys.executable, "-m", "gpuforge", "env", "export"]
    taken = []
    with tempfile.TemporaryDirectory() as shared:
        for number in range(ROUNDS + 1):
            cache = shared if cached else f"{shared}/{number}"
            started = time.perf_counter()
            subprocess.run(
                argv,
                env={**os.environ, "XDG_CACHE_HOME": cache},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=True,
            )
            taken.append(time.perf_counter() - started)
    return taken[1:]


def main() -> int:
    # As an installed package has it; a checkout may be run without.
    compileall.compile_dir(Path(gpuforge.__file__).parent, quiet=2)
    measured = {
        "plan_seconds": plans(),
        "first_plan_seconds": first_plan(),
        "cold_seconds": whole_way(cached=False),
        "cached_seconds": whole_way(cached=True),
    }
    limits = {
        "plan_seconds": 0.05,
        "first_plan_seconds": 0.05,
        "cold_seconds": 0.5,
        "cached_seconds": 0.2,
    }
    document = {
        "schema_version": 1,
        "measured": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "limits": limits,
        **measured,
    }
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(document) + "\n", encoding="utf-8")
    for name, values in measured.items():
        median, worst = statistics.median(values), max(values)
        print(f"{name:20} median {median:.4f}  worst {worst:.4f}  limit {limits[name]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
