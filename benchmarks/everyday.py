"""Whether everyday NumPy functions run on PyTorch and JAX, mean the same there, and gain.

usage: everyday.py [--backends torch,jax] [--sizes N,...] [--repeats N] [--only NAME,...]
                   [--forms plain,xp] [--quick] [--output FILE]

Each body of the package `everyday` is called in plain NumPy form and in Array API form.
*Checked*: pinned to each library with ordinary arguments and with NaN, infinities, singular
matrices, indices out of range, zeros to divide by, overflow, nothing at all; the result or the
exception, and the arguments afterwards, are compared with those of the function itself.
*Timed*: the function itself, pinned and freely placed calls, in turns; medians and quartiles.
A body that ends the process is recorded as such; the others go on in a new process. `--quick`
leaves out the timing.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

SIZES = (1_000, 20_000, 200_000, 2_000_000)
CHECKED_SIZE = 1_000
LIBRARIES = ("torch", "jax")
REPEATS = 9
RESULTS = Path(__file__).parent / "results"


# ---------------------------------------------------------------- in a process of its own


def examine(names: list[str], chosen: argparse.Namespace) -> None:
    """Check and time bodies, one line of JSON each on the standard output."""
    import numpy as np
    from everyday import BODIES, FIELD_OF
    from everyday.checking import check, session
    from everyday.timing import measure

    lines = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a library prints by itself goes elsewhere
    np.seterr(all="ignore")
    for name in names:
        body = BODIES[name]
        row: dict[str, Any] = {"name": name, "field": FIELD_OF[name], "forms": {}}
        with session(chosen.backends):
            for form in chosen.forms:
                checked = {b: check(body, form, b, CHECKED_SIZE) for b in chosen.backends}
                row["forms"][form] = {"checked": checked, "timed": {}}
        with session(chosen.backends):
            for form, found in row["forms"].items():
                for size in () if chosen.quick else chosen.sizes:
                    cell = measure(body, form, chosen.backends, size, chosen.repeats)
                    found["timed"][str(size)] = cell
        lines.write(json.dumps(row) + "\n")


def examined(names: list[str], arguments: list[str]) -> Iterator[dict[str, Any]]:
    """Yield the row of each body; one that ends the process is one with `ended`."""
    left = list(names)
    while left:
        command = [sys.executable, __file__, *arguments, "--child", ",".join(left)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            for line in child.stdout:
                row = json.loads(line)
                left.remove(row["name"])
                yield row
        if left and child.returncode > 0:
            raise SystemExit(f"{left[0]} could not be examined: see the traceback above")
        if left:
            yield {"name": left.pop(0), "ended": f"signal {-child.returncode}", "forms": {}}


# ---------------------------------------------------------------- what is shown


def line_of(row: dict[str, Any]) -> str:
    """Return one line of the table: a cell for each form and backend."""
    if "ended" in row:
        return f"{row['name']:26} ended the process: {row['ended']}"
    cells = []
    for found in row["forms"].values():
        for backend, checked in found["checked"].items():
            word = "runs" if checked["ran"] else "numpy"
            cells.append(f"{word} {len(checked['differs'])}≠" if checked["differs"] else word)
            cells[-1] = f"{cells[-1]:<9}" + gain(found["timed"], backend)
        if found["timed"]:
            cells.append("free" + gain(found["timed"], "free"))
    return f"{row['name']:26} {row['field']:18} " + "".join(f"{cell:<18}" for cell in cells)


def gain(timed: dict[str, Any], way: str) -> str:
    """Return how many times as fast as NumPy one way is at the largest size."""
    if not timed:
        return ""
    found = ratio(timed[max(timed, key=int)], way)
    return f"{found:6.2f}x" if found else "      -"


def ratio(cell: dict[str, Any], way: str) -> float | None:
    """Return how many times as fast as NumPy one way is; None where its calls failed."""
    if "failed" in cell[way]:
        return None
    return median(cell["numpy"]["seconds"]) / median(cell[way]["seconds"])


def shares(rows: list[dict[str, Any]], forms: list[str], backends: list[str]) -> list[dict]:
    """Return for each form and backend how many bodies run there, and how many differ."""
    found = []
    for form in forms:
        for backend in backends:
            cells = [r["forms"][form]["checked"][backend] for r in rows if "ended" not in r]
            ran = sum(c["ran"] for c in cells)
            found.append({
                "form": form, "backend": backend, "bodies": len(rows), "ran": ran,
                "share": ran / len(rows), "ended": len(rows) - len(cells),
                "differ_ordinary": sum("ordinary" in c["differs"] for c in cells),
                "differ": sum(bool(c["differs"]) for c in cells),
                "warn_otherwise": sum(bool(c["warned"]) for c in cells),
            })  # fmt: skip
    return found


def speeds(rows: list[dict[str, Any]], forms: list[str], sizes: list[int]) -> list[dict]:
    """Return for each form, way and size the gain over the bodies, and how many gain or lose."""
    from everyday.timing import spread

    found = []
    for form in forms:
        for size in sizes:
            cells = [r["forms"][form]["timed"][str(size)] for r in rows if "ended" not in r]
            for way in [w for w in cells[0] if w != "numpy"] if cells else []:
                gains = [g for c in cells if (g := ratio(c, way))]
                found.append({
                    "form": form, "size": size, "way": way, "gain": geometric_mean(gains),
                    "gain_quartiles": spread(gains),
                    "gain_over_1.2": sum(g > 1.2 for g in gains),
                    "loss_over_1.2": sum(g < 1 / 1.2 for g in gains), "bodies": len(gains),
                })  # fmt: skip
    return found


def show(summary: dict[str, Any]) -> None:
    for s in summary["shares"]:
        print(f"{s['form']:5} pinned to {s['backend']}: {s['ran']} of {s['bodies']} run there "
              f"({s['share']:.0%}); {s['differ']} are not NumPy's, {s['differ_ordinary']} of them "
              f"with ordinary arguments; {s['warn_otherwise']} warn otherwise; {s['ended']} end "
              "the process")  # fmt: skip
    for s in summary["speeds"]:
        print(f"{s['form']:5} {s['size']:>9,} elements, {s['way']:6}: {s['gain']:5.2f} times as "
              f"fast as NumPy on average, the middle half {s['gain_quartiles'][0]:.2f} to "
              f"{s['gain_quartiles'][2]:.2f}; {s['gain_over_1.2']} gain over 1.2 times, "
              f"{s['loss_over_1.2']} lose as much, of {s['bodies']}")  # fmt: skip


def show_refused(rows: list[dict[str, Any]]) -> None:
    """Print what does not run on a library, and what is not NumPy's there."""
    for row in rows:
        for form, found in row["forms"].items():
            for backend, checked in found["checked"].items():
                if not checked["ran"]:
                    print(f"  {row['name']} ({form}) is not on {backend}: {checked['why']}")
                for case, text in checked["differs"].items():
                    print(f"  {row['name']} ({form}, {backend}, {case}): {text}")


# ---------------------------------------------------------------- in and out


def parsed() -> argparse.Namespace:
    def words(text: str) -> list[str]:
        return [word for word in text.split(",") if word]

    def numbers(text: str) -> list[int]:
        return [int(word) for word in words(text)]

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    installed = [name for name in LIBRARIES if find_spec(name)]
    parser.add_argument("--backends", type=words, default=installed, help="default: those there")
    parser.add_argument("--sizes", type=numbers, default=list(SIZES))
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--only", type=words, default=[], help="bodies or fields")
    parser.add_argument("--forms", type=words, default=["plain", "xp"])
    parser.add_argument("--quick", action="store_true", help="check only, time nothing")
    parser.add_argument("--output", type=Path, default=RESULTS / "everyday.json")
    parser.add_argument("--child", type=words, help=argparse.SUPPRESS)
    return parser.parse_args()


def header(backends: list[str]) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "machine": {"cpu": platform.processor() or platform.machine(), "cores": os.cpu_count(),
                    "python": platform.python_version()},
        "versions": {name: version(name) for name in ("numpy", *backends)},
    }  # fmt: skip


def main() -> None:
    chosen = parsed()
    if chosen.child:
        examine(chosen.child, chosen)
        return
    from everyday import BODIES, FIELD_OF

    missing = [name for name in chosen.backends or LIBRARIES if find_spec(name) is None]
    if missing:
        raise SystemExit(f"not installed: {', '.join(missing)}")
    wanted = set(chosen.only) or set(BODIES)
    if unknown := wanted - set(BODIES) - set(FIELD_OF.values()):
        raise SystemExit(f"no such body or field: {', '.join(sorted(unknown))}")
    names = [n for n in BODIES if n in wanted or FIELD_OF[n] in wanted]
    rows = []
    for row in examined(names, sys.argv[1:]):
        rows.append({"field": FIELD_OF[row["name"]], **row})
        print(line_of(rows[-1]), flush=True)
    sizes = [] if chosen.quick else chosen.sizes
    summary = {
        "shares": shares(rows, chosen.forms, chosen.backends),
        "speeds": speeds(rows, chosen.forms, sizes),
    }
    show_refused(rows)
    show(summary)
    content = {**header(chosen.backends), **summary, "rows": rows}
    rounded = json.loads(json.dumps(content), parse_float=lambda t: float(f"{float(t):.4g}"))
    chosen.output.parent.mkdir(parents=True, exist_ok=True)
    chosen.output.write_text(json.dumps(rounded) + "\n")


if __name__ == "__main__":
    main()
