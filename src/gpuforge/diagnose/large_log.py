"""Reducing a long log to a searchable size, in time linear in its length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

REPEATING = 2**16
KEPT_BYTES = 3 * 2**19
MANY_LINES = 2_000_000
PIECE = 4096
BINARY_SHARE = 0.02
_DIGITS = b"0123456789"
_CONTROLS = bytes({*range(32), 127} - {*b"\t\n\r\x08\x1b"})
_REPLACED = "\ufffd".encode()
_FAULT = tuple(
    b"error fail cannot could exception kill fault illegal memory unsupported mismatch nvrm".split()
)


def reduced(text: str) -> str:
    """Return the informative lines of a large log; line numbers do not change.

    Binary data is removed; of lines that differ only in digits the first and the last are kept. If
    that is not enough, only the two ends and lines that mention a fault are kept.
    """
    lines = _without_binary(text.encode("utf-8", "replace")).rsplit(b"\n", MANY_LINES)
    passed = lines[0].count(b"\n")
    if passed:
        lines[0] = b""
    forms = [line.translate(None, _DIGITS) for line in lines]
    last = dict(zip(forms, range(len(lines)), strict=True))
    first = dict(zip(reversed(forms), range(len(lines) - 1, -1, -1), strict=True))
    shown = {number: lines[number] for number in sorted({*first.values(), *last.values()})}
    if sum(map(len, shown.values())) > KEPT_BYTES:
        shown = _ends_and_faults(shown)
    left = [b""] * len(lines)
    for number, line in shown.items():
        left[number] = line
    return "\n" * passed + b"\n".join(left).decode("utf-8", "replace")


def _without_binary(data: bytes) -> bytes:
    parts = []
    for start in range(0, len(data), PIECE):
        block = data[start : start + PIECE]
        controls = len(block) - len(block.translate(None, _CONTROLS))
        binary = max(controls, block.count(_REPLACED) // 10) > BINARY_SHARE * len(block)
        parts.append(b"\n" * block.count(b"\n") if binary else block)
    return b"".join(parts)


def _ends_and_faults(lines: dict[int, bytes]) -> dict[int, bytes]:
    pieces = [
        (number, line[start : start + PIECE])
        for number, line in lines.items()
        for start in range(0, len(line), PIECE)
    ]
    third = KEPT_BYTES // 3
    begin = list(_filling(pieces, third))
    end = list(_filling(reversed(pieces[len(begin) :]), third))[::-1]
    middle = pieces[len(begin) : len(pieces) - len(end)]
    faults = _filling((piece for piece in middle if _tells_of_fault(piece[1])), third)
    chosen: dict[int, bytes] = {}
    for number, piece in (*begin, *faults, *end):
        chosen[number] = chosen.get(number, b"") + piece
    return chosen


def _tells_of_fault(piece: bytes) -> bool:
    folded = piece.lower()
    return any(word in folded for word in _FAULT)


def _filling(pieces: Iterable[tuple[int, bytes]], budget: int) -> Iterator[tuple[int, bytes]]:
    """Yield the first pieces whose total size is within `budget` bytes."""
    for piece in pieces:
        budget -= len(piece[1])
        if budget < 0:
            return
        yield piece
