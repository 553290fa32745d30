"""Preserve how a program ends, whatever gpuforge does at exit."""

from __future__ import annotations

import sys
from contextlib import suppress


def stay_interrupted() -> None:
    """Make a program that Ctrl-C ended still exit by SIGINT.

    Python forgets the interruption when code is compiled at exit, as an import does.
    """
    if isinstance(getattr(sys, "last_value", None), KeyboardInterrupt):
        with suppress(KeyboardInterrupt):
            exec("raise KeyboardInterrupt")
