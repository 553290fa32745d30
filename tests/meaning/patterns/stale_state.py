"""State that changes between calls: attributes, globals, defaults, closures, files of settings."""

from __future__ import annotations

import functools
import types

import numpy as np

from tests.meaning.arrays import mat, pos, vec
from tests.meaning.pattern import scene

SCALE = 2.0
TABLE = np.arange(4.0)
OPTIONS = {"gain": 2.0}


@scene
def class_attribute(offload):
    class C:
        k = 2.0

    f = offload(lambda x: x * C.k)
    first = f(vec(4)), f(vec(4))
    C.k = 5.0
    return first, f(vec(4)), f(vec(4))


@scene
def instance_attribute(offload):
    class Model:
        def __init__(self):
            self.w = 1.0

        def apply(self, x):
            return x * self.w

    m, results = Model(), []
    f = offload(m.apply)
    for k in range(4):
        results.append(f(vec(3)))
        m.w = k + 2.0
    return results


@scene
def module_global(offload):
    global SCALE
    f = offload(scaled_by_global)
    results = []
    for value in (2.0, 3.0, 3, 0.0):
        SCALE = value
        results.append(f(vec(4)))
    SCALE = 2.0
    return results


def scaled_by_global(x):
    return x * SCALE


@scene
def global_array_written(offload):
    f = offload(lambda x: x + TABLE)
    results = [f(vec(4))]
    TABLE[0] = 50.0
    results += [f(vec(4)), f(vec(4))]
    TABLE[0] = 0.0
    return results


@scene
def global_array_rebound(offload):
    global TABLE
    f = offload(lambda x: x + TABLE)
    kept, results = TABLE, [f(vec(4))]
    TABLE = np.ones(4, np.float32)
    results.append(f(vec(4, np.float32)))
    TABLE = kept
    return [*results, f(vec(4))]


@scene
def global_dict_option(offload):
    f = offload(lambda x: x * OPTIONS["gain"])
    results = [f(vec(4)), f(vec(4))]
    OPTIONS["gain"] = 7.0
    results.append(f(vec(4)))
    OPTIONS["gain"] = 2.0
    return results


@scene
def function_attribute(offload):
    def f(x):
        f.calls = getattr(f, "calls", 0) + 1
        return x * f.calls

    g = offload(f)
    return [g(vec(3)) for _ in range(4)], f.calls


@scene
def module_attribute(offload):
    settings = types.ModuleType("settings")
    settings.offset = 1.0
    f = offload(lambda x: x + settings.offset)
    a = f(vec(3)), f(vec(3))
    settings.offset = 10.0
    return a, f(vec(3))


@scene
def mutable_default(offload):
    @offload
    def f(x, seen=[]):
        seen.append(len(seen))
        return x * len(seen)

    return [f(vec(3)) for _ in range(4)]


@scene
def default_array_written(offload):
    @offload
    def f(x, total=np.zeros(3)):
        total += x
        return total.copy()

    return [f(vec(3)) for _ in range(3)]


@scene
def helper_replaced(offload):
    helpers = {"g": lambda v: v + 1}

    def f(x):
        return helpers["g"](x)

    g = offload(f)
    a = g(vec(3)), g(vec(3))
    helpers["g"] = lambda v: v * 10
    return a, g(vec(3))


@scene
def nonlocal_counter(offload):
    count = 0

    @offload
    def f(x):
        nonlocal count
        count += 1
        return x + count

    return [f(vec(3)) for _ in range(4)], count


@scene
def closure_rebound(offload):
    k = 1.0

    def f(x):
        return x * k

    g = offload(f)
    results = []
    for value in (1.0, 4.0, 9.0):
        k = value
        results.append(g(vec(3)))
    return results


@scene
def two_closures_of_one_code(offload):
    def scaled(k):
        return offload(lambda x: x * k)

    f, g = scaled(2.0), scaled(5.0)
    return f(vec(3)), g(vec(3)), f(vec(3)), g(vec(3)), scaled(-1)(vec(3))


@scene
def closure_over_arrays(offload):
    def filter_by(w):
        return offload(lambda x: np.convolve(x, w, mode="same"))

    return [filter_by(np.ones(k))(vec(6)) for k in (1, 2, 3)]


@scene
def loop_variable_late(offload):
    functions = [offload(lambda x: x + k) for k in range(3)]  # noqa: B023
    return [f(vec(2)) for f in functions]


@scene
def loop_variable_bound(offload):
    functions = [offload(lambda x, k=k: x + k) for k in range(3)]
    return [f(vec(2)) for f in functions for _ in range(2)]


@scene
def captured_array_grows(offload):
    rows = []

    @offload
    def f(x):
        rows.append(x * 2)
        return np.sum(rows, axis=0)

    return [f(vec(3)) for _ in range(3)], len(rows)


@scene
def captured_buffer_written_by_caller(offload):
    buffer = np.zeros(4)
    f = offload(lambda x: x - buffer)
    results = []
    for k in range(4):
        buffer[k] = 10.0 * k
        results.append(f(vec(4)))
    return results


@scene
def captured_buffer_written_inside(offload):
    total = np.zeros(4)

    @offload
    def add(x):
        total[:] += x
        return total.sum()

    return [add(vec(4)) for _ in range(3)], total


@scene
def captured_view_of_buffer(offload):
    base = np.arange(8.0)
    head = base[:4]
    f = offload(lambda x: x * head)
    a = f(vec(4))
    base[0] = -3
    return a, f(vec(4)), f(vec(4))


@scene
def running_mean_object(offload):
    class Running:
        def __init__(self):
            self.n, self.mean = 0, np.zeros(3)

        @offload
        def update(self, x):
            self.n += 1
            self.mean = self.mean + (x - self.mean) / self.n
            return self.mean

    r = Running()
    return [r.update(vec(3) * k) for k in range(1, 5)], r


@scene
def adam_like_state(offload):
    class Adam:
        def __init__(self):
            self.m = self.v = 0.0
            self.t = 0

        @offload
        def step(self, w, g):
            self.t += 1
            self.m = 0.9 * self.m + 0.1 * g
            self.v = 0.99 * self.v + 0.01 * g**2
            return w - 0.1 * self.m / (1 - 0.9**self.t) / (np.sqrt(self.v) + 1e-8)

    adam, w = Adam(), vec(4)
    for _ in range(4):
        w = adam.step(w, 2 * w)
    return w, adam


@scene
def attribute_becomes_array(offload):
    class Config:
        offset = 0

    f = offload(lambda x: x + Config.offset)
    a = f(vec(3)), f(vec(3))
    Config.offset = pos(3)
    return a, f(vec(3))


@scene
def property_counts(offload):
    class Source:
        reads = 0

        @property
        def value(self):
            self.reads += 1
            return float(self.reads)

    s = Source()
    f = offload(lambda x: x * s.value)
    return [f(vec(3)) for _ in range(4)], s.reads


@scene
def partial_with_changed_keywords(offload):
    def f(x, a, b):
        return a * x + b

    return [offload(functools.partial(f, a=a, b=1))(vec(3)) for a in (1, 2.5, -1)]


@scene
def cached_helper(offload):
    @functools.cache
    def weights(n):
        return np.hanning(n)

    f = offload(lambda x: x * weights(len(x)))
    return f(vec(5)), f(vec(5)), f(vec(7)), weights.cache_info().misses


@scene
def environment_variable(offload):
    import os

    f = offload(lambda x: x * float(os.environ.get("MEANING_GAIN", "1")))
    a = f(vec(3)), f(vec(3))
    os.environ["MEANING_GAIN"] = "3"
    b = f(vec(3))
    del os.environ["MEANING_GAIN"]
    return a, b, f(vec(3))


@scene
def random_generator_captured(offload):
    rng = np.random.default_rng(3)
    f = offload(lambda x: x + rng.normal(size=x.shape))
    return [f(vec(3)) for _ in range(4)]


@scene
def schedule_captured(offload):
    rates = iter([1.0, 0.5, 0.25, 0.125])
    step = offload(lambda w: w - next(rates) * w)
    w = vec(3)
    for _ in range(4):
        w = step(w)
    return w


@scene
def layers_edited(offload):
    layers = [mat(3, 3), mat(3, 3)]

    @offload
    def forward(x):
        for w in layers:
            x = np.maximum(w @ x, 0)
        return x

    a = forward(vec(3)), forward(vec(3))
    layers[0] *= 0.5
    b = forward(vec(3))
    layers.append(np.eye(3))
    return a, b, forward(vec(3))


@scene
def function_redefined(offload):
    results = []
    for source in ("x + 1", "x * 3", "x[::-1]"):
        scope = {"np": np}
        exec(f"def f(x): return {source}", scope)
        results.append(offload(scope["f"])(vec(3)))
    return results


@scene
def method_replaced(offload):
    class Model:
        def predict(self, x):
            return self.link(x)

        def link(self, x):
            return np.exp(x)

    m = Model()
    f = offload(m.predict)
    a = f(vec(3)), f(vec(3))
    Model.link = lambda self, x: x + 1
    return a, f(vec(3))


@scene
def print_options_changed(offload):
    f = offload(lambda x: f"{x}")
    a = f(vec(3) / 7)
    with np.printoptions(precision=2):
        b = f(vec(3) / 7)
    return a, b


@scene
def errstate_changed(offload):
    f = offload(lambda x: np.log(x))
    results = [f(vec(3)), f(vec(3))]
    with np.errstate(all="raise"):
        try:
            f(vec(3))
        except FloatingPointError as error:
            results.append(type(error).__name__)
    return results, f(vec(3))


@scene
def argument_changes_between_calls(offload):
    f, x = offload(lambda x: x**2), vec(4)
    results = []
    for k in range(4):
        x[k] = 100.0
        results.append(f(x))
    return results


@scene
def list_argument_changes(offload):
    f, items = offload(lambda items, x: len(items) * x), []
    results = []
    for k in range(3):
        items.append(k)
        results.append(f(items, vec(2)))
    return results


@scene
def default_changed(offload):
    def f(x, k=2):
        return x * k

    g = offload(f)
    a = g(vec(3)), g(vec(3))
    f.__defaults__ = (5,)
    return a, g(vec(3))
