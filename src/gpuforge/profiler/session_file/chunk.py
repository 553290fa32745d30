"""Chunks of a session file: a kind, a checksum, and compressed JSON with columns of numbers."""

from __future__ import annotations

import json
import struct
import sys
import zlib
from array import array
from collections.abc import Iterator, Mapping
from typing import IO, Any, NamedTuple

from gpuforge.trace import as_text

VERSION, READINGS_VERSION = 2, 1
"""Versions of the file and of its chunks of readings; readers skip readings of a later version.
Files of version 1 store the attributes of each span separately."""
MAX_CHUNK_BYTES = 64 << 20
"""Limit of a decompressed chunk; writers stay far below it."""
LEVEL = 1
"""Compression level; a higher one would take longer than everything else in a recording."""
_DEEPEST = 4  # in what describes a chunk: all attributes, those of a span, one, its items
_FRAME = struct.Struct("<4sII")
_HEAD = struct.Struct("<I")
HEADER, SPANS, BESIDE, READINGS = b"HEAD", b"SPAN", b"MORE", b"READ"
REACHED, END = b"UPTO", b"DONE"
"""Kinds of chunk: header; spans; placements; series of readings; time and cost up to a flush; end
of the recording."""


class Damaged(ValueError):
    """A chunk is truncated or corrupt."""


class Chunk(NamedTuple):
    """The content of one chunk.

    Attributes
    ----------
    kind : one of `HEADER`, `SPANS`, `BESIDE`, `READINGS`, `REACHED` and `END`; others are skipped
    fields : the JSON fields
    columns : the columns by name
    """

    kind: bytes
    fields: dict[str, Any]
    columns: dict[str, array[Any]]


def encode(kind: bytes, fields: dict[str, Any], columns: Mapping[str, array[Any]]) -> bytes:
    """Return the bytes of a chunk. Values that JSON cannot represent become text."""
    described = [[name, column.typecode, len(column)] for name, column in columns.items()]
    text = _json({**fields, "columns": described})
    parts = [_HEAD.pack(len(text)), text, *(_little(c).tobytes() for c in columns.values())]
    payload = zlib.compress(b"".join(parts), LEVEL)
    return _FRAME.pack(kind, len(payload), checksum(kind, payload)) + payload


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


def decode(file: IO[bytes], most_bytes: int) -> Iterator[Chunk]:
    """Yield the chunks from here to the end of `file`.

    Raises
    ------
    Damaged
        At a chunk that is truncated, corrupt or too large, or when all decompressed chunks together
        exceed `most_bytes`.
    """
    while frame := file.read(_FRAME.size):
        if len(frame) < _FRAME.size:
            raise Damaged("it ends within a chunk")
        kind, length, told = _FRAME.unpack(frame)
        if length > MAX_CHUNK_BYTES:
            raise Damaged(f"a chunk of {length:,} bytes, more than is ever written")
        payload = file.read(length)
        if len(payload) < length:
            raise Damaged("it ends within a chunk")
        if checksum(kind, payload) != told:
            raise Damaged("the checksum of a chunk is wrong")
        body = _decompress(payload, min(MAX_CHUNK_BYTES, most_bytes))
        most_bytes -= len(body)
        yield _parse(kind, body)


def _decompress(payload: bytes, most_bytes: int) -> bytes:
    stream = zlib.decompressobj()
    try:
        body = stream.decompress(payload, most_bytes + 1)
    except zlib.error as error:
        raise Damaged(f"a chunk cannot be decompressed: {error}") from None
    if len(body) > most_bytes:
        raise Damaged("it is larger than a reader accepts")
    if not stream.eof:
        raise Damaged("the compressed data of a chunk has no end")
    return body


def _parse(kind: bytes, body: bytes) -> Chunk:
    try:
        (length,) = _HEAD.unpack_from(body)
        fields = json.loads(body[_HEAD.size : _HEAD.size + length])
        columns, place = {}, _HEAD.size + length
        for name, code, count in fields.pop("columns"):
            column = array(code)
            if code not in ("B", "I", "q", "d") or not 0 <= count <= len(body):
                raise Damaged(f"a column {name!r} of {count!r} values of kind {code!r}")
            end = place + count * column.itemsize
            if end > len(body):
                raise Damaged(f"the column {name!r} is cut off")
            column.frombytes(body[place:end])
            columns[str(name)] = _little(column)
            place = end
    except Damaged:
        raise
    except (struct.error, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Damaged(f"a chunk cannot be parsed: {error!r}") from None
    return Chunk(kind, fields, columns)


def _little(column: array[Any]) -> array[Any]:
    if sys.byteorder == "big":
        column = column[:]
        column.byteswap()
    return column
