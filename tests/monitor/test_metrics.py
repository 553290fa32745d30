"""``gf.metrics()``: values of this process and its devices, averages, log, history."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpuforge as gf
from gpuforge.errors import InvalidSettings
from gpuforge.facts import Absent
from gpuforge.history import History
from gpuforge.monitor import metrics as module
from gpuforge.monitor.history import LEVELS, Recorder
from gpuforge.monitor.sample import Sample
from gpuforge.monitor.values import document, series
from gpuforge.published import BackendUse
from tests.monitor.made import gpu, process, sample

BEGIN = 3600 * 277_777
PLACED = pytest.mark.filterwarnings("default")


@PLACED
def test_the_calls_of_this_process_are_in_it() -> None:
    @gf.offload(backend="numpy")
    def double(x: np.ndarray) -> np.ndarray:
        return x + x

    for _ in range(50):
        double(np.ones(100))
    found = gf.metrics()
    (use,) = found.backends
    assert (use.name, use.calls) == ("numpy", 50) and use.seconds > 0
    assert found.host.cores and found.cost_seconds > 0
    assert gf.metrics().taken_at >= found.taken_at


def test_nothing_goes_on_by_itself() -> None:
    before = threading.active_count()
    gf.metrics()
    assert threading.active_count() == before


def uses(**seconds: float) -> tuple[BackendUse, ...]:
    return tuple(
        BackendUse(name.replace("_", ":"), 2, time, time / 4) for name, time in seconds.items()
    )


def of(found: Sample, environ: dict[str, str] | None = None) -> module.Metrics:
    return module._metrics(found, environ or {})


def test_compute_and_transfer_are_those_of_the_device() -> None:
    mine = process(os.getpid(), backends=uses(numpy=9.0, torch_cuda_0=4.0, cupy_cuda_1=8.0))
    first, second = of(sample((gpu(0), gpu(1)), (mine,))).devices
    assert (first.calls, first.compute_seconds, first.transfer_seconds) == (2, 3.0, 1.0)
    assert (second.calls, second.compute_seconds, second.transfer_seconds) == (2, 6.0, 2.0)
    assert first.utilization_ratio == 0.65
    assert isinstance(first.held_bytes, Absent) and first.own_memory_bytes == 0


def test_the_memory_of_this_process_is_what_the_driver_books_to_it() -> None:
    mine = process(os.getpid())
    reading = gpu(processes=())
    assert of(sample((reading,), (mine,))).devices[0].own_memory_bytes == 0
    hidden = gpu(processes=Absent("other users' processes are not shown"))
    assert isinstance(of(sample((hidden,), (mine,))).devices[0].own_memory_bytes, Absent)


def test_a_number_that_may_mean_either_of_two_gpus_is_not_guessed() -> None:
    mine = process(os.getpid(), backends=uses(torch_cuda_1=4.0))
    different = sample((gpu(0), gpu(1, name="NVIDIA T4")), (mine,))
    assert all(isinstance(one.calls, Absent) for one in of(different).devices)
    by_bus = of(different, {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"})
    assert [one.calls for one in by_bus.devices] == [0, 2]
    alike = sample((gpu(0), gpu(1)), (mine,))
    assert [one.calls for one in of(alike).devices] == [0, 2]
    assert isinstance(of(alike, {"CUDA_VISIBLE_DEVICES": "1,0"}).devices[0].calls, Absent)


def test_the_document_says_why_a_value_is_missing() -> None:
    made = document(sample((gpu(power_watts=Absent("no sensor")),), (process(),)))
    (device,) = json.loads(json.dumps(made, allow_nan=False))["devices"]
    assert device["power_watts"] is None and device["unknown"]["power_watts"] == "no sensor"
    assert made["processes"][0]["published"]["backends"][1]["calls"] == 12_345


def test_averages_are_of_the_last_thousand(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = module._Watch()
    for number in range(1500):
        watch._kept.append({"a": float(number), **({"b": 1.0} if number % 2 else {})})
    assert watch.averages() == {"a": sum(range(500, 1500)) / 1000, "b": 1.0}
    assert "host.memory_total_bytes" in gf.metrics().averages()


def test_the_log_holds_a_document_a_line(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    first = gf.metrics()
    first.log(path)
    first.log(path)
    gf.metrics()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(lines) == 2 and lines[0]["taken_at"] == first.taken_at
    assert set(lines[0]) >= {"host", "devices", "backends", "cost_seconds"}


def test_a_log_stays_where_it_is_when_the_program_goes_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    gf.metrics().log("log.jsonl")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    gf.metrics()
    assert len((tmp_path / "log.jsonl").read_text().splitlines()) == 2
    assert not (tmp_path / "elsewhere" / "log.jsonl").exists()


def test_a_log_that_cannot_be_written_is_an_error_now_and_a_message_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(OSError):
        gf.metrics().log(tmp_path / "none" / "log")
    folder = tmp_path / "folder"
    folder.mkdir()
    gf.metrics().log(folder / "log")
    (folder / "log").unlink()
    folder.rmdir()
    gf.metrics()
    gf.metrics()
    assert caplog.text.count("is no longer written") == 1


def test_a_thread_looks_only_when_asked_and_ends(tmp_path: Path) -> None:
    path, seen = tmp_path / "log", threading.Event()
    gf.metrics(every=0.01).log(path)
    names = [thread.name for thread in threading.enumerate()]
    assert "gpuforge metrics" in names
    while len(path.read_text().splitlines()) < 4:
        assert not seen.wait(0.01)
    gf.metrics(every=0)
    assert "gpuforge metrics" not in [thread.name for thread in threading.enumerate()]


@pytest.mark.parametrize("every", [-1.0, float("nan"), float("inf")])
def test_no_number_of_seconds_is_refused(every: float) -> None:
    with pytest.raises(InvalidSettings):
        gf.metrics(every=every)


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # JAX, if it is loaded
@pytest.mark.filterwarnings("ignore:Exception ignored in:pytest.PytestUnraisableExceptionWarning")
def test_a_forked_child_begins_anew() -> None:
    gf.metrics(every=60.0)
    child = os.fork()
    if child == 0:
        os._exit(0 if gf.metrics().host.cores and threading.active_count() == 1 else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.fixture
def recorder(tmp_path: Path) -> Callable[[], Recorder]:
    return lambda: Recorder(History(tmp_path, "here"))


def test_history_keeps_means_and_maxima_of_stretches(recorder: Any) -> None:
    watcher = recorder()
    for second in range(25):
        watcher.add(sample((gpu(power_watts=100.0 + second),), at=BEGIN + second))
    first, second = recorder().read(10)
    assert (first.began_at, first.seconds) == (BEGIN, 10)
    assert first.means["gpu0.power_watts"] == 104.5 and first.highest["gpu0.power_watts"] == 109.0
    assert second.means["host.utilization_ratio"] == pytest.approx(0.37)
    assert recorder().read(60) == []
    assert [one.began_at for one in recorder().read(10, since=BEGIN + 5)] == [BEGIN + 10]


def test_history_is_bounded(recorder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LEVELS, 10, 3)
    watcher = recorder()
    for second in range(0, 200, 10):
        watcher.add(sample(at=BEGIN + second))
    assert [one.began_at - BEGIN for one in watcher.read(10)] == [160, 170, 180]
    assert len(watcher.read(60)) == 3


def test_rows_that_another_version_wrote_are_passed_over(tmp_path: Path, recorder: Any) -> None:
    store = History(tmp_path, "here")
    for began, text in enumerate(("[]", "{", '{"a": 1}', '{"a": ["x", 2]}', '{"a": [1, 2]}')):
        store.keep_samples([(10, began, text)], LEVELS)
    assert [(one.began_at, one.means) for one in recorder().read(10)] == [(4, {"a": 1.0})]


def test_numbers_of_a_sample_have_names() -> None:
    found = series(sample((gpu(3, power_watts=Absent("x")),)))
    assert found["gpu3.utilization_ratio"] == 0.65 and found["host.memory_total_bytes"] == 2**35
    assert "gpu3.power_watts" not in found and "gpu3.index" not in found
