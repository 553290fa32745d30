"""How close placement comes to an oracle, and what learning costs: samples first, then replays.

usage: placement.py [--seed N] [--backends NAME,...] [--functions NAME,...] [--samples FILE]
                    [--replay FILE] [--out FILE]

Sampling times every function of `workloads` at half-octave sizes on every backend as the runtime
calls it (recorded, arguments put, run, waited for, result brought back), interleaved; NumPy's BLAS
has the threads that the runtime gives it (`contention.BlasLimit`).
Replaying feeds resampled times to the same `Policy` that the runtime uses, and scores its choices
on cell medians. A function's sizes end where NumPy takes over `MAX_CELL_SECONDS`; a backend whose
calls take over `LONG_SECONDS` and over `HOPELESS` times the best after 5 samples (4 times that:
after 2) is sampled no further in that cell.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from statistics import geometric_mean, median
from time import perf_counter
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
import workloads

import gpuforge as gf
from gpuforge.runtime.evaluation.engine import BackendEngine, Programs
from gpuforge.runtime.evaluation.recording import StartAgain, record
from gpuforge.runtime.function.reading import read_operations
from gpuforge.runtime.placement.account import Account
from gpuforge.runtime.placement.peers import Peer, Peers
from gpuforge.runtime.placement.policy import NUMPY, Candidate, Kind, Policy, charge, observe
from gpuforge.runtime.placement.priors import CONSTANT, Priors, classify
from gpuforge.runtime.threads import contention

SAMPLES = 25
MAX_CELL_SECONDS = 0.12
HOPELESS, LONG_SECONDS = 5.0, 0.02
BACKENDS = "torch,jax,mlx,dpnp"
FIRST_CALLS, LEARNING_CALLS, STEADY_CALLS = 500, 20_000, 5_000
RESULTS = Path(__file__).parent / "results"


# ---------------------------------------------------------------- sampling


def sample(names: list[str], libraries: list[str], path: Path) -> dict[str, Any]:
    """Time every cell of `names` and write the raw samples after each function."""
    with gf.session(history=False, backends=[NUMPY, *libraries]) as session:
        for library in session.libraries.values():
            session.openings.open(library)
        backends = [session.reference, *session.backends()]
        content = read(path) if path.exists() else {}
        if versions(content) != versions(found := header(backends)):
            content = found
        if "calibration" not in content:
            content["calibration"] = calibration(session)
            write(path, content)
        for name in filter(None, names):
            for dtype in workloads.WORKLOADS[name][2]:
                start = perf_counter()
                content["cells"][f"{name} {dtype}"] = sample_kind(name, dtype, backends)
                print(f"{name} {dtype}: {perf_counter() - start:.0f} s", flush=True)
            write(path, content)
    return content


def versions(content: dict[str, Any]) -> dict[str, str]:
    """Return which libraries samples were taken with, and of which release."""
    return {name: facts["version"] for name, facts in content.get("backends", {}).items()}


def header(backends: list[Any]) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "machine": {"cpu": platform.processor() or platform.machine(), "cores": os.cpu_count(),
                    "python": platform.python_version()},
        "backends": {b.name: {"version": b.version, "floor": b.floor_seconds,
                              "compiles": b.compiles} for b in backends},
        "threads": contention.state.set_variables,
        "cells": {},
    }  # fmt: skip


def calibration(session: Any) -> Any:
    import tempfile

    from gpuforge.history import History
    from gpuforge.runtime.calibration.probes import calibrate

    with tempfile.TemporaryDirectory() as folder:
        history = History(Path(folder), "benchmark")
        for _ in calibrate(history, session.reference, session.backends()):
            pass
        return history.constant(CONSTANT)


def sample_kind(name: str, dtype: str, backends: list[Any]) -> dict[str, Any]:
    """Return the samples of one function and dtype: size -> backend -> seconds."""
    function, make, _ = workloads.WORKLOADS[name]
    cells: dict[str, Any] = {"sizes": {}, "refused": {}, "first": {}}
    operations = classify(read_operations(function))
    seen: set[int] = set()
    for size in workloads.SIZES:
        arguments = make(np.random.default_rng(size), size, dtype)
        elements = sum(a.size for a in arguments)
        if elements in seen:
            continue
        seen.add(elements)
        cell = sample_cell(function, arguments, backends, cells, operations)
        cells["sizes"][str(elements)] = cell
        if median(cell[NUMPY]) > MAX_CELL_SECONDS:
            break
    return cells


class Timed:
    """A function recorded on one backend, its graphs compiled once."""

    def __init__(self, function: Callable[..., Any], backend: Any, reference: Any) -> None:
        self.function, self.backend, self.reference = function, backend, reference
        self.programs = Programs()

    def call(self, arguments: tuple[Any, ...], *, comparing: bool = False) -> tuple[float, Any]:
        """Make one recorded call; return its seconds and what became of it."""
        engine = BackendEngine(self.backend, self.reference, self.programs, comparing=comparing)
        start = perf_counter()
        recorded = record(self.function, arguments, {}, engine)
        seconds = perf_counter() - start
        if not (recorded.recorder.evaluated or engine.outcome.refused):
            engine.outcome.refused = "nothing in it runs there"
        return seconds, engine.outcome

    def first(self, arguments: tuple[Any, ...]) -> tuple[float, str]:
        """Return what compiling takes, and why the backend is left out; empty if it is not."""
        try:
            _, outcome = self.call(arguments, comparing=True)
        except StartAgain as why:
            return 0.0, str(why)
        return outcome.compile_seconds, outcome.refused


def sample_cell(
    function: Callable[..., Any], arguments: tuple[Any, ...], backends: list[Any],
    cells: dict[str, Any], operations: str,
) -> dict[str, list[float]]:  # fmt: skip
    calls: dict[str, Callable[[], float]] = {}
    for backend in backends:
        if backend.name in cells["refused"]:
            continue
        if backend.name == NUMPY:
            calls[NUMPY] = partial(plainly, function, arguments)
            continue
        timed = Timed(function, backend, backends[0])
        if backend.compiles or not cells["sizes"]:
            seconds, refused = timed.first(arguments)
            cells["first"].setdefault(backend.name, []).append(seconds)
            if refused:
                cells["refused"][backend.name] = refused
                for other in cells["sizes"].values():
                    other.pop(backend.name, None)
                continue
        calls[backend.name] = lambda timed=timed: timed.call(arguments)[0]  # type: ignore[misc]
    return interleave(calls, operations)


def enough(times: list[float], best: float) -> bool:
    """Return whether a backend this slow is sampled no further in its cell."""
    typical = median(times) if times else 0.0
    ratio = typical / best if best and typical > LONG_SECONDS else 0.0
    return (len(times) >= 5 and ratio > HOPELESS) or (len(times) >= 2 and ratio > 4 * HOPELESS)


def interleave(calls: dict[str, Callable[[], float]], operations: str) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in calls}
    blas = contention.BlasLimit()
    for call in calls.values():
        call()
    for _ in range(SAMPLES):
        best = min((median(t) for t in times.values() if t), default=0.0)
        for name, call in calls.items():
            if enough(times[name], best):
                continue
            short = name == NUMPY and bool(times[name])
            limited = short and blas.needed(operations, min(times[name]))
            with blas.one_thread() if limited else nullcontext():
                times[name].append(call())
    return times


def plainly(function: Callable[..., Any], arguments: tuple[Any, ...]) -> float:
    """Return the seconds of one call on NumPy, without any detour."""
    start = perf_counter()
    function(*arguments)
    return perf_counter() - start


# ---------------------------------------------------------------- replaying


class Replay:
    """One function and dtype, its samples drawn at random, one policy learning from them."""

    def __init__(
        self, cells: dict[str, Any], content: dict[str, Any], rng: Any, prior: Any,
        family: list[Kind], peer: Peer | None = None, account: Account | None = None,
    ):  # fmt: skip
        self.samples = {int(n): c for n, c in cells["sizes"].items()}
        self.medians = {n: {b: median(t) for b, t in c.items()} for n, c in self.samples.items()}
        self.oracle = {n: min(m.values()) for n, m in self.medians.items()}
        self.first = {b: [t for t in v if t > 0] or [0.0] for b, v in cells["first"].items()}
        self.refused = cells["refused"]
        self.rng = rng
        self.candidates = [
            Candidate(name, facts["floor"], facts["compiles"], compiling(content, name))
            for name, facts in content["backends"].items()
        ]
        self.kind = Kind(prior=prior, family=family, peer=peer)
        family.append(self.kind)
        self.account = account or Account()
        self.seen = False

    def draw(self, size: int, backend: str) -> float:
        times = self.samples[size].get(backend)
        if times is None:  # refused: it is tried once, at about NumPy's price
            times = self.samples[size][NUMPY]
        return float(times[self.rng.integers(len(times))])

    def sizes(self, calls: int) -> Iterator[int]:
        known = sorted(self.samples)
        yield from (known[i] for i in self.rng.integers(len(known), size=calls))

    def call(self, size: int) -> tuple[str, float, float]:
        """Make one call; return its backend, its scored seconds and what learning cost besides."""
        policy = Policy(self.account.allowance(), learn=not self.account.in_the_red)
        decision = policy.decide(self.kind, size, size, self.candidates)
        name, extra = decision.backend, 0.0
        compiles = any(c.name == name and c.compiles for c in self.candidates)
        cell = self.kind.curve(name).cell(size)
        if compiles and not cell.ready:
            extra = float(self.rng.choice(self.first[name]))
            cell.ready = True
            charge(self.kind, size, name, extra, extra, bought=decision.bought)
            self.account.add(0.0, extra)
        else:
            seconds = self.draw(size, name)
            if decision.exploring and not decision.trial:
                known = self.kind.estimate(Candidate(NUMPY), size, size)
                charge(self.kind, size, name, seconds - (known.seconds if known else seconds))
            observe(self.kind, size, size, name, seconds, self.candidates, first=not self.seen)
            base = seconds if name == NUMPY else self.medians[size][NUMPY]
            self.account.add(base, min(seconds, 3 * self.medians[size][name]))
            self.seen = True
        if decision.trial:
            extra += self.trial(size, decision.trial)
        return name, self.medians[size][name], extra

    def trial(self, size: int, name: str) -> float:
        first = float(self.rng.choice(self.first[name])) if name in self.first else 0.0
        seconds = self.draw(size, name)
        cost = first + 2 * seconds
        curve = self.kind.curve(name)
        curve.refused, curve.verified = self.refused.get(name, ""), name not in self.refused
        charge(self.kind, size, name, cost, first)
        self.account.add(0.0, cost)
        if curve.verified:
            curve.cell(size).ready = True
            curve.add(size, size, seconds)
            self.kind.tell(name, size, size)
        return cost


class Score:
    """Totals over calls: routed and oracle seconds, per-call ratios, near-best share."""

    def __init__(self) -> None:
        self.routed = self.best = self.extra = 0.0
        self.ratios: list[float] = []
        self.near = 0

    def add(self, seconds: float, oracle: float, extra: float = 0.0) -> None:
        self.routed += seconds
        self.best += oracle
        self.extra += extra
        self.ratios.append(max(seconds / oracle, 1e-9))
        self.near += seconds <= oracle * 1.1 + 1e-6

    def row(self, name: str) -> dict[str, Any]:
        return {
            "policy": name,
            "total_regret": self.routed / self.best - 1,
            "learning_share": self.extra / self.best,
            "total_with_learning": (self.routed + self.extra) / self.best - 1,
            "geometric_regret": geometric_mean(self.ratios) - 1,
            "near_best": self.near / len(self.ratios),
            "calls": len(self.ratios),
            "seconds": self.routed + self.extra,
        }


def replay(content: dict[str, Any], seed: int) -> list[dict[str, Any]]:
    """Return one row per policy."""
    rows = []
    for label, calibrated in (("cold", False), ("calibrated", True)):
        first, steady = Score(), Score()
        families: dict[str, list[Kind]] = defaultdict(list)
        peers, account = Peers(), Account()
        for kind, cells in content["cells"].items():
            prior = prior_of(kind, content) if calibrated else None
            family = families[kind.split()[0]]
            peer = peer_of(kind, peers)
            rng = np.random.default_rng(seed)
            run = Replay(cells, content, rng, prior, family, peer, account)
            for size in run.sizes(FIRST_CALLS):
                _, seconds, extra = run.call(size)
                first.add(seconds, run.oracle[size], extra)
            for size in run.sizes(LEARNING_CALLS - FIRST_CALLS):
                run.call(size)
            for size in run.sizes(STEADY_CALLS):
                _, seconds, extra = run.call(size)
                steady.add(seconds, run.oracle[size], extra)
        rows.append(first.row(f"gpuforge {label}, first {FIRST_CALLS} calls"))
        rows.append(steady.row(f"gpuforge {label}, steady after {LEARNING_CALLS}"))
    rows += [single(content, name) for name in content["backends"]]
    return [*rows, one_threshold(content), threshold_each(content)]


def compiling(content: dict[str, Any], name: str) -> float:
    """Return what a backend's smallest function took to compile, as measured when it is opened."""
    smallest = content["cells"].get("affine float32", {"first": {}})["first"].get(name, [0.05])
    return float(median(smallest))


def prior_of(kind: str, content: dict[str, Any]) -> Any:
    function = workloads.WORKLOADS[kind.split()[0]][0]

    class Kept:
        def constant(self, name: str) -> Any:
            return content["calibration"]

    return Priors(Kept()).of(read_operations(function))  # type: ignore[arg-type]


def peer_of(kind: str, peers: Peers) -> Peer:
    function = workloads.WORKLOADS[kind.split()[0]][0]
    return Peer(peers, classify(read_operations(function)), id(function))


def medians_of(cells: dict[str, Any]) -> dict[int, dict[str, float]]:
    return {int(n): {b: median(t) for b, t in c.items()} for n, c in cells["sizes"].items()}


def single(content: dict[str, Any], name: str) -> dict[str, Any]:
    score = Score()
    for cells in content["cells"].values():
        for times in medians_of(cells).values():
            score.add(times.get(name, times[NUMPY]), min(times.values()))
    return score.row(f"always {name} (NumPy where it is left out)")


def one_threshold(content: dict[str, Any]) -> dict[str, Any]:
    """The best single size from which everything goes to one other backend, in hindsight."""
    best: tuple[float, Score, str] | None = None
    for name in content["backends"]:
        for limit in (*workloads.SIZES, 10**9):
            score = Score()
            for cells in content["cells"].values():
                for size, times in medians_of(cells).items():
                    chosen = times.get(name, times[NUMPY]) if size >= limit else times[NUMPY]
                    score.add(chosen, min(times.values()))
            if best is None or score.routed < best[0]:
                best = (score.routed, score, f"one threshold in hindsight ({name} from {limit})")
    assert best is not None
    return best[1].row(best[2])


def threshold_each(content: dict[str, Any]) -> dict[str, Any]:
    """The best threshold and backend of each function and dtype, in hindsight."""
    score = Score()
    for cells in content["cells"].values():
        table = medians_of(cells)
        options = [(name, limit) for name in content["backends"] for limit in (*table, 10**9)]

        def picked(option: tuple[str, int], table: Any = table) -> list[tuple[float, float]]:
            name, limit = option
            return [
                (t.get(name, t[NUMPY]) if n >= limit else t[NUMPY], min(t.values()))
                for n, t in table.items()
            ]

        for seconds, oracle in min(
            (picked(o) for o in options), key=lambda p: sum(s for s, _ in p)
        ):
            score.add(seconds, oracle)
    return score.row("best threshold per function in hindsight")


def overhead() -> dict[str, float]:
    """Return what placement itself adds to a call: a held choice, and a considered one."""
    plain = workloads.affine
    placed = gf.offload(plain)
    small = np.ones(16)
    for _ in range(3000):
        placed(small)
    rounds: tuple[list[float], list[float]] = ([], [])
    for _ in range(40):
        for function, out in zip((plain, placed), rounds, strict=True):
            start = perf_counter()
            for _ in range(2000):
                function(small)
            out.append((perf_counter() - start) / 2000)
    considered = []
    for _ in range(400):
        placed.stats().held.clear()
        start = perf_counter()
        placed(small)
        considered.append(perf_counter() - start)
    return {
        "direct_seconds": median(rounds[0]),
        "held_extra_seconds": median(rounds[1]) - median(rounds[0]),
        "considered_extra_seconds": median(considered) - median(rounds[0]),
    }


# ---------------------------------------------------------------- in and out


def read(path: Path) -> dict[str, Any]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        content: dict[str, Any] = json.load(file)
    return content


def write(path: Path, content: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    rounded = json.loads(json.dumps(content), parse_float=lambda t: float(f"{float(t):.4g}"))
    with gzip.open(path, "wt", encoding="utf-8") as file:
        json.dump(rounded, file)


def only(content: dict[str, Any], libraries: list[str]) -> dict[str, Any]:
    """Return samples without those of other libraries than `libraries` and NumPy."""
    gone = {name for name in content["backends"] if name.split(":")[0] not in (NUMPY, *libraries)}

    def left(table: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in table.items() if name not in gone}

    cells = {
        kind: {"sizes": {size: left(cell) for size, cell in found["sizes"].items()},
               "first": left(found["first"]), "refused": left(found["refused"])}
        for kind, found in content["cells"].items()
    }  # fmt: skip
    ratios = {name: left(by) for name, by in content["calibration"]["ratios"].items()}
    calibration = {**content["calibration"], "ratios": ratios}
    kept = left(content["backends"])
    return {**content, "backends": kept, "calibration": calibration, "cells": cells}


def show(rows: list[dict[str, Any]], added: dict[str, float]) -> None:
    heading = ("policy", "total", "learning", "with it", "geo-mean", "near best", "seconds")
    print(f"{heading[0]:58}" + "".join(f"{h:>11}" for h in heading[1:]))
    for row in rows:
        figures = [row[k] for k in ("total_regret", "learning_share", "total_with_learning",
                                    "geometric_regret", "near_best")]  # fmt: skip
        print(f"{row['policy']:58}" + "".join(f"{100 * f:10.1f}%" for f in figures)
              + f"{row['seconds']:11.2f}")  # fmt: skip
    for name, seconds in added.items():
        print(f"placement itself, {name.replace('_', ' ')}: {seconds * 1e6:.2f} µs")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--functions", default=",".join(workloads.WORKLOADS))
    parser.add_argument(
        "--backends", help=f"libraries: {BACKENDS} to sample, all in FILE to replay"
    )
    parser.add_argument("--samples", type=Path, default=RESULTS / "placement-samples.json.gz")
    parser.add_argument("--sample-only", action="store_true")
    parser.add_argument("--replay", type=Path)
    parser.add_argument("--out", type=Path, default=RESULTS / "placement.json")
    arguments = parser.parse_args()
    path = arguments.replay or arguments.samples
    libraries = (arguments.backends or BACKENDS).split(",")
    content = read(path) if arguments.replay else sample(
        arguments.functions.split(","), libraries, path
    )  # fmt: skip
    if arguments.replay and arguments.backends:
        content = only(content, libraries)
    if arguments.sample_only:
        return
    rows, added = replay(content, arguments.seed), overhead()
    show(rows, added)
    arguments.out.write_text(
        json.dumps({"seed": arguments.seed, "backends": content["backends"], "rows": rows,
                    "overhead": added}, indent=1) + "\n"
    )  # fmt: skip


if __name__ == "__main__":
    main()
