"""The exclusive or with a lattice: the same call again gives the data back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import gpuforge as gf
from gpuforge.errors import WorkloadError
from gpuforge.lattice import Lattice

INTEGERS = npst.integer_dtypes() | npst.unsigned_integer_dtypes()
LATTICE = Lattice(dimensions=2, size=3, seed=7)
ARRAYS = INTEGERS.flatmap(
    lambda dtype: npst.arrays(dtype, npst.array_shapes(min_dims=0, max_dims=3, min_side=0))
)


@given(ARRAYS)
def test_the_states_transform_and_give_back(data: np.ndarray) -> None:
    before, states = data.copy(), LATTICE.states.copy()
    hidden = LATTICE.xor_transform(data)
    assert isinstance(hidden, np.ndarray)
    assert (hidden.shape, hidden.dtype) == (data.shape, data.dtype.newbyteorder("="))
    key = np.resize(states, data.size).astype(data.dtype).reshape(data.shape)
    np.testing.assert_array_equal(hidden, data ^ key)
    np.testing.assert_array_equal(LATTICE.xor_transform(hidden), data)
    np.testing.assert_array_equal(data, before)
    np.testing.assert_array_equal(LATTICE.states, states)


@given(ARRAYS, st.data())
def test_a_key_transforms_and_gives_back(data: np.ndarray, more: st.DataObject) -> None:
    key = more.draw(npst.arrays(data.dtype, st.integers(1, 9)))
    hidden = LATTICE.xor_transform(data, key)
    np.testing.assert_array_equal(hidden.ravel(), data.ravel() ^ np.resize(key, data.size))
    np.testing.assert_array_equal(LATTICE.xor_transform(hidden, key), data)


@given(st.binary(), st.none() | st.binary(min_size=1))
def test_bytes_become_bytes_and_come_back(data: bytes, key: bytes | None) -> None:
    hidden = LATTICE.xor_transform(data, key)
    assert type(hidden) is bytes and len(hidden) == len(data)
    assert LATTICE.xor_transform(hidden, key) == data


def test_what_holds_bytes_becomes_bytes() -> None:
    wanted = LATTICE.xor_transform(b"aceg")
    for data in (bytearray(b"aceg"), memoryview(b"abcdefgh")[::2]):
        assert LATTICE.xor_transform(data) == wanted


@given(st.lists(st.integers(-(2**63), 2**63 - 1)), st.integers(-(2**63), 2**63 - 1))
def test_lists_and_a_number_as_key(data: list[int], key: int) -> None:
    hidden = LATTICE.xor_transform(data, key)
    assert hidden.dtype == np.int64
    assert hidden.tolist() == [one ^ key for one in data]
    assert LATTICE.xor_transform(hidden, key).tolist() == data


def test_numbers_of_a_key_take_the_dtype_of_the_data() -> None:
    data = np.arange(4, dtype=np.uint8)
    hidden = LATTICE.xor_transform(data, [255, 0])
    assert hidden.dtype == np.uint8 and hidden.tolist() == [255, 1, 253, 3]


def test_a_result_shares_no_memory_with_data_key_or_states() -> None:
    data = np.arange(9)
    for key in (None, data.copy(), np.zeros(9, int)):
        hidden = LATTICE.xor_transform(data, key)
        assert hidden.flags.writeable
        assert not np.shares_memory(hidden, data)
        assert not np.shares_memory(hidden, LATTICE.states)
        assert key is None or not np.shares_memory(hidden, key)


@pytest.mark.parametrize("backend", ["numpy", "torch", "jax"])
def test_every_backend_gives_the_same(backend: str) -> None:
    if backend != "numpy":
        pytest.importorskip(backend)
    data = np.arange(-500, 500, dtype=np.int32)
    wanted = data ^ np.resize(LATTICE.states, 1000).astype(np.int32)
    with gf.session(backend=backend):
        np.testing.assert_array_equal(LATTICE.xor_transform(data), wanted)


@pytest.mark.parametrize(
    ("data", "key", "said"),
    [
        (np.ones(3), None, "dtype float64"),
        ([1, 2.5], None, "dtype float64"),
        ("text", None, "data of text"),
        (np.ones(3, bool), None, "dtype bool"),
        ([[1, 2], [3]], None, "dtype object"),
        (2**70, None, "dtype object"),
        (np.arange(3), np.arange(3, dtype=np.int32), "the key has dtype int32, the data int64"),
        (np.arange(3), b"key", "the key has dtype uint8, the data int64"),
        (np.arange(3, dtype=np.uint8), 256, "numbers from 256 to 256; the data's uint8 holds 0 to"),
        (np.arange(3, dtype=np.uint8), [-1], "holds 0 to 255"),
        (np.arange(3), 1.5, "a key of dtype float64"),
        (np.arange(3), [], "the key is empty"),
        (b"data", b"", "the key is empty"),
    ],
)
def test_what_cannot_be_transformed_is_refused(data: object, key: object, said: str) -> None:
    with pytest.raises(WorkloadError, match=said):
        LATTICE.xor_transform(data, key)
