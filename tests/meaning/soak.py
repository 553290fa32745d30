"""``python -m tests.meaning.soak``: very many random programs, offloaded and plain.

usage: soak [--programs N] [--backends torch,jax] [--chunk N] [--output FILE]

Programs of `tests.meaning.fuzz`, N for each backend, in processes of some thousands. What is done
is kept in FILE and left out when the script is run again, so that it may be interrupted; for the
programs of changed sources, remove FILE. Every program that disagrees is in there, made smaller.
Status 1 if any does, 0 if none.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from ast import literal_eval
from collections import Counter
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "soak-fuzz.json"
FIRST_SEED = 1_000
CLOSING = re.compile(r"^(\d+) programs on (\S+): (\{.*\})$", re.M)
WRONG = ("disagree", "refused", "ended the process")


def run_chunk(backend: str, seed: int, programs: int) -> dict[str, Any]:
    """Run the programs of one seed in a process; return the counts and what it printed."""
    command = [sys.executable, "-m", "tests.meaning.fuzz", "--backend", backend]
    command += ["--programs", str(programs), "--seed", str(seed)]
    with tempfile.TemporaryDirectory() as home:
        environ = {**os.environ, "HOME": home, "XDG_CACHE_HOME": home, "JAX_PLATFORMS": "cpu"}
        start = perf_counter()
        done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True)
    closing = CLOSING.search(done.stdout)
    if closing is None:
        raise SystemExit(f"{' '.join(command)} ended without counts:\n{done.stderr[-2000:]}")
    return {
        "seed": seed,
        "programs": programs,
        "seconds": round(perf_counter() - start, 1),
        "counts": literal_eval(closing[3]),
        "disagreements": done.stdout[: closing.start()].strip().split("\n\n")
        if any(name in literal_eval(closing[3]) for name in WRONG)
        else [],
    }


def load(path: Path) -> dict[str, Any]:
    """Return what an interrupted run has kept."""
    if path.exists():
        return dict(json.loads(path.read_text()))
    return {"schema_version": 1, "chunks": {}}


def keep(path: Path, document: dict[str, Any], backends: list[str]) -> None:
    """Write the results so far, with sums over the chunks of each backend."""
    document["python"] = platform.python_version()
    document["versions"] = {name: version(name) for name in ("numpy", *backends)}
    document["totals"] = {name: totals(chunks) for name, chunks in document["chunks"].items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".tmp")
    fresh.write_text(json.dumps(document, indent=1) + "\n")
    fresh.replace(path)


def totals(chunks: list[dict[str, Any]]) -> dict[str, int]:
    """Return the sums over chunks."""
    counts: Counter[str] = Counter()
    for chunk in chunks:
        counts.update(chunk["counts"])
    return {"programs": sum(chunk["programs"] for chunk in chunks), **counts}


def main() -> int:
    """Run what is not done yet; say how many programs disagree."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=100_000, help="for each backend")
    parser.add_argument("--backends", default="torch,jax")
    parser.add_argument("--chunk", type=int, default=2_500, help="programs in one process")
    parser.add_argument("--output", type=Path, default=RESULTS)
    chosen = parser.parse_args()
    backends = [name for name in chosen.backends.split(",") if find_spec(name) is not None]
    document = load(chosen.output)
    for backend in backends:
        chunks = document["chunks"].setdefault(backend, [])
        while (left := chosen.programs - sum(chunk["programs"] for chunk in chunks)) > 0:
            seed = FIRST_SEED + len(chunks)
            chunks.append(run_chunk(backend, seed, min(chosen.chunk, left)))
            keep(chosen.output, document, backends)
            print(f"{backend}, seed {seed}: {chunks[-1]['counts']}", flush=True)
    for backend in backends:
        print(f"{backend}: {totals(document['chunks'][backend])}")
    found = [totals(document["chunks"][backend]) for backend in backends]
    if not backends:
        print("no backend besides NumPy is installed", file=sys.stderr)
        return 3
    return 1 if any(one.get(name) for one in found for name in WRONG) else 0


if __name__ == "__main__":
    sys.exit(main())
