"""``gf.warmup()``: open libraries while the program does something else."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from gpuforge import settings
from gpuforge.runtime.session import Session, current_session
from gpuforge.runtime.startup import caches, warming
from gpuforge.runtime.startup.warming import Warmup


def warmup(names: Iterable[str] | Mapping[str, float] = (), *, wait: bool = False) -> Warmup:
    """Open array libraries in the background, so that no call has to wait for it later.

    Python imports in one thread at a time, and an import holds the interpreter's lock for most of
    its time, which slows the program meanwhile. Files are read ahead, and libraries that compute in
    worker processes start there, without that lock. A library that was never opened on this machine
    is first tried in a separate process.

    Parameters
    ----------
    names
        Names of libraries (``["torch", "jax"]``), most urgent first; or a mapping of names to
        priorities, higher first. Default: those that the settings name, else those that this
        program's last run used.
    wait
        Whether to block until all of them have finished.

    Returns
    -------
    Warmup
        ``wait(timeout)``, ``await``, ``done``; ``stats`` has each library's state, times and reason
        of failure. A library that is unavailable is not an error.

    Raises
    ------
    UnknownName, InvalidSettings
        If a name is not a backend; if a name is not text, or a priority not a number.
    """
    session = current_session()
    if session.settings.kernel_caches:
        made = caches.prepare(settings.cache_folder(session.settings), os.environ)
        session.notes += [f"set {name}={value}" for name, value in made.items()]
    begun = warming.begin(session, names, "gf.warmup()")
    if wait:
        begun.wait()
    return begun


def begin_as_set(session: Session) -> None:
    """Start the warm-up that the setting ``warmup`` requests."""
    session.warms = False
    warming.begin(session, (), "the setting warmup")
