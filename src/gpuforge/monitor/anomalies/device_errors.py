"""Errors that a device or its driver reported: Xid numbers and memory errors.

It speaks when a counter of uncorrected memory errors or of an Xid number rose within what is
watched, and when corrected errors come in by more than ten a minute. A counter that stands still
is old news. Xids that a program's own mistake causes are named as such.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from gpuforge.monitor.anomaly import Anomaly
from gpuforge.monitor.series import Series, Subject

CORRECTED_PER_MINUTE = 10.0
# Of NVIDIA's list of Xid errors: those that an application's fault usually causes.
OF_PROGRAMS = {"13", "31", "43", "45"}


def find(subjects: Sequence[Subject]) -> Iterator[Anomaly]:
    """Yield the devices that reported errors."""
    for subject in subjects:
        for number, series in subject.starting("xids:"):
            if (times := _rise(series)) > 0:
                program = number in OF_PROGRAMS
                yield Anomaly(
                    "device_errors", subject.name, "warning" if program else "error",
                    f"the driver reported Xid {number} ({times:.0f} times)"
                    + (": usually an error in the program that was running" if program else ""),
                    "run 'dmesg | gpuforge explain -' to find the cause",
                )  # fmt: skip
        if (times := _rise(subject.series.get("ecc_uncorrected", ()))) > 0:
            yield Anomaly(
                "device_errors", subject.name, "error",
                f"{times:.0f} memory errors could not be corrected: results may be wrong",
                "stop the programs on this GPU, then run 'gpuforge doctor gpu_health'",
            )  # fmt: skip
        corrected = subject.series.get("ecc_corrected", ())
        minutes = (corrected[-1][0] - corrected[0][0]) / 60 if corrected else 0.0
        if _rise(corrected) > CORRECTED_PER_MINUTE * max(1.0, minutes):
            yield Anomaly(
                "device_errors", subject.name, "warning",
                f"{_rise(corrected):.0f} memory errors were corrected within {minutes:.0f} min",
                "the memory may be failing: run 'gpuforge doctor gpu_health' and watch this GPU",
            )  # fmt: skip


def _rise(series: Series) -> float:
    """Return what a counter rose by in all; one that begins again at 0 counts from there."""
    return sum(
        max(0.0, after - before if after >= before else after)
        for (_, before), (_, after) in pairwise(series)
    )
