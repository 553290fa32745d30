"""Measuring the benchmarks of a file in a separate process, alternating between their blocks."""

from __future__ import annotations

import os
import time
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from time import perf_counter

from gpuforge.errors import UnknownName, WorkerDied, WorkloadError
from gpuforge.profiler.bench.process import Worker
from gpuforge.profiler.bench.repository import git
from gpuforge.profiler.bench.result import BenchResult, Measured
from gpuforge.profiler.compare.conditions import Conditions
from gpuforge.profiler.compare.evidence import median_interval

BLOCKS_AT_LEAST, BLOCKS_AT_MOST = 10, 200
PRECISION = 0.02
"""Measuring ends when the confidence interval of the median is no wider than this share of it."""
MAY_BE_RUNNING = "the device may still be computing its result: wait for it in the function"


@dataclass
class _Timed:
    """The measurements of one function so far."""

    name: str
    loops: int = 0
    samples: int = 0
    blocks: list[float] = field(default_factory=list)
    notes: tuple[str, ...] = ()
    problem: str = ""

    def is_over(self) -> bool:
        """Return whether no more blocks are needed."""
        count = len(self.blocks)
        if self.problem or count < BLOCKS_AT_LEAST:
            return bool(self.problem)
        middle = median_interval(self.blocks)
        return count >= BLOCKS_AT_MOST or middle.high - middle.low <= PRECISION * middle.value


def chosen(names: list[str], only: str, path: Path) -> list[str]:
    """Return the selected benchmarks of a file.

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
    """Measure the benchmarks of a file; their output goes to stderr.

    Parameters
    ----------
    path, only
        The file, and the name of the only benchmark to measure; empty for all.
    conditions
        The current conditions.
    seconds
        The time limit; at least one block of each benchmark is measured.

    Returns
    -------
    The result, and the reasons of the benchmarks that failed, by name.

    Raises
    ------
    WorkloadError
        If the file does not load.
    UnknownName
        If it has no such benchmark.
    """
    started, end = time.time(), perf_counter() + seconds
    with closing(_Process(path)) as process:
        timed = [_Timed(name) for name in chosen(process.names, only, path)]
        for one in timed:
            process.time(one)
        while left := [one for one in timed if not one.is_over()]:
            if perf_counter() >= end and all(one.blocks for one in left):
                break
            for one in left:  # in a new process a benchmark is first warmed up again
                if not one.blocks or perf_counter() < end:
                    process.time(one)
    home = identity(path)
    measured = tuple(
        Measured(f"{home}::{one.name}", one.loops, tuple(one.blocks), one.notes)
        for one in timed
        if not one.problem
    )
    failed = {one.name: one.problem for one in timed if one.problem}
    return BenchResult(started, version(path), conditions, measured), failed


class _Process:
    """The process that times the benchmarks, which is replaced if a benchmark ends it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        entries = [str(path.resolve().parent), os.environ.get("PYTHONPATH", "")]
        self._variables = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, entries))}
        self._start()
        self.names = self._worker.names

    def _start(self) -> None:
        self._warm: set[str] = set()
        try:
            self._worker = Worker(self._path, self._variables, Path.cwd(), limited=False)
        except (WorkloadError, WorkerDied) as error:
            text, hint = f"{self._path} cannot be loaded: {error}", f"run 'python {self._path}'"
            raise WorkloadError(text, hint=f"{hint} to see where") from error

    def close(self) -> None:
        self._worker.close()

    def time(self, one: _Timed) -> None:
        """Add a block of a benchmark; on its first turn in a process, warm it up instead."""
        try:
            if one.name in self._warm:
                one.blocks.append(median(self._worker.block(one.name, one.loops, one.samples)))
                return
            told = self._worker.warm_up(one.name, plan=not one.loops)
            self._warm.add(one.name)
            if not one.loops:
                one.loops, one.samples = told["loops"], told["samples"]
                one.notes = (MAY_BE_RUNNING,) if told["may_be_running"] else ()
        except WorkloadError as error:
            one.problem = str(error)
        except WorkerDied as error:
            one.problem = str(error)
            self._worker.close()
            self._start()


def identity(path: Path) -> str:
    """Return the name of a file in the history: its path from the repository's folder on."""
    path = path.resolve()
    try:
        root = Path(git(path.parent, "rev-parse", "--show-toplevel")).resolve()
    except WorkloadError:
        root = path.parent
    return (root.name / path.relative_to(root)).as_posix()


def version(path: Path) -> str:
    """Return git's description of the code in the folder of a file; empty if there is none."""
    try:
        return git(path.resolve().parent, "describe", "--always", "--dirty", "--tags")
    except WorkloadError:
        return ""
