"""Enable caches of compiled kernels that libraries do not use by default.

Nothing that the user set is changed, and every folder is inside gpuforge's own cache folder. A
library that caches kernels by default, in a writable folder, is left alone.

Sources: CUDA C++ Programming Guide, "Lazy Loading"; CuPy reference, "Environment variables";
Triton, ``triton/knobs.py``; JAX documentation, "Persistent compilation cache".
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, MutableMapping
from pathlib import Path

from gpuforge.dataclass import dataclass
from gpuforge.digest import digest
from gpuforge.installation import is_installed

NVIDIA_SIGNS = ("/dev/nvidiactl", "/dev/dxg", "/proc/driver/nvidia")


@dataclass(frozen=True)
class Cache:
    """The state of one cache.

    Attributes
    ----------
    variable : the environment variable that sets it
    value : its value; empty if it is left unset
    set_here : whether gpuforge sets it
    reason : why it is set, or why it is left alone
    """

    variable: str
    value: str
    set_here: bool
    reason: str


def plan(folder: Path, environ: Mapping[str, str]) -> list[Cache]:
    """Return what to do about each cache in a program that starts with `environ`."""
    found = [_modules(environ)]
    home = Path(environ.get("HOME") or os.path.expanduser("~"))
    for variable, library, own in (
        ("CUPY_CACHE_DIR", "cupy", home / ".cupy" / "kernel_cache"),
        ("TRITON_CACHE_DIR", "triton", home / ".triton" / "cache"),
    ):
        found.append(_folder(variable, library, own, folder / library, environ))
    found.append(_folder("JAX_COMPILATION_CACHE_DIR", "jax", None, _of_jax(folder), environ))
    return found


def prepare(folder: Path, environ: MutableMapping[str, str]) -> dict[str, str]:
    """Set the unset variables in `environ`; return those that were set."""
    made = {one.variable: one.value for one in plan(folder, environ) if one.set_here}
    environ.update(made)
    return made


def _modules(environ: Mapping[str, str]) -> Cache:
    name = "CUDA_MODULE_LOADING"
    if name in environ:
        return Cache(name, environ[name], False, "already set")
    if not any(map(os.path.exists, NVIDIA_SIGNS)):
        return Cache(name, "", False, "no NVIDIA driver is loaded here")
    return Cache(name, "LAZY", True, "kernels are loaded when they are first used")


def _folder(
    variable: str, library: str, own: Path | None, ours: Path, environ: Mapping[str, str]
) -> Cache:
    if variable in environ:
        return Cache(variable, environ[variable], False, "already set")
    if not is_installed(library):
        return Cache(variable, "", False, f"{library} is not installed")
    if own is not None and _can_be_written(own):
        return Cache(variable, "", False, f"{library} already caches its kernels in {own}")
    if not _can_be_written(ours):
        return Cache(variable, "", False, f"{ours} cannot be written")
    because = f"{own} cannot be written" if own else f"{library} caches nothing unless it is set"
    return Cache(variable, str(ours), True, because)


def _of_jax(folder: Path) -> Path:
    """Return a folder for programs compiled for this CPU, since other CPUs cannot run them."""
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        lines = [platform.processor()]
    cpu = [line for line in lines if line.startswith(("flags", "Features", "model name"))][:2]
    return folder / "jax" / digest(repr(cpu), 6)


def _can_be_written(folder: Path) -> bool:
    """Return whether a folder is writable or can be created, without creating it."""
    while not os.path.exists(folder) and folder != folder.parent:
        folder = folder.parent
    return os.path.isdir(folder) and os.access(folder, os.W_OK)
