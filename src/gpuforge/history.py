"""One SQLite file (write-ahead log) for what was measured, shared by all processes of a user.

Rows carry the fingerprint of the machine they were measured on and are never read under another
one. A broken file is set aside and a new one begun; if the folder cannot be read or written,
another process holds the lock, or the disk is full, nothing is stored. `History.problem` says so;
none of it is an error, and none of it delays a program repeatedly.
"""

from __future__ import annotations

import json
import math
import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gpuforge.dataclass import dataclass
from gpuforge.log import logger

if TYPE_CHECKING:
    import sqlite3

FILE = "history.sqlite3"
BUSY_SECONDS = 5.0
# After a failure the file is not used for this long: each attempt could wait `BUSY_SECONDS`.
PAUSE_SECONDS = 60.0
KEEP_SECONDS = 120 * 86400
MAX_ROWS = 50_000
RUNS_OF_A_BENCHMARK = 200
MAX_BENCHMARKS = 500
_SCHEMA = """
CREATE TABLE IF NOT EXISTS timing (
    machine TEXT NOT NULL, function TEXT NOT NULL, kind TEXT NOT NULL, signature TEXT NOT NULL,
    backend TEXT NOT NULL, size INTEGER NOT NULL, seconds TEXT NOT NULL, count INTEGER NOT NULL,
    updated REAL NOT NULL, PRIMARY KEY (machine, function, kind, signature, backend));
CREATE TABLE IF NOT EXISTS constant (
    machine TEXT NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL, updated REAL NOT NULL,
    PRIMARY KEY (machine, name));
CREATE TABLE IF NOT EXISTS benchmark (
    machine TEXT NOT NULL, name TEXT NOT NULL, started REAL NOT NULL, version TEXT NOT NULL,
    seconds REAL NOT NULL, PRIMARY KEY (machine, name, started));
CREATE TABLE IF NOT EXISTS sample (
    machine TEXT NOT NULL, seconds INTEGER NOT NULL, began INTEGER NOT NULL, value TEXT NOT NULL,
    PRIMARY KEY (machine, seconds, began));
"""
_TIMINGS = "SELECT function, kind, signature, backend, size, seconds, count FROM timing"
_MERGE = """
INSERT INTO timing VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET seconds = excluded.seconds, count = timing.count + excluded.count,
    updated = excluded.updated
"""
_NEWER = """
INSERT INTO timing VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET size = excluded.size, seconds = excluded.seconds,
    count = max(timing.count, excluded.count), updated = excluded.updated
    WHERE excluded.updated > timing.updated
"""
_NEWER_CONSTANT = """
INSERT INTO constant VALUES (?, ?, ?, ?)
ON CONFLICT DO UPDATE SET value = excluded.value, updated = excluded.updated
    WHERE excluded.updated > constant.updated
"""
_OLD_RUNS = """
DELETE FROM benchmark WHERE rowid IN (SELECT rowid FROM (SELECT rowid, row_number() OVER
    (PARTITION BY machine, name ORDER BY started DESC) AS place FROM benchmark) WHERE place > ?)
"""
_OLD_BENCHMARKS = """
DELETE FROM benchmark WHERE (machine, name) IN (SELECT machine, name FROM benchmark
    GROUP BY machine, name ORDER BY max(started) DESC LIMIT -1 OFFSET ?)
"""
_log = logger("history")


class Rows(NamedTuple):
    """Rows of a history as they are stored, to be merged into another one.

    Attributes
    ----------
    timings, constants : rows of the two tables, each with the fingerprint of its machine first
    """

    timings: list[tuple[Any, ...]]
    constants: list[tuple[Any, ...]]


@dataclass(frozen=True)
class Timing:
    """Samples of one signature on one backend.

    Attributes
    ----------
    function, kind, signature : digests that name the call
    backend : name and version of the backend
    size : elements of all arrays together
    seconds : the last samples, oldest first
    count : samples taken since the row was last written
    """

    function: str
    kind: str
    signature: str
    backend: str
    size: int
    seconds: tuple[float, ...]
    count: int


class BenchmarkRun(NamedTuple):
    """The median time of a benchmark in one run.

    Attributes
    ----------
    name : ``bench_ops.py::bench_sum``
    started : when the run began, seconds since the epoch
    version : of the code, as the run named it; may be empty
    seconds : of a call
    """

    name: str
    started: float
    version: str
    seconds: float


class History:
    """The learned timings, measured constants and benchmark runs of one machine.

    Parameters
    ----------
    folder
        Where the file is kept; None keeps nothing.
    machine
        Fingerprint of everything that timings depend on.
    """

    def __init__(self, folder: Path | None, machine: str) -> None:
        self.path = folder / FILE if folder else None
        self.machine = machine
        self.problem = ""
        self._paused_until = 0.0
        self._holding = threading.Lock()
        self._holder = 0
        self._held: sqlite3.Connection | None = None

    def timings(self, function: str) -> list[Timing]:
        """Return every timing of one function on this machine."""
        return timings_of(
            self._rows(f"{_TIMINGS} WHERE machine = ? AND function = ?", (self.machine, function))
        )

    def timing_rows(self) -> dict[str, list[tuple[Any, ...]]]:
        """Return the timings of all functions as they are stored, by function."""
        found: dict[str, list[tuple[Any, ...]]] = {}
        for row in self._rows(f"{_TIMINGS} WHERE machine = ?", (self.machine,)):
            found.setdefault(row[0], []).append(row)
        return found

    def functions(self) -> frozenset[str]:
        """Return the digests of the functions that have timings on this machine."""
        query = "SELECT DISTINCT function FROM timing WHERE machine = ?"
        return frozenset(name for (name,) in self._rows(query, (self.machine,)))

    def keep(self, timings: Iterable[Timing]) -> None:
        """Merge `timings` into the file; counts add up, the newest samples stay."""
        now = time.time()
        rows = [
            (self.machine, t.function, t.kind, t.signature, t.backend, t.size,
             json.dumps(t.seconds), t.count, now)
            for t in timings
        ]  # fmt: skip
        if rows:
            self._write([(_MERGE, row) for row in rows], prune=True)

    def constant(self, name: str) -> Any:
        """Return a measured constant of this machine, or None."""
        rows = self._rows(
            "SELECT value FROM constant WHERE machine = ? AND name = ?", (self.machine, name)
        )
        return self.parsed(name, rows[0][0]) if rows else None

    def constants(self, start: str) -> dict[str, Any]:
        """Return the constants of this machine whose names begin with `start`."""
        texts = self.constant_texts(start).items()
        return {
            name: value for name, text in texts if (value := self.parsed(name, text)) is not None
        }

    def constant_texts(self, start: str) -> dict[str, str]:
        """Return the constants as they are stored, for `parsed`."""
        query = "SELECT name, value FROM constant WHERE machine = ? AND substr(name, 1, ?) = ?"
        return dict(self._rows(query, (self.machine, len(start), start)))

    def parsed(self, name: str, text: str) -> Any:
        """Return the value of a stored constant, or None if it is unreadable."""
        try:
            return json.loads(text)
        except (ValueError, TypeError, RecursionError) as error:
            self._say(f"constant {name!r} is unreadable: {error}")
            return None

    def keep_constant(self, name: str, value: Any) -> None:
        """Keep a measured constant, replacing the old one."""
        self.keep_constants({name: value})

    def keep_constants(self, values: Mapping[str, Any]) -> None:
        """Store measured constants by name in one transaction: each one waits for the disk."""
        now, statement = time.time(), "INSERT OR REPLACE INTO constant VALUES (?, ?, ?, ?)"
        rows = [(self.machine, name, json.dumps(value), now) for name, value in values.items()]
        if rows:
            self._write([(statement, row) for row in rows])

    def keep_runs(self, runs: Iterable[BenchmarkRun]) -> None:
        """Store benchmark runs; the last `RUNS_OF_A_BENCHMARK` of each are kept."""
        statements: list[tuple[str, tuple[Any, ...]]] = [
            (
                "INSERT OR REPLACE INTO benchmark VALUES (?, ?, ?, ?, ?)",
                (self.machine, run.name, run.started, run.version, run.seconds),
            )
            for run in runs
        ]
        if statements:
            statements += [
                (_OLD_RUNS, (RUNS_OF_A_BENCHMARK,)),
                (_OLD_BENCHMARKS, (MAX_BENCHMARKS,)),
            ]
            self._write(statements)

    def runs(self, name: str | None = None) -> list[BenchmarkRun]:
        """Return the runs of one benchmark on this machine, or of all, the oldest first."""
        rows = self._rows(
            "SELECT name, started, version, seconds FROM benchmark"
            " WHERE machine = ? AND (? IS NULL OR name = ?) ORDER BY name, started",
            (self.machine, name, name),
        )
        kinds = (str, float, str, float)
        good = [row for row in rows if all(map(isinstance, row, kinds))]
        return [BenchmarkRun(*row) for row in good if 0 < row[3] < math.inf]

    def keep_samples(self, rows: Iterable[tuple[int, int, str]], most: Mapping[int, int]) -> None:
        """Store samples: (seconds of an interval, its start, a text).

        For each interval length, samples older than `most` of its intervals are dropped.
        """
        statements: list[tuple[str, tuple[Any, ...]]] = []
        for seconds, began, value in rows:
            row = (self.machine, seconds, began, value)
            statements.append(("INSERT OR IGNORE INTO sample VALUES (?, ?, ?, ?)", row))
            old = (self.machine, seconds, began - seconds * most[seconds])
            where = "machine = ? AND seconds = ? AND began <= ?"
            statements.append((f"DELETE FROM sample WHERE {where}", old))
        self._write(statements)

    def samples(self, seconds: int, since: float) -> list[tuple[Any, ...]]:
        """Return starts and texts of the intervals of one length, oldest first."""
        query = "SELECT began, value FROM sample WHERE machine = ? AND seconds = ? AND began >= ?"
        return self._rows(f"{query} ORDER BY began", (self.machine, seconds, since))

    def rows(self, *, since: float = 0.0, newest: int = -1, everywhere: bool = False) -> Rows:
        """Return rows to be merged into another history, the newest first.

        Parameters
        ----------
        since
            Only those written after this time, in seconds since the epoch.
        newest
            At most so many of each table; -1 for all.
        everywhere
            Also those of other machines.
        """
        values = (everywhere, self.machine, since, newest)
        chosen = "WHERE (? OR machine = ?) AND updated > ? ORDER BY updated DESC LIMIT ?"
        return Rows(
            self._rows(f"SELECT * FROM timing {chosen}", values),
            self._rows(f"SELECT * FROM constant {chosen}", values),
        )

    def merge(self, rows: Rows) -> None:
        """Merge rows of another history that are newer, each under its own machine; idempotent."""
        statements = [(_NEWER, row) for row in rows.timings]
        statements += [(_NEWER_CONSTANT, row) for row in rows.constants]
        if statements:
            self._write(statements, prune=True)

    @contextmanager
    def held_open(self) -> Iterator[None]:
        """Keep the file open, once this thread has opened it, for what it reads and writes inside.

        Closing it for the last time writes its log back, which takes 10 to 40 ms. Only one thread
        may do so at a time; others open the file for each operation.
        """
        if not self._holding.acquire(blocking=False):
            yield
            return
        self._holder = threading.get_ident()
        try:
            yield
        finally:
            self._holder = 0
            self._let_go()
            self._holding.release()

    def _let_go(self) -> None:
        if self._held is not None:
            self._held.close()
            self._held = None

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        if self._holder != threading.get_ident():
            with closing(self._open()) as connection:
                yield connection
            return
        if self._held is None:
            self._held = self._open()
        yield self._held

    def _rows(self, query: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        # Unlike pathlib's method, os.path does not raise for a folder without permission.
        if self.path is None or self._paused() or not os.path.exists(self.path):
            return []
        import sqlite3

        number = _number_of(self.path)
        try:
            with self._connected() as connection:
                return connection.execute(query, values).fetchall()
        except sqlite3.Error as error:
            self._recover(error, number)
            return []

    def _write(self, statements: list[tuple[str, tuple[Any, ...]]], *, prune: bool = False) -> None:
        if self.path is None or self._paused():
            return
        import sqlite3

        number = _number_of(self.path)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self._connected() as connection, connection:
                for statement, values in statements:
                    connection.execute(statement, values)
                if prune:
                    _prune(connection)
        except sqlite3.Error as error:
            self._recover(error, number)
        except OSError as error:
            where = error.filename or self.path.parent
            self._pause(f"timings are not stored: {where}: {error.strerror or error}")

    def _paused(self) -> bool:
        return time.monotonic() < self._paused_until

    def _pause(self, problem: str) -> None:
        self._paused_until = time.monotonic() + PAUSE_SECONDS
        self._say(problem)

    def _open(self) -> sqlite3.Connection:
        import sqlite3

        connection = sqlite3.connect(str(self.path), timeout=BUSY_SECONDS)
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
            connection.executescript(_SCHEMA)
        except BaseException:
            connection.close()
            raise
        return connection

    def _recover(self, error: Exception, number: int | None) -> None:
        """Set a broken file aside; leave one alone that is only busy, full or read-only.

        Parameters
        ----------
        number
            The file's inode before it was opened: another process may have replaced it since.
        """
        import sqlite3

        assert self.path is not None
        if self._holder == threading.get_ident():
            self._let_go()
        broken = "malformed" in str(error) or "not a database" in str(error)
        if not broken or isinstance(error, sqlite3.OperationalError):
            self._pause(f"timings are not stored: {self.path}: {error}")
            return
        aside = self.path.with_suffix(".broken")
        try:
            if _number_of(self.path) == number:
                self.path.replace(aside)
                for ending in ("-wal", "-shm"):  # or they would be applied to the new file
                    Path(f"{self.path}{ending}").unlink(missing_ok=True)
            self._say(
                f"{self.path} was damaged ({error}): "
                f"it was renamed to {aside.name}, and a new one is used"
            )
        except OSError as second:
            self._pause(f"{self.path} is damaged ({error}) and cannot be renamed: {second}")

    def _say(self, problem: str) -> None:
        if problem != self.problem:
            self.problem = problem
            _log.warning("%s", problem)


def _number_of(path: Path) -> int | None:
    """Return a file's inode number; None if it has none."""
    try:
        return path.stat().st_ino
    except OSError:
        return None


def timings_of(rows: Iterable[tuple[Any, ...]]) -> list[Timing]:
    """Return the timings in rows of the file, without those that are damaged."""
    found = []
    for name, kind, signature, backend, size, seconds, count in rows:
        samples = _samples(seconds)
        texts = all(isinstance(text, str) for text in (name, kind, signature, backend))
        counts = all(isinstance(number, int) and number >= 0 for number in (size, count))
        if samples and texts and counts:
            found.append(Timing(name, kind, signature, backend, size, samples, count))
    return found


def _samples(text: Any) -> tuple[float, ...]:
    """Return the samples of a row, empty if they are not a list of positive numbers."""
    try:
        values = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return ()
    good = isinstance(values, list) and all(
        isinstance(value, int | float) and 0 < value < math.inf for value in values
    )
    return tuple(map(float, values)) if good else ()


def _prune(connection: sqlite3.Connection) -> None:
    old = (time.time() - KEEP_SECONDS,)
    connection.execute("DELETE FROM timing WHERE updated < ?", old)
    # Constants of single functions and programs are pruned; those of the machine stay.
    connection.execute(
        "DELETE FROM constant WHERE updated < ? AND (name LIKE 'refused:%' OR name LIKE 'stays:%'"
        " OR name LIKE 'saved:%' OR name LIKE 'start:%' OR name LIKE 'changing:%'"
        " OR name LIKE 'recording:%')",
        old,
    )
    connection.execute(
        "DELETE FROM timing WHERE rowid IN (SELECT rowid FROM timing ORDER BY updated DESC"
        " LIMIT -1 OFFSET ?)",
        (MAX_ROWS,),
    )
