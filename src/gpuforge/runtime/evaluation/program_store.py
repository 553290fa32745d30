"""Compiled programs kept for the processes to come: to load one takes a tenth of compiling it.

A file is named by a digest of everything that its program depends on: the graph, how the library
lowers it, the versions and settings of the library, the CPU. Nothing in it is therefore ever out of
date; what was not used for long is removed. The files lie in the user's own cache folder. Loading
one may run what is in it, as importing a library does.
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
    """The compiled programs that are kept in one folder.

    Parameters
    ----------
    folder
        Where they are kept; None keeps nothing.
    machine
        Fingerprint of what compiled code may depend on besides the library.
    """

    def __init__(self, folder: Path | None = None, machine: str = "") -> None:
        self._folder = folder / "programs" if folder else None
        self._machine = machine
        self._pruned = False

    def load(self, backend: Backend, graph: Graph) -> Program | None:
        """Return the program that was kept for a graph; None where there is none that loads."""
        path = self._path(backend, graph)
        if path is None:
            return None
        try:
            content = path.read_bytes()
            os.utime(path)  # it is in use
        except OSError:
            return None
        told, data = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
        if blake2b(data, digest_size=_DIGEST_BYTES).digest() != told:
            _log.info("%s is damaged: compiling again", path)
            return None
        try:
            return backend.restored(data)
        except Exception as error:  # noqa: BLE001 - then it is compiled, as it is without a file
            _log.info("%s cannot be loaded (%r): compiling again", path, error)
            return None

    def keep(self, backend: Backend, graph: Graph, program: Program) -> None:
        """Keep a compiled program, where its library can write it down."""
        if self._path(backend, graph) is None:
            return
        try:
            self.write(backend, graph, backend.stored(program))
        except Exception as error:  # noqa: BLE001 - the program runs; it is compiled again next time
            _log.info("a program of %s is not kept: %r", backend.name, error)

    def write(self, backend: Backend, graph: Graph, data: bytes) -> None:
        """Keep a compiled program that its library has written down."""
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
        """Return where the program of a graph is kept; None where it is not."""
        if self._folder is None:
            return None
        try:
            under, sources = backend.stored_under, _sources()
        except Exception as error:  # noqa: BLE001 - a library, or a package, may not tell
            _log.info("compiled programs for %s are not saved: %r", backend.name, error)
            self._folder = None
            return None
        text = repr((graph.entries, graph.outputs))
        if not under or " at 0x" in text:  # it has no name that another process would find
            return None
        whole = (text, backend.name, under, self._machine, sources)
        return self._folder / digest(repr(whole), 20)

    def _prune(self, folder: Path) -> None:
        """Remove, once a process, the files that were not used for longest if they are too many."""
        if self._pruned:
            return
        self._pruned = True
        found = sorted(os.scandir(folder), key=lambda entry: entry.stat().st_mtime)
        for entry in found[:-MAX_FILES]:
            os.unlink(entry.path)


@cache
def _sources() -> str:
    """Return a digest of the code that makes programs of graphs: times of files may be fixed."""
    runtime = Path(__file__).parents[1]
    found = blake2b()
    for folder in _SOURCES:
        for path in sorted((runtime / folder).glob("*.py")):
            found.update(path.read_bytes())
    return found.hexdigest()
