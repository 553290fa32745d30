"""Parsing and comparing the versions of drivers, systems and packages."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packaging.version import Version

_NUMBERS = re.compile(r"\d+(?:\.\d+)*")
# A final release, and a clause of a requirement that bounds one by plain numbers.
RELEASE = re.compile(r"(\d+(?:\.\d+)*)(?:\.post\d+)?(?:\+[\w.]+)?")
_CLAUSE = re.compile(r"(>=|<=|==|!=|~=|>|<)\s*(\d+(?:\.\d+)*)(\.\*|\.?(?:a|b|rc|dev)\d+)?")
_VERSION = re.compile(r"\d+(?:\.\d+)*(?:\.?(?:a|b|rc|dev|post)\d+)*")


@cache
def parse_version(text: str) -> tuple[int, ...]:
    """Return the first dotted number in `text` as a tuple of ints; empty if there is none.

    >>> parse_version("glibc 2.35")
    (2, 35)
    """
    found = _NUMBERS.search(text)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def at_least(have: str, need: str) -> bool:
    """Return whether the first version in `have` is the one in `need` or newer, by PEP 440.

    >>> at_least("glibc 2.35", "2.35.0"), at_least("2.9.0rc1", "2.9.0")
    (True, False)
    """
    return _comparable(have) >= _comparable(need)


def meets(have: str, clauses: str) -> bool:
    """Return whether a final release certainly meets all clauses."""
    if not clauses or clauses.strip() == f"=={have}":
        return True
    release = RELEASE.fullmatch(have)
    if release is None:
        return False
    parts = filter(None, map(str.strip, clauses.split(",")))
    return all(meets_clause(release[1], ".post" in have, clause) for clause in parts)


def meets_clause(release: str, after: bool, clause: str) -> bool:
    """Return whether a release, or if `after` a post-release of it, certainly meets a clause."""
    found = _CLAUSE.fullmatch(clause)
    if found is None:
        return False
    operator, have, wanted = found[1], _numbers(release), _numbers(found[2])
    if found[3] == ".*" or operator == "~=":
        start = [int(part) for part in found[2].split(".")]
        start = start if found[3] else start[:-1]
        same = [*have, *[0] * len(start)][: len(start)] == start
        return {"==": same, "!=": not same, "~=": same and have >= wanted}.get(operator, False)
    if found[3]:  # a pre-release is older than its release and newer than earlier releases
        above = operator in (">=", ">") and have >= wanted
        return above or operator == "!=" or (operator in ("<", "<=") and have < wanted)
    # A post-release is newer than its release, so it does not meet an equality.
    equal = have == wanted and not after
    return {">=": have >= wanted, "<": have < wanted, ">": have > wanted, "!=": have != wanted,
            "<=": have < wanted or equal, "==": equal}[operator]  # fmt: skip


@cache
def _comparable(text: str) -> Version:
    """Return the first version in `text`; if there is none, one that is lower than all others."""
    from packaging.version import Version  # imported late: most detections compare no versions

    found = _VERSION.search(text)
    return Version(found[0] if found else "0.dev0")


@cache
def _numbers(release: str) -> tuple[int, ...]:
    """Return a release as a comparable tuple, in which 2.0 and 2 are equal."""
    parts = [int(part) for part in release.split(".")]
    while parts and not parts[-1]:
        parts.pop()
    return tuple(parts)
