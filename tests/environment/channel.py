"""A conda channel on this disk whose ``python`` is the Python that runs the tests."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

PREFIX = "/placeholder_" + "_" * 200
VERSION = ".".join(str(part) for part in sys.version_info[:3])
RECORD = {"build": "0", "build_number": 0, "depends": [], "timestamp": 1_700_000_000_000}


def build_channel(folder: Path, *, python: str = VERSION) -> str:
    """Write a channel with ``python`` and ``pip`` into `folder`; return its address.

    The files of ``python`` are those of a virtual environment with pip in it, so that it is small
    and computes; its scripts hold the placeholder that an installer replaces by the prefix.
    """
    skeleton = folder / "skeleton"
    base = getattr(sys, "_base_executable", sys.executable)
    subprocess.run([base, "-m", "venv", str(skeleton)], check=True)
    files = _files(skeleton)
    place = folder / "channel" / "linux-64"
    place.mkdir(parents=True)
    records = [
        _package(place, "python", python, files, ()),
        _package(place, "pip", "25.0", {}, ("python",)),
    ]
    _repodata(place, records)
    (folder / "channel" / "noarch").mkdir()
    _repodata(folder / "channel" / "noarch", [])
    return (folder / "channel").as_uri()


def _files(skeleton: Path) -> dict[str, bytes | str]:
    """Return the files of the environment: contents, or where a link points to."""
    found: dict[str, bytes | str] = {}
    for path in sorted(skeleton.rglob("*")):
        name = str(path.relative_to(skeleton))
        if path.is_symlink() and not path.is_dir():
            found[name] = os.readlink(path)
        elif path.is_file() and path.suffix != ".pyc":
            found[name] = path.read_bytes().replace(os.fsencode(skeleton), PREFIX.encode())
    return found


def _package(
    place: Path, name: str, version: str, files: dict[str, bytes | str], depends: tuple[str, ...]
) -> dict[str, object]:
    record = {**RECORD, "name": name, "version": version, "depends": list(depends)}
    record["subdir"] = "linux-64"
    everything = dict(files)
    everything["info/index.json"] = json.dumps(record).encode()
    everything["info/files"] = "\n".join(files).encode()
    everything["info/paths.json"] = json.dumps(
        {"paths_version": 1, "paths": [_path(name, body) for name, body in files.items()]}
    ).encode()
    path = place / f"{name}-{version}-0.tar.bz2"
    with tarfile.open(path, "w:bz2", compresslevel=1) as archive:
        for file, body in everything.items():
            entry = tarfile.TarInfo(file)
            if isinstance(body, str):
                entry.type, entry.linkname = tarfile.SYMTYPE, body
                archive.addfile(entry)
            else:
                entry.size, entry.mode = len(body), 0o755 if file.startswith("bin/") else 0o644
                archive.addfile(entry, io.BytesIO(body))
    content = path.read_bytes()
    return {
        **record,
        "fn": path.name,
        "size": len(content),
        "md5": hashlib.md5(content).hexdigest(),
        "sha256": hashlib.sha256(content).hexdigest(),
    }


def _path(name: str, body: bytes | str) -> dict[str, object]:
    if isinstance(body, str):
        return {"_path": name, "path_type": "softlink", "sha256": "0" * 64, "size_in_bytes": 0}
    found: dict[str, object] = {
        "_path": name,
        "path_type": "hardlink",
        "sha256": hashlib.sha256(body).hexdigest(),
        "size_in_bytes": len(body),
    }
    if PREFIX.encode() in body:
        found |= {"prefix_placeholder": PREFIX, "file_mode": "text"}
    return found


def _repodata(place: Path, records: list[dict[str, object]]) -> None:
    document = {
        "info": {"subdir": place.name},
        "packages": {str(record["fn"]): record for record in records},
        "packages.conda": {},
        "repodata_version": 1,
    }
    (place / "repodata.json").write_text(json.dumps(document))
