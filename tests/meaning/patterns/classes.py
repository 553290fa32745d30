"""Classes, methods, closures and calls of offloaded functions by each other."""

from __future__ import annotations

import abc
import contextlib
import functools
import inspect
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from tests.meaning.arrays import mat, pos, spd, vec
from tests.meaning.pattern import call, pattern, scene


@scene
def method_of_class(offload):
    class Line:
        def __init__(self, a, b):
            self.a, self.b = a, b

        @offload
        def __call__(self, x):
            return self.a * x + self.b

    f, g = Line(2.0, 1.0), Line(-1.0, pos(3))
    return f(vec(3)), g(vec(3)), f(vec(3))


@scene
def method_writes_self(offload):
    class Layer:
        def __init__(self):
            self.w = mat(3, 3)

        @offload
        def train(self, x, y):
            error = self.w @ x - y
            self.w -= 0.01 * np.outer(error, x)
            self.error = float(error @ error)
            return self

    layer = Layer()
    for _ in range(4):
        same = layer.train(vec(3), pos(3)) is layer
    return layer.w, layer.error, same


@scene
def property_of_class(offload):
    class Data:
        def __init__(self, x):
            self._x = x

        @property
        @offload
        def centred(self):
            return self._x - self._x.mean()

    d = Data(vec(4))
    first = d.centred
    d._x = pos(4)
    return first, d.centred, d.centred


@scene
def class_and_static_methods(offload):
    class Tools:
        factor = 3.0

        @classmethod
        @offload
        def scale(cls, x):
            return x * cls.factor

        @staticmethod
        @offload
        def shift(x, by=1):
            return x + by

    class Other(Tools):
        factor = -1.0

    return (
        Tools.scale(vec(3)),
        Other.scale(vec(3)),
        Tools.shift(vec(3)),
        Other().shift(vec(3), by=2),
    )


@scene
def inherited_method(offload):
    class Base(abc.ABC):
        @abc.abstractmethod
        def kernel(self, x): ...

        @offload
        def apply(self, x):
            return self.kernel(x).sum()

    class Square(Base):
        def kernel(self, x):
            return x**2

    class Cube(Base):
        def kernel(self, x):
            return x**3

    return [c().apply(vec(4)) for c in (Square, Cube, Square, Cube)]


@scene
def super_call(offload):
    class A:
        @offload
        def f(self, x):
            return x + 1

    class B(A):
        @offload
        def f(self, x):
            return super().f(x) * 2

    return B().f(vec(3)), A().f(vec(3))


@scene
def dataclass_method(offload):
    @dataclass
    class Wave:
        amplitude: float
        frequency: float = 1.0

        @offload
        def at(self, t):
            return self.amplitude * np.sin(2 * np.pi * self.frequency * t)

    return Wave(2.0).at(vec(4)), Wave(1.0, 3.0).at(vec(4))


@scene
def callable_object(offload):
    class Poly:
        def __init__(self, *c):
            self.c = c

        def __call__(self, x):
            y = np.zeros_like(x)
            for c in self.c:
                y = y * x + c
            return y

    return offload(Poly(1, 2, 3))(vec(3)), offload(Poly(1.5))(vec(3))


@scene
def partial_function(offload):
    f = offload(functools.partial(np.clip, a_min=-1, a_max=1))
    return f(vec(5)), f(vec(5) * 2)


@scene
def builtin_numpy_function(offload):
    return offload(np.linalg.norm)(vec(4)), offload(np.cumsum)(mat()), offload(np.sin)(vec(3))


@scene
def nested_offloaded(offload):
    @offload
    def inner(x):
        return x - x.mean()

    @offload
    def outer(x):
        y = inner(x)
        return y / inner(y * 2).std()

    return [outer(vec(5)) for _ in range(3)], inner(vec(5))


@scene
def nested_offloaded_writes(offload):
    @offload
    def zero_negative(x):
        x[x < 0] = 0

    @offload
    def outer(x):
        zero_negative(x)
        y = x * 2
        zero_negative(y[1:])
        return y

    x = vec(5)
    return outer(x), x


@scene
def offloaded_inside_loop(offload):
    step = offload(lambda x, dt: x - dt * x)

    @offload
    def simulate(x, n):
        for _ in range(n):
            x = step(x, 0.1)
        return x

    return simulate(vec(3), 3), simulate(vec(3), 1), simulate(vec(3), 0)


@scene
def recursion(offload):
    @offload
    def total(x):
        if len(x) == 1:
            return x[0]
        h = len(x) // 2
        return total(x[:h]) + total(x[h:])

    return [total(vec(6)) for _ in range(3)]


@scene
def recursive_sort(offload):
    @offload
    def quick(x):
        if x.size <= 1:
            return x
        p, rest = x[0], x[1:]
        return np.concatenate([quick(rest[rest < p]), [p], quick(rest[rest >= p])])

    return quick(vec(7))


@scene
def mutual_recursion(offload):
    def even(x, n):
        return x if n == 0 else odd(x + 1, n - 1)

    @offload
    def odd(x, n):
        return even(x * 2, n - 1) if n else x

    return even(vec(2), 5), odd(vec(2), 3)


@pattern(lambda: call(vec(3), scale=2.0, shift=1), lambda: call(x=vec(3)))
def keywords_and_defaults(x, scale=1.0, *, shift=0):
    return x * scale + shift


@pattern(lambda: (vec(3), pos(3), vec(3)), lambda: (vec(3),))
def star_arguments(first, *rest):
    return first + sum(rest)


@pattern(lambda: call(vec(3), a=1, b=pos(3)), lambda: call(vec(3), b=2))
def star_keywords(x, **kw):
    return {k: x * v for k, v in kw.items()}


@pattern(lambda: (vec(3), 2))
def positional_only(x, n, /):
    return x * n


@pattern(lambda: call(vec(3), vec(3), 2, key=pos(3)))
def everything_in_signature(a, /, b, *c, key, other=None, **rest):
    return a + b + key, c, other, rest


@pattern(lambda: (1, 2, vec(3)))
def array_is_last(a, b, x):
    return a * x + b


@pattern(lambda: vec(4))
def inner_function(x):
    def square(v):
        return v * v

    return square(x) + square(2)


@pattern(lambda: vec(4))
def inner_class(x):
    class Box:
        def __init__(self, v):
            self.v = v

        def __add__(self, other):
            return self.v + other.v

    return Box(x) + Box(1)


class Unit:
    """A number with a unit that takes precedence over arrays."""

    __array_ufunc__ = None

    def __init__(self, v):
        self.v = v

    def __mul__(self, other):
        return Unit(self.v * other)

    __rmul__ = __mul__

    def __radd__(self, other):
        return "radd", self.v, np.shape(other)


@pattern(lambda: (vec(3), Unit(2.0)))
def foreign_operand(x, u):
    return x * u, u * x, x + u


class Logged(np.ndarray):
    """A subclass of ndarray without anything of its own."""


@pattern(lambda: vec(3).view(Logged), lambda: np.asmatrix(mat(2, 2)))
def subclass_of_ndarray(x):
    return x * 2, type(x).__name__, x * x


class Lazy:
    """An object that turns into an array."""

    def __array__(self, dtype=None, copy=None):
        return np.arange(3.0)


@pattern(lambda: (vec(3), Lazy()))
def object_with_array_protocol(x, lazy):
    return x + lazy, np.asarray(lazy), np.add(lazy, x)


@scene
def decorated_twice(offload):
    def logged(f):
        @functools.wraps(f)
        def inner(*args):
            print(f.__name__)
            return f(*args)

        return inner

    @logged
    @offload
    def f(x):
        return x + 1

    @offload
    @logged
    def g(x):
        return x + 2

    return f(vec(2)), g(vec(2)), g(vec(2))


@scene
def metadata_kept(offload):
    @offload
    def named(x: np.ndarray, k: int = 2) -> np.ndarray:
        """Scale."""
        return x * k

    return (
        named.__name__,
        named.__doc__,
        str(inspect.signature(named)),
        named.__wrapped__(vec(2)) if (hasattr(named, "__wrapped__")) else vec(2) * 2,
    )


@scene
def context_manager_method(offload):
    class Scale:
        factor = 1.0

        @contextlib.contextmanager
        def set(self, factor):
            old, self.factor = self.factor, factor
            yield
            self.factor = old

    s = Scale()
    f = offload(lambda x: x * s.factor)
    a = f(vec(3)), f(vec(3))
    with s.set(4.0):
        b = f(vec(3))
    return a, b, f(vec(3))


@scene
def methods_in_threads(offload):
    f = offload(lambda x, k: np.tanh(x) * k)
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(f, [vec(4)] * 6, range(6)))


@scene
def registry_of_functions(offload):
    registry = {}

    def register(f):
        registry[f.__name__] = offload(f)
        return f

    @register
    def relu(x):
        return np.maximum(x, 0)

    @register
    def leaky(x):
        return np.where(x > 0, x, 0.1 * x)

    return {k: f(vec(4)) for k, f in registry.items()}


@scene
def pipeline_of_stages(offload):
    stages = [lambda x: x - x.min(), np.sqrt, lambda x: x / x.sum()]
    run = offload(lambda x: functools.reduce(lambda v, f: f(v), stages, x))
    a = run(vec(5)), run(vec(5))
    stages.reverse()
    return a, run(pos(5))


@scene
def operators_of_own_class(offload):
    class Vector:
        def __init__(self, data):
            self.data = data

        @offload
        def __add__(self, other):
            return Vector(self.data + other.data)

        @offload
        def __matmul__(self, other):
            return self.data @ other.data

        def __len__(self):
            return len(self.data)

    v, w = Vector(vec(3)), Vector(pos(3))
    return (v + w).data, v @ w, len(v + w), v


@scene
def singledispatch(offload):
    @functools.singledispatch
    def norm(x):
        return abs(x)

    @norm.register
    def _(x: np.ndarray):
        return np.sqrt(x @ x)

    return offload(norm)(vec(3)), offload(norm)(-2), norm(vec(3))


@scene
def strategy_passed_in(offload):
    @offload
    def descend(x, gradient, rate=0.1):
        for _ in range(5):
            x = x - rate * gradient(x)
        return x

    a = spd(3)
    return descend(vec(3), lambda v: a @ v), descend(vec(3), np.sin, rate=0.5)


@scene
def iterator_class(offload):
    class Rows:
        def __init__(self, x):
            self.x = x

        def __iter__(self):
            yield from self.x

        def __getitem__(self, k):
            return self.x[k]

    f = offload(lambda rows: [r.sum() for r in rows] + [rows[0]])
    return f(Rows(mat())), f(Rows(mat(2, 2)))


@scene
def eq_and_hash_of_model(offload):
    class Model:
        def __init__(self, k):
            self.k = k

        def __eq__(self, other):
            return True

        def __hash__(self):
            return 1

        @offload
        def f(self, x):
            return x * self.k

    return [Model(k).f(vec(2)) for k in range(4)]


@scene
def weak_references(offload):
    import weakref

    class Owner:
        pass

    owner = Owner()
    owner.x = vec(3)
    ref = weakref.ref(owner)
    f = offload(lambda x: ref().x + x)
    return f(vec(3)), f(vec(3)), ref() is owner
