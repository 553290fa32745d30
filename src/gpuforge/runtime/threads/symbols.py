"""Functions of a loaded library that it does not export, found by the symbol table of its file.

The copy of OpenBLAS in NumPy's wheels exports few functions since NumPy 2.5, but keeps the table.
Sources: System V ABI, chapter 4 (ELF: sections, symbol table); proc_pid_maps(5).
"""

from __future__ import annotations

import ctypes
import re
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

_ELF64_LITTLE = b"\x7fELF\x02\x01"
_SYMBOL_TABLE = 2
_FUNCTION = 2
_SECTION = np.dtype(
    [("name", "<u4"), ("kind", "<u4")]
    + [(name, "<u8") for name in ("flags", "address", "offset", "size")]
    + [("link", "<u4"), ("info", "<u4"), ("align", "<u8"), ("entry", "<u8")]
)
_SYMBOL = np.dtype(
    {
        "names": ["name", "info", "other", "section", "address", "size"],
        "formats": ["<u4", "u1", "u1", "<u2", "<u8", "<u8"],
    }
)


def addresses(path: Path, names: Sequence[str], exported: str, there: int) -> dict[str, int]:
    """Return the addresses of functions in a loaded library, as far as they are found.

    Nothing is found on other systems than Linux, in a file that is not ELF of 64 bits and low byte
    order or has no symbol table, and where the code in memory is not the code in the file.

    Parameters
    ----------
    path
        The file of the library.
    names
        The functions.
    exported, there
        Name and address of a function that the library exports; the others are found from it.

    Raises
    ------
    OSError, ValueError, IndexError, OverflowError, MemoryError, struct.error
        If the file is gone, or is cut off or damaged.
    """
    low, high = _mapping(there)
    made: dict[str, int] = {}
    with path.open("rb") as file:

        def part(offset: int, size: int) -> bytes:
            file.seek(offset)
            return file.read(size)

        if not high or part(0, 6) != _ELF64_LITTLE:
            return {}
        begin, number = struct.unpack("<Q", part(40, 8))[0], struct.unpack("<H", part(60, 2))[0]
        sections = np.frombuffer(part(begin, number * _SECTION.itemsize), _SECTION)
        tables = sections[sections["kind"] == _SYMBOL_TABLE]
        for table, texts in zip(tables, sections[tables["link"]], strict=True):
            symbols = np.frombuffer(part(int(table["offset"]), int(table["size"])), _SYMBOL)
            text = part(int(texts["offset"]), int(texts["size"]))
            found = {name: _named(symbols, text, name) for name in (*names, exported)}
            origin = found.pop(exported)
            for name, symbol in found.items():
                if origin is None or symbol is None or not symbol["size"]:
                    continue
                section, size = sections[symbol["section"]], int(symbol["size"])
                inside = int(symbol["address"]) - int(section["address"])
                address = there + int(symbol["address"]) - int(origin["address"])
                loaded = low <= address and address + size <= high
                code = part(int(section["offset"]) + inside, size)
                if loaded and ctypes.string_at(address, size) == code:
                    made[name] = address
    return made


def _mapping(address: int) -> tuple[int, int]:
    """Return the bounds of the part of a mapped file that holds an address; zeros if unknown."""
    maps = Path("/proc/self/maps")
    for line in maps.read_text().splitlines() if maps.exists() else ():
        low, _, high = line.split(maxsplit=1)[0].partition("-")
        if int(low, 16) <= address < int(high, 16):
            return int(low, 16), int(high, 16)
    return 0, 0


def _named(symbols: np.ndarray[Any, Any], text: bytes, name: str) -> Any:
    """Return the function with a name; None if there is none, or more than one."""
    starts = [place.start() for place in re.finditer(re.escape(name.encode()) + b"\0", text)]
    defined = (symbols["info"] & 15 == _FUNCTION) & (symbols["section"] != 0)
    found = symbols[np.isin(symbols["name"], starts) & defined]
    return found[0] if len(found) == 1 else None
