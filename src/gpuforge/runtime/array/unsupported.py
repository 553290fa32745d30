"""What a recorded array cannot do."""

from __future__ import annotations


class Unsupported(Exception):
    """An operation or one of its options is not in the table: NumPy does it on host arrays.

    Raised and handled inside gpuforge; the text says why, for the summary.
    """


class NotRecordable(TypeError):
    """A use of an array that only NumPy's own array can serve: its memory, address or flags.

    It ends the recording; the call is then made as written.
    """


class NoSuchMemory(NotRecordable, AttributeError):
    """An attribute by which NumPy would take an array's memory; it then asks for the values."""
