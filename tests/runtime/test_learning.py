"""What a session learns, explains, sums up and hands to the next process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpuforge as gf
from gpuforge.history import FILE, History
from gpuforge.runtime import demand
from gpuforge.runtime.calibration import probes as calibration
from gpuforge.runtime.calibration.fingerprint import describe_machine, machine_fingerprint
from gpuforge.runtime.calibration.probes import (
    PROBES,
    SIZES,
    calibrate,
    forget,
    measure_points,
    plan_probes,
)
from gpuforge.runtime.demand import Demand, Wanted
from gpuforge.runtime.execution import summary
from gpuforge.runtime.function.reading import CHAIN, LOOP
from gpuforge.runtime.libraries import Library
from gpuforge.runtime.placement.policy import NUMPY, Candidate, Kind, Policy
from gpuforge.runtime.placement.priors import CONSTANT, Priors, classify
from gpuforge.runtime.session import current_session
from gpuforge.runtime.startup.opening import Openings

from .conftest import first_device, places, same

X = np.random.default_rng(1).random(200_000)


def heavy(x: Any) -> Any:
    xp = gf.namespace(x)
    return xp.exp(x) * xp.sin(x) + xp.tanh(x)


def test_timings_are_kept_and_found_by_the_next_session(other: str, tmp_path: Path) -> None:
    folder = str(tmp_path)
    with gf.session(cache_folder=folder, backend=other):
        placed = gf.offload(heavy)
        for _ in range(5):
            placed(X)
        assert places(placed) == {first_device(other): 5}
    with gf.session(cache_folder=folder):
        placed = gf.offload(heavy)
        placed(X)
        text = str(placed.explain(X))
    row = next(line for line in text.splitlines() if first_device(other) in line or other in line)
    assert "learned" in row or "not loaded" in row


def test_the_fingerprint_changes_with_the_allowed_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    before = machine_fingerprint()
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert machine_fingerprint() != before
    assert {"cpu", "cores", "numpy"} <= set(describe_machine())


def test_a_backend_is_tried_without_being_asked_for(torch: Any, tmp_path: Path) -> None:
    chosen = {"backends": ["numpy", "torch:cpu"], "explore_share": 1, "cache_folder": str(tmp_path)}
    with gf.session(**chosen) as held:
        held.find("torch:cpu")
        placed = gf.offload(heavy)
        placed(X)
        kind = next(iter(placed.stats().kinds.values())).kind
        curve = kind.curve("torch:cpu")
        for _ in range(1000):  # how soon depends on what each call takes
            if curve.verified or curve.refused:
                break
            placed(X)
        assert curve.verified and not curve.refused
        for _ in range(10):  # NumPy may have been seen too seldom to compare with
            placed(X)
        choice = placed.explain(X)
        totals = {row.backend: row.total_seconds for row in choice.rows if row.total_seconds}
        assert len(totals) == 2
        assert totals[choice.choice] == min(totals.values())


class TestExplanation:
    def test_shows_only_measured_numbers(self, quiet_session: Any) -> None:
        placed = gf.offload(heavy)
        explanation = placed.explain(X)
        assert explanation.choice == "numpy"
        assert all(row.total_seconds is None for row in explanation.rows)
        for _ in range(3):
            placed(X)
        known = {row.backend: row for row in placed.explain(X).rows}
        assert known["numpy"].total_seconds and known["numpy"].transfer_seconds == 0.0
        for name, row in known.items():
            if name != "numpy":
                assert (row.total_seconds is None) or "learned" in row.evidence

    def test_transfer_and_run_add_up(self, other: str, quiet_session: Any) -> None:
        placed = gf.offload(backend=other)(heavy)
        for _ in range(3):
            placed(X)
        row = next(r for r in placed.explain(X).rows if r.backend == first_device(other))
        assert row.transfer_seconds is not None and row.run_seconds is not None
        assert row.total_seconds == pytest.approx(row.transfer_seconds + row.run_seconds)

    def test_reads_as_a_table(self, quiet_session: Any) -> None:
        placed = gf.offload(heavy)
        placed(X)
        text = str(placed.explain(X))
        assert "heavy(float64[200000])" in text
        assert "backend" in text and "<- chosen" in text
        assert "of the calls'" in text

    def test_nothing_is_run(self, quiet_session: Any) -> None:
        ran: list[int] = []

        @gf.offload
        def counted(x: Any) -> Any:
            ran.append(1)
            return x

        counted.explain(X)
        assert not ran


class TestSummary:
    def test_counts_and_reasons(self, other: str) -> None:
        with gf.session(history=False):
            placed = gf.offload(backend=other, fallback=True)(heavy)
            written = gf.offload(lambda x: x)
            for _ in range(5):
                placed(X)
            written("text")
            found = {f.name.split(".")[-1]: f for f in summary.collect().functions}
        counted = {name: calls for name, calls, _ in found["heavy"].placements}
        assert counted == {first_device(other): 5}
        assert found["heavy"].calls == 5
        assert found["<lambda>"].as_written == (("no NumPy array among the arguments", 1),)


class TestCalibration:
    def test_measures_keeps_and_resumes(self, torch: Any, tmp_path: Path) -> None:
        with gf.session(cache_folder=str(tmp_path)) as held:
            backend = held.find("torch")
            history = History(tmp_path, "m")
            points = calibrate(history, held.reference, [backend], limit=60)
            first = [next(points) for _ in range(3)]
            points.close()
            again = next(calibrate(history, held.reference, [backend], limit=60))
        kept = {(p.probe, p.size) for p in first if p.ratio is not None}
        assert (again.probe, again.size) not in kept
        table = Priors(history).table
        found = sum(len(rows) for b in table.values() for rows in b.values())
        assert found == len(kept) + (again.ratio is not None)
        forget(history)
        assert Priors(history).table == {}
        assert len(plan_probes(history, [backend])) == len(PROBES) * len(SIZES)

    def test_times_that_disagree_are_not_kept(
        self, torch: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        times = (1e-3 * 3**turn for turn in range(1000))
        monkeypatch.setattr(calibration, "_fastest_in_a_row", lambda call: call() or next(times))
        history = History(tmp_path, "m")
        with gf.session(history=False) as held:
            found = calibrate(history, held.reference, [held.find("torch")], limit=60)
            point = next(found)
            found.close()
        assert point.unsteady and point.ratio is None
        assert Priors(history).table == {}

    def test_no_call_is_begun_after_the_limit(
        self, torch: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        clock = iter(range(10_000))
        monkeypatch.setattr(calibration, "perf_counter", lambda: float(next(clock)))
        ran: list[int] = []

        def probe(x: Any) -> Any:
            ran.append(1)
            return x + 1

        monkeypatch.setattr(calibration, "PROBES", {"light": probe})
        with gf.session(history=False) as held:
            backends = [held.find("torch")]
            points = list(calibrate(History(tmp_path, "m"), held.reference, backends, limit=20))
        assert len(ran) <= 20
        assert points == [] or points[-1].size == SIZES[0]

    def test_no_time_left_measures_nothing(self, torch: Any, tmp_path: Path) -> None:
        with gf.session(history=False) as held:
            found = list(calibrate(History(tmp_path, "m"), held.reference, [], limit=0))
            backends = [held.find("torch")]
            found += list(calibrate(History(tmp_path, "m"), held.reference, backends, limit=0))
        assert found == []

    def test_a_reference_that_fails_gives_no_ratio(
        self, other: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(x: Any) -> Any:
            raise MemoryError("none left")

        with gf.session(history=False) as held:
            backend = held.find(other)
            monkeypatch.setitem(PROBES, "light", refuse)
            [point] = measure_points("light", held.reference, [backend], 256)
        assert point.ratio is None
        assert point.reason == "numpy: MemoryError: none left"

    def test_every_probe_runs_or_says_why_not(self, other: str) -> None:
        with gf.session(history=False) as held:
            backend = held.find(other)
            for name in PROBES:
                [point] = measure_points(name, held.reference, [backend], 256)
                assert (point.ratio is None) == bool(point.reason)
                assert not point.unsteady or "disagree" in point.reason
                assert point.ratio is None or point.ratio > 0

    @pytest.mark.parametrize(
        "content", [None, 3, [], {"ratios": 3}, {"ratios": {"fft": [1]}},
                    {"ratios": {"fft": {"torch:cpu": [[1, -2]]}}}, {"ratios": {"x": {"y": "z"}}}]
    )  # fmt: skip
    def test_a_broken_calibration_counts_as_none(self, content: Any, tmp_path: Path) -> None:
        history = History(tmp_path, "m")
        history.keep_constant(CONSTANT, content)
        assert Priors(history).table == {}
        found = Priors(history).of(["fft"])("torch:cpu", 100, 1.0)
        assert found is not None
        assert found.evidence.startswith("not calibrated")

    def test_operations_have_a_class(self) -> None:
        assert classify(["namespace", "sum", "linalg", "svd"]) == "linalg"
        assert classify(["exp", "sum"]) == "heavy"
        assert classify([]) == "light"

    def test_command_prints_ratios_as_text_and_json(self, torch: Any, tmp_path: Path) -> None:
        environment = {**os.environ, "GPUFORGE_CACHE_FOLDER": str(tmp_path),
                       "GPUFORGE_BACKENDS": "torch"}  # fmt: skip
        command = [sys.executable, "-m", "gpuforge", "calibrate", "--json"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        content = json.loads(done.stdout)
        assert content["schema_version"] == 1
        kept = sum(len(points) for by in content["time_over_numpy"].values() for points in
                   by.values())  # fmt: skip
        assert kept or "not kept" in done.stderr
        assert "measurements in" in done.stderr
        assert (tmp_path / FILE).exists()
        environment["GPUFORGE_FORBID"] = "torch"
        command = [sys.executable, "-m", "gpuforge", "calibrate", "--reset", "--list"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 2

    def test_command_without_a_second_backend_says_so(self, tmp_path: Path) -> None:
        environment = {**os.environ, "GPUFORGE_CACHE_FOLDER": str(tmp_path),
                       "GPUFORGE_BACKENDS": "numpy"}  # fmt: skip
        command = [sys.executable, "-m", "gpuforge", "calibrate"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 3
        assert "NumPy is the only backend" in done.stderr
        assert done.stdout == ""


def test_history_that_is_broken_changes_no_result(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"broken" * 1000)
    with gf.session(cache_folder=str(tmp_path)):
        placed = gf.offload(heavy)
        for _ in range(5):
            same(heavy(X), placed(X))
        assert "broken" in current_session().history.problem


@pytest.mark.parametrize(("backend", "asked"), [("", True), ("numpy", False)])
def test_no_library_is_wanted_for_calls_that_are_pinned(
    monkeypatch: pytest.MonkeyPatch, backend: str, asked: bool
) -> None:
    """They stay where they are: opening one would hold the program up for nothing."""
    wanted: list[Any] = []
    monkeypatch.setattr(Demand, "want", lambda self, call, *others: wanted.append(call))
    with gf.session(history=False):
        placed = gf.offload(backend=backend)(heavy)
        for _ in range(60):
            placed(X)
    assert bool(wanted) is asked


LOOPING = frozenset([CHAIN, LOOP])


def test_a_loop_takes_longer_than_its_arguments_tell() -> None:
    priors = Priors(History(None, ""))
    few = {"size": 50_000, "nbytes": 400_000, "seconds": 0.03, "expected": 0.03}
    plain = priors.saving("jax", LOOPING - {LOOP}, **few)
    looping = priors.saving("jax", LOOPING, **few)
    assert 0.85 * 0.03 < plain < 0.9 * 0.03  # a tenth of NumPy's time is left
    assert 0.4 * 0.03 < looping < 0.8 * 0.03
    expected = priors.of(LOOPING)("jax:cpu", 50_000, 0.03)
    assert expected is not None
    assert expected.seconds == pytest.approx(0.3 * 0.03)


def test_a_gpu_is_expected_to_gain_on_large_arrays_only() -> None:
    priors = Priors(History(None, ""))
    expected = priors.of(["exp"], 4.0)
    large, small = expected("torch:cuda:0", 1 << 24, 0.15), expected("torch:cuda:0", 1000, 30e-6)
    assert large is not None and small is not None
    assert large.seconds < 0.05
    assert small.seconds > 100e-6
    assert expected("torch", 1000, 1.0) is None  # of no known device


def test_calls_in_blocks_count_beside_what_they_would_take_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wanted: list[Any] = []
    monkeypatch.setattr(Demand, "want", lambda self, call, *others: wanted.append(call))
    with gf.session(history=False) as held:
        held.find("blocks")
        placed = gf.offload(heavy)
        placed(X)
        [record] = placed.stats().kinds.values()
        [key] = record.sizes
        for _ in range(30):
            record.kind.curve(NUMPY).add(key, X.size, 1.0)
            record.kind.curve("blocks:cpu").add(key, X.size, 1e-5)
        placed.stats().held.clear()
        wanted.clear()
        for _ in range(20):
            placed.stats().held.clear()
            placed(X)
        assert places(placed)["blocks:cpu"] >= 20
    assert len(wanted) == 20
    assert all(call.in_blocks and call.expected < call.seconds == 1.0 for call in wanted)


@pytest.mark.parametrize(
    ("devices", "version", "expected"),
    [
        ([], "2.13.0", True),
        ([], "2.13.0+cpu", False),
        (["torch:cpu"], "2.13.0", False),
        (["torch:cuda:0", "torch:cpu"], "2.13.0+cpu", True),
    ],
)
def test_a_build_for_processors_promises_no_gpu(
    devices: list[str], version: str, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demand, "may_have_gpu", lambda: True)
    with gf.session(history=False) as held:
        held.libraries["torch"] = library = Library("torch", version=version)
        if devices:
            held.kept.keep(f"devices:torch@{version}", devices, later=True)
        assert held.demand._may_use_gpu(library) is expected
        wanted = Wanted(0.1, 1000, 0.05, frozenset(["exp"]), 1 << 24, 1 << 26, in_blocks=True)
        held.demand.want(wanted)
        assert bool(library.wanted_seconds or library.price_seconds) is expected


def test_in_the_red_only_what_is_known_to_be_faster_is_tried() -> None:
    kind = Kind()
    for _ in range(5):
        kind.curve(NUMPY).add("s", 1000, 0.1)
        kind.curve("known:gpu:0").add("s", 1000, 0.01)
        kind.curve("slower:gpu:0").add("s", 1000, 0.2)
    for name in ("known:gpu:0", "new:gpu:0"):
        kind.curve(name).missed_seconds = kind.curve(name).cell("s").missed_seconds = 100.0
    names = (NUMPY, "known:gpu:0", "slower:gpu:0", "new:gpu:0")
    candidates = [Candidate(name) for name in names]
    red = Policy(allowance_seconds=-1.0, known_only=True)
    assert red.decide(kind, "s", 1000, candidates).trial == "known:gpu:0"
    without = Policy(allowance_seconds=0.0, invest=False)
    assert not without.decide(kind, "s", 1000, candidates).trial
    fresh = [one for one in candidates if one.name != "known:gpu:0"]
    assert not red.decide(kind, "s", 1000, fresh).trial


def test_a_library_is_kept_for_what_it_saves_beside_better_ones() -> None:
    kind = Kind()
    for name, seconds in ((NUMPY, 0.1), ("torch:cuda:0", 0.01), ("jax:gpu:0", 0.02)):
        for _ in range(5):
            kind.curve(name).add("s", 1000, seconds)
        kind.curve(name).cell("s").busy_seconds = 1.0
    assert kind.potential("jax:gpu:0") > 0
    assert kind.potential("jax:gpu:0", {NUMPY, "torch:cuda:0"}) == 0


def test_explain_tells_what_a_library_took_before_it_is_loaded(quiet_session: Any) -> None:
    quiet_session.libraries["torch"] = Library("torch")
    quiet_session.libraries["jax"] = Library("jax")
    placed = gf.offload(heavy)
    placed(X)
    [record] = placed.stats().kinds.values()
    [key] = record.sizes
    record.kind.curve("torch:cpu").add(key, X.size, 0.25)
    record.kind.curve("jax:cpu").refused = "its results differ"
    told = str(placed.explain(X)).splitlines()
    [row] = [line for line in told if "torch" in line]
    assert row.split()[:4] == ["torch:cpu", "-", "-", "250"]
    assert row.endswith("not loaded: too little to gain so far, as measured before")
    [row] = [line for line in told if "jax" in line]
    assert row.endswith("not a candidate: its results differ")


def test_numpy_in_blocks_is_opened_before_a_library(
    other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[list[str]] = []
    monkeypatch.setattr(Demand, "want", lambda self, *others: self.libraries[other])
    monkeypatch.setattr(
        Openings, "open_in_background",
        lambda self, libraries, by: opened.append([one.name for one in libraries]),
    )  # fmt: skip
    with gf.session(history=False, compiler_process=False):
        placed = gf.offload(heavy)
        for _ in range(60):
            placed(X)
    assert opened[0] == ["blocks", other]


def test_a_call_beside_an_import_is_timed_for_want_of_a_better_one(quiet_session: Any) -> None:
    placed = gf.offload(heavy)
    session = current_session()
    beside: list[float] = []

    def cell() -> Any:
        (record,) = placed.stats().kinds.values()
        (found,) = record.kind.curve("numpy").cells.values()
        return found

    for _ in range(3):
        placed(X)
    before = cell().count
    stop = threading.Event()
    session.background.start(stop.wait, imports=True)  # type: ignore[arg-type]
    try:
        for _ in range(4):
            placed.stats().held.clear()
            placed(X)
            beside += [cell().seconds[-1]]
        assert cell().count == before + 1
        assert cell().provisional
    finally:
        stop.set()
        session.background.wait()
    placed.stats().held.clear()
    placed(X)
    assert cell().count == before + 1
    assert not cell().provisional
    assert not set(beside) & set(cell().seconds)


def test_a_library_has_to_beat_blocks_too() -> None:
    kind = Kind()
    for name, seconds in (("numpy", 0.03), ("blocks:cpu", 0.015), ("jax:cpu", 0.02)):
        for _ in range(5):
            kind.curve(name).add("s", 1000, seconds)
        kind.curve(name).cell("s").busy_seconds = 1.0
    assert kind.potential("blocks:cpu") > 0
    assert kind.potential("jax:cpu") == 0
