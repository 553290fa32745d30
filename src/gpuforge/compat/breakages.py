"""Versions of packages that do not work with a version of another one that their metadata allow."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gpuforge.compat.versions import meets

# The table is long and nearly all of it is about packages that are not installed, so only the
# rows that apply are parsed as TOML: all of it would take longer than the rest of the check.
_ROW = re.compile(
    r'^\[\[breakage\]\]\npackage = "([\w-]+)([^"]*)"\nwith = "([\w-]+)([^"]*)"$', re.MULTILINE
)
_FIXED = re.compile(r"<([\d.]+)$")
_BORDER = re.compile(r"(>=|<)([\d.]+)")
# Packages that hold the same module as the one that the table names.
_VARIANTS = {
    "tensorflow": ("tensorflow-cpu", "tensorflow-intel", "tensorflow-macos", "tensorflow-rocm"),
}
_OPPOSITE = {">=": "<", "<": ">="}


@dataclass(frozen=True)
class Breakage:
    """One row of the table, which applies to installed versions.

    Attributes
    ----------
    package : normalised name of the package that does not work
    versions : its versions that do not work
    other : normalised name of the package that it does not work with, or ``python``
    others : the versions of that package
    needs : what the package needs and the other one does not have, or has otherwise
    use : what fails; empty if importing the package fails
    source : where this is said, and how it was tried
    helps : the package beside which it works; empty if there is none
    """

    package: str
    versions: str
    other: str
    others: str
    needs: str
    use: str
    source: str
    helps: str = ""

    @property
    def fixed(self) -> str:
        """The first version of the package that works with the other one; empty if none does."""
        found = _FIXED.search(self.versions)
        return found[1] if found else ""

    @property
    def works_with(self) -> str:
        """The clause of the other package's versions with which it works; empty if unknown."""
        found = _BORDER.fullmatch(self.others)
        return f"{_OPPOSITE[found[1]]}{found[2]}" if found else ""


def breakages(installed: Mapping[str, str]) -> Iterator[Breakage]:
    """Yield the rows that apply to installed versions by package, ``python`` among them."""
    text = _text()
    for row in _ROW.finditer(text):
        package, versions, other, others = row.groups()
        names = (name for name in (other, *_VARIANTS.get(other, ())) if installed.get(name))
        other = next(names, other)
        have, beside = installed.get(package), installed.get(other)
        if have and beside and meets(have, versions) and meets(beside, others):
            fields = _parsed(text[row.start() : text.find("\n\n", row.end())])
            helps = fields.get("unless", "")
            if helps not in installed:
                yield Breakage(package, versions, other, others, fields["needs"],
                               fields.get("use", ""), fields["source"], helps)  # fmt: skip


@cache
def _text() -> str:
    return Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")


def _parsed(row: str) -> dict[str, str]:
    import tomllib

    (fields,) = tomllib.loads(row)["breakage"]
    return {name: str(value) for name, value in fields.items()}
