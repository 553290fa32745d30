"""The Python environment that gpuforge diagnoses, shows and changes: one class for all three."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

_PYTHONS = ("bin/python", "bin/python3", "Scripts/python.exe", "python.exe")
_LIBRARIES = ("lib/python3.*", "lib/python3", "local/lib/python3.*", "Lib")
_PACKAGES = ("site-packages", "dist-packages")


@dataclass(frozen=True)
class PythonEnvironment:
    """A folder that contains, or should contain, a Python interpreter and its packages.

    Attributes
    ----------
    prefix : the folder
    named_by : the environment variable that names it; empty for the Python that runs gpuforge
    """

    prefix: Path
    named_by: str = ""

    @cached_property
    def kind(self) -> str:
        """What the folder is: ``virtual environment``, ``conda environment``, ..."""
        if (self.prefix / "conda-meta").is_dir():
            base = (self.prefix / "condabin").is_dir()
            return "base environment of conda" if base else "conda environment"
        if (self.prefix / "pyvenv.cfg").is_file():
            return "virtual environment"
        return "system Python" if self.prefix.is_dir() else "missing folder"

    @cached_property
    def python(self) -> Path | None:
        """The path of its interpreter; None if it is missing."""
        own = (Path(sys.executable),) if self._is_running else ()
        places = (*(self.prefix / place for place in _PYTHONS), *own)
        return next((place for place in places if os.path.exists(place)), None)

    @cached_property
    def version(self) -> str:
        """The version of its Python, as precisely as it is recorded: ``3.12.1`` or ``3.12``."""
        if self._is_running:
            return ".".join(map(str, sys.version_info[:3]))
        written = self._pyvenv_cfg.get("version") or self._pyvenv_cfg.get("version_info", "")
        names = [path.name for path in self.prefix.glob("conda-meta/python-3.*.json")]
        names += [self.python.resolve().name] if self.python else []
        names += [path.name for path in self.prefix.glob("lib/python3.*")]
        found = (re.search(r"3\.\d+(\.\d+)?", text) for text in (written, *names))
        return next((match[0] for match in found if match), "")

    @cached_property
    def folders(self) -> tuple[Path, ...]:
        """The folders of its packages, in the interpreter's search order."""
        import site

        is_virtual = self.kind == "virtual environment"
        if self._is_running:
            places, has_user = [*map(Path, site.getsitepackages())], site.ENABLE_USER_SITE
            user = Path(site.getusersitepackages())
        else:
            mixed = self._pyvenv_cfg.get("include-system-site-packages", "").lower() == "true"
            base = self._package_folders((self.home or Path("/usr/bin")).parent) if mixed else []
            places = [*self._package_folders(self.prefix), *base]
            has_user = (mixed or not is_virtual) and not os.environ.get("PYTHONNOUSERSITE")
            minor = ".".join(self.version.split(".")[:2])
            user = Path(site.getuserbase(), "lib", f"python{minor}", "site-packages")
        # The user's own packages come first, except in a virtual environment.
        own = [one for one in places if is_virtual and one.is_relative_to(self.prefix)]
        ordered = (*own, *([user] if has_user else ()), *places)
        return tuple(dict.fromkeys(place for place in ordered if place.is_dir()))

    @cached_property
    def has_pip(self) -> bool:
        """Whether pip is installed in it."""
        return any((folder / "pip" / "__main__.py").is_file() for folder in self.folders)

    @cached_property
    def made_by_uv(self) -> bool:
        """Whether uv created it; uv neither installs pip nor needs it."""
        return "uv" in self._pyvenv_cfg

    @property
    def home(self) -> Path | None:
        """The folder of the base interpreter of a virtual environment, if it is recorded."""
        return Path(named) if (named := self._pyvenv_cfg.get("home")) else None

    @cached_property
    def fault(self) -> str:
        """Why its Python cannot run or cannot see its packages; empty if there is no fault."""
        if not self.prefix.is_dir():
            return (
                f"{self.named_by or 'the running Python'} names {self.prefix}, which does not exist"
            )
        if self.python is None:
            places = (self.prefix / place for place in _PYTHONS)
            link = next((place for place in places if place.is_symlink()), None)
            gone = f"{link} points to {os.readlink(link)}, which does not exist" if link else ""
            return gone or f"{self.prefix} contains no Python"
        if os.name == "posix" and self.python.suffix == ".exe":
            return f"{self.prefix} was created on Windows, and its Python does not run here"
        own = self.python.resolve().is_relative_to(self.prefix.resolve())
        if self.kind == "system Python" and (self.prefix / "bin/activate").is_file() and not own:
            return f"{self.prefix} has no pyvenv.cfg, so its Python cannot import its packages"
        target = re.search(r"python(3\.\d+)", self.python.resolve().name)
        written = ".".join(self.version.split(".")[:2])
        if target and written and target[1] != written:
            return f"{self.python} is now Python {target[1]}, but the packages are for {written}"
        return ""

    @cached_property
    def refusal(self) -> str:
        """Why gpuforge must not change the environment; empty if it may."""
        if self.fault:
            return self.fault
        if self.kind in ("system Python", "base environment of conda"):
            return f"{self.prefix} is the {self.kind}, which gpuforge never changes"
        if mark := next(self.prefix.glob("lib/python3*/EXTERNALLY-MANAGED"), None):
            return f"{mark} says that another tool manages this Python"
        return "" if os.access(self.prefix, os.W_OK) else f"{self.prefix} is not writable"

    @cached_property
    def _is_running(self) -> bool:
        return self.prefix == Path(sys.prefix)

    @cached_property
    def _pyvenv_cfg(self) -> dict[str, str]:
        """The settings in ``pyvenv.cfg``; empty outside a virtual environment."""
        from gpuforge.facts import known
        from gpuforge.probe.files import decoded, read

        path = self.prefix / "pyvenv.cfg"
        pairs = (
            line.partition("=")
            for line in (known(decoded(read(path, str(path)))) or "").splitlines()
        )
        return {key.strip().lower(): value.strip() for key, _, value in pairs}

    def _package_folders(self, prefix: Path) -> list[Path]:
        minor = ".".join(self.version.split(".")[:2])
        found = [
            folder
            for library in _LIBRARIES
            for parent in sorted(prefix.glob(library))
            for folder in (parent / name for name in _PACKAGES)
        ]
        return [
            f for f in found if not minor or f.parent.name in (f"python{minor}", "python3", "Lib")
        ]


def active_environment(environ: Mapping[str, str]) -> PythonEnvironment:
    """Return the activated environment, even a broken one; else that of the running Python.

    Conda's base environment, which many shells activate by default, is ignored if gpuforge runs in
    a virtual environment.
    """
    if named := environ.get("VIRTUAL_ENV"):
        return PythonEnvironment(Path(named).absolute(), "VIRTUAL_ENV")
    own = PythonEnvironment(Path(sys.prefix))
    if named := environ.get("CONDA_PREFIX"):
        conda = PythonEnvironment(Path(named).absolute(), "CONDA_PREFIX")
        if conda.kind != "base environment of conda" or sys.prefix == sys.base_prefix:
            return conda
    return own
