"""What a program moves, loses to better backends and meets of memory pressure is seen by others."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import gpuforge as gf
from gpuforge import published
from gpuforge.monitor.sample import Sampler
from gpuforge.published import BackendUse
from gpuforge.runtime.evaluation import pressure
from gpuforge.runtime.execution import pipeline
from gpuforge.runtime.execution.decision import lost_seconds
from gpuforge.runtime.placement.policy import Decision, Estimate, Row
from tests.contract.conftest import null_device
from tests.contract.null import NullBackend
from tests.monitor.made_sample import HOSTILE

__all__ = ["null_device"]
pytestmark = pytest.mark.filterwarnings("default")
"""Where warnings are turned into errors, calls are made as written and not placed."""
DEVICE, COUNT = "null:gpu:0", 300


@pytest.fixture
def device(null_device: tuple[Any, NullBackend], monkeypatch: pytest.MonkeyPatch) -> NullBackend:
    """Return the null device, opened, with nothing shown yet and its memory looked at each time."""
    held, found = null_device
    monkeypatch.setattr(pressure, "_EVERY_SECONDS", 0.0)
    monkeypatch.setattr(pressure, "_levels", {})
    held.find("null")
    published.end()
    return found


def use(name: str = DEVICE) -> BackendUse:
    published.count_held()
    (seen,) = published.read_all()
    (found,) = [one for one in seen.backends if one.name == name]
    return found


def double(x: Any) -> Any:
    return x + x


def test_bytes_are_counted_of_considered_and_of_held_calls(device: NullBackend) -> None:
    function, x = gf.offload(backend="null")(double), np.ones(1000)
    before = device.account.put_bytes
    for _ in range(COUNT):
        function(x)
    found = use()
    assert found.calls == COUNT
    assert found.put_bytes == COUNT * x.nbytes == device.account.put_bytes - before
    assert found.got_bytes == COUNT * x.nbytes


def test_a_replayed_held_call_writes_no_counter(
    device: NullBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    function, x = gf.offload(backend="null")(double), np.ones(1000)
    while not any(held.left > 50 and held.replay for held in function._hot[1].values()):
        function(x)
    monkeypatch.setattr(published, "_begin", None)
    board, published._board = published._board, None  # whoever counted now would fail
    try:
        for _ in range(50):
            function(x)
    finally:
        published._board = board


def test_memory_pressure_is_counted_as_it_rises_and_memory_given_back(
    device: NullBackend,
) -> None:
    function = gf.offload(backend="null")(double)
    sizes = iter(range(1, 100))  # each size is considered
    for free in (50, 50, 4, 4, 0, 0, 50, 4):
        device.account.free_percent = free
        function(np.ones(next(sizes)))
    found = use().pressure
    assert (found.warnings, found.criticals, found.exhausted, found.released) == (2, 1, 0, 0)
    device.account.limit_bytes = 8
    assert np.array_equal(function(np.ones(50)), np.full(50, 2.0))
    found = use().pressure
    assert (found.exhausted, found.released) == (1, 1) and found.last_at > 0


def test_what_is_given_back_is_counted_in_bytes(
    device: NullBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    def release() -> None:
        device.account.free_percent = 70

    device.account.free_percent = 30
    monkeypatch.setattr(device, "release", release)
    pressure.release(device)
    pressure.release(device)
    assert (use().pressure.released, use().pressure.released_bytes) == (2, 40)


def test_a_device_that_does_not_say_how_full_it_is_is_used_all_the_same(
    device: NullBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    def memory() -> None:
        raise RuntimeError("the driver does not answer")

    monkeypatch.setattr(device, "memory", memory)
    function, x = gf.offload(backend="null")(double), np.ones(1000)
    for _ in range(200):  # a decision is not cached if its call took unusually long
        assert np.array_equal(function(x), x * 2)
        if any(held.left for held in function._hot[1].values()):
            break
    else:
        pytest.fail("no decision was cached")
    pressure.release(device)
    assert (use().pressure.released, use().pressure.released_bytes) == (1, 0)


def row(backend: str, seconds: float | None) -> Row:
    return Row(backend, None if seconds is None else Estimate(seconds, 0.1, "measured"))


@pytest.mark.parametrize(
    ("rows", "trial", "lost"),
    [
        ([("numpy", 2.0)], "", None),  # nothing to compare with
        ([("numpy", 2.0), ("torch", None)], "", None),
        ([("numpy", 2.0), ("torch", 3.0)], "", 0.0),  # it was made on the best
        ([("numpy", 2.0), ("torch", 1.0)], "", 4.0),
        ([("numpy", 2.0), ("torch", 9.0)], "torch", 3.0),  # what a trial costs
    ],
)
def test_regret_is_against_the_best_backend_known(rows: Any, trial: str, lost: Any) -> None:
    decision = Decision("numpy", trial=trial, rows=tuple([row(*one) for one in rows]))
    assert lost_seconds(decision, "numpy", 5.0) == lost


def test_considered_and_held_calls_show_what_they_lose(
    device: NullBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    decide = pipeline.decide
    known = (row("numpy", 1e-9), row(DEVICE, 1e-3))
    monkeypatch.setattr(pipeline, "decide", lambda call: replace(decide(call), rows=known))
    function, x = gf.offload(backend="null")(double), np.ones(1000)
    for _ in range(COUNT):
        function(x)
    found = use()
    assert found.compared_calls == found.calls == COUNT
    assert found.lost_seconds == pytest.approx(found.seconds, rel=0.1)


def test_another_process_sees_the_counters_and_hostile_names_as_text(
    device: NullBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [HOSTILE.replace("/", "") + "\x1b[2J\n"])
    device.account.free_percent = 2
    gf.offload(backend="null")(double)(np.ones(1000))
    command = [sys.executable, "-m", "gpuforge", "top", "--once"]
    told = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True)
    (process,) = json.loads(told.stdout)["processes"]
    (found,) = process["published"]["backends"]
    assert found["name"] == DEVICE and found["put_bytes"] == found["got_bytes"] == 8000
    assert found["pressure"]["warnings"] == 1
    monkeypatch.setenv("COLUMNS", "200")
    seen = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "memory short 1x" in seen and "\x1b" not in seen
    assert process["published"]["program"].startswith("<img src=x") and "\x1b" not in told.stdout

    client = pytest.importorskip("prometheus_client.parser", reason="prometheus_client is missing")
    from gpuforge.monitor.prometheus import Now, exposition

    sampler = Sampler(devices=())
    text = exposition(Now(sampler.take(), (), 0.0, {}), "")[0].decode()
    sampler.close()
    rows = {
        (one.name, *(one.labels.get(name) for name in ("direction", "event"))): one
        for family in client.text_string_to_metric_families(text)
        for one in family.samples
    }
    moved = rows["gpuforge_process_transfer_bytes_total", "to_device", None]
    assert moved.value == 8000 and moved.labels["backend"] == DEVICE
    assert moved.labels["program"].startswith("<img src=x onerror=")
    assert rows["gpuforge_process_memory_events_total", None, "warning"].value == 1
    assert rows["gpuforge_process_memory_events_total", None, "exhausted"].value == 0


def test_times_of_choices_that_have_ended_are_let_go() -> None:
    function, x = gf.offload(lambda x: np.sort(x)), np.random.default_rng(0).random(4000)
    with gf.session(history=False, backends=["numpy"]):
        for _ in range(6):
            with gf.profile():
                for _ in range(150):
                    function(x)
        ended = function.stats()._ended
        assert ended and sum(len(held.timed) for held in ended) == 0
