"""The argument parser that all commands use."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

from gpuforge.errors import UnknownName, nearest

_UNKNOWN = "unrecognized arguments: "


class ArgumentParser(argparse.ArgumentParser):
    """A parser that raises `UnknownName`, so that its errors look like all others.

    Flags are given in full: a shortened one would change its meaning with the next flag, and
    argparse looks for them among the arguments of a user's program too.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"allow_abbrev": False, **kwargs})

    def error(self, message: str) -> NoReturn:
        hint = f"see '{self.prog} --help'"
        flag = message.removeprefix(_UNKNOWN).split(" ")[0].partition("=")[0]
        if message.startswith(_UNKNOWN) and flag.startswith("--"):
            near = nearest(flag, self._option_string_actions)
            hint = f"did you mean {near!r}?" if near else hint
        raise UnknownName(f"{self.prog}: {message}", hint=hint)
