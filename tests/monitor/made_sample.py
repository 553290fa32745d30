"""Samples of a machine that is not there: two GPUs of which one leaks, and two programs."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

from gpuforge.facts import Absent
from gpuforge.monitor.sample import ProcessSample, Sample
from gpuforge.published import BackendUse, Pressure, Published
from gpuforge.readings.model import DeviceReading, HostReading, ProcessOnDevice

GIB = 2**30
HOSTILE = "<img src=x onerror=\"document.title='owned'\"></script><b>&amp;"


def sample(n: int = 0, *, taken_at: float | None = None, programs: int = 2) -> Sample:
    """Return the sample `n` seconds after the programs began."""
    return Sample(
        time.time() if taken_at is None else taken_at,
        HostReading(
            cores=16, utilization_ratio=0.3 + 0.2 * math.sin(n / 7), memory_total_bytes=128 * GIB,
            memory_available_bytes=90 * GIB, swap_used_bytes=0, swap_total_bytes=0,
            load_averages=(2.0, 1.5, 1.0), cpu_pressure_ratio=Absent("no PSI in this kernel"),
        ),
        (_gpu(0, n), _gpu(1, n)),
        tuple(_process(k, n) for k in range(programs)),
        0.001,
    )  # fmt: skip


def _gpu(index: int, n: int) -> DeviceReading:
    return DeviceReading(
        index, "nvidia", "NVIDIA H100 80GB", f"0000:0{index}:00.0", f"GPU-{index}{index}",
        utilization_ratio=0.9 + 0.05 * math.sin(n / 5 + index),
        memory_used_bytes=round((20 + index * n / 30) * GIB), memory_total_bytes=80 * GIB,
        memory_activity_ratio=0.4, power_watts=400.0 + 20 * math.cos(n / 9), energy_joules=3.6e6,
        temperature_celsius=66.0 + index, temperature_limit_celsius=87.0, core_clock_hertz=1.7e9,
        core_clock_max_hertz=1.98e9, throttle_reasons=("temperature",) if index else (),
        link_width=4 if index else 16, link_width_max=16,
        link_received_bytes_per_second=2e9, link_sent_bytes_per_second=1e9,
        ecc_uncorrected=0, ecc_corrected=2,
        xids=(79,) if index and n > 300 else (),
        processes=(ProcessOnDevice(4711, 19 * GIB),),
    )  # fmt: skip


def _process(k: int, n: int) -> ProcessSample:
    shown = Published(
        pid=4711 + k, program="train.py" if k == 0 else HOSTILE, started_at=1e9, updated_at=1e9 + n,
        span=HOSTILE if k == 0 else "", queued=3 + k, running=1, done=7 * n, failed=0, batches=n,
        settled=1, retries=0,
        backends=(BackendUse("numpy", 10 * n, 0.4 * n, 0.0),
                  BackendUse("torch:cuda:0", 90 * n, 0.5 * n, 0.1 * n, 4096 * n, 512 * n, 30 * n,
                             0.01 * n, Pressure(1, 1, 2, 3, 5 * GIB, 1e9 + n))),
    )  # fmt: skip
    return ProcessSample(shown, resident_bytes=3 * GIB, cpu_ratio=1.2)


class Producer:
    """Gives samples a second apart, however fast they are taken; may end a program, fail, hang."""

    def __init__(self, *, past: int = 0, clock: Callable[[], float] = time.time) -> None:
        self.n, self.taken, self.programs, self.fails = 0, 0, 2, False
        self.goes_on = threading.Event()
        self.goes_on.set()
        self._clock, self._past = clock, past

    def take(self) -> Sample:
        if self.fails:
            raise OSError("the driver does not answer")
        self.goes_on.wait()
        self.taken += 1
        self.n += 1
        moment = self._clock() - max(0, self._past - self.n)
        return sample(self.n, taken_at=moment, programs=self.programs)


FACTS = {
    "machine": {
        "host": {"platform": "linux", "cpu_model": "made", "cores": 16, "unknown": {}},
        "devices": [],
    },
    "health": "no problem found",
    "environment": ["recommended environment: pytorch"],
    "findings": [
        {"check": "gpu_access", "state": "warning", "message": HOSTILE, "steps": ["do <b>this</b>"]}
    ],
}
