"""Calls that wait together: is the wait as good as the best fixed one, chosen in hindsight?

Replays recorded service times of batches (`--record` measures them: two kinds of small calls
in PyTorch, stacked, computed and taken apart) on a simulated clock, at eight levels of load. The
queue's own rules decide; the fixed delays are tried one after another, and the best is chosen for
throughput and for p99 separately.

`--live TEXT` instead submits the loads with that text in their name in real time to real threads.
The queue and the fixed delays take turns in random order, several rounds long, and what is compared
are the medians of the rounds: whatever holds the process up once would else fall on whoever runs.

usage: coalescing.py [--record] [--live TEXT] [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from gpuforge.runtime.executor.lane import Batch, Lane
from gpuforge.runtime.executor.schedule import Schedule
from gpuforge.runtime.executor.task import DEFAULT, Task

RESULTS = Path(__file__).parent / "results"
SERVICE = RESULTS / "coalescing_service.json"
SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
TASKS, SEEDS = 5_000, (1, 2, 3)
MAX_BATCH = 64
STATIC_DELAYS = (0.0, 25e-6, 50e-6, 100e-6, 200e-6, 400e-6, 800e-6, 3.2e-3)
LIVE_DELAYS, LIVE_TASKS, LIVE_SECONDS, ROUNDS = (0.0, 400e-6, 1.6e-3, 5e-3), 3000, 2.0, 5
SLOWER = 10
"""Live, everything takes ten times as long: the clock of a sleeping thread is no finer."""
Service = Callable[[int], float]


def record() -> dict[str, dict[str, list[float]]]:
    """Measure batches of two kinds of call in PyTorch: stacked, computed, taken apart."""
    import numpy as np
    import torch

    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    weights = {size: torch.from_numpy(rng.normal(size=(size, size)) / size) for size in (32, 64)}

    def layers(x: Any, size: int, count: int) -> Any:
        for _ in range(count):
            x = torch.tanh(x @ weights[size])
        return x

    kinds = {
        "products of 32x32": ([rng.normal(size=(32, 32)) for _ in range(64)], 32, 2),
        "ten layers over vectors of 64": ([rng.normal(size=64) for _ in range(64)], 64, 10),
    }
    times: dict[str, dict[str, list[float]]] = {
        kind: {str(size): [] for size in SIZES} for kind in kinds
    }
    for _ in range(200):
        for kind, (calls, width, count) in kinds.items():
            for size in SIZES:
                start = time.perf_counter()
                list(layers(torch.from_numpy(np.stack(calls[:size])), width, count).numpy())
                times[kind][str(size)].append(time.perf_counter() - start)
    # What another program held up says nothing of the batch: the slower half is left out.
    return {
        kind: {size: sorted(seconds)[: len(seconds) // 2] for size, seconds in rows.items()}
        for kind, rows in times.items()
    }


def service_of(recorded: dict[str, list[float]], seed: int) -> Service:
    """Return how long a batch takes: drawn from the recorded times, between two sizes by a line."""
    rng = random.Random(seed)
    sizes = sorted(map(int, recorded))

    def service(calls: int) -> float:
        at = rng.random()

        def drawn(size: int) -> float:
            values = recorded[str(size)]
            return values[int(at * len(values))]

        below = max(size for size in sizes if size <= calls)
        above = min(size for size in sizes if size >= calls)
        share = (calls - below) / (above - below) if above > below else 0.0
        return (1 - share) * drawn(below) + share * drawn(above)

    return service


def middle(recorded: dict[str, list[float]], size: int) -> float:
    values = sorted(recorded[str(size)])
    return values[len(values) // 2]


def poisson(rate: float, seed: int, count: int = TASKS) -> list[float]:
    rng, now, found = random.Random(seed), 0.0, []
    for _ in range(count):
        now += rng.expovariate(rate)
        found.append(now)
    return found


def bursts(size: int, gap: float, spread: float, seed: int, count: int = TASKS) -> list[float]:
    """Return arrivals in bursts of `size` within `spread` seconds, about `gap` seconds apart."""
    rng, now, found = random.Random(seed), 0.0, []
    while len(found) < count:
        now += gap * rng.uniform(0.5, 1.5)
        found += [now + rng.uniform(0, spread) for _ in range(size)]
    return sorted(found)[:count]


def loads(recorded: dict[str, list[float]], count: int = TASKS) -> dict[str, list[float]]:
    """Return eight levels of load, from idle to nearly all that batches can do."""
    one, many = middle(recorded, 1), middle(recorded, MAX_BATCH)
    alone, together = 1 / one, MAX_BATCH / many
    return {
        "5 % of one at a time": poisson(0.05 * alone, 1, count),
        "50 % of one at a time": poisson(0.5 * alone, 2, count),
        "95 % of one at a time": poisson(0.95 * alone, 3, count),
        "40 % of the batched": poisson(0.4 * together, 4, count),
        "70 % of the batched": poisson(0.7 * together, 5, count),
        "90 % of the batched": poisson(0.9 * together, 6, count),
        "bursts of 8": bursts(8, 20 * one, 0.5 * one, 7, count),
        "bursts of 40": bursts(40, 60 * one, 3 * one, 8, count),
    }


class Static:
    """A fixed delay: what waits starts once the oldest has waited so long, or the batch is full."""

    most = MAX_BATCH

    def __init__(self, delay: float) -> None:
        self.delay = delay

    def arrive(self, now: float) -> None: ...

    def learn(self, calls: int, seconds: float) -> None: ...

    def is_enough(self, waiting: int) -> bool:
        return waiting >= self.most

    def wait_until(self, now: float, waiting: int, oldest: float, latency: float) -> float:
        return now if waiting >= self.most else max(now, oldest + self.delay)


def simulate(
    arrivals: list[float], service: Service, delay: float | None
) -> list[tuple[float, float]]:
    """Return arrival and end of each task on a lane of its own; `delay` None: the queue decides."""
    lane = Lane("device")
    schedule = Schedule([lane])
    if delay is not None:
        schedule._batching["group"] = Static(delay)  # type: ignore[assignment]
    ends: list[tuple[float, float]] = []
    coming: Iterator[float] = iter(arrivals)
    arrival = next(coming, None)
    running: tuple[Batch, float] | None = None
    wake: float | None = None
    while arrival is not None or running or wake is not None:
        events = [arrival, running[1] if running else None, wake]
        now = min(event for event in events if event is not None)
        if arrival == now:
            task = Task(print, (), {}, DEFAULT)
            task.group, task.lanes = "group", (lane.name,)
            schedule.add(task, now)
            arrival = next(coming, None)
            if wake is not None and now < wake and not schedule.is_news(task, lane):
                continue
        elif running and running[1] == now:
            batch = running[0]
            running = None
            schedule.finish(batch, now - batch.started_at)
            ends += [(task.queued_at, now) for task in batch.tasks]
        wake = None
        if running is None:
            got = schedule.take(lane, now)
            if isinstance(got, Batch):
                running = got, now + service(len(got.tasks))
            else:
                wake = got
    return ends


def measures(ends: list[tuple[float, float]]) -> dict[str, float]:
    waited = sorted(end - start for start, end in ends)
    span = max(end for _, end in ends) - min(start for start, _ in ends)
    return {
        "throughput": len(ends) / span,
        "p50_seconds": waited[len(waited) // 2],
        "p99_seconds": waited[len(waited) * 99 // 100],
    }


def typical(
    recorded: dict[str, list[float]], arrivals: list[float], delay: float | None
) -> dict[str, float]:
    """Return the medians over several draws of the service times: one p99 moves by a tenth."""
    return medians(
        [measures(simulate(arrivals, service_of(recorded, seed), delay)) for seed in SEEDS]
    )


def medians(rows: list[dict[str, float]]) -> dict[str, float]:
    return {name: median(row[name] for row in rows) for name in rows[0]}


def compare(recorded: dict[str, list[float]]) -> dict[str, Any]:
    """Return for each load what the queue reaches, and the best of the fixed delays."""
    found: dict[str, Any] = {}
    for name, arrivals in loads(recorded).items():
        own = typical(recorded, arrivals, None)
        static = {delay: typical(recorded, arrivals, delay) for delay in STATIC_DELAYS}
        found[name] = {"queue": own, "static": static} | against(own, static)
    return found


def against(own: dict[str, float], static: dict[float, dict[str, float]]) -> dict[str, float]:
    return {
        "throughput_ratio": own["throughput"] / max(s["throughput"] for s in static.values()),
        "p99_ratio": own["p99_seconds"] / min(s["p99_seconds"] for s in static.values()),
    }


def live(recorded: dict[str, list[float]], only: str) -> dict[str, Any]:
    """Submit the same loads in real time to an executor whose batches take the recorded times."""
    import numpy as np

    import gpuforge as gf
    from gpuforge.runtime.executor import running
    from gpuforge.runtime.executor.together import Result

    service = service_of(recorded, 1)

    @gf.offload(backend="numpy")
    def call(x: Any) -> Any:
        occupy(service(1))
        return x

    def together(function: Any, calls: Any) -> list[Result]:
        occupy(service(len(calls)))
        return [Result(args[0]) for args, _ in calls]

    def run(arrivals: list[float], delay: float | None) -> dict[str, float]:
        with gf.executor(latency=max(STATIC_DELAYS)) as executor:
            if delay is not None:
                schedule = executor._home.dispatcher.schedule
                schedule.batching = partial(fixed, Static(delay))  # type: ignore[method-assign]
            executor.submit(call, x).result()
            ends = sorted(replay(arrivals, lambda: executor.submit(call, x)))
        # The first third teaches the queue what batches take; it counts for nobody.
        return measures(ends[len(ends) // 3 :])

    running.call_together = together  # type: ignore[assignment]
    x, found, draw = np.ones(4), {}, random.Random(0)
    ways = (None, *LIVE_DELAYS)
    for name, arrivals in loads(recorded, LIVE_TASKS).items():
        if only not in name:
            continue
        given = [arrival for arrival in arrivals if arrival < LIVE_SECONDS]
        rounds: dict[float | None, list[dict[str, float]]] = {way: [] for way in ways}
        for _ in range(ROUNDS):
            for way in draw.sample(ways, len(ways)):
                rounds[way].append(run(given, way))
        middles = {way: medians(rows) for way, rows in rounds.items()}
        own = middles.pop(None)
        found[name] = {
            "queue": own, "static": middles,
            "rounds": {"queue" if way is None else way: rows for way, rows in rounds.items()},
        } | against(own, middles)  # fmt: skip
    return found


def fixed(batching: Static, task: Task) -> Static:
    """Return the same for every task."""
    return batching


def occupy(seconds: float) -> None:
    """Take so long, as a device does: without the interpreter's lock."""
    time.sleep(seconds)


def replay(arrivals: list[float], submit: Callable[[], Any]) -> list[tuple[float, float]]:
    """Submit at the given times; return when each call should have come, and when it ended."""
    ends: list[tuple[float, float]] = []
    futures, start = [], time.perf_counter() + 0.01
    for arrival in arrivals:
        rest = start + arrival - time.perf_counter()
        if rest > 0:
            time.sleep(rest)
        future = submit()
        future.add_done_callback(
            lambda _, came=start + arrival: ends.append((came, time.perf_counter()))
        )
        futures.append(future)
    for future in futures:
        future.result()
    return ends


def render(title: str, found: dict[str, Any]) -> None:
    print(title)
    for name, row in found.items():
        best = min(row["static"], key=lambda delay: row["static"][delay]["p99_seconds"])
        print(
            f"  {name}: throughput {row['throughput_ratio']:.3f}, p99 {row['p99_ratio']:.2f} of"
            f" the best fixed ({1e6 * float(best):.0f} µs):"
            f" {1e3 * row['queue']['p99_seconds']:.2f} ms"
        )


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--live", metavar="TEXT", help="only loads with this text in their name")
    parser.add_argument("--out", type=Path, default=RESULTS / "coalescing.json")
    arguments = parser.parse_args()
    if arguments.record:
        SERVICE.write_text(json.dumps(record(), indent=1) + "\n")
    recorded = json.loads(SERVICE.read_text())
    results = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    if arguments.live is None:
        results["simulated"] = {kind: compare(rows) for kind, rows in recorded.items()}
        for kind, found in results["simulated"].items():
            render(f"{kind}, simulated, against the best fixed delay in hindsight", found)
    else:
        kind, rows = list(recorded.items())[-1]
        slowed = {size: [SLOWER * one for one in values] for size, values in rows.items()}
        found = live(slowed, arguments.live)
        results.setdefault("live", {}).setdefault(kind, {}).update(found)
        render(f"{kind}, live, {SLOWER} times slower", found)
    arguments.out.write_text(json.dumps(results, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
