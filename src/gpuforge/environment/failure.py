"""What an installer's last words mean: one error with one thing to do."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from gpuforge.errors import EnvironmentMismatch, nearest

_NOT_FOUND = re.compile(
    r"Because (?P<uv>[A-Za-z0-9._-]+) was not found in the (?:package registry|provided)"
    r"|No matching distribution found for (?P<pip>[A-Za-z0-9._-]+)"
)
_VERSIONS_NONE = re.compile(r"from versions: none|not found in the")
_CAUSES: tuple[tuple[str, str, str], ...] = (
    (
        r"No space left on device|os error 28|Errno 28|ENOSPC|Disk quota exceeded",
        "the disk is full",
        "free space there, or choose another place with --path",
    ),
    (
        r"\b40[13]\b.*(?:Unauthorized|Forbidden)|HTTP status client error \(40[13]",
        "the package index refuses access",
        "check the credentials of that index",
    ),
    (
        r"CondaHTTPError|UnavailableInvalidChannel|GatewayError|CONNECTION FAILED"
        r"|[Cc]ould not (?:load|open) repodata|Download error \(",
        "the conda channel cannot be reached",
        "check the network, or name another with --channel",
    ),
    (
        r"PackagesNotFound\w*Error|ResolvePackageNotFound|UnsatisfiableError|SolverError"
        r"|nothing provides|does not exist \(perhaps",
        "the conda channel lacks what is asked for, or the system is less than it must be",
        "try another --python or --channel",
    ),
    (
        r"HTTP status server error|HTTP error 5\d\d|5\d\d Server Error",
        "the package index answers with an error",
        "try again later, or name another with --index",
    ),
    (
        r"error sending request|Failed to fetch|dns error|client error \(Connect\)"
        r"|Failed to establish a new connection|Max retries exceeded|name resolution"
        r"|Connection refused|timed out",
        "the package index cannot be reached",
        "check the network, or name an index with --index or a folder of wheels with --find-links",
    ),
    (
        r"THESE PACKAGES DO NOT MATCH THE HASHES|[Hh]ash mismatch",
        "a download does not match its hash",
        "run it again; if it happens again, do not trust that index",
    ),
    (
        r"externally[- ]managed",
        "that Python is managed by the system",
        "create an environment of its own with --path",
    ),
    (
        r"Permission denied|Errno 13|os error 13",
        "a folder may not be written",
        "choose a place you may write with --path",
    ),
)


def explain_failure(
    tail: str, doing: str, known: Callable[[], Iterable[str]] = tuple
) -> EnvironmentMismatch:
    """Return the error that an installer's output means.

    Parameters
    ----------
    tail
        The last lines that it wrote.
    doing
        What was being done, for the message: ``"resolving"``.
    known
        Names of packages, from which a misspelt one is guessed.
    """
    for pattern, meaning, hint in _CAUSES:
        found = re.search(pattern, tail)
        if found:
            said = " ".join(tail[tail.rfind("\n", 0, found.start()) + 1 :].split())[:200]
            return EnvironmentMismatch(f"{doing} failed: {meaning} ({said})", hint=hint)
    missing = _NOT_FOUND.search(tail)
    if missing and _VERSIONS_NONE.search(tail):
        name = missing["uv"] or missing["pip"]
        near = nearest(name, (k for k in known() if k != name.lower()))
        return EnvironmentMismatch(
            f"{doing} failed: no index has a package {name!r}",
            hint=f"did you mean {near!r}?" if near else "check its spelling in the profile",
        )
    return EnvironmentMismatch(
        f"{doing} failed: {_last_words(tail)}", hint="run it with --verbose for all that was said"
    )


def _last_words(tail: str) -> str:
    lines = [line.strip() for line in tail.splitlines() if line.strip()]
    marks = (r"The conflict is caused by", r"(?i)error|×")
    places = (i for mark in marks for i, line in enumerate(lines) if re.match(mark, line))
    start = next(places, -4)
    return " ".join(lines[start:])[:600] or "nothing was said"
