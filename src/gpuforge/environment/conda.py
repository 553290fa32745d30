"""conda, mamba, micromamba and pixi: they bring Python and check what the system must have.

The wheels come from the same installers as elsewhere, and so do the checks before anything large
is fetched; pixi resolves and installs wheels itself, and is checked afterwards.
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
# What an activated shell sets where the program is a function of the shell.
_VARIABLES = {"conda": "CONDA_EXE", "mamba": "MAMBA_EXE", "micromamba": "MAMBA_EXE"}
_LISTING = (
    "import importlib.metadata as m, json;"
    "print(json.dumps({d.name: d.version for d in m.distributions() if d.name}))"
)


def choose_conda(name: str, wheels: Installer, known: Names) -> Installer:
    """Return the installer `name` of conda's family; the format conda takes any that is there.

    Parameters
    ----------
    wheels
        What fills the environment once Python is in it.

    Raises
    ------
    EnvironmentMismatch
        If its program is not there.
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
    """Return the path of a program of conda's family."""
    told = Path(os.environ.get(_VARIABLES.get(name, ""), ""))
    return shutil.which(name) or (str(told) if told.stem == name and os.path.isfile(told) else None)


@dataclass(frozen=True)
class Conda:
    """Makes the environment with conda, mamba or micromamba, whose words here are the same."""

    program: str
    known: Names
    wheels: Installer
    name: str = "conda"

    def make(self, folder: Path, plan: Plan, prompt: str, sources: Sources) -> None:
        # An empty history makes the folder, which is marked already, an environment to them.
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
    """Makes a workspace of pixi, whose environment holds the wheels as well."""

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
