"""What writes the log to stderr; apart from `log`, because most commands write none."""

from __future__ import annotations

import logging
import sys
from typing import TextIO


class StderrHandler(logging.StreamHandler[TextIO]):
    """Writes to whatever ``sys.stderr`` is at that moment, which a program may change."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)
        self.setFormatter(logging.Formatter("%(name)s: %(message)s"))

    @property
    def stream(self) -> TextIO:
        return sys.stderr

    @stream.setter
    def stream(self, value: TextIO) -> None:
        raise AttributeError("the stream is sys.stderr")
