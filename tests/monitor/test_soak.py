"""The long run of ``benchmarks/soak.py``: a few seconds of it, and how its trends are judged."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from benchmarks.soaking import sample, trend

ROOT = Path(__file__).parents[2]
LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux's /proc")
COUNT = 100
TIMES = [30.0 * number for number in range(COUNT)]


def series(seed: int, growth: float = 0.0) -> list[float]:
    """Return readings that are like the one before, around 100, and what grows by `growth`."""
    rng, noise, found = np.random.default_rng(seed), 0.0, []
    for number in range(COUNT):
        noise = 0.6 * noise + rng.normal()
        found.append(100.0 + noise + growth * number / COUNT)
    return found


def test_growth_that_matters_is_found_and_where_there_is_none_it_is_excluded() -> None:
    grown = [trend.judge(TIMES, series(seed, 10.0), 0.05, 0.0).verdict for seed in range(20)]
    assert grown.count(trend.GROWS) >= 18
    level = [trend.judge(TIMES, series(seed), 0.05, 0.0).verdict for seed in range(20)]
    assert level.count(trend.STEADY) >= 18 and trend.GROWS not in level


def test_growth_that_is_proven_but_small_does_not_matter() -> None:
    found = trend.judge(TIMES, series(1, 10.0), 0.5, 0.0)
    assert found.low > 0 and found.verdict == trend.STEADY


def test_a_few_outliers_are_no_trend() -> None:
    values = [50.0] * COUNT
    values[-3:] = [500.0] * 3
    found = trend.judge(TIMES, values, 0.05, 0.0)
    assert (found.growth, found.verdict) == (0.0, trend.STEADY)


def test_a_descriptor_lost_every_ten_minutes_is_found() -> None:
    values = [18.0 + number // 20 for number in range(COUNT)]
    assert trend.judge(TIMES, values, 0.0, 2.0).verdict == trend.GROWS


def test_noise_that_hides_what_would_matter_is_undecided_and_few_readings_say_nothing() -> None:
    rng = np.random.default_rng(0)
    values = list(100.0 + 60.0 * rng.normal(size=COUNT))
    assert trend.judge(TIMES, values, 0.05, 0.0).verdict == trend.UNDECIDED
    assert trend.judge(TIMES[:5], values[:5], 0.05, 0.0).verdict == trend.TOO_SHORT


@LINUX
def test_what_a_process_holds_is_read() -> None:
    before = sample.look(os.getpid())
    with open(__file__):
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        seen = sample.look(os.getpid())
        child.communicate(b"\n")
    assert seen["descriptors"] == before["descriptors"] + 2  # the file, and the pipe
    assert seen["children"] == before["children"] + 1 and seen["children_memory_bytes"] > 0
    assert seen["memory_bytes"] > 2**20 and seen["threads"] >= 1
    assert sample.look(os.getpid())["children"] == before["children"]


@LINUX
def test_a_short_run_works_without_a_wrong_result_and_ctrl_c_ends_it_with_what_it_has(
    tmp_path: Path,
) -> None:
    out = tmp_path / "soak.json"
    command = [sys.executable, str(ROOT / "benchmarks" / "soak.py"), "--minutes", "60"]
    command += ["--every", "1", "--backends", "", "--out", str(out)]
    run = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")}, start_new_session=True,
    )  # fmt: skip
    assert run.stdout
    lines = [run.stdout.readline() for _ in range(4)]
    run.send_signal(signal.SIGTERM)  # as Ctrl-C, even where that is ignored
    rest, error = run.communicate(timeout=120)
    assert all("MiB" in line for line in lines), (lines, error)
    assert run.returncode == 3 and "0 wrong" in rest, (rest, error)  # too few readings to judge
    found = json.loads(out.read_text())
    assert found["interrupted"] and not found["wrong"] and len(found["samples"]) >= 4
    assert [one["profiled"] for one in found["samples"][:4]] == [False, False, True, False]
    kinds = {"calls on NumPy", "items of maps", "tasks", "fault: a worker dies"}
    assert (
        kinds
        <= found["calls"].keys()
        == {kind for one in found["samples"] for kind in one["seconds"]}
    )
    assert {one["verdict"] for one in found["trends"].values()} == {trend.TOO_SHORT}
