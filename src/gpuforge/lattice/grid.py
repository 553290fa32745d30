"""The lattice: a grid graph with an integer at each node."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gpuforge.errors import InvalidSettings, WorkloadError
from gpuforge.lattice.analysis import Analysis, closed_form, computed
from gpuforge.lattice.libraries import scipy_sparse
from gpuforge.lattice.paths import Path, axis_path, graph_path
from gpuforge.lattice.shape import Node, Shape, array_of
from gpuforge.lattice.transform import Transform, xor_all

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_EXACT = 2**53
"""float64, in which SciPy adds up costs, represents every integer up to this one exactly."""


class Lattice:
    """A grid graph of ``size ** dimensions`` nodes, each joined to its neighbours along each axis.

    A node is identified by its index or its coordinates; the last coordinate varies fastest, as in
    NumPy's C order. A lattice is immutable, and its states and graph are computed on first use.

    Parameters
    ----------
    dimensions
        Number of axes, 1 to 64.
    size
        Number of nodes along each axis, at least 1; at most 2³¹ - 1 nodes in all.
    states
        One integer for each node, of any integer dtype, in the order of the indexes. By default
        random numbers from 0 to 255 (uint8).
    seed
        Seed of the random states: the same seed gives the same states.
    removed
        Nodes to remove from the graph, all as indexes or all as coordinates. They keep their
        states but have no neighbours. Paths and analyses then need SciPy
        (``pip install 'gpuforge[lattice]'``).

    Raises
    ------
    InvalidSettings
        If a number is not a positive integer, there would be too many nodes, or none is left.
    WorkloadError
        If the states are not one integer for each node, or a removed node is not in the lattice.
    """

    def __init__(
        self,
        dimensions: int = 4,
        size: int = 10,
        *,
        states: Any = None,
        seed: int = 0,
        removed: Iterable[Node] | NDArray[Any] = (),
    ) -> None:
        self.shape = Shape.checked(dimensions, size)
        self.removed: NDArray[np.int64] = np.unique(self.shape.several(removed))
        self.removed.flags.writeable = False
        if len(self.removed) == self.shape.nodes:
            raise InvalidSettings("every node is removed; expected at least one to be left")
        if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
            raise InvalidSettings(f"seed is {seed!r}; expected an integer of at least 0")
        self._seed = seed
        if states is not None:
            self.states = _checked_states(states, self.shape)

    dimensions = property(lambda self: self.shape.dimensions, doc="How many axes.")
    size = property(lambda self: self.shape.size, doc="How many nodes along each axis.")

    def __len__(self) -> int:
        """Return the number of nodes, including the removed ones."""
        return self.shape.nodes

    def __repr__(self) -> str:
        holes = f", {len(self.removed)} nodes removed" if len(self.removed) else ""
        return f"<Lattice of {self.size}^{self.dimensions} nodes{holes}>"

    @cached_property
    def states(self) -> NDArray[Any]:
        """The integers at the nodes, read-only, one axis for each dimension."""
        drawn = np.random.default_rng(self._seed).integers(0, 256, self.shape.axes, np.uint8)
        drawn.flags.writeable = False
        return drawn

    @cached_property
    def graph(self) -> Any:
        """The adjacency matrix: a sparse SciPy array that is 1 where two nodes are neighbours."""
        return self._adjacency(lambda tails, heads: np.ones(len(tails)))

    @cached_property
    def costs(self) -> Any:
        """The adjacency matrix with the cost of each step: 1 plus the difference of the states."""
        states = self.states.reshape(-1)
        span = int(states.max()) - int(states.min())
        if (span + 1) * self.shape.nodes > MAX_EXACT:
            raise WorkloadError(
                f"states from {states.min()} to {states.max()} are too far apart for weighted paths"
                f" in a lattice of {self.shape.nodes} nodes: costs could exceed 2^53"
            )
        wide = states if states.dtype == np.uint64 else states.astype(np.int64)
        height = (wide - wide.min()).astype(np.int64)
        return self._adjacency(lambda tails, heads: 1.0 + np.abs(height[tails] - height[heads]))

    def _adjacency(self, cost: Any) -> Any:
        """Return a symmetric sparse array with the `cost` of each pair of neighbours."""
        sparse = scipy_sparse("the graph of a lattice")
        nodes = np.arange(self.shape.nodes).reshape(self.shape.axes)
        there = np.ones(self.shape.nodes, bool)
        there[self.removed] = False
        tails = np.concatenate([nodes.take(range(self.size - 1), k).reshape(-1)
                                for k in range(self.dimensions)])  # fmt: skip
        heads = tails + np.repeat(self.shape.strides, len(tails) // self.dimensions)
        kept = there[tails] & there[heads]
        tails, heads = tails[kept], heads[kept]
        values = np.tile(cost(tails, heads), 2)
        ends = np.concatenate((tails, heads)), np.concatenate((heads, tails))
        return sparse.csr_array((values, ends), shape=(nodes.size, nodes.size))

    def build(self) -> Lattice:
        """Compute the states and the graph now rather than on first use; return `self`."""
        _ = self.states
        if len(self.removed):
            _ = self.graph
        return self

    def node(self, node: Node) -> int:
        """Return the index of a node given by its index or its coordinates.

        Raises
        ------
        WorkloadError
            If it is not in the lattice.
        """
        return self.shape.node(node)

    def coordinates(self, nodes: Any) -> NDArray[np.int64]:
        """Return the coordinates of nodes given by index: shape ``(*nodes.shape, dimensions)``.

        Raises
        ------
        WorkloadError
            If one of them is not in the lattice.
        """
        indexes = np.asarray(nodes)
        return self.shape.coordinates(
            self.shape.several(indexes.reshape(-1)).reshape(indexes.shape)
        )

    def xor_transform(self, data: Any, key: Any = None) -> Any:
        """Return the exclusive or of `data` and a key; the same call restores the data.

        The states of the lattice are only read.

        Parameters
        ----------
        data
            Integers (an array of any shape and integer dtype, or nested lists), or bytes.
        key
            Integers of the data's dtype, Python integers that fit into it, or bytes for bytes and
            uint8. By default the lattice's states in the order of the nodes' indexes, reduced to
            their lowest bits if the data's dtype is narrower. A key is flattened, then repeated or
            truncated to the length of the data.

        Returns
        -------
        numpy.ndarray or bytes
            A new array of the data's shape and dtype; bytes for bytes.

        Raises
        ------
        WorkloadError
            If the data or the key are not integers, or the key is empty or has another dtype.
        """
        return xor_all([Transform.of(data, key, self.states)])[0]

    def shortest_path(self, a: Node, b: Node, *, weighted: bool = False) -> Path:
        """Return a shortest path from node `a` to node `b`.

        Parameters
        ----------
        a, b
            Nodes, by index or coordinates.
        weighted
            If False, every step costs 1. If True, a step costs 1 plus the absolute difference
            between the states of its two nodes; this needs SciPy.

        Returns
        -------
        Path
            ``nodes``, the indexes from `a` to `b`, and ``length``, an int. Among several shortest
            paths the choice is deterministic; without weights and removed nodes it is the path
            that follows the first axis first.

        Raises
        ------
        WorkloadError
            If a node is removed or not in the lattice, or there is no path.
        EnvironmentMismatch
            If SciPy is needed but not installed.
        """
        start, end = self.node(a), self.node(b)
        for node in (start, end):
            if node in self.removed:
                raise WorkloadError(f"node {node} is removed from the lattice: no path leads there")
        if weighted:
            return graph_path(self.costs, start, end, weighted=True)
        if len(self.removed):
            return graph_path(self.graph, start, end, weighted=False)
        return axis_path(self.shape, start, end)

    def analyze(self) -> Analysis:
        """Return properties of the graph: degrees, connectivity, diameter, clustering, spectrum.

        Without removed nodes they have closed forms, which are exact for any size. With removed
        nodes they are computed with SciPy; those that would take too long are None, and
        ``unknown`` says why.
        """
        return computed(self.graph, self.removed) if len(self.removed) else closed_form(self.shape)

    def draw(self, path: Path | None = None) -> Figure:
        """Return a Matplotlib figure of the states, and of a path through them if given.

        With more than two dimensions, the last two form a block, and the blocks are arranged by the
        dimensions before them.

        Raises
        ------
        WorkloadError
            If there are more than 250,000 nodes, or a node of the path is not in the lattice.
        EnvironmentMismatch
            If Matplotlib is not installed (``pip install 'gpuforge[plot]'``).
        """
        from gpuforge.lattice.pictures import lattice_picture

        if path is not None:
            self.shape.several(path.nodes)
        return lattice_picture(self.states, self.removed, path)


def _checked_states(states: Any, shape: Shape) -> NDArray[Any]:
    found = array_of(states).copy()
    if found.dtype.kind not in "iu" or found.size != shape.nodes:
        raise WorkloadError(
            f"states of dtype {found.dtype} and shape {found.shape} do not fit: expected one "
            f"integer for each of {shape.nodes} nodes"
        )
    found = found.reshape(shape.axes)
    found.flags.writeable = False
    return found
