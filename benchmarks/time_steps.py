"""Simulations that advance fields step by step: NumPy, and NumPy in blocks, in turns.

usage: time_steps.py [--rounds N] [--processes N] [--before SRC] [--out FILE]

Each function is called as written and pinned to ``blocks``, once each in every round; most write
into their arguments, which are copied for each call. Results are compared bit by bit. With
``--before``, the folder ``src`` of another state of gpuforge takes turns with this one, process by
process.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import fresh
import numpy as np

RESULTS = Path(__file__).parent / "results"
ROUNDS, WARM = 9, 4


def jacobi(a: Any, b: Any, steps: int) -> None:
    for _ in range(steps):
        for old, new in ((a, b), (b, a)):
            new[1:-1, 1:-1] = 0.2 * (
                old[1:-1, 1:-1] + old[1:-1, :-2] + old[1:-1, 2:] + old[2:, 1:-1] + old[:-2, 1:-1]
            )


def heat(a: Any, b: Any, steps: int) -> None:
    inner = slice(1, -1)
    for _ in range(steps):
        for old, new in ((a, b), (b, a)):
            twice = 2.0 * old[inner, inner, inner]
            new[inner, inner, inner] = old[inner, inner, inner] + 0.125 * (
                (old[2:, inner, inner] - twice + old[:-2, inner, inner])
                + (old[inner, 2:, inner] - twice + old[inner, :-2, inner])
                + (old[inner, inner, 2:] - twice + old[inner, inner, :-2])
            )


def around(x: Any) -> Any:
    return x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] - 4 * x[1:-1, 1:-1]


def reaction(u: Any, v: Any, steps: int) -> None:
    """Gray and Scott's model of two substances."""
    for _ in range(steps):
        spread_u, spread_v = around(u), around(v)
        uvv = u[1:-1, 1:-1] * v[1:-1, 1:-1] * v[1:-1, 1:-1]
        u[1:-1, 1:-1] += 0.16 * spread_u - uvv + 0.06 * (1 - u[1:-1, 1:-1])
        v[1:-1, 1:-1] += 0.08 * spread_v + uvv - 0.122 * v[1:-1, 1:-1]


def maxwell(ex: Any, ey: Any, hz: Any, steps: int) -> None:
    for step in range(steps):
        ey[0, :] = 0.1 * step
        ey[1:, :] -= 0.5 * (hz[1:, :] - hz[:-1, :])
        ex[:, 1:] -= 0.5 * (hz[:, 1:] - hz[:, :-1])
        hz[:-1, :-1] -= 0.7 * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1])


def wave(now: Any, before: Any) -> Any:
    """Return the next state: one step a call, into a new array."""
    new = np.empty_like(now)
    new[1:-1, 1:-1] = 2 * now[1:-1, 1:-1] - before[1:-1, 1:-1] + 0.1 * around(now)
    new[0] = new[-1] = 0.0
    new[:, 0] = new[:, -1] = 0.0
    return new


CASES: tuple[tuple[Callable[..., Any], int, tuple[int, ...], int], ...] = (
    (jacobi, 2, (450, 450), 20), (jacobi, 2, (700, 700), 20), (jacobi, 2, (2000, 2000), 4),
    (heat, 2, (60, 60, 60), 10), (heat, 2, (80, 80, 80), 10),
    (reaction, 2, (500, 500), 10), (reaction, 2, (1000, 1000), 4),
    (maxwell, 3, (500, 500), 10), (maxwell, 3, (1500, 1500), 4),
    (wave, 2, (500, 500), 0), (wave, 2, (1500, 1500), 0),
)  # fmt: skip
"""function, number of fields, their shape, steps a call (0: the function takes none)"""


def measure(case: int, rounds: int) -> dict[str, list[float]]:
    """Return the times of one case, both ways."""
    import gpuforge as gf

    function, fields, shape, steps = CASES[case]
    rng = np.random.default_rng(7)
    fresh_fields = [rng.random(shape) for _ in range(fields)]
    rest = (steps,) if steps else ()
    ways = {"numpy": function, "blocks": gf.offload(function, backend="blocks", convert=True)}
    times: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(WARM + rounds):
        after: dict[str, list[Any]] = {}
        for name, call in ways.items():
            given = [field.copy() for field in fresh_fields]
            start = perf_counter()
            result = call(*given, *rest)
            if number >= WARM:
                times[name].append(perf_counter() - start)
            after[name] = [*given, *([] if result is None else [result])]
        for one, two in zip(after["numpy"], after["blocks"], strict=True):
            assert one.tobytes() == two.tobytes(), function.__name__
    return times


def in_process(source: str, rounds: int) -> list[dict[str, list[float]]]:
    """Return the times of all cases in a fresh process that imports gpuforge from a folder."""
    environ = {**os.environ, "PYTHONPATH": source}
    argv = [sys.executable, __file__, "--here", "--rounds", str(rounds)]
    ran = subprocess.run(argv, env=environ, check=True, capture_output=True, text=True)
    found: list[dict[str, list[float]]] = json.loads(ran.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--before", type=Path, help="src of another state")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=RESULTS / "time_steps.json")
    arguments = parser.parse_args()
    if arguments.here:
        print(json.dumps([measure(case, arguments.rounds) for case in range(len(CASES))]))
        return
    sources = {"now": str(Path(__file__).parent.parent / "src")}
    if arguments.before:
        sources["before"] = str(arguments.before.resolve())
    facts, table = fresh.machine(), []
    samples: dict[str, list[list[dict[str, list[float]]]]] = {state: [] for state in sources}
    for _ in range(arguments.processes):
        for state, source in sources.items():
            samples[state].append(in_process(source, arguments.rounds))
    for case, (function, _, shape, _) in enumerate(CASES):
        row: dict[str, Any] = {"function": function.__name__, "shape": shape}
        said = f"{function.__name__:9} {' x '.join(map(str, shape)):13}"
        for state, processes in samples.items():
            numpy, blocks = (
                fresh.spread([t for one in processes for t in one[case][way]])
                for way in ("numpy", "blocks")
            )
            ratio = round(blocks["median"] / numpy["median"], 3)
            row[state] = {"numpy": numpy, "blocks": blocks, "ratio": ratio}
            said += f"  {state}: NumPy {numpy['median'] * 1e3:6.1f} ms, blocks {ratio:.2f} times"
        table.append(row)
        print(said)
    content = {"machine": facts, "table": table, "samples": samples}
    arguments.out.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
