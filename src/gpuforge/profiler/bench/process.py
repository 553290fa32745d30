"""A worker process that times the benchmarks of a file, one block per request."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from gpuforge.errors import WorkerDied, WorkloadError
from gpuforge.profiler import names
from gpuforge.profiler.bench import worker

ANSWER_SECONDS = 60.0
"""Time limit for loading the file, a warm-up or a block, after which the process is killed."""
PROGRAM = worker.__file__
_END_SECONDS = 5.0


class Worker:
    """A worker process; `close` ends it and everything that it started.

    Parameters
    ----------
    path
        The file with the ``bench_*`` functions.
    environment
        Its environment variables.
    folder
        Its working folder.
    label
        The side that errors mention; empty if there is only one.
    limited
        Whether the process is killed if an answer takes longer than `ANSWER_SECONDS`.

    Attributes
    ----------
    names : the benchmarks of the file
    failed : whether the last answer was an error

    Raises
    ------
    WorkloadError
        If the file does not load; the message is its exception.
    """

    def __init__(
        self, path: Path, environment: Mapping[str, str], folder: Path, *, label: str = "",
        limited: bool = True,
    ) -> None:  # fmt: skip
        self.label, self._limited = label, limited
        self._where = f"on the {label}: " if label else ""
        self.failed = self._late = False
        self._process = subprocess.Popen(
            # -P keeps the worker's own folder off sys.path, where it could shadow modules
            [sys.executable, "-P", PROGRAM, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=dict(environment),
            cwd=folder,
            text=True,
            start_new_session=True,
        )
        try:
            self.names: list[str] = self._answer()["names"]
        except BaseException:
            self.close()
            raise

    def warm_up(self, name: str, *, plan: bool = False) -> dict[str, Any]:
        """Call a function until it is warm; with `plan`, also determine the size of its blocks.

        Raises
        ------
        WorkloadError
            If the function raises.
        """
        return self._ask(name=name, plan=plan)

    def block(self, name: str, loops: int, samples: int) -> list[float]:
        """Return `samples` times the seconds of a call, each the mean over `loops` calls."""
        found: list[float] = self._ask(name=name, loops=loops, samples=samples)["seconds"]
        return found

    def files(self) -> list[str]:
        """Return the files of all modules that the process has loaded."""
        found: list[str] = self._ask(files=True)["files"]
        return found

    def close(self) -> None:
        """End the process and collect its status."""
        process = self._process
        assert process.stdin and process.stdout
        with suppress(OSError):
            process.stdin.close()
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._kill()
            process.wait()
        process.stdout.close()

    def _kill_late(self) -> None:
        self._late = True
        self._kill()

    def _kill(self) -> None:
        with suppress(OSError):
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.kill()

    def _ask(self, **request: Any) -> dict[str, Any]:
        assert self._process.stdin
        with suppress(BrokenPipeError):  # the process has ended, which `_answer` reports
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout
        watch = threading.Timer(ANSWER_SECONDS, self._kill_late)
        if self._limited:
            watch.start()
        try:
            line = self._process.stdout.readline()
        finally:
            watch.cancel()
            if self._limited:
                watch.join()
        if not line:
            self.failed = True
            ended = f"ended with status {self._process.wait()}"
            how = f"did not answer within {ANSWER_SECONDS:g} s" if self._late else ended
            raise WorkerDied(f"{self._where}the process that times the benchmarks {how}")
        answer: dict[str, Any] = json.loads(line)
        self.failed = "error" in answer
        if self.failed:
            raise WorkloadError(self._where + names.line(answer["error"]))
        return answer
