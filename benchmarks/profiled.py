"""What a profile costs the examples: `gpuforge run --save` beside plain `gpuforge run`.

usage: profiled.py [--only NAME] [--rounds N] [--add] [--out FILE]

Pairs of fresh processes in turns, whose order changes from pair to pair, after one that fills the
cache. Each process is cut at the first and the last line of the example: what is before and after
is the profile's fixed cost, given as a difference; what is between is the loss while running, given
as a ratio, and so is the whole. Both of wall time and of the processor's. Medians of the pairs with
their 95 % interval by order statistics, which needs six pairs. A ratio is proven at most 1.03 if
its whole interval is, and proven above if its whole interval is; all else is unproven. *together*
are the pairs of all examples.

`--add`: pairs are added to those that stand in the file already, if they are of the same source.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from time import monotonic, process_time
from typing import Any

import fresh

from gpuforge.profiler.compare.evidence import median_interval

HERE = Path(__file__).parent
EXAMPLES = ("lattice", "digits_neighbours", "deblur_photograph", "mixed_sizes",
            "particle_trajectories")  # fmt: skip
PARTS = ("before", "running", "after")
CLOCKS = ("wall", "processor")
MOST, CONFIDENCE = 1.03, 0.95
PROCESS_SECONDS = 300
Run = dict[str, dict[str, float]]
"""clock -> part -> seconds"""


def run_inside(example: str, out: str) -> None:
    """Run an example in this process, and write down when its first and last line were."""
    sys.argv[1:] = []
    begin = monotonic(), process_time()
    runpy.run_path(example, run_name="__main__")
    Path(out).write_text(json.dumps([begin, (monotonic(), process_time())]))


def run_once(name: str, cache: Path, saved: bool) -> Run:
    """Return what a fresh process took for an example; raise `Broken` if it fails."""
    with tempfile.TemporaryDirectory() as folder:
        flags = ["--save", f"{folder}/run.gfp"] if saved else []
        inside = [
            __file__,
            "--inside",
            str(HERE.parent / f"examples/{name}.py"),
            f"{folder}/out.json",
        ]
        command = [sys.executable, "-m", "gpuforge", "run", "--quiet", *flags, *inside]
        before, start = os.times(), monotonic()
        done = subprocess.run(
            command, cwd=folder, env=fresh.environment(cache, {}), timeout=PROCESS_SECONDS,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        end, after = monotonic(), os.times()
        if done.returncode:
            raise fresh.Broken(fresh.last_words(done.returncode, done.stderr))
        first, last = json.loads(Path(folder, "out.json").read_text())
    spent = after.children_user + after.children_system
    spent -= before.children_user + before.children_system
    cuts = ((start, first[0], last[0], end), (0.0, first[1], last[1], spent))
    return {
        clock: {part: b - a for part, a, b in zip(PARTS, at, at[1:], strict=False)}
        for clock, at in zip(CLOCKS, cuts, strict=True)
    }


def time_pairs(name: str, rounds: int) -> Iterator[dict[str, Run]]:
    """Yield pairs of runs, without and with a profile."""
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder)
        run_once(name, cache, saved=False)  # opens libraries, and learns
        for number in range(rounds):
            pair = {}
            for kind in ("plain", "saved") if number % 2 else ("saved", "plain"):
                pair[kind] = run_once(name, cache, saved=kind == "saved")
            yield pair


def judged(pairs: list[dict[str, Run]]) -> dict[str, Any]:
    """Return for each clock the ratios and differences with their intervals, and the verdict."""
    found: dict[str, Any] = {}
    for clock in CLOCKS:
        plain, saved = ([pair[kind][clock] for pair in pairs] for kind in ("plain", "saved"))
        rows = list(zip(plain, saved, strict=True))
        fixed = [sum(b[p] - a[p] for p in ("before", "after")) for a, b in rows]
        found[clock] = {
            "plain_seconds": median(sum(one.values()) for one in plain),
            "fixed_seconds": median_interval(fixed, CONFIDENCE),
            "running": verdict(rows, lambda one: one["running"]),
            "whole": verdict(rows, lambda one: sum(one.values())),
        }
    return found


def verdict(
    rows: list[tuple[dict[str, float], ...]], of: Callable[[dict[str, float]], float]
) -> dict[str, Any]:
    """Return the ratio of a part with its interval, and whether it is at most `MOST`."""
    ratio = median_interval([of(b) / of(a) for a, b in rows], CONFIDENCE)
    held = "held" if ratio.high <= MOST else "missed" if ratio.low > MOST else "unproven"
    return {"ratio": ratio, "at_most_1.03": held}


def source_digest() -> str:
    """Return a digest of gpuforge's source and the examples: pairs of others do not count."""
    digest = hashlib.blake2b(digest_size=8)
    for folder in ("src", "examples"):
        for path in sorted((HERE.parent / folder).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="one example")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--add", action="store_true")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "profiled.json")
    parser.add_argument("--inside", nargs=2, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.inside:
        run_inside(*chosen.inside)
        return
    digest = source_digest()
    result: dict[str, Any] = {"source": digest, "machine": fresh.machine(), "examples": {}}
    if chosen.add and chosen.out.exists():
        known = json.loads(chosen.out.read_text(encoding="utf-8"))
        result = known if known["source"] == digest else result
    for name in filter(lambda name: chosen.only in name, EXAMPLES):
        row = result["examples"].setdefault(name, {"pairs": []})
        try:
            for pair in time_pairs(name, chosen.rounds):  # written down at once: it may be stopped
                row["pairs"].append(pair)
                row["judged"] = judged(row["pairs"])
                chosen.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        except fresh.Broken as error:
            row["skipped"] = str(error)
            print(f"{name}: skipped: {error}")
            continue
        tell(name, row)
    every = [pair for row in result["examples"].values() for pair in row["pairs"]]
    result["together"] = {"judged": judged(every)}
    chosen.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    tell("together", {"pairs": every, **result["together"]})


def tell(name: str, row: dict[str, Any]) -> None:
    """Print what was found of one example."""
    for clock, told in row["judged"].items():
        print(f"{name}, {clock}, {len(row['pairs'])} pairs: {shown(told)}", flush=True)


def shown(told: dict[str, Any]) -> str:
    """Return what was found of one clock as text."""
    low, high = told["fixed_seconds"][1:]
    texts = [f"fixed {told['fixed_seconds'][0]:.3f} s ({low:.3f} to {high:.3f})"]
    for part in ("running", "whole"):
        middle, low, high = told[part]["ratio"]
        verdict = told[part]["at_most_1.03"]
        texts.append(f"{part} {middle:.3f} ({low:.3f} to {high:.3f}), {verdict}")
    return "; ".join(texts)


if __name__ == "__main__":
    main()
