"""What gpuforge costs when it has nothing to do: its import, a known call, recording alone.

usage: overhead.py [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter
from typing import Any

RESULTS = Path(__file__).parent / "results"
QUARTILES = ("lower_quartile", "median", "upper_quartile")
PROCESSES, ROUNDS, CALLS = 40, 60, 2_000


def import_cost() -> dict[str, Any]:
    """Time whole processes in pairs: bare Python, and Python that imports gpuforge."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    times: dict[str, list[float]] = {"pass": [], "import gpuforge": []}
    for _ in range(PROCESSES):
        for statement, seconds in times.items():
            start = perf_counter()
            subprocess.run([sys.executable, "-c", statement], check=True, env=environment)
            seconds.append(perf_counter() - start)
    added = [b - a for a, b in zip(*times.values(), strict=True)]
    return {"bare_seconds": median(times["pass"]), "added_seconds": spread(added)}


def call_cost() -> dict[str, Any]:
    """Time a known call on 16 elements in turns with the function itself."""
    import numpy as np

    import gpuforge as gf

    def direct(x: Any) -> Any:
        return x * 2.0 + 1.0

    def keyed(x: Any, *, scale: float) -> Any:
        return x * scale

    small = np.ones(16)
    cases = {
        "one array": (direct, (small,), {}),
        "array and keyword": (keyed, (small,), {"scale": 2.0}),
    }
    found = {}
    for name, (function, args, kwargs) in cases.items():
        placed = gf.offload(function)
        for _ in range(5 * CALLS):
            placed(*args, **kwargs)
        plain, routed = [], []
        for _ in range(ROUNDS):
            for called, out in ((function, plain), (placed, routed)):
                start = perf_counter()
                for _ in range(CALLS):
                    called(*args, **kwargs)
                out.append((perf_counter() - start) / CALLS)
        added = [b - a for a, b in zip(plain, routed, strict=True)]
        found[name] = {"direct_seconds": median(plain), "added_seconds": spread(added)}
    return found


class Nothing:
    """Evaluates nothing: what is left is the cost of recording."""

    def __init__(self) -> None:
        from gpuforge.runtime.array.recorder import Able

        self.able = Able()
        self.dtypes = frozenset("?bBhHiIlLqQefdgFDG")

    def supports(self, operation: Any, dtype: Any) -> str:
        return ""

    def get(self, value: Any) -> Any:
        return value

    def run(self, tape: Any, wanted: list[int], modes: Any) -> list[Any]:
        return [tape.inputs[0] for _ in wanted]


def recording_cost() -> dict[str, Any]:
    """Time recording short and long chains of operations, and tell operations and call apart."""
    import numpy as np

    from gpuforge.runtime.evaluation.recording import record

    def chain(x: Any, steps: int) -> Any:
        for _ in range(steps):
            x = x * 2.0 + 1.0
        return x

    small, engine = np.ones(16), Nothing()
    short, long = 1, 21
    times: dict[int, list[float]] = {short: [], long: []}
    for _ in range(ROUNDS):
        for steps, out in times.items():
            start = perf_counter()
            for _ in range(CALLS // 10):
                record(chain, (small, steps), {}, engine)
            out.append((perf_counter() - start) / (CALLS // 10))
    each = [(b - a) / (2 * (long - short)) for a, b in zip(*times.values(), strict=True)]
    call = [a - 2 * short * one for a, one in zip(times[short], each, strict=True)]
    return {"operation_seconds": spread(each), "call_seconds": spread(call)}


def spread(values: list[float]) -> dict[str, float]:
    low, middle, high = quantiles(values, n=4)
    return {"median": middle, "lower_quartile": low, "upper_quartile": high}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=RESULTS / "overhead.json")
    arguments = parser.parse_args()
    results = {"import": import_cost(), "call": call_cost(),
               "recording": recording_cost()}  # fmt: skip
    low, middle, high = (1e3 * results["import"]["added_seconds"][q] for q in QUARTILES)
    print(f"import gpuforge adds {middle:.1f} ms ({low:.1f} to {high:.1f})")
    for name, row in results["call"].items():
        direct = 1e6 * row["direct_seconds"]
        low, middle, high = (1e6 * row["added_seconds"][q] for q in QUARTILES)
        print(f"a known call, {name}: {middle:.2f} µs ({low:.2f} to {high:.2f}) more than the")
        print(f"  {direct:.2f} µs of the function itself")
    for name, row in results["recording"].items():
        low, middle, high = (1e6 * row[q] for q in QUARTILES)
        print(f"recording, each {name.removesuffix('_seconds')}: {middle:.2f} µs"
              f" ({low:.2f} to {high:.2f})")  # fmt: skip
    arguments.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
