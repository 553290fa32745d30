"""Compare what plain and offloaded calls left behind: every difference is one line of text."""

from __future__ import annotations

import dataclasses
import math
import re
import types
from collections import deque
from collections.abc import Callable, Mapping
from itertools import combinations
from typing import Any

import numpy as np

from tests.meaning.pattern import Outcome

TOLERANCE = {"f2": 5e-3, "f4": 1e-4, "f8": 1e-9, "c8": 1e-4, "c16": 1e-9}
"""Relative to the largest value of the result; wider types are compared as float64."""
FLOOR = 1e-3
"""Results smaller than this are compared as if this were their largest value."""
NUMBER = re.compile(r"-?\d+\.?\d*(?:[eE][-+]?\d+)?")
ATOMS = (int, float, complex, str, bytes, bool, type(None), np.generic, tuple, frozenset)


def compare(plain: list[Outcome], other: list[Outcome], scale: float = 0.0) -> list[str]:
    """Return how `other` differs from `plain`; values may differ by the tolerance of `scale`."""
    walk = _Walk(scale)
    for number, (a, b) in enumerate(zip(plain, other, strict=True), 1):
        where = f"call {number}"
        _compare_errors(a, b, where, walk.found)
        if a.printed != b.printed:
            walk.texts(a.printed, b.printed, f"{where} prints")
        walk.step(a.given.args, b.given.args, f"{where} args")
        walk.step(a.given.kwargs, b.given.kwargs, f"{where} kwargs")
        if a.error is None and b.error is None:
            walk.step(a.result, b.result, f"{where} result")
        if a.error is not None and type(a.error) is type(b.error):
            walk.step(carried(a.error), carried(b.error), f"{where} error.args")
    walk.compare_memory()
    return walk.found


def notes(plain: list[Outcome], other: list[Outcome]) -> list[str]:
    """Return softer differences, which no test fails for: warnings and texts of exceptions."""
    found = []
    for number, (a, b) in enumerate(zip(plain, other, strict=True), 1):
        if a.warned != b.warned:
            found.append(f"call {number} warns {a.warned} -> {b.warned}")
        if a.error is not None and b.error is not None and str(a.error) != str(b.error):
            found.append(f"call {number} says {str(a.error)!r} -> {str(b.error)!r}")
    return found


def _compare_errors(a: Outcome, b: Outcome, where: str, found: list[str]) -> None:
    kinds = [None if e is None else type(e).__qualname__ for e in (a.error, b.error)]
    if kinds[0] != kinds[1]:
        text = " ".join(str(b.error if b.error is not None else a.error).split())
        found.append(f"{where} raises {kinds[0]} -> {kinds[1]}: {text[:160]}")


def carried(error: BaseException) -> list[Any]:
    """Return what an exception carries besides texts, which NumPy words anew now and then."""
    if type(error).__module__.partition(".")[0] == "numpy":
        return []
    return [a for a in error.args if not isinstance(a, str)]


class _Walk:
    """Two structures walked side by side."""

    def __init__(self, scale: float) -> None:
        self.found: list[str] = []
        self._scale = scale
        self._first: dict[int, tuple[Any, Any]] = {}
        self._others: dict[int, Any] = {}
        self._arrays: list[tuple[str, np.ndarray, np.ndarray]] = []

    def step(self, a: Any, b: Any, where: str) -> None:
        """Compare two values, and what they hold."""
        if kind_of(a) != kind_of(b):
            self.found.append(f"{where}: {kind_of(a)} -> {kind_of(b)}, {short(a)} -> {short(b)}")
            return
        if not isinstance(a, ATOMS) and not self._is_first(a, b, where):
            return
        for kind, rule in _RULES:
            if isinstance(a, kind):
                rule(self, a, b, where)
                return
        self._objects(a, b, where)

    def _is_first(self, a: Any, b: Any, where: str) -> bool:
        """Compare identities; return whether the pair is met for the first time."""
        if id(a) in self._first:
            if self._first[id(a)][1] is not b:
                self.found.append(f"{where}: no longer the same object")
            return False
        if id(b) in self._others:
            self.found.append(f"{where}: the same object as another one")
        self._first[id(a)] = (a, b)
        self._others[id(b)] = b
        return True

    def texts(self, a: str, b: str, where: str) -> None:
        """Compare texts; numbers in them may differ in their last digits."""
        if a == b:
            return
        one, two = NUMBER.findall(a), NUMBER.findall(b)
        same = NUMBER.sub("#", a) == NUMBER.sub("#", b) and len(one) == len(two)
        if not same or not all(close(float(p), float(q)) for p, q in zip(one, two, strict=True)):
            self.found.append(f"{where}: {a[:60]!r} -> {b[:60]!r}")

    def arrays(self, a: np.ndarray, b: np.ndarray, where: str) -> None:
        if a.shape != b.shape or a.dtype != b.dtype:
            self.found.append(f"{where}: {a.dtype}{a.shape} -> {b.dtype}{b.shape}")
            return
        if a.flags.writeable != b.flags.writeable:
            self.found.append(f"{where}: writeable {a.flags.writeable} -> {b.flags.writeable}")
        self._arrays.append((where, a, b))
        if isinstance(a, np.ma.MaskedArray):
            self.step(np.ma.getmaskarray(a), np.ma.getmaskarray(b), f"{where}.mask")
            a, b = a.filled(0), b.filled(0)
        if a.dtype.kind == "O" or a.dtype.names:
            self.step(a.tolist(), b.tolist(), f"{where}.tolist()")
        elif trouble := values_differ(np.asarray(a), np.asarray(b), self._scale):
            self.found.append(f"{where}: {trouble}, {short(a)} -> {short(b)}")

    def _generics(self, a: np.generic, b: np.generic, where: str) -> None:
        if a.dtype.names or a.dtype.kind == "V":
            self.step(a.tolist(), b.tolist(), where)
        elif values_differ(np.asarray(a), np.asarray(b), self._scale):
            self.found.append(f"{where}: {a!r} -> {b!r}")

    def _floats(self, a: complex, b: complex, where: str) -> None:
        if values_differ(np.asarray(a), np.asarray(b), self._scale):
            self.found.append(f"{where}: {a!r} -> {b!r}")

    def _equal(self, a: Any, b: Any, where: str) -> None:
        if a != b:
            self.found.append(f"{where}: {short(a)} -> {short(b)}")

    def _mappings(self, a: Mapping[Any, Any], b: Mapping[Any, Any], where: str) -> None:
        self._sequences(list(a), list(b), f"{where} keys")
        for key in a:
            if key in b:
                self.step(a[key], b[key], f"{where}[{key!r}]")
        self._attributes(a, b, where)

    def _sequences(self, a: Any, b: Any, where: str) -> None:
        if len(a) != len(b):
            self.found.append(f"{where}: length {len(a)} -> {len(b)}")
        for number, (one, two) in enumerate(zip(a, b, strict=False)):
            self.step(one, two, f"{where}[{number}]")
        self._attributes(a, b, where)

    def _named(self, a: Any, b: Any, where: str) -> None:
        names = [getattr(x, "__qualname__", getattr(x, "__name__", "")) for x in (a, b)]
        self._equal(*names, where)

    def _objects(self, a: Any, b: Any, where: str) -> None:
        if isinstance(a, types.GeneratorType) or hasattr(a, "__next__"):
            return
        if not self._attributes(a, b, where) and type(a).__eq__ is not object.__eq__:
            self._equal(a, b, where)

    def _attributes(self, a: Any, b: Any, where: str) -> bool:
        if dataclasses.is_dataclass(a):
            names = [f.name for f in dataclasses.fields(a)]
            slots = {n for n in names if hasattr(a, n) and n not in getattr(a, "__dict__", {})}
            for name in sorted(slots):
                self.step(getattr(a, name), getattr(b, name), f"{where}.{name}")
        if not hasattr(a, "__dict__"):
            return dataclasses.is_dataclass(a)
        if vars(a) or vars(b):
            self._sequences(list(vars(a)), list(vars(b)), f"{where} attributes")
        for name in vars(a):
            if name in vars(b):
                self.step(vars(a)[name], vars(b)[name], f"{where}.{name}")
        return True

    def compare_memory(self) -> None:
        """Compare which of the arrays share memory."""
        for (here, a, b), (there, c, d) in combinations(self._arrays, 2):
            if np.shares_memory(a, c) != np.shares_memory(b, d):
                shared = "shares memory no longer" if np.shares_memory(a, c) else "shares memory"
                self.found.append(f"{there}: {shared} with {here}")


_RULES: list[tuple[Any, Callable[[Any, Any, Any, str], None]]] = [
    (np.ndarray, _Walk.arrays),
    (np.generic, _Walk._generics),
    (str, _Walk.texts),
    ((bool, int, bytes, bytearray, np.dtype), _Walk._equal),
    ((float, complex), _Walk._floats),
    (Mapping, _Walk._mappings),
    ((list, tuple, deque), _Walk._sequences),
    ((set, frozenset, range, slice), _Walk._equal),
    (memoryview, lambda walk, a, b, where: walk.step(a.tolist(), b.tolist(), where)),
    ((type, types.FunctionType, types.MethodType, np.ufunc), _Walk._named),
    (types.ModuleType, _Walk._named),
    (BaseException, lambda walk, a, b, where: walk.step(a.args, b.args, f"{where}.args")),
    (np.random.Generator, lambda *_: None),
]


def kind_of(value: Any) -> str:
    """Return the name of a value's type; a function that gpuforge wraps counts as a function."""
    kind = type(value)
    if kind.__module__.startswith("gpuforge") and kind.__name__ == "Offloaded":
        return "builtins.function"
    return f"{kind.__module__}.{kind.__qualname__}"


def short(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 70 else text[:67] + "..."


def close(a: float, b: float, tolerance: float = 1e-9) -> bool:
    return a == b or math.isclose(a, b, rel_tol=tolerance, abs_tol=tolerance * FLOOR)


def values_differ(a: np.ndarray, b: np.ndarray, scale: float = 0.0) -> str:
    """Return how the values of two arrays of one dtype and shape differ, "" if they agree.

    Floating-point values may differ by a tolerance relative to the largest of them, or to `scale`
    where that is larger; NaN and infinities must stand at the same places.
    """
    if a.dtype.kind not in "fc":
        wrong = a != b
        if a.dtype.kind in "mM":
            wrong &= ~(np.isnat(a) & np.isnat(b))
        return f"{np.count_nonzero(wrong)} of {a.size} values differ" if np.any(wrong) else ""
    tolerance = TOLERANCE.get(a.dtype.str[1:], TOLERANCE["f8"])
    if a.dtype.kind == "c":
        return values_differ_parts(a, b, scale, tolerance)
    return _floats_differ(a, b, scale, tolerance)


def values_differ_parts(a: np.ndarray, b: np.ndarray, scale: float, tolerance: float) -> str:
    largest = max(scale, _largest(a.real), _largest(a.imag))
    parts = ((a.real, b.real, "real"), (a.imag, b.imag, "imag"))
    texts = [(_floats_differ(p, q, largest, tolerance), part) for p, q, part in parts]
    return ", ".join(f"{part}: {text}" for text, part in texts if text)


def _largest(a: np.ndarray) -> float:
    finite = a[np.isfinite(a)] if a.ndim else (a if np.isfinite(a) else np.zeros(()))
    return float(np.max(np.abs(finite.astype(np.float64)))) if finite.size else 0.0


def _floats_differ(a: np.ndarray, b: np.ndarray, scale: float, tolerance: float) -> str:
    if not np.array_equal(np.isnan(a), np.isnan(b)):
        return "NaN at other places"
    infinite = np.isinf(a) | np.isinf(b)
    if np.any(a[infinite] != b[infinite]) if a.ndim else bool(infinite) and bool(a != b):
        return "infinities at other places"
    with np.errstate(all="ignore"):
        gap = np.where(np.isfinite(a), a.astype(np.float64) - b.astype(np.float64), 0.0)
    worst, largest = _largest(gap), max(scale, _largest(a), FLOOR)
    return f"off by {worst:.2g} of {largest:.2g}" if worst > tolerance * largest else ""
