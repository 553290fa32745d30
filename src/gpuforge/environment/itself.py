"""Packing the running gpuforge as a wheel for the environments that it creates.

A new environment gets the same version that created it, whether that one was installed from an
index, runs from a clone, or is a folder on the import path.
"""

from __future__ import annotations

import base64
import hashlib
import re
import tomllib
import zipfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import gpuforge
from gpuforge.compat.builds import Build
from gpuforge.compat.versions import parse_version

NAME = "gpuforge"
_HOME = Path(gpuforge.__file__).parent
_TAG = "py3-none-any"
_LEAST_PYTHON = "3.11"


def requirements() -> tuple[str, ...]:
    """Return gpuforge's own requirements; empty if they cannot be determined."""
    try:
        texts = distribution(NAME).requires or []
    except PackageNotFoundError:
        project = _HOME.parents[1] / "pyproject.toml"
        try:
            texts = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["dependencies"]
        except (OSError, ValueError, KeyError):
            return ()
    return tuple(text for text in texts if ";" not in text)


def obstacle(build: Build | None, python: str) -> str:
    """Return why gpuforge cannot be installed in an environment; empty if it can."""
    if parse_version(python) < parse_version(_LEAST_PYTHON):
        return f"it needs Python {_LEAST_PYTHON} or newer"
    if not requirements():
        return "the requirements of this copy are unknown"
    ours = next((text for text in requirements() if text.startswith("numpy")), "")
    bound = re.search(r"<([\d.]+)", build.numpy) if build else None
    if build and bound and parse_version(bound[1]) <= parse_version(ours):
        return f"it needs {ours}, {build.framework} {build.version} needs numpy{build.numpy}"
    return ""


def pack(folder: Path) -> Path:
    """Write gpuforge as a wheel into `folder` and return its path."""
    version = gpuforge.__version__
    info = f"{NAME}-{version}.dist-info"
    needs = "".join(f"Requires-Dist: {text}\n" for text in requirements())
    files = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {version}\n"
        f"Requires-Python: >={_LEAST_PYTHON}\n{needs}".encode(),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: {NAME}\nRoot-Is-Purelib: true\n"
        f"Tag: {_TAG}\n".encode(),
        f"{info}/entry_points.txt": b"[console_scripts]\ngpuforge = gpuforge.cli.main:main\n",
    }
    for path in sorted(_HOME.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            files[f"{NAME}/{path.relative_to(_HOME).as_posix()}"] = path.read_bytes()
    wheel = folder / f"{NAME}-{version}-{_TAG}.whl"
    record = "".join(
        f"{name},sha256={_digest(content)},{len(content)}\n" for name, content in files.items()
    )
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
        archive.writestr(f"{info}/RECORD", f"{record}{info}/RECORD,,\n")
    return wheel


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
