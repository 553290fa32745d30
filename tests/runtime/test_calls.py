"""Every shape of call a user's program makes: what is written, raised, captured, nested, forked."""

from __future__ import annotations

import asyncio
import functools
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
from typing import Any

import numpy as np
import pytest

import gpuforge as gf
from gpuforge.errors import BackendUnavailable, InvalidSettings, UnknownName, WorkloadError

from .conftest import places, refusals, same

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


class TestWriting:
    def test_undeclared_write_is_an_error_and_changes_nothing(
        self, other: str, quiet_session: Any
    ) -> None:
        @gf.offload(backend=other, fallback=True)
        def centre(x: Any) -> Any:
            x -= gf.namespace(x).mean(x)
            return x

        data = X.copy()
        for _ in range(3):
            with pytest.raises(ValueError, match="read-only") as caught:
                centre(data)
            assert "mutates" in caught.value.__notes__[0]
        assert np.array_equal(data, X)

    def test_declared_write_reaches_the_users_array(self, other: str, quiet_session: Any) -> None:
        @gf.offload(backend=other, fallback=True, mutates=("x",))
        def centre(x: Any, shift: float) -> Any:
            x -= shift
            return gf.namespace(x).sum(x)

        expected, data = X.copy(), X.copy()
        for _ in range(4):
            expected -= 0.5
            same(expected.sum(), centre(data, 0.5))
            np.testing.assert_array_equal(data, expected)
        assert places(centre).get("torch:cpu", 0) == (3 if other == "torch" else 0)

    def test_mutates_must_name_array_arguments(self, quiet_session: Any) -> None:
        with pytest.raises(UnknownName, match="argument 'z'"):
            gf.offload(
                lambda x: x,
            ) and gf.offload(mutates=("z",))(lambda x: x)
        with pytest.raises(WorkloadError, match="no array argument"):
            gf.offload(mutates=("s",))(lambda x, s: x)(X, 2.0)

    def test_local_arrays_may_be_written(self, torch: Any, quiet_session: Any) -> None:
        @gf.offload(backend="torch")
        def filled(x: Any) -> Any:
            y = gf.namespace(x).zeros_like(x)
            y[1:, :] = x[:-1, :]
            return y

        expected = filled.__wrapped__(X)
        same(expected, run(filled, X))
        assert places(filled)["torch:cpu"] == 3

    def test_results_that_are_views_stay_writable_and_alias(self, quiet_session: Any) -> None:
        placed = gf.offload(lambda x: (x, x[2:], x.T))
        data = X.copy()
        whole, part, turned = run(placed, data)
        assert whole is data
        part[0, 0] = 99.0
        assert data[2, 0] == 99.0
        assert turned.flags.writeable

    def test_read_only_input_stays_read_only(self, other: str, quiet_session: Any) -> None:
        data = X.copy()
        data.flags.writeable = False
        placed = gf.offload(backend=other)(lambda x: x * 2)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            same(X * 2, run(placed, data))
        assert not data.flags.writeable

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


class TestRaising:
    def test_users_own_exception_is_raised_unchanged_and_once(
        self, other: str, quiet_session: Any
    ) -> None:
        ran = []

        @gf.offload(backend=other, fallback=True)
        def picky(x: Any, limit: float) -> Any:
            ran.append(type(x).__name__)
            if limit > 1:
                raise LookupError("limit")
            return x + limit

        run(picky, X, 0.5)
        ran.clear()
        with pytest.raises(LookupError, match="limit") as caught:
            picky(X, 2.0)
        assert caught.traceback[-1].name == "picky"
        assert len(ran) == 1

    def test_library_error_is_settled_by_numpy_and_remembered(
        self, torch: Any, quiet_session: Any
    ) -> None:
        placed = gf.offload(backend="torch", fallback=True)(lambda x, step: x[::step])
        same(X[::2], run(placed, X, 2))
        same(X[::-1], placed(X, -1))
        assert "torch:cpu" in refusals(placed)

    def test_index_error_is_numpys(self, torch: Any, quiet_session: Any) -> None:
        placed = gf.offload(backend="torch")(lambda x, i: gf.namespace(x).take(x, i, axis=0))
        run(placed, X, np.array([1, 2]))
        with pytest.raises(IndexError, match="out of bounds") as caught:
            placed(X, np.array([1, 99]))
        assert "torch" not in str(caught.value)
        run(placed, X, np.array([1, 2]))
        assert not refusals(placed)

    def test_errstate_raise_is_called_as_written(self, other: str, quiet_session: Any) -> None:
        placed = gf.offload(backend=other)(lambda x: 1 / x)
        run(placed, X + 1)
        with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
            placed(X * 0)
        assert "np.errstate(divide='raise') is active" in placed.stats().as_written

    def test_impure_function_is_never_run_twice(self, quiet_session: Any) -> None:
        ran = []

        @gf.offload(pure=False)
        def counted(x: Any) -> Any:
            ran.append(1)
            return x + 1

        run(counted, X, times=10)
        assert len(ran) == 10
        assert "impure" in str(counted.explain(X))


class TestCaptured:
    def test_captured_array_keeps_it_on_numpy(self, quiet_session: Any) -> None:
        placed = gf.offload(lambda x: x @ WEIGHTS)
        same(X @ WEIGHTS, run(placed, X))
        assert "captured array WEIGHTS keeps this on NumPy" in str(placed.explain(X))

    def test_plain_numpy_calls_keep_it_on_numpy(self, quiet_session: Any) -> None:
        placed = gf.offload(lambda x: np.exp(x))
        same(np.exp(X), run(placed, X))
        assert "np.exp is called by name" in str(placed.explain(X))

    def test_numpy_constants_and_dtypes_do_not(self, torch: Any, quiet_session: Any) -> None:
        placed = gf.offload(backend="torch")(lambda x: x * np.pi)
        same(X * np.pi, run(placed, X))
        assert places(placed)["torch:cpu"] == 3

    def test_a_captured_number_that_changes_is_seen(self, other: str, quiet_session: Any) -> None:
        factor = 2.0
        placed = gf.offload(backend=other, fallback=True)(lambda x: x * factor)
        same(X * 2.0, run(placed, X))
        factor = 5.0
        same(X * 5.0, run(placed, X))

    def test_a_global_number_that_changes_is_seen(
        self, other: str, quiet_session: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        placed = gf.offload(backend=other, fallback=True)(lambda x: x * SCALE)
        same(X * 3.0, run(placed, X))
        monkeypatch.setitem(globals(), "SCALE", 7.0)
        same(X * 7.0, run(placed, X))

    def test_a_captured_list_keeps_it_from_being_compiled(
        self, jax: Any, quiet_session: Any
    ) -> None:
        state = [1.0]
        placed = gf.offload(backend="jax", fallback=True)(lambda x: x * state[0])
        run(placed, X)
        state[0] = 4.0
        same(X * 4.0, run(placed, X))
        assert "captured state may change" in refusals(placed)["jax:cpu"]

    def test_helpers_are_followed(self, quiet_session: Any) -> None:
        def helper(x: Any) -> Any:
            return np.sort(x)

        placed = gf.offload(lambda x: helper(x))
        same(np.sort(X), run(placed, X))
        assert "np.sort is called by name" in str(placed.explain(X))


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


class TestShapesOfCalls:
    def test_nested_arguments_and_results(self, other: str, quiet_session: Any) -> None:
        @gf.offload(backend=other)
        def combine(tree: Any, *, pair: Any) -> Any:
            made = tree["p"].x + tree["rest"][0] * tree["rest"][1] + pair.a
            return {"sum": made, "pair": Pair(made * 2, pair.b), "point": Point(made, 1)}

        tree = {"p": Point(X, 2), "rest": [X, (0.5)]}
        arguments = {"pair": Pair(X + 1, X)}
        expected = combine.__wrapped__(tree, **arguments)
        for _ in range(4):
            found = combine(tree, **arguments)
            same(expected["sum"], found["sum"])
            same(expected["pair"].a, found["pair"].a)
            assert found["pair"].b is arguments["pair"].b
            assert type(found["point"]) is Point
            assert found["pair"].label == "pair"
        assert places(combine)[f"{other}:cpu"] == 3

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
        assert "piece by piece" in str(later.explain(X))

    def test_pickled_by_reference_and_by_value(self, quiet_session: Any) -> None:
        assert pickle.loads(pickle.dumps(module_level)) is module_level
        again = pickle.loads(pickle.dumps(gf.offload(backend="numpy")(functools.partial(pow, 2))))
        assert again._options.backend == "numpy"

    def test_metadata_is_the_functions(self) -> None:
        assert module_level.__name__ == "module_level"
        assert "module_level" in repr(module_level)

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
        inner = gf.offload(lambda x: x + 1)
        outer = gf.offload(backend=other, fallback=True)(lambda x: inner(x) * 2)
        same((X + 1) * 2, run(outer, X))

    def test_many_distinct_static_arguments_stay_bounded(self, quiet_session: Any) -> None:
        placed = gf.offload(lambda x, k: x * k)
        for k in range(600):
            same(X * k, placed(X, k))
        assert len(placed.stats().kinds) <= 256


class TestChoosing:
    def test_unknown_names_are_errors_with_a_suggestion(self) -> None:
        with pytest.raises(UnknownName) as caught:
            gf.offload(backend="tocrh")
        assert caught.value.hint == "did you mean 'torch'?"
        with pytest.raises(InvalidSettings):
            gf.offload(numerics="loose")
        with pytest.raises(InvalidSettings), gf.session(explore_share=3):
            pass
        with pytest.raises(InvalidSettings, match="placment"), gf.session(placment=3):
            pass

    def test_pinning_what_is_missing_is_an_error_unless_fallback(self) -> None:
        with gf.session(history=False, forbid=["torch"]):
            pinned = gf.offload(backend="torch")(lambda x: x + 1)
            with pytest.raises(BackendUnavailable, match="not installed or not allowed"):
                pinned(X)
            kind = gf.offload(backend="torch", fallback=True)(lambda x: x + 1)
            same(X + 1, run(kind, X))

    def test_device_filter_and_threshold(self, torch: Any) -> None:
        with gf.session(history=False, explore_share=1):
            large = gf.offload(min_elements=10_000)(lambda x: x + 1)
            run(large, X, times=30)
            assert set(places(large)) == {"numpy"}
            with pytest.raises(BackendUnavailable):
                gf.offload(backend="torch:cuda:7")(lambda x: x)(X)

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
            placed = gf.offload(backend=name)(lambda x: gf.namespace(x).exp(x) @ x.T)
            run(placed, X)
            assert places(placed)[f"{name}:cpu"] == 3
        assert state() == before
        assert jax.numpy.ones(2).dtype == np.float32

    def test_threads_get_right_answers(self, other: str, quiet_session: Any) -> None:
        placed = gf.offload(backend=other)(lambda x, k: x * k + 1)
        wrong: list[Any] = []

        def work(seed: int) -> None:
            data = np.random.default_rng(seed).random(500)
            for k in (0.5, 1.5) * 20:
                wrong.extend([] if np.allclose(placed(data, k), data * k + 1) else [seed])

        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
    def test_a_forked_child_uses_numpy_only(self, other: str) -> None:
        code = f"""
            import os, warnings, numpy as np, gpuforge as gf
            warnings.simplefilter("ignore")
            f = gf.offload(backend={other!r}, fallback=True)(lambda x: x * 2)
            x = np.ones(5000)
            for _ in range(3): f(x)
            assert {other + ":cpu"!r} in f.stats().counts
            child = os.fork()
            if child == 0:
                assert (f(x) == 2).all()
                assert f.explain(x).choice == "numpy", f.explain(x)
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

    def test_deterministic_mode_gives_the_same_bits_in_20_runs(
        self, torch: Any, tmp_path: Any
    ) -> None:
        """Each run is a process, and the plan that the first one records names PyTorch."""
        program = tmp_path / "program.py"
        program.write_text(textwrap.dedent(PROGRAM))
        learn = dict(os.environ, GPUFORGE_LEARN="1")
        subprocess.run([sys.executable, str(program), "torch"], check=True, env=learn)
        subprocess.run([sys.executable, str(program), "numpy"], check=True, env=learn)
        plan = tmp_path / "plan.json"
        fixed = dict(os.environ, GPUFORGE_DETERMINISTIC="1", GPUFORGE_PLAN=str(plan))
        seen = {
            subprocess.run([sys.executable, str(program)], check=True, env=fixed,
                           capture_output=True).stdout
            for _ in range(20)
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
    import sys, time
    import numpy as np
    import gpuforge as gf

    @gf.offload(backend=sys.argv[1] if len(sys.argv) > 1 else "")
    def product(x):
        xp = gf.namespace(x)
        if isinstance(x, np.ndarray):  # leaves no doubt which of them finishes first
            time.sleep(0.05)
        return (x.T @ x) * xp.sum(x)

    x = np.random.default_rng(0).random((300, 200), dtype=np.float32)
    results = [product(x).tobytes().hex() for _ in range(6)]
    print(results, {name: c.calls for name, c in product.stats().counts.items()})
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
            quiet_session._sweep_at = 1 + k % 3  # a sweep may meet a record that is replaced
        assert len(quiet_session.functions) <= 128
        total = sum(c.calls for r in quiet_session.records() for c in r.counts.values())
        assert total == 300

    def test_methods_take_the_short_way_once_known(self, quiet_session: Any) -> None:
        model = Model()
        for _ in range(50):
            same(X * 2, model.scaled(X))
        record = Model.scaled.stats()
        assert record.held
        assert record.counts["numpy"].calls == 50

    def test_a_function_inside_another_is_learned_too(self, quiet_session: Any) -> None:
        inner = gf.offload(lambda x: x + 1)
        outer = gf.offload(lambda x: np.sort(inner(x)))
        run(outer, X, times=20)
        kind = next(iter(inner.stats().kinds.values())).kind
        assert kind.busy_seconds > 0
