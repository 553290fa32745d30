"""Publish the counters of a gpuforge process in a small memory-mapped file.

Any other process of the same user can read the counters; writing them needs no thread and no system
call. The file is in a folder that only the user can enter. It is removed when the process ends, or
by the next reader if the process died. It is named after the process id and start time, so a reused
id is not mistaken for it. A forked child has its own file. If no file can be created, nothing is
published and nothing fails. Each number is one aligned store: a reader sees the old or the new
value.
"""

from __future__ import annotations

import atexit
import math
import mmap
import os
import re
import stat
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gpuforge.dataclass import dataclass, replace
from gpuforge.log import logger

_MAGIC = b"GPUFORG2"  # the last letter is the version of the format
_NAMES = struct.Struct("8s 4q 2d 7q 96s 96s")
"""Magic, PID namespace, pid, start in ticks, backends; started and updated at; counts; texts."""
_SPACE = struct.Struct("8x q")
"""The PID namespace, which has this position in every version."""
_ROW = struct.Struct("40s q 2d 3q d 5q d")
"""Name; calls, seconds, of transfers; bytes there, back, compared, lost; pressure and its time."""
_MOST_BACKENDS = 16
_SIZE = 2624
_BACKENDS, _UPDATED, _COUNTS = 4, 6, 7
_CALLS, _SECONDS, _TRANSFER, _PUT, _GOT, _COMPARED, _LOST, _PRESSURE = range(8)
_PRESSED_AT = _PRESSURE + 5
_QUEUED, _RUNNING, _DONE, _FAILED, _BATCHES, _SETTLED, _RETRIES = range(_COUNTS, _COUNTS + 7)
_PROGRAM, _SPAN = _NAMES.size - 192, _NAMES.size - 96
_FILE = r"\d{1,10}-\d{1,20}"
_CROWD = 64
"""If the folder has more files than this, a process that adds one removes those of dead ones."""
_log = logger("published")


@dataclass(frozen=True)
class Pressure:
    """Events of memory pressure on a backend's device while a process used it.

    Memory is checked in calls without a cached decision, at most twenty times a second.

    Attributes
    ----------
    warnings, criticals : times that the share in use rose above ``pressure_warning`` and
        ``pressure_critical``
    exhausted : times that memory ran out and NumPy made the call
    released : times that the library released its cached memory
    released_bytes : how much that was, as far as the library reports it
    last_at : when the last of these was, in seconds since the epoch; 0 for never
    """

    warnings: int = 0
    criticals: int = 0
    exhausted: int = 0
    released: int = 0
    released_bytes: int = 0
    last_at: float = 0.0


@dataclass(frozen=True)
class BackendUse:
    """What a process did on one backend.

    Attributes
    ----------
    seconds : wall time of its calls; untimed calls are extrapolated from timed ones
    transfer_seconds : time spent moving arrays there and back, except in calls under a cached
        choice
    put_bytes, got_bytes : bytes moved to the backend and back, 0 if it uses host memory; a call
        under a cached decision counts like the call that made the choice
    compared_calls : calls for which the time on another backend was known or estimated
    lost_seconds : how much longer these took than on the best known backend: the regret
    """

    name: str
    calls: int
    seconds: float
    transfer_seconds: float
    put_bytes: int = 0
    got_bytes: int = 0
    compared_calls: int = 0
    lost_seconds: float = 0.0
    pressure: Pressure = Pressure()


@dataclass(frozen=True)
class Published:
    """The counters of one process, as it last wrote them.

    Attributes
    ----------
    program : name of the program that it runs
    started_at, updated_at : seconds since the epoch
    span : name of the current span; empty if there is none
    backends : use of each backend, in the order of first use
    queued, running : tasks of its executors now
    done, failed : tasks that ended so far
    batches : number of batches of tasks or items so far
    settled : calls that NumPy had to settle, because a backend failed or differed
    retries : calls that were restarted as written
    """

    pid: int
    program: str
    started_at: float
    updated_at: float
    span: str
    backends: tuple[BackendUse, ...]
    queued: int
    running: int
    done: int
    failed: int
    batches: int
    settled: int
    retries: int


class _Board:
    """The mapped file of this process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: dict[str, int] = {}
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            # Written, not just extended: a store to a page for which the disk has no room is fatal.
            os.write(handle, bytes(_SIZE))
            self.map = mmap.mmap(handle, _SIZE)
        except BaseException:
            path.unlink()
            raise
        finally:
            os.close(handle)
        self.whole = memoryview(self.map).cast("q")
        self.real = memoryview(self.map).cast("d")
        program = os.path.basename(sys.argv[0] if sys.argv else "") or "python"
        self.write(_PROGRAM, "python -c" if program == "-c" else program)
        pid, ticks = map(int, path.name.split("-"))
        self.whole[1], self.whole[2], self.whole[3] = _namespace(), pid, ticks
        self.real[5] = self.real[_UPDATED] = time.time()
        self.map[:8] = _MAGIC  # last: a file without it is incomplete

    def write(self, place: int, text: str, length: int = 96) -> None:
        """Write a text, cut to `length` bytes."""
        self.map[place : place + length] = text.encode("utf-8", "replace")[:length].ljust(
            length, b"\0"
        )

    def row(self, backend: str) -> int:
        """Return the index of a backend's first count; the last row is shared by the rest."""
        found = self.rows.get(backend)
        if found is None:
            used = self.whole[_BACKENDS]
            place = min(used, _MOST_BACKENDS - 1)
            start = _NAMES.size + place * _ROW.size
            if used < _MOST_BACKENDS:
                self.write(start, backend if used < _MOST_BACKENDS - 1 else "others", 40)
                self.whole[_BACKENDS] = used + 1
            found = self.rows[backend] = start // 8 + 5
        return found

    def close(self, *, remove: bool) -> None:
        """Close the file, and remove it if `remove` is set and it is this process's."""
        self.whole.release()
        self.real.release()
        self.map.close()
        if remove:
            with suppress(OSError):
                self.path.unlink()


def _nothing() -> None:
    """Do nothing: placeholder until the runtime sets `count_held`."""


count_held: Callable[[], None] = _nothing
"""Publishes the calls made under cached decisions. Set by the runtime."""
_board: _Board | None = None
_refused = False
_lock = threading.RLock()  # a signal's handler may count in the middle of a count


def count(backend: str, calls: int, seconds: float) -> None:
    """Publish calls of `seconds` each on a backend."""
    board = _board or _begin()
    if board is not None:
        with _lock:
            row = board.row(backend)
            board.whole[row] += calls
            board.real[row + _SECONDS] += calls * seconds
            board.real[_UPDATED] = time.time()


def transferred(backend: str, seconds: float, put_bytes: int = 0, got_bytes: int = 0) -> None:
    """Publish the seconds and bytes of transfers to a backend and back."""
    board = _board or _begin()
    if board is not None and (seconds or put_bytes or got_bytes):
        with _lock:
            row = board.row(backend)
            board.real[row + _TRANSFER] += seconds
            board.whole[row + _PUT] += put_bytes
            board.whole[row + _GOT] += got_bytes


def compared(backend: str, calls: int, lost_seconds: float) -> None:
    """Publish calls for which another backend was known, and their total regret."""
    board = _board or _begin()
    if board is not None:
        with _lock:
            row = board.row(backend)
            board.whole[row + _COMPARED] += calls
            board.real[row + _LOST] += lost_seconds


def pressed(
    backend: str, *, warnings: int = 0, criticals: int = 0, exhausted: int = 0, released: int = 0,
    released_bytes: int = 0,
) -> None:  # fmt: skip
    """Publish events of memory pressure; see `Pressure`."""
    board = _board or _begin()
    if board is not None:
        with _lock:
            row = board.row(backend)
            new = (warnings, criticals, exhausted, released, released_bytes)
            for place, number in enumerate(new, row + _PRESSURE):
                board.whole[place] += number
            board.real[row + _PRESSED_AT] = time.time()


def settled() -> None:
    """Publish that NumPy settled one more call."""
    _add(_SETTLED)


def retried() -> None:
    """Publish that one more call was restarted as written."""
    _add(_RETRIES)


def now(span: str) -> None:
    """Publish the name of the current span; empty for none."""
    board = _board or _begin()
    if board is not None:
        board.write(_SPAN, span)


def tasks(queued: int, running: int, done: int = 0, failed: int = 0) -> None:
    """Publish changes in the numbers of an executor's tasks."""
    board = _board or _begin()
    if board is not None:
        with _lock:
            whole = board.whole
            whole[_QUEUED] += queued
            whole[_RUNNING] += running
            whole[_DONE] += done
            whole[_FAILED] += failed
            board.real[_UPDATED] = time.time()


def batched() -> None:
    """Publish one more batch of tasks or items."""
    _add(_BATCHES)


def _add(place: int) -> None:
    board = _board or _begin()
    if board is not None:
        with _lock:
            board.whole[place] += 1


def end() -> None:
    """Remove this process's file; later counts create a new one."""
    global _board, _refused
    with _lock:
        board, _board, _refused = _board, None, False
    if board is not None:
        board.close(remove=True)


@contextmanager
def unseen() -> Iterator[None]:
    """Publish nothing inside, if this process has not published anything yet."""
    global _refused
    before, _refused = _refused, True
    try:
        yield
    finally:
        _refused = before


def _begin() -> _Board | None:
    """Create the file of this process, once; None if that is impossible."""
    global _board, _refused
    if _refused:
        return None
    with _lock:
        if _board is None and not _refused:
            try:
                here = folder(make=True)
                if len(os.listdir(here)) > _CROWD:
                    read_all()
                _board = _Board(here / f"{os.getpid()}-{_start_ticks(os.getpid()) or 0}")
            except (OSError, ValueError) as error:
                _refused = True
                _log.info("other processes cannot see this one: %s", error)
    return _board


def _after_fork() -> None:
    """Leave the parent's file to the parent."""
    global _board, _lock
    _lock = threading.RLock()
    board, _board = _board, None
    if board is not None:
        board.close(remove=False)


atexit.register(end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def folder(*, make: bool = False) -> Path:
    """Return the folder of the files: in the user's runtime folder, else in the temporary one.

    Raises
    ------
    OSError
        If it is not there, or others than the user could write into it.
    """
    runtime, user = os.environ.get("XDG_RUNTIME_DIR", ""), getattr(os, "getuid", lambda: 0)()
    if os.path.isabs(runtime):
        path = Path(runtime, "gpuforge")
    else:
        temporary = os.environ.get("TMPDIR") or os.environ.get("TEMP") or "/tmp"
        path = Path(temporary, f"gpuforge-{user}")
    if make:
        with suppress(FileExistsError):
            os.mkdir(path, 0o700)
    found = os.lstat(path)
    mine = os.name != "posix" or (found.st_uid == user and not found.st_mode & 0o077)
    if not stat.S_ISDIR(found.st_mode) or not mine:
        raise PermissionError(f"{path} is not a folder that only its owner can access")
    return path


def read_all() -> list[Published]:
    """Return the counters of this user's running gpuforge processes, ordered by process id.

    Files of processes that have ended are removed.
    """
    try:
        here = folder()
        names = [name for name in os.listdir(here) if re.fullmatch(_FILE, name)]
    except OSError:
        return []
    found = (_read(here / name) for name in names)
    return sorted((one for one in found if one is not None), key=lambda one: one.pid)


def _read(path: Path) -> Published | None:
    """Return the counters in a file; None if its process is gone or it is not ours."""
    pid, ticks = map(int, path.name.split("-"))
    content = _content(path)
    if content is None or (len(content) >= 16 and _SPACE.unpack_from(content)[0] != _namespace()):
        return None  # processes of other containers are not visible here
    if not _lives(pid, ticks):
        with suppress(OSError):
            path.unlink()
        return None
    if content[:7] == _MAGIC[:7] and content[:8] != _MAGIC:
        _log.info("process %d is not shown: it runs another version of gpuforge", pid)
    return _parsed(content, pid) if len(content) == _SIZE else None


def _content(path: Path) -> bytes | None:
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        handle = os.open(path, flags)
    except OSError:
        return None
    with open(handle, "rb") as file:
        return file.read(_SIZE) if stat.S_ISREG(os.fstat(handle).st_mode) else None


def _parsed(content: bytes, pid: int) -> Published | None:
    """Return the counters in a complete file; None if its numbers are impossible."""
    magic, _, own, _, used, started, updated, *counts, program, span = _NAMES.unpack_from(content)
    rows = [
        _ROW.unpack_from(content, _NAMES.size + place * _ROW.size)
        for place in range(min(max(used, 0), _MOST_BACKENDS))
    ]
    numbers = [started, updated, *counts, *(number for row in rows for number in row[1:])]
    if magic != _MAGIC or own != pid or not all(0 <= n < math.inf for n in numbers):
        return None
    backends = tuple(
        replace(BackendUse(_text(name), *use), pressure=Pressure(*pressure))
        for name, *use, pressure in ((*row[:8], row[8:]) for row in rows)
    )
    return Published(pid, _text(program), started, updated, _text(span), backends, *counts)


def _text(content: bytes) -> str:
    """Return a name that any process may have chosen, without control characters."""
    text = content.rstrip(b"\0").decode("utf-8", "replace")
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in text)


def _lives(pid: int, ticks: int) -> bool:
    """Return whether a process that started at this time is running."""
    now = _start_ticks(pid)
    if now is not None or os.path.isdir("/proc/self"):
        return now == ticks
    from gpuforge.probe.live import process_lives

    return process_lives(str(pid))


def _start_ticks(pid: int) -> int | None:
    """Return the start time of a process in kernel ticks since boot; None if it has ended.

    Source: Linux, Documentation/filesystems/proc.rst, field 22 of ``/proc/PID/stat``.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
            return None if fields[0] in (b"Z", b"X") else int(fields[19])
    except (OSError, ValueError, IndexError):
        return None


def _namespace() -> int:
    """Return the number of this process's PID namespace."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0
