"""What a recording holds of the machine: readings in the file, peaks, and why they are missing."""

from __future__ import annotations

import io
import itertools
import threading
from array import array
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpuforge as gf
from gpuforge.facts import Absent, Device, Driver, Failed, Machine
from gpuforge.history import History
from gpuforge.probe import LiveProbe, SnapshotProbe
from gpuforge.profiler import machine as machine_module
from gpuforge.profiler import recording as recording_module
from gpuforge.profiler.gpus import gpu_of
from gpuforge.profiler.machine import _data_sheet
from gpuforge.profiler.model import Profile, Series
from gpuforge.profiler.rates import Rate, rate
from gpuforge.profiler.session_file import Writer, read
from gpuforge.profiler.session_file.chunk import READINGS, encode
from gpuforge.readings.model import DeviceReading
from gpuforge.runtime.backends.numpy import NumpyBackend
from gpuforge.runtime.calibration import peaks, probes
from gpuforge.runtime.staging import CHUNK_BYTES, TO_DEVICE, TO_HOST, WAYS, Lane, Staging

CLOCK = Series("clock", "hertz", "gpu 0", array("q", [5, 9]), array("d", [1.5e9, 0.1]))
HEAT = Series("temperature", "celsius", "gpu 0", array("q", [6]), array("d", [61.5]))


def file_with(*more: bytes) -> io.BytesIO:
    """A session file with two series, and other chunks behind them."""
    file = io.BytesIO()
    Writer(file, {}, 0).write([], series=[CLOCK, HEAT])
    for chunk in more:
        file.write(chunk)
    file.seek(0)
    return file


def test_readings_are_read_as_they_were_written() -> None:
    assert read(file_with()).series == [CLOCK, HEAT]


def test_readings_before_a_crash_are_read() -> None:
    whole = file_with().getvalue()
    longer = file_with(encode(READINGS, {"version": 1, "series": []}, {})).getvalue()
    cut = read(io.BytesIO(longer[: (len(whole) + len(longer)) // 2]))
    assert cut.series == [CLOCK, HEAT]
    assert not cut.complete


@pytest.mark.parametrize("told", [[["x", "y", "z", -1]], [["x", "y", "z", 2]], [["x"]], 3, [[1.5]]])
def test_readings_that_do_not_fit_are_damage(told: Any) -> None:
    columns = {"time": array("q", [1]), "value": array("d", [1.0])}
    found = read(file_with(encode(READINGS, {"version": 1, "series": told}, columns)))
    assert any("only part of the file" in note for note in found.notes)
    assert found.series == [CLOCK, HEAT]


def test_readings_of_a_later_version_are_passed_over() -> None:
    found = read(file_with(encode(READINGS, {"version": 2, "what": "ever"}, {})))
    assert found.series == [CLOCK, HEAT]
    assert any("newer gpuforge" in note for note in found.notes)


def test_what_goes_wrong_with_the_readings_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = threading.Event()

    def broken() -> Any:
        tried.set()
        raise RuntimeError("the driver is gone")

    monkeypatch.setattr(machine_module, "machine_now", broken)
    monkeypatch.setattr(recording_module, "SAMPLE_SECONDS", 0.002)
    with gf.profile(tmp_path / "run.gfp") as recording:
        assert tried.wait(30)
    profile = recording.profile
    assert profile.complete
    assert profile.header["unknown"]["machine"] == "RuntimeError: the driver is gone"
    assert profile.header["unknown"]["peaks"] == "no call ran on a backend"


def test_a_reason_to_slow_down_is_read_on_after_it_ended() -> None:
    watched = machine_module.Watched(Machine("no_gpu"), LiveProbe())
    for at, reasons in enumerate([(), ("power cap",), (), Failed("lost")]):
        watched._gpu(at, DeviceReading(0, "nvidia", throttle_reasons=reasons))
    watched.close()
    found = {series.name: list(series.values) for series in watched.take()}
    assert found == {"throttled": [0.0, 1.0, 0.0], "throttled: power cap": [1.0, 0.0]}


def test_the_share_of_memory_in_use_is_not_the_time_that_tasks_wait_for_it(tmp_path: Path) -> None:
    proc = tmp_path / "sysroot" / "proc"
    (proc / "pressure").mkdir(parents=True)
    (proc / "meminfo").write_text("MemTotal: 8000 kB\nMemAvailable: 2000 kB\n")
    (proc / "pressure" / "memory").write_text("some avg10=12.50 avg60=0.00 avg300=0.00 total=0\n")
    watched = machine_module.Watched(Machine("no_gpu"), SnapshotProbe(tmp_path))
    watched.sample(0)
    watched.close()
    found = {series.name: list(series.values) for series in watched.take()}
    assert (found["memory in use"], found["memory pressure"]) == ([0.75], [0.125])


def machine_of(*gpus: tuple[str, str]) -> dict[str, Any]:
    devices = [{"index": n, "vendor": v, "name": name} for n, (v, name) in enumerate(gpus)]
    return {"machine": {"devices": devices}}


def test_the_header_names_the_driver_of_a_gpu() -> None:
    gpus = Device(0, "nvidia", driver=Driver("nvidia", "560.35")), Device(1, "amd")
    watched = machine_module.Watched(Machine("ok", gpus), LiveProbe())
    watched.close()
    assert [gpu.get("driver") for gpu in watched.header()["devices"]] == ["560.35", None]


def test_which_gpu_a_backend_means() -> None:
    mixed = machine_of(("intel", "UHD"), ("nvidia", "H200"), ("nvidia", "H200"))
    assert gpu_of(mixed, "torch:cuda:1")["index"] == 2
    assert gpu_of(mixed, "cupy:cuda:0")["index"] == 1
    assert gpu_of(mixed, "dpnp:gpu:0") == {}, "any of them"
    assert gpu_of(mixed, "torch:cpu") == gpu_of(mixed, "torch:cuda:7") == {}
    unlike = machine_of(("nvidia", "T4"), ("nvidia", "H200"))
    assert gpu_of(unlike, "torch:cuda:0") == {}, "CUDA counts the fastest first"
    assert gpu_of(machine_of(("amd", "MI300X")), "torch:cuda:0")["index"] == 0
    assert gpu_of({"machine": "none"}, "torch:cuda:0") == gpu_of({}, "torch:cuda") == {}


def test_a_data_sheet_is_named_and_gives_way_to_a_measurement() -> None:
    profile = Profile(machine_of(("nvidia", "NVIDIA H200")))
    gpu = profile.header["machine"]["devices"][0]
    gpu |= _data_sheet(Device(0, "nvidia", name="NVIDIA H200"))
    sheet = rate(profile, "torch:cuda:0", "memory")
    assert isinstance(sheet, Rate)
    assert (sheet.per_second, "data sheet" in sheet.source) == (4.8e12, True)
    told = {"memory": {"per_second": 4e12, "source": "measured"}}
    profile.header["peaks"] = {"torch:cuda:0": told}
    assert rate(profile, "torch:cuda:0", "memory") == Rate(4e12, "measured")
    assert isinstance(rate(profile, "torch:cuda:0", "to device"), Absent)


TICK = 1e-3


class Apart(NumpyBackend):
    """NumPy as a device with memory of its own."""

    name = "apart:gpu:0"
    on_host = False

    def __init__(self) -> None:
        self.copies = 0

    def put(self, array: Any) -> Any:
        self.copies += 1
        return np.array(array)

    def get(self, array: Any) -> Any:
        if self.copies > 50:
            raise RuntimeError("the device was lost")
        return np.array(array)


@pytest.fixture
def ticking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that is timed takes one tick, whatever else the machine does."""
    monkeypatch.setattr(peaks, "perf_counter", itertools.count(0.0, TICK).__next__)


@pytest.mark.usefixtures("ticking")
def test_links_are_measured_when_asked_and_kept(tmp_path: Path) -> None:
    history, backend = History(tmp_path, "here"), Apart()
    asked = {"apart:gpu:0": backend, "gone:gpu:0": None}
    unasked = peaks.known(history, asked, measure=False)
    assert "not measured yet" in unasked["apart:gpu:0"]["to device"]["unknown"]
    assert "closed" in unasked["gone:gpu:0"]["memory"]["unknown"]
    assert backend.copies == 0
    found = peaks.known(history, asked, measure=True)["apart:gpu:0"]
    assert found["to device"]["per_second"] == pytest.approx(peaks.LINK_BYTES / TICK)
    assert found["from device"]["source"].startswith("measured on ")
    copies = backend.copies
    assert peaks.known(history, asked, measure=True)["apart:gpu:0"] == found
    assert backend.copies == copies, "what is kept is not measured again"


def test_a_link_that_fails_is_told_and_not_kept() -> None:
    backend = Apart()
    backend.copies = 51
    history = History(None, "here")
    found = peaks.known(history, {backend.name: backend}, measure=True)[backend.name]
    assert "the device was lost" in found["from device"]["unknown"]


def test_times_that_disagree_give_no_peak(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ends = itertools.accumulate(n * n * TICK for n in itertools.count())
    monkeypatch.setattr(peaks, "perf_counter", ends.__next__)
    monkeypatch.setattr(probes, "STEADY_FACTOR", 1.1)
    found = dict(peaks.measure(History(tmp_path, "here"), NumpyBackend(), Apart()))
    assert "its times vary too much" in found["to device"]["unknown"]


@pytest.mark.usefixtures("ticking")
def test_peaks_of_the_host_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peaks, "MEMORY_BYTES", (1 << 20,))
    monkeypatch.setattr(peaks, "SIDES", (64, 128))
    history, host = History(tmp_path, "here"), NumpyBackend()
    found = dict(peaks.measure(history, host, host))
    assert set(found) == {"memory", "float32", "float64"}
    assert found["memory"]["per_second"] == pytest.approx(3 * (1 << 20) / TICK)
    assert found["float64"]["per_second"] == pytest.approx(2 * 128**3 / TICK)
    assert not list(peaks.measure(history, host, host)), "all are kept"
    told = peaks.known(history, {"numpy": host}, measure=False)["numpy"]
    assert "nothing is transferred" in told["to device"]["unknown"]


@pytest.mark.parametrize("way", WAYS)
def test_a_link_with_pinned_memory_is_measured_without_staging(way: str) -> None:
    chunks = np.zeros((2, CHUNK_BYTES), np.uint8)
    done: list[str] = []

    def queue(target: Any, source: Any) -> None:
        np.copyto(target, source)
        done.append("copy")

    lane = Lane((chunks[0], chunks[1]), lambda: None, queue, lambda: "event", done.append)
    there = np.ones(CHUNK_BYTES, np.uint8)
    seconds = Staging(lambda: lane).link_seconds(way, there)
    assert 0 < seconds < 10
    assert done.count("copy") == 4 * done.count("event")
    assert there.any() == (way == TO_HOST) and chunks.any() == (way == TO_HOST)
    assert TO_DEVICE in WAYS
