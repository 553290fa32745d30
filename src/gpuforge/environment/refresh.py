"""Newer releases than the tables know, asked of the configured index and kept in the cache."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from datetime import date
from pathlib import Path

from gpuforge.compat.builds import PACKAGE

FILE = "newest-releases.json"
_NEWEST = re.compile(r"^([A-Za-z0-9._-]+) \(([^)]+)\)", re.MULTILINE)


def refresh_releases(
    cache: Path, today: date, *, index: str = "", packages: Iterable[str] = PACKAGE.values()
) -> dict[str, str]:
    """Ask the index for the newest release of each framework; keep and return the answers.

    The index is pip's own setting unless `index` names one.

    Raises
    ------
    EnvironmentMismatch
        If the index does not answer.
    """
    from gpuforge.environment.failure import explain_failure
    from gpuforge.environment.process import run_lines

    found = {}
    for package in packages:
        argv = [sys.executable, "-m", "pip", "--disable-pip-version-check", "index", "versions"]
        argv += [package, "--retries", "2", *(["--index-url", index] if index else [])]
        finished = run_lines(argv)
        newest = _NEWEST.search(finished.tail)
        if finished.status != 0 or newest is None:
            raise explain_failure(finished.tail, f"asking for releases of {package}")
        found[package] = newest[2]
    cache.mkdir(parents=True, exist_ok=True)
    document = {"schema_version": 1, "asked": today.isoformat(), "newest": found}
    (cache / FILE).write_text(json.dumps(document) + "\n", encoding="utf-8")
    return found


def newest_releases(cache: Path) -> dict[str, str]:
    """Return the newest releases that were last asked for; empty when never, or not readable."""
    try:
        document = json.loads((cache / FILE).read_text(encoding="utf-8"))
        return {str(name): str(version) for name, version in document["newest"].items()}
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return {}
