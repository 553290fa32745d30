"""A progress bar on stderr for what takes long; nothing where nobody watches."""

from __future__ import annotations

import sys
from typing import Any


class Progress:
    """Shows how many of how many packages are done."""

    def __init__(self, *, quiet: bool) -> None:
        self.shown = not quiet and sys.stderr.isatty()
        self.bar: Any = None

    def __enter__(self) -> Progress:
        if self.shown:
            from tqdm import tqdm

            self.bar = tqdm(total=1, unit="package", leave=False, dynamic_ncols=True)
        return self

    def __exit__(self, *error: object) -> None:
        if self.bar is not None:
            self.bar.close()

    def report(self, what: str, done: int, total: int) -> None:
        """Show that `done` of `total` packages are done, and what is being done."""
        if self.bar is not None:
            self.bar.total, self.bar.n = total, done
            self.bar.set_description_str(what[:40], refresh=True)
