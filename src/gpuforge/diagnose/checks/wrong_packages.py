"""Is a package installed that only has the name of the one that people want?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpuforge import registry
from gpuforge.compat.versions import meets
from gpuforge.diagnose.finding import Finding
from gpuforge.diagnose.site import Site

SUMMARY = "no package is installed by a mistaken name"


def check(site: Site) -> Iterator[Finding]:
    """Yield each installed package of a table of names that are often mistaken."""
    rows = registry.rows(__file__, "wrong_packages", "package")
    found = [_mistaken(row) for row in rows if _is_there(site, row)]
    yield from found or [Finding("ok", "no package has a name that is often mistaken")]


def _is_there(site: Site, row: dict[str, Any]) -> bool:
    """Return whether the package of a row is installed from the index, and likely by mistake."""
    one, beside = site.distribution(row["name"]), row.get("beside")
    if one is None or one.origin or not one.record or site.requirements.requires(one.name):
        return False
    if any(part.encode() in one.record for part in row.get("unless_holds", ())):
        return False
    clauses = row.get("versions", "")
    return meets(one.version, clauses) and (not beside or any(n in site.packages for n in beside))


def _mistaken(row: dict[str, Any]) -> Finding:
    message = f"{row['name']} from PyPI is {row['is']}; people who install it want {row['wanted']}"
    steps = (f"If you want that: pip uninstall {row['name']}; {row['install']}",)
    return Finding("warning", message, "wrong_package", (row["source"],), steps)
