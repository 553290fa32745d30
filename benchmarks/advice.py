"""What the rules of suggestions say of programs that were not written for them.

usage: advice.py [--npbench PATH] [--quick] [--only TEXT] [--out FILE]

Profiled are the examples, the programs of `fields.py`, each body of the package `everyday` (plain
form, freely placed, 20,000 elements) and the kernels of NPBench (preset S; PATH is a clone of
https://github.com/spcl/npbench, bare or not), each in a process of its own: 40 calls, or as many as
take five seconds. The suggestions are written down as they came. Whether one is right has to be
judged by reading it: `docs/suggestions.md` holds the verdicts. `--quick`: a tenth of all.
"""

from __future__ import annotations

import argparse
import json
import runpy
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import asdict
from importlib.machinery import SourceFileLoader
from pathlib import Path
from time import perf_counter
from typing import Any

HERE = Path(__file__).parent
EXAMPLES = HERE.parent / "examples"
CALLS, FEWEST, SECONDS, SIZE = 40, 32, 5.0, 20_000
PROCESS_SECONDS = 120


def record(kind: str, name: str, folder: str) -> dict[str, Any]:
    """Profile one program in this process and return what is suggested."""
    import gpuforge as gf
    from gpuforge.profiler.advise import suggestions

    with gf.session(history=False, fallback=True, backends=["numpy", "torch", "jax"]):
        run = prepare(kind, name, folder)
        with gf.profile() as recording:
            run()
    profile = recording.profile
    found = [asdict(one) for one in suggestions(profile)]
    return {"wall_seconds": profile.wall_ns / 1e9, "spans": len(profile.spans), "found": found}


def prepare(kind: str, name: str, folder: str) -> Any:
    """Return the program as a function without arguments."""
    import gpuforge as gf

    if kind == "example":
        return lambda: runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    if kind == "field":
        import numpy as np
        from fields import PROGRAMS

        return lambda: PROGRAMS[name](np.random.default_rng(0))
    if kind == "everyday":
        import numpy as np
        from everyday import BODIES

        body = BODIES[name]
        function, given = gf.offload(body.plain), body.make(SIZE, np.random.default_rng(0))
    else:
        kernels = harness()
        sys.path[0] = folder  # here stands a module named npbench too
        info = kernels.read_info(Path(folder), name)
        function, given = kernels.make_variant(info, "offload"), kernels.make_inputs(info, "S")
    return lambda: repeat(function, given)


def harness() -> Any:
    """Return the benchmark of NPBench's kernels, under a name that is not NPBench's own."""
    return SourceFileLoader("npbench_harness", str(HERE / "npbench.py")).load_module()


def repeat(function: Any, given: Any) -> None:
    """Call a function `CALLS` times, or as often as takes a few seconds."""
    start = perf_counter()
    for number in range(CALLS):
        function(*given)
        if number >= FEWEST and perf_counter() - start > SECONDS:
            return


def programs(npbench: str, folder: str) -> list[tuple[str, str]]:
    """Return kind and name of every program."""
    from everyday import BODIES
    from fields import PROGRAMS

    found = [("example", path.stem) for path in sorted(EXAMPLES.glob("*.py"))]
    found += [("field", name) for name in PROGRAMS]
    found += [("everyday", name) for name in BODIES]
    if npbench:
        found += [("npbench", path.stem) for path in sorted(Path(folder).glob("bench_info/*.json"))]
    return found


def main() -> int:
    """Record every program and write the suggestions down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--npbench", default="")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--out", default=str(HERE / "results" / "advice.json"))
    parser.add_argument("--record", nargs=3, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.record:
        json.dump(record(*chosen.record), sys.__stdout__)
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = ""
        if chosen.npbench:
            folder = str(harness().extract(Path(chosen.npbench), Path(temporary)))
        wanted = [one for one in programs(chosen.npbench, folder) if chosen.only in " ".join(one)]
        rows: list[dict[str, Any]] = []
        for kind, name in wanted[:: 10 if chosen.quick else 1]:
            rows.append(measured(kind, name, folder))
            Path(chosen.out).write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    counted = Counter(one["rule"] for row in rows for one in row.get("found", ()))
    silent = sum(not row.get("found") and "failed" not in row for row in rows)
    print(f"{len(rows)} programs, nothing said of {silent}; {dict(counted.most_common())}")
    return 0


def measured(kind: str, name: str, folder: str) -> dict[str, Any]:
    """Return what a process of its own says of one program."""
    row: dict[str, Any] = {"kind": kind, "program": name}
    command = [sys.executable, __file__, "--record", kind, name, folder]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PROCESS_SECONDS)
    except subprocess.TimeoutExpired:
        return row | {"failed": f"no end within {PROCESS_SECONDS} s"}
    if done.returncode:
        return row | {"failed": done.stderr.strip().splitlines()[-1][:200]}
    row |= json.loads(done.stdout.splitlines()[-1])
    for one in row["found"]:
        print(f"{kind} {name}: {one['bound_share']:.0%} {one['rule']}: {one['title']}", flush=True)
    return row


if __name__ == "__main__":
    sys.exit(main())
