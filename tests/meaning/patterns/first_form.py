"""Functions whose way depends on values, dtypes and dimensions: the first call is not all."""

from __future__ import annotations

import numpy as np

from tests.meaning.arrays import cube, ints, mat, odd, pos, vec
from tests.meaning.pattern import call, pattern


@pattern(lambda: (vec(4), 0), lambda: (vec(4), 2), lambda: (vec(4), 0.5))
def branch_on_number(x, p):
    return x if p == 0 else x * p


@pattern(lambda: (vec(4), 0.0), lambda: (vec(4), 2.0), lambda: (vec(4), -1.0))
def power_by_cases(x, p):
    if p > 0:
        return x**2
    if p < 0:
        return 1 / x
    return np.ones(3)


@pattern(lambda: pos(4), lambda: -pos(4), lambda: vec(4))
def branch_on_sum(x):
    if x.sum() > 0:
        return np.sqrt(x)
    return "negative"


@pattern(lambda: vec(4), lambda: mat(2, 3), lambda: cube())
def branch_on_ndim(x):
    if x.ndim == 1:
        return x[None, :] * 2
    return x.sum(axis=-1)


@pattern(lambda: vec(4), lambda: vec(4, np.float32), lambda: ints(4))
def branch_on_dtype(x):
    if x.dtype == np.float32:
        return x.astype(np.float64) + 0.1
    if np.issubdtype(x.dtype, np.integer):
        return x // 2
    return x / 2


@pattern(lambda: vec(4), lambda: vec(1), lambda: vec(0))
def branch_on_length(x):
    if len(x) == 0:
        return 0.0
    return x if len(x) == 1 else x[:-1]


@pattern(lambda: vec(4), lambda: odd(4))
def branch_on_finite(x):
    if not np.isfinite(x).all():
        raise ValueError("not finite")
    return x + 1


@pattern(lambda: (vec(4), None), lambda: (vec(4), pos(4)))
def optional_weights(x, w=None):
    if w is None:
        w = np.ones_like(x)
    return np.average(x, weights=w)


@pattern(lambda: (vec(4), "sum"), lambda: (vec(4), "mean"), lambda: (vec(4), "bad"))
def branch_on_text(x, how):
    if how == "sum":
        return x.sum()
    if how == "mean":
        return x.mean()
    raise KeyError(how)


@pattern(lambda: (vec(4), True), lambda: (vec(4), False))
def branch_on_flag(x, normalise):
    y = x - x.min()
    if normalise:
        y /= y.max()
    return y


@pattern(lambda: (vec(4), 2), lambda: (vec(4), 2.0), lambda: (vec(4), 2 + 0j))
def kind_of_number(x, s):
    return x * s


@pattern(lambda: (ints(4), 2), lambda: (ints(4), 2.0), lambda: (ints(4), True))
def kind_of_number_with_integers(x, s):
    return x * s


@pattern(lambda: (vec(4), 1), lambda: (vec(4), np.float32(1)), lambda: (vec(4), np.int8(1)))
def kind_of_numpy_scalar(x, s):
    return x.astype(np.float32) + s


@pattern(lambda: (vec(8), 2), lambda: (vec(8), 4), lambda: (vec(8), 8))
def shape_by_number(x, n):
    return x.reshape(n, -1)


@pattern(lambda: (mat(), 0), lambda: (mat(), 1), lambda: (mat(), None))
def axis_by_number(x, axis):
    return x.sum(axis=axis)


@pattern(lambda: (mat(), 0), lambda: (mat(), -1), lambda: (mat(), 5))
def index_by_number(x, k):
    return x[k]


@pattern(lambda: (vec(6), 1, 4), lambda: (vec(6), 3, 3), lambda: (vec(6), 0, 100))
def slice_by_numbers(x, a, b):
    return x[a:b]


@pattern(lambda: (vec(4), 1), lambda: (vec(4), 3), lambda: (vec(4), 0))
def loop_by_number(x, n):
    for _ in range(n):
        x = x * 0.5 + 1
    return x


@pattern(lambda: (vec(4), 1e-1), lambda: (vec(4), 1e-6))
def loop_until_small(x, tolerance):
    steps = 0
    while np.abs(x).max() > tolerance:
        x = x * 0.25
        steps += 1
    return steps


@pattern(lambda: 2.0, lambda: 2, lambda: vec(3), lambda: [1.0, 2.0])
def scalar_or_array(x):
    return np.asarray(x) * 3


@pattern(lambda: vec(4), lambda: 1.5, lambda: mat(2, 2))
def atleast(x):
    return np.atleast_1d(x).sum(), np.atleast_2d(x).shape


@pattern(lambda: (vec(3), vec(3)), lambda: (mat(4, 3), vec(3)), lambda: (vec(4), vec(3)))
def broadcasting_varies(a, b):
    return a + b


@pattern(lambda: vec(6), lambda: vec(6)[::2], lambda: np.asfortranarray(mat()), lambda: mat().T)
def layout_varies(x):
    return x.ravel(), x * 2


@pattern(lambda: vec(4), lambda: vec(4).astype(">f8"), lambda: vec(4).astype(np.longdouble))
def byte_order_varies(x):
    return x + 1


@pattern(lambda: call(vec(4), scale=2.0), lambda: call(vec(4)), lambda: call(x=vec(4), scale=3))
def keyword_varies(x, scale=1.0):
    return x * scale


@pattern(lambda: vec(4), lambda: (vec(4), pos(4)), lambda: (vec(4), pos(4), vec(4)))
def number_of_arrays_varies(*arrays):
    return np.stack(arrays).mean(axis=0)


@pattern(lambda: call(a=vec(3)), lambda: call(b=vec(3), a=pos(3)))
def names_vary(**arrays):
    return {k: v.sum() for k, v in arrays.items()}


@pattern(lambda: [vec(3)], lambda: [vec(3), pos(3)], lambda: [])
def list_length_varies(arrays):
    return sum(a.sum() for a in arrays)


@pattern(lambda: {"a": vec(3)}, lambda: {"b": vec(3)}, lambda: {"a": vec(3), "b": pos(3)})
def dict_keys_vary(d):
    return sorted(d), [d[k] * 2 for k in sorted(d)]


@pattern(lambda: (vec(4), 3), lambda: (vec(4), -3), lambda: (vec(4), 300))
def exponent_varies(x, n):
    return x**n


@pattern(lambda: (ints(4), 2), lambda: (ints(4) + 1, -1), lambda: (ints(4), 0))
def integer_exponent_varies(x, n):
    return x**n


@pattern(lambda: (vec(4), 0.0), lambda: (vec(4), float("nan")), lambda: (vec(4), float("inf")))
def number_is_special(x, c):
    return x * c, np.maximum(x, c)


@pattern(lambda: (vec(4), 1), lambda: (vec(4), 2**40), lambda: (vec(4), 10**30))
def number_grows(x, c):
    return x + c


@pattern(lambda: (vec(5), "constant"), lambda: (vec(5), "edge"), lambda: (vec(5), "reflect"))
def mode_by_text(x, mode):
    return np.pad(x, 2, mode=mode)


@pattern(lambda: (mat(2, 3), "ij,ij->"), lambda: (mat(2, 3), "ij,ij->i"))
def einsum_by_text(x, spec):
    return np.einsum(spec, x, x)


@pattern(lambda: (vec(4), True), lambda: (vec(4), False))
def returns_array_or_pair(x, both):
    return (x, x * 2) if both else x * 2


@pattern(lambda: np.array(3.0), lambda: np.array([3.0]), lambda: np.float64(3.0))
def zero_dimensions_or_one(x):
    return x * 2, np.shape(x)


@pattern(lambda: vec(3), lambda: vec(3).tolist(), lambda: (tuple(vec(3).tolist()),))
def sequence_or_array(x):
    return np.sum(x), np.mean(x), np.cumsum(x)


@pattern(lambda: (vec(4), np.array(1)), lambda: (vec(4), np.array(2)), lambda: (vec(4), 3))
def count_from_array(x, n):
    return x[: int(n)]


@pattern(lambda: vec(4), lambda: vec(4, np.float16), lambda: ints(4, np.uint8), lambda: vec(4) > 0)
def dtype_varies(x):
    return x + x, x.sum(), x.mean()


@pattern(lambda: (vec(5), 3), lambda: (vec(5), 4), lambda: (vec(5), 3))
def made_from_number(x, n):
    return np.zeros(n), np.eye(n)[0], np.full(n, x[0])
