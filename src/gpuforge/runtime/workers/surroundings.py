"""What a function finds around it here, and must find in a worker that started before."""

from __future__ import annotations

import contextlib
import os
import sys


class Surroundings:
    """The current folder, the environment variables and the import path of this process."""

    def __init__(self) -> None:
        self.folder = ""
        with contextlib.suppress(OSError):  # it was removed
            self.folder = os.getcwd()
        # Copying the mapping itself encodes each variable, which takes 50 µs.
        self.variables: dict[bytes, bytes] = dict(os.environb._data)  # type: ignore[attr-defined]
        self.path = list(sys.path)

    def enter(self) -> None:
        """Make them those of this process; variables that libraries set here stay."""
        global _entered
        if self.folder:
            with contextlib.suppress(OSError):
                os.chdir(self.folder)
        sys.path[:] = self.path
        before, _entered = _entered.variables, self
        for name in before.keys() - self.variables.keys():
            os.environb.pop(name, None)
        os.environb.update(self.variables.items() - before.items())


_entered = Surroundings()
