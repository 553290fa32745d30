"""Versions as tuples of numbers: ``"580.65.06"`` is ``(580, 65, 6)``."""

from __future__ import annotations

import re
from functools import cache

_NUMBERS = re.compile(r"\d+(?:\.\d+)*")


@cache
def parse_version(text: str) -> tuple[int, ...]:
    """Return the first dotted number in `text`, as a tuple that compares; empty if there is none.

    >>> parse_version("glibc 2.35")
    (2, 35)
    """
    found = _NUMBERS.search(text)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def at_least(have: str, need: str) -> bool:
    """Return whether the version `have` is `need` or newer."""
    return parse_version(have) >= parse_version(need)
