"""The causes that gpuforge can name: one TOML file each, read in two halves.

The head (title, steps, clues) is read for every explanation; the part from ``[tests]`` on holds
samples for the test suite and is cut off before parsing.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from gpuforge.diagnose.log import words_of
from gpuforge.errors import UnknownName

HERE = Path(__file__).parent
FOLDER = HERE / "known_errors"
_FIND = re.compile(r'\{ find = (\[[^\]]*\]|"[^"]*")')
_TEXT = re.compile(r'"([^"]*)"')


@dataclass(frozen=True)
class Clue:
    """One sign of a cause.

    Attributes
    ----------
    find : lower-case texts, one of which must stand in the log as whole words
    match : regular expression that the same line must satisfy; empty: none
    weight : probability of the cause if this sign is all there is
    needs, unless : texts or ``@context`` names, one of which must, or none of which may, be there
    when : name of a predicate over the line; empty: none
    passing : healthy logs carry this line too
    machine : kind of a detection failure that counts as this sign; empty: none
    """

    find: tuple[str, ...]
    match: str
    weight: float
    needs: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    when: str = ""
    passing: bool = False
    machine: str = ""

    @property
    def words(self) -> tuple[frozenset[str], ...]:
        """The words of each text of `find`."""
        return tuple(_words(text) for text in self.find)


@dataclass(frozen=True)
class KnownError:
    """One cause: what it is, how it shows, what to do.

    Attributes
    ----------
    cause : its id, the file's name
    yields_to : causes of which this one is a consequence, or less precise; ``*``: any
    """

    cause: str
    title: str
    area: str
    severity: str
    safe_fix: bool
    source: str
    summary: str
    steps: tuple[str, ...]
    clues: tuple[Clue, ...]
    yields_to: tuple[str, ...] = ()


def known_errors() -> dict[str, KnownError]:
    """Return every known error by its id."""
    return {cause: _parsed(cause) for cause in _heads()}


def candidates(words: frozenset[str]) -> dict[str, KnownError]:
    """Return the known errors of which a clue could stand in a log of these words.

    Reading TOML is what an explanation costs most, so a file whose clues cannot match stays text.
    """
    return {
        cause: _parsed(cause)
        for cause, wanted in _wanted_words().items()
        if any(one <= words for one in wanted)
    }


def known_error(cause: str) -> KnownError:
    """Return one known error.

    Raises
    ------
    UnknownName
        If no cause has that id.
    """
    if cause not in _heads():
        raise UnknownName.among("cause", cause, _heads())
    return _parsed(cause)


def causes() -> tuple[str, ...]:
    """Return the ids of all known errors."""
    return tuple(_heads())


@dataclass(frozen=True)
class Sign:
    """A sign of the surroundings: whole words, and what their line must match; empty: anything."""

    text: str
    match: str

    @property
    def words(self) -> frozenset[str]:
        """The words of the text."""
        return _words(self.text)


@cache
def contexts() -> dict[str, tuple[Sign, ...]]:
    """Return the signs of the surroundings by name."""
    tables = tomllib.loads((HERE / "contexts.toml").read_text(encoding="utf-8"))
    return {
        name: tuple(Sign(one, "") if isinstance(one, str) else Sign(*one) for one in signs)
        for name, signs in tables.items()
    }


def _files() -> Iterator[tuple[str, str, str]]:
    """Yield name, head and tests of each file."""
    for path in sorted(FOLDER.glob("*.toml")):
        head, _, tests = path.read_text(encoding="utf-8").partition("\n[tests]\n")
        yield path.stem, head, tests


@cache
def _heads() -> dict[str, str]:
    return {cause: head for cause, head, _ in _files()}


@cache
def _parsed(cause: str) -> KnownError:
    return _parse(cause, tomllib.loads(_heads()[cause]))


@cache
def _wanted_words() -> dict[str, tuple[frozenset[str], ...]]:
    """Return the words of each text that a clue looks for; a sign of the machine needs none."""
    found = {}
    for cause, head in _heads().items():
        texts = [text for finds in _FIND.findall(head) for text in _TEXT.findall(finds)]
        machine = [""] if "{ machine = " in head else []
        found[cause] = tuple(_words(text) for text in (*texts, *machine))
    return found


def _parse(cause: str, table: dict[str, Any]) -> KnownError:
    return KnownError(
        cause=cause,
        title=table["title"],
        area=table["area"],
        severity=table["severity"],
        safe_fix=table["safe_fix"],
        source=table["source"],
        summary=table["summary"],
        steps=tuple(table["steps"]),
        clues=tuple(_parse_clue(clue) for clue in table["clues"]),
        yields_to=tuple(table.get("yields_to", ())),
    )


def _parse_clue(table: dict[str, Any]) -> Clue:
    find = table.get("find", ())
    return Clue(
        find=(find,) if isinstance(find, str) else tuple(find),
        match=table.get("match", ""),
        weight=table["weight"],
        needs=tuple(table.get("needs", ())),
        unless=tuple(table.get("unless", ())),
        when=table.get("when", ""),
        passing=table.get("kind") == "passing",
        machine=table.get("machine", ""),
    )


_words = cache(words_of)
compiled = cache(re.compile)
