"""Everyday patterns that nobody had seen before they were tried, and that then differed."""

from __future__ import annotations

import operator
import sys
import warnings
from collections import namedtuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tests.meaning.arrays import cube, ints, mat, vec
from tests.meaning.pattern import pattern, scene

COUNTS = {"calls": 0}


@pattern(lambda: (mat(3, 4), mat(4, 2)))
def product_into_an_array_made_here(a, b):
    made = np.empty((3, 2))
    np.matmul(a, b, out=made)
    return made


@pattern(lambda: (vec(), np.empty(6), np.empty(6)))
def two_results_written_into_arguments(x, fraction, whole):
    np.modf(x, fraction, whole)
    quotient, rest = np.divmod(x, 0.7, out=(np.empty(6), np.empty(6)))
    return fraction + whole, quotient, rest


@pattern(lambda: vec(6))
def a_loop_sees_what_it_writes(x):
    for place, value in enumerate(x):
        if place + 1 < len(x):
            x[place + 1] += value
    return x


@pattern(lambda: ints(4))
def sequences_are_repeated(x):
    return [0] * (x[0] + 1), (1, 2) * x[1], x[2] * [3], operator.mul("ab", x[0]), [1] + x


@pattern(lambda: np.asfortranarray(mat()))
def memory_order_of_a_result(a):
    b = a * 2
    return b.flags.f_contiguous, b.strides, (a.T + 1).flags.c_contiguous


@pattern(lambda: (vec(), vec(4)))
def which_arrays_share_memory(x, y):
    double = x * 2
    return (
        np.shares_memory(x, x[1:]), np.shares_memory(x[:2], x[3:]), np.may_share_memory(x, y),
        np.shares_memory(double, double[::2]), np.shares_memory(double, x),
    )  # fmt: skip


@pattern(lambda: (mat(3, 3), cube(2, 3, 3)))
def subscripts_that_give_views(a, b):
    turned = np.einsum("ij->ji", a)
    turned[0] = 5
    return turned, np.einsum("bij->jbi", b), np.einsum("ii->i", a)


@pattern(lambda: vec(4))
def bits_there_and_back_are_another_view(x):
    return x.view(np.int64).view(np.float64)


@pattern(lambda: vec(4).astype(">f8"))
def another_byte_order(x):
    return x.dtype, x[1:], x.copy(), x * 2


@pattern(lambda: (np.random.default_rng(3), mat(5, 2)))
def rows_shuffled(rng, x):
    x += rng.normal(size=x.shape)
    rng.shuffle(x)
    return x, rng.random()


@scene
def rows_shuffled_by_a_method(offload):
    class Loader:
        def __init__(self):
            self.rng = np.random.default_rng(3)

        def mix(self, x):
            self.rng.shuffle(x)

        @offload
        def rows(self, x):
            self.mix(x)
            return x * 2

    loader = Loader()
    return [loader.rows(mat(5, 2)) for _ in range(4)]


@pattern(lambda: vec(3))
def a_global_written_by_its_name(x):
    globals()["COUNTS"] = {"calls": COUNTS["calls"] + 1}
    return x * 2, "COUNTS" in globals(), "nowhere" in globals()


@scene
def the_dict_of_globals(offload):
    names = {"np": np, "SCALE": 2.0}
    exec("def f(x): return x * SCALE + ('OFF' in globals())", names)
    f, found = offload(names["f"]), []
    for k in range(5):
        found.append(f(vec(3)))
        if k == 2:
            names["OFF"] = True
    return found


class Checks:
    def checked(self, x):
        return np.asarray(x)

    def tail(self, x):
        return np.asarray(x)[1:]


CHECKS = Checks()


@pattern(lambda: vec(4))
def checked_elsewhere(x):
    y = x * 2
    return CHECKS.tail(y), CHECKS.tail(x), y


@pattern(lambda: vec(4))
def checked_elsewhere_then_written(x):
    y = x * 2
    checked = CHECKS.checked(y)
    y[0] = 5
    return checked[0], checked


@scene
def checked_in_a_setter(offload):
    class State:
        def __init__(self):
            self.sets = 0

        @property
        def value(self):
            return self._value

        @value.setter
        def value(self, x):
            self.sets += 1
            self._value = np.asarray(x)

        @offload
        def update(self, x):
            self.value = x * 2
            return self.value

    state = State()
    results = [state.update(vec(k + 2)) for k in range(4)]
    return results, state, results[-1] is state.value


@scene
def an_argument_by_another_name(offload):
    class Grid:
        def __init__(self):
            self.u = mat(4, 4)

        @offload
        def relax(self, u):
            u[1:-1] = (u[:-2] + u[2:]) / 2
            self.u[0] = self.u.sum()
            return u * 1

    grid = Grid()
    return [grid.relax(grid.u) for _ in range(4)], [grid.relax(grid.u[1:]) for _ in range(2)], grid


@scene
def an_argument_seen_from_outside(offload):
    x = vec()
    middle = x[2:4]

    @offload
    def f(a):
        a += 1
        total = middle.sum()
        middle[0] = 50
        return a * 1, total

    return [f(x) for _ in range(4)], x


@scene
def memory_of_an_argument_written_by_another_method(offload):
    class State:
        def __init__(self):
            self.held = vec(4)

        def put(self, value):
            self.held[0] = value

        @offload
        def twice(self, x):
            y = x * 2
            self.put(100.0)
            return y, x.sum()

    state = State()
    return [state.twice(state.held) for _ in range(4)], state


@pattern(lambda: vec())
def memory_of_an_argument_read_with_other_strides(x):
    windows = as_strided(x, (4, 3), (8, 8))
    return windows, windows[1:], as_strided(x, (2, 2), (8, 8), writeable=False)


@pattern(lambda: vec())
def memory_read_with_other_strides_made_read_only(x):
    windows = as_strided(x, (4, 3), (8, 8))
    windows.flags.writeable = False
    return windows


@pattern(lambda: vec())
def memory_read_with_other_strides_only_inside(x):
    windows = as_strided(x, (4, 3), (8, 8))
    return (windows * x[:3]).sum(axis=1)


@pattern(lambda: vec())
def memory_of_an_array_made_here_read_with_other_strides(x):
    double = x * 2
    windows = as_strided(double, (4, 3), (8, 8))
    return double, windows, windows.sum(axis=1)


@pattern(lambda: vec())
def memory_of_a_view_read_with_other_strides(x):
    second = x[::2]
    (step,) = second.strides
    return as_strided(second, (2, 2), (step, step)), second


@pattern(lambda: vec())
def an_array_of_objects_holds_arrays(x):
    y = x + 1
    parts = np.split(y, [2])
    parts.append(None)
    kept = np.empty(2, dtype=object)
    kept[0] = x[1:]
    return np.array(parts, dtype=object), y, kept, np.array([x[:2], x[2:], None], dtype=object)


class Axis:
    def __init__(self, points):
        self.points = points

    def __array__(self, dtype=None, copy=None):
        return self.points


@pattern(lambda: vec())
def an_object_that_converts_to_an_argument(x):
    axis = Axis(x)
    return np.asarray(axis) is x, x - axis, np.add(axis, 1)


@pattern(lambda: (mat(), np.asfortranarray(mat())))
def shapes_in_fortran_order(a, b):
    turned = a.reshape(2, 6, order="F")
    view = b.reshape(12, order="F")
    view[0] = 50
    flat = (a * 2).ravel("F")
    flat[1] = 7
    return turned, view, b, flat, np.reshape(np.extract(a > 0, a), (-1, 1), order="F")


@pattern(lambda: (mat(), mat() > 0, vec(4) > 0))
def masks_beside_other_indices(a, b, chosen):
    a[b[:, 0], 1] = 9
    a[1:, chosen] += 1
    return a[:, chosen], a[0, chosen], a[b.any(axis=1), ::2], a[np.where(b)], np.where(chosen)


@pattern(lambda: (mat(), np.asfortranarray(mat())))
def writes_through_shapes_in_fortran_order_of_what_numpy_makes_in_that_order(a, b):
    doubled, sums, same = a.T * 2, b + b, b.copy("K")
    doubled.reshape(12, order="F")[:] += 1
    np.reshape(sums, (2, 6), order="F")[:, 0] = 7
    flat = same.ravel("F")
    same[0, 0] = 99
    return doubled, sums, flat, same


@pattern(lambda: vec())
def a_choice_from_one_array(x):
    try:
        return np.where(x > 2, x)
    except ValueError as error:
        return str(error)


@pattern(lambda: vec())
def arrays_made_of_lists_and_objects(x):
    xp = x.__array_namespace__()
    pairs = xp.full((2, 3), [1, 2, 3]), xp.full(2, "cat"), xp.full(2, 2**70)
    return x + 1, pairs, xp.eye(2, 3, 0, object), xp.arange(1, 6, 2, object)


@pattern(lambda: vec(3))
def imported_relatively(x):
    from ..arrays import vec as other

    return np.array([x.sum(), other(3)[0]])


SCALE = 2.0


@pattern(lambda: vec(3))
def a_class_defined_inside(x):
    class Scaled:
        scale, half = SCALE, np.pi / 2

        def of(self, x):
            return np.array([x.sum() * self.scale, self.half, SCALE])

    return Scaled().of(x), Scaled.__module__


@pattern(lambda: vec(3))
def modules_of_what_is_defined_inside(x):
    def twice(v):
        return v * 2

    pair = namedtuple("pair", "a b")
    return twice.__module__, (lambda v: v).__module__, pair.__module__, np.array([x.sum(), 1.0])


@pattern(lambda: vec(3))
def globals_of_the_frame(x):
    return "SCALE" in sys._getframe().f_globals, np.array([x.sum(), 1.0])


@scene
def a_warning_is_told_once(offload):
    def careful(x):
        warnings.warn("careful", stacklevel=1)
        return np.array([x.sum(), 1.0])

    function = offload(careful)
    with warnings.catch_warnings(record=True) as told:
        warnings.resetwarnings()
        warnings.simplefilter("default")
        for _ in range(3):
            function(vec(3))
    return [(str(one.message), one.filename) for one in told]


def caught(function, *args, **options):
    try:
        return function(*args, **options)
    except ValueError as error:
        return str(error)


@pattern(lambda: np.arange(6).reshape(2, 3), lambda: mat(2, 3))
def copies_that_are_not_to_be_made(x):
    return (
        caught(np.array, x, dtype=float, copy=False),
        caught(np.asarray, x * 2, dtype=np.float64, copy=False),
        caught(np.array, x, copy=False, order="F"),
        caught(np.array, x.sum(), copy=False),
        caught(np.array, [x, x], copy=False),
        caught(np.reshape, x.T, (-1,), copy=False),
        caught(np.reshape, x, (-1,), copy=False),
        np.array(x, copy=False) is x,
    )


class Held:
    def __init__(self):
        self.items, self.named = [], {}

    def filled(self, x):
        self.given, self.twice = x, x * 2
        self.items.append(x + 1)
        self.named["less"] = x - 1
        raise KeyError(x.sum())


@pattern(lambda: (Held(), vec(3)))
def held_when_it_raises(held, x):
    held.filled(x)


class Cloud:
    def __init__(self, points, counts):
        if type(points) is not np.ndarray or points.ndim != 2:
            raise ValueError("no points")
        self.points = points * 2
        counts.append(1)


class Weighted(Cloud):
    def __init__(self, points, counts):
        super().__init__(points, counts)
        self.weights = self.points.sum(axis=1)


def kind_of(value):
    return "numbers" if type(value) in (np.ndarray, np.float64) else "others"


@pattern(lambda: (mat(3, 2), []))
def types_compared_in_a_base_class(points, counts):
    return Weighted(points, counts).weights, counts


@pattern(lambda: mat(3, 2))
def types_compared_elsewhere(x):
    return kind_of(x), kind_of(x * 2), kind_of(x.sum()), kind_of([x])


@pattern(lambda: vec(3))
def a_type_called(x):
    try:
        return str(type(x)())
    except TypeError:
        return x * 2


@pattern(lambda: (vec(3), []))
def its_own_type_error(x, told):
    told.append(len(told))
    if x.sum() > -100:
        raise TypeError("mine")


KINDS = {np.ndarray: "array", float: "number"}


@pattern(lambda: vec(3))
def chosen_by_type_or_raised(x):
    try:
        return KINDS[type(x)], x * 2
    except KeyError:
        raise TypeError(f"no kind for {type(x)}") from None
