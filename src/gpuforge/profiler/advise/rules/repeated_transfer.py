"""The same array is moved to a device again, with unchanged contents.

Bound: the time of all moves of the array but the first.
"""

from __future__ import annotations

from collections import defaultdict

from gpuforge.profiler.advise.facts import Facts, Found, Move
from gpuforge.units import format_bytes, format_ns

SOURCE = "https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/"


def look(facts: Facts) -> Found:
    """Return one suggestion for each function and backend."""
    moves: dict[tuple[str, str], dict[object, list[Move]]] = defaultdict(lambda: defaultdict(list))
    for move in facts.moves:
        if move.direction == "to device" and move.array[-1] is not None:
            caller = facts.caller(move.place), facts.backend(move.place)
            moves[caller][move.array].append(move)
    for (function, backend), arrays in moves.items():
        again = [move for found in arrays.values() for move in found[1:]]
        if not again:
            continue
        most = max(arrays.values(), key=lambda found: sum(move.ns for move in found[1:]))
        time, moved = sum(move.ns for move in again), sum(move.bytes for move in again)
        yield facts.suggest(
            f"{function} moves unchanged arrays to {backend} again",
            [
                f"{len(again)} transfers of arrays that had already been transferred: "
                f"{format_bytes(moved)} in {format_ns(time)}",
                f"mostly one array of {format_bytes(most[0].bytes)}: {len(most)} times",
            ],
            time,
            "Move the loop into the offloaded function, so that the array is moved once; or pass "
            "an array of the backend's own library, which stays on the device.",
            len(again),
            most[0].place,
        )
