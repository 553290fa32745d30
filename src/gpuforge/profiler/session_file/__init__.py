"""The session file (``.gfp``): the recording of a program, flushed while it runs.

It is a magic number, a version and chunks (`chunk`). Each chunk is compressed, checksummed and
self-contained, so a file is readable up to its last complete chunk, whatever ended the program.
Numbers are columns, the rest JSON; nothing is ever executed. Reasons: `docs/decisions/0034`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpuforge.profiler.session_file.reader import read
    from gpuforge.profiler.session_file.writer import Writer

__all__ = ["Writer", "read"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # A recording does not load what reads, nor a report what writes.
    return getattr(import_module(f"{__name__}.{'reader' if name == 'read' else 'writer'}"), name)
