"""The benchmarks of a file on two versions of the code: the working tree, and a git ref beside it.

Both sides time the same file, that of the working tree, in processes of their own. A fresh pair of
processes makes one round: where things lie in memory and how texts are hashed differs from process
to process, by some percent, and only new processes average that out.
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
"""In a process, a benchmark is timed in so many turns at most, of four blocks of so many samples:
half a millisecond each, because a processor that others use changes its speed every few of them.
Where time is short there are fewer turns, as rounds are worth more."""
ROUNDS_WANTED = 16


@dataclass
class Benchmark:
    """What was measured of one function.

    Attributes
    ----------
    rounds : base and working tree, in turns
    loops, samples : of a block; 0 before the first
    problem : why it cannot be compared, and on which side; empty where it can
    failed_here : whether that is because of the working tree
    comparison : the verdict; None where it cannot be compared
    """

    rounds: Rounds = field(default_factory=Rounds)
    loops: int = 0
    samples: int = 0
    problem: str = ""
    failed_here: bool = False
    comparison: Comparison | None = None


@dataclass(frozen=True)
class Against:
    """What came of a comparison with a ref.

    Attributes
    ----------
    commit : what the base is
    benchmarks : by name, in the order of the file
    """

    commit: str
    benchmarks: dict[str, Benchmark]


def side_environment(
    root: Path, here: Path, folder: Path, base: Mapping[str, str]
) -> dict[str, str]:
    """Return variables with which Python imports what it imports here from another tree.

    Parameters
    ----------
    root
        The tree to import from.
    here
        The working tree: its folders on Python's path are replaced by those of `root`. An
        environment that lies in it is left as it is.
    folder
        That of the benchmarks, the first on the path.
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


def compare_with(
    ref: str,
    path: Path,
    only: str = "",
    *,
    seconds: float,
    minimal: float = MINIMAL,
) -> Against:
    """Compare the benchmarks of a file on the working tree with those on a ref.

    Parameters
    ----------
    ref
        A commit, tag or branch of the repository that `path` lies in.
    path
        The file with functions ``bench_*``.
    only
        The one benchmark to measure; all by default.
    seconds
        The time limit of the rounds; one that has begun is finished, and one begins in any case.
    minimal
        The smallest change that counts, a ratio.

    Raises
    ------
    WorkloadError
        If the file lies in no repository, does not load on the working tree, or imports code of
        the working tree on both sides.
    UnknownName
        If there is no such ref or benchmark.
    """
    path = path.resolve()
    here = Path(git(path.parent, "rev-parse", "--show-toplevel")).resolve()
    with checked_out(here, ref) as (commit, tree):
        end = perf_counter() + seconds
        contest = _Contest(path, only, here, tree, minimal)
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
            benchmark.comparison = benchmark.rounds.verdict(minimal)
        elif not benchmark.problem:
            benchmark.problem = "it could not be measured within the time limit"
    return Against(commit, contest.benchmarks)


class _Contest:
    """Rounds of a base tree and the working tree, until each benchmark is known or cannot be."""

    def __init__(self, path: Path, only: str, here: Path, tree: Path, minimal: float) -> None:
        self._path, self._only, self._here, self._minimal = path, only, here, minimal
        self._roots = {"base": tree, "working tree": here}
        self.count = 0
        self.benchmarks: dict[str, Benchmark] = {}

    def is_over(self) -> bool:
        """Return whether no benchmark is left to be measured."""
        return self.count > 0 and all(map(self._is_settled, self.benchmarks.values()))

    def round(self, turns: int) -> None:
        """Measure every open benchmark in a fresh process of each side."""
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
                except WorkerDied as error:  # the other benchmarks go on in the next round
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
        return bool(benchmark.problem) or benchmark.rounds.are_enough(self._minimal)

    def _measure(
        self, name: str, benchmark: Benchmark, sides: tuple[Worker, Worker], turns: int
    ) -> None:
        """Add a round of one benchmark."""
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
        """Raise `WorkloadError` if the base side has loaded code of the working tree."""
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
