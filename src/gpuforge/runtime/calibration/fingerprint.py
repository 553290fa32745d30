"""The fingerprint of a machine: a digest of everything that timings depend on."""

from __future__ import annotations

import os
import platform
from functools import cache
from pathlib import Path

import numpy as np

from gpuforge.digest import digest
from gpuforge.runtime.threads.contention import allowed_cores

_THREAD_VARIABLES = (
    *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"),
    *("XLA_FLAGS", "JAX_PLATFORMS", "CUDA_VISIBLE_DEVICES", "OMP_WAIT_POLICY"),
)


def describe_machine() -> dict[str, str]:
    """Return what timings depend on, by name: CPU, cores, NumPy, variables that set threads."""
    facts = {
        "system": platform.system(),
        "machine": platform.machine(),
        "cpu": _cpu_model(),
        "cores": str(allowed_cores()),
        "numpy": np.__version__,
    }
    facts.update({name: os.environ[name] for name in _THREAD_VARIABLES if name in os.environ})
    return facts


def machine_fingerprint() -> str:
    """Return a digest that changes with the CPU, its allowed cores, NumPy or thread settings."""
    return digest(repr(sorted(describe_machine().items())), 8)


def cpu_features() -> str:
    """Return this CPU's instruction set extensions as Linux names them; empty elsewhere."""
    return _of_cpu("flags") or _of_cpu("Features")


@cache
def _cpu_model() -> str:
    return _of_cpu("model name") or platform.processor()


@cache
def _of_cpu(name: str) -> str:
    """Return a field of the first CPU in /proc/cpuinfo; empty if it is missing."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    found = (line.split(":", 1)[1].strip() for line in lines if line.startswith(name))
    return next(found, "")
