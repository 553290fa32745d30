"""The history of benchmark runs, which shows how much times vary from run to run."""

from __future__ import annotations

from gpuforge import settings
from gpuforge.history import BenchmarkRun, History
from gpuforge.profiler.bench.result import BenchResult


def open_history(machine: str) -> History:
    """Return the history of one machine; without the setting ``history`` it stores nothing.

    Parameters
    ----------
    machine
        The digest of the machine in a result's conditions.
    """
    loaded = settings.load().settings
    return History(settings.cache_folder(loaded) if loaded.history else None, machine)


def keep(result: BenchResult) -> History:
    """Store the medians of a result; return the history, whose ``problem`` says if that failed."""
    history = open_history(result.conditions.machine)
    history.keep_runs(
        BenchmarkRun(one.name, result.started, result.version, one.seconds.value)
        for one in result.benchmarks
    )
    return history
