"""Does a file of the project hide a library of the same name?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gpuforge.diagnose.finding import Finding
from gpuforge.diagnose.site import NOT_RECORDED, Site

SUMMARY = "no file here hides a library"

LIBRARIES = ("torch", "numpy", "jax", "cupy", "tensorflow", "numba", "triton", "mlx", "scipy",
             "random", "types", "typing", "logging", "queue", "inspect")  # fmt: skip


def check(site: Site) -> Iterator[Finding]:
    """Return each module of the current folder or PYTHONPATH that is imported in place of one."""
    if not site.live:
        yield Finding("skipped", NOT_RECORDED.reason)
        return
    path = site.probe.environ.get("PYTHONPATH", "")
    folders = dict.fromkeys([Path.cwd(), *(Path(part) for part in path.split(":") if part)])
    found = False
    for folder in folders:
        for name in LIBRARIES:
            hits = [folder / f"{name}.py", folder / name / "__init__.py"]
            for hit in (path for path in hits if path.is_file() and not _is_library(path, site)):
                found = True
                steps = (f"Rename {hit} and remove __pycache__ beside it: "
                         f"'import {name}' finds it before the library.",)  # fmt: skip
                yield Finding("error", f"{hit} hides the module {name}", "shadowing_module",
                              (str(hit),), steps)  # fmt: skip
    if not found:
        yield Finding("ok", "nothing here hides a library")


def _is_library(path: Path, site: Site) -> bool:
    """Return whether the file is the library itself, looked at from its own folder."""
    return path.is_relative_to(site.prefix) or "site-packages" in path.parts
