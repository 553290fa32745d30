"""A fast first check of requirements, which leaves only doubtful ones to `packaging`.

Nearly all requirements bound a final release by plain version numbers. Comparing these here saves
importing `packaging`. Anything else is doubtful and left to module `requirement`.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping

from gpuforge.compat.versions import RELEASE, meets, meets_clause
from gpuforge.diagnose.distribution import normalised

# A requirement of an extra; it is not recorded which extras were requested.
EXTRA = re.compile(r";.*\bextra\s*==\s*['\"]([\w.-]+)")
# Only frameworks require these, so an extra whose packages are all installed is in use.
GPU_PACKAGE = re.compile(r"nvidia-[\w-]+-cu1\d\b|jax-(?:cuda|rocm)")
_LINE = re.compile(r"([\w.-]+)\s*(?:\[[^\]]*\])?\s*\(?([^;()@]*)\)?\s*(?:;(.*))?")
_COMPARISON = re.compile(r"(\w+)\s*(==|!=|<=|>=|<|>)\s*['\"]([^'\"]*)['\"]")
_IMPLEMENTATIONS = {"cpython": "CPython", "pypy": "PyPy"}


def doubtful(
    lines: Mapping[str, tuple[str, ...]], versions: Mapping[str, str], python: str
) -> dict[str, tuple[str, ...]]:
    """Return the packages with doubtful requirements, with all their lines.

    Parameters
    ----------
    lines
        Requirements as PEP 508 lines, by package.
    versions
        Installed versions by package; empty if not certain.
    python
        Version of the environment's Python.
    """
    here = _here(python)
    return {
        package: several
        for package, several in lines.items()
        if not all(_holds(line, versions, here) for line in several)
    }


def _holds(line: str, versions: Mapping[str, str], here: Mapping[str, str]) -> bool:
    """Return whether a requirement certainly holds or certainly does not apply."""
    is_extra = "extra" in line and EXTRA.search(line) is not None
    if is_extra and not GPU_PACKAGE.match(line):
        return True
    found = _LINE.fullmatch(line)
    if found is None:
        return False
    have = versions.get(normalised(found[1]))
    if have is None and is_extra:
        return True  # an extra with a missing package is not in use
    holds = have is not None and (not have or meets(have, found[2]))
    return holds or _is_for_others(found[3] or "", here)


def _is_for_others(marker: str, here: Mapping[str, str]) -> bool:
    """Return whether a marker certainly does not apply `here`."""
    if " or " in marker and "(" in marker:
        return False
    ways = marker.split(" or ")
    return all(any(_is_false(part, here) for part in way.split(" and ")) for way in ways)


def _is_false(comparison: str, here: Mapping[str, str]) -> bool:
    found = _COMPARISON.fullmatch(comparison.strip(" ()"))
    have = here.get(found[1]) if found else None
    if found is None or have is None:
        return False
    operator, wanted = found[2], found[3]
    if operator in ("==", "!=") and "version" not in found[1]:
        return (have == wanted) != (operator == "==")
    plain = "version" in found[1] and RELEASE.fullmatch(wanted) and ".post" not in wanted
    opposite = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}[operator]
    return bool(plain) and meets_clause(have, False, f"{opposite}{wanted}")


def _here(python: str) -> dict[str, str]:
    """Return the marker values that are known for certain."""
    found = {
        "os_name": os.name,
        "sys_platform": sys.platform,
        "implementation_name": sys.implementation.name,
        "platform_python_implementation": _IMPLEMENTATIONS.get(sys.implementation.name, ""),
    }
    if os.name == "posix":
        machine = os.uname()
        found |= {"platform_system": machine.sysname, "platform_machine": machine.machine}
    if RELEASE.fullmatch(python):
        found["python_version"] = ".".join(python.split(".")[:2])
        if python.count(".") > 1:
            found["python_full_version"] = python
    return found
