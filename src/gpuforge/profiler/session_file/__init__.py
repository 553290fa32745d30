"""The session file (``.gfp``): the recording of a program, flushed while it runs.

It consists of a magic number, a version and chunks (`chunk`). Each chunk is compressed, has a
checksum and is self-contained, so a file is readable up to its last complete chunk, whatever ended
the program. Numbers are stored in columns, everything else as JSON; nothing in a file is ever
executed. `docs/decisions/0034` gives the reasons.
"""

from gpuforge.profiler.session_file.reader import read
from gpuforge.profiler.session_file.writer import Writer

__all__ = ["Writer", "read"]
