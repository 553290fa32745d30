"""``gpuforge startup``: what libraries cost at the last program's start, and possible savings."""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

from gpuforge import settings
from gpuforge.cli import render
from gpuforge.cli.startup_validation import measure_imports, validate
from gpuforge.errors import UnknownName
from gpuforge.runtime.startup import caches, record
from gpuforge.units import format_seconds

SUMMARY = "show how long the last program took to load its libraries"
QUICK_SECONDS, SECONDS = 4.0, 60.0
"""Time limits of the validation, without the start of the command itself."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--json", action="store_true", help="print JSON")
    either = parser.add_mutually_exclusive_group()
    either.add_argument(
        "--measure",
        action="store_true",
        help="measure how long the imports that were not needed take",
    )
    either.add_argument(
        "--validate",
        action="store_true",
        help="time small programs with and without lazy imports and warm-up",
    )
    parser.add_argument("--quick", action="store_true", help="with --validate: finish within 5 s")


def run(arguments: argparse.Namespace) -> int:
    """Print the last start, or validate."""
    if arguments.validate:
        return _validate(arguments)
    if arguments.quick:
        raise UnknownName("gpuforge startup: --quick needs --validate", hint="add --validate")
    found = record.last()
    imports = found.get("imports", {})
    if arguments.measure:
        unused = [name for name, one in imports.items() if one["seconds"] is None]
        if not unused:
            render.message("nothing to measure: no deferred import was left unused")
        record.keep_import_seconds(measure_imports([name for name in unused if "." not in name]))
    chosen = settings.load().settings
    document = {
        "program": found.get("program") or None,
        "ended": found.get("ended"),
        "libraries": [_library(name, one) for name, one in found.get("libraries", {}).items()],
        "imports": [_import(one, record.import_seconds()) for one in imports.values()],
        "caches": [vars(one) for one in caches.plan(settings.cache_folder(chosen), os.environ)],
        "unknown": {} if found else {"program": "no start-up has been recorded yet"},
    }
    if arguments.json:
        render.document(document)
    else:
        render.data("\n".join(_lines(document)))
    return 0 if found else 3


def _library(name: str, one: dict[str, Any]) -> dict[str, Any]:
    in_vain = one["state"] in ("open", "ready") and not one["uses"]
    made = {"name": name, **one, "loaded_in_vain": in_vain, "reason": one["reason"] or None}
    if one["began_seconds"] is None:
        made["unknown"] = {"began_seconds": "this system does not report when a process started"}
    return made


def _import(one: dict[str, Any], known: dict[str, float]) -> dict[str, Any]:
    saved = known.get(one["module"]) if one["seconds"] is None else 0.0
    made = {**one, "saved_seconds": saved}
    if saved is None:
        inside = "." in one["module"]
        why = "it is part of a library" if inside else "its import was not measured: use --measure"
        made["unknown"] = {"saved_seconds": why}
    return made


def _lines(document: dict[str, Any]) -> list[str]:
    if document["ended"] is None:
        lines = ["no start-up has been recorded yet: a program records it when it opens a library"]
        lines.append("or defers an import (gpuforge run --lazy-imports SCRIPT)")
    else:
        ago = format_seconds(time.time() - document["ended"])
        lines = [f"{document['program'] or 'a program without a file'}, ended {ago} ago"]
    lines += _library_lines(document["libraries"]) + _import_lines(document["imports"])
    rows = [
        (one["variable"], one["value"] or "(unset)", one["reason"]) for one in document["caches"]
    ]
    heading = ("cache", "'gpuforge run' sets it to", "because")
    return [*lines, "", render.table(rows, heading=heading)]


def _library_lines(libraries: list[dict[str, Any]]) -> list[str]:
    rows = []
    for one in libraries:
        began = one["began_seconds"]
        rows.append((
            one["name"], one["state"], "?" if began is None else format_seconds(began), one["by"],
            *(format_seconds(one[f"{what}_seconds"])
              for what in ("elapsed", "held", "waited", "overlapped")),
            "not used" if one["loaded_in_vain"] else str(one["uses"]),
        ))  # fmt: skip
    heading = ("library", "state", "at", "by", "took", "computing", "waited", "overlapped",
               "uses")  # fmt: skip
    table = ["", render.table(rows, heading=heading)] if rows else []
    return table + [f"  {one['name']}: {one['reason']}" for one in libraries if one["reason"]]


def _import_lines(imports: list[dict[str, Any]]) -> list[str]:
    rows = []
    for one in imports:
        seconds, saved = one["seconds"], one["saved_seconds"]
        outcome = one["failure"] or (
            "not needed" if seconds is None else f"first used at {one['used_at']}"
        )
        time_text = format_seconds(seconds) if seconds is not None else ""
        saves = "not measured" if saved is None else format_seconds(saved) if saved else ""
        rows.append((one["module"], time_text, saves, outcome))
    heading = ("deferred import", "took", "saved", "outcome")
    return ["", render.table(rows, heading=heading)] if rows else []


def _validate(arguments: argparse.Namespace) -> int:
    found = validate(QUICK_SECONDS if arguments.quick else SECONDS)
    if arguments.json:
        render.document({"comparisons": [one.document() for one in found]})
    else:
        render.data("\n".join(one.text() for one in found))
    if any(one.differs for one in found):
        return 1
    return 0 if any(one.is_complete for one in found) else 3
