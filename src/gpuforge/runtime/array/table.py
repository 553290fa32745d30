"""The table of operations: what each NumPy name is noted as.

The modules of ``operations`` fill it; a row that is not in it is done by NumPy on host arrays.
"""

from __future__ import annotations

import copyreg
from collections.abc import Callable
from typing import Any

from gpuforge.runtime.array.graph import INPUT, NUMBER, Operation

Recording = Callable[..., Any]

OPERATIONS: dict[str, Operation] = {}
"""Every row by name; what libraries lower."""
UFUNCS: dict[Any, Operation] = {}
"""NumPy's universal functions with one result to their rows."""
FUNCTIONS: dict[Any, Recording] = {}
"""NumPy's other functions to what notes them: ``recording(recorder, *args, **kwargs)``."""
METHODS: dict[str, Recording] = {}
"""Methods of arrays to what notes them."""


def row(
    name: str, compute: Callable[..., Any], kind: str, *, raises: bool = False,
    structural: bool = False,
) -> Operation:  # fmt: skip
    """Add one operation to the table and return it."""
    assert name not in OPERATIONS, name
    made = OPERATIONS[name] = Operation(name, compute, kind, raises, structural)
    return made


def operation(name: str) -> Operation:
    """Return the operation of a name: graphs are pickled with the names of their operations."""
    found = {INPUT.name: INPUT, NUMBER.name: NUMBER}.get(name)
    return OPERATIONS[name] if found is None else found


copyreg.pickle(Operation, lambda row: (operation, (row.name,)))


def notes(*functions: Any, method: str = "") -> Callable[[Recording], Recording]:
    """Register what notes some of NumPy's functions, and the method of the same meaning."""

    def register(recording: Recording) -> Recording:
        for function in functions:
            FUNCTIONS[function] = recording
        if method:
            METHODS[method] = recording
        return recording

    return register
