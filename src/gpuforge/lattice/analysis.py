"""Properties of the graph of a lattice, by closed forms where they exist."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from math import comb
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import gpuforge as gf
from gpuforge.lattice.libraries import scipy_graphs
from gpuforge.lattice.shape import Shape

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LISTED_NODES = 1_000_000
"""Largest whole lattice whose spectrum is computed."""
SOLVED_NODES = 2_048
"""Largest lattice with removed nodes whose eigenvalues are computed (takes some seconds)."""
SPREAD_NODES = 16_384
"""Largest lattice with removed nodes whose diameter is computed (takes some seconds)."""


@dataclass(frozen=True, eq=False)
class Analysis:
    """Properties of the graph of a lattice. Unknown ones are None, and `unknown` says why."""

    nodes: int
    """Number of nodes, without the removed ones."""
    edges: int
    """Number of pairs of neighbours."""
    degrees: Mapping[int, int]
    """Number of nodes of each degree: ``{degree: nodes}``, in ascending order."""
    components: int
    """Number of connected components; 1 if every node can be reached from every other."""
    connectivity: int | None
    """Smallest number of nodes whose removal disconnects the graph or leaves a single node."""
    diameter: int | None
    """Largest distance between two nodes, in steps."""
    clustering: float
    """Clustering coefficient; always 0, since grids have no triangles."""
    spectrum: NDArray[np.float64] | None
    """Eigenvalues of the graph's Laplacian, in ascending order; the first is 0."""
    unknown: Mapping[str, str] = field(default_factory=dict)
    """Why a value is None, by the name of its field."""

    @property
    def connected(self) -> bool:
        """Whether every node can be reached from every other."""
        return self.components == 1

    @property
    def mean_degree(self) -> float:
        """Mean number of neighbours of a node."""
        return 2 * self.edges / self.nodes

    @property
    def algebraic_connectivity(self) -> float | None:
        """The second smallest eigenvalue of the Laplacian; 0 if the graph is not connected.

        None if the spectrum is unknown, or there is only one node.
        """
        if self.spectrum is None or self.nodes == 1:
            return None
        return float(self.spectrum[1])

    def __str__(self) -> str:
        degrees = ", ".join(f"{count} of degree {degree}" for degree, count in self.degrees.items())
        rows = {
            "nodes": f"{self.nodes}, joined by {self.edges} edges",
            "degree": f"{self.mean_degree:.4g} on average: {degrees}",
            "pieces": self.components,
            "connectivity": self.connectivity,
            "diameter": self.diameter,
            "clustering": f"{self.clustering:g}",
            "spectrum": None if self.spectrum is None else self._extremes(self.spectrum),
        }
        reasons = {name: f"not known: {reason}" for name, reason in self.unknown.items()}
        return "\n".join(f"{name:<14}{reasons.get(name, text)}" for name, text in rows.items())

    def _extremes(self, spectrum: NDArray[np.float64]) -> str:
        second = self.algebraic_connectivity
        last = "" if second is None else f", algebraic connectivity {second:.4g}"
        return f"{spectrum[0]:.4g} to {spectrum[-1]:.4g}{last}"

    def draw(self) -> Figure:
        """Return a Matplotlib figure of the degrees and the spectrum.

        Raises
        ------
        EnvironmentMismatch
            If Matplotlib is not installed (``pip install 'gpuforge[plot]'``).
        """
        from gpuforge.lattice.pictures import analysis_picture

        return analysis_picture(self)


# ---------------------------------------------------------------- without removed nodes


def closed_form(shape: Shape) -> Analysis:
    """Return the analysis of a grid without removed nodes, by closed forms.

    A node with k coordinates inside their axes has ``dimensions + k`` neighbours. Eigenvalues of a
    product of graphs are sums of its factors' (Fiedler 1973), those of a path of n nodes are
    ``2 - 2 cos(pi k / n)``. The connectivity of a product of paths is its smallest degree.
    """
    d, n = shape.dimensions, shape.size
    degrees = {d + k: comb(d, k) * 2 ** (d - k) * (n - 2) ** k for k in range(d + 1)}
    few = shape.nodes <= LISTED_NODES
    reason = f"{shape.nodes:,} eigenvalues are not written out: at most {LISTED_NODES:,} are"
    return Analysis(
        nodes=shape.nodes,
        edges=d * (n - 1) * n ** (d - 1),
        degrees={degree: count for degree, count in degrees.items() if count} if n > 1 else {0: 1},
        components=1,
        connectivity=d if n > 1 else 0,
        diameter=d * (n - 1),
        clustering=0.0,
        spectrum=_closed_form_spectrum(d, n) if few else None,
        unknown={} if few else {"spectrum": reason},
    )


def _closed_form_spectrum(dimensions: int, size: int) -> NDArray[np.float64]:
    along_one_axis = 2.0 - 2.0 * np.cos(np.pi / size * np.arange(size))
    sums = reduce(np.add.outer, [along_one_axis] * dimensions)
    return _read_only(np.sort(sums, axis=None))


# ---------------------------------------------------------------- with removed nodes


def computed(graph: Any, removed: NDArray[np.int64]) -> Analysis:
    """Return the analysis of a grid with removed nodes, computed from its adjacency matrix."""
    there = np.ones(graph.shape[0], bool)
    there[removed] = False
    part = graph[there][:, there]
    nodes = int(part.shape[0])
    degrees = np.diff(part.indptr)
    components, _ = scipy_graphs("an analysis around removed nodes").connected_components(part)
    unknown: dict[str, str] = {}
    if nodes > SOLVED_NODES:
        unknown["spectrum"] = _too_many(nodes, SOLVED_NODES)
    if components > 1:
        unknown["diameter"] = f"the lattice consists of {components} separate parts"
    elif nodes > SPREAD_NODES:
        unknown["diameter"] = _too_many(nodes, SPREAD_NODES)
    if components == 1 and nodes > 1:
        unknown["connectivity"] = "it is computed only for lattices without removed nodes"
    spectrum = None
    if nodes <= SOLVED_NODES:
        spectrum = _read_only(_eigenvalues(np.diag(degrees.astype(float)) - part.toarray()))
    return Analysis(
        nodes=nodes,
        edges=part.nnz // 2,
        degrees={k: int(count) for k, count in enumerate(np.bincount(degrees)) if count},
        components=int(components),
        connectivity=None if "connectivity" in unknown else 0,
        diameter=None if "diameter" in unknown else _diameter(part),
        clustering=0.0,  # a part of a grid has no triangles either
        spectrum=spectrum,
        unknown=unknown,
    )


def _too_many(nodes: int, most: int) -> str:
    return f"it takes too long for {nodes:,} nodes: at most {most:,} around removed ones"


@gf.offload
def _eigenvalues(matrix: Any) -> Any:
    """Return the eigenvalues of a symmetric matrix in ascending order."""
    return np.linalg.eigvalsh(matrix)


def _diameter(part: Any) -> int:
    """Return the largest distance in a connected graph, by a search from all nodes at once.

    Each node has a row of bits, one for each node, set for those that it has reached so far. Each
    step adds the rows of its neighbours. The diameter is the number of steps until nothing changes.
    """
    nodes = int(part.shape[0])
    degrees = np.diff(part.indptr)
    neighbours = np.repeat(np.arange(nodes), max(1, degrees.max())).reshape(nodes, -1)
    neighbours[np.arange(neighbours.shape[1]) < degrees[:, None]] = part.indices
    bits = np.packbits(np.eye(nodes, -(-nodes // 64) * 64, dtype=bool), axis=1).view(np.int64)
    steps = 0
    while not np.array_equal(further := _spread(bits, neighbours), bits):
        bits, steps = further, steps + 1
    return steps


@gf.offload
def _spread(bits: Any, neighbours: Any) -> Any:
    """Return each row of bits combined with the rows of its neighbours by bitwise or."""
    found = bits
    for k in range(neighbours.shape[1]):
        found = found | bits[neighbours[:, k]]
    return found


def _read_only(values: NDArray[Any]) -> NDArray[Any]:
    values.flags.writeable = False
    return values
