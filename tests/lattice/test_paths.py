"""Shortest paths are paths, and as short as networkx's."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuforge.errors import WorkloadError
from gpuforge.lattice import Lattice, Path


def assert_path(lattice: Lattice, path: Path, start: int, end: int) -> None:
    """Check that a path leads from neighbour to neighbour and past no removed node."""
    assert path.nodes[0] == start and path.nodes[-1] == end
    places = lattice.coordinates(path.nodes)
    assert (np.abs(np.diff(places, axis=0)).sum(axis=1) == 1).all()
    assert not np.isin(path.nodes, lattice.removed).any()


@given(st.integers(1, 5), st.integers(1, 6), st.data())
def test_a_path_through_a_whole_grid_is_shortest(d: int, n: int, data: st.DataObject) -> None:
    lattice = Lattice(d, n)
    start, end = (data.draw(st.integers(0, n**d - 1)) for _ in range(2))
    path = lattice.shortest_path(start, end)
    assert_path(lattice, path, start, end)
    assert type(path.length) is int
    assert path.length == len(path.nodes) - 1
    assert path.length == np.abs(np.subtract(*lattice.coordinates([start, end]))).sum()


def test_ends_may_be_coordinates_and_the_first_axis_comes_first() -> None:
    nodes, length = Lattice(2, 3).shortest_path((0, 0), (2, 1))
    assert nodes.tolist() == [0, 3, 6, 7] and length == 3


def networkx_graph(lattice: Lattice, *, weighted: bool) -> Any:
    networkx = pytest.importorskip("networkx")
    graph = networkx.grid_graph([lattice.size] * lattice.dimensions)
    graph = networkx.relabel_nodes(graph, {place: lattice.node(place) for place in graph})
    graph.remove_nodes_from(lattice.removed.tolist())
    states = lattice.states.ravel().tolist()
    for a, b in graph.edges:
        graph.edges[a, b]["cost"] = 1 + abs(states[a] - states[b]) if weighted else 1
    return graph


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint64"])
def test_a_searched_path_is_shortest(weighted: bool, dtype: str) -> None:
    pytest.importorskip("scipy")
    networkx = pytest.importorskip("networkx")
    rng = np.random.default_rng(5)
    compared = apart = 0
    for d, n, gone in ((2, 7, 20), (3, 4, 35), (4, 3, 50), (1, 6, 0), (2, 6, 0)):
        removed = rng.choice(n**d, gone, replace=False)
        low, high = np.iinfo(dtype).min if dtype == "int8" else 0, 127 if dtype == "int8" else 200
        states = rng.integers(low, high + 1, n**d).astype(dtype)
        lattice = Lattice(d, n, states=states, removed=removed)
        graph = networkx_graph(lattice, weighted=weighted)
        kept = np.setdiff1d(np.arange(n**d), removed)
        for start, end in rng.choice(kept, (20, 2)).tolist():
            try:
                wanted = networkx.shortest_path_length(graph, start, end, weight="cost")
            except networkx.NetworkXNoPath:
                apart += 1
                with pytest.raises(WorkloadError, match="removed nodes separate them"):
                    lattice.shortest_path(start, end, weighted=weighted)
                continue
            path = lattice.shortest_path(start, end, weighted=weighted)
            assert_path(lattice, path, start, end)
            assert path.length == wanted and type(path.length) is int
            steps = (graph.edges[step]["cost"] for step in pairwise(path.nodes.tolist()))
            assert path.length == sum(steps)
            compared += 1
    assert compared > 50 and apart > 5


def test_a_removed_node_is_no_end() -> None:
    lattice = Lattice(2, 3, removed=[4])
    for ends in ((4, 0), (0, 4), (4, 4)):
        with pytest.raises(WorkloadError, match="node 4 is removed"):
            lattice.shortest_path(*ends)


def test_a_node_apart_is_not_reached() -> None:
    pytest.importorskip("scipy")
    lattice = Lattice(2, 3, removed=[1, 3])
    assert lattice.shortest_path(0, 0) == (np.array([0]), 0)
    with pytest.raises(WorkloadError, match="no path from node 0 to node 8") as raised:
        lattice.shortest_path(0, 8)
    assert "analyze().components" in raised.value.hint


def test_states_too_far_apart_to_add_up_exactly_are_refused() -> None:
    states = np.array([-(2**62), 0, 0, 2**62])
    with pytest.raises(WorkloadError, match="too far apart"):
        Lattice(2, 2, states=states).shortest_path(0, 3, weighted=True)
