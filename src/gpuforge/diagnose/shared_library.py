"""What a shared library needs and what it offers, read from its ELF headers without loading it."""

from __future__ import annotations

import mmap
import os
import re
import struct
from dataclasses import dataclass, field
from functools import cache

_LOADED, _DYNAMIC = 1, 2  # types of segments
_NEEDED, _STRINGS, _RPATH, _RUNPATH = 1, 5, 15, 29
_HASHED, _SYMBOLS, _OFFERED = 0x6FFFFEF5, 6, 11
_VERSIONS, _VERSION_COUNT = 0x6FFFFFFE, 0x6FFFFFFF

# https://refspecs.linuxfoundation.org/elf/gabi4+/ch4.eheader.html, e_machine
_MACHINES = {3: "i386", 20: "ppc", 21: "ppc64", 22: "s390", 40: "arm", 62: "x86_64", 183: "aarch64",
             243: "riscv"}  # fmt: skip


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


@cache
def machine_of(path: str) -> str:
    """Return the machine that a program or library was compiled for; empty if it does not tell."""
    try:
        with open(path, "rb") as file:
            head = file.read(20)
    except OSError:
        return ""
    return (
        _MACHINES.get(int.from_bytes(head[18:20], "little"), "") if head[:4] == b"\x7fELF" else ""
    )


class _Dynamic:
    """The dynamic section of a library: its entries, and where what they point to is."""

    def __init__(self, held: mmap.mmap) -> None:
        self.held = held
        start, count = *struct.unpack_from("<Q", held, 32), *struct.unpack_from("<H", held, 56)
        # A segment: type, flags, file offset, virtual address, physical address, size in the file.
        segments = [struct.unpack_from("<IIQQQQ", held, start + 56 * n) for n in range(count)]
        self._loaded = [segment for segment in segments if segment[0] == _LOADED]
        offset, size = next((s[2], s[5]) for s in segments if s[0] == _DYNAMIC)
        self.entries = list(struct.iter_unpack("<QQ", held[offset : offset + size]))
        self.values = dict(self.entries)
        self.strings = self.place(self.values[_STRINGS])

    def place(self, address: int) -> int:
        """Return where in the file an address is."""
        return int(
            next(
                at + address - s for _, _, at, s, _, size in self._loaded if s <= address < s + size
            )
        )

    def text(self, at: int) -> bytes:
        return self.held[self.strings + at : self.held.find(b"\0", self.strings + at)]


class Offered:
    """The symbols that a library offers, looked up in its own table of hashes."""

    def __init__(self, path: str) -> None:
        with open(path, "rb") as file:
            self._held = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._dynamic = _Dynamic(self._held)
        self._table = self._dynamic.place(self._dynamic.values[_HASHED])
        self._symbols = self._dynamic.place(self._dynamic.values[_SYMBOLS])
        self._buckets, self._first, self._words, _ = struct.unpack_from(
            "<4I", self._held, self._table
        )

    def close(self) -> None:
        self._held.close()

    def has(self, name: bytes, hashed: int) -> bool:
        """Return whether the library offers a symbol, of which the hash is given."""
        buckets = self._table + 16 + 8 * self._words
        (at,) = struct.unpack_from("<I", self._held, buckets + 4 * (hashed % self._buckets))
        chains = buckets + 4 * (self._buckets - self._first)
        while at >= self._first:
            (found,) = struct.unpack_from("<I", self._held, chains + 4 * at)
            if found | 1 == hashed | 1:
                start, _, _, section = struct.unpack_from(
                    "<IBBH", self._held, self._symbols + 24 * at
                )
                if section and self._dynamic.text(start) == name:
                    return True
            if found & 1:
                return False
            at += 1
        return False


def hash_of(name: bytes) -> int:
    """Return the hash of a symbol in the tables of libraries (DT_GNU_HASH)."""
    value = 5381
    for byte in name:
        value = (value * 33 + byte) & 0xFFFFFFFF
    return value


def asked_of(path: str, like: re.Pattern[bytes]) -> list[bytes]:
    """Return the symbols that match and that a library certainly needs from others."""
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as held:
            if held[:6] != b"\x7fELF\x02\x01":
                return []
            dynamic = _Dynamic(held)
            start, each, count = (
                *struct.unpack_from("<Q", held, 40),
                *struct.unpack_from("<HH", held, 58),
            )
            sections = [struct.unpack_from("<IIQQQQ", held, start + each * n) for n in range(count)]
            place, size = next((s[4], s[5]) for s in sections if s[1] == _OFFERED)
            entries = struct.iter_unpack("<IBBHQQ", held[place : place + size])
            # Undefined, and not weak.
            names = (dynamic.text(e[0]) for e in entries if not e[3] and e[1] >> 4 == 1)
            return [name for name in names if like.match(name)]
    except (OSError, ValueError, KeyError, StopIteration, struct.error):
        return []


def _read(held: mmap.mmap, origin: str) -> Needs:
    dynamic = _Dynamic(held)
    entries, values, place = dynamic.entries, dynamic.values, dynamic.place

    def text(at: int) -> str:
        return dynamic.text(at).decode()

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
