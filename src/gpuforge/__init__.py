"""gpuforge: from a bare machine to the fastest safe run of array programs.

Public names load on first use, so that ``import gpuforge`` costs almost nothing. Modules that a
folder on PYTHONPATH may hide, even ``__future__``, must not be imported before ``__main__`` has put
those of Python first.

To pytest, which must not warn that gpuforge was loaded before it: PYTEST_DONT_REWRITE
"""

import importlib
import os

__version__ = "0.2.0"

# What type checkers take for true, without the 5 ms that `typing` takes to import.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from gpuforge import images as images
    from gpuforge.detect import best_device as best_device
    from gpuforge.detect import detect as detect
    from gpuforge.detect import detect_async as detect_async
    from gpuforge.diagnose import diagnose as diagnose
    from gpuforge.diagnose import explain as explain
    from gpuforge.inference import inference as inference
    from gpuforge.monitor.metrics import metrics as metrics
    from gpuforge.profiler.notebook import load_ipython_extension as load_ipython_extension
    from gpuforge.profiler.profiled import profiled as profiled
    from gpuforge.profiler.recording import profile as profile
    from gpuforge.runtime.benefit import would_benefit as would_benefit
    from gpuforge.runtime.executor.cluster import cluster as cluster
    from gpuforge.runtime.executor.opening import executor as executor
    from gpuforge.runtime.executor.quota import Quota as Quota
    from gpuforge.runtime.namespace import namespace as namespace
    from gpuforge.runtime.offload import offload as offload
    from gpuforge.runtime.ready import elementwise as elementwise
    from gpuforge.runtime.ready import matmul as matmul
    from gpuforge.runtime.ready import xor as xor
    from gpuforge.runtime.session import session as session
    from gpuforge.runtime.startup.lazy import lazy_imports as lazy_imports
    from gpuforge.runtime.warmup import warmup as warmup
    from gpuforge.trace import span as span

_HOMES: dict[str, str] = {
    "Quota": "gpuforge.runtime.executor.quota",
    "best_device": "gpuforge.detect",
    "cluster": "gpuforge.runtime.executor.cluster",
    "detect": "gpuforge.detect",
    "detect_async": "gpuforge.detect",
    "diagnose": "gpuforge.diagnose",
    "explain": "gpuforge.diagnose",
    "elementwise": "gpuforge.runtime.ready",
    "environment": "gpuforge.environment",
    "images": "gpuforge.images",
    "inference": "gpuforge.inference",
    "lattice": "gpuforge.lattice",
    "load_ipython_extension": "gpuforge.profiler.notebook",
    "lazy_imports": "gpuforge.runtime.startup.lazy",
    "matmul": "gpuforge.runtime.ready",
    "metrics": "gpuforge.monitor.metrics",
    "executor": "gpuforge.runtime.executor.opening",
    "namespace": "gpuforge.runtime.namespace",
    "offload": "gpuforge.runtime.offload",
    "profile": "gpuforge.profiler.recording",
    "profiled": "gpuforge.profiler.profiled",
    "session": "gpuforge.runtime.session",
    "span": "gpuforge.trace",
    "warmup": "gpuforge.runtime.warmup",
    "would_benefit": "gpuforge.runtime.benefit",
    "xor": "gpuforge.runtime.ready",
}

__all__ = ["__version__", *sorted(_HOMES)]

if os.environ.get("GPUFORGE_LAZY_IMPORTS", "").lower() in ("1", "true", "yes", "on"):
    importlib.import_module("gpuforge.runtime.startup.lazy").lazy_imports()


def __getattr__(name: str) -> "Any":
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'gpuforge' has no attribute {name!r}")
    module = importlib.import_module(home)
    # A package may itself be the public name: gf.environment.
    own = home == f"{__name__}.{name}"
    value = getattr(module, name, module) if own else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
