"""A result comes back from a device only to be moved there again by a later call.

Bound: the time of both moves: the one back and the one out again.
"""

from __future__ import annotations

from collections import defaultdict

from gpuforge.profiler.advise.facts import Facts, Found, Move
from gpuforge.units import format_bytes, format_ns

SOURCE = "https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/"


def look(facts: Facts) -> Found:
    """Return one suggestion for each pair of functions."""
    back: dict[object, Move] = {}
    pairs: dict[tuple[str, str, str], list[Move]] = defaultdict(list)
    for move in facts.moves:
        if move.direction == "from device":
            back[move.array] = move
        elif move.array in back:
            first = back.pop(move.array)
            callers = facts.caller(first.place), facts.caller(move.place)
            pairs[(*callers, facts.backend(move.place))] += first, move
    for (maker, user, backend), moves in pairs.items():
        time = sum(move.ns for move in moves)
        yield facts.suggest(
            f"Results of {maker} leave {backend} and return there in calls of {user}",
            [
                f"{len(moves) // 2} arrays moved back unchanged: "
                f"{format_bytes(sum(move.bytes for move in moves))} moved in "
                f"{format_ns(time)}"
            ],
            time,
            "Call both steps from one offloaded function: arrays inside it are not moved.",
            len(moves) // 2,
            moves[1].place,
        )
