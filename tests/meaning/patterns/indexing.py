"""Indexing: slices, masks, integer arrays, gathers and what they give back."""

from __future__ import annotations

import numpy as np

from tests.meaning.arrays import bits, cube, ints, mat, vec
from tests.meaning.pattern import pattern


@pattern(lambda: cube())
def ellipsis_and_newaxis(x):
    return x[..., 0], x[0, ...], x[:, None, 1], x[..., np.newaxis].shape, x[None, ..., None].shape


@pattern(lambda: vec(7))
def negative_steps(x):
    return x[::-1], x[5:1:-2], x[-3:], x[:-3:-1], x[-1], x[::3]


@pattern(lambda: mat(4, 5))
def steps_in_two_axes(x):
    return x[::2, ::-1], x[1:, :2], x[-2:, -1], x[3:0:-1, 1::2]


@pattern(lambda: vec(6))
def out_of_range_slices(x):
    return x[10:], x[:100], x[4:2], x[-100:2]


@pattern(lambda: (vec(6), bits(6)))
def mask_read(x, m):
    return x[m], x[~m], x[m].sum(), x[x > 0]


@pattern(lambda: (mat(3, 4), np.array([True, False, True])))
def mask_of_rows(x, m):
    return x[m], x[m, 1], x[m][:, [0, 2]], x[x > 1]


@pattern(lambda: mat(3, 4))
def mask_two_dimensional_write(x):
    x[x > 1] = -1
    x[(x < 0) & (x > -2)] *= 10
    return x


@pattern(lambda: (vec(6), ints(4)))
def integer_array_index(x, k):
    return x[k], x[k[::-1]], x[[0, -1]], x[k.reshape(2, 2)]


@pattern(lambda: mat(4, 4))
def pairs_of_index_arrays(x):
    return x[[0, 1], [2, 3]], x[np.arange(4), np.arange(4)], x[[[0], [1]], [1, 2]]


@pattern(lambda: cube(3, 4, 5))
def mixed_index(x):
    return x[0, [1, 2]], x[:, [0, 2], 1], x[[0, 1], :, [2, 3]].shape, x[1:, 0, ::2], x[..., [0]]


@pattern(lambda: mat(4, 4))
def open_mesh(x):
    return x[np.ix_([0, 2], [1, 3])], x[np.ix_([True, False, True, False], [0])]


@pattern(lambda: mat(4, 4))
def open_mesh_write(x):
    x[np.ix_([0, 2], [1, 3])] += 100
    return x


@pattern(lambda: mat(3, 4))
def take_along_axis(x):
    order = np.argsort(x, axis=1)
    return np.take_along_axis(x, order, axis=1), np.take_along_axis(x, order[:, :1], axis=1)


@pattern(lambda: (mat(3, 4), np.array([[1], [0], [2]])))
def put_along_axis(x, k):
    np.put_along_axis(x, k, 0.0, axis=1)
    return x


@pattern(lambda: mat(3, 4))
def argmax_then_index(x):
    k = x.argmax(axis=1)
    return x[np.arange(3), k], x[np.unravel_index(x.argmax(), x.shape)], k


@pattern(lambda: vec(6))
def index_by_scalar_array(x):
    k = np.argmin(x)
    return x[k], x[: k + 1], x[k:], x[np.array(2)], x[np.int32(1)]


@pattern(lambda: mat(3, 4))
def tuple_index(x):
    where = (1, 2)
    return x[where], x[(slice(None), 1)], x[tuple([0, 0])]


@pattern(lambda: vec(6))
def where_gives_indices(x):
    (k,) = np.where(x > 0)
    return k, x[k], np.where(x > 100)[0].size


@pattern(lambda: (mat(3, 4), vec(4)))
def where_broadcasts(x, row):
    return np.where(x > row, x, row), np.where([[True], [False], [True]], x, 0)


@pattern(lambda: vec(6))
def select_and_piecewise(x):
    return np.select([x < 0, x < 2], [-x, x * 10], default=7.0), np.piecewise(
        x, [x < 0, x >= 0], [lambda v: -v, lambda v: v * 2]
    )


@pattern(lambda: ints(6))
def one_hot(k):
    y = np.zeros((6, 5))
    y[np.arange(6), k] = 1
    return y, np.eye(5)[k]


@pattern(lambda: mat(3, 4))
def delete_and_insert(x):
    return np.delete(x, 1, axis=0), np.insert(x, 1, 9.0, axis=1), np.delete(x, [0, 2], 1)


@pattern(lambda: (mat(4, 3), np.array([2, 0, 1])))
def permute_columns(x, p):
    y = x[:, p]
    inverse = np.argsort(p)
    return y, y[:, inverse]


@pattern(lambda: mat(4, 4))
def triangles(x):
    return np.triu(x), np.tril(x, -1), x[np.triu_indices(4, 1)], x[np.tril_indices_from(x)]


@pattern(lambda: vec(8))
def strided_windows(x):
    w = np.lib.stride_tricks.sliding_window_view(x, 3)
    return w.mean(axis=1), w.shape, w[::2]


@pattern(lambda: vec(6))
def as_strided(x):
    return np.lib.stride_tricks.as_strided(x, (3, 2), (16, 8)).sum(axis=1)


@pattern(lambda: (vec(10), 3))
def batches(x, n):
    return [x[k : k + n] for k in range(0, len(x), n)]


@pattern(lambda: mat(4, 4))
def neighbours_by_slices(x):
    inner = x[1:-1, 1:-1]
    return inner - 0.25 * (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:])


@pattern(lambda: cube(2, 3, 4))
def drop_and_keep_dimension(x):
    return x[0].shape, x[0:1].shape, x[:, 0].shape, x[0, 1, 2], x[0][1][2]


@pattern(lambda: vec(6))
def item_assignment_of_slices(x):
    y = np.zeros(10)
    y[2:8] = x
    y[::3] = -1
    y[-2:] = y[:2]
    return y


@pattern(lambda: (vec(5), bits(5)))
def mask_written_with_array(x, m):
    y = np.zeros_like(x)
    y[m] = x[m] ** 2
    y[~m] = np.nan
    return y


@pattern(lambda: mat(3, 4))
def boolean_scalar_index(x):
    return x[True].shape, x[False].shape, x[None, True].shape


@pattern(lambda: mat(3, 4))
def empty_index_lists(x):
    return x[[]], x[:, []].shape, x[np.array([], int)].sum(), x[[], []]


@pattern(lambda: (vec(5), ints(5, np.uint8)))
def index_with_small_integers(x, k):
    return x[k], x[k.astype(np.int16)], np.take(x, k)


@pattern(lambda: (vec(5), np.array([1.0, 2.0])))
def index_with_floats(x, k):
    return x[k]


@pattern(lambda: (vec(5), bits(4)))
def mask_of_wrong_length(x, m):
    return x[m]


@pattern(lambda: (vec(6), ints(6)))
def group_sums(x, k):
    return np.array([x[k == g].sum() for g in np.unique(k)]), np.bincount(k, weights=x)


@pattern(lambda: mat(3, 4))
def sort_rows_by_column(x):
    return x[x[:, 1].argsort()], x[np.lexsort(x.T)]


@pattern(lambda: vec(6))
def last_k_elements(x):
    k = 2
    return x[-k:], x[:-k], x[np.argsort(x)[-k:]][::-1]


@pattern(lambda: mat(3, 3))
def flat_indexing(x):
    return x.flat[4], x.ravel()[[0, 4, 8]], np.ravel_multi_index((1, 2), x.shape), x.flat[1:3]


@pattern(lambda: (vec(4), np.array([0, 1, 1, 3])))
def scatter_with_repeats(x, k):
    y = np.zeros(4)
    y[k] = x
    return y


@pattern(lambda: mat(3, 4))
def roll_axes_and_flip(x):
    return np.flip(x), np.flipud(x), np.fliplr(x), np.rot90(x), np.roll(x, 1, axis=1)


@pattern(lambda: mat(3, 4))
def extract_and_trim(x):
    return np.extract(x > 0, x), np.trim_zeros(np.array([0, 0, 1, 2, 0])), np.compress([0, 1], x, 0)


@pattern(lambda: mat(5, 2))
def points_within_box(p):
    inside = np.all((p > -3) & (p < 3), axis=1)
    return p[inside], np.flatnonzero(inside), inside.sum()


@pattern(lambda: vec(9))
def index_chain_on_views(x):
    return x[1:][::2][1], x.reshape(3, 3)[1][2], x.reshape(3, 3).T[0][1:]


@pattern(lambda: (mat(3, 4), (slice(0, 2), 1)))
def index_passed_as_tuple(x, where):
    x[where] = 0
    return x[where]


@pattern(lambda: (vec(5), 2, 7.0))
def functional_update(x, k, v):
    y = x.copy()
    y[k] = v
    return y
