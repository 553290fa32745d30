"""Matplotlib figures of a lattice, of a path through it, and of an analysis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gpuforge.errors import WorkloadError
from gpuforge.lattice.libraries import matplotlib
from gpuforge.lattice.paths import Path

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from gpuforge.lattice.analysis import Analysis

MAX_DRAWN = 250_000
WIDTH, WIDE, LEAST_HEIGHT = 6.5, 11.0, 0.8
"""Size of the drawn lattice, without labels, in inches."""
LINE, EDGE, REMOVED = "#d62728", "white", "#c8c8c8"
COLUMNS, ROWS = 0, 1


def lattice_picture(states: NDArray[Any], removed: NDArray[np.int64], path: Path | None) -> Figure:
    """Return a figure of the states, with removed nodes in grey and the path as a line."""
    if states.size > MAX_DRAWN:
        raise WorkloadError(
            f"{states.size:,} nodes are too many for a picture: at most {MAX_DRAWN:,}",
            hint="draw a smaller lattice",
        )
    dimensions, size = states.ndim, states.shape[0]
    (columns, rows), extent = positions(dimensions, size)
    canvas = np.full((extent[ROWS], extent[COLUMNS]), np.nan)
    canvas[rows, columns] = states.reshape(-1)
    canvas[rows[removed], columns[removed]] = np.nan
    width = WIDTH if extent[COLUMNS] < 3 * extent[ROWS] else WIDE
    height = np.clip(width * extent[ROWS] / extent[COLUMNS], LEAST_HEIGHT, None)
    figure = _figure(width + 1.2, height + 1.0)
    axes = figure.add_subplot()
    image = axes.imshow(canvas, cmap="viridis", interpolation="nearest")
    if len(removed):
        grey = np.full(canvas.shape, np.nan)
        grey[rows[removed], columns[removed]] = 1.0
        axes.imshow(grey, cmap=matplotlib("colors").ListedColormap([REMOVED]))
    bar = axes.inset_axes((1 + 0.15 / width, 0, 0.2 / width, 1))
    figure.colorbar(image, cax=bar, label="state")
    _label(axes, dimensions, size)
    title = f"${size}^{{{dimensions}}}$ nodes"
    if len(removed):
        title += f", {len(removed)} of them removed (grey)"
    if path is not None:
        _draw_path(axes, columns[path.nodes], rows[path.nodes])
        title += f"\na shortest path of length {path.length}, from the square to the circle"
    axes.set_title(title, fontsize="medium")
    return figure


def positions(dimensions: int, size: int) -> tuple[list[NDArray[np.int64]], list[int]]:
    """Return the column and the row of each node in a picture, and the number of each.

    The last axis runs along the columns and the one before it along the rows; together they form a
    block. The next two axes arrange the blocks, one column or row apart, the next two the groups of
    blocks, and so on.
    """
    coordinates = np.indices((size,) * dimensions).reshape(dimensions, -1)
    found = [np.zeros(size**dimensions, np.int64), np.zeros(size**dimensions, np.int64)]
    extent = [1, 1]
    for level, along in enumerate(reversed(coordinates)):
        side = level % 2
        stride = extent[side] + level // 2
        found[side] += stride * along
        extent[side] += (size - 1) * stride
    return found, extent


def _label(axes: Axes, dimensions: int, size: int) -> None:
    """Label the axes and set ticks for the nodes or, with three or four axes, for the blocks."""
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    for side, axis in ((COLUMNS, axes.xaxis), (ROWS, axes.yaxis)):
        mine = range(dimensions - 1 - side, -1, -2)
        ways = ("in a block", "from block to block", *["from group to group"] * dimensions)
        words = [f"axis {k} {way}" for k, way in zip(mine, ways, strict=False)]
        axis.set_label_text("\n".join(words) if len(words) > 1 else "".join(words)[:-11])
        # One tick for each node or block, as far as there is room; none for groups of blocks.
        stride = size + 1 if len(mine) == 2 else 1
        wide = axes.get_figure().get_size_inches()[side]
        ticks = np.arange(0, size, max(1, -(-size // max(2, int(3 * wide - 4)))))
        if len(mine) in (1, 2):
            axis.set_ticks(ticks * stride + (size - 1) / 2 * (stride > 1), map(str, ticks))
        else:
            axis.set_ticks([])


def _draw_path(axes: Axes, columns: NDArray[np.int64], rows: NDArray[np.int64]) -> None:
    """Draw a path: thick between adjacent cells, thin where it jumps to another block."""
    near = np.abs(np.diff(columns)) + np.abs(np.diff(rows)) == 1
    points = np.stack((columns, rows), axis=1)
    segments = np.stack((points[:-1], points[1:]), axis=1)
    collection = matplotlib("collections").LineCollection
    for chosen, width, style in ((near, 2.4, "solid"), (~near, 1.2, (0, (3, 2)))):
        for colour, extra in ((EDGE, 1.6), (LINE, 0.0)):
            axes.add_collection(
                collection(segments[chosen], colors=colour, linewidths=width + extra,
                           linestyles="solid" if extra else style, capstyle="round")
            )  # fmt: skip
    axes.plot(columns, rows, ".", color=LINE, markersize=5)
    for end, marker in ((0, "s"), (-1, "o")):
        axes.plot(columns[end], rows[end], marker, color=LINE, markeredgecolor=EDGE, markersize=8)


def analysis_picture(analysis: Analysis) -> Figure:
    """Return a figure of the degrees and the spectrum, with the other values in its title."""
    figure = _figure(9.0, 4.0)
    left, right = figure.subplots(1, 2)
    bars = left.bar([str(degree) for degree in analysis.degrees], list(analysis.degrees.values()))
    left.bar_label(bars)
    left.set(
        xlabel="degree", ylabel="nodes", title=f"degrees, {analysis.mean_degree:.4g} on average"
    )
    if analysis.spectrum is None:
        right.set_axis_off()
        text = f"spectrum not known:\n{analysis.unknown['spectrum']}"
        right.text(0.5, 0.5, text, ha="center", va="center", wrap=True)
    else:
        right.hist(analysis.spectrum, bins=min(60, max(1, len(analysis.spectrum) // 4)))
        right.set(xlabel="eigenvalue of the Laplacian", ylabel="how many", title="spectrum")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    diameter = "not known" if analysis.diameter is None else analysis.diameter
    pieces = "1 piece" if analysis.connected else f"{analysis.components} pieces"
    figure.suptitle(
        f"{analysis.nodes} nodes, {analysis.edges} edges, {pieces}, diameter {diameter}"
    )
    return figure


def _figure(width: float, height: float) -> Figure:
    return matplotlib("figure").Figure(figsize=(width, height), layout="constrained")
