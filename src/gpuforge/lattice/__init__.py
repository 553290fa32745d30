"""The catalytic lattice, a grid graph with integers at its nodes, built on the public API only.

::

    from gpuforge.lattice import Lattice, batch

    lattice = Lattice(dimensions=4, size=10).build()
    hidden = lattice.xor_transform(data)  # its own inverse
    nodes, length = lattice.shortest_path(0, (9, 9, 9, 9))
    print(lattice.analyze())
"""

from gpuforge.lattice.analysis import Analysis
from gpuforge.lattice.batches import Batch, BatchStats, batch
from gpuforge.lattice.grid import Lattice
from gpuforge.lattice.paths import Path

__all__ = ["Analysis", "Batch", "BatchStats", "Lattice", "Path", "batch"]
