"""What gpuforge costs a program that has nothing to gain from it.

usage: nothing_to_gain.py [--quick] [--repeats N] [--programs NAME,...] [--out FILE]

Programs: *tiny* (many calls on 16 elements), *numpy best* (work in which NumPy is fastest on a
CPU), *left out* (arrays and calls that no other library can take: objects, text, dates, records,
masked arrays, floating-point errors that raise, writes outside the arguments), *once* (one call
each of many functions), *short* (a process of about 0.2 s, Python and NumPy included, whose calls
would gain if there were more of them), *numbered* (solvers that are given the number of the step, a
new one in each call), *slices* (a long body of operations on slices, for which loading a library
looks better than it is).

Each runs in a fresh process on plain NumPy and, the functions offloaded, three times with one cache
folder: first, second and third run. Plain and placed processes take turns. Counted is the whole
process as its parent sees it: Python, imports, calls, end. Target: <= 1.03 × + 50 ms.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import fresh

RESULTS = Path(__file__).parent / "results"
RUNS = ("first run", "second run", "third run")
RATIO, SECONDS = 1.03, 0.05
REPEATS, QUICK_REPEATS = 9, 2
FUNCTIONS_ONCE = 150
Offload = Callable[[Callable[..., Any]], Callable[..., Any]]


# ---------------------------------------------------------------- the programs


def tiny(offload: Offload) -> None:
    """Call ten functions on 16 elements, 100,000 calls in all."""
    import functions
    import numpy as np

    names = ("affine", "clipped", "folded", "wave", "logistic", "entropy", "total", "largest",
             "deviation", "polynomial")  # fmt: skip
    calls = [offload(functions.WORKS[name].function) for name in names]
    x = np.random.default_rng(0).random(16)
    for _ in range(10_000):
        for call in calls:
            call(x)


def numpy_best(offload: Offload) -> None:
    """Sort, look up and take views of arrays: what NumPy does best on a CPU, some 2 s of it."""
    import numpy as np

    rng = np.random.default_rng(0)
    x, small = rng.random(300_000), rng.random((64, 64), dtype=np.float32)

    @offload
    def ordered(x: Any) -> Any:
        return np.sort(x)

    @offload
    def placed_in(x: Any, y: Any) -> Any:
        return np.searchsorted(x, y)

    @offload
    def largest(x: Any) -> Any:
        return x.max()

    @offload
    def part(x: Any) -> Any:
        return x[::2]

    @offload
    def product(x: Any) -> Any:
        return x @ x

    grid, wanted = np.linspace(0.0, 1.0, 1_000), x[:20_000]
    for _ in range(200):
        ordered(x)
        placed_in(grid, wanted)
        for _ in range(10):
            largest(x)
            part(x)
            product(small)


def left_out(offload: Offload) -> None:
    """Call functions on what stays with NumPy: no library takes it, or the code has effects."""
    import numpy as np

    rng = np.random.default_rng(0)
    x = rng.random(50_000)
    objects = np.array([1, 2.5, 3] * 500, dtype=object)
    words = np.array(["red", "green", "blue"] * 2_000)
    days = np.datetime64("2024-01-01") + np.arange(5_000)
    records = np.zeros(2_000, dtype=[("mass", "f8"), ("name", "U8")])
    masked = np.ma.masked_less(x[:5_000], 0.3)
    seen: list[float] = []

    @offload
    def double(x: Any) -> Any:
        return x + x

    @offload
    def upper(words: Any) -> Any:
        return np.char.upper(words)

    @offload
    def weeks(days: Any) -> Any:
        return (days - days[0]).astype("timedelta64[W]")

    @offload
    def heavier(records: Any) -> Any:
        return records[records["mass"] > 0.5]

    @offload
    def remembered(x: Any) -> Any:
        seen.append(float(x[0]))
        return np.unique(x[:2_000])

    @offload
    def ratio(x: Any) -> Any:
        return x / (x + 1.0)

    for _ in range(300):
        double(objects)
        double(masked)
        upper(words[:300])
        weeks(days)
        heavier(records)
        remembered(x)
        with np.errstate(all="raise"):
            ratio(x)


def once(offload: Offload) -> None:
    """Call many functions once each, on arrays for which another library would be faster."""
    import numpy as np

    x = np.random.default_rng(0).random(300_000)
    for number in range(FUNCTIONS_ONCE):
        space: dict[str, Any] = {"np": np}
        code = f"def step(x):\n    return np.exp(-x * {number}.5) * np.sin(x + {number}.0)\n"
        exec(compile(code, f"<step {number}>", "exec"), space)  # 150 functions of their own
        offload(space["step"])(x)


def short(offload: Offload) -> None:
    """Call two functions that would gain, for less than a tenth of a second."""
    import functions
    import numpy as np

    x = np.random.default_rng(0).random(100_000)
    gelu, wave = (offload(functions.WORKS[name].function) for name in ("gelu", "wave"))
    for _ in range(25):
        gelu(x)
        wave(x)


def numbered(offload: Offload) -> None:
    """Call functions that are given the number of the step, as solvers give it, some 2 s of it."""
    import numpy as np

    rng = np.random.default_rng(0)
    field, line, point = rng.random((2, 250, 250)), rng.random(20_000), rng.random(8)

    @offload
    def diffusion(step: int, u: Any) -> Any:
        spread = -4 * u
        for axis in (1, 2):
            spread += np.roll(u, 1, axis=axis)
            spread += np.roll(u, -1, axis=axis)
        return u + 0.1 * spread

    @offload
    def damped(x: Any, step: int) -> Any:
        return x * (1 - 1e-5 * (step % 7))

    @offload
    def nearest(x: Any, *, step: int) -> Any:
        return x[(step % 3) :].min()

    for step in range(1_500):
        field = diffusion(step, field)
        for part in range(4):
            line = damped(line, 4 * step + part)
            for _ in range(4):
                nearest(point, step=step)


def slices(offload: Offload) -> None:
    """Simulate a flow by the lattice Boltzmann method: 200 operations on slices, some 5 s of it.

    It looks as if a library would gain, but none does on two cores.
    """
    import numpy as np

    shifts = [(x, y) for x in (0, 1, -1) for y in (0, 1, -1)]
    weights = [{0: 4 / 9, 1: 1 / 9, 2: 1 / 36}[abs(x) + abs(y)] for x, y in shifts]

    @offload
    def step(f: Any, wall: Any) -> Any:
        for i, (x, y) in enumerate(shifts):
            f[:, :, i] = np.roll(np.roll(f[:, :, i], x, axis=1), y, axis=0)
        density = np.sum(f, axis=2)
        right = sum(x * f[:, :, i] for i, (x, y) in enumerate(shifts)) / density
        up = sum(y * f[:, :, i] for i, (x, y) in enumerate(shifts)) / density
        reflected = f[wall][:, ::-1]
        speed = right**2 + up**2
        for i, ((x, y), weight) in enumerate(zip(shifts, weights, strict=True)):
            along = x * right + y * up
            wanted = density * weight * (1 + 3 * along + 4.5 * along**2 - 1.5 * speed)
            f[:, :, i] += (wanted - f[:, :, i]) / 0.6
        f[wall] = reflected
        return speed

    f = np.ones((100, 400, 9)) + 0.01 * np.random.default_rng(0).random((100, 400, 9))
    y, x = np.mgrid[:100, :400]
    for _ in range(500):
        step(f, (x - 100) ** 2 + (y - 50) ** 2 < 600)


PROGRAMS = {"tiny": tiny, "numpy best": numpy_best, "left out": left_out, "once": once,
            "short": short, "numbered": numbered, "slices": slices}  # fmt: skip


def serve(task: dict[str, Any]) -> None:
    """Run one program in this process."""
    offload: Offload = lambda function: function  # noqa: E731 - as written
    if task["gpuforge"]:
        import gpuforge as gf

        offload = gf.offload
    begin = perf_counter()
    PROGRAMS[task["program"]](offload)
    fresh.answer(task, {"program_seconds": perf_counter() - begin})


# ---------------------------------------------------------------- all processes


def measure(name: str, start: str, limit_seconds: float) -> list[dict[str, Any]]:
    """Run a program on plain NumPy and placed three times, a plain one before each placed one."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as cache:
        for run in RUNS:
            pair: dict[str, Any] = {"program": name, "start": start, "run": run}
            for kind in ("plain", "placed"):
                task = {"program": name, "gpuforge": kind == "placed"}
                begin = start if kind == "placed" else fresh.NUMPY_FIRST
                try:
                    pair[kind] = fresh.run(
                        __file__, task, cache, start=begin, limit_seconds=limit_seconds
                    )
                except fresh.Broken as error:
                    pair["failed"] = f"{kind}: {error}"
                    break
            rows.append(pair)
    return rows


def summarise(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one row per program, start and run: the ratio and what is above the target."""
    table = []
    for program, start, run in dict.fromkeys((r["program"], r["start"], r["run"]) for r in rows):
        mine = [r for r in rows if (r["program"], r["start"], r["run"]) == (program, start, run)]
        good = [r for r in mine if "failed" not in r]
        row: dict[str, Any] = {"program": program, "start": start, "run": run,
                               "failed": [r["failed"] for r in mine if "failed" in r]}  # fmt: skip
        if good:
            # Within pairs: the machine's own speed changes from one minute to the next.
            pairs = [(r["plain"]["process_seconds"], r["placed"]["process_seconds"]) for r in good]
            row |= {
                "plain_seconds": fresh.spread([plain for plain, _ in pairs]),
                "placed_seconds": fresh.spread([placed for _, placed in pairs]),
                "ratio": fresh.spread([placed / plain for plain, placed in pairs]),
                "over_seconds": median(placed - RATIO * plain - SECONDS for plain, placed in pairs),
            }  # fmt: skip
        table.append(row)
    return table


def show(table: list[dict[str, Any]]) -> None:
    """Print each ratio beside its target."""
    print(f"{'program':12}{'start':16}{'run':12}{'NumPy s':>9}{'placed s':>9}{'bound':>7}"
          "  ratio (from to)")  # fmt: skip
    for row in table:
        for reason in row["failed"]:
            print(f"{row['program']}, {row['run']}: {reason}")
        if "ratio" not in row:
            continue
        plain, placed = (row[f"{kind}_seconds"]["median"] for kind in ("plain", "placed"))
        print(f"{row['program']:12}{row['start']:16}{row['run']:12}{plain:9.2f}{placed:9.2f}"
              f"{RATIO + SECONDS / plain:7.2f}  {fresh.shown(row['ratio'])}  "
              f"{fresh.verdict(row['over_seconds'] <= 0)}")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two repeats, one start")
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--programs", default=",".join(PROGRAMS))
    parser.add_argument("--out", type=Path, default=RESULTS / "nothing_to_gain.json")
    parser.add_argument("--task", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.task:
        serve(fresh.read_task(arguments.task))
        return
    facts = fresh.machine()
    starts = fresh.STARTS[:1] if arguments.quick else fresh.STARTS
    rows = []
    for _ in range(arguments.repeats or (QUICK_REPEATS if arguments.quick else REPEATS)):
        for start in starts:
            for name in arguments.programs.split(","):
                rows += measure(name, start, limit_seconds=120.0)
    table = summarise(rows)
    show(table)
    content = {"machine": facts, "table": table, "samples": rows}
    arguments.out.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
