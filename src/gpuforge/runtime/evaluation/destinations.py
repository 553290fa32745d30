"""Where groups put their values: into memory that is there already, where nothing else needs it.

A value that is only written into a part of another array, such as that of a time step ``b[1:-1] =
0.5 * (a[:-2] + a[2:])``, goes there at once, block by block. A sum or product takes the place of an
operand of the same block that nothing needs any more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from typing import Any

import numpy as np

from gpuforge.runtime.array.graph import Entry, Graph, Operation
from gpuforge.runtime.array.index import PLACE, to_numpy
from gpuforge.runtime.evaluation.groups import Group
from gpuforge.runtime.evaluation.rows import VIEWS, Form, Forms

_IN_PLACE = frozenset("add subtract multiply true_divide".split())
"""Operations of real numbers that may overwrite an operand: NumPy computes the same bits then.

It does not for all: NumPy 2.4.6 negates a column of a table of four float32 columns wrongly in
place, and rounds products of complex numbers in another way.
"""


def find_destinations(
    graph: Graph, parts: Sequence[int | Group], overwriting: Set[int], roots: Sequence[int],
    forms: Forms,
) -> None:  # fmt: skip
    """Find the writes that groups do at once (`Group.writes`), and what they reuse.

    `overwriting` are the writes into memory that nothing needs after them, `roots` for each entry
    the one whose memory it shares.
    """
    makers = {place: part for part in parts if isinstance(part, Group) for place in part.made}
    # Where in `parts` a step stands, and a group by its first step, which may stand there again.
    single = {part: n for n, part in enumerate(parts) if not isinstance(part, Group)}
    first = {part.steps[0]: n for n, part in enumerate(parts) if isinstance(part, Group)}
    uses = Counter(place for entry in graph.entries for place in entry[1])
    uses.update(graph.outputs)
    for write in overwriting & single.keys():
        operation, places, params = graph.entries[write]
        if operation.name != "setitem" or PLACE in params[-1] or uses[places[1]] > 1:
            continue
        group = makers.get(places[1])
        if group is None or forms[places[0]].dtype != forms[places[1]].dtype:
            continue
        between = parts[first[group.steps[0]] + 1 : single[write]]
        root = roots[places[0]]
        if not _reads(graph, between, root, roots) and _reads_only_before(
            graph, group, graph.entries[write], roots, forms
        ):
            group.writes[places[1]] = write
    for part in parts:
        if isinstance(part, Group):
            part.reused = _reused(graph, part, forms)


def _reads(graph: Graph, parts: Sequence[int | Group], root: int, roots: Sequence[int]) -> bool:
    """Return whether some of the parts use the memory of `root`.

    What uses it after a write has another root, and stands after that write.
    """
    for part in parts:
        for place in part.steps if isinstance(part, Group) else (part,):
            if any(roots[one] == root for one in graph.entries[place][1]):
                return True
    return False


def _may_overwrite(operation: Operation, form: Form) -> bool:
    return operation.name in _IN_PLACE and form.dtype.kind != "c"


def _reads_only_before(
    graph: Graph, group: Group, write: Entry, roots: Sequence[int], forms: Forms
) -> bool:
    """Return whether a group reads what a write changes only element by element, and before it.

    Or in the step that makes the value, if that may overwrite an operand.
    """
    _, (target, value), params = write
    begun = False
    for place in group.steps:
        operation, places, _ = graph.entries[place]
        shared = [one for one in places if roots[one] == roots[target]]
        if shared and begun:
            return False
        begun = begun or place == value
        if shared and begun and not _may_overwrite(operation, forms[place]):
            return False
        for one in shared:
            view, viewed, index = graph.entries[one]
            same = view.name == "getitem" and viewed == (target,) and index == params
            if not same or one not in group.taken or operation.kind != "elementwise":
                return False
    return True


def _reused(graph: Graph, group: Group, forms: Forms) -> dict[int, int]:
    """Return, by places of steps, an operand of the same block whose memory the result takes."""
    viewed = {
        one for place in group.steps if graph.entries[place][0].name in VIEWS
        for one in graph.entries[place][1]
    }  # fmt: skip
    own = set(group.steps) - viewed - set(group.made) - group.totals.keys()
    found: dict[int, int] = {}
    for place, drop in zip(group.steps, group.drops, strict=True):
        operation, places, _ = graph.entries[place]
        kept = place in group.made or place in group.totals
        if kept or not _may_overwrite(operation, forms[place]):
            continue
        for one in places:
            owned = one in own and graph.entries[one][0].name not in VIEWS
            if owned and one in drop and forms[one] == forms[place]:
                found[place] = one
                break
    return found


def part_to_fill(array: Any, write: Entry, form: Form) -> Any:
    """Return the view of an array that a write fills; None if a group cannot fill it by rows.

    The array is None as long as an earlier write into it is not done. The elements along the last
    axis that is longer than one must lie side by side, or NumPy may choose another loop for them.
    """
    if type(array) is not np.ndarray:
        return None
    view = array[to_numpy(write[2][-1], ())]
    if view.shape != form.shape or view.dtype != form.dtype:
        return None
    steps = [step for step, length in zip(view.strides, view.shape, strict=True) if length > 1]
    return view if steps and steps[-1] == view.itemsize else None
