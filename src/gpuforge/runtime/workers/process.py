"""A worker process: start it, send requests, kill it, and describe how it ended.

It is a new interpreter, never a fork, since loaded libraries do not survive a fork. The program's
main module is not imported there.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpuforge.errors import BackendUnavailable
from gpuforge.runtime import heap
from gpuforge.runtime.workers.channel import Channel, Host, anonymous_file

_PROGRAM = "import sys; sys.path[:] = {path!r}; from gpuforge.runtime.workers.serving import main; \
main({control}, {life}, {words}, {kept})"
STALL_SECONDS = 5.0
"""A process whose threads have all slept for this long is assumed to be deadlocked."""
_ENDING_SECONDS = 5.0
"""A process that does not exit this long after its channel is closed is killed."""


class Lost(Exception):
    """A worker has ended during a request, or before it.

    Attributes
    ----------
    status : as in `subprocess`: a negative signal, or the exit status
    begun : whether it had started to handle the request
    """

    def __init__(self, status: int, words: str, *, begun: bool = True) -> None:
        super().__init__(f"{describe_status(status)}{words}")
        self.status, self.begun = status, begun


class Worker:
    """One worker process, which answers one request at a time.

    Parameters
    ----------
    quiet
        Whether to keep its output for the description of its end instead of showing it, as for
        messages of libraries. Output of a user's function is shown.
    """

    def __init__(self, *, quiet: bool) -> None:
        if os.name != "posix":
            raise BackendUnavailable(
                "worker processes cannot be started here: sockets cannot pass file descriptors",
                hint="pass isolate=False",
            )
        ours, theirs = socket.socketpair()
        life, self._life = os.pipe()
        self._words = anonymous_file("gpuforge last words")
        program = _PROGRAM.format(
            path=sys.path, control=theirs.fileno(), life=life, words=self._words,
            kept=heap.kept_bytes,
        )  # fmt: skip
        try:
            self.process = subprocess.Popen(
                [sys.executable, *subprocess._args_from_interpreter_flags(), "-c", program],  # type: ignore[attr-defined]
                stdin=subprocess.DEVNULL,
                stdout=self._words if quiet else None,
                stderr=self._words if quiet else None,
                pass_fds=(theirs.fileno(), life, self._words),
                process_group=0,  # Ctrl-C must reach only this process
            )
        except BaseException:
            os.close(self._life)
            os.close(self._words)
            ours.close()
            raise
        finally:
            theirs.close()
            os.close(life)
        self.channel = Channel(ours)
        self._closed = self._stalled = False
        _all.add(self)

    @property
    def alive(self) -> bool:
        """Whether it is running."""
        return not self._closed and not self._has_ended()

    def send(self, message: Any, arrays: Sequence[Host] = ()) -> None:
        """Send a request.

        Raises
        ------
        Lost
            If it has ended; the request was not started.
        """
        try:
            self.channel.send(message, arrays)
        except OSError:
            raise self._lost(begun=False) from None
        except BaseException:  # the message may be incomplete
            self.kill()
            raise

    def receive(
        self, timeout: float | None = None, *, watched: bool = False
    ) -> tuple[Any, list[Host]]:
        """Return an answer.

        A `watched` process is killed once its threads are deadlocked, as happens to some libraries
        when memory is short.

        Raises
        ------
        TimeoutError
            If there is no answer within `timeout` seconds; the process is killed.
        Lost
            If it has ended.
        """
        try:
            before = None
            while watched and not self.channel.ready(STALL_SECONDS):
                now = _asleep_at(self.process.pid)
                if now is not None and now == before:
                    self._stalled = True
                    self.interrupt()
                before = now
            return self.channel.receive(timeout)
        except TimeoutError:
            self.kill()
            raise
        except (EOFError, OSError):
            raise self._lost(begun=True) from None
        except BaseException:  # nobody needs its answer any more
            self.kill()
            raise

    def ask(self, message: Any) -> tuple[Any, list[Host]]:
        """Send a request and return its answer; raises as `send` and `receive` do."""
        self.send(message)
        return self.receive()

    def kill(self) -> None:
        """Kill it and what it started, if it is running."""
        if not self._closed:
            self.interrupt()
            with contextlib.suppress(subprocess.TimeoutExpired):  # an interrupted one blocks it
                self.process.wait(_ENDING_SECONDS)
            self._close()

    def interrupt(self) -> None:
        """Kill it and what its function started, if it is running."""
        if not self._has_ended():
            self._kill_group()

    def _has_ended(self) -> bool:
        """Return whether it has ended, in which case what it started is killed."""
        if self.process.returncode is None and self.process.poll() is not None:
            self._kill_group()
        return self.process.returncode is not None

    def _kill_group(self) -> None:
        """Kill its process group; not later than its status is taken, which frees its number."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def forget(self) -> None:
        """Drop it in a forked child: it belongs to the parent."""
        self.process.returncode = 0
        self._close()

    def _lost(self, *, begun: bool) -> Lost:
        if self.process.returncode is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(_ENDING_SECONDS)
            self._kill_group()
        status = self.process.wait()
        words = "" if self._closed else _last_words(self._words)
        if self._stalled:
            words = f"because all its threads waited for each other{words}"
        self._close()
        return Lost(status, words, begun=begun)

    def _close(self) -> None:
        if not self._closed:
            self._closed = True
            self.channel.close()
            os.close(self._life)
            os.close(self._words)
            _all.discard(self)


_all: set[Worker] = set()


def describe_status(status: int) -> str:
    """Return how a process ended: ``ended by signal SIGSEGV``, ``ended with exit status 3``."""
    if status >= 0:
        return f"ended with exit status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = str(-status)
    return f"was ended by signal {name}"


def _asleep_at(pid: int) -> int | None:
    """Return the CPU time of a process if all its threads sleep, else None."""
    total = 0
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            state, *fields = (task / "stat").read_text().rpartition(")")[2].split()
            if state != "S":
                return None
            total += int(fields[10]) + int(fields[11])
    except OSError:  # it has ended, or the system does not report it
        return None
    return total


_FRAME = re.compile(r'^  File "(?P<file>[^"]*)", line (?P<line>\d+) in (?P<name>.*)$', re.MULTILINE)
_OWN = os.path.dirname(os.path.dirname(__file__))


def _last_words(descriptor: int) -> str:
    """Return where a fatal signal occurred and the last line printed; empty if unknown."""
    size = os.fstat(descriptor).st_size
    text = os.pread(descriptor, 1 << 16, max(0, size - (1 << 16))).decode("utf-8", "replace")
    said, _, trace = text.partition("Fatal Python error:")
    found = [f for f in _FRAME.finditer(trace) if not f["file"].startswith((_OWN, "<string>"))]
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    words = f" at {found[0]['file']}:{found[0]['line']} in {found[0]['name']}" if found else ""
    return f"{words} (its last line: {lines[-1][:200]})" if lines else words


@atexit.register
def kill_all() -> None:
    """End every worker of this process."""
    for worker in list(_all):
        worker.kill()


def _forget_all() -> None:
    for worker in list(_all):
        worker.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
