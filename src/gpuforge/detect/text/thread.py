"""The posts of an issue thread: its opener describes the machine, others often have another one."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuforge.detect.notation import lines_of

_DAY = r"(?:\d+ \w+ ago|yesterday|last \w+|(?:on )?\w{3,9}\.? \d{1,2}(?:, \d{4})?|\d{4}-\d\d-\d\d)"
# The line above a post on GitHub's pages, in the output of its command line, or in copies of them.
_HEADS = (
    re.compile(
        rf"^@?(?P<who>[\w-]{{1,39}})(?:\[bot\])?\s+(?P<does>opened|commented|replied|posted|wrote)"
        rf"(?: this issue)?\s+(?:{_DAY})"
    ),
    re.compile(
        rf"^(?P<who>[\w-]{{1,39}})(?:\[bot\])? [·•] (?:(?P<does>\w[\w ]{{1,20}}) [·•] )?(?:{_DAY})"
    ),
    re.compile(r"^author:\s+(?P<who>[\w-]{1,39})$"),
    # In text copied from a page, the name is on the line above.
    re.compile(rf"^(?P<does>opened|commented|replied)(?:\s+(?:{_DAY}).*)?$"),
)
LINE_LIMIT = 120
_NAME = re.compile(r"@?[\w-]{1,39}")
_OPENS = ("opened", "description")


def opening_posts(text: str) -> str:
    """Return the posts of the one who opened a thread; the lines of others become empty.

    A text without heads of posts is returned as it is. If more than three lines precede the first
    head and it does not open the thread, those lines are the opener's, whose name is unknown.
    """
    lines = lines_of(text)
    heads = list(_heads(lines))
    if not heads:
        return text
    first, opener, does = heads[0]
    above = [line for line in lines[:first] if line.strip()]
    if does not in _OPENS and len(above) > 3:
        opener = ""
    if all(who == opener for _, who, _ in heads):
        return text
    ends = [*(number for number, _, _ in heads[1:]), len(lines)]
    for (number, who, _), end in zip(heads, ends, strict=True):
        last = number + 1 if who == opener else end  # the head itself contains no facts
        lines[number:last] = [""] * (last - number)
    return "\n".join(lines)


def _heads(lines: list[str]) -> Iterator[tuple[int, str, str]]:
    """Yield the line number, the author and the verb of each head of a post."""
    for number, line in enumerate(lines):
        bare = line.strip()
        heads = (head.match(bare) for head in _HEADS if len(bare) < LINE_LIMIT)
        match = next(filter(None, heads), None)
        if match is None:
            continue
        told = match.groupdict()
        near = (one.strip() for one in reversed(lines[max(0, number - 3) : number]))
        above = next(filter(None, near), "")
        who = told.get("who") or (above if _NAME.fullmatch(above) else "")
        if who:
            yield number, who.lower(), told.get("does") or ""
