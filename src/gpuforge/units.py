"""Bytes and seconds to text and back, by one rounding rule: three significant digits.

Base units everywhere else: an int of bytes, a float of seconds.
"""

from __future__ import annotations

import re

from gpuforge.errors import InvalidSettings

_BYTE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_DECIMAL = {"kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12, "pb": 10**15}
_BINARY = {unit.lower(): 1024**power for power, unit in enumerate(_BYTE_UNITS)}
_SHORT = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4, "p": 1024**5}
_TIME_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
_QUANTITY = r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([a-zµ]*)\s*"


def significant(value: float) -> str:
    """Return `value` with three significant digits and no exponent: 1.23, 12.3, 123, 1234."""
    size = abs(value)
    places = 2 if size < 9.995 else 1 if size < 99.95 else 0
    text = f"{value:.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def format_bytes(count: int) -> str:
    """Return `count` bytes as text in binary units: 1536 is ``1.5 KiB``."""
    size = float(count)
    for unit in _BYTE_UNITS[:-1]:
        if abs(size) < 1023.5:
            return f"{significant(size)} {unit}"
        size /= 1024
    return f"{significant(size)} {_BYTE_UNITS[-1]}"


def format_seconds(seconds: float) -> str:
    """Return a duration as text: ``870 ns``, ``4.1 ms``, ``12.3 s``, ``3 min 20 s``."""
    size = abs(seconds)
    if size < 999.5e-9:
        return f"{significant(seconds * 1e9)} ns"
    if size < 999.5e-6:
        return f"{significant(seconds * 1e6)} µs"
    if size < 0.9995:
        return f"{significant(seconds * 1e3)} ms"
    if size < 99.95:
        return f"{significant(seconds)} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def format_ns(ns: float) -> str:
    """Return a duration in nanoseconds as text, as `format_seconds` does."""
    return format_seconds(ns / 1e9)


def counted(number: int, noun: str) -> str:
    """Return ``1 run``, ``2 runs``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def parse_bytes(text: object) -> int:
    """Return the number of bytes that `text` means.

    ``512``, ``4 KiB``, ``1.5GiB``, ``2 GB`` (decimal) and ``8g`` (binary) are understood.

    Raises
    ------
    InvalidSettings
        If `text` is not a size, or is negative.
    """
    if isinstance(text, int) and not isinstance(text, bool) and text >= 0:
        return text
    match = re.fullmatch(_QUANTITY, str(text), re.IGNORECASE)
    sizes: dict[str, int] = {**_BINARY, **_DECIMAL, **_SHORT}
    scale = sizes.get(match[2].lower()) if match else None
    if match is None or scale is None:
        raise InvalidSettings(f"{text!r} is not a size in bytes", hint="use for example '4GiB'")
    return round(float(match[1]) * scale)


def parse_seconds(text: object, what: str = "") -> float:
    """Return the seconds that `text` means: ``90``, ``1.5 s``, ``250ms``; an error names `what`.

    Raises
    ------
    InvalidSettings
        If `text` is not a duration, or is negative.
    """
    if isinstance(text, int | float) and not isinstance(text, bool) and 0 <= text < float("inf"):
        return float(text)
    match = re.fullmatch(_QUANTITY, str(text), re.IGNORECASE)
    scale = _TIME_UNITS.get(match[2].lower() or "s") if match else None
    if match is None or scale is None:
        raise InvalidSettings(
            f"{what}{text!r} is not a duration", hint="use for example '1.5s' or '250ms'"
        )
    return float(match[1]) * scale
