"""conda, mamba, micromamba and pixi: they install Python and check the system requirements.

Wheels are resolved, checked and installed by uv or pip as in other environments. Only pixi resolves
and installs wheels itself; its result is checked afterwards.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from gpuforge import stored
from gpuforge.environment.formats import conda, pixi
from gpuforge.environment.installers import MAKING, Installer, Pins, Report, Sources, Uv, find_uv
from gpuforge.environment.planning import Plan
from gpuforge.environment.process import Names, run_checked
from gpuforge.environment.record import python_of
from gpuforge.environment.requirement import normal_name
from gpuforge.errors import EnvironmentMismatch

PROGRAMS = ("conda", "mamba", "micromamba", "pixi")
# Variables that hold the program's path in shells where the program is a shell function.
_VARIABLES = {"conda": "CONDA_EXE", "mamba": "MAMBA_EXE", "micromamba": "MAMBA_EXE"}
_LISTING = (
    "import importlib.metadata as m, json;"
    "print(json.dumps({d.name: d.version for d in m.distributions() if d.name}))"
)


def choose_conda(name: str, wheels: Installer, known: Names) -> Installer:
    """Return the installer `name` of the conda family; ``conda`` stands for any but pixi.

    Parameters
    ----------
    wheels
        The installer for the wheels, once Python is installed.

    Raises
    ------
    EnvironmentMismatch
        If the program is not installed.
    """
    names = PROGRAMS[:3] if name == "conda" else (name,)
    for one in names:
        program = find_program(one)
        if program:
            return Pixi(program, known) if one == "pixi" else Conda(program, known, wheels, one)
    raise EnvironmentMismatch(
        f"{' or '.join(names)} was not found on PATH",
        hint=f"install {name}, or use another --installer",
    )


def find_program(name: str) -> str | None:
    """Return the path of a program of the conda family, or None if it is not found."""
    told = Path(os.environ.get(_VARIABLES.get(name, ""), ""))
    return shutil.which(name) or (str(told) if told.stem == name and os.path.isfile(told) else None)


@dataclass(frozen=True)
class Conda:
    """Creates environments with conda, mamba or micromamba, which take the same options here."""

    program: str
    known: Names
    wheels: Installer
    name: str = "conda"

    def make(self, folder: Path, plan: Plan, prompt: str, sources: Sources) -> None:
        # The folder exists already; an empty history makes these programs accept it.
        (folder / "conda-meta").mkdir(parents=True, exist_ok=True)
        (folder / "conda-meta" / "history").touch()
        argv = [self.program, "install", "--yes", "--quiet", "--prefix", str(folder)]
        argv += ["--override-channels", *(["--offline"] if sources.offline else [])]
        for channel in sources.channels:
            argv += ["--channel", channel]
        run_checked([*argv, *conda.match_specs(plan)], MAKING, self.known)

    def resolve(self, folder: Path, plan: Plan, sources: Sources) -> dict[str, str]:
        return self.wheels.resolve(folder, plan, sources)

    def install(self, folder: Path, pins: Pins, sources: Sources, report: Report) -> None:
        self.wheels.install(folder, pins, sources, report)

    def add(self, folder: Path, wheel: Path) -> None:
        self.wheels.add(folder, wheel)


@dataclass(frozen=True)
class Pixi:
    """Creates a pixi workspace, whose environment contains the wheels as well."""

    program: str
    known: Names
    name: str = "pixi"

    def make(self, folder: Path, plan: Plan, prompt: str, sources: Sources) -> None:
        if sources.offline:
            raise EnvironmentMismatch(
                "pixi cannot be used offline", hint="remove --offline, or use another --installer"
            )
        folder.mkdir(exist_ok=True)
        text = pixi.render(plan, sources.channels, index=sources.index, links=sources.links)
        stored.write(folder / pixi.FILE_NAME, text)

    def resolve(self, folder: Path, plan: Plan, sources: Sources) -> dict[str, str]:
        argv = [self.program, "install", "--manifest-path", str(folder / pixi.FILE_NAME)]
        run_checked(argv, MAKING, self.known)
        listed = run_checked([str(python_of(folder)), "-I", "-c", _LISTING], "listing", self.known)
        return {normal_name(name): version for name, version in json.loads(listed).items()}

    def install(self, folder: Path, pins: Pins, sources: Sources, report: Report) -> None:
        report("installed", len(pins), len(pins))

    def add(self, folder: Path, wheel: Path) -> None:
        wheels = find_uv()
        if wheels is None:  # pixi's own environment has no pip
            raise EnvironmentMismatch("pixi needs uv to add gpuforge", hint="pip install uv")
        Uv(wheels, self.known).add(folder, wheel)
