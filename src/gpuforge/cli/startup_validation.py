"""Comparing programs with and without lazy imports and warm-up: their output and their time."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from gpuforge.installation import is_installed
from gpuforge.runtime.startup.deferrable import HEAVY
from gpuforge.units import format_seconds

LEAST_ROUNDS, MOST_ROUNDS = 3, 7
IMPORTS = ("sympy", "scipy", "matplotlib", "pandas", "torch", "jax")
"""Libraries that a program imports without using them; the first installed one is taken."""
LIBRARIES = ("jax", "torch", "dpnp")
"""Libraries that are warmed up before the first call; the first installed one is taken."""
_UNUSED = "import {name}\nprint('the end')\n"
_FIRST_CALL = """
import numpy as np, gpuforge as gf
from time import perf_counter
@gf.offload(backend={name!r})
def double(x):
    return 2 * x
{warm}
start = perf_counter()
print(double(np.ones(3)).tolist())
print(perf_counter() - start)
"""


@dataclass
class Comparison:
    """One program in two variants, run alternately.

    Attributes
    ----------
    question : what is compared
    baseline, optimised : seconds of each run
    outputs : the different outputs of all runs; a single one if the results are the same
    reason : why it was not measured; empty if it was
    """

    question: str
    baseline: list[float] = field(default_factory=list)
    optimised: list[float] = field(default_factory=list)
    outputs: set[str] = field(default_factory=set)
    reason: str = ""

    @property
    def is_complete(self) -> bool:
        """Whether both variants ran."""
        return bool(self.baseline and self.optimised)

    @property
    def differs(self) -> bool:
        """Whether the two variants printed different outputs."""
        return len(self.outputs) > 1

    def document(self) -> dict[str, Any]:
        """Return the comparison for a JSON document."""
        unknown = {} if self.is_complete else {"optimised_seconds": self.reason}
        return {
            "question": self.question, "baseline_seconds": self.baseline,
            "optimised_seconds": self.optimised, "unknown": unknown,
            "same_result": not self.differs if self.is_complete else None,
        }  # fmt: skip

    def text(self) -> str:
        """Return the comparison as lines of text."""
        if not self.is_complete:
            return f"{self.question}: not measured: {self.reason}"
        result = "DIFFERENT results" if self.differs else "same result"
        runs = min(len(self.baseline), len(self.optimised))
        if runs < LEAST_ROUNDS:
            verdict = f"too few runs to show a gain (at least {LEAST_ROUNDS} of each are needed)"
        elif max(self.optimised) < min(self.baseline):
            verdict = "faster in every run"
        else:
            verdict = "the times overlap: no gain is shown"
        return (
            f"{self.question}: {result}\n  without {_spread(self.baseline)}, with"
            f" {_spread(self.optimised)}, {runs} {'run' if runs == 1 else 'runs'} each:"
            f" {verdict}"
        )


def validate(seconds: float) -> list[Comparison]:
    """Return comparisons of programs with and without lazy imports and warm-up.

    Parameters
    ----------
    seconds
        Time limit; comparisons that are not finished by then are reported as not measured.
    """
    ends = perf_counter() + seconds
    with tempfile.TemporaryDirectory() as folder:
        return [_lazy_imports(Path(folder), ends - 0.5 * seconds), _warmup(Path(folder), ends)]


def measure_imports(names: list[str]) -> dict[str, float]:
    """Return the seconds that each import takes in a new interpreter; failed ones are left out."""
    found = {}
    for name in names:
        program = (
            f"import time; s = time.perf_counter(); import {name}; print(time.perf_counter() - s)"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        if done.returncode == 0:
            found[name] = float(done.stdout.split()[-1])
    return found


def _lazy_imports(folder: Path, ends: float) -> Comparison:
    name = next((name for name in IMPORTS if name in HEAVY and is_installed(name)), "")
    made = Comparison(f"a program that imports {name or 'a library'} without using it")
    if not name:
        made.reason = f"none of {', '.join(IMPORTS)} is installed"
        return made
    program = folder / "unused.py"
    program.write_text(_UNUSED.format(name=name))
    command = [sys.executable, "-m", "gpuforge", "run", "--quiet"]

    def once(lazy: str) -> tuple[str, float]:
        start = perf_counter()
        out = _run([*command, f"--{lazy}lazy-imports", str(program)], folder, ends)
        return out, perf_counter() - start

    return _alternate(made, ends, lambda: once("no-"), lambda: once(""))


def _warmup(folder: Path, ends: float) -> Comparison:
    name = next((name for name in LIBRARIES if is_installed(name)), "")
    made = Comparison(f"the first call on {name or 'a library'}, with and without warm-up")
    if not name:
        made.reason = f"none of {', '.join(LIBRARIES)} is installed"
        return made

    def once(warm: str) -> tuple[str, float]:
        program = _FIRST_CALL.format(name=name, warm=warm)
        out = _run([sys.executable, "-c", program], folder, ends).split("\n")
        return out[0], float(out[1])

    return _alternate(
        made, ends, lambda: once(""), lambda: once(f"gf.warmup([{name!r}], wait=True)")
    )


def _alternate(made: Comparison, ends: float, baseline: Any, optimised: Any) -> Comparison:
    """Run both variants alternately until time is up, and add the results to `made`."""
    try:
        for _ in range(MOST_ROUNDS):
            for form, times in ((baseline, made.baseline), (optimised, made.optimised)):
                out, seconds = form()
                made.outputs.add(out)
                times.append(seconds)
    except subprocess.TimeoutExpired:
        made.reason = "the time limit was reached before both forms had run"
    except subprocess.CalledProcessError as error:
        made.outputs.add(f"exit status {error.returncode}")
        made.reason = f"a program failed: {(error.stderr or '').strip()[-200:]}"
    return made


def _run(command: list[str], folder: Path, ends: float) -> str:
    left = max(ends - perf_counter(), 0.01)
    variables = {**os.environ, "GPUFORGE_CACHE_FOLDER": str(folder / "cache")}
    done = subprocess.run(
        command, cwd=folder, env=variables, capture_output=True, text=True, timeout=left, check=True
    )
    return done.stdout.strip()


def _spread(values: list[float]) -> str:
    low, high = format_seconds(min(values)), format_seconds(max(values))
    return format_seconds(median(values)) + (f" ({low} to {high})" if len(values) > 1 else "")
