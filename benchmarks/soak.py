"""Does a long program grow or slow down that does everything at once, with faults put in?

usage: soak.py --minutes N [--every SECONDS] [--backends LIST] [--out FILE]

One process does all kinds of work in turns: calls on each installed backend, maps, tasks, and every
ten seconds a fault that is put in. `gpuforge serve` watches it and is asked for /metrics, a thread
of its own takes samples, and a profile is on in every third stretch of 30 seconds (less in a run of
less than 20 minutes). After each stretch it is read what the program and the server hold.

At the end each of these quantities, and the time of a call of each kind, is judged: does it grow by
an amount that matters? The first sixth is left out: libraries load, and what is bounded fills up.
Ctrl-C, or SIGTERM, judges what there is so far.

Exit status 1 where a quantity grows or a result was wrong, 3 where growth that matters is neither
proven nor excluded for some quantity. Linux only: elsewhere nothing tells what a process holds.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from importlib.metadata import version
from importlib.util import find_spec
from itertools import cycle
from pathlib import Path
from time import perf_counter, time
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.soaking import home, sample, trend, work

import gpuforge as gf

RESULT = Path(__file__).parent / "results" / "soak.json"
FAULT_SECONDS, MONITOR_SECONDS, SEEN_SECONDS = 10.0, 1.0, 10.0
PROFILED_EACH = 3
SERVER_LIBRARIES = ("starlette", "uvicorn", "prometheus_client")
# What growth matters over the whole run: a share of the median, and at least so much.
MATTERS = {
    "memory_bytes": (0.05, 8 * 2**20), "children_memory_bytes": (0.05, 8 * 2**20),
    "descriptors": (0.0, 2.0), "threads": (0.0, 2.0), "children": (0.0, 2.0),
}  # fmt: skip
SECONDS_MATTER = (0.1, 0.0)


class Server:
    """``gpuforge serve`` in a process of its own."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "gpuforge", "serve", "--port", "0", "--interval", "1"]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            start_new_session=True,  # Ctrl-C is for this process
        )  # fmt: skip
        self.pid = self._process.pid
        assert self._process.stdout
        address, _, token = self._process.stdout.readline().strip().partition("/?token=")
        header = {"Authorization": f"Bearer {token}"}
        self._request = urllib.request.Request(f"{address}/metrics", headers=header)
        self._began = perf_counter()
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def ask(self) -> int:
        """Read /metrics, in which this process must stand, some seconds after it began."""
        with self._opener.open(self._request, timeout=60) as answer:
            named = f'pid="{os.getpid()}"' in answer.read().decode()
        if not named and perf_counter() > self._began + SEEN_SECONDS:
            raise work.Wrong("/metrics does not name this process")
        return 1

    def close(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.communicate()


class Soak:
    """A run: what was done, seen, and wrong."""

    def __init__(self, folder: Path, backends: list[str]) -> None:
        work.install_fragile(folder)
        self._folder = folder
        self._kinds = work.works(backends)
        self._faults = cycle(work.FAULTS.items())
        served = all(map(find_spec, SERVER_LIBRARIES))
        self._server = Server() if served else None
        if self._server is not None:
            self._kinds["requests of /metrics"] = self._server.ask
        self.samples: list[dict[str, Any]] = []
        self.calls: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.began = perf_counter()

    def run(self, seconds: float, every: float) -> None:
        """Work until the time is over, in stretches; look after each."""
        gf.metrics(every=MONITOR_SECONDS).log(self._folder / "metrics.jsonl")
        stretch = 0
        while perf_counter() < self.began + seconds:
            stretch += 1
            profiled = stretch % PROFILED_EACH == 0
            with self._profile(profiled):
                times = self._work(min(perf_counter() + every, self.began + seconds))
            self._look(profiled, times)

    def close(self) -> None:
        """End the monitors."""
        gf.metrics(every=0)
        if self._server is not None:
            self._server.close()

    @contextmanager
    def _profile(self, on: bool) -> Iterator[None]:
        if not on:
            yield
            return
        with gf.profile(self._folder / "run.gfp"):
            yield

    def _work(self, until: float) -> dict[str, list[float]]:
        """Do all kinds of work in turns, and a fault now and then; return the times of calls."""
        times: dict[str, list[float]] = defaultdict(list)
        fault = perf_counter()
        while perf_counter() < until:
            for kind, do in self._kinds.items():
                self._do(kind, do, times[kind])
            if perf_counter() > fault:
                fault = perf_counter() + FAULT_SECONDS
                kind, one = next(self._faults)
                self._do(kind, one, times[kind])
        return times

    def _do(self, kind: str, do: work.Work, times: list[float]) -> None:
        start = perf_counter()
        try:
            calls = do()
        except Exception as error:  # noqa: BLE001 - whatever is wrong is told at the end
            self.wrong.append(f"after {start - self.began:.0f} s, {kind}: {error!r}")
            return
        times.append((perf_counter() - start) / calls)
        self.calls[kind] += calls

    def _look(self, profiled: bool, times: dict[str, list[float]]) -> None:
        gc.collect()
        seen = {"program": sample.look(os.getpid())}
        if self._server is not None:
            seen["server"] = sample.look(self._server.pid)
        self.samples.append({
            "at": round(perf_counter() - self.began, 2), "profiled": profiled,
            "load": os.getloadavg()[0], **seen,
            "seconds": {kind: statistics.median(each) for kind, each in times.items() if each},
        })  # fmt: skip
        own = seen["program"]
        print(f"{self.samples[-1]['at']:6.0f} s: {own['memory_bytes'] / 2**20:.0f} MiB,"
              f" {own['descriptors']} descriptors, {own['threads']} threads,"
              f" {own['children']} children, {self.calls.total()} calls", flush=True)  # fmt: skip


def trends(samples: list[dict[str, Any]]) -> dict[str, trend.Trend]:
    """Return the trend of each quantity, without the first sixth of the readings."""
    kept = samples[-(-len(samples) // 6) :]
    series: dict[str, list[tuple[float, float]]] = defaultdict(list)
    limits: dict[str, tuple[float, float]] = {}
    for one in kept:
        for process in ("program", "server"):
            for name, limit in MATTERS.items():
                if process in one:
                    limits[f"{process}: {name}"] = limit
                    series[f"{process}: {name}"].append((one["at"], one[process][name]))
        for kind, seconds in one["seconds"].items():
            name = f"seconds: {kind}{', profiled' if one['profiled'] else ''}"
            limits[name] = SECONDS_MATTER
            series[name].append((one["at"], seconds))
    return {
        name: trend.judge(*map(list, zip(*readings, strict=True)), *limits[name])
        for name, readings in series.items()
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--every", type=float, help="seconds between two readings")
    parser.add_argument("--backends", default=",".join(work.MODULES))
    parser.add_argument("--out", type=Path, default=RESULT)
    given = parser.parse_args()
    if not Path("/proc/self/statm").exists():
        print("nothing here tells what a process holds: Linux does", file=sys.stderr)
        return 3
    interrupted, load = False, os.getloadavg()[0]
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # or the server would stay
    run = Soak(home.take(), [name for name in given.backends.split(",") if name])
    try:
        run.run(60 * given.minutes, given.every or min(30.0, 60 * given.minutes / 40))
    except KeyboardInterrupt:
        interrupted = True
    finally:
        run.close()
    found = trends(run.samples)
    document = {
        "minutes": given.minutes, "interrupted": interrupted, "ended": time(),
        "python": platform.python_version(), "cores": os.cpu_count(), "load_before": load,
        "versions": {n: version(m) for n, m in {"numpy": "numpy", **work.MODULES}.items()
                     if find_spec(m) is not None},
        "served": "requests of /metrics" in run.calls, "calls": run.calls, "wrong": run.wrong,
        "trends": {name: asdict(one) for name, one in found.items()}, "samples": run.samples,
    }  # fmt: skip
    text = json.dumps(document, allow_nan=False)
    given.out.write_text(text.replace('}, {"at"', '},\n{"at"') + "\n", encoding="utf-8")
    return tell(found, run.wrong)


def tell(found: dict[str, trend.Trend], wrong: list[str]) -> int:
    """Print each verdict, and return the exit status."""
    width = max(map(len, found), default=0)
    for name, one in found.items():
        if one.verdict == trend.TOO_SHORT:
            print(f"{name:{width}}  {one.verdict}: {one.readings} of {trend.LEAST_READINGS}")
            continue
        print(f"{name:{width}}  {one.verdict:9}  {one.growth:+.3g} [{one.low:+.3g},"
              f" {one.high:+.3g}] on {one.middle:.4g}; {one.matters:.3g} would matter")  # fmt: skip
    for each in wrong[:20]:
        print(f"wrong: {each}")
    verdicts = Counter(one.verdict for one in found.values())
    print(f"{len(wrong)} wrong; " + (", ".join(f"{n} {v}" for v, n in verdicts.items()) or "no"))
    if wrong or verdicts[trend.GROWS]:
        return 1
    return 3 if verdicts[trend.UNDECIDED] or not verdicts[trend.STEADY] else 0


if __name__ == "__main__":
    sys.exit(main())
