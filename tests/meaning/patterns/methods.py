"""Methods and functions whose name means something else in other libraries."""

from __future__ import annotations

import numpy as np

from tests.meaning.arrays import bits, cplx, cube, ints, mat, odd, pos, vec
from tests.meaning.pattern import pattern


@pattern(lambda: vec(4), lambda: mat())
def std_method(x):
    return x.std()


@pattern(lambda: mat())
def std_axis_ddof(x):
    return x.std(axis=0, ddof=1), np.std(x, axis=1), x.var(0)


@pattern(lambda: mat())
def standardise_columns(x):
    return (x - x.mean(axis=0)) / x.std(axis=0)


@pattern(lambda: vec(4), lambda: mat(2, 2))
def repeat_method(x):
    return x.repeat(2)


@pattern(lambda: mat(2, 3))
def repeat_axis(x):
    return x.repeat(2, axis=1), np.repeat(x, [1, 2], axis=0)


@pattern(lambda: vec(5))
def sort_method_in_place(x):
    x.sort()
    return x


@pattern(lambda: vec(5))
def sort_method_returns_none(x):
    return x.copy().sort()


@pattern(lambda: mat())
def sort_default_axis(x):
    return np.sort(x), np.sort(x, axis=None), np.sort(x, axis=0)[::-1]


@pattern(lambda: vec(4), lambda: vec(5))
def median_even(x):
    return np.median(x)


@pattern(lambda: mat(4, 3))
def median_axis(x):
    return np.median(x, axis=0), np.median(x, axis=1, keepdims=True)


@pattern(lambda: (vec(3), pos(3)), lambda: (mat(3, 3), pos(3)))
def cross_product(a, b):
    return np.cross(a, b)


@pattern(lambda: mat())
def max_axis_gives_values(x):
    return x.max(axis=1), x.min(0)


@pattern(lambda: mat())
def argmax_flat(x):
    return x.argmax(), x.argmin(axis=0)


@pattern(lambda: mat(), lambda: cube())
def size_attribute(x):
    return x.size, x.shape, x.ndim, x.nbytes, x.itemsize, x.strides


@pattern(lambda: cube())
def transpose_reverses_all_axes(x):
    return x.T, x.transpose(), x.transpose(1, 0, 2), x.transpose((2, 0, 1))


@pattern(lambda: mat(2, 3))
def view_as_other_dtype(x):
    return x.view(np.int64)


@pattern(lambda: mat())
def flatten_copies(x):
    y = x.flatten()
    y[0] = 100
    return y, x


@pattern(lambda: mat())
def ravel_views(x):
    y = x.ravel()
    y[0] = 100
    return x


@pattern(lambda: mat())
def fill_method(x):
    return x.fill(2.5)


@pattern(lambda: vec(4))
def dot_methods(x):
    return x.dot(x), x @ x, np.dot(x, 2.0)


@pattern(lambda: cube(2, 3, 4))
def dot_of_three_dimensions(x):
    return np.dot(x, x.transpose(0, 2, 1)).shape


@pattern(lambda: (cube(2, 3, 4), cube(2, 4, 3)))
def stacked_matmul(a, b):
    return a @ b


@pattern(lambda: (vec(3), pos(2)))
def outer_of_vectors(a, b):
    return np.outer(a, b), np.multiply.outer(a, b)


@pattern(lambda: vec(5))
def clip_method(x):
    return x.clip(-1, 2), np.clip(x, None, 0.5), x.clip(min=0)


@pattern(lambda: vec(5))
def round_half_to_even(x):
    return np.round(x), x.round(1), np.round(np.array([0.5, 1.5, 2.5, -0.5]))


@pattern(lambda: mat())
def cumsum_flattens(x):
    return x.cumsum(), x.cumsum(axis=0), x.cumprod(1)


@pattern(lambda: mat(3, 3))
def trace_and_diagonal(x):
    return x.trace(), x.diagonal(), x.diagonal(1), np.diag(x), np.diag(x[0])


@pattern(lambda: vec(4))
def item_method(x):
    return x.item(2), x[1].item(), type(x.item(0)).__name__


@pattern(lambda: mat())
def take_flattens(x):
    return x.take([0, 5]), x.take([0, 2], axis=1)


@pattern(lambda: cube(1, 3, 1))
def squeeze_all(x):
    return x.squeeze(), x.squeeze(axis=0), np.squeeze(x, -1)


@pattern(lambda: mat(2, 3))
def swapaxes_moveaxis(x):
    return x.swapaxes(0, 1), np.moveaxis(x[None], 0, -1)


@pattern(lambda: mat())
def nonzero_is_a_tuple(x):
    rows, cols = (x > 0).nonzero()
    return rows, cols


@pattern(lambda: vec(5))
def argwhere_and_flatnonzero(x):
    return np.argwhere(x > 0), np.flatnonzero(x < 0)


@pattern(lambda: vec(5))
def any_all_methods(x):
    return (x > 0).any(), (x > -100).all(), x.any()


@pattern(lambda: vec(4))
def ptp_and_range(x):
    return np.ptp(x), x.max() - x.min()


@pattern(lambda: vec(6))
def partition(x):
    return np.sort(np.partition(x, 2)[:3]), x[np.argpartition(x, 2)[:2]].max()


@pattern(lambda: vec(5))
def argsort_then_use(x):
    order = x.argsort()
    return x[order], order[::-1]


@pattern(lambda: (vec(6), ints(6)))
def lexsort(x, k):
    return np.lexsort((x, k))


@pattern(lambda: mat(2, 6))
def split_counts_parts(x):
    return np.split(x, 3, axis=1), np.array_split(x, 4, axis=1)


@pattern(lambda: vec(4))
def tile_repeats(x):
    return np.tile(x, 2), np.tile(x, (2, 1))


@pattern(lambda: mat())
def expand_dims(x):
    return np.expand_dims(x, 0).shape, np.expand_dims(x, -1)


@pattern(lambda: cplx(4))
def conj_real_imag(z):
    return z.conj(), z.real, z.imag, abs(z), np.angle(z)


@pattern(lambda: (mat(2, 3), mat(2, 3)))
def star_is_elementwise(a, b):
    return a * b, a**2, a / (abs(b) + 1)


@pattern(lambda: vec(5))
def mod_has_sign_of_divisor(x):
    return x % 2, np.fmod(x, 2), x // 2, divmod(x, 1.5), np.remainder(x, -2)


@pattern(lambda: ints(6) - 2)
def integer_mod_and_floor(x):
    return x % 3, x // 3, np.mod(x, -3), divmod(x, 2)


@pattern(lambda: mat())
def sum_of_many_axes(x):
    return x.sum(), x.sum(axis=(0, 1)), x.sum(keepdims=True), x.sum(axis=-1)


@pattern(lambda: ints(6))
def mean_of_integers(x):
    return x.mean(), np.mean(x, dtype=np.float32)


@pattern(lambda: bits(6))
def sum_of_booleans(x):
    return x.sum(), np.mean(x), np.count_nonzero(x), x.astype(int).cumsum()


@pattern(lambda: odd(6))
def max_with_nan(x):
    return x.max(), x.min(), np.fmax(x, 0), np.maximum(x, 0), np.nanmax(x)


@pattern(lambda: vec(8))
def linspace_arange(x):
    return np.linspace(0, 1, 5), np.linspace(0, x.size, 4, endpoint=False), np.arange(0, 1, 0.3)


@pattern(lambda: mat(3, 3))
def norm_of_matrix(x):
    return np.linalg.norm(x), np.linalg.norm(x, axis=1), np.linalg.norm(x, 2), np.linalg.norm(x, 1)


@pattern(lambda: vec(4))
def equality_gives_an_array(x):
    return x == x, x == "a", x != None  # noqa: E711


@pattern(lambda: vec(4))
def copy_and_astype_copy(x):
    y = x.astype(np.float64)
    y[0] = 5
    z = x.astype(np.float64, copy=False)
    return y, z is x, x


@pattern(lambda: mat())
def flat_iterator(x):
    x.flat[3] = 10
    return x.flat[5], list(x.flat)[:4]


@pattern(lambda: mat())
def resize_function(x):
    return np.resize(x, (2, 2)), np.reshape(x, (4, 3), order="F"), x.reshape(-1, 2)


@pattern(lambda: mat())
def compress_and_choose(x):
    return x.compress([True, False, True], axis=0), np.choose([0, 1, 2, 0], x)


@pattern(lambda: vec(5))
def unique_is_sorted(x):
    values, counts = np.unique(np.sign(x), return_counts=True)
    return values, counts


@pattern(lambda: vec(5))
def expm1_log1p(x):
    return np.expm1(x), np.log1p(abs(x)), np.logaddexp(x, 0), np.hypot(x, 1), np.arctan2(x, 2)


@pattern(lambda: mat(2, 2))
def method_prod_and_reduce(x):
    return x.prod(), np.add.reduce(x), np.multiply.accumulate(x, axis=1), np.maximum.reduce(x, 1)
