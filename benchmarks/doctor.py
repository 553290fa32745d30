"""What do doctor and explain cost? Whole processes and in process, raw samples kept.

usage: python benchmarks/doctor.py [ROUNDS]
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


def sample(work: Callable[[], object], rounds: int) -> list[float]:
    found = []
    for _ in range(rounds):
        started = time.perf_counter()
        work()
        found.append(time.perf_counter() - started)
    return found


def process(*arguments: str) -> Callable[[], object]:
    """Return a run of the command, its modules compiled as those of an installed package are."""
    argv = [sys.executable, "-m", "gpuforge", *arguments]
    environ = {**os.environ, "PYTHONPYCACHEPREFIX": str(Path(tempfile.gettempdir()) / "pyc")}
    environ.pop("PYTHONDONTWRITEBYTECODE", None)

    def run() -> None:
        subprocess.run(argv, stdout=subprocess.DEVNULL, env=environ, check=False)

    run()
    return run


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    log = "".join(STEP.format(i % 60, i, i, i * 3) for i in range(LINES)) + SCREEN
    first = sample(lambda: explain(SCREEN), 1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.log"
        path.write_text(log)
        samples = {
            "explain one screen, first call in process": first,
            "explain one screen, in process": sample(lambda: explain(SCREEN), rounds * 5),
            "explain 10,000 lines, in process": sample(lambda: explain(log), rounds),
            "explain 10,000 lines, whole process": sample(process("explain", str(path)), rounds),
            "explain 5 MB of one word, in process": sample(lambda: explain("error " * 833_333), 3),
            "doctor, first in process": sample(run_checks, 1),
            "doctor, in process": sample(run_checks, rounds),
            "doctor, whole process": sample(process("doctor"), rounds),
            "--version, whole process": sample(process("--version"), rounds),
        }
    result = {"machine": platform.platform(), "python": platform.python_version(),
              "seconds": samples}  # fmt: skip
    target = Path(__file__).parent / "results" / "doctor.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(result, indent=1) + "\n")
    for name, times in samples.items():
        median, worst = statistics.median(times), max(times)
        print(f"{name:<42} median {1e3 * median:7.1f} ms  worst {1e3 * worst:7.1f} ms")


if __name__ == "__main__":
    main()
