"""The program of ``make demo``: plain NumPy, a first run with gpuforge, and a second one, in turns.

usage: demo.py [--rounds N] [--out FILE]

Each round begins with an empty cache. Plain NumPy is the same program with GPUFORGE_ENABLED=false,
where each call is the function itself. Times are of whole processes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

sys.path.insert(0, str(Path(__file__).parent))
import fresh

RESULTS = Path(__file__).parent / "results"
PROGRAM = str(Path(__file__).parent.parent / "examples" / "particle_trajectories.py")
ROUNDS = 5


def seconds_of(command: list[str], **variables: str) -> float:
    """Return the seconds of a process, which must succeed."""
    start = perf_counter()
    subprocess.run(command, env={**os.environ, **variables}, check=True, capture_output=True)
    return perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--out", type=Path, default=RESULTS / "demo.json")
    arguments = parser.parse_args()
    facts = fresh.machine()
    placed = [sys.executable, "-m", "gpuforge", "run", "--quiet", PROGRAM]
    times: dict[str, list[float]] = {"plain": [], "first run": [], "second run": []}
    for _ in range(arguments.rounds):
        times["plain"].append(seconds_of([sys.executable, PROGRAM], GPUFORGE_ENABLED="false"))
        with tempfile.TemporaryDirectory() as folder:
            for name in ("first run", "second run"):
                times[name].append(seconds_of(placed, XDG_CACHE_HOME=folder))
    table = {name: fresh.spread(seconds) for name, seconds in times.items()}
    for name, row in table.items():
        ratio = row["median"] / table["plain"]["median"]
        print(
            f"{name:10} {row['median']:.2f} s ({row['low']:.2f} to {row['high']:.2f}), {ratio:.2f}"
        )
    content = {"machine": facts, "table": table, "samples": times}
    arguments.out.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
