"""Chunks of a session file: a kind, a checksum, and compressed JSON with columns of numbers."""

from __future__ import annotations

import json
import struct
import sys
import zlib
from array import array
from collections.abc import Mapping
from typing import Any

from gpuforge.trace import as_text

VERSION, READINGS_VERSION = 2, 1
"""Versions of the file and of its chunks of readings; readers skip readings of a later version.
Files of version 1 store the attributes of each span separately."""
MAX_CHUNK_BYTES = 64 << 20
"""Limit of a decompressed chunk; writers stay far below it."""
LEVEL = 1
"""Compression level; a higher one would take longer than everything else in a recording."""
_DEEPEST = 4  # in what describes a chunk: all attributes, those of a span, one, its items
FRAME, HEAD = struct.Struct("<4sII"), struct.Struct("<I")
"""What is before a chunk: its kind, length and checksum; and before its JSON: the JSON's length."""
HEADER, SPANS, BESIDE, READINGS = b"HEAD", b"SPAN", b"MORE", b"READ"
REACHED, END = b"UPTO", b"DONE"
"""Kinds of chunk: header; spans; placements; series of readings; time and cost up to a flush; end
of the recording."""


def encode(kind: bytes, fields: dict[str, Any], columns: Mapping[str, array[Any]]) -> bytes:
    """Return the bytes of a chunk. Values that JSON cannot represent become text."""
    described = [[name, column.typecode, len(column)] for name, column in columns.items()]
    text = _json({**fields, "columns": described})
    parts = [HEAD.pack(len(text)), text, *(little(c).tobytes() for c in columns.values())]
    payload = zlib.compress(b"".join(parts), LEVEL)
    return FRAME.pack(kind, len(payload), checksum(kind, payload)) + payload


def _json(fields: dict[str, Any]) -> bytes:
    try:
        return json.dumps(fields, default=str).encode("ascii")
    except Exception:  # noqa: BLE001 - an attribute may hold itself, have no text, or be changing
        return json.dumps(_plain(fields)).encode("ascii")


def _plain(value: Any, depth: int = 0) -> Any:
    """Return a value in JSON types, with containers inside an attribute's own as text."""
    if depth < _DEEPEST and isinstance(value, dict):
        return {as_text(key): _plain(inner, depth + 1) for key, inner in dict.copy(value).items()}
    if depth < _DEEPEST and isinstance(value, list | tuple):
        kind: Any = list if isinstance(value, list) else tuple  # methods of its own may fail
        return [_plain(inner, depth + 1) for inner in kind.__iter__(value)]
    short = isinstance(value, int) and value.bit_length() <= 64
    return value if short or isinstance(value, float | str | None) else as_text(value)


def checksum(kind: bytes, payload: bytes) -> int:
    """Return the checksum of a chunk, which includes its kind."""
    return zlib.crc32(payload, zlib.crc32(kind))


def little(column: array[Any]) -> array[Any]:
    """Return a column of this machine in the byte order of files, and the reverse."""
    if sys.byteorder == "big":
        column = column[:]
        column.byteswap()
    return column
