"""What a call costs right after another backend's call, and what a mixed stream costs.

usage: contention.py [--out FILE]

Each mode runs in a process of its own: *tamed* (what `gpuforge run` sets before anything loads),
*late* (the program loaded NumPy before gpuforge, which starts its threads anew), *untamed*
(GPUFORGE_TAME_THREADS=0), and as a control *serial* (each library has one thread: nothing can
fight, and what a call still costs more after another library's is cold caches). Every mode runs
`REPEATS` times, the modes in turn, and a ratio is the median of the repeats'. For every
ordered pair of backends, rounds of three calls are interleaved: B alone (B follows B), B after A,
and B after a pause as long as A's call in which no library runs (a core that has gone to sleep
wakes up slower: that part is not contention). The mixed stream calls placed functions in random
order, in blocks that alternate with single calls, and is compared with the sum of each one's best
single median.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter
from typing import Any

RESULTS = Path(__file__).parent / "results"
ROUNDS = 60
REPEATS = 3
STREAM_CALLS, BLOCK_CALLS, WARM_CALLS = 1_800, 60, 20
MODES = {
    "tamed": {"import_numpy_first": False, "tame": "1"},
    "late": {"import_numpy_first": True, "tame": "1"},
    "untamed": {"import_numpy_first": True, "tame": "0"},
    "serial": {"import_numpy_first": False, "tame": "1"},
}
ONE_THREAD = {
    "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
}  # fmt: skip


def spin(seconds: float) -> None:
    """Wait on this thread, no library at work."""
    end = perf_counter() + seconds
    while perf_counter() < end:
        pass


def measure() -> dict[str, Any]:
    """Measure in this process and return every sample's summary."""
    import numpy as np
    import workloads

    import gpuforge as gf
    from gpuforge.runtime.threads import contention

    rng = np.random.default_rng(0)
    inputs = {
        "row_cosine": (rng.random((1024, 64), dtype=np.float32),),
        "square_product": (rng.random((256, 256), dtype=np.float32),),
        "wave": (rng.random(200_000, dtype=np.float32),),
    }
    names = ["numpy", *(n for n in ("torch", "jax") if find_spec(n))]
    calls: dict[tuple[str, str], Callable[[], Any]] = {}
    for work, arguments in inputs.items():
        for backend in names:
            placed = gf.offload(backend=backend)(getattr(workloads, work))
            calls[work, backend] = lambda placed=placed, arguments=arguments: placed(*arguments)
    for call in calls.values():
        for _ in range(20):
            call()
    pairs = [pair(calls, work, a, b) for work in inputs for a in names for b in names if a != b]
    stream = mixed_stream(calls, inputs, names)
    state = contention.state
    return {
        "set": state.set_variables,
        "too_late": state.too_late,
        "restarted": state.restarted,
        "limited_calls": state.limited_calls,
        "pairs": pairs,
        "stream": stream,
    }


def pair(calls: Any, work: str, first: str, second: str) -> dict[str, Any]:
    """Time `second`'s call alone, after `first`'s, and after a pause of that length."""
    before, timed = calls[work, first], calls[work, second]
    start = perf_counter()
    for _ in range(5):
        before()
    pause = (perf_counter() - start) / 5
    samples: dict[str, list[float]] = {"alone": [], "after": [], "paused": []}
    for _ in range(ROUNDS):
        for _ in range(3):
            timed()
        samples["alone"].append(clock(timed))
        before()
        samples["after"].append(clock(timed))
        spin(pause)
        samples["paused"].append(clock(timed))
    return {
        "work": work, "call": second, "after": first,
        **{f"{k}_us": [round(1e6 * q, 1) for q in (median(v), *quantiles(v, n=4)[::2])]
           for k, v in samples.items()},
        "ratio": round(median(samples["after"]) / median(samples["alone"]), 3),
        "ratio_to_paused": round(median(samples["after"]) / median(samples["paused"]), 3),
    }  # fmt: skip


def clock(call: Callable[[], Any]) -> float:
    start = perf_counter()
    call()
    return perf_counter() - start


def mixed_stream(calls: Any, inputs: Any, names: list[str]) -> dict[str, Any]:
    """Return what placed calls in random order cost over the sum of the best single medians.

    The machine's own speed changes from one second to the next: after learning, blocks of the
    stream alternate with blocks of single calls, and each block is compared with its neighbour.
    """
    import numpy as np
    import workloads

    import gpuforge as gf

    placed = {work: gf.offload(getattr(workloads, work)) for work in inputs}
    order = np.random.default_rng(1).choice(list(inputs), size=STREAM_CALLS).tolist()
    for work in 2 * order:
        placed[work](*inputs[work])
    ratios, seconds, expected = [], 0.0, 0.0
    for start in range(0, STREAM_CALLS, BLOCK_CALLS):
        block = order[start : start + BLOCK_CALLS]
        best = {work: best_median(calls, work, names) for work in inputs}
        for work in order[:WARM_CALLS]:
            placed[work](*inputs[work])
        took = sum(clock(lambda work=work: placed[work](*inputs[work])) for work in block)
        ratios.append(took / sum(best[work] for work in block))
        seconds, expected = seconds + took, expected + sum(best[work] for work in block)
    return {"ratio": median(ratios), "quartiles": quantiles(ratios, n=4)[::2],
            "seconds": seconds, "sum_of_best_medians": expected,
            "placed": {w: {n: c.calls for n, c in f.stats().counts.items()}
                       for w, f in placed.items()}}  # fmt: skip


def best_median(calls: Any, work: str, names: list[str]) -> float:
    """Return the median of single calls in a row on the backend where it is lowest."""
    found = []
    for name in names:
        for _ in range(3):
            calls[work, name]()
        found.append(median(clock(calls[work, name]) for _ in range(12)))
    return min(found)


def run_mode(name: str) -> dict[str, Any]:
    """Run `measure` in a fresh process."""
    mode = MODES[name]
    code = "import numpy; " if mode["import_numpy_first"] else "import gpuforge.runtime; "
    code += "import json, contention; print(json.dumps(contention.measure()))"
    clean = {
        k: v for k, v in os.environ.items() if not k.startswith(("GOMP_", "OMP_", "OPENBLAS_"))
    }
    environment = {
        **clean, **(ONE_THREAD if name == "serial" else {}),
        "GPUFORGE_TAME_THREADS": str(mode["tame"]), "GPUFORGE_HISTORY": "0",
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), clean.get("PYTHONPATH", "")]),
    }  # fmt: skip
    done = subprocess.run([sys.executable, "-c", code], env=environment, check=True,
                          capture_output=True, text=True)  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=RESULTS / "contention.json")
    arguments = parser.parse_args()
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in MODES}
    for _ in range(REPEATS):
        for name in MODES:
            runs[name].append(run_mode(name))
    for name, repeats in runs.items():
        show(name, repeats)
    arguments.out.write_text(json.dumps(runs, indent=1) + "\n")


def show(name: str, repeats: list[dict[str, Any]]) -> None:
    """Print one mode: medians over its repeats, and the range of the ratio."""
    first = repeats[0]
    print(f"\n{name}: set {first['set'] or 'nothing'}, too late for {first['too_late']}, "
          f"started anew: {first['restarted']}, "
          f"{first['limited_calls']} calls limited")  # fmt: skip
    print(f"{'work':16}{'call':8}{'after':8}{'alone µs':>10}{'after µs':>10}{'ratio':>8}"
          f"{'from':>8}{'to':>8}{'to paused':>11}")  # fmt: skip
    for row in zip(*(run["pairs"] for run in repeats), strict=True):
        ratios = [pair["ratio"] for pair in row]
        alone, after = (median(pair[k][0] for pair in row) for k in ("alone_us", "after_us"))
        print(f"{row[0]['work']:16}{row[0]['call']:8}{row[0]['after']:8}{alone:10.0f}{after:10.0f}"
              f"{median(ratios):8.2f}{min(ratios):8.2f}{max(ratios):8.2f}"
              f"{median(pair['ratio_to_paused'] for pair in row):11.2f}")  # fmt: skip
    streams = [run["stream"]["ratio"] for run in repeats]
    print(f"mixed stream: {median(streams):.2f} × the sum of the best medians "
          f"({', '.join(f'{s:.2f}' for s in streams)}); {first['stream']['placed']}")  # fmt: skip


if __name__ == "__main__":
    main()
