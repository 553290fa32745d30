"""The two installers: uv where it is present, else venv and pip.

Both resolve first, so that a set that cannot work is refused before anything large is fetched.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gpuforge.environment.failure import explain_failure
from gpuforge.environment.installed import parse_pins
from gpuforge.environment.process import Finished, run_lines
from gpuforge.environment.record import python_of
from gpuforge.environment.requirement import normal_name
from gpuforge.errors import EnvironmentMismatch

PARALLEL_DOWNLOADS = 4

Report = Callable[[str, int, int], None]
Names = Callable[[], Collection[str]]


@dataclass(frozen=True)
class Sources:
    """Where packages come from.

    Attributes
    ----------
    index : address that replaces the default index; empty for the installer's own setting
    extra : addresses beside it
    find_links : folders or pages of wheels
    wheelhouse : folder that downloads are kept in
    offline : no index is asked, only folders of wheels
    """

    wheelhouse: Path
    index: str = ""
    extra: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    offline: bool = False

    @property
    def links(self) -> tuple[str, ...]:
        """The folders of wheels, the kept downloads among them when there are any."""
        return (
            (*self.find_links, str(self.wheelhouse))
            if self.wheelhouse.is_dir()
            else (self.find_links)
        )


class Installer(Protocol):
    """Makes an environment and fills it."""

    name: str

    def make(self, folder: Path, python: str, prompt: str) -> None:
        """Make an empty environment in `folder`, which may be there already."""

    def resolve(self, folder: Path, requirements: list[str], sources: Sources) -> dict[str, str]:
        """Return every package that `requirements` need, with its version."""

    def install(
        self, folder: Path, pins: Mapping[str, str], sources: Sources, report: Report
    ) -> None:
        """Fetch and install exactly `pins`."""


def choose_installer(name: str, known: Names) -> Installer:
    """Return the installer `name`, or for empty text the best one that is present.

    Raises
    ------
    EnvironmentMismatch
        If uv is asked for and is not there.
    """
    program = find_uv()
    if name == "uv" and program is None:
        raise EnvironmentMismatch("uv is not installed", hint="install gpuforge[uv]")
    return Uv(program, known) if program and name != "pip" else Pip(known)


def find_uv() -> str | None:
    """Return the path of uv: on the search path, or beside this Python."""
    beside = Path(sys.executable).with_name("uv.exe" if sys.platform == "win32" else "uv")
    return shutil.which("uv") or (str(beside) if beside.exists() else None)


class Uv:
    """Installs with uv, which downloads side by side and keeps what it fetched."""

    name = "uv"

    def __init__(self, program: str, known: Names) -> None:
        self.program = program
        self.known = known

    def make(self, folder: Path, python: str, prompt: str) -> None:
        argv = [self.program, "venv", "--allow-existing", "--python", python]
        self._checked([*argv, "--prompt", prompt, str(folder)], "making the environment")

    def resolve(self, folder: Path, requirements: list[str], sources: Sources) -> dict[str, str]:
        with _requirements_file(requirements) as file:
            argv = [self.program, "pip", "compile", file, "--no-header", "--no-annotate"]
            argv += ["--python", str(python_of(folder)), *self._flags(sources)]
            return parse_pins(self._checked(argv, "resolving").tail)

    def install(
        self, folder: Path, pins: Mapping[str, str], sources: Sources, report: Report
    ) -> None:
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
            argv += ["--python", str(python_of(folder)), *self._flags(sources)]
            self._checked(argv, "installing", on_line)

    def _flags(self, sources: Sources) -> list[str]:
        flags = ["--default-index", sources.index] if sources.index else []
        flags = ["--no-index"] if sources.offline else flags
        for address in () if sources.offline else sources.extra:
            # The framework's index holds old copies of other packages: the newest must win.
            flags += ["--index", address, "--index-strategy", "unsafe-best-match"]
        for place in sources.links:
            flags += ["--find-links", place]
        return flags

    def _checked(
        self, argv: list[str], doing: str, on_line: Callable[[str], None] | None = None
    ) -> Finished:
        return _checked(argv, doing, self.known, on_line)


class Pip:
    """Installs with the environment's own pip; downloads run side by side into the wheelhouse."""

    name = "pip"

    def __init__(self, known: Names) -> None:
        self.known = known

    def make(self, folder: Path, python: str, prompt: str) -> None:
        argv = [python, "-m", "venv", "--prompt", prompt, str(folder)]
        _checked(argv, "making the environment", self.known)

    def resolve(self, folder: Path, requirements: list[str], sources: Sources) -> dict[str, str]:
        with tempfile.TemporaryDirectory() as scratch, _requirements_file(requirements) as file:
            report = Path(scratch) / "report.json"
            argv = [*self._pip(folder), "install", "--dry-run", "--ignore-installed"]
            argv += ["--report", str(report), "-r", file, *_pip_flags(sources)]
            _checked(argv, "resolving", self.known)
            chosen = json.loads(report.read_text(encoding="utf-8"))["install"]
        found = (item["metadata"] for item in chosen)
        return {normal_name(item["name"]): item["version"] for item in found}

    def install(
        self, folder: Path, pins: Mapping[str, str], sources: Sources, report: Report
    ) -> None:
        fetch(self._pip(folder), pins, sources, report, self.known)
        with _requirements_file(_lines(pins)) as file:
            argv = [*self._pip(folder), "install", "--no-deps", "--no-index", "-r", file]
            argv += ["--find-links", str(sources.wheelhouse)]
            report("installing", len(pins), len(pins))
            _checked(argv, "installing", self.known)

    def _pip(self, folder: Path) -> list[str]:
        return [str(python_of(folder)), "-m", "pip", "--disable-pip-version-check"]


def fetch(
    pip: list[str], pins: Mapping[str, str], sources: Sources, report: Report, known: Names
) -> None:
    """Fetch wheels for `pins` side by side into the wheelhouse; those there are not fetched again.

    Parameters
    ----------
    pip
        The command line of the pip whose Python the wheels are for.
    """
    sources.wheelhouse.mkdir(parents=True, exist_ok=True)
    missing = {n: v for n, v in pins.items() if not _kept(sources.wheelhouse, n, v)}
    done = len(pins) - len(missing)
    with ThreadPoolExecutor(PARALLEL_DOWNLOADS) as pool:
        jobs = {
            pool.submit(_fetch_one, pip, name, version, sources, known): name
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


def _fetch_one(pip: list[str], name: str, version: str, sources: Sources, known: Names) -> None:
    argv = [*pip, "wheel", "--no-deps", "--quiet", "--wheel-dir", str(sources.wheelhouse)]
    _checked([*argv, *_pip_flags(sources), f"{name}=={version}"], f"downloading {name}", known)


def _kept(wheelhouse: Path, name: str, version: str) -> bool:
    parts = (path.name.split("-") for path in wheelhouse.glob("*.whl"))
    return any(normal_name(part[0]) == name and part[1] == version for part in parts)


def _pip_flags(sources: Sources) -> list[str]:
    flags = ["--no-index"] if sources.offline else ["--retries", "2"]
    flags += ["--index-url", sources.index] if sources.index and not sources.offline else []
    for address in () if sources.offline else sources.extra:
        flags += ["--extra-index-url", address]
    for place in sources.links:
        flags += ["--find-links", place]
    return flags


def _lines(pins: Mapping[str, str]) -> list[str]:
    return [f"{name}=={version}" for name, version in sorted(pins.items())]


@contextmanager
def _requirements_file(requirements: list[str]) -> Iterator[str]:
    """Give the path of a file of requirements that lasts for a with statement."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "requirements.txt"
        path.write_text("\n".join(requirements) + "\n", encoding="utf-8")
        yield str(path)


def _checked(
    argv: list[str],
    doing: str,
    known: Names,
    on_line: Callable[[str], None] | None = None,
) -> Finished:
    finished = run_lines(argv, on_line)
    if finished.status != 0:
        raise explain_failure(finished.tail, doing, known)
    return finished
