"""A progress bar on stderr, shown on a terminal only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gpuforge.environment.installers import Report


@contextmanager
def progress(*, quiet: bool) -> Iterator[Report]:
    """Give a function that shows what is being done, and how many of how many packages are."""
    from tqdm import tqdm

    # None: shown on a terminal only.
    hidden = True if quiet else None
    with tqdm(total=1, unit="package", leave=False, dynamic_ncols=True, disable=hidden) as bar:

        def report(what: str, done: int, total: int) -> None:
            bar.total, bar.n = total, done
            bar.set_description_str(what[:40])

        yield report
