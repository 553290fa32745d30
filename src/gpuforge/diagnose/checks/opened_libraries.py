"""Do packages find the libraries, drivers and programs of the system that they open by name?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpuforge import registry
from gpuforge.compat.versions import meets
from gpuforge.diagnose.finding import Finding, State
from gpuforge.diagnose.site import NOT_RECORDED, Site
from gpuforge.diagnose.table_paths import table_path

SUMMARY = "packages find the system's libraries and programs that they open themselves"


def check(site: Site) -> Iterator[Finding]:
    """Yield each package that finds none of the libraries that it tries, by a table."""
    if not site.live or not site.loader.cached:
        yield Finding("skipped", NOT_RECORDED.reason if not site.live else "only read on Linux")
        return
    entries = registry.rows(__file__, "opened_libraries", "opened")
    found = [_missing(site, entry) for entry in entries if _is_lacking(site, entry)]
    yield from found or [Finding("ok", "packages find the libraries that they open")]


def _is_lacking(site: Site, entry: dict[str, Any]) -> bool:
    """Return whether a package of the table needs something that is certainly not there."""
    one = site.distribution(entry["package"])
    if one is None or not meets(one.version, entry.get("versions", "")):
        return False
    if any(name in site.packages for name in entry.get("or", ())):
        return False
    if any(site.probe.environ.get(name) for name in entry.get("named_by", ())):
        return False
    held = any(part.encode() in one.record for part in entry.get("unless_holds", ()))
    if held or not all(part.encode() in one.record for part in entry.get("if_holds", ())):
        return False
    if not entry.get("at_once") and _is_required(site, one.name):
        return False  # what requires it may never use that part of it
    return not (
        any(map(site.loader.has, entry.get("libraries", ())))
        or any(_has_program(site, name) for name in entry.get("programs", ()))
        or any(_has_file(site, pattern) for pattern in entry.get("files", ()))
    )


def _is_required(site: Site, name: str) -> bool:
    like = (name, name.replace("-", "_"), name.replace("-", "."))
    return any(
        line.lower().startswith(like) for lines in site.requirement_lines.values() for line in lines
    )


def _has_program(site: Site, name: str) -> bool:
    beside = site.environment.prefix / "bin" / name
    return beside.exists() or isinstance(site.probe.find_program(name), str)


def _has_file(site: Site, pattern: str) -> bool:
    """Return whether a file exists, in the system, the home folder or the environment."""
    roots = (Path("/"), site.environment.prefix, *site.environment.folders)
    pattern = table_path(pattern, site.probe.environ).lstrip("/")
    return any(any(root.glob(pattern)) for root in roots)


def _missing(site: Site, entry: dict[str, Any]) -> Finding:
    one = site.distribution(entry["package"])
    version = one.version if one else ""
    names = [*entry.get("libraries", ()), *entry.get("programs", ()), *entry.get("files", ())]
    what = entry.get("what") or " or ".join(names[:3])
    message = f"{entry['package']} {version} needs {what}, which this system does not have; "
    message += f"{entry['fails']} fails"
    state: State = "error" if entry.get("at_once") else "warning"
    steps = (f"Install it: {entry['install']}",)
    return Finding(state, message, "library_missing", tuple(names[:5]), steps)
