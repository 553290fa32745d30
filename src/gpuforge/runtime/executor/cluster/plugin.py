"""Dask worker plugin: what each worker does when it joins and leaves."""

from __future__ import annotations

import signal
import threading
from typing import Any

from distributed import WorkerPlugin

from gpuforge.history import Rows
from gpuforge.runtime.executor.cluster.learning import learned, take_in
from gpuforge.runtime.executor.cluster.work import HERE, check_versions


class Joining(WorkerPlugin):
    """Checks the versions of a worker, and sends it what the client knows about its machine.

    `local` workers ignore Ctrl-C: the client ends them.
    """

    def __init__(self, name: str, known: Rows, *, local: bool) -> None:
        self.name, self.known, self.local = name, known, local
        self.versions = HERE

    def setup(self, worker: Any) -> None:
        """Refuse versions other than the client's; store the client's rows."""
        check_versions(self.versions)
        if self.local and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        take_in(self.known)

    def teardown(self, worker: Any) -> None:
        """Write what was learned to the worker's own history."""
        learned()
