"""What lies around NumPy: structured, masked and object arrays, buffers, addresses."""

from __future__ import annotations

import array
import ctypes
import decimal
import fractions

import numpy as np

from tests.meaning.arrays import bits, ints, mat, vec
from tests.meaning.pattern import pattern


@pattern(lambda: np.array([(1, 2.5), (2, -1.0)], dtype=[("id", "i4"), ("v", "f8")]))
def structured_array(r):
    r["v"] *= 2
    return r["v"].sum(), r[r["id"] > 1], r[0]["v"], r.dtype.names


@pattern(lambda: np.rec.array([(1, 2.5), (2, -1.0)], dtype=[("id", "i4"), ("v", "f8")]))
def record_array(r):
    return r.v * 2, r.id.max()


@pattern(lambda: np.ma.masked_less(vec(6), 0))
def masked_array(m):
    return m.mean(), m * 2, m.filled(0), m.count(), np.ma.median(m)


@pattern(lambda: vec(6))
def masked_made_inside(x):
    m = np.ma.masked_where(x < 0, x)
    return m.sum(), (m + 1).compressed(), np.ma.is_masked(m)


@pattern(lambda: np.array([fractions.Fraction(1, 3), 2], dtype=object))
def object_array(o):
    return o * 2, o.sum(), o + o


@pattern(lambda: (np.array([1, "a", None], dtype=object), vec(3)))
def object_array_beside(o, x):
    return [type(v).__name__ for v in o], x * 2


@pattern(lambda: (vec(3), decimal.Decimal("1.5")))
def decimal_beside(x, d):
    return x * float(d), [decimal.Decimal(v) + d for v in x.tolist()]


@pattern(lambda: vec(4))
def memoryview_of_array(x):
    m = memoryview(x)
    return m.nbytes, m[1], m.tolist()


@pattern(lambda: vec(4))
def memoryview_written(x):
    memoryview(x)[0] = 5.0
    return x.sum()


@pattern(lambda: bytearray(np.arange(4.0).tobytes()))
def frombuffer(raw):
    x = np.frombuffer(raw)
    x[0] = 9
    return x * 2


@pattern(lambda: array.array("d", [1.0, 2.0]))
def python_array(a):
    return np.asarray(a) * 2, np.array(a)


@pattern(lambda: vec(4))
def ctypes_pointer(x):
    p = x.ctypes.data_as(ctypes.POINTER(ctypes.c_double))
    p[0] = 42.0
    return p[1], x.sum()


@pattern(lambda: vec(4))
def array_interface(x):
    return x.__array_interface__["shape"], x.flags.c_contiguous, x.base is None, x.data.nbytes


@pattern(lambda: vec(4))
def raw_view_of_bytes(x):
    return x.view(np.uint8)[:3], x.view("i8") >> 52


@pattern(lambda: vec(4, np.float32))
def fast_inverse_square_root(x):
    i = np.abs(x).view(np.int32)
    y = (0x5F3759DF - (i >> 1)).view(np.float32)
    return y * (1.5 - 0.5 * np.abs(x) * y * y)


@pattern(lambda: vec(4))
def dlpack_exchange(x):
    return np.from_dlpack(x) + 1


@pattern(lambda: np.array(["x", "yy"]))
def text_array(s):
    return np.char.add(s, "!"), s.astype(object), np.strings.str_len(s)


@pattern(lambda: (np.array(["2024-01-01", "NaT"], "M8[D]"), vec(2)))
def dates_with_gap(d, x):
    return np.isnat(d), x[~np.isnat(d)], d[0].astype(int)


@pattern(lambda: (vec(4), np.dtype([("a", "f4"), ("b", "i2")])))
def structured_made_inside(x, dtype):
    r = np.zeros(4, dtype)
    r["a"], r["b"] = x, np.arange(4)
    return r, r["a"].mean()


@pattern(lambda: mat(3, 2))
def save_and_load(x):
    import io

    f = io.BytesIO()
    np.savez(f, x=x, y=x.T)
    f.seek(0)
    with np.load(f) as z:
        return z["x"] + 1, z["y"].shape


@pattern(lambda: vec(4))
def text_round_trip(x):
    return np.fromstring(" ".join(map(str, x)), sep=" "), np.array(str(x)[1:-1].split(), float)


@pattern(lambda: (ints(5), bits(5)))
def packed_bits(k, m):
    return np.packbits(m), np.unpackbits(k.astype(np.uint8)), np.binary_repr(k[0])


@pattern(lambda: vec(4).astype(np.longdouble))
def long_double(x):
    return x * 2, x.sum().dtype.kind


@pattern(lambda: vec(4))
def set_flags_and_order(x):
    return np.asfortranarray(x.reshape(2, 2)), np.require(x, requirements="C"), x.flags.owndata


@pattern(lambda: vec(6))
def reshape_by_shape_attribute(x):
    x.shape = (2, 3)
    return x, x.strides


@pattern(lambda: vec(4))
def resize_method(x):
    y = x.copy()
    y.resize(6, refcheck=False)
    return y


@pattern(lambda: vec(4))
def byteswap_and_order(x):
    return x.byteswap().byteswap(), x.astype(">f8"), x.dtype.newbyteorder()
