"""Errors that a device or its driver reports: Xid errors and memory errors.

Reports when a counter of uncorrected memory errors or of an Xid rose within the watched period, and
when corrected errors come in at more than ten a minute, over that period or in its last minute. A
constant counter is not reported. Xids that are usually caused by a program's own mistake are marked
as such.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from gpuforge.monitor.anomaly import Anomaly
from gpuforge.monitor.series import Series, Subject
from gpuforge.units import counted

CORRECTED_PER_MINUTE = 10.0
# The Xid errors that, by NVIDIA's list, are usually caused by the application.
PROGRAM_ERRORS = {"13", "31", "43", "45"}


def find(subjects: Sequence[Subject]) -> Iterator[Anomaly]:
    """Yield the devices that reported errors."""
    for subject in subjects:
        for number, series in subject.starting("xids:"):
            if (times := _rise(series)) > 0:
                program = number in PROGRAM_ERRORS
                yield Anomaly(
                    "device_errors", subject.name, "warning" if program else "error",
                    f"the driver reported Xid {number} {counted(round(times), 'time')}"
                    + (": usually an error in the program that was running" if program else ""),
                    "run 'dmesg | gpuforge explain -' to find the cause",
                )  # fmt: skip
        if (times := _rise(subject.series.get("ecc_uncorrected", ()))) > 0:
            yield Anomaly(
                "device_errors", subject.name, "error",
                f"{counted(round(times), 'uncorrected memory error')}: results may be wrong",
                "stop the programs on this GPU, then run 'gpuforge doctor gpu_health'",
            )  # fmt: skip
        whole = subject.series.get("ecc_corrected", ())
        for corrected in (whole, [one for one in whole if one[0] >= whole[-1][0] - 60]):
            minutes = max(1.0, (corrected[-1][0] - corrected[0][0]) / 60) if corrected else 1.0
            if _rise(corrected) > CORRECTED_PER_MINUTE * minutes:
                yield Anomaly(
                    "device_errors", subject.name, "warning",
                    f"{_rise(corrected):.0f} memory errors were corrected within {minutes:.0f} min",
                    "the memory may be failing: run 'gpuforge doctor gpu_health' and watch it",
                )  # fmt: skip
                break


def _rise(series: Series) -> float:
    """Return the total increase of a counter; after a reset it counts from 0."""
    return sum(
        max(0.0, after - before if after >= before else after)
        for (_, before), (_, after) in pairwise(series)
    )
