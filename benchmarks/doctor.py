"""What do doctor and explain cost? Whole processes and in process, raw samples kept.

usage: python benchmarks/doctor.py [ROUNDS [SOURCE ...]]    SOURCE: folders to compare with

What is written is kept by the number of packages that are installed beside this Python: run it in
an environment with few and in one with many.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import distributions
from pathlib import Path

from gpuforge.diagnose import explain
from gpuforge.diagnose.run import run_checks

STEP = "[2026-01-01 00:00:{:02}] INFO step {} loss 0.{} throughput {} tok/s memory 12.3 GiB\n"
SCREEN = "".join(STEP.format(i, i, i, i * 3) for i in range(40)) + (
    "Traceback (most recent call last):\n"
    '  File "train.py", line 31, in <module>\n'
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "
    "capacity of 23.65 GiB of which 1.12 GiB is free.\n"
)
LINES = 10_000
OWN = str(Path(__file__).parents[1] / "src")


def sample(work: Callable[[], object], rounds: int) -> list[float]:
    found = []
    for _ in range(rounds):
        started = time.perf_counter()
        work()
        found.append(time.perf_counter() - started)
    return found


def commands(*sources: str) -> dict[str, tuple[list[str], str]]:
    """Return the processes that are timed, each with the folder of gpuforge's source, by name."""
    python = sys.executable
    found = {"python -c pass": ([python, "-c", "pass"], ""),
             "python -c 'import numpy'": ([python, "-c", "import numpy"], "")}  # fmt: skip
    for number, source in enumerate(sources):
        of = f", source {number + 1}" if number else ""
        found[f"--version, whole process{of}"] = ([python, "-m", "gpuforge", "--version"], source)
        found[f"doctor, whole process{of}"] = ([python, "-m", "gpuforge", "doctor"], source)
    return found


def processes(rounds: int, *sources: str) -> dict[str, list[float]]:
    """Time processes one after the other, round by round, so that a busy moment meets all of them.

    They run in an empty folder, their modules compiled as those of an installed package are.
    """
    environ = {**os.environ, "PYTHONPYCACHEPREFIX": str(Path(tempfile.gettempdir()) / "pyc")}
    environ.pop("PYTHONDONTWRITEBYTECODE", None)
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds + 1):
            for name, (argv, source) in commands(*sources).items():
                started = time.perf_counter()
                subprocess.run(argv, stdout=subprocess.DEVNULL, cwd=folder, check=False,
                               env={**environ, "PYTHONPATH": source})  # fmt: skip
                if number:  # the first round compiles
                    found.setdefault(name, []).append(time.perf_counter() - started)
    return found


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    log = "".join(STEP.format(i % 60, i, i, i * 3) for i in range(LINES)) + SCREEN
    first = sample(lambda: explain(SCREEN), 1)
    samples = {
        "explain one screen, first call in process": first,
        "explain one screen, in process": sample(lambda: explain(SCREEN), rounds * 5),
        "explain 10,000 lines, in process": sample(lambda: explain(log), rounds),
        "explain 5 MB of one word, in process": sample(lambda: explain("error " * 833_333), 3),
        "doctor, first in process": sample(run_checks, 1),
        "doctor, in process": sample(run_checks, rounds),
        **processes(rounds, OWN, *sys.argv[2:]),
    }
    target = Path(__file__).parent / "results" / "doctor.json"
    target.parent.mkdir(exist_ok=True)
    before = json.loads(target.read_text()) if target.exists() else {}
    installed = f"{len({one.name for one in distributions()})} packages"
    result = {"machine": platform.platform(), "python": platform.python_version(),
              "seconds": {**before.get("seconds", {}), installed: samples}}  # fmt: skip
    target.write_text(json.dumps(result, indent=1) + "\n")
    for name, times in samples.items():
        median, worst = statistics.median(times), max(times)
        print(f"{name:<42} median {1e3 * median:7.1f} ms  worst {1e3 * worst:7.1f} ms")


if __name__ == "__main__":
    main()
