"""Shortest paths: along the axes in a whole, unweighted lattice, else by SciPy's graph searches."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpuforge.errors import WorkloadError
from gpuforge.lattice.libraries import scipy_graphs
from gpuforge.lattice.shape import Shape

NOWHERE = -9999
"""SciPy's value for the predecessor of a node that has none."""


class Path(NamedTuple):
    """A shortest path from one node to another."""

    nodes: NDArray[np.int64]
    """The indexes of its nodes, including the first and the last."""
    length: int
    """The number of its steps; for a weighted path, their total cost."""


def axis_path(shape: Shape, start: int, end: int) -> Path:
    """Return the path along the first axis, then along the second, and so on."""
    first, last = shape.coordinates(np.array([start, end]))
    steps = np.repeat(np.sign(last - first) * np.array(shape.strides), np.abs(last - first))
    return Path(start + np.concatenate(([0], np.cumsum(steps))), len(steps))


def graph_path(graph: Any, start: int, end: int, *, weighted: bool) -> Path:
    """Return a shortest path through a graph, given as a sparse matrix of step costs.

    Raises
    ------
    WorkloadError
        If there is no path.
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
