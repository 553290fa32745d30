"""Can packages read and use their settings files, in the home folder and elsewhere?"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from glob import escape, glob
from pathlib import Path
from typing import Any

from gpuforge import registry
from gpuforge.diagnose.checks.environment_variables import redacted, variable_table
from gpuforge.diagnose.finding import Finding, State
from gpuforge.diagnose.settings_text import Settings, settings_in
from gpuforge.diagnose.site import Site
from gpuforge.diagnose.table_paths import table_path
from gpuforge.diagnose.variable_rules import VariableRules
from gpuforge.facts import known

SUMMARY = "packages can read and use their settings files"
LIVE = True

SHOWN = 5
Row = dict[str, Any]


def check(site: Site) -> Iterator[Finding]:
    """Yield each settings file of an installed package that it cannot read or use, by a table."""
    rows = registry.rows(__file__, "settings_files", "file")
    rows = [row for row in rows if site.thorough or not row.get("thorough")]
    read = (row for row in rows if any(name in site.packages for name in row["packages"]))
    found = [finding for row in read for finding in _faults(site, row)]
    yield from found or [Finding("ok", "the settings files of packages can be used")]


def _faults(site: Site, row: Row) -> Iterator[Finding]:
    for path in _files(site, row):
        content = known(site.probe.read_bytes(str(path)))
        try:
            settings = settings_in(content or b"", row["format"]) if content else {}
        except ValueError as error:
            if not row.get("ignored"):
                fault = f"{path} cannot be read, {row['fails']}: {error}"
                yield _finding(path, row.get("state", "error"), fault)
            continue
        for fault in filter(None, _misset(site, row, path, settings)):
            yield _finding(path, "warning", fault)
        if settings and row.get("first") == "sets":
            return


def _files(site: Site, row: Row) -> list[Path]:
    """Return the files that a package reads; of some packages, only the first that exists."""
    if any(map(site.probe.environ.get, row.get("unless_set", ()))):
        return []
    named = (table_path(one, site.probe.environ) for one in row["files"])
    paths = dict.fromkeys(path for one in named for path in _matching(one))
    there = [Path(path).absolute() for path in paths if os.path.isfile(path)]
    return there[:1] if row.get("first") is True else there


def _matching(path: str) -> list[str]:
    return sorted(glob(escape(path).replace("[*]", "*"))) if "*" in path else [path]


def _misset(site: Site, row: Row, path: Path, settings: Settings) -> Iterator[str]:
    """Yield what is wrong with the values of a file, by the rules of the variables they match."""
    named = ((key, _variable(row, key)) for key in settings)
    adds, environ = row.get("adds"), site.probe.environ
    alike = [(key, one) for key, one in named if one and (adds or not environ.get(one))]
    rules = VariableRules(site)
    table = variable_table() if alike else []
    for key, variable in alike:
        entries = (one for one in table if variable in one["name"])
        faults = (rules.fault(one, f"{path}: {key}", settings[key]) for one in entries)
        yield next(filter(None, faults), "")
    for key in row.get("values", {}).keys() & settings.keys():
        yield rules.fault({"value": row["values"][key]}, f"{path}: {key}", settings[key])
    if unknown := _unknown(site, row, settings):
        names = ", ".join(unknown[:SHOWN])
        yield f"{path} sets keys that {row['packages'][0]} does not know: {names}"
    enabled = (
        re.fullmatch(row.get("enables", "(?!)"), k) for k, on in settings.items() if on == "true"
    )
    for match in filter(None, enabled):
        if site.lacks_module(match[1]) and not _matching(
            table_path(f"{row.get('beside', '')}/{match[1]}*", site.probe.environ)
        ):
            yield f"{path}: {match[0]} is enabled and not installed, so {row['fails']}"


def _unknown(site: Site, row: Row, settings: Settings) -> list[str]:
    """Return the keys that are written in none of the modules that know them all."""
    one = site.distribution(row["packages"][0]) if settings and "keys_in" in row else None
    modules = [f"{one.folder}/{path}" for path in row["keys_in"]] if one else []
    text = "".join(known(site.probe.read_text(path)) or "" for path in modules)
    quoted = {key: (f'"{key}"', f"'{key}'") for key in settings} if text else {}
    return [key for key, forms in quoted.items() if not any(form in text for form in forms)]


def _variable(row: Row, key: str) -> str:
    """Return the variable that has the same meaning as a setting; empty if there is none."""
    named = (match.expand(name) for like, name in row.get("like", {}).items()
             if (match := re.fullmatch(like, key)))  # fmt: skip
    return next(named, "").replace("-", "_").upper()


def _finding(path: Path, state: State, fault: str) -> Finding:
    other = "install what it names" if "not installed" in fault else "move it away"
    steps = (f"Correct {path}, or {other}.",)
    return Finding(state, redacted(fault), "settings_file_wrong", (str(path),), steps)
