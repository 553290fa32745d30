"""Store files: atomic replacement, and serialization of values.

A reader sees either the old content or the new one, never a part, also after a crash or on a full
disk. Values are JSON in which a dataclass is an object that names its class.
"""

from __future__ import annotations

import json
import os
import time
import zlib
from collections.abc import Mapping
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from gpuforge.errors import WorkloadError

T = TypeVar("T")

_CLASS, _TUPLE = "@", "@tuple"
_ABANDONED_SECONDS = 3600.0


class Damaged(ValueError):
    """A stored text differs from what was written."""


def write(path: Path, content: str | bytes, *, parents: bool = False, durable: bool = True) -> None:
    """Replace the file at `path` by one with `content`, which is on disk when this returns.

    The mode of an existing file is kept, a link to a file stays a link, and a device or a pipe is
    written to instead of being replaced.

    Parameters
    ----------
    parents
        Create missing folders.
    durable
        False: do not wait for the disk; after a crash of the machine the file may be damaged.

    Raises
    ------
    OSError
        If it cannot be written. The old content is then still there.
    """
    data = content.encode("utf-8") if isinstance(content, str) else content
    if path.exists() and not path.is_file():
        path.write_bytes(data)
        return
    path = Path(os.path.realpath(path))
    if parents:
        path.parent.mkdir(parents=True, exist_ok=True)
    _clear_abandoned(path)
    part = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}.part")
    try:
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        with open(handle, "wb") as file:
            with suppress(OSError):  # there is no old file, or its mode cannot be given
                os.chmod(part, os.stat(path).st_mode & 0o7777)
            file.write(data)
            file.flush()
            if durable:
                os.fsync(handle)
        os.replace(part, path)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise


def write_output(path: Path, content: str | bytes) -> None:
    """Write the file that a user asked for.

    Raises
    ------
    WorkloadError
        If it cannot be written.
    """
    try:
        write(path, content)
    except OSError as error:
        raise WorkloadError(
            f"{str(path)!r} cannot be written: {error.strerror or error}", hint="name another file"
        ) from None


def _clear_abandoned(path: Path) -> None:
    """Remove temporary files of processes that were killed while writing `path`."""
    with suppress(OSError):
        for part in path.parent.glob(f".{path.name}.*.part"):
            if time.time() - part.stat().st_mtime > _ABANDONED_SECONDS:
                part.unlink()


def dumps(value: Any, *, indent: int | None = None) -> str:
    """Serialize a value of dataclasses, tuples and JSON types."""
    separators = (",", ":") if indent is None else None
    return json.dumps(_plain(value), indent=indent, separators=separators)


def loads(text: str, classes: Mapping[str, type[Any]]) -> Any:
    """Return the value that `dumps` wrote, whose dataclasses are among `classes`.

    Raises
    ------
    Damaged
        If `text` is not what `dumps` wrote.
    """
    try:
        return json.loads(text, object_hook=partial(_rebuilt, classes))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise Damaged(f"{type(error).__name__}: {error}") from None


def loads_as(kind: type[T], text: str) -> T:
    """Return the dataclass `kind` that `dumps` wrote, checking the type of each field.

    For files that may have been edited, or written by another version.

    Raises
    ------
    Damaged
        If `text` is not such a value; the message names the first field that is wrong.
    """
    found = loads(text, {kind.__name__: kind})
    if isinstance(found, dict):  # an earlier release named no class
        named = get_type_hints(kind)
        missing = [name for name in named if name not in found]
        if missing:
            raise Damaged(f"{missing[0]!r} is missing")
        found = kind(**{name: found[name] for name in named})
    if not isinstance(found, kind):
        raise Damaged("it holds something else")
    check(found)
    return found


def check(value: Any) -> None:
    """Raise `Damaged` if a field of a dataclass does not have its type."""
    for name, hint in get_type_hints(type(value)).items():
        if not _fits(getattr(value, name), hint):
            raise Damaged(f"{name} is not {getattr(hint, '__name__', hint)}")


def sealed(text: str) -> str:
    """Return `text` prefixed with its checksum."""
    return f"{zlib.crc32(text.encode()):08x} {text}"


def unsealed(text: str) -> str:
    """Return the text of `sealed`, or raise `Damaged` if it has changed since."""
    checksum, _, body = text.partition(" ")
    if checksum != f"{zlib.crc32(body.encode('utf-8', 'replace')):08x}":
        raise Damaged("the checksum does not match")
    return body


@cache
def _names(kind: type) -> tuple[str, ...]:
    from dataclasses import fields  # takes 3 ms to import

    return tuple(field.name for field in fields(kind))


def _plain(value: Any) -> Any:
    if hasattr(type(value), "__dataclass_fields__"):
        kind: type = type(value)
        return {_CLASS: kind.__name__, **{n: _plain(getattr(value, n)) for n in _names(kind)}}
    if isinstance(value, tuple):
        return {_TUPLE: [_plain(item) for item in value]}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return value


def _rebuilt(classes: Mapping[str, type[Any]], value: dict[str, Any]) -> Any:
    if _TUPLE in value:
        return tuple(value[_TUPLE])
    if _CLASS in value:
        return classes[value.pop(_CLASS)](**value)
    return value


def _fits(value: Any, hint: Any) -> bool:
    """Return whether a value and its items match a type."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(_fits(value, one) for one in inner)
    if origin is Literal:
        return value in inner
    if origin is dict:
        return isinstance(value, dict) and all(_fits(item, inner[1]) for item in value.values())
    if origin is tuple:
        each = [inner[0]] * len(value) if inner[-1] is ... and isinstance(value, tuple) else inner
        return isinstance(value, tuple) and len(value) == len(each) and all(map(_fits, value, each))
    return hint is Any or isinstance(value, hint)
