"""Results of ``gpuforge bench``: saving, reading, and exporting them for pyperf."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuforge import stored
from gpuforge.errors import WorkloadError
from gpuforge.profiler.compare.conditions import Conditions
from gpuforge.profiler.compare.evidence import Interval, median_interval

FORMATS = ("gpuforge", "pyperf")
READ_AT_MOST_BYTES = 64 * 2**20


@dataclass(frozen=True)
class Measured:
    """The times of one function.

    Attributes
    ----------
    name : file and function: ``bench_ops.py::bench_sum``
    loops : calls in a sample
    blocks : seconds of a call, the median of each block's samples, in order
    notes : what a reader must know about the times
    """

    name: str
    loops: int
    blocks: tuple[float, ...]
    notes: tuple[str, ...] = ()

    @property
    def seconds(self) -> Interval:
        """The median over the blocks, with its confidence interval."""
        return median_interval(self.blocks)


@dataclass(frozen=True)
class BenchResult:
    """The result of one run of ``gpuforge bench``.

    Attributes
    ----------
    started : seconds since 1970
    version : the code's version by ``git describe --always --dirty``; empty if unknown
    """

    started: float
    version: str
    conditions: Conditions
    benchmarks: tuple[Measured, ...]


_KINDS = {kind.__name__: kind for kind in (BenchResult, Measured, Conditions)}


def save(result: BenchResult, path: Path, file_format: str = "gpuforge") -> None:
    """Write a result in gpuforge's or pyperf's format.

    Raises
    ------
    WorkloadError
        If the file cannot be written.
    """
    if file_format == "pyperf":
        text = json.dumps(pyperf_document(result), indent=1)
    else:
        text = stored.dumps(result, indent=1)
    stored.write_output(path, text + "\n")


def read(path: Path) -> BenchResult:
    """Return a result that `save` wrote.

    Raises
    ------
    WorkloadError
        If the file cannot be read, is too large, or is not a bench result.
    """
    hint = "name a file written by 'gpuforge bench --save FILE'"
    try:
        with path.open("rb") as file:
            content = file.read(READ_AT_MOST_BYTES + 1)
    except OSError as error:
        raise WorkloadError(f"{path} cannot be read: {error.strerror}", hint=hint) from None
    try:
        if len(content) > READ_AT_MOST_BYTES:
            raise stored.Damaged("it is larger than 64 MiB")
        found = stored.loads(content.decode("utf-8", "replace"), _KINDS)
        if not isinstance(found, BenchResult):
            raise stored.Damaged("it contains something else")
        for part in (found, found.conditions, *found.benchmarks):
            stored.check(part)
        if not all(
            part.blocks and all(0 < time < float("inf") for time in part.blocks)
            for part in found.benchmarks
        ):
            raise stored.Damaged("a time is missing or is not positive")
    except stored.Damaged as error:
        raise WorkloadError(f"{path} is not a bench result: {error}", hint=hint) from None
    return found


def pyperf_document(result: BenchResult) -> dict[str, Any]:
    """Return a result in pyperf's JSON format, version 1.0; each block is a run with one value."""
    from datetime import UTC, datetime

    facts = {f"gpuforge_{name.replace(' ', '_')}": v for name, v in result.conditions.facts.items()}
    date = datetime.fromtimestamp(result.started, UTC).replace(tzinfo=None)
    common: dict[str, Any] = {
        "unit": "second",
        "date": date.isoformat(sep=" ", timespec="microseconds"),
        **facts,
    }
    if result.version:
        common["gpuforge_version_of_code"] = result.version
    benchmarks = [
        {
            "metadata": {"name": measured.name, "loops": measured.loops},
            "runs": [{"values": [seconds]} for seconds in measured.blocks],
        }
        for measured in result.benchmarks
    ]
    return {"version": "1.0", "metadata": common, "benchmarks": benchmarks}
