"""The known errors: one TOML file each, combined in one index.

Reading a hundred TOML files takes longer than an explanation, so `INDEX` contains their content: on
the first line the words of the clues by cause, on the second the contexts, on the third what is
said in other languages, then one file per line.
Only files whose words occur in the log are parsed. After a change, run
``python tests/diagnose/known_errors_index.py`` to write the index again.
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
# Programs print the number of a CUDA error with one of these words, as in "failed with code 700".
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
    find : lower-case texts, one of which must occur in the log as whole words
    codes : CUDA error numbers, one of which the line must contain; replaces `find` and `match`
    match : regular expression that the same line must match; empty for none
    weight : probability of the cause if this is the only sign
    needs, unless : texts or ``@context`` names, of which one must occur, or none may occur
    when : name of a predicate for the line; empty for none
    passing : whether healthy logs contain this line, too
    setting : whether lines that show arguments, settings and packages count as well
    machine : kind of a detection failure that counts as this sign; empty for none
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
    """One known cause of errors: its description, its clues, and what to do.

    Attributes
    ----------
    cause : its id, which is the name of the file
    safe_fix : whether an automatic repair is safe
    repaired_by : the check of ``doctor`` that offers such a repair; empty if none does
    yields_to : causes that this one is a consequence of, or less precise than; ``*`` for any
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
    """Return all known errors by id."""
    return {cause: _parsed(cause) for cause in causes()}


def candidates(words: frozenset[str]) -> dict[str, KnownError]:
    """Return the known errors with at least one clue whose words are all in `words`."""
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
        If there is no cause with that id.
    """
    if cause not in causes():
        raise UnknownName.among("cause", cause, causes(), listing="gpuforge doctor --list")
    return _parsed(cause)


def causes() -> tuple[str, ...]:
    """Return the ids of all known errors."""
    return tuple(_words())


@dataclass(frozen=True)
class Sign:
    """A sign of a context: whole words, and a pattern for their line (empty for any line)."""

    text: str
    match: str


@cache
def contexts() -> dict[str, tuple[Sign, ...]]:
    """Return the signs of all contexts by name."""
    return {
        name: tuple(Sign(one, "") if isinstance(one, str) else Sign(*one) for one in signs)
        for name, signs in json.loads(_lines()[1]).items()
    }


@cache
def said_elsewhere() -> tuple[tuple[str, str], ...]:
    """Return what is said in other languages, the longest first, and what it is in English."""
    said = [(one, here) for here, there in json.loads(_lines()[2]).items() for one in there]
    return tuple(sorted(said, key=lambda pair: -len(pair[0])))


@cache
def _lines() -> list[str]:
    return INDEX.read_text(encoding="utf-8").splitlines()


@cache
def _words() -> dict[str, list[list[str]]]:
    """Return the words of each text of each clue, by cause, in the order of the index."""
    found: dict[str, list[list[str]]] = json.loads(_lines()[0])
    return found


@cache
def _parsed(cause: str) -> KnownError:
    table = json.loads(_lines()[3 + causes().index(cause)])
    table |= {name: tuple(value) for name, value in table.items() if isinstance(value, list)}
    return KnownError(**table | {"cause": cause, "clues": tuple(map(parse_clue, table["clues"]))})


def parse_clue(table: dict[str, Any]) -> Clue:
    """Return the clue that a TOML table defines."""
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
