"""Reading the chunks of a session file, which may be damaged or made to do harm."""

from __future__ import annotations

import json
import struct
import zlib
from array import array
from collections.abc import Iterator
from typing import IO, Any, NamedTuple

from gpuforge.profiler.session_file.chunk import FRAME, HEAD, MAX_CHUNK_BYTES, checksum, little


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


def decode(file: IO[bytes], most_bytes: int) -> Iterator[Chunk]:
    """Yield the chunks from here to the end of `file`.

    Raises
    ------
    Damaged
        At a chunk that is truncated, corrupt or too large, or when all decompressed chunks together
        exceed `most_bytes`.
    """
    while frame := file.read(FRAME.size):
        if len(frame) < FRAME.size:
            raise Damaged("it ends within a chunk")
        kind, length, told = FRAME.unpack(frame)
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
        (length,) = HEAD.unpack_from(body)
        fields = json.loads(body[HEAD.size : HEAD.size + length])
        columns, place = {}, HEAD.size + length
        for name, code, count in fields.pop("columns"):
            column = array(code)
            if code not in ("B", "I", "q", "d") or not 0 <= count <= len(body):
                raise Damaged(f"a column {name!r} of {count!r} values of kind {code!r}")
            end = place + count * column.itemsize
            if end > len(body):
                raise Damaged(f"the column {name!r} is cut off")
            column.frombytes(body[place:end])
            columns[str(name)] = little(column)
            place = end
    except Damaged:
        raise
    except (struct.error, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Damaged(f"a chunk cannot be parsed: {error!r}") from None
    return Chunk(kind, fields, columns)
