"""Are the wheels in pip's cache complete?"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from gpuforge.diagnose.finding import Finding, of_cause
from gpuforge.diagnose.site import Site

SUMMARY = "wheels in pip's cache are complete"
LIVE = True

SECONDS = 120.0

# Time limit for checking wheels; if this check is named, all are checked.
LOOKED_AT_SECONDS = 0.01
# Smaller wheels are read completely; of larger ones only the beginning and the end.
READ_BYTES = 2**20
_FIRST, _LAST = b"PK\x03\x04", b"PK\x05\x06"
# pip stores a download as it is, or (before 23.3) inside the HTTP response.
_HEAD_BYTES, _TAIL_BYTES = 4096, 2**16 + 4096
SHOWN = 5


def check(site: Site) -> Iterator[Finding]:
    """Yield a finding if wheels in the cache are damaged."""
    folder, deadline = _cache(site), site.probe.clock() + LOOKED_AT_SECONDS
    looked_at, damaged, complete = 0, [], True
    for path in _wheels(folder):
        if site.probe.clock() > deadline and not site.thorough:
            complete = False
            break
        looked_at += 1
        if _is_damaged(path, read=site.thorough):
            damaged.append(path)
    if damaged:
        from gpuforge.changes.action import MoveAside

        repair = tuple(MoveAside(path, "damaged wheel in the cache") for path in damaged)
        evidence = tuple(map(str, damaged[:SHOWN]))
        message = f"{len(damaged)} of {looked_at} wheels in pip's cache are damaged"
        yield of_cause("pip_hash_mismatch", "error", message, evidence=evidence, repair=repair)
    else:
        rest = "" if complete else "; to check the rest: gpuforge doctor package_cache"
        yield Finding("ok", f"{looked_at} wheels in pip's cache are complete{rest}")


def _wheels(folder: Path) -> Iterator[Path]:
    """Yield the wheels that pip built, then those that it downloaded."""
    for part in ("wheels", "http-v2", "http"):
        for parent, _, names in os.walk(folder / part):
            for name in names:
                if name.endswith((".whl", ".body")) or part == "http":
                    yield Path(parent, name)


def _is_damaged(path: Path, *, read: bool) -> bool:
    """Return whether a wheel is damaged; a large one is read completely only if `read`."""
    import zipfile

    try:
        with open(path, "rb") as file:
            head, size = file.read(_HEAD_BYTES), os.fstat(file.fileno()).st_size
            is_built = path.suffix == ".whl"
            if _FIRST not in head:
                return is_built
            file.seek(max(0, size - _TAIL_BYTES))
            if _LAST not in file.read():
                return True
        if not is_built and path.suffix != ".body":
            return False
        with zipfile.ZipFile(path) as archive:
            return (read or size <= READ_BYTES) and archive.testzip() is not None
    except (OSError, zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError):
        return True
    except Exception as error:  # noqa: BLE001 - zlib.error and what else a damaged archive raises
        return "zlib" in type(error).__module__ or isinstance(error, ValueError)


def _cache(site: Site) -> Path:
    environ = site.probe.environ
    if chosen := environ.get("PIP_CACHE_DIR"):
        return Path(chosen)
    if site.probe.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "pip"
    if site.probe.platform == "win32":
        return Path(environ.get("LOCALAPPDATA", str(Path.home()))) / "pip" / "Cache"
    return Path(environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))) / "pip"
