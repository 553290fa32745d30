"""Which libraries' imports may be deferred until first use, and which must not, with reasons."""

from __future__ import annotations

HEAVY = frozenset(
    "bokeh cupy dask diffusers distributed dpnp dpctl jax keras lightgbm matplotlib networkx"
    " numba pandas plotly polars pyopencl scipy skimage sklearn statsmodels sympy torch"
    " transformers xarray xgboost".split()
)
"""Libraries that take long to import, and whose import has no side effects for others."""

NOT_DEFERRED = {
    "bitsandbytes": "it looks for CUDA and prints what it found when it is imported",
    "cudf": "its accelerator for pandas works only if it is imported before pandas",
    "cv2": "it is an extension module, which is initialised when it is loaded",
    "hvplot": "importing it adds methods to the classes of pandas and xarray",
    "intel_extension_for_pytorch": "importing it changes PyTorch",
    "mlx": "it is an extension module, which is initialised when it is loaded",
    "modin": "it starts its workers when it is imported",
    "mpi4py": "MPI starts when it is imported",
    "numpy": "nearly every program uses it immediately, and extension modules look for it",
    "pyarrow": "its memory pool and signal handlers start when it is imported",
    "seaborn": "importing it registers colour maps with matplotlib",
    "sklearn.experimental": "importing its modules enables estimators",
    "sklearnex": "importing it prepares changes to scikit-learn",
    "tensorflow": "its import sets handlers, writes to the log, and replaces its own modules",
    "torch_xla": "importing it registers a device with PyTorch",
    "torchvision": "importing it registers operators that saved models may need",
}
"""Deferring the import of these would change what a program does: module to reason."""


def why_not(name: str) -> str:
    """Return why the import of a module must not be deferred; empty where it may be."""
    parts = name.split(".")
    prefixes = (".".join(parts[:count]) for count in range(1, len(parts) + 1))
    return next((NOT_DEFERRED[part] for part in prefixes if part in NOT_DEFERRED), "")
