"""Requirements in profiles: a name, extras and versions, nothing else.

URLs, paths, options and markers are rejected, as are all characters with a special meaning in a
shell, YAML, TOML or a Dockerfile, because requirements are written into all of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpuforge.errors import InvalidSettings

_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?"
_EXTRAS = rf"\[\s*{_NAME}(?:\s*,\s*{_NAME})*\s*\]"
_CLAUSE = r"(?:===?|!=|~=|<=?|>=?)\s*[A-Za-z0-9][A-Za-z0-9.*+!_-]{0,60}"
_REQUIREMENT = re.compile(
    rf"(?P<name>{_NAME})\s*(?P<extras>{_EXTRAS})?\s*(?P<versions>{_CLAUSE}(?:\s*,\s*{_CLAUSE})*)?",
    re.ASCII,
)


@dataclass(frozen=True)
class Requirement:
    """One required package.

    Attributes
    ----------
    name : as written
    extras : such as ``("and-cuda",)``
    versions : version specifiers without spaces: ``">=2.0,<3"``; empty for any
    """

    name: str
    extras: tuple[str, ...] = ()
    versions: str = ""

    @property
    def key(self) -> str:
        """The normalised name: lower case, with runs of ``-_.`` replaced by one ``-``."""
        return normal_name(self.name)

    def __str__(self) -> str:
        extras = f"[{','.join(self.extras)}]" if self.extras else ""
        return f"{self.name}{extras}{self.versions}"


def normal_name(name: str) -> str:
    """Return the normalised name of a package."""
    return re.sub(r"[-_.]+", "-", name).lower()


def parse_requirement(text: object, *, where: str = "") -> Requirement:
    """Return the requirement that `text` specifies.

    Raises
    ------
    InvalidSettings
        If it is not a name with extras and versions; the message says `where` it was found.
    """
    match = _REQUIREMENT.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is None:
        place = f"{where}: " if where else ""
        raise InvalidSettings(
            f"{place}{text!r} is not a package requirement",
            hint="write a name, extras and versions, for example 'numpy>=2.0,<3'",
        )
    extras = re.findall(_NAME, match["extras"] or "")
    versions = re.sub(r"\s+", "", match["versions"] or "")
    return Requirement(match["name"], tuple(extras), versions)
