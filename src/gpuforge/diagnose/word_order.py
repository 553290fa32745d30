"""Telling text from words in random order.

Error names are evidence only in messages, not in lists of search terms, shuffled logs or the tokens
of a vocabulary. In English, function words in impossible positions show the difference.
"""

from __future__ import annotations

import re
from functools import lru_cache

STRONG, WEAK = 2, 1
DISORDERED, SHARE = 3, 0.015
LINE_CHARACTERS = 1500
_JOINS = r"of|is|was|are|were|be|or|and|by|than|has|have|had"
_LEADS = r"of|to|in|for|with|from|by|at|than|the|an?"
_SIGNS = (
    # A sentence begins amid another one: "is Please a", but not in a title.
    (STRONG, r"(?:^|[ (])[a-z]+,? (?:The|This|If|Please|Could|Failed|Unable|Cannot|For|To|"
             r"You|It|Try|See|An?|In|As|When|Make|There|Did|Tried|Consult|Reason|Hint|Out) "),
    # A noun is missing: "with of", "the is", "a to".
    (STRONG, rf" (?:{_LEADS}) (?:{_JOINS})(?<! to be)(?<! to have)"
             r"(?<!than is)(?<!than was)(?<!with and)(?<!than and)(?= |$)"),
    (STRONG, r" (?:the|an?|your|its) (?:the|an?|in|for|to|with|at|on|as|it|you)(?= |$)"),
    (STRONG, r" (?:is|was|are|were|be) (?:is|was|are|were|has|have|had|or|and)(?= |$)"),
    (STRONG, r" (?:cannot|can|could|may|might|should|would|must) "
             r"(?:the|an?|of|to|in|for|with|from|is|are|was|were|or|and|has)(?= |$)"),
    # A sentence ends and goes on: "memory. of".
    (STRONG, rf"(?<!e\.g)(?<!i\.e)[.!] (?:{_JOINS}|with|from|that|to)(?= |$)"),
    # The name of an error belongs before its message, and after words of its own: "CMake Error:".
    (STRONG, r"(?:^|[^\w.])(?![A-Z])[\w.()']*[a-z0-9)']"
             r"(?<! an)(?<! a)(?<! the)(?<!this)(?<!ing)(?<!except) "
             r"(?:[\w.]{0,60}(?:Error|Exception|Warning)|Hint):(?= |$)"),
    (WEAK, r"(?<! an)(?<! the)(?<!this)(?<!ing) [\w.]{0,60}"
           r"(?:Error|Exception|Warning|rror|ailed|ailure):$"),
    # Lines that a screen wrapped begin and end like this too.
    (WEAK, rf"^\W{{0,3}}(?:{_JOINS}|to|been|not|in|with|from|as|that) "),
    (WEAK, rf" (?:{_JOINS}|{_LEADS}|been|not|on|this|your)$"),
    # Words that always have the same neighbour have another one.
    (STRONG, r"\(most (?!recent)|(?<!call) last\):|(?<!ile) or directory|\.py\", (?!line)"),
    (STRONG, r"^.{400,}?[^)] such (?!file|device|host|module|package|process|option|as|an?\b)"),
    (WEAK, r" line \d+, (?!in |col|char|File)"
           r"|(?<![.:]) File (?![\"'/A-Z\d])|Traceback (?!\()| No$"),
    # The value of an assignment is not a function word.
    (STRONG, rf" = (?:{_JOINS}|{_LEADS}|code|return|exits)(?= |$)"),
    (STRONG, r"\b(?:[Uu]nable (?!to\b)|[Cc]annot (?:[A-Z(:\d]|of|to|is|for|the|with))"),
    # A message neither begins in the middle of a sentence nor ends with an unfinished one.
    (WEAK, r"\A\s*(?:=|:|\)|encountered |for |at |an? )"),
    (WEAK, r" (?:while|when|-|\*\*\*)\s*\Z"),
    (WEAK, r"[a-z]{3}\. (?!so\b|dll\b)[a-z]{2,}(?= )"),
)  # fmt: skip
_PATTERNS = tuple((weight, re.compile(sign, re.MULTILINE)) for weight, sign in _SIGNS)


@lru_cache(maxsize=512)
def is_disordered(text: str) -> bool:
    """Return whether the words of `text`, in original case, are in random order."""
    found = {STRONG: DISORDERED * sum(map(_has_reversed_bracket, text.splitlines())), WEAK: 0}
    for weight, pattern in _PATTERNS:
        found[weight] += weight * len(pattern.findall(text))
    # Lines that someone wrapped have weak signs only.
    return found[STRONG] > 0 and sum(found.values()) >= max(DISORDERED, SHARE * len(text.split()))


def _has_reversed_bracket(line: str) -> bool:
    """Return whether a bracket is closed before it is opened, which does not occur in messages.

    Long lines are ignored, because they may be parts of messages with a bracket opened before.
    """
    if len(line) > LINE_CHARACTERS:
        return False
    for opening, closing in ("()", "[]", "{}"):
        depth = lowest = 0
        for bracket in re.findall(rf"[{re.escape(opening + closing)}]", line):
            depth += 1 if bracket == opening else -1
            lowest = min(lowest, depth)
        if lowest < 0 and depth > lowest:
            return True
    return False
