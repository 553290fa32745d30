"""Texts of the profiled program as a page can show them: of any length, with any character."""

from __future__ import annotations

import re
from html import escape

LONGEST = 300
"""Characters of a name that are shown."""
_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)
"""What is not seen, changes the direction of the text after it, or cannot be encoded."""


def legible(value: object, limit: int = LONGEST) -> str:
    r"""Return `value` as one line: hidden characters as ``\u202e``, cut after `limit` of them."""
    found = str(value)
    if len(found) > limit:
        found = f"{found[:limit]}… ({len(found):,} characters)"
    return _HIDDEN.sub(lambda match: f"\\u{ord(match[0]):04x}", found)


def html(value: object, limit: int = LONGEST) -> str:
    """Return `value` as `legible` text for an element or a quoted attribute."""
    return escape(legible(value, limit))
