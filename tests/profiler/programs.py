"""Twenty programs whose times must add up, whatever they do."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter_ns
from typing import Any

import numpy as np

import gpuforge as gf

X = np.linspace(0.1, 1.0, 200_000)
Walls = dict[str, int]
PROGRAMS: dict[str, tuple[Callable[[Walls], Any], str]] = {}
"""name -> the program, and the library that it needs"""


def program(needs: str = "") -> Callable[[Callable[[Walls], Any]], Callable[[Walls], Any]]:
    def enter(function: Callable[[Walls], Any]) -> Callable[[Walls], Any]:
        PROGRAMS[function.__name__] = (function, needs)
        return function

    return enter


@contextlib.contextmanager
def timed(walls: Walls) -> Iterator[None]:
    """Measure the wall time of this thread by its own clock, and keep a span around it."""
    start = perf_counter_ns()
    with gf.span("whole"):
        yield
    walls[threading.current_thread().name] = perf_counter_ns() - start


def work(x: np.ndarray) -> Any:
    return (np.sqrt(x) * 2 + x).sum()


def offloaded(times: int, **options: Any) -> None:
    function = gf.offload(**options)(work)
    for _ in range(times):
        assert np.isclose(function(X), work(X))


def in_threads(walls: Walls, target: Callable[[], Any], number: int = 3) -> None:
    def run() -> None:
        with timed(walls):
            target()

    threads = [threading.Thread(target=run, name=f"worker {n}") for n in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@program()
def nested_spans(walls: Walls) -> None:
    for _ in range(50):
        with gf.span("outer"), gf.span("middle"), gf.span("inner"):
            work(X[:1000])


@program()
def no_spans(walls: Walls) -> None:
    time.sleep(0.03)


@program()
def numpy_held(walls: Walls) -> None:
    offloaded(60, backend="numpy")


@program()
def numpy_free(walls: Walls) -> None:
    offloaded(30)


@program("torch")
def torch_pinned(walls: Walls) -> None:
    offloaded(10, backend="torch:cpu")


@program("torch")
def torch_falls_back(walls: Walls) -> None:
    @gf.offload(backend="torch:cpu")
    def binned(x: np.ndarray) -> Any:
        return np.digitize(x * 2, X[::50_000]).sum()

    for _ in range(5):
        binned(X)


@program("torch")
def torch_in_threads(walls: Walls) -> None:
    offloaded(1, backend="torch:cpu")
    in_threads(walls, lambda: offloaded(5, backend="torch:cpu"))


@program("jax")
def jax_pinned(walls: Walls) -> None:
    offloaded(10, backend="jax:cpu")


@program("pyopencl")
def opencl_here(walls: Walls) -> None:
    offloaded(6, backend="opencl:cpu", isolate=False)


@program("pyopencl")
def opencl_in_a_worker(walls: Walls) -> None:
    offloaded(6, backend="opencl:cpu")


@program("dpnp")
def dpnp_pinned(walls: Walls) -> None:
    offloaded(6, backend="dpnp:cpu")


@program("mlx")
def mlx_pinned(walls: Walls) -> None:
    function = gf.offload(backend="mlx:cpu", isolate=False)(work)
    for _ in range(6):
        function(X.astype("f4"))


@program()
def threads(walls: Walls) -> None:
    def run() -> None:
        for _ in range(20):
            with gf.span("step"):
                time.sleep(0.001)

    in_threads(walls, run)


@program()
def threads_with_the_context_of_another(walls: Walls) -> None:
    def step() -> None:
        with gf.span("step"):
            time.sleep(0.005)

    with ThreadPoolExecutor(2, thread_name_prefix="pool") as pool, gf.span("submit"):
        for _ in range(6):
            pool.submit(contextvars.copy_context().run, step)


@program()
def tasks_of_an_event_loop(walls: Walls) -> None:
    async def one(number: int) -> None:
        with gf.span("task", number=number):
            await asyncio.sleep(0.005 * number)
            with gf.span("computes"):
                work(X[:5000])
            await asyncio.sleep(0.005)

    async def main() -> None:
        with gf.span("main"):
            await asyncio.gather(*map(one, range(5)))

    asyncio.run(main())


@program()
def an_event_loop_with_threads(walls: Walls) -> None:
    async def main() -> None:
        with gf.span("main"):
            await asyncio.gather(*(asyncio.to_thread(work, X) for _ in range(3)))

    asyncio.run(main())


@program()
def exceptions(walls: Walls) -> None:
    for _ in range(20):
        with contextlib.suppress(ZeroDivisionError), gf.span("outer"), gf.span("inner"):
            work(X[:1000])
            raise ZeroDivisionError


@program()
def a_generator_that_ends_within(walls: Walls) -> None:
    def steps() -> Iterator[None]:
        with gf.span("generator"):
            time.sleep(0.01)
            yield

    for _ in range(3):
        running = steps()
        next(running)
        time.sleep(0.01)
        with gf.span("caller"):
            next(running, None)
            time.sleep(0.01)


@program()
def profiled_generators(walls: Walls) -> None:
    @gf.profiled
    def numbers() -> Iterator[int]:
        for number in range(5):
            time.sleep(0.002)
            yield number

    @gf.profiled("numbers", asynchronous=True)
    async def waited() -> AsyncIterator[int]:
        for number in range(5):
            await asyncio.sleep(0.002)
            yield number

    async def main() -> int:
        return sum([number async for number in waited()])

    assert sum(numbers()) == asyncio.run(main()) == 10


@program()
def recursion(walls: Walls) -> None:
    @gf.profiled
    def down(depth: int) -> None:
        if depth:
            down(depth - 1)

    for _ in range(10):
        down(60)


@program()
def a_map(walls: Walls) -> None:
    gf.offload(work).map(list(np.ones((200, 500))))


@program()
def on_and_off(walls: Walls) -> None:
    def step() -> None:
        with gf.span("step"):
            time.sleep(0.003)

    in_threads(walls, step, 1)
    step()
