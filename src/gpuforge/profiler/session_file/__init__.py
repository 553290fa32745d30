"""The session file (``.gfp``): what was recorded of a program, flushed as it runs.

A magic number and a version, then chunks (`chunk`): each is compressed, has a checksum and stands
for itself, so a file is readable up to its last whole chunk, whatever ended the program. Numbers
stand in columns, all else is JSON; nothing in it is ever executed. `docs/decisions/0034` says why.
"""

from gpuforge.profiler.session_file.reader import read
from gpuforge.profiler.session_file.writer import Writer

__all__ = ["Writer", "read"]
