"""The shape of a lattice: its number of nodes, and the indexes and coordinates of nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import index
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from gpuforge.errors import InvalidSettings, WorkloadError

MOST_NODES = 2**31 - 1
MOST_DIMENSIONS = 64  # NumPy's
Node = SupportsIndex | Sequence[int] | NDArray[Any]
"""A node: its index, or its coordinates."""


@dataclass(frozen=True)
class Shape:
    """`size` nodes along each of `dimensions` axes, indexed in C order."""

    dimensions: int
    size: int

    @classmethod
    def checked(cls, dimensions: Any, size: Any) -> Shape:
        """Return the shape after checking that a lattice can have it.

        Raises
        ------
        InvalidSettings
            If a number is not a positive integer, or there would be too many nodes.
        """
        made = cls(_count("dimensions", dimensions), _count("size", size))
        if made.dimensions > MOST_DIMENSIONS:
            raise InvalidSettings(
                f"dimensions is {dimensions}; NumPy's arrays have at most {MOST_DIMENSIONS}"
            )
        if made.nodes > MOST_NODES:
            raise InvalidSettings(
                f"a lattice of {size}^{dimensions} nodes is too large: at most {MOST_NODES:,}",
                hint="use fewer dimensions or a smaller size",
            )
        return made

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return int(self.size**self.dimensions)

    @property
    def axes(self) -> tuple[int, ...]:
        """The shape of an array with one element per node."""
        return (self.size,) * self.dimensions

    @property
    def strides(self) -> tuple[int, ...]:
        """How much one step along each axis adds to a node's index."""
        return tuple(self.size**k for k in reversed(range(self.dimensions)))

    def coordinates(self, nodes: Any) -> NDArray[np.int64]:
        """Return the coordinates of the nodes with these indexes, along a new last axis."""
        return np.stack(np.unravel_index(nodes, self.axes), axis=-1)

    def node(self, node: Node) -> int:
        """Return the index of a node given by its index or its coordinates.

        Raises
        ------
        WorkloadError
            If `node` is neither an index nor coordinates in this lattice.
        """
        return int(self.several([node])[0])

    def several(self, nodes: Iterable[Node] | NDArray[Any]) -> NDArray[np.int64]:
        """Return the indexes of nodes given either all as indexes or all as coordinates.

        Raises
        ------
        WorkloadError
            If one of them is neither an index nor coordinates in this lattice.
        """
        found = array_of(list(nodes) if isinstance(nodes, Iterator) else nodes)
        if found.shape == (0,):
            return np.empty(0, np.int64)
        wide = found.ndim == 2 and found.shape[1] == self.dimensions
        if found.dtype.kind not in "iu" or not (found.ndim == 1 or wide):
            raise WorkloadError(
                f"{nodes!r} are not nodes: a node is an index or {self.dimensions} integer "
                "coordinates"
            )
        outside = (found < 0) | (found >= (self.size if wide else self.nodes))
        if outside.any():
            one = found[outside.any(axis=1) if wide else outside][0].tolist()
            raise WorkloadError(f"node {one} is not in the lattice: nodes are {self._range()}")
        return (found.astype(np.int64) @ np.array(self.strides)) if wide else found.astype(np.int64)

    def _range(self) -> str:
        last = self.size - 1
        return f"0 to {self.nodes - 1}, or {self.dimensions} coordinates of 0 to {last} each"


def array_of(values: Any) -> NDArray[Any]:
    """Return values as an array; ragged ones as an object array."""
    try:
        return np.asarray(values)
    except ValueError:
        return np.array([values], object)


def _count(name: str, value: Any) -> int:
    try:
        found = -1 if isinstance(value, bool) else index(value)
    except TypeError:
        found = -1
    if found < 1:
        raise InvalidSettings(f"{name} is {value!r}; expected an integer of at least 1")
    return found
