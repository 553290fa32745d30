"""The dependencies of a shared library, read from its ELF headers without loading it."""

from __future__ import annotations

import mmap
import os
import struct
from dataclasses import dataclass, field

_LOADED, _DYNAMIC = 1, 2  # types of segments
_NEEDED, _STRINGS, _RPATH, _RUNPATH = 1, 5, 15, 29
_VERSIONS, _VERSION_COUNT = 0x6FFFFFFE, 0x6FFFFFFF


@dataclass(frozen=True)
class Needs:
    """The dependencies that the loader resolves.

    Attributes
    ----------
    libraries : names of other libraries
    folders : folders that are searched before the system's
    interfaces : required symbol versions, such as ``GLIBC_2.34``, by library
    """

    libraries: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    interfaces: dict[str, tuple[str, ...]] = field(default_factory=dict)


def needs_of(path: str) -> Needs:
    """Return the dependencies of a library; none if it is missing, damaged or not ELF64."""
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as held:
            return _read(held, os.path.dirname(path)) if held[:6] == b"\x7fELF\x02\x01" else Needs()
    except (OSError, ValueError, KeyError, StopIteration, struct.error):
        return Needs()  # damaged files are another check's finding


def _read(held: mmap.mmap, origin: str) -> Needs:
    start, count = *struct.unpack_from("<Q", held, 32), *struct.unpack_from("<H", held, 56)
    # A segment: type, flags, file offset, virtual address, physical address, size in the file.
    segments = [struct.unpack_from("<IIQQQQ", held, start + 56 * n) for n in range(count)]
    loaded: list[tuple[int, ...]] = [segment for segment in segments if segment[0] == _LOADED]

    def place(address: int) -> int:
        return next(at + address - s for _, _, at, s, _, size in loaded if s <= address < s + size)

    offset, size = next((s[2], s[5]) for s in segments if s[0] == _DYNAMIC)
    entries = list(struct.iter_unpack("<QQ", held[offset : offset + size]))
    values = dict(entries)
    strings = place(values[_STRINGS])

    def text(at: int) -> str:
        return held[strings + at : held.find(b"\0", strings + at)].decode()

    named = values.get(_RUNPATH, values.get(_RPATH))
    path = text(named).replace("${ORIGIN}", "$ORIGIN").replace("$ORIGIN", origin) if named else ""
    interfaces, at = {}, place(values[_VERSIONS]) if _VERSIONS in values else 0
    for _ in range(values.get(_VERSION_COUNT, 0)):
        _, several, library, first, following = struct.unpack_from("<HHIII", held, at)
        names, inner = [], at + first
        for _ in range(several):
            name, step = struct.unpack_from("<8xII", held, inner)
            names.append(text(name))
            inner += step
        interfaces[text(library)] = tuple(names)
        at += following
    libraries = tuple(text(value) for tag, value in entries if tag == _NEEDED)
    return Needs(libraries, tuple(filter(None, path.split(":"))), interfaces)
