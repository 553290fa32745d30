"""The causes that gpuforge can name: one TOML file each, all of them in one index.

Reading ninety TOML files costs more than an explanation, so `INDEX` holds what they say: on its
first line the words of the clues by cause, on its second the contexts, then one file a line, of
which only those are parsed whose words the log has. After a change:
``python tests/diagnose/known_errors_index.py`` makes it anew.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from gpuforge.errors import UnknownName

HERE = Path(__file__).parent
FOLDER = HERE / "known_errors"
INDEX = HERE / "known_errors.jsonl"
# How programs tell the number of a CUDA error: one of these words, and "failed with code 700".
CODE_WORDS = tuple(
    "cuda cuinit cudart curesult cudaerror_t cudamalloc cudamemcpy cudadevicesynchronize "
    "cudagetdevicecount cudagetlasterror cudasetdevice cudastreamsynchronize cuctxcreate "
    "cuctxsynchronize cumoduleloaddata cumoduleload cumemalloc cumemcpydtoh cumemcpyhtod "
    "cudevicegetcount custreamsynchronize culaunchkernel".split()
)
CODE = (
    r"^(?!.*\bmake\b).*\bcu\w+\b.{0,80}?\b(err(or)?|fail\w*|status|code|returned|result|rc)"
    r"( (code|number|no\.?|with|value|was|is)){0,2}\W{1,4}(CODE)\b"
    r"(?![.\d%]| ?([kmg]i?b|bytes|ms|s|tokens|steps)\b)"
)


@dataclass(frozen=True)
class Clue:
    """One sign of a cause.

    Attributes
    ----------
    find : lower-case texts, one of which must stand in the log as whole words
    codes : numbers of CUDA errors, one of which the line must name; it needs no `find` and `match`
    match : regular expression that the same line must satisfy; empty: none
    weight : probability of the cause if this sign is all there is
    needs, unless : texts or ``@context`` names, one of which must, or none of which may, be there
    when : name of a predicate over the line; empty: none
    passing : healthy logs carry this line too
    setting : lines that show arguments, settings and packages count too
    machine : kind of a detection failure that counts as this sign; empty: none
    """

    find: tuple[str, ...]
    match: str
    weight: float
    needs: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    when: str = ""
    passing: bool = False
    setting: bool = False
    machine: str = ""
    codes: tuple[str, ...] = ()


@dataclass(frozen=True)
class KnownError:
    """One cause: what it is, how it shows, what to do.

    Attributes
    ----------
    cause : its id, the file's name
    safe_fix : whether a repair is safe to make by itself
    repaired_by : the check of ``doctor`` whose findings have such a repair; empty: none has
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
    repaired_by: str = ""


def known_errors() -> dict[str, KnownError]:
    """Return every known error by its id."""
    return {cause: _parsed(cause) for cause in causes()}


def candidates(words: frozenset[str]) -> dict[str, KnownError]:
    """Return the known errors of which at least one clue's words are all among `words`."""
    return {
        cause: _parsed(cause)
        for cause, several in _words().items()
        if any(map(words.issuperset, several))
    }


def known_error(cause: str) -> KnownError:
    """Return one known error.

    Raises
    ------
    UnknownName
        If no cause has that id.
    """
    if cause not in causes():
        raise UnknownName.among("cause", cause, causes())
    return _parsed(cause)


def causes() -> tuple[str, ...]:
    """Return the ids of all known errors."""
    return tuple(_words())


@dataclass(frozen=True)
class Sign:
    """A sign of the surroundings: whole words, and what their line must match; empty: anything."""

    text: str
    match: str


@cache
def contexts() -> dict[str, tuple[Sign, ...]]:
    """Return the signs of the surroundings by name."""
    return {
        name: tuple(Sign(one, "") if isinstance(one, str) else Sign(*one) for one in signs)
        for name, signs in json.loads(_lines()[1]).items()
    }


@cache
def _lines() -> list[str]:
    return INDEX.read_text(encoding="utf-8").splitlines()


@cache
def _words() -> dict[str, list[list[str]]]:
    """Return what words each text of each clue has, by cause, in the order of the lines."""
    found: dict[str, list[list[str]]] = json.loads(_lines()[0])
    return found


@cache
def _parsed(cause: str) -> KnownError:
    table = json.loads(_lines()[2 + causes().index(cause)])
    table |= {name: tuple(value) for name, value in table.items() if isinstance(value, list)}
    return KnownError(**table | {"cause": cause, "clues": tuple(map(parse_clue, table["clues"]))})


def parse_clue(table: dict[str, Any]) -> Clue:
    """Return the clue that a table of a file means."""
    codes = tuple(map(str, table.get("codes", ())))
    find = CODE_WORDS if codes else table.get("find", ())
    return Clue(
        find=(find,) if isinstance(find, str) else tuple(find),
        match=CODE.replace("CODE", "|".join(codes)) if codes else table.get("match", ""),
        weight=table["weight"],
        needs=tuple(table.get("needs", ())),
        unless=tuple(table.get("unless", ())),
        when=table.get("when", ""),
        passing=table.get("kind") == "passing",
        setting=table.get("kind") == "setting",
        machine=table.get("machine", ""),
        codes=codes,
    )


compiled = cache(re.compile)
