"""Facts to text and back, exactly: JSON in which a dataclass is an object that names its class."""

from __future__ import annotations

import json
import zlib
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

from gpuforge import facts
from gpuforge.detect.seen import Seen, Sighting

CLASSES: dict[str, Any] = {
    one.__name__: one
    for one in (*vars(facts).values(), Seen, Sighting)
    if isinstance(one, type) and is_dataclass(one)
}
_CLASS, _TUPLE = "@", "@tuple"


@cache
def _names(cls: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(cls))


def plain(value: Any) -> Any:
    """Return `value` as what JSON can hold."""
    if is_dataclass(value):
        kind: type = type(value)
        return {_CLASS: kind.__name__, **{n: plain(getattr(value, n)) for n in _names(kind)}}
    if isinstance(value, tuple):
        return {_TUPLE: [plain(item) for item in value]}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    return value


def _rebuilt(value: dict[str, Any]) -> Any:
    if _TUPLE in value:
        return tuple(value[_TUPLE])
    if _CLASS in value:
        return CLASSES[value.pop(_CLASS)](**value)
    return value


def dumps(value: Any) -> str:
    """Return facts as text, a checksum before them."""
    text = json.dumps(plain(value), ensure_ascii=True, separators=(",", ":"))
    return f"{zlib.crc32(text.encode()):08x} {text}"


def loads(text: str) -> Any:
    """Return the facts in `text`, or None when it is not what `dumps` wrote."""
    checksum, _, body = text.partition(" ")
    try:
        if int(checksum, 16) != zlib.crc32(body.encode()):
            return None
        return json.loads(body, object_hook=_rebuilt)
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
