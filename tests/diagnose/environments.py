"""Small environments of real packages: wheels made by hand, installed by unpacking them."""

from __future__ import annotations

import hashlib
import os
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path


def make_wheel(
    folder: Path,
    name: str,
    version: str,
    requires: tuple[str, ...] = (),
    files: Mapping[str, str] | None = None,
) -> Path:
    """Write a wheel and return its path."""
    stem = f"{name.replace('-', '_')}-{version}"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata += "".join(f"Requires-Dist: {line}\n" for line in requires)
    extras = {line.partition("extra == '")[2].rstrip("'") for line in requires if "extra" in line}
    metadata += "".join(f"Provides-Extra: {extra}\n" for extra in sorted(extras))
    content = {
        **(files if files is not None else {f"{name.replace('-', '_')}/__init__.py": ""}),
        f"{stem}.dist-info/METADATA": metadata,
        f"{stem}.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\n"
        "Root-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = f"{stem}.dist-info/RECORD"
    content[record] = "".join(f"{path},,\n" for path in (*content, record))
    path = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in content.items():
            archive.writestr(file, text)
    return path


class Environment:
    """A virtual environment in a temporary folder."""

    def __init__(self, base: Path, prefix: Path) -> None:
        shutil.copytree(base, prefix, symlinks=True)
        self.prefix = prefix
        self.packages = next(prefix.glob("lib/python3*/site-packages"))

    def add(self, wheel: Path) -> None:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(self.packages)
        info = next(self.packages.glob(f"{wheel.name.removesuffix('-py3-none-any.whl')}.dist-info"))
        (info / "INSTALLER").write_text("pip\n")
        with open(info / "RECORD", "a") as record:
            record.write(f"{info.name}/INSTALLER,,\n")

    def installed(self) -> set[str]:
        return {p.name.removesuffix(".dist-info") for p in self.packages.glob("*.dist-info")}

    def hashes(self) -> dict[str, str]:
        """Return the content of every file and link of the environment."""
        found = {}
        for root, _, files in os.walk(self.prefix):
            for path in (Path(root) / name for name in files):
                is_link = path.is_symlink()
                content = os.readlink(path).encode() if is_link else path.read_bytes()
                digest = hashlib.sha256(content).hexdigest()
                found[str(path.relative_to(self.prefix))] = digest
        return found
