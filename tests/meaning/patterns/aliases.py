"""Arrays that NumPy itself makes over a recorded array's memory: other types, masked, read-only."""

from __future__ import annotations

import pickle
from types import SimpleNamespace

import numpy as np

from tests.meaning.arrays import mat, vec
from tests.meaning.pattern import pattern


class Tagged(np.ndarray):
    """A subclass without behaviour of its own."""


class Locked(np.ndarray):
    """A subclass that looks at its flags before it is written into, as units do."""

    def double(self):
        if not self.flags.writeable:
            raise ValueError("array is not writeable")
        self[...] = self * 2


@pattern(lambda: vec(6))
def write_after_another_dtype(x):
    bits = x.view("u8")
    x += 1
    return bits >> 40


@pattern(lambda: vec(6))
def write_after_another_dtype_of_a_result(x):
    y = x * 2
    bits = y.view("u8")
    y += 1
    return bits


@pattern(lambda: mat(3, 4))
def write_after_a_flat_view(x):
    flat = x.T.ravel("K")
    x[0, 0] = 9
    return flat


@pattern(lambda: vec(6))
def write_after_flat(x):
    flat = x.flat
    x[0] = 9
    return next(flat)


@pattern(lambda: mat(3, 4))
def flat_view_of_an_argument(x):
    return x.T.ravel("K")


@pattern(lambda: vec(6))
def other_dtype(x):
    y = x * 2
    return x.view("u8"), y.view("u8"), y, x.astype("f4").view("i4")


@pattern(lambda: vec(6))
def subclasses(x):
    y = x * 2
    return x.view(Tagged), y.view(Tagged), y, np.asmatrix(x.reshape(2, 3)), x.view(np.recarray)


@pattern(lambda: vec(6))
def masked(x):
    y = np.ma.asarray(x)
    y.mask = x < 0
    return y, np.ma.masked_array(x * 2, mask=x > 0, copy=False)


@pattern(lambda: vec(6))
def masked_after_a_write(x):
    x += 1
    return np.ma.masked_array(x, mask=x > 0, copy=False), x.view("u8")


@pattern(lambda: (SimpleNamespace(), {}, [], vec(6)))
def held_by_arguments(space, table, found, x):
    space.masked = np.ma.masked_array(x, mask=x > 0)
    space.bits = (x * 2).view("u8")
    table["masked"] = np.ma.asarray(x)
    table["bits"] = x.view("u8")
    found.append(np.ma.asarray(x))
    found.append(x.view("u8"))
    return x.sum()


@pattern(lambda: vec(6))
def writable_says_a_library(x):
    x.view(Locked).double()
    return x


@pattern(lambda: vec(6))
def random_numbers_into_memory(x):
    y = np.ma.asarray(x)
    np.random.default_rng(3).standard_normal(out=y.data)
    return x


@pattern(lambda: vec(6))
def pickled(x):
    return pickle.loads(pickle.dumps(x, 5)), pickle.loads(pickle.dumps(x[:2] * 2, 5))


@pattern(lambda: mat(3, 4))
def fortran_order(x):
    return x.astype("f4", order="F").strides


@pattern(lambda: vec(6))
def asked_for_its_interface(x):
    return hasattr(x, "__array_interface__"), hasattr(x, "__array_struct__")


@pattern(lambda: (vec(4), vec(3)[:, None]))
def write_after_broadcast_arrays(x, y):
    wide, tall = np.broadcast_arrays(x, y)
    x[0] = 5.0
    return wide + tall


@pattern(lambda: vec(4))
def write_after_meshgrid(x):
    across, down = np.meshgrid(x, x)
    x[0] = 5.0
    across[0, 1] = 3.0
    return across - down
