"""Is what pip has kept still whole?"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from gpuforge.changes.action import MoveAside
from gpuforge.diagnose.finding import Finding, of_cause
from gpuforge.diagnose.site import NOT_RECORDED, Site

SUMMARY = "wheels in pip's cache are whole"

WHEELS_LOOKED_AT = 2000


def check(site: Site) -> Iterator[Finding]:
    """Return the wheels in the cache that are no archives."""
    if not site.live:
        yield Finding("skipped", NOT_RECORDED.reason)
        return
    import zipfile

    folder = _cache(site)
    wheels = list(islice(folder.glob("wheels/**/*.whl"), WHEELS_LOOKED_AT))
    damaged = tuple(path for path in wheels if not zipfile.is_zipfile(path))
    if damaged:
        repair = tuple(MoveAside(path, "damaged wheel in the cache") for path in damaged)
        evidence = tuple(map(str, damaged[:5]))
        message = f"{len(damaged)} of {len(wheels)} wheels in pip's cache are damaged"
        yield of_cause("pip_hash_mismatch", "error", message, evidence=evidence, repair=repair)
    else:
        yield Finding("ok", f"{len(wheels)} wheels in pip's cache are whole")


def _cache(site: Site) -> Path:
    environ = site.probe.environ
    if chosen := environ.get("PIP_CACHE_DIR"):
        return Path(chosen)
    if site.probe.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "pip"
    if site.probe.platform == "win32":
        return Path(environ.get("LOCALAPPDATA", str(Path.home()))) / "pip" / "Cache"
    return Path(environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))) / "pip"
