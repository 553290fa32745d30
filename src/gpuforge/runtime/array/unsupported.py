"""Exceptions for operations that a recorded array does not support."""

from __future__ import annotations

import re

READ_ONLY = re.compile(
    r"read-only|array.* write?able|write?able.* array|be a C-Array", re.IGNORECASE
)
"""Words of errors for arrays that are read-only, as recorded ones are to NumPy and other libraries.

"array ... writable": of a random generator; the last: of ``np.dot``.
"""


class Unsupported(Exception):
    """An operation or one of its options is not in the table: NumPy computes it on host arrays.

    Raised and handled inside gpuforge; the text gives the reason for the summary.
    """


class NotRecordable(TypeError):
    """A use of an array that needs a real NumPy array: its memory, address or flags.

    It ends the recording; the function is then called as written.
    """


class NoSuchMemory(NotRecordable, AttributeError):
    """An attribute by which NumPy would access an array's memory; it then asks for the values."""
