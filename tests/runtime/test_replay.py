"""A known graph is run again without the user's Python, and only where that means the same."""

from __future__ import annotations

import math
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided
from numpy.random import gamma

import gpuforge as gf
from gpuforge.runtime.array import recorder
from gpuforge.runtime.evaluation.engine import CHECKED_EVERY
from gpuforge.runtime.function.dependence import dependence_of

FACTOR = 3
TABLE = {"factor": 2}
OFFSETS = np.arange(4.0)
SETTLE_CALLS = 6


def helper(x: Any) -> Any:
    return x * FACTOR


def plain(x: Any, power: float = 2.0) -> Any:
    return helper(np.tanh(x) + 1) ** 2 * power


placed_helper = gf.offload(helper)


def calls_offloaded(x: Any) -> Any:
    return placed_helper(np.tanh(x) + 1) * 2


def summed(x: Any) -> Any:
    return x.sum(), [float(n) for n in range(2)], x.mean(axis=0)


def pair(x: Any) -> Any:
    return x * 2, x.sum()


INNER, AXES = slice(1, -1), (0, 1)


def with_constants(x: Any, axes: Any = AXES) -> Any:
    return x[INNER] - x.sum(axis=axes) * (2.0, 3)[1]


def branches(x: Any) -> Any:
    return x * 2 if x.sum() > 0 else -x


def taken(x: Any, places: Any) -> Any:
    return x[places] * 2


def in_place(x: Any) -> Any:
    x += 1
    return x * 2


def viewed(x: Any) -> Any:
    return x[1:]


def looked_up(x: Any) -> Any:
    return x * TABLE["factor"]


def captured(x: Any) -> Any:
    return x + OFFSETS


def in_parts(x: Any) -> Any:
    yield x * 2


def drawn(x: Any) -> Any:
    return x + np.random.default_rng(0).random()


def drawn_by_name(x: Any) -> Any:
    return x + gamma(2.0)  # not math.gamma


placed_drawn = gf.offload(drawn)


def timed(x: Any) -> Any:
    return x + np.datetime64("now", "us").astype("float64")


def printed(x: Any) -> Any:
    print("once")
    return x * 2


def aliased(x: Any) -> Any:
    return np.add.reduce(np.abs(np.mod(x, 2.0)), axis=0)


def generated(x: Any) -> Any:
    return sum(x * n for n in range(3))


def looped(x: Any, steps: int = 60) -> Any:
    """Return more than one graph evaluates: three operations in each of many steps."""
    first = x
    for _ in range(steps):
        x = x * 0.5 + first
        x = x - 1.0
        if _ == 1:
            first = x
    return first, x


def with_namespace(x: Any) -> Any:
    xp = gf.namespace(x)
    return xp.exp(x) + xp.sum(x, axis=0)


@pytest.fixture(params=["torch", "jax"])
def library(request: pytest.FixtureRequest) -> Iterator[str]:
    pytest.importorskip(request.param)
    with gf.session(history=False):
        yield request.param


def parts(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


def settled(function: Callable[..., Any], library: str, *args: Any) -> Any:
    placed = gf.offload(function, backend=library)
    for _ in range(SETTLE_CALLS):
        placed(*args)
    return placed


def held_replays(placed: Any) -> Iterator[Any]:
    """Yield what replays the calls of a function under its cached decisions."""
    for held in placed.stats().held.values():
        if held.replay is not None:
            yield held.replay


X = np.random.default_rng(1).random((40, 4))


@pytest.mark.parametrize("function", [plain, pair, calls_offloaded, with_constants])
def test_a_known_graph_runs_without_the_body(
    library: str, recorded: list[int], function: Any
) -> None:
    placed = settled(function, library, X)
    recorded.clear()
    results = [placed(X + n) for n in range(20)]
    assert len(recorded) <= 2
    for n, result in enumerate(results):
        expected = function(X + n)
        for one, other in zip(parts(result), parts(expected), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12)
            assert type(one) is type(other)
    if function is plain:
        results[0][:] = 0
        assert placed(X).all()
        assert results[1].flags.owndata or results[1].base is not results[2].base


@pytest.mark.parametrize(
    ("function", "args"),
    [(branches, (X,)), (taken, (X, np.array([1, 0]))), (looked_up, (X,)), (captured, (X,)),
     (drawn, (X,)), (summed, (X,))],
)  # fmt: skip
def test_what_hangs_on_more_is_recorded_each_time(
    library: str, recorded: list[int], function: Any, args: Any
) -> None:
    placed = settled(function, library, *args)
    record = placed.stats()
    assert all(held.replay is None for held in record.held.values())
    given = [np.array(value) for value in args]
    expected = function(*[value.copy() for value in given])
    result = placed(*given)
    for one, other in zip(parts(result), parts(expected), strict=True):
        assert np.allclose(one, other)


def test_what_the_body_reads_is_looked_at_again(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    placed = settled(plain, library, X)
    changes: list[Callable[[pytest.MonkeyPatch], None]] = [
        lambda patch: patch.setitem(globals(), "FACTOR", 5),
        lambda patch: patch.setitem(globals(), "helper", lambda x: x * 7),
        lambda patch: patch.setattr(plain, "__defaults__", (9.0,)),
    ]
    for change in changes:
        with monkeypatch.context() as patch:
            change(patch)
            np.testing.assert_allclose(placed(X), plain(X), rtol=1e-12)
    np.testing.assert_allclose(placed(X), plain(X), rtol=1e-12)


def test_an_offloaded_function_that_the_body_calls_is_looked_at_again(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    placed = settled(calls_offloaded, library, X)
    changes: list[Callable[[pytest.MonkeyPatch], None]] = [
        lambda patch: patch.setitem(globals(), "FACTOR", 5),
        lambda patch: patch.setitem(globals(), "placed_helper", gf.offload(lambda x: x * 7)),
        lambda patch: patch.setattr(helper, "__code__", (lambda x: x - 1).__code__),
    ]
    for change in changes:
        with monkeypatch.context() as patch:
            change(patch)
            np.testing.assert_allclose(placed(X), calls_offloaded(X), rtol=1e-12)
    np.testing.assert_allclose(placed(X), calls_offloaded(X), rtol=1e-12)


def test_what_was_recorded_meanwhile_is_not_replayed_later(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    placed = settled(plain, library, X)
    with monkeypatch.context() as patch:
        patch.setitem(globals(), "FACTOR", 5)
        placed.stats().drop_decisions()
        for _ in range(SETTLE_CALLS):
            np.testing.assert_allclose(placed(X), plain(X), rtol=1e-12)
    for _ in range(SETTLE_CALLS):
        np.testing.assert_allclose(placed(X), plain(X), rtol=1e-12)


def test_defaults_by_name_are_looked_at_again(library: str) -> None:
    def scaled(x: Any, *, by: float = 2.0) -> Any:
        return x * by

    placed = settled(scaled, library, X)
    scaled.__kwdefaults__["by"] = 3.0
    np.testing.assert_allclose(placed(X), 3 * X)


def test_other_numbers_are_other_calls(library: str) -> None:
    placed = gf.offload(plain, backend=library)
    for power in (2.0, 2.0, 2.0, 2.0, 3.0, 0.0, -0.0, math.inf, 2.0, 2, True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected, found = plain(X, power), placed(X, power)
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        assert found.dtype == expected.dtype
        assert np.array_equal(np.signbit(found), np.signbit(expected))


def test_warnings_and_errors_come_as_before(library: str) -> None:
    def inverse(x: Any) -> Any:
        return 1.0 / x

    placed = settled(inverse, library, X + 1)
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        placed(X * 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning):
            placed(X * 0)


def test_numpy_warns_of_infinity_beside_nan_that_was_there_before(library: str) -> None:
    placed = settled(lambda x: 1.0 / x, library, X + 1)
    x = X + 1
    x.flat[0], x.flat[1] = np.nan, 0.0
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        for _ in range(CHECKED_EVERY):
            assert placed(x).flat[1] == np.inf


def test_overlapping_arguments_are_called_as_written(library: str) -> None:
    def add(x: Any, y: Any) -> Any:
        return x * 2 + y

    placed = settled(add, library, X, X + 1)
    np.testing.assert_allclose(placed(X, X[:]), 3 * X)


def test_one_array_given_twice_and_two_arrays_are_told_apart(library: str) -> None:
    def add(x: Any, y: Any) -> Any:
        return x * 2 + y

    for first, second in ((X, X), (X, X + 1)):
        placed = settled(add, library, first, second)
        for x, y in ((X, X), (X, X + 1), (X + 1, X), (X + 2, X + 2)):
            np.testing.assert_allclose(placed(x, y), 2 * x + y)


def test_a_body_that_asks_whether_two_arguments_are_one_array(library: str) -> None:
    def product(x: Any, y: Any) -> Any:
        return x * y + 1.0 if y is x else x - y

    placed = settled(product, library, X, X + 1)
    for x, y in ((X, X), (X, X + 1), (X + 2, X), (X, X)):
        result = product(x, y) if x is not y else X * X + 1.0
        np.testing.assert_allclose(placed(x, y), result)


@pytest.mark.parametrize(
    "function",
    [
        plain,
        helper,
        pair,
        branches,
        taken,
        in_place,
        aliased,
        generated,
        calls_offloaded,
        with_constants,
    ],
)
def test_plain_functions_depend_on_fixed_names(function: Any) -> None:
    found = dependence_of(function)
    assert found is not None
    assert found.holds()


def counter() -> Any:
    count = 0

    def step(x: Any) -> Any:
        nonlocal count
        count += 1
        return x * count

    return step


class Scaled:
    factor = 2.0

    def __call__(self, x: Any) -> Any:
        return x * self.factor


@pytest.mark.parametrize(
    "function",
    [looked_up, captured, drawn, drawn_by_name, timed, in_parts, printed, counter(), Scaled(),
     math.sqrt, lambda x: input(x), lambda x, y=OFFSETS: x + y, lambda x: x.ctypes.data,
     lambda x: placed_drawn(x), lambda x, y=([1],): x + y[0][0]],
)  # fmt: skip
def test_other_functions_may_vary(function: Any) -> None:
    assert dependence_of(function) is None


def test_reading_a_function_loads_no_more_of_numpy() -> None:
    """Asking NumPy for each of its names would import its Fortran wrapper and its tests."""
    code = (
        "import sys; import gpuforge.runtime.function.dependence as read;"
        "assert read.dependence_of(lambda x: abs(x)) is not None;"
        "found = {'numpy.f2py', 'numpy.testing', 'unittest'} & set(sys.modules);"
        "assert not found, found"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


class TestSeveralGraphs:
    def test_a_loop_is_replayed_graph_by_graph(self, library: str, recorded: list[int]) -> None:
        placed = settled(looped, library, X)
        recorded.clear()
        for n in range(20):
            for one, other in zip(placed(X + n), looped(X + n), strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-12)
        assert len(recorded) <= 2
        replay = next(iter(held_replays(placed)))
        assert len(replay.links) > 1

    def test_values_are_dropped_after_their_last_use(self, library: str) -> None:
        links = next(iter(held_replays(settled(looped, library, X)))).links
        made = sum(len(link.program.graph.outputs) for link in links)
        assert sum(len(link.drop) for link in links) == made - 2  # all but the results

    def test_a_value_read_between_the_graphs_is_read_again(
        self, library: str, recorded: list[int]
    ) -> None:
        def reading(x: Any) -> Any:
            total = looped(x)[1].sum()
            return x * 2 if total > 0 else -x

        placed = settled(reading, library, X)
        for value in (X, -1e6 + X, X):
            np.testing.assert_allclose(placed(value), reading(value))
        assert not list(held_replays(placed))

    def test_a_shape_that_values_decide_is_found_again(self, library: str) -> None:
        def positive(x: Any) -> Any:
            return looped(x)[0][np.nonzero(x > 0)[0]] + 1.0

        placed = settled(positive, library, X)
        for value in (X - 0.5, X - 0.2, X):
            np.testing.assert_allclose(placed(value), positive(value))
        assert not list(held_replays(placed))

    def test_too_many_graphs_are_recorded(
        self, library: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(recorder, "MOST_EVALUATIONS", 1)
        placed = settled(looped, library, X)
        assert not list(held_replays(placed))
        np.testing.assert_allclose(placed(X)[1], looped(X)[1])

    def test_numpy_warns_about_a_graph_in_the_middle(self, library: str) -> None:
        def overflowing(x: Any) -> Any:
            first, x = looped(np.exp(x))
            return first, x

        placed = settled(overflowing, library, X)
        large = X + 1000.0
        with pytest.warns(RuntimeWarning, match="overflow"):
            expected = overflowing(large)
        with pytest.warns(RuntimeWarning, match="overflow"):
            results = [placed(large) for _ in range(CHECKED_EVERY)]
        for result in results:
            np.testing.assert_array_equal(result[1], expected[1])


def test_gpuforges_namespace_depends_on_the_arguments_alone(
    library: str, recorded: list[int]
) -> None:
    placed = settled(with_namespace, library, X)
    recorded.clear()
    for n in range(10):
        np.testing.assert_allclose(placed(X + n), with_namespace(X + n))
    assert len(recorded) <= 1


def test_calls_that_are_decided_are_replayed_too(recorded: list[int]) -> None:
    with gf.session(history=False):
        placed = gf.offload(plain, backend="blocks")
        placed(X)
        recorded.clear()
        for n in range(20):
            placed.stats().held.clear()  # so that each call is decided
            np.testing.assert_array_equal(placed(X + n), plain(X + n))
        assert recorded == []


def relaxed(u: Any, f: Any, dt: float) -> None:
    u[1:-1] += dt * (u[2:] + u[:-2] - 2 * u[1:-1]) + f[1:-1]


def both(u: Any, v: Any) -> Any:
    u[0] = v[1]
    v *= 2.0
    return u, v.T, u + v


def zeroed(x: Any) -> Any:
    x[::2] = 0
    return x[1:], x


def moved(u: Any, v: Any) -> None:
    u[:] = v


def square(seed: int) -> Any:
    return np.random.default_rng(seed).random((6, 6))


class TestWrites:
    """What a body writes into its arguments is written by a replay, at the end of it."""

    @pytest.mark.parametrize(
        ("function", "make"),
        [(in_place, lambda: [square(0)]), (relaxed, lambda: [square(0), square(1), 0.1]),
         (both, lambda: [square(0), square(1)]), (zeroed, lambda: [np.arange(9.0)]),
         (viewed, lambda: [square(0)])],
    )  # fmt: skip
    def test_arguments_and_results_are_those_of_plain_calls(
        self, library: str, recorded: list[int], function: Any, make: Any
    ) -> None:
        placed, expected_args, args = gf.offload(function, backend=library), make(), make()
        for n in range(3 * SETTLE_CALLS):
            if n == SETTLE_CALLS:
                recorded.clear()
            expected, result = function(*expected_args), placed(*args)
            for one, other in zip(args, expected_args, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-12)
            for one, other in zip(parts(result), parts(expected), strict=True):
                if expected is None:
                    assert one is None
                    continue
                np.testing.assert_allclose(one, other, rtol=1e-12)
                for ours, theirs in zip(args, expected_args, strict=True):
                    assert (one is ours) == (other is theirs)
                    assert np.shares_memory(one, ours) == np.shares_memory(other, theirs)
        assert len(recorded) <= 2
        assert bool(next(held_replays(placed)).writes) == (function is not viewed)

    def test_a_read_only_argument_raises_numpys_error(self, library: str) -> None:
        placed = settled(relaxed, library, square(0), square(1), 0.1)
        assert next(held_replays(placed))
        given = square(0)
        given.flags.writeable = False
        with pytest.raises(ValueError, match="read-only"):
            placed(given, square(1), 0.1)
        np.testing.assert_array_equal(given, square(0))

    def test_a_replay_that_fails_has_written_nothing(
        self, library: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        placed = settled(both, library, square(0), square(1))
        replay = next(held_replays(placed))
        monkeypatch.setattr(type(replay.engine), "_rerun", lambda *_: None)
        u, v = square(0), square(1)
        assert replay((u, v), {}) is None
        np.testing.assert_array_equal(u, square(0))
        np.testing.assert_array_equal(v, square(1))
        expected = both(square(0), square(1))
        for one, other in zip(placed(u, v), expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12)

    def test_arguments_that_share_memory_are_not_replayed(self, library: str) -> None:
        placed = settled(relaxed, library, square(0), square(1), 0.1)
        ours, plain = square(2), square(2)
        placed(ours[:4], ours[2:], 0.1)
        relaxed(plain[:4], plain[2:], 0.1)
        np.testing.assert_allclose(ours, plain, rtol=1e-12)

    def test_one_view_returned_twice_stays_one_object(self, library: str) -> None:
        def same(x: Any) -> Any:
            part = (x + 1.0)[1:], x[1:]
            return *part, part[1].astype(x.dtype, copy=False)

        placed = settled(same, library, square(0))
        _, view, again = placed(square(0))
        assert view is again
        assert not list(held_replays(placed))

    def test_another_arguments_value_is_recorded_each_time(self, library: str) -> None:
        placed = settled(moved, library, square(0), square(1))
        assert not list(held_replays(placed))
        u, v = square(2), square(3)
        placed(u, v)
        np.testing.assert_array_equal(u, v)


class Shifted:
    def __init__(self) -> None:
        self.mean = 1.0

    @gf.offload
    def apply(self, x: Any) -> Any:
        return x - self.mean


def adding(number: Any) -> Any:
    return lambda x: x + number


class Answering(dict[str, Any]):
    def __getattr__(self, name: str) -> Any:
        return self[name]


class TestWhatIsRead:
    """All that a body depends on is read, however it is reached."""

    def test_a_bound_method_depends_on_its_object(self, library: str) -> None:
        shifted = Shifted()
        apply = shifted.apply
        placed = settled(lambda x: apply(x) * 2, library, X)
        shifted.mean = 100.0
        np.testing.assert_allclose(placed(X), (X - 100.0) * 2)

    def test_functions_of_one_factory_are_read_one_by_one(self, library: str) -> None:
        assert dependence_of(adding(2.0)) is not None
        constant, varying = gf.offload(adding(2.0)), gf.offload(adding(input))
        assert dependence_of(lambda x: constant(x) + varying(x)) is None
        other = adding(3.0)
        placed = settled(lambda x: constant(x) + other(x), library, X)
        other.__closure__[0].cell_contents = 7.0
        np.testing.assert_allclose(placed(X), 2 * X + 9.0)

    def test_objects_that_answer_to_any_name_may_vary(self) -> None:
        settings = Answering(factor=2.0)
        assert dependence_of(lambda x: x * settings.factor) is None

    def test_an_empty_cell_is_a_change(self) -> None:
        added = adding(2.0)
        found = dependence_of(added)
        assert found is not None and found.holds()
        del added.__closure__[0].cell_contents
        assert not found.holds()


def test_writes_into_an_argument_whose_elements_share_memory(library: str) -> None:
    def written(x: Any) -> None:
        x[0] += 1
        x[1] *= 3

    placed = gf.offload(written, backend=library)
    for _ in range(3):
        ours, plain = np.ones(4), np.ones(4)
        placed(as_strided(ours, (3, 4), (0, 8)))
        written(as_strided(plain, (3, 4), (0, 8)))
        np.testing.assert_array_equal(ours, plain)
