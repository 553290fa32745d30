"""Translation of a failed installer's output into one error with one hint."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from textwrap import shorten

from gpuforge import registry
from gpuforge.errors import EnvironmentMismatch, nearest

_NOT_FOUND = re.compile(
    r"Because (?P<uv>[A-Za-z0-9._-]+) was not found in the (?:package registry|provided)"
    r"|No matching distribution found for (?P<pip>[A-Za-z0-9._-]+)"
)
_ADDRESS = re.compile(r"(?:https?|file)://[^\s`'\"<>()]+")
# Where pip says that it tries again, the reason stands behind its counters and objects.
_NOISE = re.compile(
    r"WARNING: Retrying \(.*?\)\) after connection broken by |<pip\._vendor[^>]*>: "
)
_VERSIONS_NONE = re.compile(r"from versions: none|not found in the")


def explain_failure(
    tail: str, doing: str, known: Callable[[], Iterable[str]] = tuple
) -> EnvironmentMismatch:
    """Return the error that explains an installer's output.

    Parameters
    ----------
    tail
        The last lines of the output.
    doing
        The failed step, for the message: ``"resolving"``.
    known
        Returns the names of known packages, for "did you mean" hints.
    """
    for cause in registry.table(__file__, "failures")["cause"]:
        found = re.search(cause["pattern"], tail)
        if found:
            line = _NOISE.sub("", " ".join(tail[tail.rfind("\n", 0, found.start()) + 1 :].split()))
            said = shorten(line, 200, placeholder=" ...")
            if len(said) < 100:  # the next word, an address perhaps, is longer than the rest
                said = line[:200]
            address = _address(tail, found.start())
            where = f" at {address}" if address and address not in said else ""
            what = f"{doing} failed: {cause['meaning']}{where} ({said})"
            return EnvironmentMismatch(what, hint=cause["hint"])
    missing = _NOT_FOUND.search(tail)
    if missing and _VERSIONS_NONE.search(tail):
        name = missing["uv"] or missing["pip"]
        near = nearest(name, (k for k in known() if k != name.lower()))
        return EnvironmentMismatch(
            f"{doing} failed: package {name!r} was not found on any index",
            hint=f"did you mean {near!r}?" if near else "check its spelling in the profile",
        )
    return EnvironmentMismatch(
        f"{doing} failed: {_last_words(tail)}",
        hint="run the command again with --verbose to see the whole output",
    )


def _address(tail: str, place: int) -> str:
    """Return the URL nearest to a position in the output; empty if there is none."""
    found = [(m.start(), m[0].rstrip(".,:;")) for m in _ADDRESS.finditer(tail)]
    address = min(found, key=lambda pair: abs(pair[0] - place), default=(0, ""))[1]
    return re.sub(r"//[^/@\s]*@", "//", address)  # without credentials


def _last_words(tail: str) -> str:
    lines = [line.strip() for line in tail.splitlines() if line.strip()]
    marks = (r"The conflict is caused by", r"(?i)error|×")
    places = (i for mark in marks for i, line in enumerate(lines) if re.match(mark, line))
    start = next(places, -4)
    return " ".join(lines[start:])[:600] or "the installer printed nothing"
