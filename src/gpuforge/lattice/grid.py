"""The lattice: a grid graph with an integer at each node."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gpuforge.errors import InvalidSettings, WorkloadError
from gpuforge.lattice.analysis import Analysis, computed, plain
from gpuforge.lattice.libraries import scipy_sparse
from gpuforge.lattice.paths import Path, searched, straight
from gpuforge.lattice.shape import Node, Shape, array_of
from gpuforge.lattice.transform import Transform, together

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EXACT = 2**53
"""Up to here float64, in which SciPy adds up costs, holds every whole number."""


class Lattice:
    """A grid graph of ``size ** dimensions`` nodes, each joined to its neighbours along each axis.

    A node is named by its index or by its coordinates; indexes count the last coordinate fastest,
    as NumPy's do. A lattice never changes, and its parts are made when they are first needed.

    Parameters
    ----------
    dimensions
        How many axes, 1 to 64.
    size
        How many nodes along each axis, from 1 on; at most 2³¹ - 1 nodes in all.
    states
        One integer for each node, any integer dtype, in the order of the indexes. By default
        numbers from 0 to 255 (uint8) drawn from `seed`.
    seed
        Where the drawn states start: the same seed, the same states.
    removed
        Nodes that are left out of the graph, all as indexes or all as coordinates. They keep their
        states, but nothing leads to them. Searching around them needs SciPy
        (``pip install 'gpuforge[lattice]'``).

    Raises
    ------
    InvalidSettings
        If a number is not whole or not positive, there would be too many nodes, or none is left.
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
        """Return how many nodes there are, the removed ones included."""
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
        """The graph: a sparse SciPy array of ``len(self)`` rows that is 1 where two nodes join."""
        return self._joined(lambda tails, heads: np.ones(len(tails)))

    @cached_property
    def costs(self) -> Any:
        """The graph with the cost of each step: 1, and the difference of the two nodes' states."""
        states = self.states.reshape(-1)
        span = int(states.max()) - int(states.min())
        if (span + 1) * self.shape.nodes > EXACT:
            raise WorkloadError(
                f"states from {states.min()} to {states.max()} are too far apart for weighted paths"
                f" in a lattice of {self.shape.nodes} nodes: costs could exceed 2^53"
            )
        wide = states if states.dtype == np.uint64 else states.astype(np.int64)
        height = (wide - wide.min()).astype(np.int64)
        return self._joined(lambda tails, heads: 1.0 + np.abs(height[tails] - height[heads]))

    def _joined(self, cost: Any) -> Any:
        """Return the graph as a symmetric sparse array with `cost` of each pair of neighbours."""
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
        """Make now what is otherwise made at first use, the states and the graph; return `self`."""
        _ = self.states
        if len(self.removed):
            _ = self.graph
        return self

    def node(self, node: Node) -> int:
        """Return the index of a node that is given by its index or its coordinates.

        Raises
        ------
        WorkloadError
            If it is not in the lattice.
        """
        return self.shape.node(node)

    def coordinates(self, nodes: Any) -> NDArray[np.int64]:
        """Return the coordinates of nodes: the shape of `nodes`, and ``dimensions`` as last axis.

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
        """Return `data` combined with a key by exclusive or; the same call gives them back.

        The lattice lends its states and keeps them unchanged.

        Parameters
        ----------
        data
            Integers, an array of any shape and integer dtype or nested lists; or bytes.
        key
            Integers of the data's dtype, Python numbers that fit into it, or bytes for bytes and
            uint8. By default the lattice's states in the order of the nodes' indexes, of which the
            lowest bits count where the data's dtype is narrower. A key is read as one row, repeated
            from its start as often as needed, and cut at the length of the data.

        Returns
        -------
        numpy.ndarray or bytes
            A new array of the data's shape and dtype; bytes for bytes.

        Raises
        ------
        WorkloadError
            If the data or the key are not integers, the key is empty or has another dtype.
        """
        return together([Transform.of(data, key, self.states)])[0]

    def shortest_path(self, a: Node, b: Node, *, weighted: bool = False) -> Path:
        """Return a shortest path from node `a` to node `b`: its nodes, and its length.

        Parameters
        ----------
        a, b
            Nodes, by index or coordinates.
        weighted
            False: every step counts 1. True: a step costs 1 and the difference between the states
            of its two nodes, as on a walk through hills; this needs SciPy.

        Returns
        -------
        Path
            ``nodes``, the indexes from `a` to `b`, and ``length``, an int. Of several shortest
            paths it is always the same one; without weights and removed nodes the one that walks
            along the first axis first.

        Raises
        ------
        WorkloadError
            If a node is not in the lattice or removed, or no path leads from one to the other.
        EnvironmentMismatch
            If SciPy is needed and not installed.
        """
        start, end = self.node(a), self.node(b)
        for node in (start, end):
            if node in self.removed:
                raise WorkloadError(f"node {node} is removed from the lattice: no path leads there")
        if weighted:
            return searched(self.costs, start, end, weighted=True)
        if len(self.removed):
            return searched(self.graph, start, end, weighted=False)
        return straight(self.shape, start, end)

    def analyze(self) -> Analysis:
        """Return what the graph is like: degrees, connectivity, diameter, clustering, spectrum.

        Without removed nodes these are closed forms, exact for any size. With removed nodes they
        are computed, for which SciPy is needed; what would take too long is None, and
        ``unknown`` says why.
        """
        return computed(self.graph, self.removed) if len(self.removed) else plain(self.shape)

    def draw(self, path: Path | None = None) -> Figure:
        """Return a picture of the states, and of a path through them, as a Matplotlib figure.

        Two dimensions are drawn as they are. Of more, the last two make a block, and the blocks lie
        beside each other as the dimensions before them say.

        Raises
        ------
        WorkloadError
            If there are more than 250,000 nodes.
        EnvironmentMismatch
            If Matplotlib is not installed (``pip install 'gpuforge[plot]'``).
        """
        from gpuforge.lattice.pictures import lattice_picture

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
