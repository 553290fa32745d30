"""Shortest paths: along the axes where nothing is in the way, else by SciPy's searches."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpuforge.errors import WorkloadError
from gpuforge.lattice.libraries import scipy_graphs
from gpuforge.lattice.shape import Shape

NOWHERE = -9999
"""What SciPy writes for the predecessor of a node that has none."""


class Path(NamedTuple):
    """A way from one node to another, as short as any."""

    nodes: NDArray[np.int64]
    """The indexes of its nodes, the first and the last included."""
    length: int
    """How many steps it takes; if it is weighted, what they cost in all."""


def straight(shape: Shape, start: int, end: int) -> Path:
    """Return the path that walks along the first axis, then along the second, and so on."""
    first, last = shape.coordinates(np.array([start, end]))
    steps = np.repeat(np.sign(last - first) * np.array(shape.strides), np.abs(last - first))
    return Path(start + np.concatenate(([0], np.cumsum(steps))), len(steps))


def searched(graph: Any, start: int, end: int, *, weighted: bool) -> Path:
    """Return a shortest path through a graph, given as a sparse matrix of the steps' costs.

    Raises
    ------
    WorkloadError
        If there is none.
    """
    csgraph = scipy_graphs("a path that is weighted or around removed nodes")
    if weighted:
        costs, before = csgraph.dijkstra(graph, indices=start, return_predecessors=True)
    else:
        _, before = csgraph.breadth_first_order(graph, start)
    found = [end]
    while found[-1] != start:
        found.append(int(before[found[-1]]))
        if found[-1] == NOWHERE:
            raise WorkloadError(
                f"there is no path from node {start} to node {end}: removed nodes separate them",
                hint="analyze().components is the number of separate parts of the lattice",
            )
    return Path(np.array(found[::-1], np.int64), int(costs[end]) if weighted else len(found) - 1)
