"""Telling from a traceback that a file hides the module that was to be imported."""

from __future__ import annotations

import re

BEFORE, AFTER = 700, 1400
_FILE = re.compile(r'file "(?P<folder>[^"\n]*?)(?P<name>\w+)\.py", line \d+')
# The module site imports the two of these names from wherever they are.
_IMPORT = (
    r"\s+(?:from|import) (?!(?:site|user)customize)(?P<module>\w+)[^\n]*\n(?:[ \t]+[\^~ ]+\n)?"
)
_IMPORTED = re.compile(rf'file "(?P<file>[^"\n]+)", line \d+[^\n]*\n{_IMPORT}[^\n]*\Z')
_IMPORTS = re.compile(rf"[^\n]*\n{_IMPORT}(?P<next>[^\n]*)")
_LIBRARY = re.compile(r"[/\\](site|dist)-packages[/\\]|[/\\]lib(64)?[/\\](python[\d.]+[/\\])?")
# Where modules are at the top of a library's folder; some packages put their copies on the path.
_TOP = re.compile(
    r"[/\\]((site|dist)-packages|lib(64|-dynload)?|(lib-)?python[\d.]*|[^/\\]*\.(egg|zip|whl))[/\\]\Z"
    r"|[/\\]_?vendor(ed)?[/\\]"
)
# The module was found, but it is not what it should be; one that is missing is not hidden.
_NOT_IT = (
    r"partially initialized module '{0}'|from '{0}'|module '{0}' has no|'{0}' is not a package"
)


def hides_module(text: str, position: int) -> bool:
    """Return whether the file of the frame at `position` in lower-case `text` hides a module.

    A library imported a module of this name and got this file, or this file imported itself.
    """
    frame = _FILE.match(text, position)
    if not frame or _TOP.search(frame["folder"]):
        return False
    before = _IMPORTED.search(text, max(0, position - BEFORE), position)
    if before and before["module"] == frame["name"] and _LIBRARY.search(before["file"]):
        return _folder(before["file"]) != frame["folder"]
    after = _IMPORTS.match(text, position, position + AFTER)
    if not after or after["module"] != frame["name"] or _LIBRARY.search(frame["folder"]):
        return False
    again = _FILE.match(after["next"].strip())
    if again:
        return again["name"] == frame["name"] and not _LIBRARY.search(again["folder"])
    return bool(re.search(_NOT_IT.format(re.escape(frame["name"])), after["next"]))


def _folder(file: str) -> str:
    return re.split(r"[^/\\]*\Z", file)[0]
