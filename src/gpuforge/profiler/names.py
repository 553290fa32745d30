"""Making names and texts of the profiled program, which may contain anything, safe to show."""

from __future__ import annotations

import re

LONGEST_TEXT = 1000
# Control characters that a terminal would obey, line breaks, and bidirectional formatting marks.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]+")


def text(value: object, longest: int = LONGEST_TEXT) -> str:
    """Return `value` as encodable text, truncated to `longest` characters."""
    found = str(value)
    if len(found) > longest:
        found = found[: longest - 1] + "…"
    return found.encode("utf-8", "replace").decode("utf-8")


def line(value: object, longest: int = LONGEST_TEXT) -> str:
    """Return `value` as one line of text without control characters."""
    return _CONTROL.sub(" ", text(value, longest))


def path(names: tuple[str, ...], longest: int = LONGEST_TEXT) -> str:
    """Return a call path as one line; of an overlong one, only the end."""
    found = " > ".join(line(name) for name in names)
    return found if len(found) <= longest else "…" + found[len(found) - longest + 1 :]
