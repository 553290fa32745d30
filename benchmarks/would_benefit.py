"""How often `gf.would_benefit` is right: on the placement benchmark's recorded cells, and live.

usage: would_benefit.py [--seed N] [--every N] [--samples FILE] [--out FILE]

A cell is a function, dtype and size of `workloads`. An answer is right where following it (the
fastest other backend for yes, NumPy for no) takes at most 10 % and 1 µs more than the faster of the
two: the placement benchmark's own measure of a near-best choice. "strictly" counts an answer as
right only where it names the faster one. "unknown" is never right.

- Predictions alone: what `measure=False` says of a function that was calibrated for and whose time
  on NumPy is known, everything else not measured.
- Measured: the turns of `measure=True`, each call's time drawn from the cell's recorded samples.
  "held out": drawn from one half of them, scored on the medians of the other half.
- Live: `gf.would_benefit` itself in every N-th cell (0: none), scored on medians of calls made
  afterwards by functions pinned to each backend.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import placement
import workloads

import gpuforge as gf
from gpuforge.runtime.execution.benefit import SURE
from gpuforge.runtime.execution.measurement import Contender, chance, race
from gpuforge.runtime.placement.policy import NUMPY, Candidate, Kind
from gpuforge.runtime.placement.priors import UNPROMISING_SECONDS

NEAR, NEAR_SECONDS = 1.1, 1e-6
LIVE_TURNS, LIVE_IN_A_ROW, LIVE_SECONDS = 7, 5, 10e-3
MAX_LIVE_SECONDS = 0.06
Cell = dict[str, list[float]]


class Score:
    """Answers against what was measured."""

    def __init__(self) -> None:
        self.cells = self.right = self.strictly = self.answered = 0
        self.wrong: Counter[str] = Counter()

    def add(self, kind: str, verdict: str, numpy_seconds: float, other_seconds: float) -> None:
        best = min(numpy_seconds, other_seconds)
        taken = other_seconds if verdict == "yes" else numpy_seconds
        right = verdict != "unknown" and taken <= NEAR * best + NEAR_SECONDS
        self.cells += 1
        self.answered += verdict != "unknown"
        self.right += right
        self.strictly += verdict == ("yes" if other_seconds < numpy_seconds else "no")
        if not right and verdict != "unknown":
            self.wrong[kind] += 1

    def row(self, name: str) -> dict[str, Any]:
        return {
            "evidence": name, "cells": self.cells, "right": self.right / self.cells,
            "strictly": self.strictly / self.cells, "answered": self.answered / self.cells,
            "right_of_answered": self.right / max(self.answered, 1),
            "wrong": dict(self.wrong.most_common()),
        }  # fmt: skip


def cells(content: dict[str, Any]) -> Iterator[tuple[str, int, Cell]]:
    for kind, found in content["cells"].items():
        for size, cell in found["sizes"].items():
            yield kind, int(size), cell


def truth(cell: Cell) -> tuple[float, float]:
    """Return the median seconds of NumPy and of the fastest other backend."""
    medians = {name: median(times) for name, times in cell.items()}
    return medians.pop(NUMPY), min(medians.values(), default=float("inf"))


def predicted(content: dict[str, Any], sure: float) -> Score:
    score = Score()
    for name, size, cell in cells(content):
        base, best = truth(cell)
        score.add(name, prediction(content, name, size, cell, sure), base, best)
    return score


def prediction(content: dict[str, Any], name: str, size: int, cell: Cell, sure: float) -> str:
    """Return what the calibration says where NumPy's samples of the cell are known."""
    kind = Kind(prior=placement.prior_of(name, content))
    for seconds in cell[NUMPY]:
        kind.curve(NUMPY).add(size, size, seconds)
    base = kind.estimate(Candidate(NUMPY), size, size)
    assert base is not None
    if base.seconds < UNPROMISING_SECONDS:
        return "no"
    others = [
        kind.estimate(Candidate(other, content["backends"][other]["floor"]), size, size)
        for other in cell if other != NUMPY
    ]  # fmt: skip
    known = [one for one in others if one is not None]
    if not known or len(known) < len(others):
        return "unknown" if others else "no"
    likely = max(chance(one, base) for one in known)
    faster = min(one.seconds for one in known) < base.seconds
    if (likely if faster else 1 - likely) < sure:
        return "unknown"
    return "yes" if faster else "no"


def measured(content: dict[str, Any], seed: int, *, held_out: bool) -> Score:
    score, rng = Score(), np.random.default_rng(seed)
    for name, _, cell in cells(content):
        drawn = {b: t[::2] for b, t in cell.items()} if held_out else cell
        scored = {b: t[1::2] or t for b, t in cell.items()} if held_out else cell
        score.add(name, raced(drawn, rng), *truth(scored))
    return score


def raced(cell: Cell, rng: np.random.Generator) -> str:
    """Return what the turns of a measurement say, each call's time drawn from the samples."""

    def make(name: str) -> Callable[[Contender], float]:
        return lambda _: float(rng.choice(cell[name]))

    numpy = Contender(NUMPY, make(NUMPY))
    others = [Contender(name, make(name)) for name in cell if name != NUMPY]
    numpy.take_turn()
    if numpy.cell.typical < UNPROMISING_SECONDS or not others:
        return "no"
    race(numpy, others)
    return "yes" if min(o.cell.typical for o in others) < numpy.cell.typical else "no"


# ---------------------------------------------------------------- live


def live(every: int) -> tuple[Score, dict[str, Any]]:
    """Ask `gf.would_benefit` in every `every`-th cell, then measure who was right."""
    score, answers, at = Score(), [], 0
    with gf.session(history=False) as session:
        for library in session.libraries.values():
            if not session.libraries.is_no_choice(library):
                session.openings.open(library)
        for name, (function, make, dtypes) in workloads.WORKLOADS.items():
            for dtype in dtypes:
                for size in workloads.SIZES:
                    at += 1
                    if at % every:
                        continue
                    arguments = make(np.random.default_rng(size), size, dtype)
                    start = perf_counter()
                    function(*arguments)
                    if perf_counter() - start > MAX_LIVE_SECONDS:
                        continue
                    answer = gf.would_benefit(function, *arguments)
                    found = timed(function, arguments, session.backends())
                    base, best = truth(found)
                    score.add(f"{name} {dtype}", answer.verdict, base, best)
                    answers.append({
                        "cell": f"{name} {dtype} {size}", "verdict": answer.verdict,
                        "ratio": answer.ratio, "ratio_measured": base / best,
                        "calls": answer.runs, "cost_seconds": answer.cost_seconds,
                    })  # fmt: skip
            print(f"live: {name}", flush=True)
    costs = sorted(one["cost_seconds"] for one in answers)
    return score, {"answers": answers, "median_cost_seconds": median(costs) if costs else None,
                   "backends": [b.name for b in session.backends()]}  # fmt: skip


def timed(function: Any, arguments: tuple[Any, ...], backends: list[Any]) -> Cell:
    """Return seconds of calls in a row, in turns, pinned to each backend and on plain NumPy."""
    calls = {NUMPY: function}
    for backend in backends:
        pinned = gf.offload(backend=backend.name)(function)
        for _ in range(3):
            pinned(*arguments)
        if set(pinned.stats().counts) == {backend.name}:
            calls[backend.name] = pinned
    times: Cell = {name: [] for name in calls}
    for _ in range(LIVE_TURNS):
        for name, call in calls.items():
            row: list[float] = []
            while len(row) < LIVE_IN_A_ROW and sum(row) < LIVE_SECONDS:
                start = perf_counter()
                call(*arguments)
                row.append(perf_counter() - start)
            times[name].append(min(row))
    return times


def show(rows: list[dict[str, Any]]) -> None:
    headings = ("right", "strictly", "answered", "right of them")
    print(f"{'evidence':28}{'cells':>8}" + "".join(f"{text:>15}" for text in headings))
    for row in rows:
        figures = [row[k] for k in ("right", "strictly", "answered", "right_of_answered")]
        cells = "".join(f"{100 * figure:14.1f}%" for figure in figures)
        print(f"{row['evidence']:28}{row['cells']:8}{cells}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--every", type=int, default=13)
    parser.add_argument(
        "--samples", type=Path, default=placement.RESULTS / "placement-samples.json.gz"
    )
    parser.add_argument("--out", type=Path, default=placement.RESULTS / "would_benefit.json")
    arguments = parser.parse_args()
    content = placement.read(arguments.samples)
    rows = [
        predicted(content, SURE).row("predictions alone"),
        predicted(content, 0.0).row("the same, never unknown"),
        measured(content, arguments.seed, held_out=False).row("measured"),
        measured(content, arguments.seed, held_out=True).row("measured, held out"),
    ]
    found: dict[str, Any] = {}
    if arguments.every:
        score, found = live(arguments.every)
        rows.append(score.row("live on this machine"))
    show(rows)
    arguments.out.write_text(
        json.dumps({"seed": arguments.seed, "rows": rows, "live": found}, indent=1) + "\n"
    )


if __name__ == "__main__":
    main()
