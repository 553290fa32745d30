"""Compiled programs stored for later processes: loading one takes a tenth of compiling it.

A file is named by a digest of everything that its program depends on: the graph, its lowering, the
library's version and settings, the CPU. So no file is ever out of date; the least recently used
ones are removed. The files are in the user's own cache folder. Loading one may execute its content,
as importing a library does.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from gpuforge import stored
from gpuforge.digest import blake2b, digest
from gpuforge.log import logger
from gpuforge.runtime.array.graph import Graph
from gpuforge.runtime.backends import Backend, Program

_log = logger("programs")
MAX_FILES = 2000
MAX_FILE_BYTES = 1 << 22
_DIGEST_BYTES = 32
_SOURCES = ("array", "array/operations", "lowering", "backends", "evaluation")


class ProgramStore:
    """The compiled programs stored in one folder.

    Parameters
    ----------
    folder
        Where they are stored; None stores nothing.
    machine
        Fingerprint of everything else that compiled code may depend on.
    """

    def __init__(self, folder: Path | None = None, machine: str = "") -> None:
        self._folder = folder / "programs" if folder else None
        self._machine = machine
        self._pruned = False

    def load(self, backend: Backend, graph: Graph) -> Program | None:
        """Return the stored program of a graph; None if there is none that loads."""
        path = self._path(backend, graph)
        if path is None:
            return None
        try:
            content = path.read_bytes()
            os.utime(path)  # recently used
        except OSError:
            return None
        told, data = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
        if blake2b(data, digest_size=_DIGEST_BYTES).digest() != told:
            _log.info("%s is damaged: compiling again", path)
            return None
        try:
            return backend.restored(data)
        except Exception as error:  # noqa: BLE001 - then it is compiled
            _log.info("%s cannot be loaded (%r): compiling again", path, error)
            return None

    def keep(self, backend: Backend, graph: Graph, program: Program) -> None:
        """Store a compiled program, if its library can serialize it."""
        if self._path(backend, graph) is None:
            return
        try:
            self.write(backend, graph, backend.stored(program))
        except Exception as error:  # noqa: BLE001 - the program runs; it is compiled again next time
            _log.info("a program of %s is not kept: %r", backend.name, error)

    def write(self, backend: Backend, graph: Graph, data: bytes) -> None:
        """Store a serialized compiled program."""
        path = self._path(backend, graph)
        if path is None:
            return
        try:
            if 0 < len(data) <= MAX_FILE_BYTES:
                content = blake2b(data, digest_size=_DIGEST_BYTES).digest() + data
                stored.write(path, content, parents=True, durable=False)
                self._prune(path.parent)
        except OSError as error:  # the program runs; it is compiled again next time
            _log.info("a program of %s is not kept: %r", backend.name, error)

    def _path(self, backend: Backend, graph: Graph) -> Path | None:
        """Return the file for the program of a graph; None if it cannot be stored."""
        if self._folder is None:
            return None
        try:
            under, sources = backend.stored_under, _sources()
        except Exception as error:  # noqa: BLE001 - a library, or a package, may not tell
            _log.info("compiled programs for %s are not saved: %r", backend.name, error)
            self._folder = None
            return None
        text = repr((graph.entries, graph.outputs))
        if not under or " at 0x" in text:  # it contains an address
            return None
        whole = (text, backend.name, under, self._machine, sources)
        return self._folder / digest(repr(whole), 20)

    def _prune(self, folder: Path) -> None:
        """Remove the least recently used files if there are too many, once per process."""
        if self._pruned:
            return
        self._pruned = True
        found = sorted(os.scandir(folder), key=lambda entry: entry.stat().st_mtime)
        for entry in found[:-MAX_FILES]:
            os.unlink(entry.path)


@cache
def _sources() -> str:
    """Return a digest of the code that compiles graphs; modification times may be fixed."""
    runtime = Path(__file__).parents[1]
    found = blake2b()
    for folder in _SOURCES:
        for path in sorted((runtime / folder).glob("*.py")):
            found.update(path.read_bytes())
    return found.hexdigest()
