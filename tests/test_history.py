"""The store of learned timings: merged between processes, never trusted blindly, never fatal."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuforge import history as store
from gpuforge.history import FILE, BenchmarkRun, History, Timing

ROW = Timing("f", "k", "s", "numpy@2", 10, (1e-3, 2e-3), 2)


def test_what_is_kept_is_found_again(tmp_path: Path) -> None:
    History(tmp_path, "m").keep([ROW])
    assert History(tmp_path, "m").timings("f") == [ROW]


def test_counts_add_up_and_the_newest_samples_stay(tmp_path: Path) -> None:
    history = History(tmp_path, "m")
    history.keep([ROW])
    history.keep([Timing("f", "k", "s", "numpy@2", 10, (5e-3,), 3)])
    assert history.timings("f") == [Timing("f", "k", "s", "numpy@2", 10, (5e-3,), 5)]


def test_another_machine_sees_nothing(tmp_path: Path) -> None:
    History(tmp_path, "m").keep([ROW])
    History(tmp_path, "m").keep_constant("c", 1)
    assert History(tmp_path, "other").timings("f") == []
    assert History(tmp_path, "other").constant("c") is None


def test_no_folder_keeps_nothing() -> None:
    history = History(None, "m")
    history.keep([ROW])
    assert history.timings("f") == []
    assert history.problem == ""


@pytest.mark.parametrize("content", [b"", b"not a database at all, but long enough" * 40])
def test_a_broken_file_is_set_aside_and_begun_anew(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE).write_bytes(content)
    history = History(tmp_path, "m")
    assert history.timings("f") == []
    history.keep([ROW])
    assert history.timings("f") == [ROW]
    if content:
        assert "renamed" in history.problem
        assert (tmp_path / "history.broken").read_bytes() == content


def test_a_truncated_file_loses_nothing_else(tmp_path: Path) -> None:
    history = History(tmp_path, "m")
    history.keep([Timing("f", "k", str(i), "numpy@2", i, (1e-3,) * 9, 2) for i in range(500)])
    path = tmp_path / FILE
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    for leftover in ("-wal", "-shm"):
        Path(str(path) + leftover).unlink(missing_ok=True)
    again = History(tmp_path, "m")
    again.timings("f")
    again.keep([ROW])
    assert ROW in again.timings("f") or again.problem


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(st.one_of(st.text(), st.binary(), st.integers(), st.just("[1, -2]"), st.just("[]"),
                 st.just('["a"]'), st.just("{}"), st.just("NaN")))  # fmt: skip
def test_hostile_samples_are_passed_over(tmp_path: Path, value: Any) -> None:
    history = History(tmp_path, "m")
    history.keep([ROW])
    with sqlite3.connect(tmp_path / FILE) as connection:
        value = value.replace("\x00", "") if isinstance(value, str) else value
        value = value % 2**31 if isinstance(value, int) else value
        connection.execute("UPDATE timing SET seconds = ?", (value,))
    connection.close()
    assert all(s > 0 for t in history.timings("f") for s in t.seconds)


def test_a_folder_that_cannot_be_made_is_said_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    history = History(tmp_path / "file" / "below", "m")
    history.keep([ROW])
    assert "not stored" in history.problem
    assert history.timings("f") == []


@pytest.mark.skipif(sys.platform != "linux", reason="limits file sizes as Linux does")
def test_a_full_disk_is_said_and_survived(tmp_path: Path) -> None:
    code = f"""
        import resource, signal
        from pathlib import Path
        from gpuforge.history import History, Timing
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000))
        history = History(Path({str(tmp_path)!r}), "m")
        history.keep([Timing("f", "k", str(i), "b", 1, (1e-3,) * 9, 1) for i in range(3000)])
        print(history.problem)
    """
    done = run(code)
    assert "not stored" in done


def test_twenty_processes_write_at_once(tmp_path: Path) -> None:
    code = f"""
        import sys
        from pathlib import Path
        from gpuforge.history import History, Timing
        history = History(Path({str(tmp_path)!r}), "m")
        for step in range(5):
            history.keep([Timing("f", "k", str(i), "b", 1, (1e-3,), 1) for i in range(20)])
        print(history.problem)
    """
    processes = [
        subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE)
        for _ in range(20)
    ]
    assert [p.communicate()[0] for p in processes] == [b"\n"] * 20
    assert {t.count for t in History(tmp_path, "m").timings("f")} == {100}


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="needs to become a user")
def test_a_read_only_folder_is_said_and_survived(tmp_path: Path) -> None:
    History(tmp_path, "m").keep([ROW])
    for path in (tmp_path, tmp_path / FILE):
        path.chmod(0o555 if path.is_dir() else 0o444)
    parent = tmp_path
    while parent != parent.parent:
        parent.chmod(parent.stat().st_mode | 0o055)
        parent = parent.parent
    history = History(tmp_path, "m")
    os.seteuid(65534)
    try:
        history.keep([ROW])
    finally:
        os.seteuid(0)
    assert "not stored" in history.problem


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True,
                          text=True, check=True, timeout=60)  # fmt: skip
    return done.stdout


def test_constants_are_found_by_how_their_names_begin(tmp_path: Path) -> None:
    history = History(tmp_path, "m")
    for name in ("refused:a:1", "refused:a:2", "refused:ab", "Refused:a:3", "refused_a:4"):
        history.keep_constant(name, name.upper())
    found = history.constants("refused:a:")
    assert found == {"refused:a:1": "REFUSED:A:1", "refused:a:2": "REFUSED:A:2"}
    assert History(tmp_path, "other").constants("refused:a:") == {}


def run_of(name: str, number: int) -> BenchmarkRun:
    return BenchmarkRun(name, float(number), f"v{number}", 1e-3 * (number + 1))


def test_runs_of_benchmarks_are_found_again_the_oldest_first(tmp_path: Path) -> None:
    history = History(tmp_path, "m")
    history.keep_runs([run_of("b", 1), run_of("a", 3), run_of("a", 2)])
    history.keep_runs([run_of("a", 2)])
    assert history.runs() == [run_of("a", 2), run_of("a", 3), run_of("b", 1)]
    assert history.runs("b") == [run_of("b", 1)]
    assert History(tmp_path, "other").runs() == [] and history.problem == ""


def test_a_file_of_an_earlier_release_gets_the_table_and_keeps_its_rows(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / FILE) as connection:
        connection.executescript(
            """
            CREATE TABLE timing (
                machine TEXT NOT NULL, function TEXT NOT NULL, kind TEXT NOT NULL,
                signature TEXT NOT NULL, backend TEXT NOT NULL, size INTEGER NOT NULL,
                seconds TEXT NOT NULL, count INTEGER NOT NULL, updated REAL NOT NULL,
                PRIMARY KEY (machine, function, kind, signature, backend));
            CREATE TABLE constant (
                machine TEXT NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL,
                updated REAL NOT NULL, PRIMARY KEY (machine, name));
            INSERT INTO timing VALUES ('m', 'f', 'k', 's', 'numpy@2', 10, '[0.001]', 2, 2e9);
            INSERT INTO constant VALUES ('m', 'c', '7', 2e9);
            """
        )
    connection.close()
    history = History(tmp_path, "m")
    assert history.runs() == []
    history.keep_runs([run_of("a", 1)])
    assert history.runs() == [run_of("a", 1)]
    assert history.constant("c") == 7 and len(history.timings("f")) == 1


def test_the_oldest_runs_and_benchmarks_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "RUNS_OF_A_BENCHMARK", 3)
    monkeypatch.setattr(store, "MAX_BENCHMARKS", 2)
    history = History(tmp_path, "m")
    history.keep_runs(run_of(name, number) for name in "abc" for number in range(ord(name) - 94))
    assert [run.name + run.version for run in history.runs()] == [
        "bv1", "bv2", "bv3", "cv2", "cv3", "cv4"
    ]  # fmt: skip


@pytest.mark.parametrize("value", ["'text'", "-1.0", "0", "9e999", "x'00'"])
def test_hostile_runs_are_passed_over(tmp_path: Path, value: str) -> None:
    history = History(tmp_path, "m")
    history.keep_runs([run_of("a", 1), run_of("b", 1)])
    with sqlite3.connect(tmp_path / FILE) as connection:
        connection.execute(f"UPDATE benchmark SET seconds = {value} WHERE name = 'a'")
    connection.close()
    assert history.runs() == [run_of("b", 1)]


def test_a_file_that_is_held_open_is_opened_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[sqlite3.Connection] = []
    connect = sqlite3.connect

    def counted(*args: Any, **kwargs: Any) -> sqlite3.Connection:
        opened.append(connect(*args, **kwargs))
        return opened[-1]

    monkeypatch.setattr(sqlite3, "connect", counted)
    kept = History(tmp_path, "here")
    with kept.held_open():
        assert not opened  # nothing is made for a program that keeps nothing
        for number in range(3):
            kept.keep_constant(f"number:{number}", number)
        assert kept.constants("number:") == {f"number:{n}": n for n in range(3)}
    assert len(opened) == 1
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        opened[0].execute("SELECT 1")


def test_a_file_that_breaks_while_it_is_held_open_is_begun_anew(tmp_path: Path) -> None:
    kept = History(tmp_path, "here")
    kept.keep_constant("old", 1)
    (tmp_path / FILE).write_bytes(b"no database at all" * 300)
    with kept.held_open():
        kept.keep_constant("lost", 1)
        kept.keep_constant("new", 2)
        assert kept.constants("") == {"new": 2}
    assert "set aside" in kept.problem or "damaged" in kept.problem


def test_one_thread_holds_a_file_open_and_others_write_beside_it(tmp_path: Path) -> None:
    kept = History(tmp_path, "here")

    def beside() -> None:
        with kept.held_open():
            kept.keep_constant("beside", 2)

    with kept.held_open():
        kept.keep_constant("held", 1)
        thread = threading.Thread(target=beside)
        thread.start()
        thread.join()
        kept.keep_constant("after", 3)
    assert kept.constants("") == {"held": 1, "beside": 2, "after": 3}
    assert not kept.problem
