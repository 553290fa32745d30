"""Where the dynamic linker would find a shared library, without loading it."""

from __future__ import annotations

import os
import re
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from gpuforge.facts import known

if TYPE_CHECKING:
    from gpuforge.diagnose.site import Site

CACHE = "/etc/ld.so.cache"
DEFAULT = ("/lib64", "/usr/lib64", "/lib", "/usr/lib")


class LibrarySearch:
    """Looks libraries up as the linker does: first variables, then its cache, then the environment.

    Libraries of the environment are the last resort: their packages may load them themselves.
    """

    def __init__(self, site: Site) -> None:
        self._site = site
        self._listed: dict[str, frozenset[str]] = {}
        self._found: dict[tuple[str, tuple[str, ...]], str | None] = {}
        self._first = tuple(
            f for f in site.probe.environ.get("LD_LIBRARY_PATH", "").split(":") if f
        )

    @cached_property
    def cached(self) -> bytes:
        """The linker's cache; empty if there is none, and then nothing is known."""
        return known(self._site.probe.read_bytes(CACHE)) or b"" if self._site.live else b""

    @cached_property
    def beside(self) -> dict[str, str]:
        """The libraries of the environment by name."""
        site, library = self._site, f"{self._site.environment.prefix}/lib"
        found = {path.rpartition("/")[2]: f"{one.folder}/{path}"
                 for one in site.distributions for path, _ in one.libraries}  # fmt: skip
        return found | {name: f"{library}/{name}" for name in self._names(library)}

    def find(self, name: str, folders: tuple[str, ...] = ()) -> str | None:
        """Return the path of a library, looked for in `folders` too; None if there is none."""
        key = name, folders
        if key not in self._found:
            self._found[key] = self._search(name, folders)
        return self._found[key]

    def has(self, pattern: str) -> bool:
        """Return whether any library has a name in which ``*`` stands for any text."""
        if "*" not in pattern:
            plain = self.find(pattern, DEFAULT)
            return plain is not None
        like = re.escape(pattern).replace(r"\*", r"[^/\0\n]*")
        folders = (*self._first, *DEFAULT)
        names = [*self.beside, *(name for folder in folders for name in self._names(folder))]
        listed = re.search(rb"/%b\0" % like.encode(), self.cached)
        return listed is not None or any(re.fullmatch(like, name) for name in names)

    def _search(self, name: str, folders: tuple[str, ...]) -> str | None:
        places = (*self._first, *folders)
        if folder := next((f for f in places if name in self._names(f)), None):
            return os.path.normpath(f"{folder}/{name}")
        end = self.cached.find(f"/{name}\0".encode())
        start = self.cached.rfind(b"\0", 0, max(end, 0)) + 1
        listed = self.cached[start : end + 1 + len(name)].decode() if end >= 0 else ""
        return listed if listed and Path(listed).exists() else self.beside.get(name)

    def _names(self, folder: str) -> frozenset[str]:
        if folder not in self._listed:
            self._listed[folder] = frozenset(known(self._site.probe.list_dir(folder)) or ())
        return self._listed[folder]
