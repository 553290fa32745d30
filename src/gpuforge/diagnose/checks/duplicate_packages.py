"""Are packages installed that overwrite each other's files?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuforge.changes.action import RunPip
from gpuforge.diagnose.checks.gpu_builds import driver_cuda
from gpuforge.diagnose.finding import Finding, of_cause
from gpuforge.diagnose.site import Site

SUMMARY = "no two packages share one folder"

# Packages of one row install the same import package.
SHARING = (
    ("onnxruntime", "onnxruntime-gpu", "onnxruntime-rocm", "onnxruntime-directml"),
    ("tensorflow", "tensorflow-cpu", "tensorflow-gpu", "tensorflow-macos"),
    ("triton", "pytorch-triton", "pytorch-triton-rocm", "triton-windows"),
    ("opencv-python", "opencv-python-headless", "opencv-contrib-python"),
    ("pynvml", "nvidia-ml-py"),
)


def check(site: Site) -> Iterator[Finding]:
    """Return each set of packages that cover each other."""
    cupy = [name for name in site.packages if re.fullmatch(r"cupy(-cuda\d+x?|-rocm-.*)?", name)]
    found = []
    if len(cupy) > 1:
        keep = _cupy_to_keep(site, cupy)
        repair = (
            RunPip(site.python, site.prefix, ("uninstall", "-y", *cupy)),
            RunPip(site.python, site.prefix, ("install", keep)),
        )
        found.append(
            of_cause("cupy_multiple_packages", "error", evidence=tuple(cupy), repair=repair)
        )
    for row in SHARING:
        installed = [name for name in row if name in site.packages]
        if len(installed) > 1:
            steps = (f"Keep one: {site.python} -m pip uninstall {' '.join(installed)}, "
                     "then install the one you want.",)  # fmt: skip
            message = f"{' and '.join(installed)} install the same files"
            found.append(Finding("warning", message, evidence=tuple(installed), steps=steps))
    for name, versions in site.packages.items():
        if len(versions) > 1:
            again = RunPip(site.python, site.prefix, ("install", "--force-reinstall",
                                                      "--no-deps", name))  # fmt: skip
            message = f"{name} is recorded in {len(versions)} versions"
            steps = (f"Install it anew: {again.command}",)
            found.append(Finding("warning", message, evidence=versions, steps=steps))
    yield from found or [Finding("ok", "no package covers another")]


def _cupy_to_keep(site: Site, installed: list[str]) -> str:
    """Return the wheel for the CUDA version that the driver serves, else the newest one here."""
    served = driver_cuda(site)
    fitting = [name for name in installed if served and name == f"cupy-cuda{served[0]}x"]
    return (fitting or sorted(installed))[-1]
