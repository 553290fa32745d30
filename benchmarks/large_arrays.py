"""Functions of large arrays, called in turn: plain NumPy, a first and a second run, each library.

usage: large_arrays.py [--rounds N] [--out FILE]

One program calls eleven functions of 2 thousand to 33 million elements, each once a round. It runs
as plain NumPy (without gpuforge), placed freely with an empty cache, placed once more with what the
first run learned, and pinned to the first device of each library. Each is a process of its own; the
seconds of its rounds say when placement has paid for opening libraries and trying them. The results
of each function in the last round are compared with plain NumPy's.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import fresh
import numpy as np

RESULTS = Path(__file__).parent / "results"
ROUNDS, PINNED_ROUNDS, SETTLED = 25, 6, 5
PLAIN, FIRST, SECOND = "plain", "first run", "second run"
LIBRARIES = ("torch", "cupy", "jax")


def affine(a: Any, b: Any) -> Any:
    return 2 * a + b


def wave(a: Any, b: Any) -> Any:
    return np.exp(-a * a) * np.sin(7 * b) + np.sqrt(a + b)


def option(s: Any, k: Any) -> Any:
    return s * np.tanh(np.log1p(s / (k + 1))) - k * np.exp(-0.1 * s) * np.arctan(k)


def length(a: Any) -> Any:
    return np.sqrt((a * a).sum())


def product(a: Any, b: Any) -> Any:
    return a @ b


def chain(a: Any, b: Any) -> Any:
    return ((a @ b) @ a - b).sum(axis=0)


def system(a: Any) -> Any:
    return np.linalg.solve(a + 3000 * np.eye(len(a), dtype=a.dtype), a[0])


def spectrum(a: Any) -> Any:
    return np.abs(np.fft.fft(a.reshape(4096, -1))).mean(axis=0)


def ordered(a: Any) -> Any:
    return np.sort(a)


def distances(p: Any) -> Any:
    return np.sqrt(((p[:, None, :] - p[None, :, :]) ** 2).sum(axis=-1)).mean(axis=1)


def counts(a: Any) -> Any:
    return np.histogram(a, 100, range=(0, 1))[0]


def work() -> list[tuple[Callable[..., Any], tuple[Any, ...]]]:
    """Return each function with its arguments."""
    rng = np.random.default_rng(0)
    x, y = (rng.random(1 << 24, dtype=np.float32) for _ in range(2))
    wide = x.astype(np.float64)
    a, b = (rng.random((3000, 3000), dtype=np.float32) for _ in range(2))
    points = rng.random((2000, 16), dtype=np.float32)
    return [
        (affine, (x, y)), (wave, (x, y)), (option, (wide, wide + 1)), (length, (wide,)),
        (product, (a, b)), (chain, (a, b)), (system, (a,)), (spectrum, (x,)), (ordered, (x,)),
        (distances, (points,)), (counts, (x,)),
    ]  # fmt: skip


def run_here(task: dict[str, Any]) -> None:
    """Call every function in each round; answer with the seconds of the rounds."""
    begun = perf_counter()
    calls = work()
    if task["gpuforge"]:
        import gpuforge as gf

        calls = [(gf.offload(one, backend=task["pin"]), arrays) for one, arrays in calls]
    rounds, results = [], []
    for _ in range(task["rounds"]):
        start = perf_counter()
        results = [one(*arrays) for one, arrays in calls]
        rounds.append(perf_counter() - start)
    found = {"rounds": rounds, "seconds": perf_counter() - begun}
    reference = [function(*arrays) for function, arrays in work()]
    found["largest_error"] = {
        one.__name__: float(np.max(np.abs(result - wanted)) / np.max(np.abs(wanted)))
        for (one, _), result, wanted in zip(work(), results, reference, strict=True)
    }
    if task["gpuforge"]:
        found["places"] = {
            one.__name__: {n: [c.calls, c.seconds] for n, c in one.stats().counts.items()}
            for one, _ in calls
        }
        found |= openings()
    fresh.answer(task, found)


def gpus() -> list[str]:
    """Return the names of the GPUs of this machine."""
    import gpuforge

    return [str(device.name) for device in gpuforge.detect().devices]


def openings() -> dict[str, Any]:
    """Return which libraries were opened, and what of it the program felt."""
    from gpuforge.runtime.session import current_session

    opened = current_session().openings.all
    return {"opened": [[one.library.name, one.elapsed_seconds] for one in opened]}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--out", type=Path, default=RESULTS / "large_arrays.json")
    parser.add_argument("--task", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.task:
        run_here(fresh.read_task(options.task))
        return
    facts, runs = fresh.machine() | {"gpus": gpus()}, {}
    pinned = [name for name in LIBRARIES if find_spec(name)]
    with tempfile.TemporaryDirectory() as folder:
        for name in (PLAIN, FIRST, SECOND, *pinned):
            rounds = options.rounds if name in (FIRST, SECOND) else PINNED_ROUNDS
            pin = name if name in pinned else ""
            task = {"rounds": rounds, "pin": pin, "gpuforge": name != PLAIN}
            cache = Path(folder, name if pin else "free")
            runs[name] = fresh.run(__file__, task, cache, limit_seconds=120.0)
            shown = " ".join(f"{seconds:.2f}" for seconds in runs[name]["rounds"])
            print(f"{name:10} {runs[name]['seconds']:6.1f} s; rounds {shown}", flush=True)
    plain = median(runs[PLAIN]["rounds"])
    table = {
        name: {
            "all_rounds": sum(run["rounds"]) / (plain * len(run["rounds"])),
            "last_rounds": median(run["rounds"][-SETTLED:]) / plain,
        }
        for name, run in runs.items()
    }
    for name, row in table.items():
        print(f"{name:10} all rounds {row['all_rounds']:.2f}, the last {row['last_rounds']:.2f}")
    document = {"machine": facts, "over_plain": table, "runs": runs}
    options.out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
