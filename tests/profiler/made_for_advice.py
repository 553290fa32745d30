"""For each rule a profile that it must speak about, and one like it that it must not.

They have the shape that a recording gives. What only a GPU shows is made here alone: pinned memory,
its clock, its units for float64, its lanes, kernels shorter than their start. What a CPU can show
is recorded as well, in `test_suggestions_recorded`.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any

from gpuforge.profiler.model import NO_PARENT, Placement, Profile, Series
from tests.profiler.made import MS, Making

US = 1000
CUDA = "torch:cuda:0"
PEAK = {"per_second": 20e9, "source": "measured"}
LINK = {"peaks": {CUDA: {"to device": PEAK, "from device": PEAK}}}
Pair = tuple[Callable[[], Profile], Callable[[], Profile]]
MADE: dict[str, Pair] = {}


def gpu(**facts: Any) -> dict[str, Any]:
    """Return a header of a machine with one GPU."""
    device = {"index": 0, "vendor": "nvidia", "name": "A GPU", **facts}
    return {**LINK, "machine": {"devices": [device]}}


class Calling(Making):
    """A profile of calls, one after the other, each with its parts."""

    def __init__(self, **header: Any) -> None:
        super().__init__(0, **{**LINK, **header})
        self.now = self.last_run = 0

    def call(
        self, function: str, *parts: tuple[Any, ...], backend: str = CUDA, label: str = "overhead",
        inside: int = NO_PARENT, extra_ns: int = 0, **said: Any,
    ) -> int:  # fmt: skip
        """Add a call made of parts ``(name, label, duration, bytes, attributes)``."""
        took = extra_ns + sum(part[2] for part in parts)
        said = {"function": function, "file": "program.py", "line": 7, "backend": backend} | said
        place = self.span(function, self.now, took, inside=inside, label=label, **said)
        for name, part_label, duration, *rest in parts:
            nbytes, attributes = rest[0] if rest else 0, rest[1] if len(rest) > 1 else {}
            made = self.span(name, self.now, duration, inside=place, label=part_label,
                             nbytes=nbytes, **attributes)  # fmt: skip
            if name == "run":
                self.last_run = made
                device = self.lane(f"{backend} compute", "device")
                self.span(
                    "kernel", self.now, duration, inside=made, lane=device, label="device",
                    **attributes,
                )  # fmt: skip
            self.now += duration
        self.now += extra_ns
        return place

    def work(self, name: str, duration: int, **said: Any) -> int:
        """Add a span of the program's own."""
        place = self.span(name, self.now, duration, **said)
        self.now += duration
        return place


def put(ns: int, nbytes: int, **said: Any) -> tuple[Any, ...]:
    return "put", "transfer", ns, nbytes, {"direction": "to device"} | said


def get(ns: int, nbytes: int, **said: Any) -> tuple[Any, ...]:
    return "get", "transfer", ns, nbytes, {"direction": "from device"} | said


def run(ns: int, **said: Any) -> tuple[Any, ...]:
    return "run", "wait", ns, 0, said


def pair(rule: str) -> Callable[[Callable[[bool], Profile]], Callable[[bool], Profile]]:
    """Enter what makes both profiles of a rule; it is told whether the rule is to speak."""

    def enter(make: Callable[[bool], Profile]) -> Callable[[bool], Profile]:
        MADE[rule] = (lambda: make(True)), (lambda: make(False))
        return make

    return enter


@pair("repeated_transfer")
def weights_again(speaks: bool) -> Profile:
    making = Calling()
    for number in range(40):
        sources = [[99, 10**7, 1 if speaks else number]]
        making.call("solve", put(MS, 10**7, sources=sources), run(MS))
    return making.profile


@pair("round_trip")
def there_and_back(speaks: bool) -> Profile:
    making = Calling()
    for number in range(40):
        there, here = [[number, 10**7, number]], [[1000 + number, 10**7, number]]
        making.call("first", run(MS), get(MS, 10**7, sources=there))
        making.call("second", put(MS, 10**7, sources=there if speaks else here), run(MS))
    return making.profile


@pair("slow_transfer")
def slow(speaks: bool) -> Profile:
    making = Calling()
    for _ in range(40):
        making.call("solve", put(MS, 5 * 10**6 if speaks else 18 * 10**6), run(MS))
    return making.profile


@pair("small_reads")
def flags(speaks: bool) -> Profile:
    making = Calling()
    for _ in range(40):
        reads = [run(MS // 10), get(50 * US, 8)] * (5 if speaks else 1)
        making.call("iterate", *reads, run(MS))
    return making.profile


@pair("device_gaps")
def starved(speaks: bool) -> Profile:
    making = Calling()
    for _ in range(20):
        making.call("solve", run(20 * MS))
        making.work("read the next file", (12 if speaks else 1) * MS)
    return making.profile


@pair("low_device_use")
def idle(speaks: bool) -> Profile:
    making = Calling()
    for _ in range(100):
        making.call("solve", run(MS), extra_ns=(2 * MS if speaks else MS // 10))
    return making.profile


@pair("short_runs")
def mostly_starting(speaks: bool) -> Profile:
    making = Calling()
    for _ in range(40):
        making.call("step", run(50 * US), extra_ns=(200 if speaks else 20) * US)
    return making.profile


@pair("first_calls")
def warm_up(speaks: bool) -> Profile:
    making = Calling()
    for number in range(60):
        making.call("step", ("compile", "overhead", (100 * MS if speaks and not number else 1)),
                    run(MS))  # fmt: skip
    return making.profile


@pair("changing_shapes")
def ever_new(speaks: bool) -> Profile:
    making = Calling()
    for number in range(40):
        shape = (100 + (number if speaks else number % 3), 4)
        making.call("fit", ("compile", "overhead", 10 * MS), run(MS), shape=shape)
    return making.profile


@pair("better_elsewhere")
def pinned_to_the_wrong_one(speaks: bool) -> Profile:
    making = Calling()
    for _ in range(40):
        making.call("norm", put(MS, 8000), run(MS))
    expected = {"numpy": 1e-3 if speaks else 3e-3, CUDA: 2e-3}
    making.profile.placements.append(
        Placement(0, "norm", "(1000,) float64", CUDA, 0.08, 40, expected, 0.04, "asked for")
    )
    return making.profile


@pair("settled_by_numpy")
def twice(speaks: bool) -> Profile:
    making = Calling()
    for number in range(60):
        settles = speaks or number == 0
        rest = [("settle", "host", MS, 0, {"reason": "a result is not finite"})] if settles else []
        making.call("logs", run(MS), *rest)
    return making.profile


@pair("numpy_steps")
def missing_operation(speaks: bool) -> Profile:
    making = Calling()
    for _ in range(40):
        step = ("fallback", "host", (MS if speaks else 10 * US), 0, {"operation": "unique"})
        making.call("groups", run(MS), get(US, 800), step)
    return making.profile


@pair("calls_in_loop")
def row_by_row(speaks: bool) -> Profile:
    making = Calling()
    for _ in range(400):
        making.call("length", backend="numpy", label="host", extra_ns=(20 if speaks else 900) * US)
    return making.profile


@pair("profiler_cost")
def dear_recording(speaks: bool) -> Profile:
    making = Calling()
    for _ in range(100):
        making.work("tiny", 10 * US)
        making.work("long", 10 * MS)
    making.profile.cost_ns = (100 if speaks else 10) * MS
    return making.profile


@pair("no_overlap")
def in_turns(speaks: bool) -> Profile:
    making = Calling(**gpu())
    for _ in range(40):
        place = making.call("solve", put(MS, 2 * 10**7), run(MS))
        if not speaks:
            device = making.lane(f"{CUDA} compute", "device")
            making.span(
                "kernel", making.now - 2 * MS, MS, lane=device, label="device", inside=place
            )
    return making.profile


@pair("full_precision_products")
def products(speaks: bool) -> Profile:
    making = Calling(**gpu(compute_capability="9.0"))
    for _ in range(40):
        making.call("scores", run(MS))
        making.span("matmul", making.now - MS, MS // 2, label="wait", inside=making.last_run,
                    dtype="torch.float32" if speaks else "torch.float64")  # fmt: skip
    return making.profile


@pair("double_precision")
def doubles(speaks: bool) -> Profile:
    making = Calling(**gpu(compute_capability="8.9" if speaks else "9.0"))
    for _ in range(40):
        making.call("orbit", run(MS, dtype="float64"))
    return making.profile


@pair("strided_access")
def columns(speaks: bool) -> Profile:
    making = Calling()
    for _ in range(40):
        said = {"shape": (10**6,), "dtype": "float64", "strides": (64,)} if speaks else {}
        making.call("mean", backend="numpy", label="host", extra_ns=MS, **said)
    return making.profile


@pair("strided_transfer")
def gathered(speaks: bool) -> Profile:
    making = Calling()
    for _ in range(40):
        said = {"strides": (16,)} if speaks else {}
        making.call("solve", put(10 * MS, 10**7, **said), put(MS, 10**7))
    return making.profile


@pair("small_batches")
def room_left(speaks: bool) -> Profile:
    making = Calling(**gpu(memory_total_bytes=8 * 10**9))
    making.call("solve", run(100 * MS))
    times = array("q", range(0, 100 * MS, MS))
    for name, value in (("utilisation", 0.4 if speaks else 0.9), ("memory used", 1e9)):
        values = array("d", [value] * len(times))
        making.profile.series.append(Series(name, "ratio", "gpu 0", times, values))
    return making.profile


@pair("throttling")
def hot(speaks: bool) -> Profile:
    making = Calling(**gpu())
    making.call("solve", run(100 * MS))
    times = array("q", range(0, 100 * MS, MS))
    flags, clock = [float(speaks)] * 50 + [0.0] * 50, 1.2e9 if speaks else 1.98e9
    for name, values in (("throttled", flags), ("clock", [clock] * 50 + [1.98e9] * 50)):
        making.profile.series.append(Series(name, "", "gpu 0", times, array("d", values)))
    return making.profile


@pair("uneven_workers")
def unevenly(speaks: bool) -> Profile:
    making = Making()
    for number in range(4):
        lane = making.lane(f"worker {number}")
        longer = 2 if speaks and number == 3 else 1
        for piece in range(10):
            making.span("tile", piece * longer * MS, longer * MS, lane=lane)
    return making.profile


@pair("input_wait")
def by_turns(speaks: bool) -> Profile:
    making = Calling()
    for _ in range(40):
        making.work("load", 2 * MS if speaks else US)
        making.call("predict", run(3 * MS))
    return making.profile


@pair("separate_steps")
def chain(speaks: bool) -> Profile:
    making = Calling()
    for _ in range(40):
        place = making.call("activate", run(4 * MS))
        for number, name in enumerate(("multiply", "add", "exp", "tanh")):
            size = 8 * 10**6 if speaks else 8000
            making.span(name, making.now - (4 - number) * MS, MS, inside=place + 1, label="wait",
                        operation=name, output_bytes=size)  # fmt: skip
    return making.profile
