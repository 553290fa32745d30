"""The program of the worker process: times the ``bench_*`` functions of a file on request.

It uses only the standard library, because the measured code may be another version of gpuforge or
run without it.
"""

from __future__ import annotations

import gc
import importlib.util
import inspect
import json
import os
import sys
from collections.abc import Callable
from itertools import repeat
from pathlib import Path
from time import perf_counter
from typing import Any

PREFIX = "bench_"
SAMPLE_SECONDS, BLOCK_SECONDS, WARM_UP_SECONDS = 100e-6, 10e-3, 10e-3
"""A sample is long compared with the clock's resolution and short compared with the scheduler's
time slices, so most samples of a block are undisturbed."""
MOST_SAMPLES = 100


class NotABenchmark(Exception):
    """A function that cannot be called repeatedly without arguments."""


def load(path: str) -> dict[str, Callable[[], Any]]:
    """Import a file, and return its ``bench_*`` functions in order of definition."""
    file = Path(path).resolve()
    name = f"_{file.stem}"  # must not clash with a module of that name
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return {
        name: value
        for name, value in vars(module).items()
        if name.startswith(PREFIX) and callable(value)
    }


def warm_up(function: Callable[[], Any]) -> Any:
    """Call a function until one-time costs are over; return its result.

    Raises
    ------
    NotABenchmark
        If it needs arguments, or is a coroutine or generator function, whose call does nothing.
    """
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise NotABenchmark("calling it does not run its body: make it a plain function")
    try:
        inspect.signature(function).bind()
    except TypeError as error:
        raise NotABenchmark(f"it is called without arguments, and {error}") from None
    end = perf_counter() + WARM_UP_SECONDS
    result = function()
    while perf_counter() < end:
        result = function()
    return result


def plan(function: Callable[[], Any]) -> tuple[int, int]:
    """Return the number of calls in a sample, and of samples in a block."""
    loops = 1
    while (seconds := min(block(function, loops, 3)) * loops) < SAMPLE_SECONDS:
        loops *= max(2, min(10, int(SAMPLE_SECONDS / max(seconds, 1e-9))))
    return loops, max(1, min(MOST_SAMPLES, int(BLOCK_SECONDS / seconds)))


def block(function: Callable[[], Any], loops: int, samples: int) -> list[float]:
    """Return `samples` times the seconds of a call, each the mean over `loops` calls.

    Garbage collection is off, because it would also collect what was measured before.
    """
    found, collects = [], gc.isenabled()
    gc.disable()
    try:
        for _ in range(samples):
            start = perf_counter()
            for _ in repeat(None, loops):
                function()
            found.append((perf_counter() - start) / loops)
    finally:
        if collects:
            gc.enable()
    return found


def may_be_running(result: Any) -> bool:
    """Return whether a result suggests that the call may still be running on a device."""
    home = type(result).__module__.partition(".")[0]
    on_device = bool(getattr(result, "is_cuda", False) or getattr(result, "is_mps", False))
    return on_device or hasattr(result, "block_until_ready") or home in ("cupy", "mlx", "dpnp")


def answers(functions: dict[str, Callable[[], Any]], request: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to one request."""
    if "files" in request:
        files = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
        return {"files": [os.path.realpath(file) for file in files if file]}
    function = functions[request["name"]]
    if "samples" in request:
        return {"seconds": block(function, request["loops"], request["samples"])}
    running = may_be_running(warm_up(function))
    loops, samples = plan(function) if request["plan"] else (0, 0)
    return {"loops": loops, "samples": samples, "may_be_running": running}


def serve(path: str) -> None:
    """Load a file and answer requests, one line of JSON each, until stdin ends."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # output of the functions goes to stderr, as stdout carries the answers

    def attempt(make: Callable[[], dict[str, Any]]) -> None:
        try:
            reply = make()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - it is the answer
            reply = {"error": f"{type(error).__name__}: {error}"}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()

    functions: dict[str, Callable[[], Any]] = {}
    attempt(lambda: {"names": list(functions.update(load(path)) or functions)})
    for line in sys.stdin:
        request = json.loads(line)
        attempt(lambda request=request: answers(functions, request))  # type: ignore[misc]


if __name__ == "__main__":
    serve(sys.argv[1])
