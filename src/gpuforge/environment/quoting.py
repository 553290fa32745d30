"""Safe quoting of values in exported files: no value can break out of its quotes."""

from __future__ import annotations

import json
from collections.abc import Iterable


def quoted(text: str) -> str:
    """Return `text` as a double-quoted string that is valid in TOML, YAML and JSON.

    Control characters and line separators are escaped.
    """
    body = json.dumps(text, ensure_ascii=False)
    return "".join(char if _plain(char) else f"\\u{ord(char):04x}" for char in body)


def quoted_list(items: Iterable[str]) -> str:
    """Return a TOML array with one item per line."""
    lines = "".join(f"    {quoted(item)},\n" for item in items)
    return f"[\n{lines}]"


def comment(text: str) -> str:
    """Return `text` as one comment line, with line breaks and control characters as spaces."""
    return "# " + " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _plain(char: str) -> bool:
    return char.isprintable() or ord(char) > 0xFFFF
