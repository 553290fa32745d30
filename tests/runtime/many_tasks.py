"""Thousands of tasks of every kind at once: each future ends once, with what it should.

``python -m tests.runtime.many_tasks --tasks 100000`` is the long form of ``make soak``; what it saw
goes to benchmarks/results/tasks_soak.json.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import sys
import threading
import time
from collections import Counter
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import gpuforge as gf
from gpuforge.errors import TaskCancelled, TaskTimeout
from gpuforge.runtime.executor.opening import Executor

RESULT = Path(__file__).parents[2] / "benchmarks" / "results" / "tasks_soak.json"
CHUNK = 1000
FAILING, HANGING, CANCELLED = 0.05, 0.002, 0.02
HELD_SECONDS = 0.02
GATE = threading.Event()


class Planned(Exception):
    """Raised by a task that is to fail."""


@gf.offload
def double(x: Any) -> Any:
    return x * 2.0


@gf.offload
def total(x: Any, y: Any) -> Any:
    return np.sum(x * y)


@gf.offload(pure=False)
def failing(x: Any, number: int) -> Any:
    raise Planned(number)


@gf.offload(pure=False)
def hanging(x: Any) -> Any:
    GATE.wait(60)


def plain(number: int) -> int:
    if number % 50 == 0:
        raise Planned(number)
    return number * number


@dataclass
class Seen:
    """What became of the tasks.

    Attributes
    ----------
    wrong : futures with another result or error than they should have, or that ended not once
    memory_bytes : the process's resident memory after each chunk
    threads : how many were alive after each chunk
    """

    tasks: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    memory_bytes: list[int] = field(default_factory=list)
    threads: list[int] = field(default_factory=list)
    seconds: float = 0.0


def submit(executor: Executor, rng: random.Random, number: int) -> tuple[Future[Any], Any]:
    """Submit one task; return its future and what it should end with."""
    x = np.full(rng.choice((4, 16, 1000)), float(number))
    luck, priority = rng.random(), rng.choice((-1, 0, 1))
    if luck < HANGING:
        return hanging.submit(x, priority=1, timeout=HELD_SECONDS), TaskTimeout
    if luck < HANGING + FAILING:
        return failing.submit(x, number % 10, priority=priority), Planned
    if luck < 0.4:
        wanted = Planned if number % 50 == 0 else number * number
        return executor.with_options(priority=priority).submit(plain, number), wanted
    if luck < 0.7:
        return total.submit(x, x, priority=priority, timeout=30), float(np.sum(x * x))
    return double.submit(x, priority=priority), x * 2.0


def verdict(future: Future[Any], wanted: Any, *, cancelled: bool) -> tuple[str, str]:
    """Return how a future ended, and what is wrong with that; empty for nothing."""
    try:
        value = future.result(120)
    except TaskCancelled:
        return "cancelled", "" if cancelled else "cancelled by nobody"
    except (Planned, TaskTimeout) as error:
        right = isinstance(wanted, type) and isinstance(error, wanted)
        return type(error).__name__, "" if right else f"{error!r} instead of {wanted!r}"
    if isinstance(wanted, type):
        return "done", f"{value!r} instead of {wanted!r}"
    right = np.allclose(value, wanted) and type(value) is not type(None)
    return "done", "" if right and not cancelled else f"{value!r} instead of {wanted!r}"


def resident_bytes() -> int:
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except OSError:
        return 0


def run(tasks: int, seed: int = 0) -> Seen:
    """Run so many tasks, a thousand at a time, and return what became of them."""
    rng, seen, start = random.Random(seed), Seen(), time.perf_counter()
    with gf.executor() as executor:
        for first in range(0, tasks, CHUNK):
            GATE.clear()
            ends: Counter[int] = Counter()
            given = []
            for number in range(first, min(first + CHUNK, tasks)):
                future, wanted = submit(executor, rng, number)
                future.add_done_callback(lambda _, number=number: ends.update([number]))
                cancelled = rng.random() < CANCELLED and future.cancel()
                given.append((number, future, wanted, cancelled))
            for number, future, wanted, cancelled in given:
                outcome, wrong = verdict(future, wanted, cancelled=cancelled)
                seen.outcomes[outcome] += 1
                if wrong:
                    seen.wrong.append(f"task {number}: {wrong}")
            GATE.set()  # what was abandoned ends
            executor.run([(int, ()), (double, np.zeros(1))])  # callbacks of the last ones are over
            once = [number for number, *_ in given if ends[number] != 1]
            seen.wrong += [f"task {number} ended {ends[number]} times" for number in once]
            seen.tasks += len(given)
            seen.memory_bytes.append(resident_bytes())
            seen.threads.append(threading.active_count())
    seen.seconds = time.perf_counter() - start
    return seen


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tasks", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    seen = run(arguments.tasks, arguments.seed)
    RESULT.write_text(json.dumps(vars(seen), indent=1) + "\n")
    half = seen.memory_bytes[len(seen.memory_bytes) // 2]
    growth = seen.memory_bytes[-1] / half if half else 1.0
    print(f"{seen.tasks} tasks in {seen.seconds:.0f} s: {dict(seen.outcomes)}")
    print(f"{len(seen.wrong)} wrong, memory {growth:.2f} x that at half time,"
          f" at most {max(seen.threads)} threads")  # fmt: skip
    return int(bool(seen.wrong) or growth > 1.2)


if __name__ == "__main__":
    sys.exit(main())
