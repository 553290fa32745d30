"""A lattice's nodes, states and graph, and what cannot be one."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest

from gpuforge.errors import InvalidSettings, WorkloadError
from gpuforge.lattice import Lattice


def test_a_lattice_has_its_nodes() -> None:
    lattice = Lattice(dimensions=3, size=4)
    assert len(lattice) == 64 and (lattice.dimensions, lattice.size) == (3, 4)
    assert repr(lattice) == "<Lattice of 4^3 nodes>"
    assert repr(Lattice(2, 3, removed=[4])) == "<Lattice of 3^2 nodes, 1 nodes removed>"
    assert lattice.build() is lattice
    assert len(Lattice()) == 10_000


def test_nodes_have_indexes_and_coordinates() -> None:
    lattice = Lattice(dimensions=3, size=4)
    for index, place in enumerate(np.ndindex(4, 4, 4)):
        assert lattice.node(index) == lattice.node(place) == lattice.node(np.array(place)) == index
        assert lattice.coordinates(index).tolist() == list(place)
    assert lattice.coordinates([[0, 1], [4, 63]]).shape == (2, 2, 3)
    assert lattice.node(np.uint8(9)) == 9
    assert Lattice(1, 5).node([3]) == 3


def test_states_are_the_same_for_the_same_seed() -> None:
    one, same, other = Lattice(2, 9), Lattice(2, 9, seed=0), Lattice(2, 9, seed=1)
    assert one.states.shape == (9, 9) and one.states.dtype == np.uint8
    assert np.array_equal(one.states, same.states)
    assert not np.array_equal(one.states, other.states)


def test_given_states_are_kept_and_cannot_be_changed() -> None:
    given = np.arange(8, dtype=np.int16)
    lattice = Lattice(3, 2, states=given)
    given[:] = 0
    assert lattice.states.shape == (2, 2, 2) and lattice.states.dtype == np.int16
    assert lattice.states.ravel().tolist() == list(range(8))
    with pytest.raises(ValueError, match="read-only"):
        lattice.states[0] = 1


def test_a_lattice_can_be_pickled() -> None:
    lattice = Lattice(2, 4, removed=[5], seed=3)
    again = pickle.loads(pickle.dumps(lattice))
    assert np.array_equal(again.states, lattice.states)
    assert again.removed.tolist() == [5]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"size": -1}, "size is -1; expected an integer of at least 1"),
        ({"size": 0}, "size is 0"),
        ({"size": 2.0}, "size is 2.0"),
        ({"size": True}, "size is True"),
        ({"dimensions": 0}, "dimensions is 0"),
        ({"dimensions": "4"}, "dimensions is '4'"),
        ({"dimensions": 10}, r"10\^10 nodes is too large: at most 2,147,483,647"),
        ({"dimensions": 65, "size": 1}, "at most 64"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": "x"}, "seed is 'x'"),
        ({"dimensions": 1, "size": 2, "removed": [0, 1]}, "every node is removed"),
    ],
)
def test_what_cannot_be_a_lattice_is_refused(arguments: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidSettings, match=said):
        Lattice(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("states", [np.arange(7), np.ones(9), ["a"] * 9, [True] * 9, [[1], [2, 3]]])
def test_states_that_do_not_fit_are_refused(states: object) -> None:
    with pytest.raises(WorkloadError, match="expected one integer for each of 9 nodes"):
        Lattice(2, 3, states=states)


@pytest.mark.parametrize(
    ("node", "said"),
    [
        (-1, "node -1 is not in the lattice: nodes are 0 to 8, or 2 coordinates of 0 to 2 each"),
        (9, "node 9 is not in the lattice"),
        ((0, 3), r"node \[0, 3\] is not in the lattice"),
        ((-1, 0), "is not in the lattice"),
        ((1, 1, 1), "are not nodes"),
        (1.0, "are not nodes: a node is an index or 2 integer coordinates"),
        ("1", "are not nodes"),
        (None, "are not nodes"),
        (True, "are not nodes"),
        (2**80, "are not nodes"),
    ],
)
def test_a_node_that_is_not_there_is_refused(node: object, said: str) -> None:
    lattice = Lattice(2, 3)
    for use in (lattice.node, lambda n: lattice.shortest_path(0, n)):
        with pytest.raises(WorkloadError, match=said):
            use(node)


@pytest.mark.parametrize("removed", [[9], [(0, 3)], [0, (1, 1)], [0.5], 3, "ab", [[1, 1, 1]]])
def test_removed_nodes_that_are_not_there_are_refused(removed: object) -> None:
    with pytest.raises(WorkloadError, match=r"is not in the lattice|are not nodes"):
        Lattice(2, 3, removed=removed)  # type: ignore[arg-type]


def test_removed_nodes_are_given_as_indexes_or_coordinates() -> None:
    assert Lattice(2, 3, removed=[4, 0, 4]).removed.tolist() == [0, 4]
    assert Lattice(2, 3, removed=[(1, 1), (0, 0)]).removed.tolist() == [0, 4]
    assert Lattice(2, 3, removed=np.array([[1, 1]])).removed.tolist() == [4]
    assert Lattice(2, 3, removed=(n for n in (1, 2))).removed.tolist() == [1, 2]


def test_the_graph_is_that_of_a_grid() -> None:
    pytest.importorskip("scipy")
    networkx = pytest.importorskip("networkx")
    for dimensions, size in ((1, 1), (1, 5), (2, 4), (3, 3), (4, 2)):
        lattice = Lattice(dimensions, size)
        grid = networkx.grid_graph([size] * dimensions)
        ordered = [p if dimensions > 1 else p[0] for p in np.ndindex(*[size] * dimensions)]
        wanted = networkx.to_numpy_array(grid, nodelist=ordered)
        np.testing.assert_array_equal(lattice.graph.toarray(), wanted)


@pytest.mark.parametrize("call", ["shortest_path(0, 8, weighted=True)", "build()", "draw()"])
def test_a_missing_library_is_named(call: str) -> None:
    code = f"""
import sys
sys.modules["scipy"] = sys.modules["scipy.sparse"] = sys.modules["matplotlib"] = None
from gpuforge.errors import EnvironmentMismatch
from gpuforge.lattice import Lattice
try:
    Lattice(2, 3, removed=[4]).{call}
except EnvironmentMismatch as error:
    print(error, "|", error.hint)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    what, extra = ("Matplotlib", "plot") if call == "draw()" else ("SciPy", "lattice")
    assert f"needs {what}, which cannot be imported" in done.stdout
    assert f"pip install 'gpuforge[{extra}]'" in done.stdout


def test_libraries_are_loaded_when_they_are_needed() -> None:
    code = (
        "import sys, gpuforge as gf; gf.lattice.Lattice(2, 3).build().shortest_path(0, 8);"
        "heavy = {'scipy', 'matplotlib', 'torch', 'jax', 'gpuforge.lattice.pictures'};"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
