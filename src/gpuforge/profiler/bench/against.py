"""Comparing the benchmarks of a file on the working tree with those on a git ref (the base).

Both sides time the same file, that of the working tree, each in its own process. Every round uses a
fresh pair of processes: memory layout and string hashing change times by some percent from process
to process, and only new processes average that out.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

from gpuforge.errors import WorkerDied, WorkloadError
from gpuforge.profiler.bench.measure import chosen
from gpuforge.profiler.bench.process import PROGRAM, Worker
from gpuforge.profiler.bench.repository import checked_out, git
from gpuforge.profiler.compare.comparison import MINIMAL, Comparison
from gpuforge.profiler.compare.interleaved import Rounds

MOST_TURNS, BLOCK_SAMPLES = 24, 5
"""Most turns of a benchmark in a process, of four blocks each, and the samples of a block. A block
takes half a millisecond, because the speed of a shared processor changes every few milliseconds. If
time is short there are fewer turns, as more rounds are worth more."""
ROUNDS_WANTED = 16


@dataclass
class Benchmark:
    """The measurements of one function.

    Attributes
    ----------
    rounds : interleaved measurements of base and working tree
    loops, samples : calls per sample and samples per block; 0 before the first block
    problem : why it cannot be compared, and on which side; empty if it can
    failed_here : whether the problem is on the working tree's side
    comparison : the verdict; None if it cannot be compared
    """

    rounds: Rounds = field(default_factory=Rounds)
    loops: int = 0
    samples: int = 0
    problem: str = ""
    failed_here: bool = False
    comparison: Comparison | None = None


@dataclass(frozen=True)
class Against:
    """The result of a comparison with a ref.

    Attributes
    ----------
    commit : the commit of the base
    benchmarks : benchmarks by name, in file order
    """

    commit: str
    benchmarks: dict[str, Benchmark]


def side_environment(
    root: Path, here: Path, folder: Path, base: Mapping[str, str]
) -> dict[str, str]:
    """Return environment variables that make Python import from another tree instead of this one.

    Parameters
    ----------
    root
        The tree to import from.
    here
        The working tree: its folders on Python's path are replaced by those of `root`, except a
        virtual environment inside it.
    folder
        The folder of the benchmarks, which comes first on the path.
    base
        The variables of this process.
    """
    entries = (Path(entry or ".").resolve() for entry in sys.path)
    mapped = [
        str(root / path.relative_to(here))
        for path in (folder, here / "src", here, *entries)
        if path.is_relative_to(here) and not path.is_relative_to(Path(sys.prefix).resolve())
    ]
    others = [
        entry
        for entry in base.get("PYTHONPATH", "").split(os.pathsep)
        if entry and not Path(entry).resolve().is_relative_to(here)
    ]
    return {**base, "PYTHONPATH": os.pathsep.join(dict.fromkeys([*mapped, *others]))}


def compare_with(ref: str, path: Path, only: str = "", *, seconds: float) -> Against:
    """Compare the benchmarks of a file on the working tree with those on a ref.

    Parameters
    ----------
    ref
        A commit, tag or branch of the repository that contains `path`.
    path
        The file with the ``bench_*`` functions.
    only
        The name of the only benchmark to measure; all by default.
    seconds
        The time limit; a round that has begun is finished, and at least one is measured.

    Raises
    ------
    WorkloadError
        If the file is not in a repository, does not load on the working tree, or makes the base
        import code of the working tree.
    UnknownName
        If there is no such ref or benchmark.
    """
    path = path.resolve()
    here = Path(git(path.parent, "rev-parse", "--show-toplevel")).resolve()
    with checked_out(here, ref) as (commit, tree):
        end = perf_counter() + seconds
        contest = _Interleaving(path, only, here, tree)
        turns, took = MOST_TURNS // 2, 0.0
        now = perf_counter()
        while not contest.is_over() and (not contest.count or now + took < end):
            began = now
            contest.round(turns)
            now = perf_counter()
            took = now - began
            share = (end - now) / max(1, ROUNDS_WANTED - contest.count)
            turns = max(1, min(MOST_TURNS, round(turns * share / took)))
    for benchmark in contest.benchmarks.values():
        if benchmark.rounds.logs and not benchmark.problem:
            benchmark.comparison = benchmark.rounds.verdict(MINIMAL)
        elif not benchmark.problem:
            benchmark.problem = "it could not be measured within the time limit"
    return Against(commit, contest.benchmarks)


class _Interleaving:
    """Measures rounds on both trees until each benchmark has a verdict or cannot have one."""

    def __init__(self, path: Path, only: str, here: Path, tree: Path) -> None:
        self._path, self._only, self._here = path, only, here
        self._roots = {"base": tree, "working tree": here}
        self.count = 0
        self.benchmarks: dict[str, Benchmark] = {}

    def is_over(self) -> bool:
        """Return whether all benchmarks are done."""
        return self.count > 0 and all(map(self._is_settled, self.benchmarks.values()))

    def round(self, turns: int) -> None:
        """Measure every unfinished benchmark in a fresh process for each side."""
        self.count += 1
        with ExitStack() as stack:
            new = stack.enter_context(closing(self._worker("working tree")))
            for name in chosen(new.names, self._only, self._path):
                self.benchmarks.setdefault(name, Benchmark())
            try:
                base = stack.enter_context(closing(self._worker("base")))
            except WorkloadError as error:
                for benchmark in self.benchmarks.values():
                    benchmark.problem = str(error)
                return
            for name, benchmark in self.benchmarks.items():
                if self._is_settled(benchmark):
                    continue
                try:
                    self._measure(name, benchmark, (base, new), turns)
                except WorkloadError as error:
                    benchmark.problem, benchmark.failed_here = str(error), new.failed
                except WorkerDied as error:  # the other benchmarks continue in the next round
                    benchmark.problem, benchmark.failed_here = str(error), new.failed
                    return
            if self.count == 1:
                self._check_imports(base)

    def _worker(self, side: str) -> Worker:
        base = {"PYTHONHASHSEED": str(self.count), **os.environ}
        root = self._roots[side]
        variables = side_environment(root, self._here, self._path.parent, base)
        return Worker(self._path, variables, root, label=side)

    def _is_settled(self, benchmark: Benchmark) -> bool:
        return bool(benchmark.problem) or benchmark.rounds.are_enough(MINIMAL)

    def _measure(
        self, name: str, benchmark: Benchmark, sides: tuple[Worker, Worker], turns: int
    ) -> None:
        """Measure a round of one benchmark."""
        for side in sides:
            if name not in side.names:
                raise WorkloadError(f"the {side.label} has no such function")
            plan = side.warm_up(name, plan=not benchmark.loops)
            if not benchmark.loops:
                benchmark.loops = plan["loops"]
                benchmark.samples = min(plan["samples"], BLOCK_SAMPLES)
        loops, samples = benchmark.loops, benchmark.samples
        benchmark.rounds.add(lambda side: sides[side].block(name, loops, samples), turns)

    def _check_imports(self, base: Worker) -> None:
        """Raise `WorkloadError` if the base has loaded code of the working tree."""
        mine = {str(self._path), os.path.realpath(PROGRAM)}
        prefix = Path(sys.prefix).resolve()
        for file in base.files():
            path = Path(file)
            if (
                file not in mine
                and path.is_relative_to(self._here)
                and not path.is_relative_to(prefix)
            ):
                raise WorkloadError(
                    f"the base imports {path.relative_to(self._here)} of the working tree, so the "
                    "two sides cannot be compared",
                    hint="import it by module name instead of an absolute path",
                )
