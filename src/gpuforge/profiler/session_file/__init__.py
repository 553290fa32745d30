"""The session file (``.gfp``): the recording of a program, flushed while it runs.

It is a magic number, a version and chunks (`chunk`). Each chunk is compressed, checksummed and
self-contained, so a file is readable up to its last complete chunk, whatever ended the program.
Numbers are columns, the rest JSON; nothing is ever executed. Reasons: `docs/decisions/0034`.
"""

from gpuforge.profiler.session_file.reader import read
from gpuforge.profiler.session_file.writer import Writer

__all__ = ["Writer", "read"]
