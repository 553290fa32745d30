"""Telling text from words in random order.

Error names are evidence only in messages, not in lists of search terms, shuffled logs or the tokens
of a vocabulary. In text, words have neighbours: "out" is followed by "of", and "of" by no full
stop. `TABLE` says how much more often than by chance, or less, two words are adjacent in reports;
rare words count by their shape. ``python tests/diagnose/word_order_table.py`` makes it.
"""

from __future__ import annotations

from collections.abc import Container
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path

TABLE = Path(__file__).with_suffix(".txt")
# A character of the table for each fifth by which a pair changes the logarithm of the odds.
CELLS = "onmlkjihgfedcba.ABCDEFGHIJKLMNO"
FIFTHS = 5
# The odds that text is in order are below one in 3,000; in a long one, not by a few pairs alone.
DISORDERED, UNUSUAL = -8.0, -0.1
# A bracket closed before it is opened, which is in one line of 1,400 of reports, outweighs a line.
REVERSED = -25.0
LINE_CHARACTERS = 1500
_CHANGE = {cell: place - len(CELLS) // 2 for place, cell in enumerate(CELLS)}
_SIGNS = "()[]{}<>\"'`.,:;!?*=-|#+~_$&%@/\\"
_OPENING = {sign: kind[0] for kind in ("([{<", "\"'`") for sign in kind}
_CLOSING = {sign: kind[0] for kind in (".!?", ",;", ":", ")]}>", "\"'`") for sign in kind}


@lru_cache(maxsize=512)
def is_disordered(text: str) -> bool:
    """Return whether the words of `text`, in original case, are in random order."""
    places, rows = _table()
    # Lines of a log resemble each other: a pair that occurs many times says no more than once.
    lines = {*text.splitlines()}
    pairs = {pair for line in lines for pair in pairwise(kinds(line, places))}
    change = sum(
        _CHANGE[rows[places[first]][places[second]]]
        for first, second in pairs
        if first in places and second in places
    )
    odds = change / FIFTHS + REVERSED * sum(map(_has_reversed_bracket, lines))
    return odds < min(DISORDERED, UNUSUAL * len(pairs))


def kinds(line: str, frequent: Container[str]) -> list[str]:
    """Return the frequent words of a line and the shapes of the others, between its two ends."""
    words = line.split()
    found = (w if (w := word.lower()) in frequent else shape(word) for word in words)
    return ["BEGIN", *found, "END"] if len(words) > 1 else []


@lru_cache(maxsize=4096)
def shape(word: str) -> str:
    """Return what a word looks like: a kind of word, after an opening and before a closing sign."""
    bare = word.strip(_SIGNS)
    if not bare:
        return f"SIGN{word[0]}"
    if bare[0].isdigit():
        kind = "NUMBER"
    elif bare.isalpha():
        kind = "WORD" if bare.islower() else "CAPITALS" if bare.isupper() else "Name"
    else:
        kind = "PATH" if "/" in bare or "\\" in bare else "IDENTIFIER"
    return _OPENING.get(word[0], "") + kind + _CLOSING.get(word[-1], "")


@cache
def _table() -> tuple[dict[str, int], list[str]]:
    """Return the place of each kind of word in the table, and the rows: one for each first word."""
    names, *rows = TABLE.read_text(encoding="utf-8").splitlines()
    return {name: place for place, name in enumerate(names.split())}, rows


def _has_reversed_bracket(line: str) -> bool:
    """Return whether a bracket is closed before it is opened, which does not occur in messages.

    Long lines are ignored, because they may be parts of messages with a bracket opened before.
    """
    if len(line) > LINE_CHARACTERS:
        return False
    for opening, closing in ("()", "[]", "{}"):
        depth = lowest = 0
        for bracket in line if closing in line and opening in line else "":
            depth += (bracket == opening) - (bracket == closing)
            lowest = min(lowest, depth)
        if lowest < 0 and depth > lowest:
            return True
    return False
