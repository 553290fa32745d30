"""Count the true values of masks as `numpy.count_nonzero` does, instead of adding integers.

A sum of a mask converts it to 64-bit integers first, which takes up to twenty times as long.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from gpuforge.runtime.array.graph import Entry, Graph, Operation
from gpuforge.runtime.evaluation.rows import Forms


def count_true(mask: Any, axes: tuple[int, ...] | None, keepdims: bool) -> Any:
    """Return the number of true values of a whole mask, as a sum over all of its axes does."""
    number = np.intp(np.count_nonzero(mask))
    return np.full((1,) * mask.ndim, number) if keepdims else number


COUNT = Operation("count", count_true, "reduction")


def with_counts(
    graph: Graph, steps: Iterable[int], forms: Forms
) -> tuple[tuple[Entry, ...], dict[int, int]]:
    """Return entries that count where a mask is converted to integers only to be summed up.

    With the places of these sums, each with that of the conversion that nothing needs any more.
    """
    uses = Counter(place for entry in graph.entries for place in entry[1])
    uses.update(graph.outputs)
    entries: list[Entry] = list(graph.entries)
    found: dict[int, int] = {}
    for place in steps:
        operation, places, params = entries[place]
        if operation.name != "sum" or uses[places[0]] > 1:
            continue
        converted, masks, _ = entries[places[0]]
        if converted.name != "astype" or forms[places[0]].dtype != np.intp:
            continue
        mask = forms[masks[0]]
        if mask.dtype == bool and len(params[0]) == len(mask.shape):
            entries[place] = (COUNT, masks, params)
            found[place] = places[0]
    return tuple(entries), found
