"""What the graph of a lattice is like, by closed forms where there are any."""

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
"""Spectra of larger lattices are not written out."""
SOLVED_NODES = 2_048
"""Up to here eigenvalues of a matrix without closed form are computed (some seconds)."""
SPREAD_NODES = 16_384
"""Up to here the diameter around removed nodes is computed, from each node to each (seconds)."""


@dataclass(frozen=True, eq=False)
class Analysis:
    """What the graph of a lattice is like. What is not known is None; `unknown` says why."""

    nodes: int
    """How many nodes there are, without the removed ones."""
    edges: int
    """How many pairs of neighbours."""
    degrees: Mapping[int, int]
    """How many nodes have how many neighbours: ``{neighbours: nodes}``, ascending."""
    components: int
    """Into how many pieces the lattice falls; 1 if every node can be reached from every other."""
    connectivity: int | None
    """How many nodes must be removed at least to cut it in two, or to leave a single node."""
    diameter: int | None
    """How many steps the two nodes that are farthest apart are apart."""
    clustering: float
    """The share of closed triangles, from 0 to 1: 0, since grids have no triangles."""
    spectrum: NDArray[np.float64] | None
    """The eigenvalues of the graph's Laplacian, ascending; the first is 0."""
    unknown: Mapping[str, str] = field(default_factory=dict)
    """Why a value is None, by its name."""

    @property
    def connected(self) -> bool:
        """Whether every node can be reached from every other."""
        return self.components == 1

    @property
    def mean_degree(self) -> float:
        """How many neighbours a node has on average."""
        return 2 * self.edges / self.nodes

    @property
    def algebraic_connectivity(self) -> float | None:
        """The second smallest eigenvalue: how well connected the lattice is; 0 if it is not.

        None where the spectrum is not known, or there is one node.
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
        """Return a picture of the degrees and the spectrum as a Matplotlib figure.

        Raises
        ------
        EnvironmentMismatch
            If Matplotlib is not installed (``pip install 'gpuforge[plot]'``).
        """
        from gpuforge.lattice.pictures import analysis_picture

        return analysis_picture(self)


# ---------------------------------------------------------------- without removed nodes


def plain(shape: Shape) -> Analysis:
    """Return the analysis of a whole grid, by closed forms.

    A node with k coordinates that are not at an end has ``dimensions + k`` neighbours. The
    eigenvalues of a product of graphs are the sums of theirs (Fiedler 1973), and a path of n nodes
    has ``2 - 2 cos(pi k / n)``. The connectivity of a product of paths is its smallest degree.
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
        spectrum=_plain_spectrum(d, n) if few else None,
        unknown={} if few else {"spectrum": reason},
    )


def _plain_spectrum(dimensions: int, size: int) -> NDArray[np.float64]:
    along_one_axis = 2.0 - 2.0 * np.cos(np.pi / size * np.arange(size))
    sums = reduce(np.add.outer, [along_one_axis] * dimensions)
    return _read_only(np.sort(sums, axis=None))


# ---------------------------------------------------------------- with removed nodes


def computed(graph: Any, removed: NDArray[np.int64]) -> Analysis:
    """Return the analysis of a grid without its removed nodes, computed from its sparse graph."""
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
    """Return the eigenvalues of a symmetric matrix, ascending."""
    return np.linalg.eigvalsh(matrix)


def _diameter(part: Any) -> int:
    """Return the largest distance in a connected graph, from each node to each at once.

    Each node has a row of bits, one for each node that it has reached so far; in each step it
    takes over those of its neighbours. The diameter is the number of steps until nothing changes.
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
    """Return each row of bits together with the rows of its neighbours."""
    found = bits
    for k in range(neighbours.shape[1]):
        found = found | bits[neighbours[:, k]]
    return found


def _read_only(values: NDArray[Any]) -> NDArray[Any]:
    values.flags.writeable = False
    return values
