"""Exchange learned timings between the client's history and workers.

Rows carry the fingerprint of the machine that they were measured on, and a worker only uses those
of its own. Merging rows is idempotent, so workers that share a history with each other or with the
client need no special case.
"""

from __future__ import annotations

import sys
import threading
import time
from time import monotonic

from gpuforge import settings
from gpuforge.history import History, Rows
from gpuforge.runtime.calibration.fingerprint import machine_fingerprint
from gpuforge.runtime.context import current

REPORT_SECONDS = 20.0
"""Minimum time between a worker's reports with a chunk, since it may be lost before the end."""

_since, _reported = time.time(), monotonic()
_lock = threading.Lock()


def learned() -> Rows:
    """Return the rows added to the history since this process began; none if nothing was placed."""
    global _since
    module = sys.modules.get("gpuforge.runtime.session")
    if module is None or not module.sessions():
        return Rows([], [])
    for session in module.sessions():
        session.flush(force=True)
    with _lock:
        since, _since = _since, time.time()
    found: Rows = module.default_session().history.rows(since=since)
    return found


def learned_lately() -> Rows:
    """Return the rows since the last report, if that is long enough ago."""
    global _reported
    with _lock:
        if monotonic() - _reported < REPORT_SECONDS:
            return Rows([], [])
        _reported = monotonic()
    return learned()


def take_in(known: Rows) -> None:
    """Store the rows that were measured on a machine like this one."""
    machine = machine_fingerprint()
    mine = Rows(*([row for row in rows if row[0] == machine] for rows in known))
    if any(mine):
        stored().merge(mine)


def stored() -> History:
    """Return the history of the session in force, or that of the settings if there is none.

    This does not create a session, which a short program would have to import.
    """
    session = current.get()
    if session is not None:
        return session.history
    chosen = settings.load().settings
    return History(settings.cache_folder(chosen) if chosen.history else None, machine_fingerprint())
