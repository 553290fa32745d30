"""Writes into arguments and results that share memory with them."""

from __future__ import annotations

import numpy as np

from tests.meaning.arrays import bits, cplx, cube, ints, mat, pos, vec
from tests.meaning.pattern import call, pattern, scene


def same_twice():
    z = vec(4)
    return z, z


def overlapping():
    base = vec(8)
    return base[:6], base[2:]


@pattern(same_twice)
def add_to_itself(x, y):
    x += y
    y *= 2
    return x, y


@pattern(overlapping)
def arguments_overlap(a, b):
    a[:] = b
    return a.sum(), b


@pattern(lambda: vec(6), lambda: mat(3, 2))
def return_tail(x):
    return x[1:]


@pattern(lambda: vec(6))
def return_tail_and_write(x):
    y = x[1:]
    y *= 10
    return y


@pattern(lambda: (vec(4), 0), lambda: (vec(4), 1))
def write_before_raise(x, bad):
    x[0] = 99.0
    x += 1
    if bad:
        raise RuntimeError("half way")
    return x


@pattern(lambda: (vec(4), True), lambda: (vec(4), False))
def write_in_branch(x, inplace):
    if inplace:
        x *= 2
        return None
    return x * 2


@pattern(lambda: vec(4))
def inplace_operators(x):
    x += 1
    x -= 0.5
    x *= 3
    x /= 2
    x **= 2
    return x


@pattern(lambda: ints(5))
def inplace_integer_operators(x):
    x += 2
    x *= 3
    x //= 2
    x %= 4
    x <<= 1
    x ^= 1
    x |= 8
    x &= 13
    return x.copy()


@pattern(lambda: ints(5))
def inplace_true_divide_of_integers(x):
    x /= 2
    return x


@pattern(lambda: vec(4, np.float32))
def inplace_keeps_dtype(x):
    x += np.float64(0.1)
    x *= np.arange(4.0)
    return x


@pattern(lambda: ints(4, np.uint8))
def inplace_add_float_to_integers(x):
    x += 1.5
    return x


@pattern(lambda: (vec(4), np.zeros(4)))
def out_argument(x, out):
    np.sin(x, out=out)
    return out


@pattern(lambda: (vec(4), pos(4)))
def out_into_argument(x, y):
    r = np.add(x, y, out=x)
    return r is x


@pattern(lambda: (mat(3, 3), np.empty((3, 3))))
def matmul_out(a, out):
    np.matmul(a, a.T, out=out)
    np.maximum(out, 0, out=out)
    return out


@pattern(lambda: (mat(), np.zeros(4)))
def sum_out(a, out):
    return a.sum(axis=0, out=out)


@pattern(lambda: vec(6))
def ufunc_where_out(x):
    out = np.full_like(x, -1.0)
    np.sqrt(x, where=x > 0, out=out)
    return out


@pattern(lambda: vec(6))
def put_in_place(x):
    np.put(x, [0, 2], [10.0, 20.0])
    x.put([1], -5)
    return x


@pattern(lambda: vec(6))
def place_and_putmask(x):
    np.place(x, x < 0, [1.0, 2.0])
    np.putmask(x, x > 2, x * 10)
    return x.max()


@pattern(lambda: vec(6))
def copyto_where(x):
    np.copyto(x, 0.0, where=x < 0)


@pattern(lambda: vec(6))
def fill_part(x):
    x[2:].fill(7)
    return x


@pattern(lambda: vec(6), lambda: mat(3, 2))
def sort_in_place(x):
    x.sort(axis=0)
    return x[0]


@pattern(lambda: (np.zeros(5), ints(8)))
def add_at(x, k):
    np.add.at(x, k, 1.0)
    return x


@pattern(lambda: (np.zeros(5), ints(8)))
def buffered_add_of_repeated_indices(x, k):
    x[k] += 1
    return x


@pattern(lambda: (vec(5), ints(5), pos(5)))
def maximum_at(x, k, v):
    np.maximum.at(x, k, v)
    np.subtract.at(x, [0, 0], 1)
    return x


@pattern(lambda: vec(8))
def overlapping_shift_right(x):
    x[1:] = x[:-1]
    return x


@pattern(lambda: vec(8))
def overlapping_shift_add(x):
    x[:-1] += x[1:]
    return x


@pattern(lambda: vec(6))
def reverse_in_place(x):
    x[:] = x[::-1]
    return x


@pattern(lambda: vec(6))
def write_through_reshape(x):
    m = x.reshape(2, 3)
    m[1] = 0
    m[:, 0] += 100
    return x


@pattern(lambda: mat(3, 4))
def write_through_transpose(x):
    t = x.T
    t[0] = -1
    t[:, 1] *= 2
    return x.sum()


@pattern(lambda: mat(3, 3))
def write_diagonal(x):
    np.fill_diagonal(x, 5.0)
    x[np.diag_indices(3)] += 1
    x.flat[::4] *= 2
    return x


@pattern(lambda: mat(3, 3))
def diagonal_is_read_only(x):
    d = x.diagonal()
    return d.flags.writeable, d


@pattern(lambda: cplx(4))
def write_real_part(z):
    z.real = 0
    z.imag[1:] *= 2
    return abs(z)


@pattern(lambda: cplx(4))
def return_imaginary_view(z):
    return z.imag


@pattern(lambda: vec(4))
def real_of_real_is_itself(x):
    y = x.real
    y += 1
    return x


@pattern(lambda: mat(4, 4))
def write_blocks(x):
    x[:2, :2] = x[2:, 2:]
    x[2:, :2] = 0
    x[-1] = x[0] + 1
    return x


@pattern(lambda: (mat(3, 4), vec(4)))
def write_row_broadcast(x, row):
    x[1] = row
    x[:, 2] = [7, 8, 9]
    x[2, ...] -= row


@pattern(lambda: vec(6))
def write_by_mask(x):
    x[x < 0] = 0
    x[x > 2] *= 0.5
    return x


@pattern(lambda: (vec(6), bits(6), vec(6)))
def write_masked_from_other(x, m, y):
    x[m] = y[m] * 2
    x[~m] += 1
    return x


@pattern(lambda: (vec(6), np.array([4, 0, 4])))
def write_by_indices(x, k):
    x[k] = [1.0, 2.0, 3.0]
    return x


@pattern(lambda: mat(3, 4))
def write_by_pairs_of_indices(x):
    x[[0, 1, 2], [1, 2, 3]] = 0
    x[[0, 2]] += 1
    return x


@pattern(lambda: vec(4))
def write_then_read_then_write(x):
    x[0] = x[1] + x[2]
    s = x.sum()
    x[1] = s
    return float(x.sum()), s


@pattern(lambda: vec(4))
def rebinding_is_not_writing(x):
    x = x + 1
    x += 5
    return x


@pattern(lambda: (vec(4), pos(4)))
def swap_in_place(a, b):
    a[:], b[:] = b.copy(), a.copy()


@pattern(lambda: (vec(4), pos(4)))
def swap_names_only(a, b):
    a, b = b, a
    a += 1
    return a, b


@pattern(lambda: vec(6))
def view_keeps_old_values_not(x):
    head = x[:3]
    x *= 2
    return head


@pattern(lambda: vec(6))
def copy_keeps_old_values(x):
    before = x.copy()
    x *= 2
    return before, x - before


@pattern(lambda: vec(6))
def value_read_before_write(x):
    first = x[0]
    total = x.sum()
    x[0] = 50
    return first, total, x[0]


@pattern(lambda: (vec(6), 3))
def two_views_of_one_argument(x, n):
    a, b = x[:n], x[n:]
    a += b
    b[:] = a
    return a, b


@pattern(lambda: mat(3, 4))
def rows_are_views(x):
    for k, row in enumerate(x):
        row *= k
    return x


@pattern(lambda: mat(3, 4))
def columns_normalised_in_place(x):
    x -= x.mean(axis=0)
    x /= x.std(axis=0)


@pattern(lambda: mat(3, 4))
def view_of_view_of_view(x):
    y = x[1:][::-1].T[::2]
    y[...] = 9
    return y, x


@pattern(lambda: vec(6))
def broadcast_view_returned(x):
    return np.broadcast_to(x, (2, 6))


@pattern(lambda: vec(6))
def write_into_broadcast_view(x):
    y = np.broadcast_to(x, (2, 6))
    y[0] = 1
    return y


@pattern(lambda: vec(6))
def ascontiguous_may_be_itself(x):
    return np.ascontiguousarray(x), np.ascontiguousarray(x[::2])


@pattern(lambda: vec(6))
def asarray_is_itself(x):
    return np.asarray(x) is x, np.array(x) is x, np.asanyarray(x)


@pattern(lambda: vec(6))
def hidden_write_by_helper(x):
    def clip_negative(a):
        a[a < 0] = 0

    clip_negative(x)
    return x.sum()


@pattern(lambda: call(x=vec(6), inplace=True), lambda: call(x=vec(6)))
def inplace_option(x, inplace=False):
    y = x if inplace else x.copy()
    y -= y.max()
    np.exp(y, out=y)
    y /= y.sum()
    return y


@pattern(lambda: (cube(), 1))
def moveaxis_view_written(x, axis):
    y = np.moveaxis(x, axis, 0)
    y[0] = 0
    return x.sum()


@pattern(lambda: cube(2, 3, 1))
def squeeze_and_newaxis_views(x):
    x.squeeze()[0] = 1
    x[None][0, 1] = 2
    return x


@pattern(lambda: vec(6))
def read_only_argument(x):
    x.flags.writeable = False
    try:
        x[0] = 1
    except ValueError:
        return "read-only"
    return "written"


@pattern(lambda: np.broadcast_to(vec(3), (2, 3)))
def read_only_argument_given(x):
    x[0, 0] = 1
    return x


@pattern(lambda: (vec(4), [vec(4)]))
def array_inside_list_written(x, arrays):
    arrays[0] += x
    arrays[0][0] = 0
    return arrays[0]


@pattern(lambda: vec(6)[::2], lambda: vec(6)[::-1], lambda: mat(3, 4).T)
def strided_argument_written(x):
    x += 1
    x[0] = 0
    return x


@pattern(lambda: vec(6))
def return_view_and_whole(x):
    return {"all": x, "tail": x[3:], "copy": x[3:].copy()}


@pattern(lambda: vec(6))
def result_views_of_one_result(x):
    y = x * 2
    return y[:3], y[3:], y


@scene
def write_after_return(offload):
    parts = offload(lambda x: (x[:2], x[2:], x + 0))
    x = vec(5)
    a, b, c = parts(x)
    a[0], b[0], c[0] = 10, 20, 30
    return x, a, b, c


@scene
def alias_in_caller(offload):
    bump = offload(bump_first)
    x = mat(2, 3)
    row, column = x[0], x[:, 0]
    bump(row)
    bump(column)
    bump(x)
    return x, row, column


def bump_first(x):
    x[0] += 100
    return x


@pattern(lambda: vec(9))
def game_of_neighbours(x):
    new = x.copy()
    new[1:-1] = 0.5 * (x[:-2] + x[2:])
    x[...] = new
    return np.abs(new).max()


@pattern(lambda: spd_like())
def gauss_elimination(a):
    n = len(a)
    for k in range(n - 1):
        for i in range(k + 1, n):
            a[i] -= a[i, k] / a[k, k] * a[k]
    return np.diag(a)


def spd_like():
    return np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.25], [0.5, 0.25, 2.0]])


@pattern(lambda: np.arange(20))
def sieve(x):
    x[:2] = 0
    for p in range(2, 5):
        if x[p]:
            x[p * p :: p] = 0
    return x[x > 0]
