"""What functions return and leave behind: containers, scalars, arrays used after the call."""

from __future__ import annotations

import collections
import datetime
import enum
import fractions
import functools
import typing
from dataclasses import dataclass

import numpy as np

from tests.meaning.arrays import bits, cplx, ints, mat, pos, spd, vec
from tests.meaning.pattern import pattern, scene

Moments = collections.namedtuple("Moments", "mean var")


class Fit(typing.NamedTuple):
    slope: float
    residuals: np.ndarray


@dataclass
class Summary:
    name: str
    total: float
    rows: np.ndarray


@dataclass(frozen=True, slots=True)
class Point:
    x: float
    y: float


class Kind(enum.Enum):
    SMALL = 1
    LARGE = 2


class Bag:
    def __init__(self, x):
        self.x, self.norm = x, np.linalg.norm(x)


@pattern(lambda: vec(4))
def tuple_of_arrays(x):
    return x + 1, x - 1


@pattern(lambda: vec(4))
def list_of_arrays(x):
    return [x * k for k in range(3)]


@pattern(lambda: vec(4))
def dict_of_results(x):
    return {"mean": x.mean(), "max": x.max(), "data": x / 2, "n": len(x)}


@pattern(lambda: mat())
def nested_results(x):
    return {"rows": [{"sum": r.sum(), "first": r[0]} for r in x], "shape": x.shape, 3: (x.T, None)}


@pattern(lambda: vec(4))
def named_tuple_result(x):
    return Moments(x.mean(), x.var())


@pattern(lambda: (vec(4), pos(4)))
def typed_named_tuple(x, y):
    slope = (x @ y) / (x @ x)
    return Fit(float(slope), y - slope * x)


@pattern(lambda: mat())
def dataclass_result(x):
    return Summary("demo", x.sum(), x[x.sum(axis=1) > 0])


@pattern(lambda: vec(4))
def slotted_dataclass(x):
    return Point(x[0], float(x[1]))


@pattern(lambda: vec(4))
def enum_result(x):
    return Kind.LARGE if x.max() > 3 else Kind.SMALL


@pattern(lambda: vec(4))
def object_result(x):
    return Bag(x * 2)


@pattern(lambda: vec(4))
def none_result(x):
    x.sum()


@pattern(lambda: vec(4))
def text_result(x):
    return "mean={:.3f} over {}".format(x.mean(), x.shape)


@pattern(lambda: vec(4), lambda: vec(4, np.float32), lambda: ints(4))
def scalar_kinds(x):
    return x.sum(), x[0], float(x[0]), x.mean(), x.max(), x.item(1), x.sum() > 0


@pattern(lambda: vec(4))
def numpy_bool_or_bool(x):
    return (x > 0).any(), bool((x > 0).any()), x[0] > 0, not x[0] > 0, x[0] == x[0]


@pattern(lambda: cplx(3))
def complex_scalars(z):
    return z[0], complex(z[0]), z.sum(), z[0].real, abs(z[0])


@pattern(lambda: np.array(4.0))
def zero_dimensional_result(x):
    return x, x * 1, np.asarray(x), np.negative(x), x.copy()


@pattern(lambda: vec(4))
def zero_dimensional_array_kept(x):
    return np.array(x.sum()), np.asarray(x[0]), x.sum(keepdims=True), x[0:1]


@pattern(lambda: vec(4))
def scalar_arithmetic(x):
    a, b = x[0], x[1]
    return a + b, a * 2, 2 / b, a**2, -a, a // b, a % b, abs(a), divmod(a, b)


@pattern(lambda: vec(4))
def shape_parts_are_ints(x):
    return x.shape[0] * 2, x.size // 2, len(x), x.ndim + 0.5, (*x.shape, 1)


@pattern(lambda: vec(4))
def comparison_arrays(x):
    return x > 0, (x > 0) & (x < 3), ~(x > 0), x.astype(bool)


@pattern(lambda: ints(4))
def index_arrays(x):
    return np.argsort(x, kind="stable"), np.argmax(x), np.nonzero(x)[0], np.searchsorted([1, 3], x)


@pattern(lambda: spd(3))
def linalg_named_results(a):
    e, q, s = np.linalg.eigh(a), np.linalg.qr(a), np.linalg.slogdet(a)
    return e.eigenvalues, np.abs(q.R), s, type(e).__name__, s.sign


@pattern(lambda: vec(4))
def generator_expression_returned(x):
    return list(v * 2 for v in x), sum(v for v in x)


@scene
def generator_from_call(offload):
    @offload
    def chunks(x):
        return (x[k : k + 2] for k in range(0, 6, 2))

    x = vec(6)
    return [c.sum() for c in chunks(x)], [c for c in chunks(x)]


@scene
def map_from_call(offload):
    f = offload(lambda x: map(lambda v: v * 2, x))
    return list(f(vec(3))), list(f(vec(3)))


@scene
def closure_from_call(offload):
    @offload
    def fit(x, y):
        coefficients = np.polyfit(x, y, 1)
        return lambda t: np.polyval(coefficients, t)

    model = fit(np.arange(5.0), np.arange(5.0) * 2 + 1)
    return model(3.0), model(np.arange(3.0))


@scene
def closure_over_argument(offload):
    shift_by = offload(lambda x: lambda y: y + x)
    f = shift_by(vec(3))
    return f(1.0), f(pos(3)), shift_by(vec(3))(2)


@scene
def partial_from_call(offload):
    f = offload(lambda w: functools.partial(np.convolve, w, mode="valid"))
    return f(np.ones(2))(vec(5))


@scene
def array_kept_in_attribute(offload):
    class Cache:
        last = None

        @offload
        def f(self, x):
            self.last = np.tanh(x)
            return self.last.sum()

    c = Cache()
    total = c.f(vec(4))
    c.last += 1
    again = c.f(vec(4))
    return total, again, c.last, type(c.last).__name__, c.last.mean()


@scene
def array_kept_in_global_list(offload):
    history = []

    @offload
    def f(x):
        y = x * 2
        history.append(y)
        history.append(x)
        return y

    x = vec(3)
    y = f(x)
    y[0] = 100
    f(x)
    history[1][1] = 50
    return history, x, np.stack(history).sum(axis=0)


@scene
def view_kept_in_list(offload):
    kept = []

    @offload
    def f(x):
        kept.append(x[1:])
        return x.sum()

    x = vec(4)
    f(x)
    x[2] = 33
    kept[0][0] = 44
    return kept, x


@scene
def intermediate_used_after_call(offload):
    parts = {}

    @offload
    def f(x):
        parts["squares"] = x**2
        parts["sum"] = parts["squares"].sum()
        return np.sqrt(parts["sum"])

    f(vec(4))
    return parts, parts["squares"] @ parts["squares"], float(parts["sum"]), parts["sum"] + 1


@scene
def pickle_of_kept(offload):
    import pickle

    kept = []
    offload(lambda x: kept.append(x + 1))(vec(3))
    return pickle.loads(pickle.dumps(kept))


@scene
def lru_cache_below(offload):
    @functools.lru_cache
    def basis(n, degree):
        return np.vander(np.linspace(-1, 1, n), degree)

    f = offload(lambda x: x @ basis(len(x), 3))
    return f(vec(5)), f(vec(5)), f(vec(6)), basis.cache_info().hits


@scene
def lru_cache_above(offload):
    table = vec(5)

    @functools.lru_cache
    @offload
    def f(k):
        return table * k

    return f(1) is f(1), f(2), f(2.5)


@scene
def results_fed_back(offload):
    f = offload(lambda x, y: (y, x + y))
    a, b = vec(3), pos(3)
    for _ in range(5):
        a, b = f(a, b)
    return a, b


@scene
def result_of_one_into_another(offload):
    f, g = offload(lambda x: x * 2), offload(lambda x: x.sum(axis=0))
    return g(f(mat())), f(g(f(mat())))


@pattern(lambda: (vec(4), datetime.date(2024, 1, 1)))
def date_beside_array(x, day):
    return day + datetime.timedelta(days=int(x.size)), x


@pattern(lambda: vec(4))
def fraction_result(x):
    return fractions.Fraction(float(x[0])), x[0].as_integer_ratio(), float(x[0]).hex()


@pattern(lambda: vec(4))
def set_and_frozenset(x):
    return {int(v) for v in x}, frozenset(np.sign(x).tolist())


@pattern(lambda: bits(4))
def python_bools(m):
    return m.tolist(), [bool(v) for v in m], m.any().item(), sum(m), int(m.sum())


@pattern(lambda: mat())
def argument_inside_result(x):
    return {"input": x, "output": x * 2, "same": (x, x)}


@pattern(lambda: vec(4))
def type_result(x):
    return type(x), x.dtype.type, type(x.sum()), type(x * 2)


@pattern(lambda: vec(4))
def ellipsis_and_slices(x):
    return ..., slice(0, x.size), range(len(x)), NotImplemented


@pattern(lambda: (vec(4), pos(4)))
def multiple_returns_unpacked(x, y):
    (a, b), c = np.histogram(x, 2), np.meshgrid(x, y)
    return a, b, *c


@pattern(lambda: vec(6))
def list_of_scalars_and_arrays(x):
    return [x[0], x[1:2], x[2:].sum(), 3, "a", x[:0]]


@pattern(lambda: vec(4))
def iterator_result(x):
    return iter([1, 2]), enumerate(x), zip(x, x)


@pattern(lambda: vec(5))
def same_array_twice_in_result(x):
    y = x + 1
    return y, y, [y]


@pattern(lambda: vec(5))
def deque_result(x):
    d = collections.deque(x, maxlen=3)
    d.rotate(1)
    return d


@pattern(lambda: vec(5))
def default_dict_result(x):
    d = collections.defaultdict(list)
    for v in x:
        d[bool(v > 0)].append(v)
    return d, collections.Counter((x > 0).tolist())
