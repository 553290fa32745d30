"""Do processes that share a cache, a settings file and a plan fail when others are killed?

Processes of four kinds run side by side: a user's program with an offloaded function, one that
detects the machine anew, one that changes settings, and one in deterministic mode, which keeps a
plan. Every third is killed with SIGKILL at a random moment. A process that was not killed fails if
its exit status is not 0, its answer is wrong, or it prints a traceback.

usage: python benchmarks/kept/processes.py [COUNT]      writes benchmarks/results/kept.json
"""

from __future__ import annotations

import json
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

RESULT = Path(__file__).parents[1] / "results" / "kept.json"
SOURCE = Path(__file__).parents[2] / "src"
AT_ONCE = 16
PLACED = """
import numpy as np, gpuforge as gf
from gpuforge.runtime.session import default_session

@gf.offload
def f(x):
    return (x * 2 + 1).sum()

for step in range(40):
    found = f(np.arange(50_000.0 + step))
    default_session().flush(force=True)
assert float(found) == 50_039.0**2
"""
KINDS = {
    "placed": PLACED,
    "detected": """
import gpuforge as gf
from gpuforge.detect import read_machine
for step in range(10):
    assert read_machine(refresh=step % 2 == 0).host.machine
""",
    "configured": """
from gpuforge import settings, settings_file
for step in range(20):
    settings_file.change(settings.user_file(), {"min_elements": step})
    assert settings.load(strict=True).settings.min_elements >= 0
""",
    "planned": PLACED,
}


def measure(count: int, *, folder: Path, seed: int = 0) -> dict[str, Any]:
    """Run `count` processes over one home in `folder`, and return what became of them."""
    chance = random.Random(seed)
    waiting = [(number, list(KINDS)[number % len(KINDS)]) for number in range(count)]
    running: list[tuple[int, str, subprocess.Popen[str], float]] = []
    failures: list[str] = []
    killed = 0
    started = time.monotonic()
    while waiting or running:
        while waiting and len(running) < AT_ONCE:
            number, kind = waiting.pop(0)
            end = time.monotonic() + chance.uniform(0.5, 8) if number % 3 == 0 else float("inf")
            running.append((number, kind, _start(kind, folder), end))
        time.sleep(0.02)
        for entry in list(running):
            number, kind, process, end = entry
            if process.poll() is None:
                if time.monotonic() > end:
                    process.kill()
                continue
            running.remove(entry)
            out, error = process.communicate()
            if process.returncode == -9 and number % 3 == 0:
                killed += 1
            elif process.returncode or out != "ended well\n" or "Traceback" in error:
                failures.append(f"{number} {kind}: status {process.returncode}: {error[-800:]}")
    return {
        "processes": count,
        "killed": killed,
        "failures": failures,
        "seconds": round(time.monotonic() - started, 1),
        "database": _state(folder / "cache" / "gpuforge" / "history.sqlite3"),
        "drafts_left": len(list(folder.rglob("*.part"))),
    }


def _start(kind: str, home: Path) -> subprocess.Popen[str]:
    kept = {n: v for n, v in os.environ.items() if not n.startswith(("XDG_", "GPUFORGE_"))}
    variables = {**kept, "HOME": str(home), "PYTHONPATH": str(SOURCE)}
    for name in ("cache", "config", "data"):
        variables[f"XDG_{name.upper()}_HOME"] = str(home / name)
    if kind == "planned":
        variables["GPUFORGE_DETERMINISTIC"] = "1"
    return subprocess.Popen(
        [sys.executable, "-c", KINDS[kind] + "\nprint('ended well')\n"],
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _state(path: Path) -> str:
    with closing(sqlite3.connect(path)) as connection:
        return str(connection.execute("PRAGMA integrity_check").fetchone()[0])


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    with tempfile.TemporaryDirectory() as folder:
        result = measure(count, folder=Path(folder))
    RESULT.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(result, indent=1))
    return int(bool(result["failures"]))


if __name__ == "__main__":
    sys.exit(main())
