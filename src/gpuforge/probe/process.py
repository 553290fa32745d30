"""Running a vendor's tool with limits on time and output."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO

from gpuforge.facts import Failed, Reading
from gpuforge.probe.contract import OUTPUT_LIMIT_BYTES, Output
from gpuforge.probe.files import text_of


def run(
    argv: list[str], timeout: float, environ: Mapping[str, str] = os.environ
) -> Reading[Output]:
    """Run `argv`; kill its whole process group after `timeout` seconds or over the output limit."""
    name = Path(argv[0]).name
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**environ, "LC_ALL": "C"},
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        return Failed(f"{name} could not be started: {error}", kind="not_runnable")
    assert process.stdout and process.stderr
    streams = (_Stream(process.stdout, process), _Stream(process.stderr, process))
    deadline = time.monotonic() + timeout
    try:
        for stream in streams:
            stream.join(max(0.0, deadline - time.monotonic()))
        status = process.wait(max(0.0, deadline - time.monotonic()))
    except BaseException as error:
        _end(process)
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        status = None
    if status is None or any(stream.is_alive() for stream in streams):
        _end(process)
        return Failed(f"{name} did not finish within {timeout:g} s", kind="timeout")
    out, error_text = (stream.text() for stream in streams)
    cut = any(stream.cut for stream in streams)
    return Output(status, out, error_text, cut, " ".join((name, *argv[1:])))


class _Stream(threading.Thread):
    """A thread that reads one stream of a process, up to the output limit."""

    def __init__(self, stream: IO[bytes], process: subprocess.Popen[bytes]) -> None:
        super().__init__(name="gpuforge-read", daemon=True)
        self.cut = False
        self._content = bytearray()
        self._stream, self._process = stream, process
        self.start()

    def run(self) -> None:
        with self._stream:
            while chunk := os.read(self._stream.fileno(), 2**16):
                self._content += chunk[: OUTPUT_LIMIT_BYTES - len(self._content)]
                if len(self._content) == OUTPUT_LIMIT_BYTES:
                    self.cut = True
                    _end(self._process)
                    return

    def text(self) -> str:
        return text_of(bytes(self._content))


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and its group, and collect its exit status."""
    with suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    with suppress(subprocess.TimeoutExpired):
        process.wait(1)
