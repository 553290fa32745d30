"""The newest releases of the frameworks, queried from the configured index and cached."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from gpuforge import stored
from gpuforge.compat.builds import PACKAGE
from gpuforge.errors import PlanRefused
from gpuforge.log import logger

FILE = "newest-releases.json"
_NEWEST = re.compile(r"^([A-Za-z0-9._-]+) \(([^)]+)\)", re.MULTILINE)


@dataclass(frozen=True)
class Newest:
    """The newest releases on an index, by package, and the date of the query (`asked`)."""

    asked: str
    newest: dict[str, str]


def refresh_releases(cache: Path, today: date, *, index: str = "") -> dict[str, str]:
    """Query the index for the newest release of each framework; cache and return the answers.

    The index is that of pip's configuration unless `index` is given.

    Raises
    ------
    EnvironmentMismatch
        If a query fails; `PlanRefused` if the answers cannot be cached.
    """
    from gpuforge.environment.failure import explain_failure
    from gpuforge.environment.process import run_lines

    found = {}
    for package in PACKAGE.values():
        argv = [sys.executable, "-m", "pip", "--disable-pip-version-check", "index", "versions"]
        argv += [package, "--retries", "2", *(["--index-url", index] if index else [])]
        finished = run_lines(argv)
        newest = _NEWEST.search(finished.tail)
        if finished.status != 0 or newest is None:
            raise explain_failure(finished.tail, f"asking for releases of {package}")
        found[package] = newest[2]
    try:
        text = stored.dumps(Newest(today.isoformat(), found)) + "\n"
        stored.write(cache / FILE, text, parents=True)
    except OSError as error:
        raise PlanRefused(
            f"the list of releases cannot be saved: {error}", hint="set cache_folder to another one"
        ) from None
    return found


def newest_releases(cache: Path) -> dict[str, str]:
    """Return the cached newest releases; empty if there are none or they are unreadable."""
    try:
        return stored.loads_as(Newest, (cache / FILE).read_text(encoding="utf-8")).newest
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        logger("environment").info("%s is not used: %s", cache / FILE, error)
        return {}
