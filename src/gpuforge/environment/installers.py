"""Installing wheels into an environment: with uv if it is available, else with pip.

Both resolve first, so that incompatible packages are refused before anything large is downloaded.
The programs of the conda family (module ``conda``) use these installers for wheels.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gpuforge.environment.installed import parse_pins
from gpuforge.environment.planning import Plan
from gpuforge.environment.process import Names, run_checked, run_lines
from gpuforge.environment.record import python_of
from gpuforge.environment.requirement import normal_name
from gpuforge.errors import EnvironmentMismatch
from gpuforge.installation import install_command

PARALLEL_DOWNLOADS = 4

MAKING = "making the environment"

Report = Callable[[str, int, int], None]
Pins = Mapping[str, str]


@dataclass(frozen=True)
class _Options:
    """An installer's options for package sources."""

    index: str
    extra: str
    beside: tuple[str, ...] = ()
    always: tuple[str, ...] = ()


# Framework indexes contain old copies of other packages; the newest version must win.
_UV = _Options("--default-index", "--index", ("--index-strategy", "unsafe-best-match"))
_PIP = _Options("--index-url", "--extra-index-url", always=("--retries", "2"))


@dataclass(frozen=True)
class Sources:
    """Where packages come from.

    Attributes
    ----------
    index : URL that replaces the default index; empty for the installer's own setting
    extra : URLs of further indexes
    find_links : folders or pages of wheels
    wheelhouse : folder where downloads are kept
    offline : use only folders of wheels, no index
    channels : conda channels, in order of preference
    """

    wheelhouse: Path
    index: str = ""
    extra: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    offline: bool = False
    channels: tuple[str, ...] = ("conda-forge",)

    @property
    def links(self) -> tuple[str, ...]:
        """The folders of wheels, including the wheelhouse if it exists."""
        kept = (str(self.wheelhouse),) if os.path.isdir(self.wheelhouse) else ()
        return (*self.find_links, *kept)


class Installer(Protocol):
    """Creates an environment and installs packages into it."""

    @property
    def name(self) -> str:
        """Its name, as for ``--installer``."""

    def make(self, folder: Path, plan: Plan, prompt: str, sources: Sources) -> None:
        """Create an empty environment in `folder`, which may exist already."""

    def resolve(self, folder: Path, plan: Plan, sources: Sources) -> dict[str, str]:
        """Return the version of every package that the plan needs, dependencies included."""

    def install(self, folder: Path, pins: Pins, sources: Sources, report: Report) -> None:
        """Fetch and install exactly `pins`."""

    def add(self, folder: Path, wheel: Path) -> None:
        """Install one local wheel, whose dependencies are already installed."""


def choose_installer(name: str, known: Names) -> Installer:
    """Return the installer `name`; if it is empty, the best one that is available.

    Parameters
    ----------
    name
        ``uv``, ``pip``, or a program of the conda family.
    known
        Returns the names of known packages, for "did you mean" hints.

    Raises
    ------
    EnvironmentMismatch
        If the program is not installed.
    """
    program = find_uv()
    if name == "uv" and program is None:
        raise EnvironmentMismatch("uv is not installed", hint=f"run '{install_command('uv')}'")
    wheels = Uv(program, known) if program and name != "pip" else Pip(known)
    if name in ("", "uv", "pip"):
        return wheels
    from gpuforge.environment.conda import choose_conda

    return choose_conda(name, wheels, known)


def find_uv() -> str | None:
    """Return the path of uv, on PATH or next to this Python; None if it is not installed."""
    beside = Path(sys.executable).with_name("uv.exe" if sys.platform == "win32" else "uv")
    return shutil.which("uv") or (str(beside) if os.path.exists(beside) else None)


def find_python(version: str) -> str:
    """Return the path of an interpreter of a version that can create environments.

    Raises
    ------
    EnvironmentMismatch
        If there is none.
    """
    if version == f"{sys.version_info[0]}.{sys.version_info[1]}":
        return str(getattr(sys, "_base_executable", "") or sys.executable)
    found = shutil.which(f"python{version}")
    if found and run_lines([found, "-c", "import ensurepip"]).status == 0:
        return found
    raise EnvironmentMismatch(
        f"Python {version} is not installed, or has no 'ensurepip'",
        hint=f"install Python {version}, or leave out --python",
    )


@dataclass(frozen=True)
class Uv:
    """Installs with uv, which downloads in parallel and caches the wheels itself."""

    program: str
    known: Names
    name: str = "uv"

    def make(self, folder: Path, plan: Plan, prompt: str, sources: Sources) -> None:
        python = find_python(plan.target.python)
        argv = [self.program, "venv", "--allow-existing", "--python", python]
        run_checked([*argv, "--prompt", prompt, str(folder)], MAKING, self.known)

    def resolve(self, folder: Path, plan: Plan, sources: Sources) -> dict[str, str]:
        with _requirements_file(p.requirement for p in plan.packages) as file:
            argv = [self.program, "pip", "compile", file, "--no-header", "--no-annotate"]
            argv += ["--python", str(python_of(folder)), *_flags(sources, _UV)]
            return parse_pins(run_checked(argv, "resolving", self.known))

    def install(self, folder: Path, pins: Pins, sources: Sources, report: Report) -> None:
        done = 0

        def on_line(line: str) -> None:
            nonlocal done
            if line.startswith(" + "):
                done += 1
                report(f"installed {line[3:]}", done, len(pins))
            elif line.lstrip().startswith(("Downloading", "Downloaded", "Building", "Built")):
                report(line.strip(), done, len(pins))

        with _requirements_file(_lines(pins)) as file:
            argv = [self.program, "pip", "install", "--no-deps", "-r", file]
            argv += ["--python", str(python_of(folder)), *_flags(sources, _UV)]
            run_checked(argv, "installing", self.known, on_line)

    def add(self, folder: Path, wheel: Path) -> None:
        argv = [self.program, "pip", "install", "--no-deps", "--offline", str(wheel)]
        run_checked([*argv, "--python", str(python_of(folder))], "installing", self.known)


@dataclass(frozen=True)
class Pip:
    """Installs with the environment's own pip; downloads go to the wheelhouse, in parallel."""

    known: Names
    name: str = "pip"

    def make(self, folder: Path, plan: Plan, prompt: str, sources: Sources) -> None:
        argv = [find_python(plan.target.python), "-m", "venv", "--prompt", prompt, str(folder)]
        run_checked(argv, MAKING, self.known)

    def resolve(self, folder: Path, plan: Plan, sources: Sources) -> dict[str, str]:
        requirements = (p.requirement for p in plan.packages)
        with tempfile.TemporaryDirectory() as scratch, _requirements_file(requirements) as file:
            report = Path(scratch) / "report.json"
            argv = [*pip_of(folder), "install", "--dry-run", "--ignore-installed"]
            argv += ["--report", str(report), "-r", file, *_flags(sources, _PIP)]
            run_checked(argv, "resolving", self.known)
            chosen = json.loads(report.read_text(encoding="utf-8"))["install"]
        found = (item["metadata"] for item in chosen)
        return {normal_name(item["name"]): item["version"] for item in found}

    def install(self, folder: Path, pins: Pins, sources: Sources, report: Report) -> None:
        fetch(folder, pins, sources, report, self.known)
        with _requirements_file(_lines(pins)) as file:
            argv = [*pip_of(folder), "install", "--no-deps", "--no-index", "-r", file]
            argv += ["--find-links", str(sources.wheelhouse)]
            report("installing", len(pins), len(pins))
            run_checked(argv, "installing", self.known)

    def add(self, folder: Path, wheel: Path) -> None:
        argv = [*pip_of(folder), "install", "--no-deps", "--no-index", str(wheel)]
        run_checked(argv, "installing", self.known)


def pip_of(folder: Path) -> list[str]:
    """Return the command line of an environment's own pip."""
    return [str(python_of(folder)), "-m", "pip", "--disable-pip-version-check"]


def fetch(folder: Path, pins: Pins, sources: Sources, report: Report, known: Names) -> None:
    """Download the wheels of `pins` that the wheelhouse lacks, in parallel.

    Parameters
    ----------
    folder
        The environment whose pip downloads them, for its Python.
    """
    sources.wheelhouse.mkdir(parents=True, exist_ok=True)
    missing = {n: v for n, v in pins.items() if not _kept(sources.wheelhouse, n, v)}
    done = len(pins) - len(missing)
    argv = [*pip_of(folder), "wheel", "--no-deps", "--quiet", "--wheel-dir"]
    argv += [str(sources.wheelhouse), *_flags(sources, _PIP)]
    with ThreadPoolExecutor(PARALLEL_DOWNLOADS) as pool:
        jobs = {
            pool.submit(
                run_checked, [*argv, f"{name}=={version}"], f"downloading {name}", known
            ): name
            for name, version in missing.items()
        }
        try:
            for job in as_completed(jobs):
                job.result()
                done += 1
                report(f"downloaded {jobs[job]}", done, len(pins))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _kept(wheelhouse: Path, name: str, version: str) -> bool:
    parts = (path.name.split("-") for path in wheelhouse.glob("*.whl"))
    return any(normal_name(part[0]) == name and part[1] == version for part in parts)


def _flags(sources: Sources, words: _Options) -> list[str]:
    links = [word for place in sources.links for word in ("--find-links", place)]
    if sources.offline:
        return ["--no-index", *links]
    flags = [*words.always, *((words.index, sources.index) if sources.index else ())]
    for address in sources.extra:
        flags += [words.extra, address, *words.beside]
    return flags + links


def _lines(pins: Pins) -> list[str]:
    return [f"{name}=={version}" for name, version in sorted(pins.items())]


@contextmanager
def _requirements_file(requirements: Iterable[str]) -> Iterator[str]:
    """Yield the path of a temporary requirements file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "requirements.txt"
        path.write_text("\n".join(requirements) + "\n", encoding="utf-8")
        yield str(path)
