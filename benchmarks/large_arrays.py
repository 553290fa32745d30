"""Functions of large arrays, called in turn: plain NumPy, a first and a second run, each library.

usage: large_arrays.py [--rounds N] [--seconds S] [--programs FOLDER] [--runs NAME,...] [--convert]
                       [--out FILE]

One program calls eleven functions of 2 thousand to 33 million elements, each once a round. It runs
as plain NumPy (without gpuforge), placed freely with an empty cache, placed once more with what the
first run learned, and pinned to the first device of each library. Each is a process of its own; the
seconds of its rounds say when placement has paid for opening libraries and trying them. The results
of each function in the last round, and the arrays that it was given, are compared with plain
NumPy's.

--programs: other functions, such as were collected from public repositories: every `part*.py` in
FOLDER has a list `CASES` of names, functions, and makers of their arguments (called with a NumPy
Generator, they return positional and keyword arguments).
--runs: some of plain, first run, second run, and libraries.
"""

from __future__ import annotations

import argparse
import copy
import importlib
import json
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import agreement
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


@dataclass
class Case:
    """A function and what it is called with."""

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def call(self) -> tuple[float, Any]:
        """Call with copies of the arguments; return the seconds, the result and these copies."""
        args, kwargs = copy.deepcopy((self.args, self.kwargs))
        start = perf_counter()
        result = self.function(*args, **kwargs)
        return perf_counter() - start, (result, *args, *kwargs.values())


def own_cases() -> list[Case]:
    rng = np.random.default_rng(0)
    x, y = (rng.random(1 << 24, dtype=np.float32) for _ in range(2))
    wide = x.astype(np.float64)
    a, b = (rng.random((3000, 3000), dtype=np.float32) for _ in range(2))
    points = rng.random((2000, 16), dtype=np.float32)
    calls: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
        (affine, (x, y)), (wave, (x, y)), (option, (wide, wide + 1)), (length, (wide,)),
        (product, (a, b)), (chain, (a, b)), (system, (a,)), (spectrum, (x,)), (ordered, (x,)),
        (distances, (points,)), (counts, (x,)),
    ]  # fmt: skip
    return [Case(function.__name__, function, arrays, {}) for function, arrays in calls]


def cases_of(folder: str) -> list[Case]:
    """Return the cases of the modules of a folder; this benchmark's own if none is given."""
    if not folder:
        return own_cases()
    sys.path.insert(0, folder)
    found = []
    for file in sorted(Path(folder).glob("part*.py")):
        for name, function, maker in importlib.import_module(file.stem).CASES:
            args, kwargs = maker(np.random.default_rng(0))
            found.append(Case(name, function, tuple(args), dict(kwargs)))
    if len({one.name for one in found}) < len(found) or not found:
        raise SystemExit(f"{folder} has no part*.py with cases, or two of the same name")
    return found


def run_here(task: dict[str, Any]) -> None:
    """Call every function in each round; answer with the seconds of the rounds."""
    warnings.simplefilter("ignore")
    reference = cases_of(task["programs"])
    begun = perf_counter()
    cases = reference
    if task["gpuforge"]:
        import gpuforge as gf

        options = {"convert": True} if task["convert"] else {}
        cases = [
            replace(one, function=gf.offload(one.function, backend=task["pin"], **options))
            for one in reference
        ]
    seconds: dict[str, list[float]] = {one.name: [] for one in cases}
    results: dict[str, Any] = {}
    found: dict[str, Any] = {}
    for _ in range(task["rounds"]):
        for one in cases:
            took, results[one.name] = one.call()
            seconds[one.name].append(took)
        found["rounds"] = [sum(row) for row in zip(*seconds.values(), strict=True)]
        found["seconds"] = perf_counter() - begun
        found["functions"] = {n: [round(one, 6) for one in row] for n, row in seconds.items()}
        if found["seconds"] > task["seconds"]:
            break
    if task["gpuforge"]:
        found["places"] = {
            one.name: {n: [c.calls, c.seconds] for n, c in one.function.stats().counts.items()}
            for one in cases
        }
        found |= openings()
        found["agreement"] = {
            one.name: agreement.compare(one.call()[1], results[one.name]) for one in reference
        }
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
    parser.add_argument("--pinned-rounds", type=int, default=PINNED_ROUNDS, help="and of plain")
    parser.add_argument("--programs", default="", help="a folder of other functions")
    parser.add_argument("--runs", default="", help="default: all")
    parser.add_argument("--convert", action="store_true", help="offload with convert=True")
    parser.add_argument("--seconds", type=float, default=240.0, help="a run begins no round after")
    parser.add_argument("--out", type=Path, default=RESULTS / "large_arrays.json")
    parser.add_argument("--task", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.task:
        run_here(fresh.read_task(options.task))
        return
    pinned = [name for name in LIBRARIES if find_spec(name)]
    names = [one for one in options.runs.split(",") if one] or [PLAIN, FIRST, SECOND, *pinned]
    programs = str(Path(options.programs).absolute()) if options.programs else ""
    if SECOND in names and FIRST not in names[: names.index(SECOND)]:
        parser.error("the second run needs the first one before it")
    cases_of(programs)
    document: dict[str, Any] = {"machine": fresh.machine() | {"gpus": gpus()}, "runs": {}}
    document |= {"programs": options.programs, "convert": options.convert}
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            free = name in (FIRST, SECOND)
            task = {
                "rounds": options.rounds if free else options.pinned_rounds,
                "pin": "" if free or name == PLAIN else name, "gpuforge": name != PLAIN,
                "programs": programs, "convert": options.convert, "seconds": options.seconds,
            }  # fmt: skip
            cache = Path(folder, "free" if free else name)
            try:
                run = fresh.run(__file__, task, cache, limit_seconds=3 * options.seconds + 60)
            except fresh.Broken as broken:
                print(f"{name:10} {broken}", flush=True)
                document["runs"][name] = {"failed": str(broken)}
                continue
            document["runs"][name] = run
            shown = " ".join(f"{seconds:.2f}" for seconds in run["rounds"])
            print(f"{name:10} {run['seconds']:6.1f} s; rounds {shown}", flush=True)
            options.out.write_text(json.dumps(document, indent=1) + "\n")
    document["over_plain"] = over_plain(document["runs"])
    for name, row in document["over_plain"].items():
        print(f"{name:10} all rounds {row['all_rounds']:.2f}, the last {row['last_rounds']:.2f}")
    options.out.write_text(json.dumps(document, indent=1) + "\n")
    for name, run in document["runs"].items():
        for function, compared in run.get("agreement", {}).items():
            if not compared["equal"]:
                print(f"{name}: {function} differs: {compared}")


def over_plain(runs: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Return for each run its time over that of plain NumPy: of all rounds, and of the last."""
    if "rounds" not in runs.get(PLAIN, {}):
        return {}
    plain = median(runs[PLAIN]["rounds"])
    return {
        name: {
            "all_rounds": sum(run["rounds"]) / (plain * len(run["rounds"])),
            "last_rounds": median(run["rounds"][-SETTLED:]) / plain,
        }
        for name, run in runs.items()
        if "rounds" in run
    }


if __name__ == "__main__":
    main()
