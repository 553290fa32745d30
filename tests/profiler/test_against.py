"""``gpuforge bench``: in this process, and the working tree beside a ref in other processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import textwrap
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gpuforge.cli.main import main
from gpuforge.errors import UnknownName, WorkerDied, WorkloadError
from gpuforge.profiler.bench import process
from gpuforge.profiler.bench.against import compare_with, side_environment
from gpuforge.profiler.bench.process import Worker
from gpuforge.profiler.bench.repository import checked_out, git

BENCH = """
    import ops

    def bench_total():
        ops.total()

    def bench_name():
        ops.name()
"""
OPS = """
    def total():
        return sum(n * n for n in range(STEPS))

    def name():
        return "-".join(map(str, range(200)))
"""


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(text))


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose tag ``v1`` does a third of the work that its working tree does."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    write(folder, bench_ops=BENCH, ops=OPS.replace("STEPS", "300"))
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    who = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.org")
    git(folder, *who, "commit", "--quiet", "--message", "first")
    git(folder, "tag", "v1")
    write(folder, ops=OPS.replace("STEPS", "1000"))
    return folder


def bench(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any, str]:
    status = main(["bench", *arguments, "--json"])
    streams = capsys.readouterr()
    return status, json.loads(streams.out) if streams.out else None, streams.err


def test_a_regression_is_proven(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    only = "bench_ops.py::bench_total"
    status, found, err = bench(capsys, only, "--against", "v1", "--time-limit", "2min")
    (total,) = found["benchmarks"]
    assert status == 1 and found["regressions"] == ["bench_total"]
    assert total["verdict"] == "slower" and total["interval"][0] > 1 and total["rounds"] >= 10
    assert found["commit"] == git(repository, "rev-parse", "v1")
    assert "slower by 3 % or more: bench_total" in err
    assert len(git(repository, "worktree", "list").splitlines()) == 1


def test_little_time_is_inconclusive(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, found, err = bench(capsys, "--against", "v1", "--time-limit", "0.1s")
    assert status == 3 and {row["verdict"] for row in found["benchmarks"]} == {"inconclusive"}
    assert "of the 10 rounds that are needed" in found["benchmarks"][0]["reason"]
    assert "--time-limit" in err


def test_a_function_that_the_base_has_not_is_not_compared(repository: Path) -> None:
    write(repository, ops=OPS.replace("STEPS", "300") + "\n    def new(): pass\n")
    write(repository, bench_ops=BENCH + "\n    def bench_new(): ops.new()\n")
    found = compare_with("v1", repository / "bench_ops.py", "bench_new", seconds=1)
    one = found.benchmarks["bench_new"]
    assert one.comparison is None and not one.failed_here
    assert one.problem == "on the base: AttributeError: module 'ops' has no attribute 'new'"


def test_a_failure_on_the_working_tree_is_wrong_input(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(repository, ops="def total():\n    raise OSError('no disk')\ndef name():\n    pass")
    status, found, err = bench(capsys, "--against", "v1", "--time-limit", "1s")
    assert status == 2 and "failed in the working tree: bench_total" in err
    assert found["benchmarks"][0]["reason"] == "on the working tree: OSError: no disk"


def test_a_base_that_does_not_load_the_file_is_inconclusive(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(repository, more="def work():\n    pass", bench_ops="import more\ndef bench_a(): pass")
    status, found, _ = bench(capsys, "--against", "v1")
    assert status == 3
    reason = "on the base: ModuleNotFoundError: No module named 'more'"
    assert [row["reason"] for row in found["benchmarks"]] == [reason]


def test_a_base_that_imports_the_working_tree_is_refused(repository: Path) -> None:
    path = f"import sys; sys.path.insert(0, {str(repository)!r})"
    write(repository, bench_ops=f"{path}\nimport ops\ndef bench_a(): pass")
    with pytest.raises(WorkloadError, match=r"the base imports ops\.py of the working tree"):
        compare_with("v1", repository / "bench_ops.py", seconds=1)
    assert len(git(repository, "worktree", "list").splitlines()) == 1


def test_refs_and_functions_that_are_not_there(repository: Path, tmp_path: Path) -> None:
    path = repository / "bench_ops.py"
    with pytest.raises(UnknownName) as unknown:
        compare_with("v2", path, seconds=1)
    assert str(unknown.value) == "unknown git ref 'v2'" and unknown.value.hint
    with pytest.raises(UnknownName, match="unknown git ref '--all'"):
        compare_with("--all", path, seconds=1)
    with pytest.raises(UnknownName, match=r"unknown benchmark in bench_ops\.py 'bench_tota'"):
        compare_with("v1", path, "bench_tota", seconds=1)
    write(tmp_path, bench_alone="def bench_a(): pass")
    with pytest.raises(WorkloadError, match=r"'git rev-parse' failed in .*not a git repository"):
        compare_with("v1", tmp_path / "bench_alone.py", seconds=1)


def test_a_checked_out_tree_goes_whatever_happens(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", repository.resolve().anchor + "tmp")
    with pytest.raises(KeyboardInterrupt), checked_out(repository, "v1") as (_, tree):
        assert "range(300)" in (tree / "ops.py").read_text()
        assert len(tree.parts) == len(repository.resolve().parts)
        raise KeyboardInterrupt
    assert not tree.exists() and len(git(repository, "worktree", "list").splitlines()) == 1


def test_the_path_of_a_side_leads_to_its_own_tree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, base = tmp_path / "here", tmp_path / "base"
    environment = here / ".venv"
    monkeypatch.setattr(sys, "prefix", str(environment))
    monkeypatch.setattr(sys, "path", [str(here / "python"), str(environment / "lib"), "/other"])
    given = {"PYTHONPATH": os.pathsep.join([str(here / "python"), "/kept"]), "A": "b"}
    found = side_environment(base, here, here / "benchmarks", given)
    names = ["benchmarks", "src", "", "python"]
    expected = [*(str(base / name) for name in names), "/kept"]
    assert found == {"A": "b", "PYTHONPATH": os.pathsep.join(expected)}


def worker(folder: Path, text: str) -> Worker:
    write(folder, bench_it=text)
    return Worker(folder / "bench_it.py", os.environ, folder, label="base")


def test_a_process_that_dies_is_said(tmp_path: Path) -> None:
    with closing(worker(tmp_path, "import os\ndef bench_a(): os._exit(7)")) as found:
        with pytest.raises(WorkerDied, match=r"on the base: the process .* ended with status 7"):
            found.warm_up("bench_a")
        with pytest.raises(WorkerDied):
            found.block("bench_a", 1, 1)


@pytest.mark.skipif(os.name != "posix", reason="ends a group of processes")
def test_a_process_that_hangs_is_ended_with_what_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging = f"""
        import subprocess, threading
        def bench_a():
            subprocess.Popen([{sys.executable!r}, "-c", "import time; time.sleep(600)"])
            threading.Event().wait()
    """
    with closing(worker(tmp_path, hanging)) as found:
        monkeypatch.setattr(process, "ANSWER_SECONDS", 2.0)
        with pytest.raises(WorkerDied, match="did not answer within 2 s"):
            found.warm_up("bench_a")


def test_what_a_benchmark_prints_and_raises_does_not_disturb_the_answers(tmp_path: Path) -> None:
    text = """
        import os, sys
        print("loading")
        def bench_a():
            print("hello"); os.write(1, b"raw")
        def bench_b():
            sys.exit("enough")
    """
    with closing(worker(tmp_path, text)) as found:
        assert found.names == ["bench_a", "bench_b"]
        plan = found.warm_up("bench_a", plan=True)
        assert plan["loops"] >= 1 and len(found.block("bench_a", 2, 3)) == 3
        with pytest.raises(WorkloadError, match="on the base: SystemExit: enough"):
            found.warm_up("bench_b")


def test_measuring_here(
    repository: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    saved = tmp_path / "saved.json"
    status, found, err = bench(capsys, "--save", str(saved), "--time-limit", "0.5s")
    assert status == 0 and err == ""
    first = found["benchmarks"][0]
    assert first["name"] == "project/bench_ops.py::bench_total"
    low, high = first["interval"]
    assert (low is None) == ("interval" in first["unknown"])  # few blocks, on a busy machine
    assert low is None or low <= first["seconds"] <= high
    assert found["version"].startswith("v1") and found["conditions"]["python"]
    nulls = {f"conditions.{name}" for name, v in found["conditions"].items() if v is None}
    assert nulls == set(found["unknown"])
    assert main(["bench", "--history"]) == 0
    assert "project/bench_ops.py::bench_total: 1 run, last " in capsys.readouterr().out
    assert main(["diff", str(saved), str(saved)]) == 3
    streams = capsys.readouterr()
    assert "0 runs in the history, 5 are needed" in streams.out and "inconclusive" in streams.err


@pytest.mark.parametrize("limit", ["0.5s", "1ms"])
def test_measuring_what_fails_and_what_may_still_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], limit: str
) -> None:
    """One block of each that works is measured, also after a new process."""
    text = """
        class Later:
            def block_until_ready(self): pass
        def bench_later(): print("printed"); return Later()
        def bench_wrong(): raise ValueError("no")
        def bench_two(a, b): pass
        def bench_lines(): raise ValueError("one\\nline")
        def bench_leaves(): __import__("os")._exit(3)
        async def bench_async(): pass
    """
    write(tmp_path, bench_odd=text)
    status, found, err = bench(capsys, str(tmp_path / "bench_odd.py"), "--time-limit", limit)
    assert status == 2 and [row["name"].rpartition(":")[2] for row in found["benchmarks"]] == [
        "bench_later"
    ]
    assert "wait for it in the function" in found["benchmarks"][0]["notes"][0]
    assert found["failed"]["bench_wrong"] == "ValueError: no"
    assert found["failed"]["bench_lines"] == "ValueError: one line"
    ended = "the process that times the benchmarks ended with status 3"
    assert found["failed"]["bench_leaves"] == ended
    assert "missing a required argument: 'a'" in found["failed"]["bench_two"]
    assert "failed: bench_async" in err


@pytest.mark.parametrize(
    ("text", "status", "message"),
    [
        ("x = 1", 3, "nothing to measure"),
        ("1 / 0", 2, "ZeroDivisionError"),
        ("(", 2, "SyntaxError"),
    ],
)
def test_files_that_measure_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, status: int, message: str
) -> None:
    write(tmp_path, bench_none=text)
    assert main(["bench", str(tmp_path / "bench_none.py")]) == status
    assert message in capsys.readouterr().err


def test_a_comparison_runs_as_a_program(repository: Path) -> None:
    command = [sys.executable, "-m", "gpuforge", "bench", "bench_ops.py::bench_total"]
    done = subprocess.run(
        [*command, "--against", "v1", "--time-limit", "1s"], capture_output=True, text=True
    )
    assert done.returncode in (1, 3) and done.stdout.startswith("change since v1 (")
