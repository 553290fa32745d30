"""Is a folder of the project imported in place of a package that others use if it is there?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpuforge import registry
from gpuforge.diagnose.distribution import Distribution
from gpuforge.diagnose.finding import Finding
from gpuforge.diagnose.guarded_imports import missing_attribute
from gpuforge.diagnose.path_folders import folders_before
from gpuforge.diagnose.site import Site
from gpuforge.facts import known

SUMMARY = "no folder is imported in place of a package that is not installed"
LIVE = True


def check(site: Site) -> Iterator[Finding]:
    """Yield each folder that installed packages take for another package, by a table."""
    listed = [(one, known(site.probe.list_dir(str(one))) or ()) for one in folders_before(site)]
    rows = registry.rows(__file__, "namespace_folders", "module")
    found = [
        finding for row in rows for folder, names in listed if row["module"] in names
        if (finding := _taken(site, row, folder / row["module"]))
    ]  # fmt: skip
    yield from found or [Finding("ok", "no folder is imported in place of a package")]


def _taken(site: Site, row: dict[str, Any], place: Path) -> Finding | None:
    module, one = row["module"], site.distribution(row["package"])
    if one is None or not place.is_dir() or (place / "__init__.py").exists():
        return None
    if any(any(folder.glob(f"{module}*")) for folder in site.environment.folders):
        return None  # which is imported instead, or may be
    content = known(site.probe.read_bytes(f"{one.folder}/{row['file']}")) or b""
    attribute = missing_attribute(content, module) if module.encode() in content else ""
    return _finding(row, one, place, attribute) if attribute else None


def _finding(row: dict[str, Any], one: Distribution, place: Path, attribute: str) -> Finding:
    module = row["module"]
    message = (
        f"{place} is imported as the module {module}, which is not installed: {one.name} uses"
        f" {module}.{attribute} of it, so {row['fails']} fails"
    )
    steps = (f"Rename {place}, start Python in another folder, or install {module}.",)
    return Finding("error", message, "shadowing_module", (str(one.folder / row["file"]),), steps)
