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
        message = message.replace("invalid int value: ", "not a whole number: ")
        flag = message.removeprefix(_UNKNOWN).split(" ")[0].partition("=")[0]
        if message.startswith(_UNKNOWN) and flag.startswith("--"):
            flags = [name[2:] for name in self._option_string_actions if name.startswith("--")]
            near = nearest(flag[2:], flags)  # without "--", which all flags have in common
            hint = f"did you mean '--{near}'?" if near else hint
        raise UnknownName(f"{self.prog}: {message}", hint=hint)

    def add_subparsers(self, **kwargs: Any) -> Any:
        return super().add_subparsers(**{"parser_class": _SubcommandParser, **kwargs})


class _SubcommandParser(ArgumentParser):
    """A parser that refuses what it does not know itself: it knows the flags that come near."""

    def parse_known_args(self, *args: Any, **kwargs: Any) -> Any:
        found, unknown = super().parse_known_args(*args, **kwargs)
        if unknown:
            self.error(_UNKNOWN + " ".join(unknown))
        return found, unknown
