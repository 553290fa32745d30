"""An analysis says what networkx and NumPy say of the same graph, or why it does not know."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from gpuforge.lattice import Analysis, Lattice, analysis

SHAPES = [(1, 1), (3, 1), (1, 2), (1, 7), (2, 2), (2, 5), (3, 2), (3, 4), (4, 2), (4, 3), (5, 2)]


def assert_is(found: Analysis, graph: Any) -> None:
    """Compare an analysis with what networkx and NumPy say of a graph."""
    networkx = pytest.importorskip("networkx")
    assert (found.nodes, found.edges) == (len(graph), graph.size())
    assert dict(found.degrees) == Counter(degree for _, degree in graph.degree)
    assert list(found.degrees) == sorted(found.degrees)
    assert found.mean_degree == pytest.approx(2 * graph.size() / len(graph))
    assert found.components == networkx.number_connected_components(graph)
    assert found.connected == networkx.is_connected(graph)
    assert found.clustering == networkx.average_clustering(graph) == 0.0
    if found.connected:
        assert found.diameter == networkx.diameter(graph)
    else:
        assert found.diameter is None and "separate parts" in found.unknown["diameter"]
    if found.connectivity is not None:
        assert found.connectivity == networkx.node_connectivity(graph)
    assert found.spectrum is not None
    laplacian = networkx.laplacian_matrix(graph).toarray().astype(float)
    np.testing.assert_allclose(found.spectrum, np.linalg.eigvalsh(laplacian), atol=1e-9)
    if len(graph) > 1:
        assert found.algebraic_connectivity == found.spectrum[1]
        assert (found.spectrum[1] > 1e-9) == found.connected
    else:
        assert found.algebraic_connectivity is None


@pytest.mark.parametrize(("dimensions", "size"), SHAPES)
def test_closed_forms_are_those_of_the_graph(dimensions: int, size: int) -> None:
    networkx = pytest.importorskip("networkx")
    pytest.importorskip("scipy")
    found = Lattice(dimensions, size).analyze()
    assert found.connectivity is not None and not found.unknown
    assert_is(found, networkx.grid_graph([size] * dimensions))


@pytest.mark.parametrize("seed", range(12))
def test_around_removed_nodes_the_graph_is_computed(seed: int) -> None:
    networkx = pytest.importorskip("networkx")
    pytest.importorskip("scipy")
    rng = np.random.default_rng(seed)
    dimensions, size, most = [(1, 7, 3), (2, 6, 12), (3, 4, 25), (4, 3, 30)][seed % 4]
    removed = rng.choice(size**dimensions, 1 + rng.integers(most), replace=False)
    lattice = Lattice(dimensions, size, removed=removed)
    graph = networkx.from_scipy_sparse_array(lattice.graph)
    graph.remove_nodes_from(removed.tolist())
    assert_is(lattice.analyze(), graph)


def test_a_single_node_is_left() -> None:
    pytest.importorskip("scipy")
    found = Lattice(1, 2, removed=[0]).analyze()
    assert (found.nodes, found.edges, found.components, found.diameter) == (1, 0, 1, 0)
    assert found.connectivity == 0 and found.degrees == {0: 1} and not found.unknown


def test_a_lattice_too_large_to_build_is_analysed() -> None:
    found = Lattice(30, 2).analyze()
    assert (found.nodes, found.edges, found.diameter) == (2**30, 30 * 2**29, 30)
    assert found.spectrum is None and found.algebraic_connectivity is None
    assert "1,073,741,824 eigenvalues are not written out" in found.unknown["spectrum"]
    assert "spectrum      not known: 1,073,741,824" in str(found)


def test_what_would_take_too_long_is_absent_with_the_reason(monkeypatch: Any) -> None:
    pytest.importorskip("scipy")
    monkeypatch.setattr(analysis, "SOLVED_NODES", 10)
    monkeypatch.setattr(analysis, "SPREAD_NODES", 10)
    found = Lattice(2, 4, removed=[0]).analyze()
    assert found.components == 1
    assert found.spectrum is found.diameter is found.connectivity is None
    for name in ("spectrum", "diameter"):
        assert found.unknown[name] == (
            "it takes too long for 15 nodes: at most 10 around removed ones"
        )
    assert "diameter      not known: it takes too long" in str(found)


def test_an_analysis_reads_as_a_table() -> None:
    assert str(Lattice(2, 3).analyze()).splitlines() == [
        "nodes         9, joined by 12 edges",
        "degree        2.667 on average: 4 of degree 2, 4 of degree 3, 1 of degree 4",
        "pieces        1",
        "connectivity  2",
        "diameter      4",
        "clustering    0",
        "spectrum      0 to 6, algebraic connectivity 1",
    ]


def test_a_spectrum_cannot_be_changed() -> None:
    pytest.importorskip("scipy")
    for lattice in (Lattice(2, 3), Lattice(2, 3, removed=[4])):
        spectrum = lattice.analyze().spectrum
        assert spectrum is not None and not spectrum.flags.writeable
