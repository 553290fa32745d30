"""The only module that prints: data to stdout, messages to stderr, without relying on colour."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence

from gpuforge.errors import GpuForgeError, WorkloadError

# Foreign files and names may contain escape sequences, which a terminal would obey.
_CONTROL = (*range(9), *range(11, 32), *range(127, 160))
_HARMLESS = {code: f"\\x{code:02x}" for code in _CONTROL}
# Replacements for output that is not UTF-8; any other character becomes a backslash escape.
_ASCII = str.maketrans({"µ": "u", "×": "x", "°": "deg ", "→": "->", "…": "..."})


def data(text: str, *, utf8: bool = False) -> None:
    """Print to stdout, which `utf8` switches to UTF-8; characters it cannot encode are replaced.

    Raises
    ------
    WorkloadError
        If stdout cannot be written to, as on a full disk. A closed pipe is a `BrokenPipeError`.
    """
    try:
        if utf8:
            sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
        print(_encodable(text, sys.stdout), flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        with contextlib.suppress(OSError):  # otherwise Python would try to write it again at exit
            sys.stdout.close()
        raise WorkloadError(
            f"the output cannot be written to stdout: {error.strerror}",
            hint="check where stdout is redirected to, and whether that disk is full",
        ) from None


def document(value: Mapping[str, object]) -> None:
    """Print one JSON document."""
    import json

    data(json.dumps({"schema_version": 1, **value}, allow_nan=False))


def screen(lines: Sequence[str]) -> None:
    """Draw lines over the content of the terminal, from its upper left corner."""
    sys.stdout.write("\x1b[H" + "\x1b[K\r\n".join(lines) + "\x1b[K\x1b[J")
    sys.stdout.flush()


@contextlib.contextmanager
def whole_screen() -> Iterator[None]:
    """Use the terminal's alternate screen, without a cursor, and restore the normal one."""
    sys.stdout.write("\x1b[?1049h\x1b[?25l")
    try:
        yield
    finally:
        sys.stdout.write("\x1b[?25h\x1b[?1049l")
        sys.stdout.flush()


def message(text: str) -> None:
    """Print a message to stderr."""
    print(_encodable(text.translate(_HARMLESS), sys.stderr), file=sys.stderr, flush=True)


def last_words(text: str) -> None:
    """Print the summary of a program to its original stderr, after all its other output.

    A stream that is closed or broken by then is ignored.
    """
    with contextlib.suppress(OSError, ValueError):
        if sys.__stdout__ is not None:
            sys.__stdout__.flush()
    with contextlib.suppress(OSError, ValueError):
        text = _encodable(text.translate(_HARMLESS), sys.__stderr__)
        print(text, file=sys.__stderr__, flush=True)


def _encodable(text: str, stream: object) -> str:
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        spelt = text.translate(_ASCII)
        return spelt.encode(encoding, "backslashreplace").decode(encoding)
    return text


def failure(error: GpuForgeError) -> None:
    """Print an error and its hint."""
    message(f"error: {error}")
    if error.hint:
        message(f"hint: {error.hint}")


def table(rows: Sequence[Sequence[str]], *, heading: Sequence[str] = (), indent: str = "") -> str:
    """Return `rows` as text in aligned columns; the last column is not padded."""
    everything = [list(heading), *rows] if heading else list(rows)
    widths = [max(map(len, column)) for column in zip(*everything, strict=True)][:-1]
    lines = (
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]])
        for row in everything
    )
    return "\n".join((indent + line).rstrip() for line in lines)
