"""The argument parser that all commands use."""

from __future__ import annotations

import argparse
from typing import NoReturn

from gpuforge.errors import UnknownName


class ArgumentParser(argparse.ArgumentParser):
    """A parser that raises `UnknownName`, so that its errors look like all others."""

    def error(self, message: str) -> NoReturn:
        raise UnknownName(f"{self.prog}: {message}", hint=f"see '{self.prog} --help'")
