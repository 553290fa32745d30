"""The content of other programs' settings files: what a file sets, or why it cannot be read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

Settings = dict[str, str]
_RC_LINE = re.compile(r"(?m)^\s*([\w.-]+)\s*:\s*([^#\n]*?)\s*(?:#.*)?$")
_IS_PAIR = re.compile(r"[^\s].*?:(?:\s|$)|[{?&!*\[]")
_YAML_LINE = re.compile(r"(?m)^([\w-]+):[ ]+([^\s#&*!|>{\[][^#\n]*?)\s*(?:#.*)?$")
# Patterns as text: most projects do not need them, and `re` compiles and caches them.
_PYTEST_SECTION = (
    r"(?ms)^\[(?:tool\.pytest(?:\.ini_options)?|tool:pytest|pytest)\][ \t]*$(.*?)(?=^\[|\Z)"
)
_ADDOPTS = r"(?ms)^addopts\s*=(.*?)(?=^[\w\[]|\Z)"


def settings_in(content: bytes, format_name: str) -> Settings:
    """Return the plain settings in a file.

    Raises
    ------
    ValueError
        If a program that reads the format certainly refuses the file.
    """
    return _READERS[format_name](content.decode())


def _json(text: str) -> Settings:
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError(f"it holds a {type(found).__name__}, not settings by name")
    return dict(_flattened(found))


def _flattened(found: dict[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    for key, value in found.items():
        if isinstance(value, dict):
            yield from _flattened(value, f"{above}{key}.")
        elif isinstance(value, str | bool):
            yield f"{above}{key}", value if isinstance(value, str) else str(value).lower()


def _ini(text: str) -> Settings:
    from configparser import Error, RawConfigParser

    parser = RawConfigParser()
    try:
        parser.read_string(text)
    except Error as error:
        raise ValueError(str(error).replace("\n", " ")) from None
    return {f"{s}.{key}": value or "" for s in parser.sections() for key, value in parser.items(s)}


def _toml(text: str) -> Settings:
    import tomllib

    tomllib.loads(text)
    return {}


def _yaml(text: str) -> Settings:
    """Return the settings in YAML, for which Python has no parser: only clear faults are told."""
    lines = [line for line in text.splitlines() if line.strip() and line.lstrip()[0] != "#"]
    tops = [
        one for one in lines if not one[0].isspace() and not one.startswith(("---", "...", "%"))
    ]
    if tops and all(one.startswith("- ") or one == "-" for one in tops):
        raise ValueError("it holds a list, not settings by name")
    if tops and not any(_IS_PAIR.match(one) for one in tops):
        raise ValueError("it holds text, not settings by name")
    tabbed = next((one for one in lines if re.match(r"[ ]*\t\s*[\w-]+:", one)), "")
    if tabbed and not re.search(r"[|>{\[\"']", text):
        raise ValueError(f"a tab indents {tabbed.strip()!r}, where YAML wants spaces")
    return dict(_YAML_LINE.findall(text))


def _traitlets(text: str) -> Settings:
    """Return the names in the lists that a configuration in Python, as of IPython, sets."""
    plain = re.sub(r"(?m)^\s*#.*$", "", text)
    lists = re.findall(r"(?m)^c\.([\w.]+)[ \t]*=[ \t]*\[([^\]]*)\]", plain)
    held = ((key, re.findall(r"['\"]([\w.]+)['\"]", names)) for key, names in lists)
    return {f"{key}.{name}": "true" for key, names in held for name in names}


def _rc(text: str) -> Settings:
    return dict(_RC_LINE.findall(text))


def _addopts(text: str) -> Settings:
    """Return the options that pytest takes from its section; nothing if there is no section."""
    if text.startswith("\ufeff"):
        raise ValueError("it begins with a byte order mark")
    section = re.search(_PYTEST_SECTION, text)
    given = re.search(_ADDOPTS, section[1]) if section else None
    plain = re.sub(r"(?m)(?:^|\s)#.*$|[\"',\[\]]", " ", given[1]) if given else ""
    return {"addopts": " ".join(plain.split())} if section else {}


_READERS: dict[str, Callable[[str], Settings]] = {
    "json": _json, "ini": _ini, "toml": _toml, "yaml": _yaml, "rc": _rc,
    "addopts": _addopts, "traitlets": _traitlets,
}  # fmt: skip
