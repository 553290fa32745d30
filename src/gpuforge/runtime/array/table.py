"""The table of operations: how each NumPy name is recorded.

The modules of ``operations`` fill it. NumPy computes operations without a row on host arrays.
"""

from __future__ import annotations

import copyreg
from collections.abc import Callable
from typing import Any

from gpuforge.runtime.array.graph import OWN, Operation

Recording = Callable[..., Any]

OPERATIONS: dict[str, Operation] = {}
"""All rows by name; libraries lower these."""
UFUNCS: dict[Any, Operation] = {}
"""NumPy's universal functions with one result to their rows."""
FUNCTIONS: dict[Any, Recording] = {}
"""NumPy's other functions to their recorders: ``recording(recorder, *args, **kwargs)``."""
METHODS: dict[str, Recording] = {}
"""Methods of arrays to their recorders."""


def row(
    name: str, compute: Callable[..., Any], kind: str, *, raises: bool = False,
    structural: bool = False,
) -> Operation:  # fmt: skip
    """Add one operation to the table and return it."""
    assert name not in OPERATIONS, name
    made = OPERATIONS[name] = Operation(name, compute, kind, raises, structural)
    return made


def operation(name: str) -> Operation:
    """Return the operation with a name: pickled graphs contain operations by name."""
    return OWN[name] if name in OWN else OPERATIONS[name]


copyreg.pickle(Operation, lambda row: (operation, (row.name,)))


def notes(*functions: Any, method: str = "") -> Callable[[Recording], Recording]:
    """Register a function that records some NumPy functions, and the equivalent method."""

    def register(recording: Recording) -> Recording:
        for function in functions:
            FUNCTIONS[function] = recording
        if method:
            METHODS[method] = recording
        return recording

    return register
