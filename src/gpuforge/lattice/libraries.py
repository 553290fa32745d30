"""Late imports of the optional libraries SciPy and Matplotlib."""

from __future__ import annotations

import importlib
from typing import Any

from gpuforge.errors import EnvironmentMismatch


def scipy_graphs(purpose: str) -> Any:
    """Return `scipy.sparse.csgraph`; the error message says that `purpose` needs it."""
    return _import("scipy.sparse.csgraph", "SciPy", "lattice", purpose)


def scipy_sparse(purpose: str) -> Any:
    """Return `scipy.sparse`; the error message says that `purpose` needs it."""
    return _import("scipy.sparse", "SciPy", "lattice", purpose)


def matplotlib(module: str) -> Any:
    """Return a module of Matplotlib."""
    return _import(f"matplotlib.{module}", "Matplotlib", "plot", "a picture")


def _import(module: str, library: str, extra: str, purpose: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise EnvironmentMismatch(
            f"{purpose} needs {library}, which cannot be imported: {error}",
            hint=f"pip install 'gpuforge[{extra}]'",
        ) from error
