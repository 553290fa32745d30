"""How often the rules for anomalies are right: on made series, and on recorded ones.

usage: anomalies.py [--seeds N] [--recorded FILE ...] [--public FOLDER] [--out FILE]

A series is ten minutes; its label, the rules that must speak, was set before any rule was run on
it. What a rule says of a series that is labelled otherwise is a false alarm, whatever the series
was made for: each rule is judged on all of them.

- Made: the scenes of `made_series`, each with N seeds; those near the limits of the rules (hard),
  where mistakes are to be expected, in a table of their own.
- Recorded: files of real series. Those longer than ten minutes are read in windows of ten minutes,
  one each minute; a label holds for all windows of a series. The label of a series whose anomaly
  goes on all the time must be found in every window.
- Public: series of real machines, see `public_series`.
- Forecasts: memory that grows by a law until it is full, cut after ten minutes: how often the
  interval holds the moment at which it was full (nine times in ten is meant), and how far the
  expected one is off.
"""

from __future__ import annotations

import argparse
import gzip
import json
import platform
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import public_series
from made_series import GIB, HARD, SCENES, SECONDS, TOTAL, Scene

from gpuforge import registry
from gpuforge.monitor.anomalies import memory_growth
from gpuforge.monitor.anomaly import RULES, find_anomalies
from gpuforge.monitor.series import Subject

MINUTE = 60.0
FORECASTS = 200
KINDS = ("true_positive", "false_positive", "true_negative", "false_negative")
OWN = Path(__file__).with_name("recorded") / "program_memory.json.gz"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--recorded", type=Path, nargs="*", default=[OWN])
    parser.add_argument("--public", type=Path)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    made, wrong = made_scores(SCENES, given.seeds)
    hard, hard_wrong = made_scores(HARD, given.seeds)
    result = {
        "python": platform.python_version(),
        "seeds": given.seeds,
        "made": table(made),
        "made_wrong": wrong,
        "hard": table(hard),
        "hard_wrong": hard_wrong,
        "recorded": [one for file in given.recorded for one in recorded_scores(file)],
        "public": public_series.scores(given.public) if given.public else None,
        "forecasts": {name: forecast_scores(law) for name, law in LAWS.items()},
    }
    print(json.dumps(result, indent=1))
    if given.out:
        given.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def made_scores(
    scenes: dict[str, tuple[Scene, frozenset[str]]], seeds: int
) -> tuple[dict[str, Counter[str]], dict[str, int]]:
    """Return right and wrong answers of each rule, and the scenes that were judged wrongly."""
    scores: dict[str, Counter[str]] = {rule: Counter() for rule in registry.names(RULES)}
    wrong: Counter[str] = Counter()
    for name, (make, expected) in scenes.items():
        for seed in range(1000, 1000 + seeds):
            found = {anomaly.rule for anomaly in find_anomalies(make(Random(f"{name} {seed}")))}
            count(scores, found, expected)
            wrong.update(f"{name}: {rule} missed" for rule in expected - found)
            wrong.update(f"{name}: {rule} for nothing" for rule in found - expected)
    return scores, dict(wrong)


def count(scores: dict[str, Counter[str]], found: set[str], expected: frozenset[str]) -> None:
    for rule, score in scores.items():
        truth = "positive" if rule in found else "negative"
        score[f"{'true' if (rule in found) == (rule in expected) else 'false'}_{truth}"] += 1


def table(scores: dict[str, Counter[str]]) -> dict[str, dict[str, Any]]:
    """Return precision and recall of each rule with what they are made of."""
    told = {}
    for rule, score in scores.items():
        right = score["true_positive"]
        said, labelled = right + score["false_positive"], right + score["false_negative"]
        told[rule] = {
            "precision": round(right / said, 4) if said else None,
            "recall": round(right / labelled, 4) if labelled else None,
            **{kind: score[kind] for kind in KINDS},
        }
    return told


def recorded_scores(file: Path) -> Iterator[dict[str, Any]]:
    """Yield what the rules said of each series of a file, window by window."""
    content = file.read_bytes()
    recorded = json.loads(gzip.decompress(content) if file.suffix == ".gz" else content)
    for name, one in recorded.items():
        series = one["series"]
        times = [t for t, _ in series["memory_used_bytes"]]
        ends = [times[-1]]
        while ends[-1] - MINUTE - times[0] >= memory_growth.AT_LEAST_SECONDS:
            ends.append(ends[-1] - MINUTE)
        said: Counter[str] = Counter()
        for end in ends:
            cut = {
                key: [(t, v) for t, v in values if end - SECONDS <= t <= end]
                for key, values in series.items()
            }
            cut["memory_total_bytes"] = [(end, one["memory_total_bytes"])]
            said.update(a.rule for a in find_anomalies([Subject(name, "gpu", "", cut)]))
        yield {
            "series": name,
            "source": one["source"],
            "seconds": round(times[-1] - times[0]),
            "readings": len(times),
            "windows": len(ends),
            "label": one["label"],
            "windows_in_which_a_rule_spoke": dict(said),
            "missed_windows": {rule: len(ends) - said[rule] for rule in one["label"]},
            "false_windows": {r: n for r, n in said.items() if r not in one["label"]},
        }


Law = Callable[[Random], Iterator[float]]


def linear(r: Random) -> Iterator[float]:
    """A leak of a steady rate below noise."""
    rate, level = r.uniform(0.3, 4) * GIB / MINUTE, 20.0 * GIB
    while True:
        level += rate
        yield level + abs(r.gauss(0, 0.2 * GIB))


def uneven(r: Random) -> Iterator[float]:
    """A leak whose steps are random."""
    mean, level = r.uniform(0.005, 0.06) * GIB, 20.0 * GIB
    while True:
        level += max(0.0, r.gauss(mean, 3 * mean))
        yield level


def stairs(r: Random) -> Iterator[float]:
    """A leak of one piece each epoch."""
    every, size, level = r.randint(8, 50), r.uniform(0.2, 1.5) * GIB, 20.0 * GIB
    while True:
        for _ in range(every):
            yield level
        level += size


def bursts(r: Random) -> Iterator[float]:
    """A leak of requests that come in bursts: busy and quiet stretches of about a minute."""
    rate, level, busy = r.uniform(1, 4) * GIB / MINUTE, 20.0 * GIB, True
    while True:
        if r.random() < 1 / 60:
            busy = not busy
        level += rate * (busy + 0.2) * r.uniform(0.5, 1.5)
        yield level


LAWS: dict[str, Law] = {law.__name__: law for law in (linear, uneven, stairs, bursts)}


def forecast_scores(law: Law) -> dict[str, Any]:
    """Return how the forecasts for leaks of one law compare with when memory was full."""
    held = forecasts = tried = 0
    off: list[float] = []
    for seed in range(FORECASTS):
        used: list[float] = []
        for level in law(Random(f"{law.__name__} {seed}")):
            if level >= TOTAL:
                break
            used.append(level)
        if not SECONDS + 30 <= len(used) <= 86400:
            continue  # full before it could be told, or much later
        tried += 1
        seen = [(float(n), value) for n, value in enumerate(used[:SECONDS])]
        series = {"memory_used_bytes": seen, "memory_total_bytes": [(0.0, float(TOTAL))]}
        for anomaly in memory_growth.find([Subject("GPU 0", "gpu", "", series)]):
            if anomaly.forecast is not None:
                truth = len(used) - SECONDS
                forecasts += 1
                forecast = anomaly.forecast
                held += forecast.earliest_seconds <= truth <= forecast.latest_seconds
                off.append(abs(forecast.seconds - truth) / truth)
    return {
        "series": tried,
        "forecasts": forecasts,
        "interval_held_share": round(held / forecasts, 3) if forecasts else None,
        "median_error_share": round(median(off), 3) if off else None,
    }


if __name__ == "__main__":
    main()
