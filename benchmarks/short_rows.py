"""Arrays of small vectors, such as positions and colours: NumPy, and NumPy in blocks, in turns.

usage: short_rows.py [--rounds N] [--out FILE]

Each function is called as written and pinned to ``blocks``, once each in every round. One array has
12,000 rows and one a million. Results are compared bit by bit.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import fresh
import numpy as np

import gpuforge as gf

RESULTS = Path(__file__).parent / "results"
ROUNDS, WARM = 15, 4
RNG = np.random.default_rng(5)
SIZES = (12_000, 1_000_000)


def normalised(p: Any) -> Any:
    return p / np.sqrt(np.sum(p * p, axis=1, keepdims=True))


def kinetic(p: Any) -> Any:
    return 0.5 * np.sum(p**2, axis=1).mean()


def centred(p: Any) -> Any:
    return p - p.mean(axis=0)


def corners(p: Any) -> Any:
    return np.stack([p.min(axis=0), p.max(axis=0)])


def distances(p: Any) -> Any:
    return np.sqrt(((p - p[0]) ** 2).sum(axis=1))


def grey(p: Any) -> Any:
    return np.max(p, axis=1) * 0.5 + np.min(p, axis=1) * 0.5


def balanced(p: Any) -> Any:
    return np.clip(p * np.array([1.1, 0.95, 1.02]), 0.0, 1.0)


def inside(p: Any) -> Any:
    return np.all((p > np.array([0.1, 0.2, 0.3])) & (p < np.array([0.9, 0.8, 0.7])), axis=1)


def pulled(p: Any) -> Any:
    for body in range(4):
        away = p - p[body]
        p = p - away * (0.01 / (np.sum(away * away, axis=1, keepdims=True) + 1e-3))
    return p


def softmax(p: Any) -> Any:
    e = np.exp(p - p.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def flat(p: Any) -> Any:
    """Return what columns are of no use for."""
    return p * p + 2.0 * p


FUNCTIONS: tuple[Callable[[Any], Any], ...] = (
    normalised, kinetic, centred, corners, distances, grey, balanced, inside, pulled, softmax, flat,
)  # fmt: skip


def measure(function: Callable[[Any], Any], rows: int, rounds: int) -> dict[str, Any]:
    """Return the times of one function, both ways."""
    x = RNG.random((rows, 3))
    placed = gf.offload(backend="blocks")(function)
    expected = function(x)
    for _ in range(WARM):
        same = placed(x)
        assert same.dtype == expected.dtype
        assert same.tobytes() == expected.tobytes(), function.__name__
    times: dict[str, list[float]] = {"numpy": [], "blocks": []}
    for _ in range(rounds):
        for name, call in (("numpy", function), ("blocks", placed)):
            start = perf_counter()
            call(x)
            times[name].append(perf_counter() - start)
    return {"function": function.__name__, "rows": rows, "seconds": times}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--out", type=Path, default=RESULTS / "short_rows.json")
    arguments = parser.parse_args()
    facts, samples, table = fresh.machine(), [], []
    with gf.session(history=False):
        samples += [measure(f, rows, arguments.rounds) for rows in SIZES for f in FUNCTIONS]
    for one in samples:
        numpy, blocks = (fresh.spread(one["seconds"][name]) for name in ("numpy", "blocks"))
        ratio = blocks["median"] / numpy["median"]
        table.append({"function": one["function"], "rows": one["rows"], "numpy": numpy,
                      "blocks": blocks, "ratio": round(ratio, 3)})  # fmt: skip
        print(f"{one['function']:12} {one['rows']:9,} rows: NumPy {numpy['median'] * 1e3:8.2f} ms,"
              f" blocks {blocks['median'] * 1e3:8.2f} ms, {ratio:.2f} times")  # fmt: skip
    content = {"machine": facts, "table": table, "samples": samples}
    arguments.out.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
