"""Which words are neighbours in reports: the table by which `word_order` knows disorder.

usage: python tests/diagnose/word_order_table.py    (after a change to the reports)
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from math import log
from pathlib import Path

from gpuforge.diagnose.log import clean, in_english
from gpuforge.diagnose.word_order import CELLS, FIFTHS, TABLE, kinds

HERE = Path(__file__).parent
FREQUENT = 100
LONGEST_WORD = 12
# Kinds of words with fewer neighbours than this are left out; so many pairs are added to what is
# counted and to what is expected, so that few observations say little.
FEWEST, ADDED = 15, 0.3


def texts() -> list[str]:
    """Return the reports and messages that are kept as tests."""
    reports = map(json.loads, _lines("fresh_reports/cases.jsonl"))
    messages = map(json.loads, _lines("worded_messages.jsonl"))
    return [report["text"] for report in reports] + [message for _, message, *_ in messages]


def _lines(name: str) -> list[str]:
    return (HERE / name).read_text(encoding="utf-8").splitlines()


def build_table(texts: Iterable[str]) -> str:
    """Return the table: the kinds of words, and for each a row with a cell per neighbour."""
    reports = [{*in_english(clean(text)).splitlines()} for text in texts]
    frequent = _frequent(reports)
    pairs = Counter(
        pair
        for lines in reports
        for words in {tuple(kinds(line, frequent)) for line in lines}
        for pair in pairwise(words)
    )
    firsts, seconds = Counter[str](), Counter[str]()
    for (first, second), count in pairs.items():
        firsts[first] += count
        seconds[second] += count
    total = pairs.total()
    names = sorted(one for one in firsts | seconds if (firsts | seconds)[one] >= FEWEST)

    def cell(first: str, second: str) -> str:
        expected = firsts[first] * seconds[second] / total
        odds = log((pairs[first, second] + ADDED) / (expected + ADDED))
        middle = len(CELLS) // 2
        return CELLS[middle + max(-middle, min(middle, round(odds * FIFTHS)))]

    rows = ("".join(cell(first, second) for second in names) for first in names)
    return "\n".join([" ".join(names), *rows, ""])


def _frequent(reports: Iterable[set[str]]) -> set[str]:
    """Return the words that occur in the most reports."""
    counts = Counter[str]()
    for lines in reports:
        counts.update({w for line in lines for w in line.lower().split() if len(w) <= LONGEST_WORD})
    # Of words in equally many reports, the first of the alphabet, so that all machines agree.
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    return {*ranked[:FREQUENT]}


if __name__ == "__main__":
    TABLE.write_text(build_table(texts()), encoding="utf-8")
