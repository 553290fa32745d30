"""The benchmarks of a file, measured in a process of their own, their blocks in turns."""

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
"""A benchmark is known once the interval of its median is no wider than this ratio of it."""
MAY_BE_RUNNING = "the device may still be computing its result: wait for it in the function"


@dataclass
class _Timed:
    """One function on its way."""

    name: str
    loops: int = 0
    samples: int = 0
    blocks: list[float] = field(default_factory=list)
    notes: tuple[str, ...] = ()
    problem: str = ""

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
    with closing(_Process(path)) as process:
        timed = [_Timed(name) for name in chosen(process.names, only, path)]
        for one in timed:
            process.time(one)
        while left := [one for one in timed if not one.is_over()]:
            if perf_counter() >= end and all(one.blocks for one in left):
                break
            for one in left:  # in a new process, a benchmark is warmed up again first
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
    """What times the benchmarks of a file: a process, and a new one where a benchmark ended it."""

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
        """Warm a benchmark up, the first time in a process; then add a block of it."""
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
