"""Line breaks that a terminal or a mail put into messages.

A terminal cuts lines at its width, also within words; mails and editors break them before the word
that does not fit. None of them marks its breaks, so that `rejoined` is only a second reading.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

# Narrower and wider than these, lines are as a program wrote them.
NARROWEST, WIDEST = 40, 240
# One line may be as long as a terminal is wide; of another length, several must be equally long.
TERMINALS = (80, 100, 120, 132)
_QUOTED = re.compile(r"^(?:> ?)+", re.MULTILINE)
# Here a sentence ends, and there a message begins, whether or not the next word had fitted.
_ENDS = (".", "!", "?")
_BEGINS = re.compile(r"\d{4}-\d\d|\S+:(?:\s|$)")


def rejoined(text: str) -> Iterator[str]:
    """Yield `text` with its broken lines joined, likely readings first; line numbers are kept."""
    lines = _QUOTED.sub("", text.replace("\t", " ")).split("\n")
    width = max((len(line) for line in lines if " " in line.strip()), default=0)
    if not NARROWEST <= width <= WIDEST:
        return
    pairs = [*pairwise(lines)]
    cut = {line for line, _ in pairs if len(line) == width}
    full = {line for line, after in pairs if len(line) != width and _is_full(line, after, width)}
    more = len(cut) - len(full)
    if more > 1 or (more == 1 and width in TERMINALS):
        # Where a space was cut off, the line is shorter by one.
        joints = ({width: "", width - 1: " "}.get(len(line)) for line in lines)
        yield _joined(lines, joints)
    if more < 3:
        yield _joined(lines, (" " if _is_full(*pair, width) else None for pair in pairs))


def _is_full(line: str, after: str, width: int) -> bool:
    """Return whether the first word of the line `after` did not fit in `line`."""
    word = after.split(maxsplit=1)[0] if after[:1].strip() else ""
    fits = not word or len(line) + len(word) < width
    return not fits and not line.endswith(_ENDS) and not _BEGINS.match(after)


def _joined(lines: list[str], joints: Iterator[str | None]) -> str:
    """Return the lines with what is between them; None is a line break that stays."""
    parts, moved = [lines[0]], ""
    for after, joint in zip(lines[1:], joints, strict=False):
        moved = f"{moved}\n"
        if joint is None:
            joint, moved = moved, ""
        parts += [joint, after]
    return "".join([*parts, moved])
