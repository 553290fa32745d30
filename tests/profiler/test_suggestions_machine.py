"""Rules that need peaks or readings of the machine speak about real recordings, and fall silent.

The links are OpenCL's on PoCL, as they are. Where there is no GPU, PoCL's device stands in for one:
it copies and computes for real, under the name of a CUDA device; what detection and NVML say of
that device was recorded of a real one and is replayed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gpuforge as gf
from gpuforge.facts import Device, Machine
from gpuforge.profiler import machine as machine_module
from gpuforge.profiler import recording as recording_module
from gpuforge.profiler.advise import Suggestion, suggestions
from gpuforge.profiler.model import Profile
from gpuforge.runtime.session import current_session
from tests.readings.test_nvidia import Clock, recorded

pytestmark = [
    pytest.mark.usefixtures("opencl"),
    pytest.mark.filterwarnings("default"),  # calls are not placed where they are errors
]
RANDOM = np.random.default_rng(0)
GPU = "opencl:cuda:0"
ENOUGH, READ = 35, "nvmlDeviceGetMemoryInfo"
Program = Callable[[], object]


@contextmanager
def on_opencl(name: str) -> Iterator[None]:
    """Run calls that are pinned to OpenCL on PoCL's device under another name."""
    with gf.session(history=False, fallback=True, backends=["numpy", "opencl"]):
        backend = current_session().find("opencl", isolate=False)
        was, backend.name = backend.name, name or backend.name
        try:
            yield
        finally:
            backend.name = was


def record(program: Program, name: str = "", nvml: Any = None) -> Profile:
    """Return the profile of a program, repeated until `nvml` was read often enough."""
    with on_opencl(name):
        program()
        with gf.profile(peaks=not name) as recording:
            before = nvml.asked.count(READ) if nvml else 0
            program()
            while nvml and nvml.asked.count(READ) < before + ENOUGH:
                program()
    return recording.profile


def said(profile: Profile, rule: str) -> list[Suggestion]:
    return [one for one in suggestions(profile) if one.rule == rule]


@pytest.fixture
def nvml(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A recorded RTX 3080 that detection finds here, read a hundred times a second."""
    made = recorded(corpus, "nv-rtx3080-595-v13-xml")
    made.answers |= {"TotalEnergyConsumption": 0, "TotalEccErrors": 0, "ProcessUtilization": []}
    monkeypatch.setitem(sys.modules, "pynvml", made)
    gpu = Device(
        0, "nvidia", name="NVIDIA GeForce RTX 3080", uuid="GPU-19d6d965",
        memory_total_bytes=10 << 30, compute_capability="8.6",
    )  # fmt: skip
    found = Machine("ok", (gpu,))
    monkeypatch.setattr(machine_module, "machine_now", lambda: found)
    monkeypatch.setattr(machine_module, "LiveProbe", Clock)
    monkeypatch.setattr(recording_module, "SAMPLE_SECONDS", 0.002)
    yield made
    assert made.opened == 0, "NVML was left open"


def pinned(function: Any) -> Any:
    return gf.offload(backend="opencl", isolate=False)(function)


@pinned
def total(x: Any) -> Any:
    return (x * x).sum()


@pinned
def long_total(x: Any) -> Any:
    for _ in range(60):
        x = x * 0.5 + 0.25
    return x.sum()


@pinned
def product(x: Any) -> Any:
    return x @ x


def repeated(function: Any, x: Any, times: int = ENOUGH) -> Program:
    return lambda: [function(x) for _ in range(times)]


def test_copies_slower_than_the_measured_link() -> None:
    table = RANDOM.random((400_000, 8))
    slow = record(repeated(total, table[:, 1]))
    (one,) = said(slow, "slow_transfer")
    assert "the link reaches" in one.evidence[0]
    assert 0.03 <= one.bound_share <= 1
    told = slow.header["peaks"]["opencl:cpu"]
    assert told["to device"]["source"].startswith("measured on 20")
    assert told["memory"]["unknown"].startswith("not measured yet")


def test_copies_as_fast_as_the_link_can() -> None:
    """How fast the link is, is told by the copies themselves: other programs may use it, too."""
    x = RANDOM.random(2_000_000)
    profile = record(repeated(total, x))
    spans = [span for span in profile.spans if span.attributes.get("direction") == "to device"]
    assert [span.bytes for span in spans] == ENOUGH * [x.nbytes]
    rates = [span.bytes / span.duration_ns * 1e9 for span in spans]
    link = profile.header["peaks"]["opencl:cpu"]["to device"] = {"source": "these copies"}
    link["per_second"] = min(rates) / 0.9
    assert not said(profile, "slow_transfer"), "none took 1.2 times as long as the link needs"
    link["per_second"] = 4 * max(rates)
    (one,) = said(profile, "slow_transfer")
    assert one.samples == ENOUGH


def test_nothing_is_said_of_a_link_that_was_not_measured() -> None:
    table = RANDOM.random((400_000, 8))
    with on_opencl(""):
        total(table[:, 1])
        with gf.profile() as recording:
            repeated(total, table[:, 1])()
    assert not said(recording.profile, "slow_transfer")
    link = recording.profile.header["peaks"]["opencl:cpu"]["to device"]
    assert link["unknown"].startswith("not measured yet")


@pytest.mark.parametrize(
    ("rule", "slow", "mended"),
    [
        ("no_overlap", (total, np.float32, 500_000, ENOUGH), (total, np.float32, 500_000, 1)),
        ("double_precision", (total, float, 200_000, ENOUGH), (total, np.float32, 200_000, ENOUGH)),
        ("full_precision_products", (product, np.float32, (64, 64), ENOUGH),
         (product, float, (64, 64), ENOUGH)),
    ],
)  # fmt: skip
def test_what_a_gpu_does(nvml: Any, rule: str, slow: Any, mended: Any) -> None:
    for (function, dtype, shape, times), speaks in ((slow, True), (mended, False)):
        x = RANDOM.random(shape).astype(dtype)
        profile = record(repeated(function, x, times), GPU)
        assert bool(said(profile, rule)) is speaks, (rule, speaks)
        assert profile.header["machine"]["devices"][0]["compute_capability"] == "8.6"


def test_a_gpu_that_slows_itself_down(nvml: Any) -> None:
    work = repeated(long_total, RANDOM.random(50_000))
    nvml.mask, nvml.answers["ClockInfo/0"] = 0x20, 1000
    (one,) = said(record(work, GPU, nvml), "throttling")
    assert "NVIDIA GeForce RTX 3080 was slowed down for 100.0 % of the time" in one.title
    assert "temperature" in one.evidence[0]
    assert "1000 MHz" in one.evidence[1]
    nvml.mask = 0
    cool = record(work, GPU, nvml)
    assert not said(cool, "throttling")
    assert {"clock", "temperature", "throttled"} <= {s.name for s in cool.series}


def test_a_gpu_with_room_left(nvml: Any) -> None:
    work = repeated(long_total, RANDOM.random(50_000))
    nvml.answers["MemoryInfo"] = SimpleNamespace(total=10 << 30, used=1 << 30)
    nvml.answers["UtilizationRates"] = SimpleNamespace(gpu=30, memory=10)
    (one,) = said(record(work, GPU, nvml), "small_batches")
    assert "30.0 % of the time and 10.0 % of its memory" in one.title
    nvml.answers["UtilizationRates"] = SimpleNamespace(gpu=95, memory=10)
    assert not said(record(work, GPU, nvml), "small_batches")


def test_a_gpu_that_was_not_used_is_not_spoken_of(nvml: Any) -> None:
    nvml.mask = 0x20
    nvml.answers["UtilizationRates"] = SimpleNamespace(gpu=1, memory=0)
    work = repeated(long_total, RANDOM.random(50_000))
    profile = record(work, nvml=nvml)
    assert any(series.device == "gpu 0" for series in profile.series)
    assert not said(profile, "small_batches")
    assert not said(profile, "throttling")


class Throttled(Clock):
    """A CPU as ``/sys`` shows it, which slows down in every second reading if it `slows`."""

    slows = True
    turn = 0

    def list_dir(self, path: str) -> Any:
        return ("cpu0", "cpuidle") if path == "/sys/devices/system/cpu" else super().list_dir(path)

    def read_text(self, path: str) -> Any:
        if path.endswith("scaling_cur_freq"):
            Throttled.turn += 1
            return "3000000\n" if Throttled.turn % 2 or not self.slows else "1200000\n"
        if path.endswith("core_throttle_count"):
            return f"{Throttled.turn // 2 if self.slows else 7}\n"
        return super().read_text(path)


@pytest.mark.parametrize("slows", [True, False])
def test_a_cpu_that_slows_itself_down(slows: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_module, "machine_now", lambda: Machine("no_gpu"))
    monkeypatch.setattr(machine_module, "LiveProbe", Throttled)
    monkeypatch.setattr(recording_module, "SAMPLE_SECONDS", 0.002)
    monkeypatch.setattr(Throttled, "slows", slows)
    monkeypatch.setattr(Throttled, "turn", 0)
    with gf.profile() as recording:
        while Throttled.turn < ENOUGH:
            time.sleep(0.002)
    found = said(recording.profile, "throttling")
    assert bool(found) is slows
    for one in found:
        assert "1200 MHz then, of 3000 MHz" in one.evidence[1]
    clocks = next(one for one in recording.profile.series if one.name == "clock")
    assert clocks.device == "host"
    assert len(clocks.values) >= ENOUGH
