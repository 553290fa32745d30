"""The benchmarks of a file, measured in this process, their blocks in turns."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

from gpuforge.errors import UnknownName, WorkloadError
from gpuforge.profiler.bench import worker
from gpuforge.profiler.bench.repository import git
from gpuforge.profiler.bench.result import BenchResult, Measured
from gpuforge.profiler.compare.conditions import Conditions
from gpuforge.profiler.compare.evidence import median_interval

BLOCKS_AT_LEAST, BLOCKS_AT_MOST = 10, 200
PRECISION = 0.02
"""A benchmark is known once the interval of its median is no wider than this ratio of it."""
MAY_BE_RUNNING = "its result may be of work that a device still does: wait for it in the function"


@dataclass
class _Timed:
    """One function on its way."""

    function: Callable[[], Any]
    loops: int = 0
    samples: int = 0
    blocks: list[float] = field(default_factory=list)
    notes: tuple[str, ...] = ()
    problem: str = ""

    def begin(self) -> None:
        """Warm up, and find out how long a block is."""
        if worker.may_be_running(worker.warm_up(self.function)):
            self.notes = (MAY_BE_RUNNING,)
        self.loops, self.samples = worker.plan(self.function)

    def is_over(self) -> bool:
        """Return whether it needs no more blocks."""
        count = len(self.blocks)
        if self.problem or count < BLOCKS_AT_LEAST:
            return bool(self.problem)
        middle = median_interval(self.blocks)
        return count >= BLOCKS_AT_MOST or middle.high - middle.low <= PRECISION * middle.value


def chosen(names: list[str], only: str, path: Path) -> list[str]:
    """Return the benchmarks of a file that are asked for.

    Raises
    ------
    UnknownName
        If the file has no benchmark `only`.
    """
    if only and only not in names:
        raise UnknownName.among(f"benchmark in {path.name}", only, names)
    return [only] if only else names


def measure(
    path: Path, only: str, conditions: Conditions, *, seconds: float
) -> tuple[BenchResult, dict[str, str]]:
    """Measure the benchmarks of a file; what they print goes to standard error.

    Parameters
    ----------
    path, only
        The file, and the name of one benchmark in it; empty for all.
    conditions
        Those that hold.
    seconds
        The time limit; one block of each is measured in any case.

    Returns
    -------
    The result, and the benchmarks that failed with the reason.

    Raises
    ------
    WorkloadError
        If the file does not load.
    UnknownName
        If it has no such benchmark.
    """
    started, end = time.time(), perf_counter() + seconds
    with redirect_stdout(sys.stderr), _on_path(path.resolve().parent):
        timed = _load(path, only)
        for one in timed.values():
            _attempt(one, one.begin)
        first = True
        while left := [one for one in timed.values() if not one.is_over()]:
            for one in left:
                if first or perf_counter() < end:
                    _attempt(one, lambda one=one: _add_block(one))  # type: ignore[misc]
            first = False
            if perf_counter() >= end:
                break
    home = identity(path)
    measured = tuple(
        Measured(f"{home}::{name}", one.loops, tuple(one.blocks), one.notes)
        for name, one in timed.items()
        if not one.problem
    )
    failed = {name: one.problem for name, one in timed.items() if one.problem}
    return BenchResult(started, version(path), conditions, measured), failed


def _load(path: Path, only: str) -> dict[str, _Timed]:
    try:
        functions = worker.load(str(path))
    except (Exception, SystemExit) as error:
        text = f"{path} does not load: {type(error).__name__}: {error}"
        raise WorkloadError(text, hint=f"run 'python {path}' to see where") from error
    return {name: _Timed(functions[name]) for name in chosen(list(functions), only, path)}


def _attempt(one: _Timed, do: Callable[[], None]) -> None:
    try:
        do()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - it is said, and the others go on
        one.problem = f"{type(error).__name__}: {error}"


def _add_block(one: _Timed) -> None:
    samples = sorted(worker.block(one.function, one.loops, one.samples))
    middle = len(samples) // 2
    one.blocks.append((samples[middle] + samples[-1 - middle]) / 2)


@contextmanager
def _on_path(folder: Path) -> Iterator[None]:
    """Let a file import its neighbours, as a script does."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def identity(path: Path) -> str:
    """Return the name of a file in histories: its folders from that of its repository on."""
    path = path.resolve()
    try:
        root = Path(git(path.parent, "rev-parse", "--show-toplevel")).resolve()
    except WorkloadError:
        root = path.parent
    return (root.name / path.relative_to(root)).as_posix()


def version(path: Path) -> str:
    """Return what git calls the code in the folder of a file; empty where it does not say."""
    try:
        return git(path.resolve().parent, "describe", "--always", "--dirty", "--tags")
    except WorkloadError:
        return ""
