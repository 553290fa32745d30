"""A loop prepares its input on the host, then calls a placed function, always in turns.

Bound: the shorter of the two: at best one is done while the other runs.
"""

from __future__ import annotations

from collections import defaultdict

from gpuforge.profiler.advise.facts import Facts, Found
from gpuforge.profiler.model import HOST, NO_PARENT

SOURCE = "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html"


def look(facts: Facts) -> Found:
    """Return one suggestion for each part of the program and the function that follows it."""
    spans = facts.spans
    before: dict[tuple[int, int], int] = {}
    pairs: dict[tuple[int, int, str], list[tuple[int, int]]] = defaultdict(list)
    for place, parent in enumerate(spans.parent):
        here = parent, spans.lane[place]
        owner = facts.owner[place]
        if (
            owner == NO_PARENT
            and spans.label[place] == HOST
            and 2 * facts.own[place] > spans.duration[place]
        ):
            before[here] = place
        elif owner == place and here in before:
            first = before.pop(here)
            function = facts.called[place].name
            pairs[spans.name[first], parent, function].append((first, place))
    for (_, _, function), found in pairs.items():
        firsts, calls = [first for first, _ in found], [call for _, call in found]
        name = facts.name(firsts[0])
        yield facts.suggest(
            f"{function} and {name} wait for each other",
            [facts.told(firsts), facts.told(calls)],
            min(facts.time(firsts), facts.time(calls)),
            f"If {name} does not need the previous result, run it for the next piece in a "
            f"thread, or start the call with {function}.submit and fetch its result later.",
            facts.count(firsts),
            firsts[0],
        )
