"""Every row of the table that a backend says it has, against NumPy: the proof of its lowering.

By default two calls of few dtypes; `make contract` tries every dtype, layout and special value.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from gpuforge.runtime.array.graph import Operation, Tape
from gpuforge.runtime.array.table import OPERATIONS
from gpuforge.runtime.backends.numpy import NumpyBackend
from gpuforge.runtime.evaluation.engine import BackendEngine, Programs
from gpuforge.runtime.evaluation.recording import record
from gpuforge.runtime.evaluation.reference import CANCELLING, TOLERANCE, compare

from .samples import CHARS, OTHERS, UFUNCS, Call, calls, few_calls

COMPILING = ("jax", "dpnp", "opencl")
"""Libraries that compile what is new to them."""
SUMS = ("reduction", "contraction", "scan", "factorisation", "transform")


class Watching(BackendEngine):
    """An engine that remembers which rows it was asked to run."""

    def __init__(self, backend: Any, programs: Programs) -> None:
        super().__init__(backend, NumpyBackend(), programs, compile_seconds=600.0)
        self.ran: set[str] = set()

    def run(self, tape: Tape, wanted: list[int], modes: dict[str, str]) -> list[Any]:
        self.ran |= {operation.name for operation, _, _ in tape.entries}
        return super().run(tape, wanted, modes)


def outcome_of(function: Any, arrays: Any) -> Any:
    try:
        return function(*arrays)
    except Exception as error:
        return error


def differs(expected: Any, found: Any, kind: str) -> str:
    """Return how a result differs from NumPy's; empty if it agrees."""
    if isinstance(expected, list | tuple):
        if type(expected) is not type(found) or len(expected) != len(found):
            return f"{type(found).__name__} where NumPy gives {type(expected).__name__}"
        pairs = zip(expected, found, strict=True)
        texts = [differs(left, right, kind) for left, right in pairs]
        return "; ".join(f"[{place}] {text}" for place, text in enumerate(texts) if text)
    if isinstance(expected, Exception) or isinstance(found, Exception):
        same = type(expected) is type(found) and str(expected) == str(found)
        return "" if same else f"{found!r} where NumPy has {expected!r}"
    if type(expected) is not type(found) and not _same_number(expected, found):
        return f"{type(found).__name__} where NumPy gives {type(expected).__name__}"
    left, right = np.asarray(expected), np.asarray(found)
    if kind in SUMS:
        return compare(left, right, CANCELLING)
    if left.shape != right.shape or left.dtype != right.dtype or left.dtype.kind not in "fc":
        return compare(left, right)
    return _differs_in_each(left, right)


def _same_number(expected: Any, found: Any) -> bool:
    """Return whether both are scalars of one dtype: C has two whole numbers of 64 bits."""
    both = isinstance(expected, np.generic) and isinstance(found, np.generic)
    return both and expected.dtype == found.dtype


def _differs_in_each(left: Any, right: Any) -> str:
    """Return how results differ, each element measured by its own size."""
    parts = (left.real, right.real, left.imag, right.imag)
    finite = np.isfinite(left)
    for one, other in (parts[:2], parts[2:]):
        if not np.array_equal(one[~finite], other[~finite], equal_nan=True):
            return f"{right[~finite]} where NumPy gives {left[~finite]}"
    if not np.isfinite(right[finite]).all():
        return f"{right} where NumPy gives {left}"
    tiny = np.finfo(left.dtype).tiny * 4
    size = np.maximum(np.abs(left[finite]), np.abs(right[finite]))
    apart = np.abs(left[finite] - right[finite])
    wrong = apart > TOLERANCE[left.real.dtype.char] * size + tiny
    if wrong.any():
        return f"{right[finite][wrong][:3]} where NumPy gives {left[finite][wrong][:3]}"
    return ""


def tried(backend: Any, row: Operation, call: Call, programs: Programs) -> tuple[str, bool]:
    """Return how one call differs from NumPy on a backend, and whether NumPy settled it."""
    engine = Watching(backend, programs)
    before = [np.array(array) for array in call.arrays]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = outcome_of(call.function, call.arrays)
        found = outcome_of(
            lambda *arrays: record(call.function, arrays, {}, engine, creates=True).result,
            call.arrays,
        )
    sums = [name for name in engine.ran if name in OPERATIONS and OPERATIONS[name].kind in SUMS]
    text = differs(expected, found, "reduction" if sums else row.kind)
    for array, copy in zip(call.arrays, before, strict=True):
        if not np.array_equal(array, copy, equal_nan=copy.dtype.kind in "fc"):
            text += " the argument was written"
    if engine.outcome.refused:
        text += f" the library fails: {engine.outcome.refused}"
    if call.ordinary and engine.outcome.settled:
        text += f" NumPy settled ordinary values: {engine.outcome.settled}"
    if call.ordinary and row.name not in engine.ran:
        text += f" the row was not noted, but {sorted(engine.ran)}"
    return text, bool(engine.outcome.settled)


def tries(backend: Any, row: Operation, *, few: bool) -> list[Call]:
    """Return the sample calls of a row that a backend does not refuse."""

    def of(found: Iterable[Call]) -> list[Call]:
        refusal = backend.lowering.refusal
        return [call for call in found if not any(refusal(row, dtype) for dtype in call.dtypes)]

    compiling = backend.name.startswith(COMPILING)
    if not few:
        return of(calls(row.name, "?BilLefdF" if compiling else CHARS))
    if not compiling:
        return of(few_calls(row.name, "?BlfdF"))
    return of(few_calls(row.name, "f")) or of(few_calls(row.name, "l"))


def differences(backend: Any, row: Operation, *, few: bool) -> list[str]:
    """Return what the sample calls of a row bring to light on a backend."""
    programs, wrong, settled = Programs(), [], False
    for call in tries(backend, row, few=few):
        if call.apart and not settled:
            continue
        text, by_numpy = tried(backend, row, call, programs)
        settled = settled if call.apart else by_numpy
        if text:
            values = "" if call.ordinary else f" of {call.arrays[0].ravel()[:1]}"
            chars = "".join(dtype.char for dtype in call.dtypes)
            wrong.append(f"{chars}{values}: {text}")
    return wrong


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("few", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", list(OPERATIONS))
def test_a_row_that_a_backend_has_is_numpys(name: str, few: bool, backend: Any) -> None:
    wrong = differences(backend, OPERATIONS[name], few=few)
    assert not wrong, f"{name}: {len(wrong)}\n" + "\n".join(line[:300] for line in wrong[:40])


def test_every_row_has_a_sample_and_every_sample_is_of_a_row() -> None:
    assert {row.name for row in UFUNCS.values()} | set(OTHERS) == set(OPERATIONS)
