"""``gf.warmup()``: libraries made ready while the program does something else."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from gpuforge import settings
from gpuforge.runtime.session import current_session
from gpuforge.runtime.startup import caches, warming
from gpuforge.runtime.startup.warming import Warmup


def warmup(names: Iterable[str] | Mapping[str, float] = (), *, wait: bool = False) -> Warmup:
    """Open array libraries beside the program, so that no call pays for it later.

    Python imports in one thread at a time, and an import holds the interpreter's lock for most of
    its time: what is computed meanwhile is slower. Files are read ahead, and libraries that compute
    in worker processes begin there, without that lock. A library that was never opened on this
    machine is tried in a process of its own first.

    Parameters
    ----------
    names
        Libraries, as backends are named (``["torch", "jax"]``), the most urgent first; or a mapping
        of names to priorities, higher ones first. Default: those that the settings name, else those
        that calls ran on when this program ran last.
    wait
        Whether to return only when all of them are ready.

    Returns
    -------
    Warmup
        ``wait(timeout)``, ``await``, ``done``; ``stats`` tells of each library what state it is in,
        what it took and why it failed. A library that cannot be had is no error.

    Raises
    ------
    UnknownName
        If no backend has one of the names.
    """
    session = current_session()
    if session.settings.kernel_caches:
        made = caches.prepare(settings.cache_folder(session.settings), os.environ)
        session.notes += [f"set {name}={value}" for name, value in made.items()]
    begun = warming.begin(session, names, "gf.warmup()")
    if wait:
        begun.wait()
    return begun


def warm_after_first_call() -> None:
    """Begin what the setting ``warmup`` asks for, once the first call of a session has returned."""
    session = current_session()
    session.warms = False
    warming.begin(session, (), "the setting warmup")
