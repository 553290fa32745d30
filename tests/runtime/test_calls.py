"""Every shape of call a user's program makes: what is written, raised, captured, nested, forked."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import json
import multiprocessing
import os
import pickle
import subprocess
import sys
import textwrap
import threading
import warnings
from collections import namedtuple
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gpuforge as gf
from gpuforge.errors import BackendUnavailable, InvalidSettings, UnknownName
from gpuforge.runtime.execution import pipeline
from gpuforge.runtime.placement.account import Account

from .conftest import as_numpy, first_device, places, refusals, same

X = np.random.default_rng(3).random((40, 30))
WEIGHTS = np.ones((30, 5))
SCALE = 3.0


@gf.offload
def module_level(x: Any) -> Any:
    return x * 2 + 1


def run(placed: Any, *arguments: Any, times: int = 4) -> Any:
    for _ in range(times):
        found = placed(*arguments)
    return found


def in_threads(work: Any, numbers: Any) -> None:
    """Do `work` with each number in a thread of its own, in the session of the test."""
    threads = [
        threading.Thread(target=contextvars.copy_context().run, args=(work, number))
        for number in numbers
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class TestWriting:
    @pytest.mark.parametrize("mutates", [(), ("x",)])
    def test_a_write_reaches_the_users_array_declared_or_not(
        self, mutates: tuple[str, ...], other: str, quiet_session: Any
    ) -> None:
        @gf.offload(backend=other, mutates=mutates)
        def centre(x: Any, shift: float) -> Any:
            x -= shift
            return np.sum(x)

        expected, data = X.copy(), X.copy()
        for _ in range(4):
            expected -= 0.5
            same(expected.sum(), centre(data, 0.5))
            np.testing.assert_allclose(data, expected, rtol=1e-12)
        assert places(centre) == {first_device(other): 4}

    def test_a_returned_argument_is_the_callers_array(self, other: str, quiet_session: Any) -> None:
        @gf.offload(backend=other)
        def centre(x: Any) -> Any:
            x -= np.mean(x)
            return x

        data = X.copy()
        assert centre(data) is data
        same(X - X.mean(), data)

    def test_what_was_written_before_an_exception_is_there(
        self, other: str, quiet_session: Any
    ) -> None:
        @gf.offload(backend=other)
        def half_done(x: Any) -> Any:
            x[0] = 7.0
            raise LookupError("half way")

        data = X.copy()
        with pytest.raises(LookupError, match="half way"):
            half_done(data)
        assert (data[0] == 7.0).all()
        assert np.array_equal(data[1:], X[1:])

    def test_an_array_of_a_dtype_that_the_library_lacks_is_written_into_once(
        self, other: str, quiet_session: Any
    ) -> None:
        @gf.offload(backend=other)
        def added(x: Any, total: list[Any]) -> Any:
            total[0] = total[0] + 1
            x[1:] += 1
            return x[::2] * 2

        x, total = np.arange(5, dtype=np.longdouble), [0]
        assert added(x, total).tolist() == [0, 6, 10]
        assert (x.tolist(), total) == ([0, 2, 3, 4, 5], [1])

    def test_several_arrays_given_as_out_are_returned(self, other: str, quiet_session: Any) -> None:
        @gf.offload(backend=other)
        def parts(x: Any, a: Any, b: Any) -> Any:
            found = np.modf(x, out=(a, b))
            return found, found[0] is a, found[1] is b

        a, b = np.zeros((2, 3))
        found, *same_ones = parts(np.array([0.5, 1.25, -2.5]), a, b)
        assert same_ones == [True, True]
        assert found[0] is a
        assert found[1] is b
        assert b.tolist() == [0, 1, -2]

    def test_mutates_must_name_an_argument(self, quiet_session: Any) -> None:
        with pytest.raises(UnknownName, match="argument 'z'"):
            gf.offload(mutates=("z",))(lambda x: x)
        same(X * 2.0, gf.offload(mutates=("s",))(lambda x, s: x * s)(X, 2.0))

    def test_local_arrays_may_be_written(self, other: str, quiet_session: Any) -> None:
        @gf.offload(backend=other)
        def filled(x: Any) -> Any:
            y = np.zeros_like(x)
            y[1:, :] = x[:-1, :]
            return y

        expected = filled.__wrapped__(X)
        same(expected, run(filled, X))
        assert places(filled) == {first_device(other): 4}

    def test_results_that_are_views_stay_writable_and_alias(
        self, other: str, quiet_session: Any
    ) -> None:
        for placed in (gf.offload(_views), gf.offload(backend=other)(_views)):
            data = X.copy()
            whole, part, turned = run(placed, data)
            assert whole is data
            part[0, 0] = 99.0
            assert data[2, 0] == 99.0
            turned[1, 1] = 98.0
            assert data[1, 1] == 98.0

    def test_read_only_input_stays_read_only(self, other: str, quiet_session: Any) -> None:
        data = X.copy()
        data.flags.writeable = False
        placed = gf.offload(backend=other)(lambda x: x * 2)
        same(X * 2, run(placed, data))
        assert not data.flags.writeable

    def test_writing_into_read_only_input_is_numpys_error(
        self, other: str, quiet_session: Any
    ) -> None:
        @gf.offload(backend=other)
        def written(x: Any) -> Any:
            x += 1
            return x

        data = X.copy()
        data.flags.writeable = False
        for _ in range(3):
            with pytest.raises(ValueError, match="read-only"):
                written(data)
        assert np.array_equal(data, X)

    def test_changing_an_input_between_calls_is_seen(self, other: str, quiet_session: Any) -> None:
        placed = gf.offload(backend=other)(lambda x: x * 2)
        data = X.copy()
        for step in range(5):
            data[0, 0] = step
            assert placed(data)[0, 0] == 2 * step

    def test_results_do_not_share_memory_between_calls(
        self, other: str, quiet_session: Any
    ) -> None:
        placed = gf.offload(backend=other)(lambda x: x * 2)
        run(placed, X)
        first, second = placed(X), placed(X)
        first[:] = 0
        same(X * 2, second)
        assert first.flags.writeable

    def test_arguments_that_overlap_are_called_as_written(
        self, other: str, quiet_session: Any
    ) -> None:
        @gf.offload(backend=other)
        def shifted(x: Any, y: Any) -> Any:
            y += x
            return y

        data, expected = np.ones(10), np.ones(10)
        shifted(data[:-1], data[1:])
        shifted.__wrapped__(expected[:-1], expected[1:])
        assert np.array_equal(data, expected)
        assert "arguments overlap in memory" in shifted.stats().as_written

    def test_an_array_given_twice_is_one_array(self, other: str, quiet_session: Any) -> None:
        @gf.offload(backend=other)
        def both(x: Any, y: Any) -> Any:
            assert (x is y) == (given is again)
            y += 1
            return x * y, x[1:]

        given = again = np.arange(5.0)
        expected = np.arange(5.0) + 1
        product, rest = both(given, again)
        assert np.array_equal(product, expected * expected)
        assert np.array_equal(given, expected)
        assert np.shares_memory(rest, given)
        assert not both.stats().as_written
        again = given.copy()
        product, rest = both(given, again)
        assert np.array_equal(product, expected * (expected + 1))
        assert np.array_equal(again, expected + 1)
        assert np.array_equal(given, expected)


def _views(x: Any) -> Any:
    return x, x[2:], x.T


class TestRaising:
    def test_users_own_exception_is_raised_unchanged_and_once(
        self, other: str, quiet_session: Any
    ) -> None:
        ran = []

        @gf.offload(backend=other)
        def picky(x: Any, limit: float) -> Any:
            ran.append(1)
            if limit > 1:
                raise LookupError("limit")
            return x + limit

        run(picky, X, 0.5)
        ran.clear()
        with pytest.raises(LookupError, match="limit") as caught:
            picky(X, 2.0)
        assert caught.traceback[-1].name == "picky"
        assert len(ran) == 1
        assert sum(places(picky).values()) == 5

    def test_an_exception_has_no_context_that_plain_numpy_does_not_give_it(
        self, other: str, quiet_session: Any
    ) -> None:
        @gf.offload(backend=other)
        def named(x: Any) -> None:
            x.name = "x"

        @gf.offload(backend=other)
        def cast(x: Any) -> None:
            np.add(x, 0.5, out=x.astype(int))

        for placed, kind in ((named, AttributeError), (cast, TypeError)):
            with pytest.raises(kind) as caught:
                placed(X.copy())
            assert caught.value.__context__ is None

    def test_what_a_library_cannot_do_numpy_does(self, torch: Any, quiet_session: Any) -> None:
        placed = gf.offload(backend="torch")(lambda x, step: x[::step] * 2)
        for step in (2, -1, 3, -2):
            same(X[::step] * 2, placed(X, step))
        assert not refusals(placed)

    def test_index_error_is_numpys(self, other: str, quiet_session: Any) -> None:
        placed = gf.offload(backend=other)(lambda x, i: x[i] * 2)
        run(placed, X, np.array([1, 2]))
        with pytest.raises(IndexError, match="out of bounds") as caught:
            placed(X, np.array([1, 99]))
        assert other not in str(caught.value)
        same(X[[1, 2]] * 2, run(placed, X, np.array([1, 2])))
        assert not refusals(placed)

    def test_an_exception_of_an_operation_is_caught_where_it_stands(
        self, other: str, quiet_session: Any
    ) -> None:
        @gf.offload(backend=other)
        def picked(x: Any, i: Any) -> Any:
            try:
                return x[i] * 2
            except IndexError:
                return x * 0

        same(X[[3]] * 2, run(picked, X, np.array([3])))
        same(X * 0, run(picked, X, np.array([300])))

    @pytest.mark.parametrize("mode", ["raise", "call"])
    def test_errstate_raise_is_called_as_written(
        self, mode: Any, other: str, quiet_session: Any
    ) -> None:
        placed = gf.offload(backend=other)(lambda x: 1 / x)
        run(placed, X + 1)

        def handler(kind: str, flag: int) -> None:
            raise FloatingPointError(kind)

        with np.errstate(divide=mode, call=handler), pytest.raises(FloatingPointError):
            placed(X * 0)
        same(1 / (X + 1), placed(X + 1))

    def test_warnings_as_errors_are_numpys(self, other: str, quiet_session: Any) -> None:
        placed = gf.offload(backend=other)(lambda x: np.log(x))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(RuntimeWarning, match="divide by zero"):
                placed(X * 0)
        with pytest.warns(RuntimeWarning, match="divide by zero"):
            placed(X * 0)

    def test_impure_function_is_never_recorded(self, quiet_session: Any) -> None:
        seen: list[Any] = []

        @gf.offload(pure=False, backend="torch", fallback=True)
        def counted(x: Any) -> Any:
            seen.append(x)
            return x + 1

        run(counted, X, times=10)
        assert len(seen) == 10 and all(value is X for value in seen)
        assert "pure=False" in str(counted.explain(X))

    def test_the_body_runs_once_in_every_call(self, other: str) -> None:
        """Comparing, compiling and settling never run the user's Python again."""
        ran: list[int] = []

        def body(x: Any, i: Any) -> Any:
            ran.append(1)
            return x[i] * 2

        with gf.session(history=False, explore_share=1) as held:
            held.find(other)
            placed = gf.offload(body)
            for call in range(300):
                same(X[[call % 40]] * 2, placed(X, np.array([call % 40])))
                assert len(ran) == call + 1


class TestAsWritten:
    """What only NumPy's own arrays can serve starts again once, and then never is recorded."""

    def test_a_use_that_cannot_be_recorded_starts_again_once(
        self, other: str, quiet_session: Any
    ) -> None:
        seen: list[str] = []

        @gf.offload(backend=other)
        def addressed(x: Any) -> Any:
            seen.append(type(x).__name__)
            return x.ctypes.data % 2

        assert addressed(X) == 0
        assert len(seen) == 2
        run(addressed, X)
        assert seen[2:] == ["ndarray"] * 4
        assert "it needs a real NumPy array" in addressed.stats().stays
        assert "test_calls.py" in str(addressed.explain(X))
        assert places(addressed) == {"numpy": 5}

    def test_an_error_of_the_functions_own_about_writing_is_raised_once(
        self, other: str, quiet_session: Any
    ) -> None:
        seen: list[int] = []

        @gf.offload(backend=other)
        def saved(x: Any) -> Any:
            seen.append(1)
            raise ValueError("the output folder is not writable")

        with pytest.raises(ValueError, match="folder"):
            saved(X)
        assert len(seen) == 1

    def test_a_namespace_imported_by_its_name_is_recorded(
        self, other: str, quiet_session: Any
    ) -> None:
        from gpuforge import namespace

        scope: dict[str, Any] = {"namespace": namespace}
        exec("def waves(x):\n    xp = namespace(x)\n    return xp.exp(x) * xp.sin(x)\n", scope)
        placed = gf.offload(backend=other)(scope["waves"])
        same(np.exp(X) * np.sin(X), placed(X))
        assert not placed.stats().stays

    def test_a_reason_does_not_quote_a_whole_array(self, other: str, quiet_session: Any) -> None:
        known = {np.ndarray: 1}

        @gf.offload(backend=other)
        def chosen(x: Any) -> Any:
            kind = type(x)
            try:
                return x + known[kind]
            except KeyError:
                raise TypeError(f"no space for {np.arange(900.0).reshape(30, 30)}") from None

        same(X + 1, chosen(X))
        told = chosen.stats().stays
        assert "\n" not in told and "no space for [[" in told and len(told) < 400

    def test_an_exception_of_the_functions_own_leaves_it_where_it_was(
        self, other: str, quiet_session: Any
    ) -> None:
        @gf.offload(backend=other)
        def scaled(x: Any, s: Any) -> Any:
            return x * 2 + int(s)

        with pytest.raises(TypeError, match="real number, not 'list'"):
            scaled(X, [])
        assert not scaled.stats().stays
        same(X * 2 + 1, scaled(X, 1))
        assert places(scaled)[first_device(other)] >= 1

    def test_an_array_that_is_kept_is_numpys_own(self, other: str, quiet_session: Any) -> None:
        kept: list[Any] = []

        @gf.offload(backend=other)
        def keeping(x: Any) -> Any:
            y = x * 2
            kept.append(y)
            return y + 1

        for _ in range(3):
            same(X * 2 + 1, keeping(X))
        for value in kept:
            same(X * 2, value)


class TestCaptured:
    def test_captured_arrays_are_taken_in_and_seen_when_they_change(
        self, other: str, quiet_session: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        placed = gf.offload(backend=other)(lambda x: x @ WEIGHTS)
        same(X @ WEIGHTS, run(placed, X))
        monkeypatch.setitem(globals(), "WEIGHTS", WEIGHTS * 3)
        same(X @ WEIGHTS, run(placed, X))
        WEIGHTS[0, 0] += 1
        same(X @ WEIGHTS, placed(X))
        assert places(placed) == {first_device(other): 9}

    def test_plain_numpy_calls_are_recorded(self, other: str, quiet_session: Any) -> None:
        placed = gf.offload(backend=other)(lambda x: np.exp(x) * np.pi)
        same(np.exp(X) * np.pi, run(placed, X))
        assert places(placed) == {first_device(other): 4}

    def test_a_captured_number_that_changes_is_seen(self, other: str, quiet_session: Any) -> None:
        factor = 2.0
        placed = gf.offload(backend=other)(lambda x: x * factor)
        same(X * 2.0, run(placed, X))
        factor = 5.0
        same(X * 5.0, run(placed, X))
        assert places(placed) == {first_device(other): 8}

    def test_a_global_number_that_changes_is_seen(
        self, other: str, quiet_session: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        placed = gf.offload(backend=other)(lambda x: x * SCALE)
        same(X * 3.0, run(placed, X))
        monkeypatch.setitem(globals(), "SCALE", 7.0)
        same(X * 7.0, run(placed, X))

    def test_a_captured_list_that_changes_is_seen(self, other: str, quiet_session: Any) -> None:
        state = [1.0]
        placed = gf.offload(backend=other)(lambda x: x * state[0])
        same(X, run(placed, X))
        state[0] = 4.0
        same(X * 4.0, run(placed, X))

    def test_helpers_are_recorded_with_their_caller(self, other: str, quiet_session: Any) -> None:
        def helper(x: Any) -> Any:
            return np.tanh(x)

        placed = gf.offload(backend=other)(lambda x: helper(x) + 1)
        same(np.tanh(X) + 1, run(placed, X))
        assert places(placed) == {first_device(other): 4}

    def test_arrays_that_the_function_makes_are_recorded_where_asked_for(
        self, other: str, quiet_session: Any
    ) -> None:
        def made(x: Any) -> Any:
            y = np.zeros(x.shape[0])
            seen.append(not hasattr(type(y), "_recorder"))
            return y + np.sum(x, axis=1)

        seen: list[bool] = []
        for convert in (False, True):
            placed = gf.offload(backend=other, convert=convert)(made)
            same(made(X), run(placed, X))
        assert seen == [True] * 5 + [True] + [False] * 4

    def test_a_function_that_makes_its_arrays_needs_none(
        self, other: str, quiet_session: Any
    ) -> None:
        placed = gf.offload(backend=other, convert=True)(spread)
        for _ in range(3):
            same(spread(9, 4), placed(9, 4))
            same(spread(12, steps=2, start=0.5), placed(12, steps=2, start=0.5))
        assert places(placed) == {first_device(other): 6}
        assert "spread(int 9, int 4)" in str(placed.explain(9, 4))
        assert len(placed.stats().kinds) == 2

    def test_a_function_without_arrays_is_called_as_written(
        self, other: str, quiet_session: Any
    ) -> None:
        """Unless whole numbers and other constants say what it does."""
        every = gf.offload(convert=True)(spread)
        for size in range(2, 40):
            same(spread(size, 1), every(size, 1))
        assert "no NumPy array" in str(every.explain(50, 1))
        assert len(every.stats().kinds) < 30
        of_object = gf.offload(backend=other, convert=True)(lambda one: spread(*one.size))
        same(spread(5, 2), of_object(SimpleNamespace(size=(5, 2))))
        as_usual = gf.offload(backend=other)(spread)
        same(spread(5, 2), as_usual(5, 2))
        assert not places(of_object) and not places(as_usual)

    @pytest.mark.parametrize("size", [(3, 4), (0.5, (3,)), np.int64(4)], ids=str)
    def test_sizes_that_cached_decisions_do_not_tell_apart_are_not_placed(
        self, other: str, quiet_session: Any, size: Any
    ) -> None:
        placed = gf.offload(backend=other, convert=True)(lambda size: np.ones(3) * 2)
        same(np.ones(3) * 2, placed(size))
        assert not places(placed) and "no NumPy array" in str(placed.explain(size))

    def test_a_function_that_gets_no_array_has_its_effects_once(
        self, other: str, quiet_session: Any, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """It is often a whole program, and what needs a real array starts a recording again."""

        def simulated(n: int) -> Any:
            print("begins")
            steps = draws.normal(size=n) + np.ones(n)
            steps.flags.writeable = False
            return steps

        def lengthened(n: int) -> Any:
            lengths.append(np.ones(n) * n)
            return np.ones(n).ctypes.shape[0]

        draws, lengths = np.random.default_rng(4), []
        placed = gf.offload(backend=other, convert=True)(simulated)
        found = [placed(n) for n in (3, 5, 3)]
        assert capsys.readouterr().out.split() == ["begins"] * 3
        draws = np.random.default_rng(4)
        for array in found:
            same(draws.normal(size=len(array)) + 1, array)
        assert run(gf.offload(backend=other, convert=True)(lengthened), 2) == 2
        assert [type(one) for one in lengths] == [np.ndarray] * 4
        assert places(placed) == {"numpy": 3}
        assert "repeat its effects" in str(placed.explain(3))

    @pytest.mark.parametrize("made", [
        lambda n: [one((n, 3), order="F") for one in (np.zeros, np.ones)],
        lambda n: np.full((n, 2), 7, order="F"),
        lambda n: np.eye(n, n + 2, 1, order="F"),
        lambda n: np.zeros_like(np.ones((n, 4), order="F"))[1:],
        lambda n: np.full_like(np.arange(4.0 * n).reshape(n, 4).T, 3),
        lambda n: np.ones_like(np.zeros((4, n)).T, order="C"),
        lambda n: np.zeros_like(np.zeros((n, 3), order="F"), shape=(n, 2, 2)),
        lambda n: np.zeros_like(np.zeros((n, 4, 2)).transpose(1, 0, 2)),
        lambda n: np.full_like(np.zeros((n, 4), order="F")[::2], 7, shape=(6, 5)),
        lambda n: np.eye(float(n)),
        lambda n: np.eye(n, k=1.0),
        lambda n: np.zeros(n, device="gpu"),
        lambda n: np.ones(n, order="Q"),
        lambda n: np.zeros((n, 2**62)),
        lambda n: np.eye(n * 2**40),
        lambda n: np.zeros(n << 60).shape,
        lambda n: np.full(n, 1e9, np.float16),
    ])  # fmt: skip
    def test_a_created_array_is_numpys(self, other: str, quiet_session: Any, made: Any) -> None:
        """Its memory order as well, and what NumPy raises."""
        placed = gf.offload(backend=other, convert=True)(made)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected, found = as_numpy(made, 3), as_numpy(placed, 3)
        assert (type(found), str(found)) == (type(expected), str(expected))
        if isinstance(expected, np.ndarray):
            assert found.dtype == expected.dtype and found.strides == expected.strides

    def test_what_is_only_converted_stays_the_programs_own(
        self, other: str, quiet_session: Any
    ) -> None:
        def counted(x: Any, held: list[Any]) -> Any:
            own, first = np.asarray(tally), np.ascontiguousarray(held[0])
            own[0] += 1
            first += x
            return own is tally, x + np.array([1, 2, 3])

        tally, held = np.zeros(2), [np.zeros(3)]
        placed = gf.offload(backend=other, convert=True)(counted)
        for _ in range(3):
            same((True, np.array([2.0, 3, 4])), placed(np.ones(3), held))
        assert tally[0] == 3 and held[0].tolist() == [3.0] * 3
        pointed = gf.offload(backend=other, convert=True)(lambda x: np.asarray(Pointing(x)) * 2)
        same(np.full(3, 2.0), pointed(np.ones(3)))

    def test_a_call_that_converts_a_list_of_numbers_is_replayed(
        self, other: str, quiet_session: Any, recorded: list[int]
    ) -> None:
        placed = gf.offload(backend=other, convert=True)(lambda n: np.ones(n) * np.array([1, 2, 3]))
        run(placed, 3)
        before = len(recorded)
        same(np.array([1.0, 2, 3]), run(placed, 3))
        assert len(recorded) == before

    def test_each_element_of_a_result_has_memory_of_its_own(
        self, other: str, quiet_session: Any
    ) -> None:
        def filled(x: Any) -> Any:
            return x.T + 1, np.full((3, 2), x.sum()), np.full_like(x, x.sum())

        x = np.asfortranarray(np.ones((3, 4)))
        found = run(gf.offload(backend=other, convert=True)(filled), x)
        for array, expected in zip(found[1:], filled(x)[1:], strict=True):
            assert array.strides == expected.strides
            array[0, 0] = 5
            assert array[1:].min() == 12

    @pytest.mark.parametrize(
        "body",
        [
            lambda x, y: (x + 1, np.sqrt(x), y * x, x * y[0], x > y, x ** 2, -x, x.T + x.T),
            lambda x, y: (np.where(x > 1, x, 0), x.astype("f4"), np.clip(x, 1, 4), np.array(x)),
            lambda x, y: ((x * 2)[1:].T, (y + 1).T * 2, np.concatenate([x, x]), x.copy("K")),
            lambda x, y: [z := x * 2, z.reshape(-1), z.T, z.ravel(), z[:2] + y[:2]],
            lambda x, y: (x[:, None] + y[:, :, None]).transpose(2, 0, 1) * 3,
            lambda x, y: (np.sort(x), np.cumsum(x, 0), np.fft.rfft(x), x.T @ x, x[0] + [[1]]),
            lambda x, y: np.linalg.qr(x.T @ x + np.eye(4)),
        ],
    )  # fmt: skip
    def test_results_lie_in_memory_as_numpys_do(
        self, body: Any, other: str, quiet_session: Any
    ) -> None:
        x, y = np.asfortranarray(np.arange(12.0).reshape(3, 4)), np.ones((3, 4))
        placed = gf.offload(backend=other)(body)
        for _ in range(3):
            expected, found = body(x, y), placed(x, y)
            same(expected, found)
            pairs = [(expected, found)] if isinstance(found, np.ndarray) else zip(expected, found)
            for wanted, one in pairs:
                assert one.strides == wanted.strides
                assert np.shares_memory(one, found[0]) == np.shares_memory(wanted, expected[0])
        assert places(placed) == {first_device(other): 3}

    def test_a_created_zero_keeps_its_sign(self, other: str, quiet_session: Any) -> None:
        placed = gf.offload(backend=other, convert=True)(lambda zero: np.full(3, zero))
        for zero in (0.0, -0.0, 0.0, -0.0):
            assert str(placed(zero)) == str(np.full(3, zero))

    def test_keys_of_dicts_and_sets_are_real_numbers(self, other: str, quiet_session: Any) -> None:
        def counted(x: Any) -> Any:
            y = x * 2
            seen.add(y[0])
            by_value[y[1]] = "kept"
            return {y[0]: "first", y[1]: y[2], "n": 3}, {y[0], y[1]}

        seen: set[Any] = set()
        by_value: dict[Any, str] = {}
        table, values = run(gf.offload(backend=other)(counted), np.arange(3.0), times=2)
        assert list(table) == [0.0, 2.0, "n"] and values == seen | set(by_value) == {0.0, 2.0}
        same(np.float64(4), table[2.0])
        for key in (*list(table)[:2], *values, *seen, *by_value):
            assert type(key) is np.float64

    def test_a_limit_of_elements_counts_those_of_arguments(self, quiet_session: Any) -> None:
        limited = gf.offload(convert=True, min_elements=1000)(spread)
        limited(5, 2)
        assert "min_elements" not in str(limited.explain(5, 2))


def spread(n: int, steps: int, start: float = 1.0) -> Any:
    u = np.zeros((n, n))
    u[n // 2, n // 2] = start
    for _ in range(steps):
        u[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
    return u


class Pointing:
    def __init__(self, x: Any) -> None:
        self.x = x

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.x


@dataclass
class Pair:
    a: Any
    b: Any
    label: str = "pair"


Point = namedtuple("Point", "x y")


class Model:
    def __init__(self) -> None:
        self.gain = 2.0

    @gf.offload
    def scaled(self, x: Any) -> Any:
        return x * self.gain


class Base:
    __slots__ = ("own",)


class Slotted(Base):
    __slots__ = "__hidden"

    def hide(self, value: Any) -> None:
        self.__hidden = value

    def hidden(self) -> Any:
        return self.__hidden


class Delegating:
    """Looks missing attributes up elsewhere, and fails in a way of its own."""

    def __getattr__(self, name: str) -> Any:
        raise LookupError(name)


class DelegatingSlots(Delegating):
    __slots__ = ("scale",)


class TestShapesOfCalls:
    def test_nested_arguments_and_results(self, other: str, quiet_session: Any) -> None:
        """Arrays inside other arguments stay NumPy's own, and are taken in where they meet one."""

        @gf.offload(backend=other)
        def combine(x: Any, tree: Any, *, pair: Any) -> Any:
            made = x + tree["rest"][0] * tree["rest"][1] + pair.a
            return {"sum": made, "pair": Pair(made * 2, pair.b), "point": Point(made, 1)}

        tree = {"rest": [X, 0.5]}
        arguments = {"pair": Pair(X + 1, X)}
        expected = combine.__wrapped__(X, tree, **arguments)
        for _ in range(4):
            found = combine(X, tree, **arguments)
            same(expected["sum"], found["sum"])
            same(expected["pair"].a, found["pair"].a)
            assert found["pair"].b is arguments["pair"].b
            assert type(found["point"]) is Point
            same(expected["point"].x, found["point"].x)
            assert found["pair"].label == "pair"
        assert places(combine) == {first_device(other): 4}

    def test_containers_are_the_callers_own(self, other: str, quiet_session: Any) -> None:
        @gf.offload(backend=other)
        def noted(x: Any, log: list[Any], box: dict[str, Any]) -> Any:
            y = x * 2
            log.append(y)
            box["y"] = y
            return log

        log: list[Any] = []
        box: dict[str, Any] = {}
        assert noted(X, log, box) is log
        same(X * 2, log[0])
        assert box["y"] is log[0]

    def test_keywords_and_defaults(self, other: str, quiet_session: Any) -> None:
        @gf.offload(backend=other)
        def powered(x: Any, *, p: int = 2, flip: bool = False) -> Any:
            return -(x**p) if flip else x**p

        same(X**2, run(powered, X))
        for _ in range(4):
            same(-(X**3), powered(X, p=3, flip=True))
            same(X**3, powered(X, p=3, flip=False))

    def test_methods_partials_and_callables(self, torch: Any, quiet_session: Any) -> None:
        model = Model()
        same(X * 2, run(model.scaled, X))
        model.gain = 3.0
        same(X * 3, run(model.scaled, X))
        half = gf.offload(backend="torch")(functools.partial(lambda x, k: x * k, k=0.5))
        same(X * 0.5, run(half, X))
        assert gf.offload(np.sort).explain(X).choice == "numpy"

    def test_a_method_is_explained_and_counted_as_its_object_calls_it(
        self, quiet_session: Any
    ) -> None:
        model = Model()
        model.scaled(X)
        explained = model.scaled.explain(X)
        assert explained.choice == "numpy"
        assert explained.call == "float64[40,30]"
        assert explained.rows[0].total_seconds is not None
        assert Model.scaled.explain(model, X).call == explained.call
        assert model.scaled.stats() is Model.scaled.stats()
        assert model.scaled == model.scaled and model.scaled != Model().scaled
        assert model.scaled.__name__ == "scaled"

    def test_generators_and_coroutines_are_as_written(self, quiet_session: Any) -> None:
        @gf.offload
        def rows(x: Any) -> Any:
            yield from x

        @gf.offload
        async def later(x: Any) -> Any:
            await asyncio.sleep(0)
            return x + 1

        assert len(list(rows(X))) == 40
        same(X + 1, asyncio.run(later(X)))
        assert "in steps" in str(later.explain(X))

    def test_pickled_by_reference_and_by_value(self, quiet_session: Any) -> None:
        assert pickle.loads(pickle.dumps(module_level)) is module_level
        again = pickle.loads(pickle.dumps(gf.offload(backend="numpy")(functools.partial(pow, 2))))
        assert again._options.backend == "numpy"

    def test_classes_and_functions_with_attributes_can_be_offloaded(
        self, quiet_session: Any
    ) -> None:
        class Scaled:
            scale = 2.0

            def __new__(cls, x: Any) -> Any:
                return x * cls.scale

        np.testing.assert_array_equal(gf.offload(Scaled)(X), X * 2)  # type: ignore[arg-type]

        def named(x: Any) -> Any:
            return x

        named.limit = 3  # type: ignore[attr-defined]
        named.__dict__["__class__"] = int
        assert gf.offload(named).limit == 3  # type: ignore[attr-defined]

    def test_slots_of_bases_and_private_slots_hold_real_arrays(
        self, other: str, quiet_session: Any
    ) -> None:
        def fill(x: Any, given: Slotted) -> Slotted:
            made = Slotted()
            for holder in (given, made):
                holder.own = x + 1
                holder.hide(x * 2)
            return made

        given = Slotted()
        made = gf.offload(backend=other)(fill)(X, given)
        for holder in (given, made):
            assert type(holder.own) is type(holder.hidden()) is np.ndarray
            same(X + 1, holder.own)
            same(X * 2, holder.hidden())

    @pytest.mark.parametrize("kind", [Delegating, DelegatingSlots])
    def test_arguments_are_not_asked_for_attributes_that_they_lack(
        self, kind: type, other: str, quiet_session: Any
    ) -> None:
        def fill(holder: Any, x: Any) -> Any:
            holder.scale = x * 2
            return x + 1

        for placed in (gf.offload(fill), gf.offload(backend=other)(fill)):
            holder = kind()
            same(X + 1, placed(holder, X))
            assert type(holder.scale) is np.ndarray

    @pytest.mark.parametrize("inside", [lambda f: f, gf.offload], ids=["plain", "offloaded"])
    def test_functools_wraps_around_an_offloaded_function(
        self, inside: Any, quiet_session: Any
    ) -> None:
        """It replaces `__wrapped__`, and copies what is in `__dict__`."""

        def decorator(function: Any) -> Any:
            @functools.wraps(function)
            @gf.offload
            def inner(x: Any) -> Any:
                return function(x) * 100

            return inner

        placed = decorator(inside(_affine))
        same(_affine(X) * 100, run(placed, X))
        assert placed(2.0) == _affine(2.0) * 100
        assert placed.map([2.0, 3.0]) == [_affine(2.0) * 100, _affine(3.0) * 100]
        assert placed.submit(2.0).result() == _affine(2.0) * 100
        assert placed.__name__ == "_affine"

    def test_metadata_is_the_functions(self) -> None:
        assert module_level.__name__ == "module_level"
        assert "module_level" in repr(module_level)

    def test_defaults_are_the_functions(self) -> None:
        def scaled(x: Any, factor: float = 2.0, *, shift: int = 1) -> Any:
            return x * factor + shift

        placed: Any = gf.offload(scaled)
        assert placed.__defaults__ is scaled.__defaults__
        assert placed.__kwdefaults__ == {"shift": 1}
        assert inspect.signature(placed) == inspect.signature(scaled)

    def test_gradients_and_tracers_are_called_as_written(
        self, torch: Any, quiet_session: Any
    ) -> None:
        placed = gf.offload(lambda x: (x * x).sum())
        weights = torch.ones(3, requires_grad=True)
        placed(weights).backward()
        assert weights.grad.tolist() == [2.0, 2.0, 2.0]
        assert "needs gradients" in next(iter(placed.stats().as_written))
        assert torch.equal(placed(torch.ones(3)), torch.tensor(3.0))

    def test_inside_jax_transformations(self, jax: Any, quiet_session: Any) -> None:
        placed = gf.offload(lambda x: (x * x).sum())
        assert jax.grad(placed)(jax.numpy.ones(3)).tolist() == [2.0, 2.0, 2.0]
        assert jax.jit(placed)(jax.numpy.ones(3)) == 3.0
        assert jax.vmap(placed)(jax.numpy.ones((2, 3))).tolist() == [3.0, 3.0]

    @pytest.mark.parametrize(
        ("value", "reason"),
        [
            (np.ma.masked_array([1.0, 2.0], [0, 1]), "MaskedArray"),
            (np.array(["a", "b"]), "dtype <U1"),
            (np.array([1, None], dtype=object), "dtype object"),
            (np.array(["2020-01-01"], dtype="datetime64[D]"), "datetime64"),
            (np.array([(1, 2.0)], dtype=[("a", int), ("b", float)]), "stay in NumPy"),
            (3, "no NumPy array"),
        ],
    )
    def test_other_arrays_are_called_as_written(
        self, value: Any, reason: str, quiet_session: Any
    ) -> None:
        placed = gf.offload(lambda x: x)
        assert placed(value) is value
        assert reason in next(iter(placed.stats().as_written))
        assert reason in str(placed.explain(value))

    def test_nested_offloaded_functions(self, other: str, quiet_session: Any) -> None:
        """The outer call records what the inner one does, whatever the inner one is pinned to."""
        inner = gf.offload(backend="numpy")(lambda x: x + 1)
        outer = gf.offload(backend=other)(lambda x: inner(x) * 2)
        same((X + 1) * 2, run(outer, X))
        assert places(outer) == {first_device(other): 4}
        assert places(inner) == {}

    def test_many_distinct_static_arguments_stay_bounded(self, quiet_session: Any) -> None:
        placed = gf.offload(lambda x, k: x * k)
        for k in range(600):
            same(X * k, placed(X, k))
        assert len(placed.stats().kinds) == 1
        assert places(placed) == {"numpy": 600}

    def test_many_kinds_of_call_stay_bounded(
        self, quiet_session: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Account, "decides_too_long", False)  # else most calls wait
        placed = gf.offload(lambda x, **options: x + len(options))
        for k in range(300):
            same(X + 1, placed(X, **{f"option{k}": k}))
        assert len(placed.stats().kinds) <= 256
        assert "an argument differs in every call" in str(placed.explain(X, new=1))


class Unready:
    """What answers to no name yet, as a proxy or a deferred module that has to be loaded first."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"{name}: not ready")


UNREADY = Unready()


def test_a_global_that_is_not_used_is_not_asked_for_what_it_wraps(other: str) -> None:
    def doubled(x: Any, shown: bool = False) -> Any:
        if shown:
            UNREADY.show(x)
        return x * 2

    same(X * 2, gf.offload(backend=other)(doubled)(X))


class TestChoosing:
    def test_unknown_names_are_errors_with_a_suggestion(self) -> None:
        with pytest.raises(UnknownName) as caught:
            gf.offload(backend="tocrh")
        assert caught.value.hint == "did you mean 'torch'?"
        with pytest.raises(InvalidSettings):
            gf.offload(numerics="loose")
        wrong: list[dict[str, Any]] = [
            {"backend": 3}, {"device": None}, {"pure": "no"}, {"convert": 1}, {"min_elements": "a"},
        ]  # fmt: skip
        for options in wrong:
            with pytest.raises(InvalidSettings, match=f"offload: {next(iter(options))}="):
                gf.offload(**options)
        with pytest.raises(InvalidSettings), gf.session(explore_share=3):
            pass
        with pytest.raises(InvalidSettings, match="placment"), gf.session(placment=3):
            pass

    def test_a_pinned_function_runs_there_from_the_first_call_on(
        self, other: str, quiet_session: Any
    ) -> None:
        placed = gf.offload(backend=other)(lambda x: x * 2 + 1)
        for calls in range(1, 6):
            same(X * 2 + 1, placed(X))
            assert places(placed) == {first_device(other): calls}
        assert placed.explain(X).choice == first_device(other)

    @pytest.mark.parametrize(
        "body",
        [
            lambda x: np.linalg.eig(x[:30]),
            lambda x: np.partition(x, 3),
            lambda x: np.unique(x),
            lambda x: [float(v) for v in x[0]],
            lambda x: x.tolist(),
            lambda x: np.asarray(x).sum(),
            lambda x: np.sort(x, axis=0)[::2].tolist(),
        ],
    )
    def test_a_pinned_function_that_the_library_cannot_do_is_no_error(
        self, body: Any, other: str, quiet_session: Any
    ) -> None:
        placed = gf.offload(backend=other)(body)
        expected = body(X)
        for _ in range(4):
            same(expected, placed(X))
        assert sum(places(placed).values()) == 4

    def test_pinning_what_is_missing_is_an_error_unless_fallback(self) -> None:
        with gf.session(history=False, forbid=["torch"]):
            pinned = gf.offload(backend="torch")(lambda x: x + 1)
            with pytest.raises(BackendUnavailable, match="not installed or not allowed"):
                pinned(X)
            kind = gf.offload(backend="torch", fallback=True)(lambda x: x + 1)
            same(X + 1, run(kind, X))
            assert places(kind) == {"numpy": 4}
            assert "torch cannot be used" in str(kind.explain(X))

    @pytest.mark.parametrize(
        ("name", "hint"), [("gpux", "'gpu'"), ("cudo", "'cuda'"), ("quantum", "cpu")]
    )
    def test_a_device_that_nothing_has_is_an_error(self, name: str, hint: str) -> None:
        with pytest.raises(UnknownName, match=f"device '{name}'") as caught:
            gf.offload(device=name)
        assert hint in caught.value.hint
        with pytest.raises(UnknownName, match=f"device '{name}'"), gf.session(device=name):
            pass

    def test_device_filter(self, torch: Any) -> None:
        with gf.session(history=False, learn=False) as held:
            held.find("torch")

            def rows(device: str) -> set[str]:
                return {row.backend for row in gf.offload(device=device)(_affine).explain(X).rows}

            assert "torch:cpu" in rows("cpu")
            assert "torch:cpu" not in rows("gpu") | rows("cuda")
            with pytest.raises(BackendUnavailable):
                gf.offload(backend="torch:cuda:7")(lambda x: x)(X)
            pinned = gf.offload(backend="torch", device="cpu")(_affine)
            pinned(X)
            assert places(pinned) == {"torch:cpu": 1}
            with pytest.raises(BackendUnavailable, match="it has no device 'gpu', only "):
                gf.offload(backend="torch:cpu", device="gpu")(_affine)(X)

    def test_small_calls_stay_and_a_functions_own_limit_goes_before_the_sessions(
        self, torch: Any
    ) -> None:
        limit = "fewer than 10000 elements (min_elements)"
        with gf.session(history=False, explore_share=1, min_elements=10_000) as held:
            held.find("torch")
            small = gf.offload(_affine)
            run(small, X, times=30)
            assert set(places(small)) == {"numpy"}
            assert limit in str(small.explain(X))
            free = gf.offload(min_elements=0)(_affine)
            run(free, X)
            assert "min_elements" not in str(free.explain(X))
        with gf.session(history=False, explore_share=1) as held:
            held.find("torch")
            large = gf.offload(min_elements=10_000)(_affine)
            run(large, X, times=30)
            assert set(places(large)) == {"numpy"}
            assert limit in str(large.explain(X))

    def test_explain_takes_the_arguments_of_a_call(self, quiet_session: Any) -> None:
        @gf.offload
        def moved(x: Any, by: float = 1.0) -> Any:
            return x + by

        for args, kwargs, why in (
            ((), {}, "missing a required argument: 'x'"),
            ((X, 1.0, 2.0), {}, "too many positional arguments"),
            ((X,), {"other": 1}, "got an unexpected keyword argument 'other'"),
        ):
            with pytest.raises(TypeError, match="explain takes the arguments of a call") as told:
                moved.explain(*args, **kwargs)  # type: ignore[arg-type]
            assert why in str(told.value)
        assert "moved" in str(moved.explain(X, by=2.0))

    def test_explain_names_the_kind_that_is_asked_for(self, quiet_session: Any) -> None:
        placed = gf.offload(_affine)
        small = np.ones((2, 3), dtype=np.float32)
        placed(X)
        assert placed.explain(small).call == "float32[2,3]"
        placed(small)
        assert placed.explain(X).call == "float64[40,30]"
        assert placed.explain(X).rows[0].total_seconds is not None

    def test_switched_off_is_the_function_itself(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with gf.session(enabled=False) as held:
            data = X.copy()

            @gf.offload
            def centre(x: Any) -> Any:
                x -= 1
                return x

            assert centre(data) is data
            assert data[0, 0] == X[0, 0] - 1
            assert not held.functions

    def test_nothing_is_learned_or_tried_when_frozen(self, torch: Any) -> None:
        with gf.session(history=False, learn=False) as held:
            placed = gf.offload(lambda x: x * 2)
            run(placed, X, times=50)
            assert set(places(placed)) == {"numpy"}
            assert not any(library.opened for library in held.libraries.values())


def _affine(x: Any) -> Any:
    return x * 2 + 1


class TestState:
    def test_global_state_of_libraries_is_unchanged(
        self, torch: Any, jax: Any, quiet_session: Any
    ) -> None:
        def state() -> tuple[Any, ...]:
            return (
                torch.get_default_dtype(), torch.get_num_threads(), torch.initial_seed(),
                torch.is_grad_enabled(), jax.config.jax_enable_x64, str(np.geterr()),
                np.random.get_state()[1].tolist(), jax.config.jax_default_device,
            )  # fmt: skip

        before = state()
        for name in ("torch", "jax"):
            placed = gf.offload(backend=name)(lambda x: np.exp(x) @ x.T)
            run(placed, X)
            assert places(placed) == {first_device(name): 4}
        assert state() == before
        assert jax.numpy.ones(2).dtype == np.float32

    def test_threads_get_right_answers(self, other: str, quiet_session: Any) -> None:
        placed = gf.offload(backend=other)(lambda x, k: x * k + 1)
        wrong: list[Any] = []

        def work(seed: int) -> None:
            data = np.random.default_rng(seed).random(500)
            for k in (0.5, 1.5) * 20:
                wrong.extend([] if np.allclose(placed(data, k), data * k + 1) else [seed])

        in_threads(work, range(8))
        assert not wrong
        assert sum(places(placed).values()) == 8 * 40

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
    def test_a_forked_child_uses_numpy_only(self, other: str) -> None:
        code = f"""
            import os, warnings, numpy as np, gpuforge as gf
            warnings.simplefilter("ignore")
            f = gf.offload(backend={other!r}, fallback=True)(lambda x: x * 2)
            x = np.ones(5000)
            for _ in range(3): f(x)
            assert {first_device(other)!r} in f.stats().counts
            child = os.fork()
            if child == 0:
                before = f.stats().counts[{first_device(other)!r}].calls
                assert (f(x) == 2).all() and (f(2 * x) == 4).all()
                assert f.stats().counts[{first_device(other)!r}].calls == before
                assert f.explain(x).choice == "numpy", f.explain(x)
                assert gf.offload(lambda x: x + 1)(x).sum() == 10000
                os._exit(7)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)],
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.stdout == "7\n", done.stderr

    def test_spawned_children_work(self) -> None:
        context = multiprocessing.get_context("spawn")
        with context.Pool(1) as pool:
            same(X * 2 + 1, pool.apply(module_level, (X,)))

    def test_deterministic_mode_gives_the_same_bits_in_each_run(
        self, torch: Any, tmp_path: Any
    ) -> None:
        """Each run is a process, and the plan that the first one records names PyTorch."""
        program = tmp_path / "program.py"
        program.write_text(textwrap.dedent(PROGRAM))
        learn = dict(os.environ, GPUFORGE_LEARN="1")
        subprocess.run([sys.executable, str(program), "torch:cpu"], check=True, env=learn)
        subprocess.run([sys.executable, str(program), "numpy"], check=True, env=learn)
        plan = tmp_path / "plan.json"
        fixed = dict(os.environ, GPUFORGE_DETERMINISTIC="1", GPUFORGE_PLAN=str(plan))
        seen = {
            subprocess.run([sys.executable, str(program)], check=True, env=fixed,
                           capture_output=True).stdout
            for _ in range(3)
        }  # fmt: skip
        assert len(seen) == 1
        assert set(json.loads(plan.read_text())["placements"].values()) == {"torch:cpu"}
        assert b"torch:cpu" in seen.pop()

    def test_a_plan_that_names_torch_is_followed(self, torch: Any, tmp_path: Any) -> None:
        plan = tmp_path / "plan.json"
        with gf.session(deterministic=True, plan=str(plan)):
            run(gf.offload(_reduce_and_multiply), X)
        plan.write_text(plan.read_text().replace('"numpy"', '"torch:cpu"'))
        with gf.session(deterministic=True, plan=str(plan)):
            placed = gf.offload(_reduce_and_multiply)
            results = {placed(X).tobytes() for _ in range(20)}
            assert places(placed)["torch:cpu"] == 19
        assert len(results) <= 2  # the first, on NumPy, is where the comparison comes from

    def test_a_broken_plan_is_an_error_and_is_kept(self, tmp_path: Any) -> None:
        plan = tmp_path / "plan.json"
        plan.write_text("{half")
        with (
            pytest.raises(InvalidSettings, match=r"plan\.json"),
            gf.session(deterministic=True, plan=str(plan)),
        ):
            pass
        assert plan.read_text() == "{half"


PROGRAM = """
    import hashlib, sys, time
    import numpy as np
    import gpuforge as gf

    @gf.offload(backend=sys.argv[1] if len(sys.argv) > 1 else "")
    def product(x):
        xp = gf.namespace(x)
        if not hasattr(x, "_recorder"):  # leaves no doubt which of them finishes first
            time.sleep(0.3)
        return (x.T @ x) * xp.sum(x)

    x = np.random.default_rng(0).random((300, 200), dtype=np.float32)
    calls = 2000 if "torch:cpu" in sys.argv else 6  # of short calls only some are timed
    results = [hashlib.sha256(product(x).tobytes()).hexdigest() for _ in range(calls)]
    print(results[:6], {name: c.calls for name, c in product.stats().counts.items()})
"""


def _reduce_and_multiply(x: Any) -> Any:
    xp = gf.namespace(x)
    return (x.T @ x) * xp.sum(x)


class TestRecords:
    def test_functions_made_in_a_loop_are_not_mistaken_for_each_other(
        self, quiet_session: Any
    ) -> None:
        for k in range(300):
            placed = gf.offload(lambda x, k=k: x * k)
            same(X * k, placed(X))
            del placed
            quiet_session.functions._sweep_at = 1 + k % 3  # a sweep may meet one that is replaced
        assert len(quiet_session.functions) <= 128
        total = sum(c.calls for r in quiet_session.functions.every() for c in r.counts.values())
        assert total == 300

    def test_calls_of_methods_are_counted_with_their_function(self, quiet_session: Any) -> None:
        for model in (Model(), Model()):
            for _ in range(25):
                same(X * 2, model.scaled(X))
        assert Model.scaled.stats().counts["numpy"].calls == 50

    def test_choices_for_methods_are_held(self, quiet_session: Any) -> None:
        model = Model()
        for _ in range(25):
            same(X * 2, model.scaled(X))
        [held] = Model.scaled.stats().held.values()
        assert held.left > 0

    def test_calls_of_several_threads_are_all_counted(
        self, quiet_session: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(pipeline, "MAX_HELD", 7)
        placed = gf.offload(_affine)
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            in_threads(lambda number: [placed(X[:number]) for _ in range(500)], [1, 1, 2, 2, 2, 3])
        finally:
            sys.setswitchinterval(interval)
        assert places(placed) == {"numpy": 3000}

    def test_calls_that_raise_are_counted(self, quiet_session: Any) -> None:
        def refusing(x: Any) -> Any:
            raise LookupError("no")

        placed = gf.offload(refusing)
        for _ in range(3):
            with pytest.raises(LookupError):
                placed(X)
        assert places(placed) == {"numpy": 3}

    def test_what_a_function_calls_is_part_of_it_where_it_is_recorded(
        self, other: str, quiet_session: Any
    ) -> None:
        inner = gf.offload(lambda x: x + 1)
        outer = gf.offload(lambda x: np.sqrt(inner(x)))
        run(outer, X, times=20)
        kind = next(iter(inner.stats().kinds.values())).kind
        assert kind.busy_seconds > 0
        assert sum(places(inner).values()) == 20
