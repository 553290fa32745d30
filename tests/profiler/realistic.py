"""A profile as a program of an hour's work would give it: threads, streams, choices, readings."""

from __future__ import annotations

import random

from gpuforge.profiler.model import Placement, Profile, Series
from tests.profiler.made import MS, Making

VERBS = ("load", "decode", "resize", "filter", "solve", "smooth", "project", "sum", "fit", "write")
NOUNS = ("batch", "image", "field", "tile", "grid")


def realistic(steps: int = 60, seed: int = 7) -> Profile:
    """Return a profile of some 60 spans a step, on three threads and three queues of a device."""
    chance = random.Random(seed)
    making = Making(
        started=1_790_000_000.0, gpuforge="0.9.0", python="3.13.1", platform="Linux-6.1-x86_64",
        program=["python", "train.py", "--epochs", "3", "--data", "/data/images"],
        versions={"numpy": "2.3.4", "torch": "2.13.0", "jax": "0.10.2"},
        machine={
            "host": {"platform": "linux", "cpu_model": "AMD EPYC 9354 32-Core Processor",
                     "cores": 32, "memory_total_bytes": 404 << 30},
            "devices": [{"name": "NVIDIA H200", "memory_total_bytes": 141 << 30}],
        },
        peaks={"torch:cuda:0": {
            "to device": {"per_second": 55e9, "source": "measured"},
            "from device": {"per_second": 52e9, "source": "measured"},
        }},
        unknown={"cloud_instance": "no file shows an instance type"},
    )  # fmt: skip
    lanes = [0, making.lane("loader-0"), making.lane("loader-1")]
    compute = making.lane("torch:cuda:0 compute", "device")
    copies = making.lane("torch:cuda:0 copy", "device")
    making.lane("opencl:0 queue", "device")
    for number, lane in enumerate(lanes):
        at = 3 * MS + number * 11 * MS
        run = making.span(
            f"main of {making.profile.lanes[lane].name}", 0, 0, lane=lane, file="train.py", line=101
        )
        for step in range(steps):
            at = _step(making, chance, at, lane, run, compute, copies, step) + chance.randrange(MS)
        making.profile.spans.duration[run] = at + MS
        making.profile.wall_ns = max(making.profile.wall_ns, at + MS)
    profile = making.profile
    profile.cost_ns = 700 * len(profile.spans)
    profile.notes = ["jax: the profile waited at the end of each placed call"]
    profile.placements = [_placement(chance, profile.wall_ns) for _ in range(40)]
    profile.series = _readings(chance, profile.wall_ns)
    return profile


def _step(
    making: Making, chance: random.Random, at: int, lane: int, run: int, compute: int, copies: int,
    step: int,
) -> int:  # fmt: skip
    """Add one step of the program and return when it ended."""
    outer = making.span("step", at, 0, inside=run, lane=lane, file="train.py", line=88)
    for _ in range(chance.randrange(4, 10)):
        name = f"{chance.choice(VERBS)}_{chance.choice(NOUNS)}"
        line = 20 + len(name)
        begun = at
        call = making.span(
            name, at, 0, inside=outer, lane=lane, file="train.py", line=line,
            backend="torch:cuda:0", shape="(1024, 1024)", dtype="float32",
        )  # fmt: skip
        at += chance.randrange(20_000, 400_000)
        work = chance.randrange(20_000, 150_000)
        making.span("place", at, work, inside=call, lane=lane, label="overhead")
        at += work
        nbytes = chance.choice((0, 1 << 20, 64 << 20))
        if nbytes:
            moved = nbytes // 20 + chance.randrange(50_000)
            put = making.span("to device", at, moved, inside=call, lane=lane, label="transfer",
                              nbytes=nbytes, direction="to device",
                              backend="torch:cuda:0", file="train.py", line=20)  # fmt: skip
            making.span("copy", at + 2000, moved - 4000, inside=put, lane=copies, label="device")
            at += moved
        busy = chance.randrange(100_000, 3 * MS)
        wait = making.span("wait", at, busy, inside=call, lane=lane, label="wait")
        making.span(
            f"{name}_kernel", at + 9000, busy - 9000, inside=wait, lane=compute, label="device"
        )
        at += busy + chance.randrange(5000)
        making.profile.spans.duration[call] = at - begun
    making.profile.spans.duration[outer] = at - making.profile.spans.start[outer]
    return at


def _placement(chance: random.Random, wall_ns: int) -> Placement:
    calls = chance.randrange(30, 50)
    predicted = {
        name: chance.uniform(1e-5, 9e-4) for name in ("numpy", "torch:cpu", "torch:cuda:0")
    }
    backend = chance.choice([*[min(predicted, key=predicted.__getitem__)] * 9, "numpy"])
    return Placement(
        chance.randrange(wall_ns), f"{chance.choice(VERBS)}_{chance.choice(NOUNS)}",
        "float32(1024, 1024), float32(1024,)", backend,
        calls * predicted[backend] * chance.uniform(0.8, 1.6), calls, predicted, 1e-3,
        "lowest predicted time; opencl left out: no float64",
    )  # fmt: skip


def _readings(chance: random.Random, wall_ns: int) -> list[Series]:
    memory, pressure = (
        Series("memory", "bytes", "cuda:0"),
        Series("memory in use", "ratio", "cuda:0"),
    )
    busy, power = Series("utilisation", "ratio", "cuda:0"), Series("power", "watts", "cuda:0")
    for at in range(200):
        share = min(0.995, 0.2 + at / 200 + chance.uniform(-0.08, 0.08)) if at < 160 else 0.4
        for series, value in (
            (memory, share * (141 << 30)), (pressure, share), (busy, chance.random()),
            (power, chance.uniform(150, 690)),
        ):  # fmt: skip
            series.times_ns.append(at * wall_ns // 200)
            series.values.append(value)
    return [memory, pressure, busy, power]
