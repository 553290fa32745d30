"""How certain it is that a name belongs to this machine, by the words around it.

Any GPU, maker or version that a text names is a candidate. The clause it is in may say that it is
the writer's own, wanted, replaced, in another machine, compared or asked about; the weights of
these signs, from ``clauses.toml``, add up to one score.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from gpuforge import registry

# The score from which a name counts, and that from which it counts if nothing else does.
THERE, PERHAPS = 3, 1
# Characters before a name that count as near it (half as many after it); size of a short line.
CLAUSE, SHORT_LINE = 60, 160


@dataclass(frozen=True)
class Evidence:
    """What the words around a name suggest.

    Attributes
    ----------
    score : the sum of the weights of all signs found, each kind once
    said : the kinds of signs, each with its words
    """

    score: int
    said: dict[str, re.Match[str]]


@dataclass(frozen=True)
class _Entry:
    says: str
    weight: int
    where: str
    words: re.Pattern[str]


@cache
def form(table: str, name: str) -> re.Pattern[str]:
    """Return the compiled pattern of a table's ``forms``, case-sensitive or not."""
    forms: dict[str, str] = registry.table(__file__, table)["forms"]
    return re.compile(forms[name].replace("\n", ""), re.I)


@cache
def _entries(of: str) -> tuple[_Entry, ...]:
    """Return the signs that apply to a kind of name, by descending weight."""
    table = registry.table(__file__, "clauses")["evidence"]
    mine = [one for one in table if of in one.get("of", [of])]
    entries = (
        _Entry(e["says"], e["weight"], e["where"], re.compile(e["words"].replace("\n", ""), re.I))
        for e in mine
    )
    return tuple(sorted(entries, key=lambda one: -abs(one.weight)))


def evidence_of(of: str, line: str, start: int, end: int) -> Evidence:
    """Return the evidence that the machine has what the name at `start` denotes.

    Parameters
    ----------
    of
        The kind of name: ``gpu``, ``bare``, ``maker`` or ``version``.
    """
    parts = _parts(line, start, end)
    said: dict[str, re.Match[str]] = {}
    score = 0
    for entry in _entries(of):
        if entry.says not in said and (match := entry.words.search(parts[entry.where])):
            said[entry.says] = match
            score += entry.weight
    return Evidence(score, said)


def _parts(line: str, start: int, end: int) -> dict[str, str]:
    """Return the words around a name, grouped by their distance."""
    before, after = line[:start], line[end:]
    near = before[-CLAUSE:]
    behind = re.split(r"[.!?](?=\s)", after, maxsplit=1)[0][: CLAUSE // 2]
    count = re.search(r"(?:(?<![\d.])\d{1,2}\s?[x×*]?\s?(?:-\s)?)?$", before)
    return {
        "line": line,
        "short line": line if len(line) < SHORT_LINE else "",
        "before": before,
        "to its end": line[:end],
        "near": near,
        "clause": re.split(r"(?<!e\.g)(?<!i\.e)[.!?]\s", near)[-1] + line[start:end] + behind,
        "sentence before": re.split(r"[.!?;](?=\s)|,(?=\s?my\b)", before[-40:])[-1],
        "after": after,
        "with what follows": line[start:],
        "count": (count[0] if count else "") + after,
        "around": before[-1:] + after[:1],
    }
