"""The parser of each command's arguments."""

from __future__ import annotations

import argparse
from typing import NoReturn

from gpuforge.errors import UnknownName


class ArgumentParser(argparse.ArgumentParser):
    """A parser whose errors read like all others."""

    def error(self, message: str) -> NoReturn:
        raise UnknownName(f"{self.prog}: {message}", hint=f"see '{self.prog} --help'")
