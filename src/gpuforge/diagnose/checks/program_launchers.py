"""Do the scripts and Jupyter kernels start something that exists, and packages their programs?"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from gpuforge.changes.environment import PythonEnvironment
from gpuforge.diagnose.finding import Finding
from gpuforge.diagnose.site import Site
from gpuforge.facts import known
from gpuforge.units import counted

SUMMARY = "scripts, Jupyter kernels and packages start programs that exist and may run"
LIVE = True

SHOWN = 5
# Path files of setuptools and virtualenv, which add no modules.
HARMLESS = {"distutils-precedence.pth", "_virtualenv.pth"}
# Of the standard library, also of an older Python than gpuforge's.
BUILT_IN = sys.stdlib_module_names | {"lib2to3"}
# Programs that packages start. Copying and unpacking may lose the permission to execute them.
PROGRAMS = {
    "imageio-ffmpeg": "imageio_ffmpeg/binaries/ffmpeg-*",  # imageio/imageio-ffmpeg#45
    "kaleido": "kaleido/executable/kaleido",  # wdecoster/NanoPlot#296
    "playwright": "playwright/driver/node",  # microsoft/playwright-python#588
    "triton": "triton/backends/nvidia/bin/*",  # facebookexperimental/triton#704
}
# As installers write them: a comment, perhaps two imports, then the module that the script starts.
_STARTS = re.compile(
    rb"#!.*\n(?:'''.*\n|#.*\n|import (?:re|sys)\n|\n)*from ([A-Za-z_]\w*)[\w.]* import \w+\s*\n"
    rb"(?:\n|if __name__)"
)


def check(site: Site) -> Iterator[Finding]:
    """Yield the kernels without a program, and scripts of packages that are gone."""
    found = [*_kernels(site), *_scripts(site), *_programs(site)]
    yield from found or [Finding("ok", "scripts and kernels start what exists")]


def _kernels(site: Site) -> Iterator[Finding]:
    """Find kernels that start a Python which is gone."""
    if not any(name in site.packages for name in ("jupyter-client", "notebook", "jupyterlab")):
        return
    data = site.probe.environ.get("JUPYTER_DATA_DIR") or "~/.local/share/jupyter"
    for folder in (site.environment.prefix / "share/jupyter", Path(data).expanduser()):
        for path in sorted(folder.glob("kernels/*/kernel.json")):
            with suppress(OSError, ValueError, KeyError, IndexError, TypeError):
                kernel = json.loads(path.read_text(encoding="utf-8"))
                program, name = kernel["argv"][0], path.parent.name
                if os.path.isabs(program) and (fault := _kernel_fault(program, kernel)):
                    message = f"the Jupyter kernel {name} starts {program}, which {fault}"
                    steps: tuple[str, ...] = (
                        f"jupyter kernelspec remove -f {name}",
                        f"With its new Python: python -m ipykernel install --user --name {name}",
                    )
                    if os.path.exists(program):
                        steps = (f"{shlex.quote(program)} -m pip install ipykernel",)
                    yield Finding("warning", message, "launcher_gone", (str(path),), steps)


def _kernel_fault(program: str, kernel: dict[str, Any]) -> str:
    """Return why a program cannot run a kernel; empty if it can, or if that is unknown."""
    if not os.path.exists(program):
        return "is gone"
    place = Path(program)
    own = place if (place.parent.parent / "pyvenv.cfg").is_file() else place.resolve()
    is_known = place.name.startswith("python") and "ipykernel_launcher" in kernel["argv"]
    folders = PythonEnvironment(own.parent.parent).folders if is_known else ()
    lacks = folders and not any((one / "ipykernel").exists() for one in folders)
    return "has no ipykernel" if lacks and "env" not in kernel else ""


def _programs(site: Site) -> Iterator[Finding]:
    """Find programs inside packages that nobody may execute."""
    for name in PROGRAMS.keys() & site.packages.keys() if os.name == "posix" else ():
        one = site.distribution(name)
        there = sorted(one.folder.glob(PROGRAMS[name])) if one else []
        files = (path for path in there if path.is_file() and not os.access(path, os.X_OK))
        barred = [str(path) for path in files if ~path.stat().st_mode & 0o111]  # else by the mount
        if one and barred:
            message = f"{name} {one.version} cannot start {barred[0]}: it is not executable"
            steps = (f"chmod +x {shlex.join(barred)}",)
            yield Finding("warning", message, "program_not_executable", tuple(barred), steps)


def _scripts(site: Site) -> Iterator[Finding]:
    """Find scripts that import a module which no folder of packages has any more."""
    if site.environment.kind == "system Python" or not site.environment.folders:
        return
    modules = set(BUILT_IN)
    for folder in site.environment.folders:
        names = known(site.probe.list_dir(str(folder))) or ()
        modules |= {name.partition(".")[0] for name in names}
        adding = (name for name in names if name.endswith((".pth", ".egg-link", ".egg")))
        if set(adding) - HARMLESS:
            return  # which may add any module
    own, lost = f"{site.environment.prefix}/bin/python".encode(), list[str]()
    for path in sorted((site.environment.prefix / "bin").glob("*")):
        with suppress(OSError), open(path, "rb") as file:
            head = file.read(1024) if path.is_file() else b""
            starts = _STARTS.match(head) if head.startswith(b"#!" + own) else None
            if starts and starts[1].decode() not in modules:
                lost.append(f"{path}: import {starts[1].decode()}")
    if lost:
        message = f"{counted(len(lost), 'script')} of packages that are gone, such as {lost[0]}"
        steps = ("Install the package again, or delete the script.",)
        yield Finding("warning", message, "launcher_gone", tuple(lost[:SHOWN]), steps)
