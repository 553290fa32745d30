"""What an outside check of 231 everyday programs found to differ, and kinds of code it added."""

from __future__ import annotations

import heapq
from collections import deque, namedtuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from tests.meaning.arrays import bits, ints, mat, pos, vec
from tests.meaning.pattern import call, pattern, scene

Pair = namedtuple("Pair", "left right")


@pattern(lambda: vec(6), lambda: vec(6, np.float32))
def result_set_read_only(x):
    y = x * 2
    y.flags.writeable = False
    return y


@pattern(lambda: vec(6), lambda: (vec(9), 4))
def windows_of_an_argument(x, n=3):
    w = sliding_window_view(x, n)
    mean = w.mean(axis=-1)
    x[0] = 100
    return w, mean, w.max(-1)


@scene
def kept_before_it_starts_again(offload):
    kept, held = deque(maxlen=2), {}

    @offload
    def f(x, into):
        kept.append(x * 2)
        held["rest"] = x[1:]
        into.append(x)
        return np.frombuffer(memoryview(x)).sum()

    x, into = vec(4), []
    sums = [f(x, into) for _ in range(3)]
    return sums, list(kept), held, into[-1] is x, {type(one) for one in (*kept, *into)}


@scene
def kept_in_tuples_before_it_starts_again(offload):
    log, errors = deque(maxlen=1), deque(maxlen=1)

    @offload
    def f(x):
        y, z = x * 2, x + 1
        log.append((y, (z, [y]), Pair(y, ("z", (z, z)))))
        errors.append(ValueError("kept", z))
        return np.frombuffer(memoryview(x)).sum()

    sums = [f(vec(4)) for _ in range(3)]
    return sums, list(log), [error.args for error in errors], log[0][0] is log[0][2].left


@pattern(lambda: np.asfortranarray(mat()), lambda: mat().T)
def order_of_copies(x):
    made = x.copy(), np.copy(x), np.ascontiguousarray(x), x[:, ::-1].copy()
    return [(y, y.flags.c_contiguous) for y in made]


@scene
def order_of_factors(offload):
    @offload
    def f(m):
        return np.linalg.inv(m), np.linalg.cholesky(m), np.linalg.solve(m, np.ones((3, 2)))

    return [y.flags.c_contiguous for _ in range(3) for y in f(np.eye(3) + 0.1)]


@pattern(lambda: mat(), lambda: vec())
def outer_product_of_matrices(x):
    return np.linalg.outer(x, x)


@pattern(lambda: ints(20, np.uint8).reshape(4, 5), lambda: mat(4, 5))
def integral_image(img):
    s = np.pad(img.cumsum(0).cumsum(1), ((1, 0), (1, 0)))
    return s[2:, 2:] - s[:-2, 2:] - s[2:, :-2] + s[:-2, :-2], img * 0.5


@pattern(lambda: (vec(3, np.float32), vec(3)), lambda: (ints(3, np.uint16), bits(3)))
def two_dtypes_written_into_each_other(x, y):
    z = x * y
    y[0] = 1
    x[1] = y[0]
    return z, y[::2], np.stack([x, y])


@pattern(lambda: (ints(), np.float64(np.inf)), lambda: (ints(), np.float64(2.5)))
def numbers_that_no_whole_number_holds(x, value):
    x[0] = value
    return x


def _read_only(dtype):
    x = mat(3, 4).astype(dtype)[1]
    x.flags.writeable = False
    return x


@pattern(lambda: (_read_only(np.uint16), vec(4)), lambda: (_read_only(np.float64), vec(4)))
def read_only_view_handed_back(x, y):
    return x, x * y, y


@pattern(lambda: vec(12), lambda: ints(5))
def heaps_and_sorted_lists(x):
    h = list(x)
    heapq.heapify(h)
    return [heapq.heappop(h) for _ in range(3)], heapq.nlargest(2, x), sorted(x)[0]


@pattern(lambda: vec(5), lambda: mat(3, 3), lambda: mat(2, 3), lambda: np.ones((1, 1, 1)))
def matched_by_shape(x):
    match x.shape:
        case (n,):
            return x * n
        case (n, m) if n == m:
            return x @ x
        case (_, _):
            return x.T @ x
    raise ValueError(f"rank {x.ndim}")


@pattern(lambda: (mat(20, 4), vec(20)), lambda: (np.ones((5, 2)), pos(5)))
def steps_of_adam(x, y):
    w, m, v = np.zeros(x.shape[1]), 0.0, 0.0
    for k in range(1, 4):
        g = x.T @ (x @ w - y) / len(x)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        w -= 0.01 * (m / (1 - 0.9**k)) / (np.sqrt(v / (1 - 0.999**k)) + 1e-8)
    return w


@pattern(lambda: mat(5, 5), lambda: np.zeros((2, 2)), lambda: mat(4, 4, np.float32))
def factors_in_place(a):
    p = np.arange(len(a))
    for k in range(len(a) - 1):
        i = k + np.argmax(np.abs(a[k:, k]))
        if i != k:
            a[[k, i]], p[[k, i]] = a[[i, k]], p[[i, k]]
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    return p, np.tril(a, -1), np.triu(a)


@pattern(lambda: ints(30).reshape(5, 6), lambda: call(mat(6, 6), 5))
def median_filter(img, k=3):
    windows = sliding_window_view(np.pad(img, k // 2, mode="symmetric"), (k, k))
    return np.median(windows, axis=(-2, -1)).astype(img.dtype)


@scene
def results_are_their_own(offload):
    @offload
    def f(x):
        y = x * 2
        return y, y, y[1:], x[:2]

    x = vec(5)
    made = [f(x) for _ in range(4)]
    for k, (y, _, rest, first) in enumerate(made):
        y[1], rest[-1], first[0] = k, -k, 10 + k
    return made, x


OF_MODULE = np.zeros(4)


@scene
def writes_a_slice_of_an_array_that_a_global_names(offload):
    def fill(x):
        x[1:3] = 5
        return OF_MODULE.sum() + x.sum()

    OF_MODULE[:] = 0
    return float(offload(fill)(OF_MODULE)), OF_MODULE.tolist()


@scene
def writes_a_slice_between_arguments_of_an_array_that_a_global_names(offload):
    def fill(x, first, last):
        x[first:last] += 5
        return OF_MODULE.sum() + x.sum()

    OF_MODULE[:] = 0
    return float(offload(fill)(OF_MODULE, 1, 3)), OF_MODULE.tolist()


@scene
def keeps_an_argument_and_writes_to_it_later(offload):
    kept = []

    def keep(x):
        kept.append(x)
        x[:1] = 7
        return x + 1

    array = np.arange(4.0)
    result = offload(keep)(array)
    kept[0][1:2] = 9
    return result, array.tolist(), kept[0] is array
