"""Pictures show each node once, removed nodes in grey, and a path from end to end."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from gpuforge.errors import WorkloadError
from gpuforge.lattice import Lattice, pictures
from gpuforge.lattice.pictures import positions

SIGNATURE = b"\x89PNG"


@pytest.fixture(autouse=True, scope="module")
def fonts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let Matplotlib open its fonts, which it then keeps open, before each test is looked at."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MPLCONFIGDIR", str(tmp_path_factory.mktemp("matplotlib")))
        pytest.importorskip("matplotlib")
        rendered(Lattice(2, 3).draw())
        yield


def rendered(figure: Any) -> bytes:
    image = io.BytesIO()
    figure.savefig(image, format="png")
    return image.getvalue()


@pytest.mark.parametrize(("dimensions", "size"), [(1, 9), (2, 5), (3, 4), (4, 3), (5, 2), (6, 2)])
def test_every_node_has_a_place_of_its_own(dimensions: int, size: int) -> None:
    (columns, rows), (wide, high) = positions(dimensions, size)
    assert len(set(zip(columns.tolist(), rows.tolist(), strict=True))) == size**dimensions
    assert columns.max() + 1 == wide and rows.max() + 1 == high
    lattice = Lattice(dimensions, size)
    path = lattice.shortest_path(0, len(lattice) - 1)
    figure = lattice.draw(path)
    shown = figure.axes[0].images[0].get_array()
    assert np.ma.count(shown) == len(lattice)
    np.testing.assert_array_equal(shown[rows, columns], lattice.states.ravel())
    assert rendered(figure).startswith(SIGNATURE)


def test_neighbours_in_a_block_lie_beside_each_other_and_blocks_apart() -> None:
    (columns, rows), _ = positions(4, 3)
    lattice = Lattice(4, 3)
    place = {node: (columns[k], rows[k]) for k, node in enumerate(np.ndindex(3, 3, 3, 3))}
    assert place[0, 0, 0, 1] == (1, 0) and place[0, 0, 1, 0] == (0, 1)
    assert place[0, 1, 0, 0] == (4, 0) and place[1, 0, 0, 0] == (0, 4)
    assert len(lattice) == len(place)


def test_removed_nodes_are_grey_and_a_path_is_a_line() -> None:
    pytest.importorskip("scipy")
    lattice = Lattice(2, 6, removed=[1, 7, 13])
    path = lattice.shortest_path(0, 2)
    axes = lattice.draw(path).axes[0]
    states, grey = (image.get_array() for image in axes.images)
    assert np.ma.count(states) == 33 and np.ma.count(grey) == 3
    assert sorted(zip(*np.ma.nonzero(grey), strict=True)) == [(0, 1), (1, 1), (2, 1)]
    drawn = list(itertools.chain.from_iterable(c.get_segments() for c in axes.collections))
    assert len(drawn) == 2 * path.length  # the line and its white edge
    assert f"length {path.length}" in axes.get_title() and "3 of them removed" in axes.get_title()


def test_a_path_through_another_lattice_is_refused() -> None:
    with pytest.raises(WorkloadError, match="node 9 is not in the lattice"):
        Lattice(2, 3).draw(Lattice(2, 4).shortest_path(0, 9))


def test_an_analysis_shows_degrees_and_spectrum() -> None:
    pytest.importorskip("scipy")
    found = Lattice(2, 5).analyze()
    figure = found.draw()
    bars = [bar.get_height() for bar in figure.axes[0].patches]
    assert bars == list(found.degrees.values()) == [4, 12, 9]
    assert sum(bar.get_height() for bar in figure.axes[1].patches) == 25
    assert rendered(figure).startswith(SIGNATURE)
    pieces = Lattice(2, 3, removed=[1, 3]).analyze().draw()
    assert "2 pieces, diameter not known" in pieces.get_suptitle()


def test_a_spectrum_that_is_not_known_says_why() -> None:
    figure = Lattice(21, 2).analyze().draw()
    (text,) = figure.axes[1].texts
    assert "spectrum not known:\n2,097,152 eigenvalues" in text.get_text()
    assert rendered(figure).startswith(SIGNATURE)


def test_a_lattice_too_large_to_be_seen_is_refused(monkeypatch: Any) -> None:
    monkeypatch.setattr(pictures, "MAX_DRAWN", 8)
    with pytest.raises(WorkloadError, match="9 nodes are too many for a picture: at most 8"):
        Lattice(2, 3).draw()
