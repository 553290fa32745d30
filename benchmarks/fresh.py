"""Fresh processes for benchmarks: a cache folder each, a time limit, facts about the machine."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median, quantiles
from time import monotonic
from typing import Any

ONE_THREAD = {
    "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}  # fmt: skip
# Without its compiled files, which an installation has, gpuforge would be compiled in each process.
CLEARED = ("GPUFORGE_", "GOMP_", "OMP_", "OPENBLAS_", "MKL_", "XLA_", "KMP_",
           "PYTHONDONTWRITEBYTECODE")  # fmt: skip
NUMPY_FIRST, GPUFORGE_FIRST, RUN = "NumPy first", "gpuforge first", "gpuforge run"
STARTS = (NUMPY_FIRST, GPUFORGE_FIRST, RUN)
LIBRARIES = ("numpy", "torch", "jax")


class Broken(Exception):
    """A process gave no result: it failed, died or took longer than it may."""


def environment(cache: Path | str, more: dict[str, str]) -> dict[str, str]:
    """Return this process's variables without settings of libraries, and with `cache` set."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(CLEARED)}
    clean.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
    paths = [str(Path(__file__).parent), clean.get("PYTHONPATH", "")]
    clean["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    return clean | {"GPUFORGE_CACHE_FOLDER": str(cache)} | more


def run(
    script: str, task: dict[str, Any], cache: Path | str, *, start: str = NUMPY_FIRST,
    limit_seconds: float = 600.0, more: dict[str, str] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Run `script --task FILE` in a process of its own; return what it wrote with `answer`.

    The seconds of the whole process are added under ``process_seconds``; the clock reads from its
    beginning are given to the script under ``started``, on the monotonic clock of the system.
    """
    with tempfile.TemporaryDirectory() as folder:
        given, out = Path(folder, "task.json"), Path(folder, "out.json")
        launcher = ["-m", "gpuforge", "run", "--quiet"] if start == RUN else []
        begin = monotonic()
        given.write_text(json.dumps(task | {"start": start, "started": begin, "out": str(out)}))
        try:
            done = subprocess.run(
                [sys.executable, *launcher, script, "--task", str(given)],
                cwd=folder,  # a project's folder may hold settings
                env=environment(cache, more or {}), timeout=limit_seconds,
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace",
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise Broken(f"not finished after {limit_seconds:.0f} s") from None
        seconds = monotonic() - begin
        if not out.exists():
            raise Broken(last_words(done.returncode, done.stderr))
        found: dict[str, Any] = json.loads(out.read_text())
    return found | {"process_seconds": seconds, "status": done.returncode}


def answer(task: dict[str, Any], found: dict[str, Any]) -> None:
    """Write the result of a process where `run` reads it."""
    Path(task["out"]).write_text(json.dumps(found))


def read_task(path: Path) -> dict[str, Any]:
    """Return the task of this process and load NumPy and gpuforge in the order it names."""
    task: dict[str, Any] = json.loads(path.read_text())
    if task.get("gpuforge") and task["start"] != NUMPY_FIRST:
        import gpuforge
    import numpy  # noqa: F401 - the order is what is measured

    if task.get("gpuforge"):
        import gpuforge  # noqa: F401
    return task


def last_words(status: int, text: str) -> str:
    """Return why a process failed: its status and the last line of its messages.

    Where `faulthandler` ended it because of its time limit: the limit and where the process was.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if limits := [line for line in lines if line.startswith("Timeout (")]:
        last_thread = max(n for n, line in enumerate(lines) if line.startswith("Thread "))
        return f"{limits[-1]} {lines[last_thread + 1]}"[:300]
    how = f"ended by signal {-status}" if status < 0 else f"exit status {status}"
    return f"{how}: {lines[-1][:300]}" if lines else how


def machine() -> dict[str, Any]:
    """Return what figures depend on: CPU, cores, Python, libraries, how busy the machine is."""
    return {
        "cpu": cpu_name(), "cores": os.cpu_count(), "python": platform.python_version(),
        "libraries": {name: library_version(name) for name in LIBRARIES},
        "load_before": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
    }  # fmt: skip


def cpu_name() -> str:
    """Return the model of the CPU, or its architecture where the system names none."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    models = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(models, "") or platform.processor() or platform.machine()


def library_version(name: str) -> str | None:
    """Return the release of an installed library."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def spread(values: list[float]) -> dict[str, float]:
    """Return the median of `values` and the quartiles, the range where they are few."""
    if len(values) < 4:
        return {"median": median(values), "low": min(values), "high": max(values)}
    low, middle, high = quantiles(values, n=4)
    return {"median": middle, "low": low, "high": high}


def shown(row: dict[str, float], digits: int = 2) -> str:
    """Return a spread as text: the median and, in brackets, from where to where."""
    return "{median:.{d}f} ({low:.{d}f} to {high:.{d}f})".format(**row, d=digits)


def verdict(held: bool) -> str:
    """Return the word that follows a target."""
    return "held" if held else "MISSED"
