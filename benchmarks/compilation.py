"""What compiling a graph beside the program costs its calls: here, and in a process of its own.

usage: compilation.py [--graphs N] [--out FILE]

The program calls a NumPy function of about a millisecond without a pause. Meanwhile JAX graphs,
each another one, are compiled beside it: in turns in this process and in one that compiles for it
(`runtime/workers/compiler.py`). Counted for each graph is what the calls during its compilation
took beyond their median outside, and how long it took until the program could be run.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import fresh
import numpy as np

from gpuforge.runtime.array.graph import Graph
from gpuforge.runtime.backends.numpy import NumpyBackend
from gpuforge.runtime.evaluation.background import Background
from gpuforge.runtime.evaluation.compilation import compile_in_background
from gpuforge.runtime.evaluation.engine import BackendEngine, Programs
from gpuforge.runtime.evaluation.recording import record
from gpuforge.runtime.session import current_session
from gpuforge.runtime.workers.compiler import Compilers

RESULTS = Path(__file__).parent / "results"
GRAPHS = 40
HERE, ELSEWHERE = "in this process", "in a process of its own"


def body(number: int) -> Any:
    """Return a function of ten operations that no other number gives."""

    def function(x: Any) -> Any:
        y = np.exp(-x * (number + 0.5)) * np.sin(x + number) + np.tanh(x) / (number + 1)
        return np.sqrt(y * y + x) - np.log1p(np.abs(y))

    return function


class Recorder(BackendEngine):
    """Notes the graph of a call, which NumPy evaluates."""

    def run(self, tape: Any, wanted: list[int], modes: dict[str, str]) -> list[Any]:
        self.found = Graph(tuple(tape.entries), tuple(wanted)), tape.inputs
        return self._by_numpy(self.found[0], tape, modes)


def graphs(backend: Any, count: int) -> list[tuple[Graph, list[Any]]]:
    """Return graphs with their inputs, as calls record them."""
    x = np.random.default_rng(0).random(300_000)
    made = []
    for number in range(count):
        engine = Recorder(backend, NumpyBackend(), Programs())
        record(body(number), (x,), {}, engine)
        made.append(engine.found)
    return made


def measure(count: int) -> list[dict[str, Any]]:
    """Compile every graph, in turns here and elsewhere, while the program calls."""
    backend = current_session().find("jax")
    made = graphs(backend, count + 2)
    compilers, background = Compilers(), Background()
    compilers.begin("jax")
    while compilers.ask(backend, made[-1][0], like(made[-1])) is None:
        pass
    x = np.random.default_rng(1).random(400_000)
    usual = median(call(x) for _ in range(200))
    rows: list[dict[str, Any]] = []
    for number, (graph, inputs) in enumerate(made[:-1]):
        programs = Programs()
        where = ELSEWHERE if number % 2 else HERE
        programs.elsewhere = compilers if number % 2 else None
        program = programs.of(backend, graph)
        times = []
        start = perf_counter()
        one = compile_in_background(background, programs, backend, program, inputs)
        assert one is not None
        while not one.done:
            times.append(call(x))
        seconds = perf_counter() - start
        background.wait()
        assert not one.failure, one.failure
        if number:  # the first one finds everything cold
            rows.append({"where": where, "seconds": seconds,
                         "lost_seconds": sum(times) - usual * len(times)})  # fmt: skip
        usual = median(call(x) for _ in range(50))
    compilers.close()
    return rows


def like(one: tuple[Any, list[Any]]) -> list[Any]:
    """Return what a compilation is told of the inputs of a graph."""
    return [(v.dtype, v.shape) if isinstance(v, np.ndarray) else v for v in one[1]]


def call(x: Any) -> float:
    start = perf_counter()
    np.sqrt(x)
    return perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--graphs", type=int, default=GRAPHS)
    parser.add_argument("--out", type=Path, default=RESULTS / "compilation.json")
    arguments = parser.parse_args()
    if fresh.library_version("jax") is None:
        print("JAX is not installed: nothing to compile")
        return
    facts = fresh.machine()
    rows = measure(arguments.graphs)
    table = []
    for where in (HERE, ELSEWHERE):
        mine = [row for row in rows if row["where"] == where]
        row = {"where": where, "graphs": len(mine)} | {
            what: fresh.spread([one[what] for one in mine]) for what in ("lost_seconds", "seconds")
        }
        table.append(row)
        lost, took = row["lost_seconds"], row["seconds"]
        print(f"{where}: calls lost {lost['median'] * 1e3:.1f} ms a graph"
              f" ({lost['low'] * 1e3:.1f} to {lost['high'] * 1e3:.1f}),"
              f" ready after {took['median'] * 1e3:.0f} ms")  # fmt: skip
    content = {"machine": facts, "table": table, "samples": rows}
    arguments.out.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
