"""Statements that programs are made of: each draws names, literals and axes that fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Statement:
    """One statement: its text, the name that it sets or writes into, how it rounds.

    `rounds` is 0 for exact results, 1 where a result may be off by its own last digits, 2 where it
    may be off by those of what was summed up.
    """

    text: str
    target: str
    rounds: int = 0


class Drawer:
    """Draws the parts of a statement from what is in sight."""

    def __init__(self, rng: Random, scope: dict[str, Any]) -> None:
        self.rng, self.scope = rng, scope
        self.arrays = [n for n, v in scope.items() if isinstance(v, np.ndarray)]
        self.values = [n for n in scope if n != "np" and not n.startswith("__")]

    def pick(self, *choices: Any) -> Any:
        return self.rng.choice(choices)

    def array(self, ndim: int = 0) -> str:
        """Return the name of an array, rather a later one, with at least `ndim` dimensions."""
        fit = [n for n in self.arrays if self.scope[n].ndim >= ndim]
        if not fit:
            raise LookupError
        return fit[-1] if self.rng.random() < 0.4 else self.rng.choice(fit)

    def kind(self, kinds: str, ndim: int = 0) -> str:
        fit = [
            n
            for n in self.arrays
            if self.scope[n].dtype.kind in kinds and self.scope[n].ndim >= ndim
        ]
        if not fit:
            raise LookupError
        return self.rng.choice(fit)

    def places(self) -> str:
        """Return the name of an array to index with; NumPy alone minds an empty one of floats."""
        name = self.array()
        if not self.scope[name].size and self.scope[name].dtype.kind in "fc":
            raise LookupError
        return name

    def ndim(self, name: str) -> int:
        return int(np.ndim(self.scope[name]))

    def fresh(self) -> str:
        return next(n for n in "abcdefghijklm" if n not in self.scope)

    def literal(self) -> str:
        common = ["0", "1", "2", "3", "-1", "0.5", "2.0", "-1.5", "1e-3"]
        rare = ["300", "2**40", "1e10", "np.nan", "np.inf", "True", "1j", "np.float32(0.5)"]
        rare += ["np.int8(3)", "np.uint8(200)", "np.float64(0.1)", "np.array(2)", "1e39", "-7"]
        return self.rng.choice(common if self.rng.random() < 0.7 else rare)

    def operand(self) -> str:
        """Return a literal, or the name of a value; rather an array."""
        draw = self.rng.random()
        if draw < 0.4:
            return self.literal()
        return self.rng.choice(self.values) if draw < 0.6 else self.array()

    def axis(self, name: str) -> str:
        n = self.ndim(name)
        choices = ["None", "0", "-1"] + [str(k) for k in range(n)]
        if n > 1:
            choices.append("(0, 1)")
        return str(self.rng.choice(choices))

    def dtype(self) -> str:
        names = "float64 float32 float16 int64 int32 int16 int8 uint8 uint16 uint64 bool complex128"
        return "np." + self.rng.choice(names.split()).replace("bool", "bool_")

    def slice(self) -> str:
        choices = ["1:", ":-1", "::2", "::-1", ":2", "-2:", ":", "1:3", "0", "-1", "2:1", "3:0:-1"]
        return self.rng.choice(choices)

    def basic_index(self, name: str) -> str:
        n = self.ndim(name)
        if n == 0:
            return self.pick("()", "...", "None")
        parts = [self.slice() for _ in range(self.rng.randint(1, n))]
        if self.rng.random() < 0.15:
            parts.insert(self.rng.randrange(len(parts) + 1), self.pick("None", "..."))
        return ", ".join(parts)

    def fancy_index(self, name: str) -> str:
        if self.ndim(name) == 0:
            raise LookupError
        mask = f"{name} {self.pick('>', '<', '>=', '!=')} {self.pick('0', '1', '0.5')}"
        choices = ["[0, -1]", "[0, 0]", "np.array([1, 0, 1])", mask, mask, mask]
        if self.ndim(name) > 1:
            choices += [":, [0, 1]", "[0, 1], [1, 0]", "..., [0]", "[[0], [1]]", "0, [0, 1]"]
        return self.rng.choice(choices)

    def index(self, name: str) -> str:
        return (
            self.fancy_index(name)
            if self.rng.random() < 0.4 and self.ndim(name)
            else self.basic_index(name)
        )


NUMBERS: list[Callable[[Random], Any]] = [
    lambda r: r.choice([0.5, -1.25, 2.0, 3.5]),
    lambda r: r.choice([1, 2, -3, 5]),
    lambda r: r.choice([0.0, 1e6, -0.5]),
    lambda r: np.float32(r.choice([0.5, 2.5])),
    lambda r: r.random() < 0.5,
    lambda r: np.float64(r.choice([1.5, -2.25])),
    lambda r: np.int16(r.choice([1, 4])),
]

EXACT = "abs sign floor ceil rint square negative isnan isfinite isinf logical_not conj positive"
EXACT += " real imag trunc invert"  # not signbit: the sign of a zero is not promised
INEXACT = "sin cos tan tanh exp expm1 log log1p sqrt exp2 log2 log10 arctan arcsin sinh cosh"
INEXACT += " cbrt reciprocal arcsinh angle"
Draw = Callable[[Drawer], Statement]


def unary(d: Drawer) -> Statement:
    exact = d.rng.random() < 0.4
    name, t = d.rng.choice((EXACT if exact else INEXACT).split()), d.fresh()
    return Statement(f"{t} = np.{name}({d.array()})", t, int(not exact))


def operator(d: Drawer) -> Statement:
    op = d.pick(*"+ + - - * * / / // % ** < <= > == != & | ^ << >>".split())
    a, b, t = d.array(), d.operand(), d.fresh()
    if d.rng.random() < 0.3:
        a, b = b, a
    return Statement(f"{t} = {a} {op} {b}", t, int(op in ("+", "-", "*", "/", "**", "%")))


def binary(d: Drawer) -> Statement:
    names = "maximum minimum fmax fmin arctan2 hypot logaddexp power floor_divide mod multiply"
    names += " add subtract true_divide logical_and logical_or equal less copysign fmod heaviside"
    name, t = d.rng.choice(names.split()), d.fresh()
    return Statement(f"{t} = np.{name}({d.array()}, {d.operand()})", t, 1)


def sign_change(d: Drawer) -> Statement:
    t = d.fresh()
    return Statement(f"{t} = {d.pick('-', '+', '~', 'abs')}({d.array()})", t)


def reduction(d: Drawer) -> Statement:
    name = d.pick(*"sum sum mean max min prod std var any all median ptp count_nonzero".split())
    v, t = d.array(), d.fresh()
    options = [v, f"axis={d.axis(v)}"] if d.rng.random() < 0.8 else [v]
    if d.rng.random() < 0.3:
        options.append("keepdims=True")
    if name in ("std", "var") and d.rng.random() < 0.3:
        options.append("ddof=1")
    if name in ("sum", "mean", "prod") and d.rng.random() < 0.15:
        options.append(f"dtype={d.dtype()}")
    rounds = 2 * (name in "sum mean prod std var median".split())
    return Statement(f"{t} = np.{name}({', '.join(options)})", t, rounds)


def method_reduction(d: Drawer) -> Statement:
    name = d.pick("sum", "mean", "max", "min", "std", "any", "all", "argmax", "argmin", "prod")
    v, t = d.array(), d.fresh()
    rounds = 2 * (name in ("sum", "mean", "std", "prod"))
    return Statement(f"{t} = {v}.{name}({d.pick('', 'axis=0', 'axis=-1', '0')})", t, rounds)


def scan(d: Drawer) -> Statement:
    v, t = d.array(), d.fresh()
    axis = d.pick("", ", axis=0", ", axis=-1")
    name = d.pick("cumsum", "cumprod", "diff", "maximum.accumulate", "add.accumulate", "nancumsum")
    return Statement(f"{t} = np.{name}({v}{axis})", t, 2)


def ordering(d: Drawer) -> Statement:
    v, t = d.array(1), d.fresh()
    return Statement(
        d.pick(
            f"{t} = np.sort({v}, axis={d.pick('-1', '0', 'None')})",
            f"{t} = np.argsort({v}, {d.pick('-1', '0')}{d.pick('', ', kind=' + repr('stable'))})",
            f"{t} = np.argmax({v}, axis={d.pick('None', '0', '-1')})",
            f"{t} = np.argmin({v})",
            f"{t} = np.unique({v})",
            f"{t} = np.searchsorted(np.sort({v}, axis=None), {d.operand()})",
            f"{t} = np.nonzero({v})[0]",
            f"{t} = np.median({v})",
            f"{t} = np.percentile({v}, 30)",
        ),
        t,
    )


def view(d: Drawer) -> Statement:
    v, t = d.array(), d.fresh()
    n = d.ndim(v)
    choices = [f"{v}[{d.basic_index(v)}]"] * 4
    choices += [f"{v}.T", f"{v}.reshape(-1)", f"{v}.ravel()", f"{v}[..., None]", f"np.flip({v})"]
    choices += [f"{v}.real", f"np.expand_dims({v}, 0)", f"np.squeeze({v})", f"np.atleast_2d({v})"]
    choices += [f"np.asarray({v})", f"{v}.copy()", f"{v}.flatten()"]
    if n > 1:
        choices += [f"{v}.swapaxes(0, 1)", f"np.diagonal({v})", f"np.moveaxis({v}, 0, -1)"]
        choices += [f"{v}.reshape({v}.shape[1], -1)", f"{v}[0]", f"{v}[:, 0]", f"np.diag({v})"]
    if n == 1:
        choices += [f"np.broadcast_to({v}, (2, {v}.size))", f"{v}[:, None]"]
    return Statement(f"{t} = {d.rng.choice(choices)}", t)


def write(d: Drawer) -> Statement:
    v = d.array()
    op = d.pick("=", "=", "+=", "-=", "*=", "/=")
    return Statement(f"{v}[{d.index(v)}] {op} {d.operand()}", v, int(op != "="))


def write_whole(d: Drawer) -> Statement:
    v = d.array()
    op = d.pick("+=", "-=", "*=", "/=", "//=", "%=", "**=", "&=", "|=", "^=", "<<=")
    return Statement(f"{v} {op} {d.operand()}", v, int(op in ("+=", "-=", "*=", "/=", "**=")))


def write_call(d: Drawer) -> Statement:
    v, w = d.array(), d.array()
    choices = [f"np.add({v}, {w}, out={v})", f"np.sqrt(np.abs({w}), out={v})"]
    choices += [f"np.multiply({w}, 2, out={v})", f"{v}.fill({d.literal()})"]
    choices += [f"np.copyto({v}, {w})", f"{v}[...] = {w}", f"np.maximum({v}, 0, out={v})"]
    if d.ndim(v):
        choices += [f"{v}.sort()", f"np.put({v}, [0, -1], {d.literal()})", f"{v}.sort(axis=0)"]
        choices += [f"np.add.at({v}, [0, 0, -1], 1)", f"np.clip({v}, -1, 1, out={v})"]
        choices += [f"{v}[1:] = {v}[:-1]", f"{v}[:-1] += {v}[1:]", f"{v}[:] = {v}[::-1]"]
        choices += [f"np.cumsum({v}, axis=0, out={v})", f"np.place({v}, {v} > 0, [1, 2])"]
    if d.ndim(v) > 1:
        choices += [f"{v}.T[0] = 1", f"np.fill_diagonal({v}, 3)", f"{v}.reshape(-1)[1] = 5"]
    return Statement(d.rng.choice(choices), v, 1)


def pick_elements(d: Drawer) -> Statement:
    v, t = d.array(1), d.fresh()
    return Statement(
        d.pick(
            f"{t} = {v}[{d.fancy_index(v)}]",
            f"{t} = {v}[{d.fancy_index(v)}]",
            f"{t} = np.take({v}, [0, -1], axis={d.pick('None', '0', '-1')})",
            f"{t} = np.take_along_axis({v}, np.argsort({v}, axis=0, kind='stable'), axis=0)",
            f"{t} = np.compress([True, False], {v}, axis=0)",
            f"{t} = {v}[{d.places()}]",
            f"{t} = {v}[np.argmax({v}, axis=0)]",
        ),
        t,
    )


def choose(d: Drawer) -> Statement:
    v, t = d.array(), d.fresh()
    condition = f"{v} {d.pick('>', '<', '==')} {d.pick('0', '0.5', '1', d.operand())}"
    return Statement(
        d.pick(
            f"{t} = np.where({condition}, {d.operand()}, {d.operand()})",
            f"{t} = np.where({condition}, {v}, {d.literal()})",
            f"{t} = np.clip({v}, {d.pick('None', '-1', '0.5')}, {d.pick('2', '1.5')})",
            f"{t} = np.select([{condition}, {v} > 2], [{v}, -{v}], default={d.literal()})",
            f"{t} = np.nan_to_num({v})",
            f"{t} = np.round({v}, {d.pick('0', '1')})",
        ),
        t,
    )


def cast(d: Drawer) -> Statement:
    v, t = d.array(), d.fresh()
    return Statement(
        d.pick(
            f"{t} = {v}.astype({d.dtype()})",
            f"{t} = {v}.astype({d.dtype()})",
            f"{t} = np.asarray({v}, dtype={d.dtype()})",
            f"{t} = np.array({v}, copy=True)",
            f"{t} = {v}.astype({v}.dtype, copy=False)",
        ),
        t,
    )


def create(d: Drawer) -> Statement:
    v, t = d.array(), d.fresh()
    return Statement(
        d.pick(
            f"{t} = np.zeros_like({v})",
            f"{t} = np.ones({v}.shape)",
            f"{t} = np.full_like({v}, {d.literal()})",
            f"{t} = np.arange({v}.size).reshape({v}.shape)",
            f"{t} = np.ones_like({v}, dtype={d.dtype()})",
            f"{t} = np.linspace(0, 1, max({v}.size, 1))",
            f"{t} = np.full({v}.shape, {d.literal()})",
            f"{t} = np.arange(4)",
        ),
        t,
    )


def join(d: Drawer) -> Statement:
    v, w, t = d.array(1), d.array(), d.fresh()
    return Statement(
        d.pick(
            f"{t} = np.concatenate([{v}, {w}])",
            f"{t} = np.stack([{v}, {w}], axis={d.pick('0', '-1')})",
            f"{t} = np.concatenate([{v}, {v}], axis=-1)",
            f"{t} = np.hstack([{v}, {w}])",
            f"{t} = np.vstack([{v}, {w}])",
            f"{t} = np.tile({v}, 2)",
            f"{t} = np.repeat({v}, 2, axis={d.pick('None', '0')})",
            f"{t} = np.roll({v}, {d.pick('1', '-2')}, axis={d.pick('None', '0')})",
            f"{t} = np.pad({v}, 1, mode='{d.pick('constant', 'edge', 'wrap')}')",
            f"{t} = np.append({v}, {d.operand()})",
            f"{t} = np.outer({v}, {w})",
            f"{t} = np.split({v}, [1])[1]",
        ),
        t,
        1,
    )


def product(d: Drawer) -> Statement:
    v, w, t = d.array(1), d.array(1), d.fresh()
    return Statement(
        d.pick(
            f"{t} = {v} @ {w}",
            f"{t} = {v} @ {v}.T",
            f"{t} = np.dot({v}, {w})",
            f"{t} = np.einsum('...i,...i->...', {v}, {v})",
            f"{t} = np.tensordot({v}, {v}, axes=([0], [0]))",
            f"{t} = np.inner({v}, {w})",
            f"{t} = np.vdot({v}, {v})",
            f"{t} = np.kron({v}, {w})",
        ),
        t,
        2,
    )


def linear_algebra(d: Drawer) -> Statement:
    v, t = d.kind("fc", 1), d.fresh()
    square = f"(np.outer({v}, {v}) + 9 * np.eye({v}.size))"
    return Statement(
        d.pick(
            f"{t} = np.linalg.norm({v}{d.pick('', ', axis=0', ', axis=-1, keepdims=True')})",
            f"{t} = np.linalg.inv({square})",
            f"{t} = np.linalg.det({square})",
            f"{t} = np.linalg.solve({square}, {v}.ravel())",
            f"{t} = np.linalg.inv({v})",
            f"{t} = np.linalg.det({v})",
            f"{t} = np.linalg.cholesky({square})",
            f"{t} = np.linalg.eigvalsh({square})",
            f"{t} = np.linalg.svd({v}, compute_uv=False)",
            f"{t} = np.fft.fft({v})",
            f"{t} = np.fft.rfft({v}.real)",
            f"{t} = np.trace({v})",
            f"{t} = np.tril({v})",
        ),
        t,
        2,
    )


def python_value(d: Drawer) -> Statement:
    v, t = d.array(), d.fresh()
    return Statement(
        d.pick(
            f"{t} = {v} * 2 if {v}.sum() > 0 else {v} - 1",
            f"{t} = float(np.sum(np.abs({v})))",
            f"{t} = np.array([row.sum() for row in {v}])",
            f"{t} = {v}.tolist()",
            f"{t} = {v}[0] if len({v}) > 3 else {v}",
            f"{t} = bool(np.any({v} > 1)) * {v}",
            f"{t} = {v}.item() if {v}.size == 1 else {v}.shape",
            f"try:\n    {t} = {v} // {d.operand()}\nexcept (ZeroDivisionError, TypeError):\n"
            f"    {t} = 0",
            f"try:\n    {t} = {v}[{d.pick('3', '[0, 5]')}]\nexcept IndexError:\n    {t} = None",
            f"with np.errstate(all='ignore'):\n    {t} = np.log({v})",
            f"for k in range(2):\n    {v} = {v} + {d.literal()}\n{t} = {v}",
            f"{t} = sum({v})",
            f"{t} = max(float({v}.max()), 1.5) if {v}.size and {v}.dtype.kind != 'c' else 0",
            f"{t} = f'{{{v}.shape}} {{{v}.dtype}}'",
            f"{t} = isinstance({v}, np.ndarray) and {v}.ndim",
        ),
        t,
        2,
    )


WEIGHTS: list[tuple[Draw, int]] = [
    (unary, 8),
    (operator, 14),
    (binary, 6),
    (sign_change, 2),
    (reduction, 8),
    (method_reduction, 4),
    (scan, 4),
    (ordering, 5),
    (view, 10),
    (write, 8),
    (write_whole, 5),
    (write_call, 5),
    (pick_elements, 5),
    (choose, 6),
    (cast, 4),
    (create, 4),
    (join, 5),
    (product, 4),
    (linear_algebra, 3),
    (python_value, 4),
]


def draw(rng: Random, scope: dict[str, Any]) -> Statement | None:
    """Return a statement over the values in sight, or None where nothing fits."""
    kinds, weights = zip(*WEIGHTS, strict=True)
    try:
        return rng.choices(kinds, weights)[0](Drawer(rng, scope))
    except (LookupError, StopIteration):
        return None
