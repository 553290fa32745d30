"""Small programs in which a search over random ones found another meaning than NumPy's."""

from __future__ import annotations

import warnings

import numpy as np

from tests.meaning.arrays import ints, mat, pos, vec
from tests.meaning.pattern import pattern, scene


@pattern(lambda: (ints(4, np.int32), np.array([-1, 2, 3, -3])))
def written_before_a_power_raises(x, y):
    x[:] = x[::-1]
    return x**y


@pattern(lambda: (ints(4), np.array([-1, 2, 3, 0])))
def power_raises_and_is_caught(x, y):
    double = x * 2
    try:
        np.power(x, y)
    except ValueError:
        return double + 1


@pattern(lambda: (mat(2, 3), np.array([7])))
def written_before_an_index_is_out_of_range(x, i):
    x += 1
    return x[i]


@pattern(lambda: np.array([[1.0, 2], [np.inf, 0]]))
def written_before_a_factorisation_raises(x):
    x += 1
    np.linalg.svd(x, compute_uv=False)
    return x


@pattern(lambda: vec(6))
def written_before_too_few_values_for_a_mask(x):
    x -= 1
    x[x < 1] = x
    return x


@pattern(lambda: np.array(4))
def infinity_added_to_one_whole_number(x):
    x[()] += np.inf
    return x


@pattern(lambda: ints(3))
def nan_put_in_the_place_of_a_whole_number(x):
    x[1] = np.log(np.float64(-1.0)) + x[0]
    return x


@pattern(lambda: vec(4))
def complex_put_in_the_place_of_real_numbers(x):
    np.put(x, [0, -1], 1j)
    return x


@pattern(lambda: np.ones(4, bool), lambda: np.array([False, True, False, False]))
def truth_values_added_at_places(x):
    np.add.at(x[1:], [0, 0, -1], 1)
    return x


@pattern(lambda: np.array([True, False, True]))
def square_of_truth_values(x):
    return x**2


@pattern(lambda: np.array([[4, 3.75, -3.5, 1], [1.5, 0.75, 1.5, -4], [-0.25, 4, 4, -0.25]], "f2"))
def spread_beyond_half_precision(x):
    return np.std(np.cumprod(x)), np.var(np.cumprod(x))


@pattern(lambda: np.array([-np.inf, -0.0, 0.0, 4, np.inf]))
def roots_of_limits(x):
    return x**0.5, x**-0.5, x**1.5, x**-1.5, x**-1


@pattern(lambda: mat())
def diagonal_of_a_new_matrix_is_read_only(x):
    return np.diag(np.arange(x.size).reshape(x.shape)), np.diagonal(np.full(x.shape, 1e-3))


@pattern(lambda: (np.array(0.75), np.array(False)), lambda: (np.array(0.75), np.array(True)))
def written_through_a_view_of_no_dimensions(x, y):
    a = np.where(y == -1, y, 2.0)
    np.maximum(a, 0, out=a)
    a[None] += y.any(axis=-1)
    return a % y


@pattern(lambda: (pos(3), np.array([0, 0, -1])))
def sums_at_places_of_a_slice(x, i):
    np.add.at(x[::-1], i, 2)
    return x


@pattern(lambda: (np.array([100, 100], np.int8), np.array([3, 4], np.int8)))
def vector_product_of_small_whole_numbers(x, y):
    return np.vecdot(x, y), np.linalg.vecdot(x > 3, y > 3)


@pattern(lambda: np.arange(12).reshape(3, 4))
def imaginary_part_of_whole_numbers_is_read_only(x):
    return np.imag(x - 1)[1:3], np.imag(x)


@scene
def added_into_a_read_only_argument(offload):
    @offload
    def f(x, y):
        a = y / x
        np.add.at(y, [0, 0, -1], 1)
        return a

    x, y = vec(4), vec(4) + 1.0
    y.flags.writeable = False
    return f(x, y), y


@scene
def a_number_beyond_the_dtype_put(offload):
    @offload
    def f(x):
        a = x * 1
        np.put(a, [0, -1], -1.5)
        return a

    return f(np.arange(5, dtype=np.uint16))


@scene
def numbers_beyond_the_dtype_added_at_places(offload):
    @offload
    def f(x):
        y = x + 0
        np.add.at(y, [0, 0], 300)
        return y

    return f(np.arange(5, dtype=np.uint8))


@scene
def a_scalar_beyond_the_dtype_written(offload):
    def written(y, value):
        try:
            y[0] = value
        except OverflowError as error:
            return y, str(error)
        return y

    @offload
    def f(x):
        return written(x + 0, np.uint8(200)), written(x + 0, (x.astype(np.uint8) + 200)[0])

    return f(np.arange(5, dtype=np.int8))


@scene
def warned_of_a_number_beyond_the_dtype(offload):
    @offload
    def f(x):
        return x + 1e39, x > -1e39

    @offload
    def g(x):
        y, z = x * 2, x * 3
        y[0] = 1e300
        z.fill(1e300)
        return y, z

    x = np.arange(5, dtype=np.float32)
    found = []
    for _ in range(3):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            found.append((f(x), g(x), sorted(str(one.message) for one in told)))
    return found


@pattern(lambda: (np.array([-1, 3], np.int16), np.array(2**64 - 1, np.uint64)))
def a_number_beyond_every_integer_put_in_a_slice(x, y):
    x[:1] = y - x[0]
    return x


@pattern(lambda: np.asfortranarray(mat(3, 3)))
def written_into_what_was_copied_to_another_shape(x):
    doubled = x[::-1, None] + x[::-1, None]
    flat = doubled.reshape(1, -1)
    np.add(doubled, x[:, None], out=doubled)
    return flat, doubled


@pattern(lambda: (vec(8), 60))
def a_loop_of_many_graphs_whose_values_decide_a_shape(x, steps):
    y = x
    for _ in range(steps):
        y = y * 0.5 + x
        y = y - 0.1
    return y[np.nonzero(x > 0)[0]]


@pattern(lambda: (mat(4, 3), mat(4, 3), np.zeros((4, 4))))
def a_product_written_into_its_third_argument(x, y, made):
    np.dot(x, y.T, made)
    made *= -2
    np.add(made, x.sum(axis=1)[:, None], made)
    return made


@pattern(lambda: (mat(4, 4), np.zeros((4, 4)), np.zeros(4)))
def products_written_over_their_own_input(x, made, row):
    x.dot(x, out=x)
    np.dot(x[0], x, row)
    np.dot(2.0, x, made)
    single = np.zeros(())
    total = np.dot(row, row, single)
    return x, made, row, total, total is single, single


@pattern(lambda: (mat(4, 4), np.zeros((4, 4), order="F"), np.zeros((4, 4), np.float32)))
def a_product_written_where_numpy_refuses_to(x, turned, single):
    told = []
    for out in (turned, single, np.empty((4, 4, 1)), np.empty((4, 8))[:, ::2]):
        try:
            np.dot(x, x, out)
        except ValueError as error:
            told.append(str(error))
    return told


@pattern(lambda: (mat(4, 4), np.zeros((4, 4))))
def a_product_of_several_written_into_out(x, made):
    np.linalg.multi_dot([x, x, x], out=made)
    return made * 2


@pattern(lambda: (np.array([2, 5, 32767, 2], np.int16), vec(4)))
def angles_of_zeros_that_a_compiler_can_compute(n, x):
    zero = n - n
    return np.arctan2(zero, zero), np.arctan2(x * 0, zero), np.arctan2(zero, -(x * 0))


@pattern(lambda: (vec(4),))
def writes_into_what_was_made_of_a_scalar(x):
    total = x.sum()
    flat, row, first = total.reshape(-1), np.atleast_1d(total), x[0].reshape(1)
    flat *= 2
    row += 1
    first[0] = 9
    return total, flat, row, first, x
