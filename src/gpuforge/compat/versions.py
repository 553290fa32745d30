"""Parsing and comparing the versions of drivers, systems and packages."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packaging.version import Version

_NUMBERS = re.compile(r"\d+(?:\.\d+)*")
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


@cache
def _comparable(text: str) -> Version:
    """Return the first version in `text`; if there is none, one that is lower than all others."""
    from packaging.version import Version  # imported late: most detections compare no versions

    found = _VERSION.search(text)
    return Version(found[0] if found else "0.dev0")
