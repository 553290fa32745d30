"""The wait for other calls, on the simulated clock of ``benchmarks/coalescing.py``."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "coalescing.py"
DELAYS = (0.0, 50e-6, 200e-6, 800e-6)


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(SCRIPT))


@pytest.fixture(scope="module")
def recorded(script: dict[str, Any]) -> dict[str, list[float]]:
    """Return service times as of a small network: one call takes 130 µs, 64 take 800 µs."""
    return {str(n): [120e-6 + 1e-5 * n * wave for wave in (0.9, 1, 1.1)] for n in script["SIZES"]}


@pytest.mark.parametrize(
    "load",
    ["5 % of one at a time", "95 % of one at a time", "70 % of the batched", "bursts of 8",
     "bursts of 40"],
)  # fmt: skip
def test_the_wait_is_about_as_good_as_the_best_fixed_one(
    script: dict[str, Any], recorded: dict[str, list[float]], load: str
) -> None:
    arrivals = script["loads"](recorded, 3000)[load]

    def measured(delay: float | None) -> Any:
        service = script["service_of"](recorded, 1)
        ends = sorted(script["simulate"](arrivals, service, delay))
        return script["measures"](ends[1000:])  # by the others it is learned what batches take

    found = script["against"](measured(None), {delay: measured(delay) for delay in DELAYS})
    assert found["throughput_ratio"] >= 0.95
    assert found["p99_ratio"] <= 1.15  # of 20 tasks; the benchmark has 10,000 and asks for 1.1


def test_all_tasks_end_and_none_before_it_came(
    script: dict[str, Any], recorded: dict[str, list[float]]
) -> None:
    arrivals = script["loads"](recorded, 500)["bursts of 8"]
    ends = script["simulate"](arrivals, script["service_of"](recorded, 1), None)
    assert sorted(came for came, _ in ends) == arrivals
    assert all(end > came for came, end in ends)
