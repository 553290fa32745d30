"""Whether an installed version is one that a package asks for: the part of PEP 440 used here."""

from __future__ import annotations

import re

_REQUIREMENT = re.compile(r"([A-Za-z0-9][\w.-]*)\s*(?:\[[^\]]*\])?\s*\(?([^;()]*)\)?\s*(;.*)?")
_RELEASE = re.compile(r"\d+(?:\.\d+)*")


def release(version: str) -> tuple[int, ...]:
    """Return the numbers of a version: ``2.4.0+cu124`` is ``(2, 4, 0)``."""
    match = _RELEASE.match(version)
    return tuple(map(int, match[0].split("."))) if match else ()


def parse_requirement(line: str) -> tuple[str, tuple[str, ...]] | None:
    """Return name and conditions of a ``Requires-Dist`` line; None if it is one of an extra."""
    match = _REQUIREMENT.fullmatch(line.strip())
    if match is None or "extra" in (match[3] or ""):
        return None
    conditions = tuple(part.strip() for part in match[2].split(",") if part.strip())
    return match[1], conditions


def satisfies(version: str, condition: str) -> bool:
    """Return whether `version` meets a condition such as ``>=2.1`` or ``==2.4.*``."""
    match = re.fullmatch(r"(===|==|!=|~=|<=|>=|<|>)\s*(\S+)", condition)
    if match is None:
        return True
    operator, wanted = match[1], match[2]
    if wanted.endswith(".*"):
        stem = release(wanted[:-2])
        same = release(version)[: len(stem)] == stem
        return same if operator == "==" else not same
    left, right = _padded(release(version), release(wanted))
    if operator == "~=":
        stem = release(wanted)[:-1]
        return left >= right and release(version)[: len(stem)] == stem
    return {
        "===": version == wanted,
        "==": left == right and ("+" not in wanted or version == wanted),
        "!=": left != right,
        "<=": left <= right,
        ">=": left >= right,
        "<": left < right,
        ">": left > right,
    }[operator]


def _padded(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    size = max(len(left), len(right))
    return tuple(numbers + (0,) * (size - len(numbers)) for numbers in (left, right))
