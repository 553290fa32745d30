"""Small environments of real packages: wheels made by hand, installed by unpacking them."""

from __future__ import annotations

import hashlib
import os
import shutil
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

LINKED_FROM_BYTES = 2**18
SHARED = frozenset(("_internal", "_vendor", "setuptools", "pkg_resources"))
"""Folders of pip and setuptools to which environments have a link: nothing writes into them, and to
copy their thousand files takes longer than most tests."""


def a_part_of(cases: Sequence[Any], every: int) -> list[Any]:
    """Return cases of a test, of which all but one in `every` are slow: `make broken` runs them."""
    return [
        case if place % every == 0 else pytest.param(case, marks=pytest.mark.slow)
        for place, case in enumerate(cases)
    ]


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


def link_or_copy(source: str, target: str) -> None:
    """Copy a file; a large one, which nothing writes into, as a hard link."""
    if os.path.getsize(source) >= LINKED_FROM_BYTES and not os.path.islink(source):
        with suppress(OSError):  # on another file system it is a copy after all
            os.link(source, target)
            return
    shutil.copy2(source, target, follow_symlinks=False)


class Environment:
    """A virtual environment in a temporary folder."""

    def __init__(self, base: Path, prefix: Path) -> None:
        shutil.copytree(
            base, prefix, symlinks=True, copy_function=link_or_copy,
            ignore=lambda _, names: SHARED.intersection(names),
        )  # fmt: skip
        self.prefix = prefix
        self.packages = next(prefix.glob("lib/python3*/site-packages"))
        for script in prefix.glob("bin/pip*"):  # a copy's would change what it was copied from
            script.write_text(script.read_text().replace(f"#!{base}/", f"#!{prefix}/"))
        for folder in (*base.glob("lib/python3*/site-packages/*"),
                       *base.glob("lib/python3*/site-packages/pip/*")):  # fmt: skip
            if folder.name in SHARED:
                (prefix / folder.relative_to(base)).symlink_to(folder)

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
                found[str(path.relative_to(self.prefix))] = content_hash(path)
        return found


_HASHES: dict[tuple[int, ...], str] = {}


def content_hash(path: Path) -> str:
    """Return the hash of a file or link; of a file that is the same one as before, the same."""
    if path.is_symlink():
        return hashlib.sha256(os.readlink(path).encode()).hexdigest()
    of = path.stat()
    key = (of.st_dev, of.st_ino, of.st_size, of.st_mtime_ns, of.st_ctime_ns)
    if of.st_size < LINKED_FROM_BYTES:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    if key not in _HASHES:
        _HASHES[key] = hashlib.sha256(path.read_bytes()).hexdigest()
    return _HASHES[key]
