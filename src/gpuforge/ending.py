"""What must hold for a program's end, whatever gpuforge does there."""

from __future__ import annotations

import sys
from contextlib import suppress


def stay_interrupted() -> None:
    """Let a program that Ctrl-C ended still end by SIGINT.

    Code that is compiled at its end, as an import does, makes Python forget it.
    """
    if isinstance(getattr(sys, "last_value", None), KeyboardInterrupt):
        with suppress(KeyboardInterrupt):
            exec("raise KeyboardInterrupt")
