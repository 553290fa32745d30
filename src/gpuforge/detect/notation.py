"""Parsers for vendors' notations: addresses, ids, sizes, and the many words for "unknown"."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, TypeVar

from gpuforge import registry
from gpuforge.detect.seen import Facts as Facts

T = TypeVar("T")
_ADDRESS = re.compile(
    r"(?<![0-9a-f:.])(?:([0-9a-f]{1,8}):)?([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])(?![0-9a-f])", re.I
)
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?i?b?)(?:ytes)?", re.I)
# Vendor tools print MB for 2^20 bytes; WMI, KFD and sysfs give plain bytes.
_SCALE = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_NOTHING = re.compile(
    r"|n/?a|none|null|unknown( error)?|not (supported|available|specified|applicable|found)|"
    r"err!?|unset|xx+|(gpu|cpu)-xx|gpu is lost|gpu requires reset|insufficient permissions|"
    r"requested functionality has been deprecated|deprecated.*|invalid|auto-?detect|redacted|"
    r"no such file.*|unspecified|to be filled.*|\w+ chip model",
    re.I,
)
_FRAME = " []()<>{}-_:;,.*'\"|"
_BARE_ID = re.compile(r"(?!a[18]00$|b[123]00$)(0x)?[0-9a-f]{3,8}|(device )(0x)?[0-9a-f]{4}", re.I)
LIMIT_BYTES = 2**50
LINE_LIMIT, ROW_LIMIT = 1000, 100_000


def word(text: object) -> str | None:
    """Return `text` on one line, or None for any placeholder that means "unknown"."""
    line = " ".join("".join(c if c.isprintable() else " " for c in str(text)[:400]).split())
    return None if text is None or _NOTHING.fullmatch(line.strip(_FRAME)) else line


def name_of(text: object) -> str | None:
    """Return a product name, or None for an id in its place."""
    found = word(text)
    return None if found is None or _BARE_ID.fullmatch(found) or len(found) > 200 else found


def is_virtual(product: str) -> bool:
    """Return whether NVIDIA's name of a GPU is that of a virtual one, such as GRID V100D-32C."""
    return re.match(r"GRID (?!K\d)|.+-\d+[ABCQ]$", product) is not None


_SERIES = re.compile(
    r"\b(RTX|GTX?|GTS|RX|U?HD|R[579](?=-?[2-4]\d\d)|Arc|Tesla|Quadro|Vega|Radeon)-?(?=[A-Z]?\d)",
    re.I,
)


@lru_cache(maxsize=4096)  # merging compares each name with many
def product_of(name: str) -> frozenset[str]:
    """Return the words of a model name, such as 3090 and ti; in lspci's names, those in brackets.

    >>> product_of("GA102 [GeForce RTX 3090 Ti]") == product_of("NVIDIA GeForce RTX 3090 Ti")
    True
    """
    inside = re.search(r"\[([^\]]*)\]\s*$", name[:200])
    text = as_makers_write(inside[1] if inside else name[:200]).lower()
    text = re.sub(r"(?<=\d)(ti|super|xtx?|gre)\b", r" \1", text)
    words = r"\b[a-z]*\d{2,}[a-z]*\b|\bti\b|\bsuper\b|(?<=\d )(?:xtx?|gre)\b|\bm\d\b"
    return frozenset(re.findall(words + r"|(?<=\bm\d )(?:pro|max|ultra)\b", text))


def as_makers_write(name: str) -> str:
    """Return a name spaced as its maker spells it: people write RTX3090, rx-7900 and MI-350."""
    return re.sub(r"\bMI-(?=\d)", "MI", _SERIES.sub(r"\1 ", name))


def whole(text: object, base: int = 10) -> int | None:
    """Return a non-negative whole number of at most 64 bits."""
    try:
        found = int(str(text).strip()[:40], base)
    except ValueError:
        return None
    return found if 0 <= found < 2**64 else None


def pci_address(text: object) -> str | None:
    """Return the first PCI address in `text` as ``0000:01:00.0``."""
    match = _ADDRESS.search(str(text)[:400])
    if match is None or int(match[3], 16) > 31:
        return None
    return f"{int(match[1] or '0', 16):04x}:{match[2]}:{match[3]}.{match[4]}".lower()


def pci_address_of(domain: object, bus: object, device: object, function: object = 0) -> str | None:
    """Return the address with these numbers, or None if one is out of range."""
    numbers = [whole(part) for part in (domain, bus, device, function)]
    a, b, c, d = (-1 if number is None else number for number in numbers)
    if not (0 <= a < 2**32 and 0 <= b < 256 and 0 <= c < 32 and 0 <= d < 8):
        return None
    return f"{a:04x}:{b:02x}:{c:02x}.{d:x}"


def pci_id(vendor: object, device: object) -> str | None:
    """Return ``10de:2204`` from two hexadecimal words, with or without ``0x``."""
    numbers = [whole(part, 16) for part in (vendor, device)]
    if any(number is None or not 0 < number < 0xFFFF for number in numbers):
        return None
    return f"{numbers[0]:04x}:{numbers[1]:04x}"


def size(text: object, unit: str = "") -> int | None:
    """Return bytes from ``8192 MiB`` or a bare number in `unit`; None for no size and for zero."""
    match = _SIZE.fullmatch(str(text).replace(",", "").strip()[:60])
    if match is None:
        return None
    scale = _SCALE[(match[2] or unit)[:1].lower()]
    found = int(match[1]) * scale if match[1].isdigit() else round(float(match[1]) * scale)
    return found if 0 < found < LIMIT_BYTES else None


def usage_of(text: str) -> Facts:
    """Return total and free memory from ``11MiB / 4799MiB``; MB and MiB both are 2^20 bytes."""
    match = re.search(r"\b(\d{1,12})\s*(?:Mi?B)?\s*/\s*(\d{1,12})\s*Mi?B\b", text)
    used, total = (int(match[1]) * 2**20, size(match[2], "M")) if match else (0, None)
    if total is None or used > total:
        return {}
    return {"memory_total_bytes": total, "memory_free_bytes": total - used}


def free_of(total: int | None, used: int | None) -> int | None:
    """Return the free bytes, or None if the numbers are missing or inconsistent."""
    return total - used if total and used is not None and used <= total else None


def gfx(text: object) -> str | None:
    """Return AMD's architecture name from ``gfx90a``, ``GFX1200`` or an ISA string."""
    match = re.search(r"gfx([0-9]{1,2}[0-9a-f]{2})(?![0-9a-z])", str(text)[:200], re.I)
    return f"gfx{match[1]}".lower() if match else None


def gfx_of_target(number: int | None) -> str | None:
    """Return ``gfx90a`` from KFD's 90010: decimal fields, the last two become hex digits.

    Source: Linux ``drivers/gpu/drm/amd/amdkfd/kfd_device.c``, gfx_target_version.
    """
    if not number or number >= 1_000_000:
        return None
    major, minor, step = number // 10_000, number // 100 % 100, number % 100
    return f"gfx{major}{minor:x}{step:x}" if minor < 16 and step < 16 else None


def kept(**facts: Any) -> Facts:
    """Return the facts that are known."""
    return {name: value for name, value in facts.items() if value is not None}


def lines_of(text: str) -> list[str]:
    """Return the lines of `text`, truncated to a length that no tool exceeds.

    A regular expression holds the GIL while it runs, so no time limit can interrupt it: its
    input must be short.
    """
    return [line[:LINE_LIMIT] for line in text.splitlines()]


def rows_of(text: str) -> list[list[str]]:
    """Return the rows of a CSV text, its cells stripped."""
    import csv

    try:
        rows = list(csv.reader(line[:ROW_LIMIT] for line in text.splitlines()))
    except csv.Error:
        return []
    return [[cell.strip() for cell in row] for row in rows if row]


def fields_of(text: str, separator: str = ":") -> dict[str, str]:
    """Return ``key: value`` lines as a dict; the first occurrence of a key counts."""
    found: dict[str, str] = {}
    for line in lines_of(text):
        key, mark, value = line.partition(separator)
        if mark:
            found.setdefault(key.strip(), value.strip())
    return found


def words_of(tool: str) -> dict[str, list[str]]:
    """Return the names that a tool's releases use for each fact."""
    found: dict[str, list[str]] = registry.table(__file__, "tool_words")[tool]
    return found


def told(fields: Mapping[str, T], tool: str) -> dict[str, T]:
    """Return a tool's fields by fact: for each fact, the first of its names that is present."""
    found = {
        fact: [fields[name] for name in names if name in fields]
        for fact, names in words_of(tool).items()
    }
    return {fact: values[0] for fact, values in found.items() if values}


def json_of(text: str, sign: str = "") -> Any:
    """Return the JSON that `text` begins with, or None.

    In text that contains `sign`, a line of warnings may come first.
    """
    import json

    if text.lstrip()[:1] not in ("{", "[") and not (sign and sign in text):
        return None
    starts = [place for mark in "[{" if (place := text.find(mark)) >= 0]
    for start in sorted(starts):
        try:
            return json.JSONDecoder().raw_decode(text, start)[0]
        except (ValueError, RecursionError):
            continue
    return None


def flat(record: Mapping[Any, Any]) -> dict[str, Any]:
    """Flatten a nested record: lower-case keys, prefixed with their section and a ``/``.

    ``{"value": 8, "unit": "GB"}`` is one value.
    """
    found: dict[str, Any] = {}
    for key, value in record.items():
        name = str(key).strip(" :").lower()
        if not isinstance(value, dict):
            found.setdefault(name, value)
        elif "value" in value:
            found.setdefault(name, f"{value['value']} {value.get('unit', '')}")
        else:
            for inner, part in flat(value).items():
                found.setdefault(f"{name}/{inner}", part)
    return found


def records(value: Any) -> list[dict[str, Any]]:
    """Return the dicts of a JSON list, or the lists inside a JSON object."""
    if isinstance(value, dict):
        lists = [inner for inner in value.values() if isinstance(inner, list)]
        value = lists[0] if lists else [value]
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
