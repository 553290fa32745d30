"""Runs of benchmarks in the store: kept, and read again as what times vary by from run to run."""

from __future__ import annotations

from gpuforge import settings
from gpuforge.history import BenchmarkRun, History
from gpuforge.profiler.bench.result import BenchResult


def open_history(machine: str) -> History:
    """Return the store of one machine; without the setting ``history`` it keeps nothing.

    Parameters
    ----------
    machine
        The digest in the conditions of a result.
    """
    loaded = settings.load().settings
    return History(settings.cache_folder(loaded) if loaded.history else None, machine)


def keep(result: BenchResult) -> History:
    """Keep the medians of a result, and return the store, which says whether that failed."""
    history = open_history(result.conditions.machine)
    history.keep_runs(
        BenchmarkRun(one.name, result.started, result.version, one.seconds.value)
        for one in result.benchmarks
    )
    return history
