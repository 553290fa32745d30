"""The turns of a loop are evaluated as one, and mean what they mean one after the other."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest

import gpuforge as gf
from gpuforge.runtime.array.graph import REPEAT
from gpuforge.runtime.array.recorder import Recorder
from gpuforge.runtime.backends.numpy import NumpyBackend
from gpuforge.runtime.evaluation.engine import BackendEngine, Programs
from gpuforge.runtime.evaluation.recording import record

N = 12


def waves(x: Any, y: Any) -> Any:
    for _ in range(200):
        y[1:-1] = 0.3 * (x[:-2] + x[1:-1] + x[2:])
        x[1:-1] = 0.3 * (y[:-2] + y[1:-1] + y[2:])


def paths(x: Any, y: Any) -> Any:
    for _ in range(20):
        for k in range(N):
            x[:] = np.minimum(x[:], np.add.outer(y[k] + 0 * x[:, k], x[k, :]))


def swapped(x: Any, y: Any) -> Any:
    for _ in range(151):
        x, y = y, x * 0.5 + y * 0.25
    return x, y


def three_ago(x: Any, y: Any) -> Any:
    a, b, c = x, y, x + y
    for _ in range(120):
        a, b, c = b, c, (a - b) * 0.5 + c
    return a, b, c


def series(x: Any, y: Any) -> Any:
    total, term = x * 0, x / 9
    for k in range(1, 180):
        term = term * x / (k + 9)
        total = total + term / (k * 1.5)
        largest = total.max()
    return total, largest


def single_precision(x: Any, y: Any) -> Any:
    total = np.zeros_like(x, dtype=np.float32)
    for k in range(1, 200):
        total = total + x.astype(np.float32) * (1 / k) + np.float32(k)
    return total


def integers(x: Any, y: Any) -> Any:
    n = (x * 100).astype(np.int32)
    for k in range(170):
        n = n * 3 + k
    return n, n.astype(np.int8)


def windows(x: Any, y: Any) -> Any:
    made = np.zeros_like(x)
    for i in range(N - 2):
        for j in range(N - 2):
            made[i, j] = (x[i : i + 3, j : j + 3] * y[:3, :3]).sum()
            made[i, -j - 1] += x[i, ::3][0]
    return made


def backwards(x: Any, y: Any) -> Any:
    for _ in range(12):
        for k in range(N - 3, -1, -1):
            x[:, k] = 0.5 * x[:, k + 1] + y[::-1][k] - x[k + 1 : k + 2, -1]
    return x[:, ::-1]


def two_loops(x: Any, y: Any) -> Any:
    for _ in range(90):
        x = np.where(x > y, x * 0.5, y) + 0.125
    z = x - y
    for k in range(90):
        y += z * k
        z = np.sqrt(abs(z)) - y / 1e3
    return z


def kept(x: Any, y: Any) -> Any:
    made = []
    for k in range(300):
        x = x * 0.5 + y
        y = y + 1
        if k % 100 == 7:
            made.append(x)
    return made


def looked_at(x: Any, y: Any) -> Any:
    for k in range(500):
        x = x * 0.5 + y * 0.125
        if k % 60 == 59 and x.sum() < 1e9:
            y = y - x
    return x, y


def coefficients(x: Any, y: Any) -> Any:
    for k in range(200):
        x = x * np.float64(0.5) + np.array([1.0, k, -0.0, 2.0] * 3) + np.float64(k)
    return x


def turned(x: Any, y: Any) -> Any:
    z = x + 1j * y
    for k in range(150):
        z = z.T * (0.5 + 0.25j) + z[::-1] * k
    return z, z.real


def two_become_one(x: Any, y: Any) -> Any:
    for _ in range(160):
        x = x * 0.5 + y
        y = x
    return x + y


def rows(x: Any, y: Any) -> Any:
    total = np.zeros(N)
    for _ in range(15):
        for row in x:
            total = total * 0.75 + row
    return total


def fails(x: Any, y: Any) -> Any:
    for k in range(200):
        x[k % N] = y[k % N] + x.sum() * 1e-3
        if k == 190:
            raise KeyError(k)


def large_numbers(x: Any, y: Any) -> Any:
    n = (x * 9).astype(np.int64)
    for k in range(150):
        n = n + (k << 55) - (n >> 3)
    return n


def nearly_equal_numbers(x: Any, y: Any) -> Any:
    """NumPy prints both numbers alike."""
    for _ in range(150):
        x = x * np.float64(0.123456789012) + np.float64(0.123456789099)
    return x


def begun_again(x: Any, y: Any) -> Any:
    """The loop starts anew between two full tapes."""
    z = y * 1.0 * 1.0
    for times in (42, 400):
        total = z
        for _ in range(times):
            total = total * 1.0 + x
    return total


def grown(x: Any, y: Any) -> Any:
    """The first sum has one row, the others have all."""
    total = x[:1] * 1.0
    for _ in range(600):
        total = total + y
    return total


def whole_numbers(x: Any, y: Any) -> Any:
    n, m = (x * 1000).astype(np.int64), (y * 10).astype(np.int64) + 50
    for k in range(200):
        n = n // m + k - n % (k + 3)
    return n


LOOPS: list[Callable[..., Any]] = [
    nearly_equal_numbers, begun_again, grown, whole_numbers,
    waves, paths, swapped, three_ago, series, single_precision, integers, windows, backwards,
    two_loops, kept, looked_at, coefficients, turned, two_become_one, rows, large_numbers,
]  # fmt: skip
FOLDED = {waves, paths, swapped, series, integers, windows, backwards, two_loops, coefficients}


class Repeating(BackendEngine):
    """NumPy as a backend that repeats; it counts how often repetitions run."""

    def __init__(self) -> None:
        reference = NumpyBackend()
        super().__init__(reference, reference, Programs())
        self.repeats = True
        self.lengths: list[int] = []

    def run(self, tape: Any, wanted: list[int], modes: dict[str, str]) -> list[Any]:
        self.lengths += [entry[2][0].count for entry in tape.entries if entry[0] is REPEAT]
        return super().run(tape, wanted, modes)


def given() -> tuple[Any, Any]:
    draw = np.random.default_rng(5)
    return draw.uniform(0.1, 2, (N, N)), draw.uniform(-1, 1, (N, N))


def same(expected: Any, found: Any, tolerance: float = 0.0) -> None:
    if isinstance(expected, tuple | list):
        assert type(found) is type(expected) and len(found) == len(expected)
        for one, other in zip(expected, found, strict=True):
            same(one, other, tolerance)
        return
    assert type(found) is type(expected)
    if expected is not None:
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("loop", LOOPS)
def test_turns_mean_the_same_together(loop: Any) -> None:
    engine, plain, recorded = Repeating(), given(), given()
    same(loop(*plain), record(loop, recorded, {}, engine).result)
    same(plain, recorded)
    assert bool(engine.lengths) or loop not in FOLDED


@pytest.mark.parametrize("loop", LOOPS)
def test_on_a_library_that_compiles(loop: Any) -> None:
    pytest.importorskip("jax")
    with gf.session(history=False):
        placed = gf.offload(backend="jax", convert=True)(loop)
        for _ in range(3):
            plain, recorded = given(), given()
            same(loop(*plain), placed(*recorded), 1e-5 if loop is single_precision else 1e-9)
            same(plain, recorded, 1e-9)


def test_a_library_that_compiles_runs_loops_with_guards_and_of_growing_arrays() -> None:
    jax = pytest.importorskip("gpuforge.runtime.backends.jax")
    pytest.importorskip("jax")
    for loop in (whole_numbers, grown):
        engine = BackendEngine(
            jax.open_devices()[-1], NumpyBackend(), Programs(), compile_seconds=60.0
        )
        same(loop(*given()), record(loop, given(), {}, engine).result, 1e-9)
        assert (engine.outcome.refused, engine.outcome.settled) == ("", "")


def mixed(x: Any, p: Any, q: Any) -> Any:
    for k in range(400):
        x = x * 0.5 + (p, q)[k * k // 7 % 2]
    return x


def test_small_arguments_are_no_constants_of_a_replay() -> None:
    """They may be equal in the call that is recorded, and change from turn to turn."""
    pytest.importorskip("jax")
    with gf.session(history=False):
        placed = gf.offload(backend="jax", convert=True)(mixed)
        for number in (0.0, 1.0, 2.0):
            values = np.ones(4), np.full(4, number), np.full(4, 2 * number)
            same(mixed(*values), placed(*values), 1e-9)


def long(x: Any) -> Any:
    for k in range(10_000):
        x = x * 0.5 + k
    return x


def test_a_loop_with_many_numbers_is_replayed(monkeypatch: Any) -> None:
    pytest.importorskip("jax")
    with gf.session(history=False):
        placed = gf.offload(backend="jax", convert=True)(long)
        for _ in range(3):
            placed(np.ones(4))
        monkeypatch.setattr(Recorder, "turn", lambda _: pytest.fail("it is recorded"))
        same(long(np.full(4, 2.0)), placed(np.full(4, 2.0)), 1e-9)


def test_long_loops_take_little_memory() -> None:
    assert _peak(long, np.ones(4)) < 30e6


def test_constants_of_tapes_that_wait_take_little_memory(monkeypatch: Any) -> None:
    def drawn(x: Any) -> Any:
        draw = np.random.default_rng(1)
        for _ in range(1000):
            x = x * 0.5 + draw.normal(size=10_000)
        return x

    monkeypatch.setattr("gpuforge.runtime.array.recorder.MOST_WAITING_BYTES", 1 << 20)
    assert _peak(drawn, np.ones(10_000)) < 30e6


def _peak(loop: Any, x: Any) -> int:
    """Return how many bytes a recorded call needs, which is compared with a plain one."""
    expected = loop(x)
    tracemalloc.start()
    try:
        found = record(loop, (x,), {}, Repeating()).result
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    same(expected, found)
    return peak


def test_a_loop_that_raises_has_made_its_writes() -> None:
    plain, recorded = given(), given()
    for values, call in ((plain, fails), (recorded, lambda *v: record(fails, v, {}, Repeating()))):
        with pytest.raises(KeyError, match="190"):
            call(*values)
    same(plain, recorded)


def test_what_repeats_beside_full_tapes_is_in_the_loop() -> None:
    """Few times are left for other programs: a library compiles each of these by itself."""
    engine = Repeating()
    record(swapped, given(), {}, engine)
    assert len(engine.lengths) == 1 and engine.lengths[0] >= 145


STATEMENTS = (
    "{a} = {b} * 0.5 + {c} * {k}", "{a} = np.sin({b}) - {c}[::-1]", "{a}[i % 6] = {b}[(i + 1) % 6]",
    "{a} = {b}.T + {c}.sum(axis=0) * {k}", "{a}[1:-1, 2:] = {b}[:-2, :-2] * {k}",
    "{a}, {b} = {b}, {a}",
    "{a} = {b}", "{a} = np.where({b} > {k}, {c}, {a})", "{a}[i % 3 : i % 3 + 2] += {b}[2:4] * i",
    "{a} = np.maximum({b}, {c}) * -0.25", "{a} -= {b}[:, i % 6] * {k}", "s = {b}[1] * i",
    "{a} = {a} * 0.5 + s", "{a} = {a}.copy()", "{a}[:, -1] = s + {b}[0]",
)  # fmt: skip


@pytest.mark.parametrize("seed", range(80))
def test_random_loops_mean_the_same(seed: int) -> None:
    draw = Random(seed)
    lines = ["def loop(x, y, z):", "    s = x[0] * 1"]
    for _ in range(draw.randint(1, 2)):
        lines.append(f"    for i in range({draw.randint(20, 220)}):")
        for _ in range(draw.randint(1, 6)):
            names = dict(zip("abc", draw.choices("xyz", k=3), strict=True))
            number = draw.choice(["0.5", "i", "i * 0.25", "3", "-0.0"])
            lines.append("        " + draw.choice(STATEMENTS).format(**names, k=number))
        lines.append("        x = np.clip(x, -9, 9)")
    scope: dict[str, Any] = {"np": np}
    exec("\n".join([*lines, "    return x, y, z, s"]), scope)
    plain, recorded = ([a.copy() for a in (*given(), given()[0] - 1)] for _ in range(2))
    plain, recorded = [a[:6, :6].copy() for a in plain], [a[:6, :6].copy() for a in recorded]
    with np.errstate(all="ignore"):
        expected = scope["loop"](*plain)
        found = record(scope["loop"], tuple(recorded), {}, Repeating()).result
    same(expected, found)
    same(tuple(plain), tuple(recorded))
