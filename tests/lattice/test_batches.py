"""A batch gives what each lattice gives by itself, and says what it did."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpuforge as gf
from gpuforge.errors import InvalidSettings, UnknownName, WorkloadError
from gpuforge.lattice import Lattice, batch

DATA = st.one_of(
    st.binary(max_size=9),
    st.builds(
        lambda dtype, shape: np.arange(np.prod(shape)).astype(dtype).reshape(shape),
        st.sampled_from(["int8", "uint16", "int64"]),
        st.sampled_from([(0,), (5,), (2, 3), (6,), (3000,)]),
    ),
)


@given(st.lists(DATA, max_size=12), st.integers(1, 5))
def test_transforms_of_a_batch_are_those_of_its_lattices(data: list[Any], most: int) -> None:
    lattices = [Lattice(2, 4, seed=k) for k in range(len(data))]
    found = batch(lattices, max_batch=most).xor_transform(data)
    for lattice, one, result in zip(lattices, data, found, strict=True):
        wanted = lattice.xor_transform(one)
        assert type(result) is type(wanted)
        np.testing.assert_array_equal(result, wanted)
    assert len(found) == len(data)


@pytest.mark.parametrize("backend", ["numpy", "torch", "jax"])
def test_a_batch_gives_the_same_on_every_backend(backend: str) -> None:
    if backend != "numpy":
        pytest.importorskip(backend)
    lattices = [Lattice(2, 4, seed=k) for k in range(20)]
    data = [np.arange(100) + k for k in range(20)]
    wanted = [lattice.xor_transform(one) for lattice, one in zip(lattices, data, strict=True)]
    with gf.session(backend=backend):
        np.testing.assert_array_equal(batch(lattices).xor_transform(data), wanted)


def test_one_key_for_all() -> None:
    some = batch([Lattice(1, 3), Lattice(1, 4)])
    assert some.xor_transform([b"ab", b"cd"], key=b"\1") == [b"`c", b"be"]


def test_small_transforms_of_equal_size_are_one_call() -> None:
    some = batch([Lattice(1, 4)] * 40, max_batch=16)
    some.xor_transform([np.arange(5)] * 40)
    stats = some.stats()
    assert (stats.lattices, stats.calls, stats.largest) == (40, 3, 16)
    some.xor_transform([np.arange(5)] * 20 + [np.arange(6)] * 20)
    assert some.stats().calls == 3 + 4
    some.xor_transform([np.arange(1000)] * 40)  # too large to be worth a copy
    assert some.stats().calls == 3 + 4 + 40
    assert some.stats().operations == {"xor_transform": 120} and some.stats().seconds > 0


def test_one_operation_per_lattice() -> None:
    lattices = [Lattice(2, 4), Lattice(2, 4, seed=1), Lattice(3, 3), Lattice(2, 4)]
    some = batch(lattices)
    path = ("shortest_path", (0, 0), 15)
    found = some.run(["analyze", path, ("analyze",), ("xor_transform", b"abc", {"key": b"x"})])
    assert found[0].nodes == 16 and found[2].nodes == 27
    assert found[1].length == 6
    assert found[3] == lattices[3].xor_transform(b"abc", b"x")
    assert some.stats().operations == {"analyze": 2, "shortest_path": 1, "xor_transform": 1}


def test_arguments_by_name() -> None:
    pytest.importorskip("scipy")
    lattice = Lattice(2, 4)
    (path,) = batch([lattice]).run([("shortest_path", 0, 15, {"weighted": True})])
    assert path.length == lattice.shortest_path(0, 15, weighted=True).length > 6


def test_equal_graphs_are_analysed_once() -> None:
    pytest.importorskip("scipy")
    holes = [Lattice(2, 4, seed=k, removed=[5]) for k in range(3)]
    some = batch([*holes, Lattice(2, 4), Lattice(2, 4, removed=[6]), Lattice(4, 2)])
    found = some.run(["analyze"] * 6)
    assert some.stats().analyses == 4
    assert found[0] is found[1] is found[2] is not found[4]
    assert [one.nodes for one in found] == [15, 15, 15, 16, 15, 16]


@pytest.mark.parametrize(
    ("operation", "error", "said"),
    [
        ("paint", UnknownName, "unknown operation 'paint'"),
        (("build",), UnknownName, "unknown operation 'build'"),
        ((), WorkloadError, "is not an operation"),
        ((1, 2), WorkloadError, "is not an operation"),
        (7, WorkloadError, "is not an operation"),
        (("shortest_path", 0, 99), WorkloadError, "node 99 is not in the lattice"),
        (("xor_transform", 0.5), WorkloadError, "dtype float64"),
        (("analyze", 3), TypeError, "argument"),
        ("shortest_path", TypeError, "argument"),
    ],
)
def test_an_operation_that_cannot_be_made_is_named(
    operation: Any, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said) as raised:
        batch([Lattice(2, 4)] * 2).run(["analyze", operation])
    note = "in operation 1 of 2, with <Lattice of 4^2 nodes>"
    assert raised.value.__notes__[-1] == note


def test_what_cannot_be_a_batch_is_refused() -> None:
    with pytest.raises(WorkloadError, match="number 1 of the batch is 'x': expected a Lattice"):
        batch([Lattice(1, 2), "x"])  # type: ignore[list-item]
    for most in (0, -3, 1.5, "4"):
        with pytest.raises(InvalidSettings, match="max_batch is"):
            batch([], max_batch=most)  # type: ignore[arg-type]
    with pytest.raises(WorkloadError, match="1 operations for 2 lattices"):
        batch([Lattice(1, 2)] * 2).run(["analyze"])
    assert batch([]).run([]) == []
