"""NumPy's functions where an operand that nothing else uses takes the result.

New memory for each step costs more than most steps: the pages of large arrays have to be cleared.
NumPy itself reuses the memory of temporary arrays in an expression (its ``temp_elide.c``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpuforge.runtime.array.views import write
from gpuforge.runtime.lowering.contract import Lowered

VIEWS = frozenset("getitem transpose reshape broadcast_to real imag diagonal einsum pick".split())
"""Operations whose result may share memory with their first input."""
_ON_REAL_NUMBERS = (
    "add subtract multiply true_divide maximum minimum fmax fmin power fixed_power negative"
    " absolute fabs sqrt square reciprocal exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin"
    " arccos arctan sinh cosh tanh rint floor ceil trunc floor_divide remainder fmod hypot cbrt"
).split()


def reusing(functions: dict[str, Lowered]) -> dict[str, Lowered]:
    """Return those of `functions` that have such a form, in this form."""
    return {"setitem": write} | {name: _into(functions[name]) for name in _ON_REAL_NUMBERS}


def _into(function: Callable[..., Any]) -> Lowered:
    def compute(first: Any, *others: Any) -> Any:
        # Elements in another order would be summed in another one afterwards.
        if type(first) is np.ndarray and first.dtype.kind == "f" and first.flags.c_contiguous:
            shape = first.shape
            if all(type(one) is not np.ndarray or _fits(one.shape, shape) for one in others):
                return function(first, *others, out=first)
        return function(first, *others)

    return compute


def _fits(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    return shape == wanted or (
        len(shape) <= len(wanted)
        and all(a in (1, b) for a, b in zip(shape[::-1], wanted[::-1], strict=False))
    )
