"""Values as text of the languages that plans are exported in: none can end its own quotes."""

from __future__ import annotations

import json
from collections.abc import Iterable


def quoted(text: str) -> str:
    """Return `text` as a double-quoted string of TOML, YAML and JSON alike.

    Control characters and line separators are escaped as all three read them.
    """
    body = json.dumps(text, ensure_ascii=False)
    return "".join(char if _plain(char) else f"\\u{ord(char):04x}" for char in body)


def quoted_list(items: Iterable[str]) -> str:
    """Return a TOML array, one item a line."""
    lines = "".join(f"    {quoted(item)},\n" for item in items)
    return f"[\n{lines}]"


def comment(text: str) -> str:
    """Return `text` as one comment line: no line end or control character survives."""
    return "# " + " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _plain(char: str) -> bool:
    return char.isprintable() or ord(char) > 0xFFFF
