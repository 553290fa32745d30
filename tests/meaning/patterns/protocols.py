"""Python's protocols on arrays: iteration, conversion, comparison, formatting, copying."""

from __future__ import annotations

import copy
import functools
import heapq
import itertools
import json
import math
import operator
import pickle
import statistics

import numpy as np

from tests.meaning.arrays import bits, cube, ints, mat, pos, vec
from tests.meaning.pattern import pattern


@pattern(lambda: mat())
def iterate_rows(x):
    total = np.zeros(4)
    for row in x:
        total += row
    return total


@pattern(lambda: vec(4))
def iterate_scalars(x):
    return [type(v).__name__ for v in x], [v * 2 for v in x]


@pattern(lambda: mat())
def length_and_enumerate(x):
    return [k * row.sum() for k, row in enumerate(x)], len(x), len(x[0])


@pattern(lambda: (vec(3), pos(3)))
def zip_of_arrays(a, b):
    return sum(p * q for p, q in zip(a, b, strict=True))


@pattern(lambda: vec(3), lambda: mat(3, 2))
def unpack_three(x):
    a, b, c = x
    return a + b * c


@pattern(lambda: vec(5))
def unpack_with_star(x):
    first, *middle, last = x
    return first, middle, last


@pattern(lambda: mat(2, 3))
def unpack_rows_into_call(x):
    return np.maximum(*x), max(*x[0])


@pattern(lambda: ints(5))
def contains(x):
    return 3 in x, 100 in x, x[0] in x


@pattern(lambda: vec(4))
def chained_comparison(x):
    return 0 < x[1] < 100, -100 < x.min() <= x.max() < 100


@pattern(lambda: vec(4))
def chained_comparison_of_array(x):
    return -1 < x < 1


@pattern(lambda: vec(5))
def builtin_sorted(x):
    return sorted(x), sorted(x, key=abs, reverse=True)


@pattern(lambda: vec(5), lambda: mat())
def builtin_sum(x):
    return sum(x), sum(x, 10)


@pattern(lambda: vec(5))
def builtin_max_min(x):
    return max(x), min(x), max(x, key=lambda v: -v), max(x[0], 0), min(1.5, x[1])


@pattern(lambda: vec(5))
def builtin_any_all(x):
    return any(x > 0), all(x > 0), any(v > 3 for v in x)


@pattern(lambda: vec(4))
def builtin_abs_round_pow(x):
    return abs(x), round(x[0], 1), pow(x, 2), pow(2.0, x), round(float(x[1]))


@pattern(lambda: vec(4))
def builtin_divmod_reversed(x):
    return divmod(x, 2), list(reversed(x))


@pattern(lambda: pos(4))
def math_functions(x):
    return math.sqrt(x.sum()), math.exp(-x[0]), math.floor(x[1]), math.isnan(x[2]), math.fsum(x)


@pattern(lambda: vec(4))
def formatting(x):
    return f"{x[0]:.2f} {x.sum():8.3f} {x.mean():e} {x.shape} {x[1]!r}"


@pattern(lambda: vec(3), lambda: mat(2, 2), lambda: vec(3, np.float32))
def text_of_array(x):
    return str(x), repr(x), f"{x}", "%s" % x[0], np.array2string(x, precision=2)


@pattern(lambda: ints(3))
def percent_formatting(x):
    return "%d of %d" % (x[0], x.sum()), "{:>5}".format(x[1]), f"{x[0]:03d}"


@pattern(lambda: np.array(3.7), lambda: np.array([3.7]), lambda: np.float64(3.7))
def conversions(x):
    return int(x), float(x), bool(x), complex(x)


@pattern(lambda: ints(4))
def used_as_index(x):
    items = ["a", "b", "c", "d", "e"]
    return items[x[0]], [items[k] for k in x], operator.index(x[1]), "ab" * x[2]


@pattern(lambda: np.array([3, 1, 2]))
def used_in_range(n):
    return [k for k in range(int(n[0]))], list(range(n[1], n[0])), np.arange(n[2])


@pattern(lambda: vec(3), lambda: [1.0, 2.0], lambda: 3.0)
def isinstance_checks(x):
    if isinstance(x, np.ndarray):
        return "array", x * 2
    if isinstance(x, list):
        return "list", len(x)
    return "number", x


@pattern(lambda: vec(3), lambda: vec(3, np.float32))
def scalar_type_checks(x):
    s = x.sum()
    return (
        isinstance(s, float),
        isinstance(s, np.floating),
        isinstance(s, np.generic),
        np.isscalar(s),
    )


@pattern(lambda: vec(3))
def type_is_ndarray(x):
    return (
        type(x) is np.ndarray,
        type(x * 2) is np.ndarray,
        type(x).__name__,
        issubclass(type(x), np.ndarray),
    )


@pattern(lambda: vec(3))
def validate_input(x):
    if not isinstance(x, np.ndarray) or x.dtype != np.float64 or x.ndim != 1:
        raise TypeError("need a vector of float64")
    return x @ x


@pattern(lambda: mat(2, 3))
def to_list(x):
    return x.tolist(), x[0].tolist(), x.sum().tolist(), x.astype(int).tolist()


@pattern(lambda: vec(4))
def to_list_and_back(x):
    return np.array([v + 1 for v in x.tolist()]), np.asarray(list(x))


@pattern(lambda: mat(3, 2))
def array_of_rows(x):
    return np.array([row * 2 for row in x]), np.array([row.sum() for row in x]), np.vstack(list(x))


@pattern(lambda: mat(3, 2))
def rows_collected_and_stacked(x):
    out = []
    for k in range(len(x)):
        out.append(x[k] / np.linalg.norm(x[k]))
    return np.stack(out)


@pattern(lambda: vec(4))
def asarray_forms(x):
    return np.asarray(x, dtype=np.float32), np.array(x, ndmin=2), np.array(x, copy=True) is x


@pattern(lambda: vec(4))
def pickle_round_trip(x):
    return pickle.loads(pickle.dumps(x)) + 1


@pattern(lambda: vec(4))
def deep_copy(x):
    y, z = copy.deepcopy(x), copy.copy(x)
    y[0] = 0
    z[1] = 0
    return x, y, z


@pattern(lambda: ({"w": vec(3), "n": 1}, vec(3)))
def deep_copy_of_state(state, x):
    other = copy.deepcopy(state)
    other["w"] += x
    return state, other


@pattern(lambda: vec(4))
def json_of_results(x):
    return json.dumps({"mean": float(x.mean()), "values": x.tolist(), "n": int(x.size)})


@pattern(lambda: vec(4))
def json_of_scalar(x):
    return json.dumps({"sum": x.sum(), "first": x[0]})


@pattern(lambda: ints(4))
def json_of_integer_scalar(x):
    return json.dumps({"sum": x.sum()})


@pattern(lambda: mat())
def reduce_over_rows(x):
    return functools.reduce(np.minimum, x), functools.reduce(lambda a, b: a * b, x)


@pattern(lambda: vec(5))
def itertools_over_array(x):
    return (
        list(itertools.accumulate(x)),
        list(itertools.pairwise(x))[:2],
        list(itertools.combinations(x[:3], 2)),
    )


@pattern(lambda: vec(6))
def heap_of_scalars(x):
    heap = list(x)
    heapq.heapify(heap)
    return heapq.heappop(heap), heapq.nlargest(2, x)


@pattern(lambda: vec(6))
def statistics_module(x):
    return statistics.mean(x.tolist()), statistics.median(x)


@pattern(lambda: (vec(4), pos(4)))
def operator_module(a, b):
    return operator.add(a, b), operator.matmul(a, b), operator.neg(a), operator.itemgetter(2)(a)


@pattern(lambda: vec(4))
def operator_inplace(x):
    y = operator.iadd(x, 5)
    return y is x


@pattern(lambda: vec(1), lambda: np.array([0.0]), lambda: np.array([[2.0]]))
def truth_of_one(x):
    return "yes" if x else "no"


@pattern(lambda: vec(4))
def truth_by_any(x):
    return not x.any(), bool(x.size), x.any() and x.sum(), x.all() or "zero"


@pattern(lambda: vec(4))
def is_none_and_identity(x):
    y = x
    return x is not None, y is x, x is x.T, id(x) == id(y)


@pattern(lambda: vec(4))
def while_with_scalar(x):
    total, k = 0.0, 0
    while total < 5 and k < len(x):
        total += abs(x[k])
        k += 1
    return total, k


@pattern(lambda: vec(6))
def loop_with_if(x):
    best, where = -np.inf, -1
    for k, v in enumerate(x):
        if v > best:
            best, where = v, k
    return best, where


@pattern(lambda: vec(4))
def comprehension_with_condition(x):
    return np.array([math.sqrt(v) if v > 0 else 0.0 for v in x]), {k: v for k, v in enumerate(x)}


@pattern(lambda: cube(2, 2, 2))
def nested_iteration(x):
    return [[row.max() for row in plane] for plane in x]


@pattern(lambda: mat(2, 2))
def ndenumerate_and_ndindex(x):
    return [(k, v) for k, v in np.ndenumerate(x)], [x[k] for k in np.ndindex(x.shape)]


@pattern(lambda: vec(3))
def nditer_values(x):
    return [float(v) * 2 for v in np.nditer(x)]


@pattern(lambda: (ints(4), {3: "three", 0: "zero"}))
def scalar_as_dict_key(x, names):
    return [names.get(v, "?") for v in x], hash(x[0]) == hash(int(x[0]))


@pattern(lambda: mat())
def rows_as_tuples_in_set(x):
    return len({tuple(row) for row in x}), tuple(x[0])


@pattern(lambda: (bits(4), vec(4)))
def python_logic_per_element(m, x):
    return [v if k else -v for k, v in zip(m, x, strict=True)], list(itertools.compress(x, m))


@pattern(lambda: vec(4))
def match_statement(x):
    match x.shape:
        case (n,):
            return n, x.sum()
        case (_, _):
            return "matrix"


@pattern(lambda: vec(4))
def walrus(x):
    if (m := x.mean()) > 0:
        return x - m
    return m


@pattern(lambda: vec(3))
def star_into_list(x):
    return [*x, 1.0], (*x,), {**{"a": x[0]}}, print(*x)


@pattern(lambda: vec(5))
def slice_objects(x):
    s = slice(1, None, 2)
    return x[s], x[slice(None, 3)], s.indices(len(x))


@pattern(lambda: vec(4))
def bytes_and_buffers(x):
    return x.tobytes(), np.frombuffer(x.tobytes()), len(bytes(x))


@pattern(lambda: vec(4))
def vectorize_python_function(x):
    f = np.vectorize(lambda v: v if v > 0 else 0.0)
    return f(x), np.fromiter((v * 2 for v in x), float), np.frompyfunc(abs, 1, 1)(x)


@pattern(lambda: mat())
def apply_along_axis(x):
    return np.apply_along_axis(lambda r: r.max() - r.min(), 1, x)


@pattern(lambda: vec(4))
def dunder_attributes(x):
    return (
        x.__len__(),
        x.__class__.__name__,
        x.__array__() is not None,
        x.__add__(1),
        x.__getitem__(0),
    )
