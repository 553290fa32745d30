"""Every benchmark of gpuforge's own steps runs: the comparison passes over one that does not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

MICRO = Path(__file__).parents[2] / "benchmarks" / "micro.py"


def test_each_function_runs() -> None:
    code = (
        "import sys; from gpuforge.profiler.bench.worker import load;"
        "functions = load(sys.argv[1]); [function() for function in functions.values()];"
        "print(*functions)"
    )
    command = [sys.executable, "-c", code, str(MICRO)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert len(done.stdout.split()) >= 12 and done.stderr == ""
