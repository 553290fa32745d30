"""Sums of weights per bin, in NumPy's order of additions.

`numpy.histogram` adds the weights of `PIECE` values at a time in double precision, and then these
sums one after the other. Pieces can therefore be computed anywhere, if they are added in order.

Source: NumPy 2.4, ``lib/_histograms_impl.py`` (BLOCK).
"""

from __future__ import annotations

from typing import Any

import numpy as np

PIECE = 1 << 16
"""How many values NumPy counts at a time."""
_TOLERANCE = 0.125
_MOST_BINS = {"f": 1 << 16, "d": 1 << 24}
"""More bins are narrower than what the computed place of a value may be wrong."""


def weighted_counts(array: Any, weights: Any, edges: Any) -> Any:
    """Return the sum of the weights in each bin, the last of which is closed.

    Parameters
    ----------
    array, weights
        Values and their weights, both of shape ``(n,)``.
    edges
        Increasing, at even distances (`is_even`), of the dtype of `array`.
    """
    total = np.zeros(len(edges) - 1, weights.dtype)
    for start in range(0, len(array), PIECE):
        piece = slice(start, start + PIECE)
        total += _piece(array[piece], weights[piece], edges).astype(weights.dtype)
    return total


def is_even(edges: Any) -> bool:
    """Return whether the bin of a value can be computed, or is next to the computed one."""
    bins = len(edges) - 1
    if not 0 < bins <= _MOST_BINS.get(edges.dtype.char, 0) or not edges[-1] > edges[0]:
        return False
    width = (float(edges[-1]) - float(edges[0])) / bins
    with np.errstate(over="ignore"):
        if np.isinf(bins / (edges[-1] - edges[0])):
            return False
    straight = float(edges[0]) + width * np.arange(bins + 1)
    return bool(np.abs(edges - straight).max() <= _TOLERANCE * width)


def _piece(array: Any, weights: Any, edges: Any) -> Any:
    bins, first, last = len(edges) - 1, edges[0], edges[-1]
    kept = array >= first
    kept &= array <= last
    if not kept.all():
        array, weights = array[kept], weights[kept]
    places = ((array - first) * (bins / (last - first))).astype(np.intp)
    np.minimum(places, bins - 1, out=places)
    places -= array < edges[places]
    places += (array >= edges[places + 1]) & (places < bins - 1)
    return np.bincount(places, weights, bins)
