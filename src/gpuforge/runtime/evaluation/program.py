"""A graph prepared for one backend: steps to run in order, or one compiled program.

The steps are planned once per graph: entries that no output needs are left out, values are dropped
after their last use, and a write reuses the memory of an array that is no longer needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any

from gpuforge.runtime.array.graph import INPUT, NUMBER, OWN, REPEAT, Graph, Repetition, Tape
from gpuforge.runtime.lowering.contract import Lowering

Guard = Callable[..., Any]
Step = tuple[Callable[..., Any], tuple[int, ...], tuple[Any, ...], int, Guard | None, Guard | None,
             tuple[int, ...]]  # fmt: skip
"""function, places of inputs, parameters, place, guard, guard of the result, values to drop"""


class Program:
    """Computes the outputs of one graph from its inputs.

    Attributes
    ----------
    inputs : places of the graph's inputs, in order
    roots : for each entry, the entry whose memory it may share
    steps : in the order in which they run
    runs, seen : how often it ran, and was requested
    eager : whether a guard can stop it; compiled programs always run to their end
    sought : whether a compiled form was looked up in the store
    is_loaded : whether its compiled form is from the store
    is_untried : whether its compiled form was loaded and has not run yet
    checks_finite : whether outputs are checked for values that are not finite
    modes : what NumPy does about floating-point errors in the call, by kind of error
    shared : for each output, whether it may share memory with an input or another one
    owned : inputs that it may overwrite

    Parameters
    ----------
    lowering
        How its steps are computed; None if it runs elsewhere, as a whole.
    """

    def __init__(
        self, graph: Graph, lowering: Lowering | None, owned: frozenset[int] = frozenset()
    ) -> None:
        self.graph, self.owned = graph, owned
        self.runs = 0
        self.seen = 0
        self.shared: list[bool] = []
        self.inputs = [i for i, entry in enumerate(graph.entries) if entry[0] in (INPUT, NUMBER)]
        self.arrays = [graph.entries[i][0] is INPUT for i in self.inputs]
        if lowering is not None:
            self.roots = _roots(graph, lowering)
            self.steps = _plan(graph, lowering, self.roots, owned)
            self.finite = lowering.finite
        self.checks_finite = True
        self.modes: Mapping[str, str] = {}
        self.eager = True
        self.sought = self.is_loaded = self.is_untried = False
        self.compiled: Callable[..., Any] | None = None

    def see(self, tape: Tape) -> None:
        """Look at the tape of a graph before its first run."""

    def __call__(self, *given: Any) -> tuple[list[Any], list[Any], list[Any]]:
        """Return the outputs, the guards' results, and whether each output is finite.

        If a guard's result is true, NumPy must settle. The last list is empty unless
        `checks_finite`.
        """
        values: list[Any] = [None] * len(self.graph.entries)
        for place, value in zip(self.inputs, given, strict=True):
            values[place] = value
        fired: list[Any] = []
        for function, places, params, place, guard, result_guard, drop in self.steps:
            taken = [values[p] for p in places]
            if guard is not None:
                fired.append(guard(*taken, *params))
                if fired[-1] is True or (self.eager and bool(fired[-1])):
                    return [], [True], []
            result = values[place] = function(*taken, *params)
            if result_guard is not None:
                fired.append(result_guard(result))
            for old in drop:
                values[old] = None
        made = [values[place] for place in self.graph.outputs]
        if not self.checks_finite:
            return made, fired, []
        return made, fired, [self.finite(value) for value in made if is_inexact(value)]


def _plan(
    graph: Graph, lowering: Lowering, roots: list[int], owned: frozenset[int]
) -> tuple[Step, ...]:
    needed, last = _uses(graph)
    ends: dict[int, int] = {}
    for place, use in last.items():
        ends[roots[place]] = max(ends.get(roots[place], -1), use)
    given = {i for i, entry in enumerate(graph.entries) if entry[0] in (INPUT, NUMBER)}
    drops: dict[int, list[int]] = {}
    for place, use in last.items():
        if use < len(graph.entries) and place not in given:
            drops.setdefault(use, []).append(place)
    steps: list[Step] = []
    fenced = _fenced(graph, needed) if lowering.fence else set()
    for place in sorted(needed - given):
        operation, places, params = graph.entries[place]
        name = operation.name
        function = lowering.functions.get(name) or OWN[name].compute
        guard, result_guard = lowering.guards.get(name), lowering.result_guards.get(name)
        if operation is REPEAT:
            params, result_guard = (_turn(params[0], lowering), *params), _fired_in_turns
        free = name in lowering.reusing and _is_free(places, place, roots, ends, given - owned)
        if free and not _repeats(graph, places[0], lowering):
            function = lowering.reusing[name]
        if place in fenced:
            function = _fence(function, lowering.fence)
        steps.append(
            (function, places, params, place, guard, result_guard, tuple(drops.get(place, ())))
        )
    return tuple(steps)


def _turn(repetition: Repetition, lowering: Lowering) -> Program:
    """Return the program of one turn, which may overwrite what only the turn before it made."""
    graph = repetition.graph
    roots = _roots(graph, lowering)
    given = {i for i, entry in enumerate(graph.entries) if entry[0] in (INPUT, NUMBER)}
    found = [roots[place] for place in graph.outputs]
    owned = frozenset(
        slot for slot, output in repetition.carried
        if found[output] not in given and found.count(found[output]) == 1
    )  # fmt: skip
    made = Program(graph, lowering, owned)
    made.checks_finite = made.eager = False
    return made


def _fired_in_turns(found: tuple[list[Any], list[Any]]) -> Any:
    """Return whether a guard was true in some turn of a repetition."""
    return reduce(or_, found[1], False)


_PRODUCTS = frozenset("multiply square fixed_power deg2rad rad2deg radians degrees".split())
_MOVES = frozenset(
    "negative positive transpose reshape broadcast_to getitem gather checked_gather real".split()
)
"""Operations that pass a product on unrounded."""


def _fenced(graph: Graph, needed: set[int]) -> set[int]:
    """Return the products that are operands of a sum.

    If product and sum are rounded only once (FMA), the last digit differs, which may decide a later
    comparison or conversion to integer; and the difference of two overflowing products is not NaN.
    """
    products: set[int] = set()
    summed: set[int] = set()
    for place in sorted(needed, reverse=True):
        operation, places, _ = graph.entries[place]
        if operation.name in ("add", "subtract") or (place in summed and operation.name in _MOVES):
            summed.update(places)
        elif place in summed and operation.name in _PRODUCTS:
            products.add(place)
    return products


def _fence(function: Callable[..., Any], fence: Any) -> Callable[..., Any]:
    return lambda *given: fence(function(*given))


def _uses(graph: Graph) -> tuple[set[int], dict[int, int]]:
    """Return the entries that outputs need and the last use of each: the end, for outputs."""
    needed = set(graph.outputs)
    last = dict.fromkeys(graph.outputs, len(graph.entries))
    for place in range(len(graph.entries) - 1, -1, -1):
        if place in needed:
            for one in graph.entries[place][1]:
                needed.add(one)
                last.setdefault(one, place)
    return needed, last


def _roots(graph: Graph, lowering: Lowering) -> list[int]:
    """Return for each entry the entry whose memory it may share."""
    roots: list[int] = []
    for place, (operation, places, _) in enumerate(graph.entries):
        roots.append(roots[places[0]] if operation.name in lowering.views else place)
    return roots


def _repeats(graph: Graph, place: int, lowering: Lowering) -> bool:
    """Return whether several elements of an entry may share one memory location."""
    while graph.entries[place][0].name in lowering.views:
        if graph.entries[place][0].name == "broadcast_to":
            return True
        place = graph.entries[place][1][0]
    return False


def _is_free(
    places: Sequence[int], place: int, roots: list[int], ends: dict[int, int], given: set[int]
) -> bool:
    """Return whether the first input's memory is the program's own and not needed afterwards."""
    root = roots[places[0]]
    others = all(roots[other] != root for other in places[1:])
    return root not in given and others and ends[root] <= place


def shared_outputs(graph: Graph, lowering: Lowering) -> list[bool]:
    """Return for each output whether it may share memory with an input or another output."""
    roots = _roots(graph, lowering)
    found = [roots[place] for place in graph.outputs]
    given = {i for i, entry in enumerate(graph.entries) if entry[0] is INPUT}
    return [root in given or found.count(root) > 1 for root in found]


def is_inexact(value: Any) -> bool:
    """Return whether an array has a floating-point or complex dtype."""
    name = str(getattr(value, "dtype", ""))
    return "float" in name or "complex" in name
