"""Random little programs over arrays: source text, arguments, and how sure their meaning is.

A program grows statement by statement while plain NumPy runs it, so that most programs do not
raise; a statement that does raise may stay as the last one.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from tests.meaning import statements
from tests.meaning.pattern import Given, Offload, Outcome, observe
from tests.meaning.statements import Statement

CALLS = 2
RAISING_KEPT = 0.25
NAME = re.compile(r"\b[a-z]\b")
NOISE_ULPS = {np.dtype(np.float16): 2, np.dtype(np.float32): 32}


@dataclass
class Program:
    """A function as text, and arguments for it that depend on the seed alone."""

    seed: int
    statements: list[Statement]
    returned: list[str]

    @property
    def source(self) -> str:
        names = ", ".join(argument_names(self.seed))
        lines = [f"    {line}" for s in self.statements for line in s.text.split("\n")]
        result = ", ".join(self.returned) or "None"
        return "\n".join([f"def f({names}):", *lines, f"    return {result}", ""])

    def run(self, offload: Offload) -> list[Outcome]:
        """Call the function with fresh arguments, the second time with other values."""
        scope: dict[str, Any] = {"np": np}
        exec(compile(self.source, f"<program {self.seed}>", "exec"), scope)
        function = offload(scope["f"])
        return [observe(function, Given(tuple(arguments(self.seed, k)))) for k in range(CALLS)]

    def run_with_noise(self, noise: Random) -> list[Outcome]:
        """Run plainly, every inexact result moved by some last digits."""
        return [self._noisy_call(k, noise) for k in range(CALLS)]

    def _noisy_call(self, call: int, noise: Random) -> Outcome:
        given = arguments(self.seed, call)

        def body(*args: Any) -> Any:
            scope: dict[str, Any] = {"np": np} | dict(
                zip(argument_names(self.seed), args, strict=True)
            )
            for statement in self.statements:
                exec(statement.text, scope)
                if statement.rounds:
                    scope[statement.target] = moved(statement, noise, scope)
            return eval(", ".join(self.returned) or "None", scope)

        return observe(body, Given(tuple(given)))


def moved(statement: Statement, noise: Random, scope: dict[str, Any]) -> Any:
    """Return what a statement set or wrote, moved by some units in the last place.

    Multiples of a small power of two stay: sums and products of those are exact in any order.
    """
    value = scope[statement.target]
    if not isinstance(value, np.ndarray | np.generic) or value.dtype.kind not in "fc":
        return value
    kind = value.real.dtype
    size = NOISE_ULPS.get(kind, 64) * float(np.finfo(kind).eps)
    shift = size * largest(statement.text, scope) if statement.rounds == 2 else 0.0
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        draws = np.array([noise.uniform(-1, 1) for _ in range(value.size)]).reshape(value.shape)
        new = (value * (1 + size * draws) + shift * draws).astype(value.dtype)
        steps = value.real * (4 if kind.itemsize == 2 else 64)
        plain = (steps == np.rint(steps)) & (value.imag == 0) & (np.abs(value) < 1000)
        plain &= value.dtype.kind == "f" or "/" not in statement.text  # complex ones round
        new = np.where(~np.isfinite(value) | plain, value, new)
    if isinstance(value, np.ndarray) and value.flags.writeable:
        value[...] = new
        return value
    return value.dtype.type(new) if isinstance(value, np.generic) else new


def largest(text: str, scope: dict[str, Any]) -> float:
    """Return the largest ordinary value that a statement reads: what may cancel in a sum."""
    found = 0.0
    for name in set(NAME.findall(text)) & set(scope):
        value = scope[name]
        if isinstance(value, np.ndarray) and value.dtype.kind in "fciu" and value.size:
            sizes = np.abs(value.astype(np.complex128))
            ordinary = sizes[sizes < 1e6]
            found = max(found, float(ordinary.max())) if ordinary.size else found
    return found


def argument_names(seed: int) -> list[str]:
    return ["x", "y", "s"][: 2 + (seed % 3 > 0)] if seed % 4 else ["x"]


def arguments(seed: int, call: int) -> list[Any]:
    """Return the arguments of one call: the seed sets dtypes and shapes, `call` the values."""
    form, values = Random(f"form {seed}"), Random(f"values {seed} {call}")
    names = argument_names(seed)
    x = make_array(form, values, None)
    found: list[Any] = [x]
    if "y" in names:
        near = form.random() < 0.7
        y = make_array(form, values, x.shape if near else None)
        if form.random() < 0.08:
            y = x
        elif form.random() < 0.08 and x.ndim:
            y = x[::-1]
        found.append(y)
    if "s" in names:
        found.append(form.choice(statements.NUMBERS)(values))
    return found


DTYPES = "f8 f8 f8 f8 f4 f4 f4 i8 i8 i8 i4 i2 i1 u1 u1 u2 u4 u8 ? ? f2 c16 c8".split()
SHAPES = [(4,), (4,), (5,), (3, 4), (3, 4), (2, 3), (4, 4), (2, 3, 4), (3, 3), (1,), (1, 4), (0,)]
SHAPES += [(), (0, 3), (3, 1), (7,)]


def make_array(form: Random, values: Random, shape: tuple[int, ...] | None) -> np.ndarray:
    dtype = np.dtype(form.choice(DTYPES))
    chosen = form.choice(SHAPES)
    shape = chosen if shape is None else shape
    layout, special = form.random(), form.random() < 0.25
    if layout < 0.1 and shape:
        return make_values(values, dtype, (shape[0] * 2, *shape[1:]), special)[::2]
    if layout < 0.2 and len(shape) > 1:
        return make_values(values, dtype, shape[::-1], special).T
    made = make_values(values, dtype, shape, special)
    if layout > 0.97:
        made.flags.writeable = False
    return made


def make_values(
    values: Random, dtype: np.dtype, shape: tuple[int, ...], special: bool
) -> np.ndarray:
    count = int(np.prod(shape))
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.array(
            [one_value(values, dtype, special) for _ in range(count)], dtype=dtype
        ).reshape(shape)


def one_value(values: Random, dtype: np.dtype, special: bool) -> Any:
    if dtype.kind == "b":
        return values.random() < 0.5
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if special and values.random() < 0.3:
            return values.choice([0, limits.max, limits.min])
        return values.randint(-5 if dtype.kind == "i" else 0, 6)
    if special and values.random() < 0.3:
        top = float(np.finfo(dtype).max)
        return values.choice([np.nan, np.inf, -np.inf, 0.0, top, top / 4, 1e-4, -0.0])
    real = values.randint(-16, 16) / 4
    return real + 1j * values.randint(-8, 8) / 4 if dtype.kind == "c" else real


def grow(seed: int) -> Program:
    """Return the program of a seed: two to eight statements."""
    rng = Random(f"program {seed}")
    given = arguments(seed, 0)
    scope: dict[str, Any] = {"np": np} | dict(zip(argument_names(seed), given, strict=True))
    wanted, chosen = rng.randint(2, 8), []
    for _ in range(wanted * 6):
        made = statements.draw(rng, scope)
        if made is None:
            continue
        worked = attempt(made.text, scope)
        if not worked and rng.random() > RAISING_KEPT:
            continue
        chosen.append(made)
        if not worked or len(chosen) == wanted:
            break
    return Program(seed, chosen, choose_results(rng, chosen, given, scope))


def attempt(text: str, scope: dict[str, Any]) -> bool:
    """Run a statement; return whether it did not raise."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            exec(text, scope)
        except Exception:
            return False
    return True


def choose_results(
    rng: Random, chosen: list[Statement], given: list[Any], scope: dict[str, Any]
) -> list[str]:
    names = [s.target for s in chosen if s.target in scope]
    if not names:
        return ["x"]
    found = [names[-1]]
    for name in names[:-1]:
        if rng.random() < 0.35 and name not in found:
            found.append(name)
    return found


def shrink(program: Program, differs: Callable[[Program], bool], tries: int = 60) -> Program:
    """Return a smaller program that still differs: statements and results left out."""
    changed = True
    while changed and tries > 0:
        changed = False
        for smaller in smaller_than(program):
            tries -= 1
            if tries <= 0:
                break
            if differs(smaller):
                program, changed = smaller, True
                break
    return program


def smaller_than(program: Program) -> list[Program]:
    found = []
    for k in reversed(range(len(program.statements))):
        rest = [s for n, s in enumerate(program.statements) if n != k]
        alive = {s.target for s in rest} | set(argument_names(program.seed))
        found.append(Program(program.seed, rest, [n for n in program.returned if n in alive]))
    for name in program.returned if len(program.returned) > 1 else []:
        kept = [n for n in program.returned if n != name]
        found.append(Program(program.seed, program.statements, kept))
    return found
