"""What the long run does: calls on every backend, maps, tasks, and faults that are put in."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from tests.runtime import fragile, many_tasks

import gpuforge as gf
from gpuforge.errors import WorkerDied

MODULES = {"torch": "torch", "jax": "jax", "mlx": "mlx", "dpnp": "dpnp", "opencl": "pyopencl"}
FUNCTIONS = 40
"""How many functions of NumPy are called in turn."""
TASKS = 200
PAUSE_CALLS = 200

Work = Callable[[], int]
"""Does something, checks it, and returns how many calls that were."""


class Wrong(Exception):
    """A result that is not what it should be."""


def works(backends: list[str]) -> dict[str, Work]:
    """Return the kinds of work that are timed, by name; a backend that is not installed is out."""
    found: dict[str, Work] = {"calls on NumPy": _numpy(), "calls of many sizes": _sizes()}
    for backend in backends:
        if find_spec(MODULES[backend]) is not None:
            found[f"calls on {backend}"] = _on(backend)
    return {
        **found, "functions that go": _closures, "items of maps": _map(), "tasks": _tasks(),
    }  # fmt: skip


def _check(found: Any, wanted: Any) -> None:
    if not np.allclose(found, wanted, rtol=1e-4):
        raise Wrong(f"{found!r} instead of {wanted!r}")


def _numpy() -> Work:
    """Return held calls of many functions."""
    functions = [gf.offload(lambda x, n=n: x * n + 1.0) for n in range(FUNCTIONS)]
    x = np.linspace(0.0, 1.0, 100)

    def call() -> int:
        for number, function in enumerate(functions):
            for _ in range(PAUSE_CALLS):
                found = function(x)
            _check(found[-1], number + 1.0)
        return PAUSE_CALLS * FUNCTIONS

    return call


def _sizes() -> Work:
    """Return calls whose arrays have a size of 200, and that are placed freely."""
    function, rng = gf.offload(lambda x: np.sum(np.sqrt(x) * 2.0)), np.random.default_rng(0)
    largest = np.ones(200 * 97)

    def call() -> int:
        for size in rng.integers(1, 201, 50):
            _check(function(largest[: size * 97]), size * 194.0)
        return 50

    return call


def _on(backend: str) -> Work:
    """Return calls on a named backend, MLX and OpenCL in a worker process."""
    function = gf.offload(lambda x, y: np.sum(np.exp(x) * y, axis=1), backend=backend)
    x, y = np.zeros((64, 64), np.float32), np.ones((64, 64), np.float32)

    def call() -> int:
        for _ in range(20):
            found = function(x, y)
        _check(found, np.full(64, 64.0))
        if function.stats().counts.keys() == {"numpy"}:
            raise Wrong(f"no call was made on {backend}")
        return 20

    return call


def _closures() -> int:
    """Offload functions that nobody keeps."""
    for number in range(20):
        function = gf.offload(lambda x, n=number: x + n)
        for _ in range(3):
            found = function(np.zeros(10))
        _check(found, number)
    return 60


def _map() -> Work:
    function = gf.offload(lambda x: x / np.sqrt((x * x).sum(axis=1, keepdims=True)))
    both = gf.offload(lambda weights, x: np.tanh(weights @ x))
    items, weights = list(np.ones((200, 8, 4))), np.eye(8)

    def call() -> int:
        _check(function.map(items), 0.5)
        _check(list(both.starmap((weights, item) for item in items)), np.tanh(1.0))
        return 2 * len(items)

    return call


def _tasks() -> Work:
    """Return tasks of every kind: some fail, hang beyond their limit, or are cancelled."""
    seed = iter(range(sys.maxsize))

    def call() -> int:
        seen = many_tasks.run(TASKS, next(seed))
        if seen.wrong:
            raise Wrong("; ".join(seen.wrong[:3]))
        return seen.tasks

    return call


def install_fragile(folder: Path) -> None:
    """Let this process and its workers have the backend that breaks on demand."""
    fragile.install(folder)
    sys.path.insert(0, str(folder))


def _broken(first: float) -> int:
    """Call a function on the fragile backend: with 49, and with a value that breaks it."""
    with gf.session(history=False, plugins=True):
        function = gf.offload(lambda x: np.sqrt(x) + 1, backend="fragile", isolate=True)
        for value in (49.0, first):
            given = np.array([value, 4.0, 9.0])
            _check(function(given), np.sqrt(given) + 1)
        counts = function.stats().counts
        if "fragile:cpu:worker" not in counts or "numpy" not in counts:
            raise Wrong(f"no fault was met, or not settled by NumPy: {dict(counts)}")
    return 2


def _worker_dies() -> int:
    return _broken(signal.SIGSEGV)


def _library_raises() -> int:
    return _broken(fragile.RAISES)


def _memory_ends() -> int:
    return _broken(fragile.EXHAUSTS)


def _crash(x: Any) -> None:
    signal.raise_signal(signal.SIGKILL)


def _function_crashes() -> int:
    function = gf.offload(_crash, pure=False, isolate=True)
    try:
        function(np.ones(3))
    except WorkerDied:
        return 1
    raise Wrong("a function that kills its process returned")


FAULTS: dict[str, Work] = {
    "fault: a worker dies": _worker_dies,
    "fault: a library raises": _library_raises,
    "fault: memory ends": _memory_ends,
    "fault: a function crashes": _function_crashes,
}
"""What goes wrong on purpose, to be done in turns."""
