"""``gpuforge report``: what it prints and writes, and what it says of what it cannot."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuforge.cli.commands import report
from gpuforge.cli.main import main
from gpuforge.profiler import formats
from gpuforge.profiler.model import Lane
from gpuforge.profiler.session_file import Writer, read
from gpuforge.trace import Span

MS = 1_000_000
REPORT = [sys.executable, "-m", "gpuforge", "report"]
HEADER = {"program": ["python", "heat.py"], "started": 1_700_000_000.0, "gpuforge": "0.1",
          "python": "3.12.1", "platform": "Linux"}  # fmt: skip
TEXT = """\
50 ms: host 32 %, wait 0 %, transfer 48 %, overhead 0 %, unexplained 20 %
python heat.py; {day}; gpuforge 0.1; Python 3.12.1; Linux
8 spans; recording them took about 20 µs (0.0 %)
31.2 KiB moved; devices busy for 0 ns

Steps that took the most time. Times exclude the steps inside a step.
step         time  of wall  mostly    spans  written in
step > put  24 ms   48.0 %  transfer      4
step        16 ms   32.0 %  host          4
"""


def steps(count: int) -> list[Span]:
    """Steps of 10 ms, each with a transfer of 6 ms inside."""
    found: list[Span] = []
    for step in range(count):
        at, number = step * 10 * MS, 2 * step + 1
        found.append(Span("put", 2, number + 1, number, at + MS, at + 7 * MS, 7, 8000,
                      {"direction": "to device", "backend": "torch"}))  # fmt: skip
        found.append(Span("step", 0, number, 0, at, at + 10 * MS, 7, 0, None))
    return found


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An own folder with the session files of a program that ended well and one that crashed."""
    monkeypatch.chdir(tmp_path)
    before = set(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else set()
    with open("run.gfp", "wb") as file:
        writer = Writer(file, HEADER, 0)
        writer.write(steps(4), lanes={7: Lane("MainThread", "thread", 1)})
        writer.close(50 * MS, MS // 50, {}, [])
    with open("crashed.gfp", "wb") as file:
        Writer(file, HEADER, 0).write(
            steps(2),
            [Span("main", 0, 9, 0, 0, 0, 7, 0, None)],
            lanes={7: Lane("MainThread", "thread", 1)},
        )
    yield tmp_path
    after = set(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else set()
    assert len(after) <= len(before)
    assert not list(tmp_path.rglob("*.part"))


def test_the_text_is_printed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from datetime import datetime

    assert main(["report", "run.gfp"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith(TEXT.format(day=f"{datetime.fromtimestamp(1.7e9):%Y-%m-%d %H:%M}"))
    assert err == ""


@pytest.mark.parametrize("name", formats.names())
def test_every_format_is_printed_and_written(
    name: str, folder: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["report", "run.gfp", "--format", name, "-o", "-"]) == 0
    out, err = capfdbinary.readouterr()
    assert err == b""
    end = formats.module(name).SUFFIX
    assert main(["report", "run.gfp", "-o", f"a{end}"]) == 0
    assert Path(f"a{end}").read_bytes().rstrip() == out.rstrip()
    assert capfdbinary.readouterr() == (b"", f"wrote a{end}\n".encode())


def test_the_analysis_is_dated_and_written_to_its_folder(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = "docs/analysis/heat-2023-11-14.md"
    for path in (first, first.replace(".md", "-2.md"), first.replace(".md", "-3.md")):
        assert main(["report", "run.gfp", "--format", "markdown"]) == 0
        assert capsys.readouterr() == ("", f"wrote {path}\n")
        Path(path).write_text("my own notes")
    assert Path(first).read_text() == "my own notes"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--format", "speedscop"], "error: unknown format 'speedscop'\n"
                                    "hint: did you mean 'speedscope'?\n"),
        (["-o", "folder"], "error: 'folder' is a folder\nhint: name a file in it with -o\n"),
        (["-o", "x.xyz"], "error: gpuforge report: no format uses the suffix '.xyz'\n"
                          "hint: name the format with --format; 'gpuforge report --help' lists "
                          "them\n"),
        (["-o", "no/run.json"], "error: 'no/run.json' cannot be written: No such file or "
                                "directory\nhint: name another file\n"),
        (["-o", "mine.md"], "error: 'mine.md' already exists and may have been edited; "
                            "it was not overwritten\nhint: choose another file with -o\n"),
        (["-o", "run.gfp", "--format", "json"],
         "error: 'run.gfp' is a session file; it was not overwritten with a report\n"
         "hint: name another file\n"),
    ],
)  # fmt: skip
def test_what_cannot_be_written_is_said(
    arguments: list[str], said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("folder").mkdir()
    Path("mine.md").write_text("my own notes")
    assert main(["report", "run.gfp", *arguments]) == 2
    assert capsys.readouterr() == ("", said)
    assert Path("mine.md").read_text() == "my own notes"
    assert read("run.gfp").complete


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("no.gfp", "error: 'no.gfp' cannot be read: No such file or directory\n"
                   "hint: check the path\n"),
        ("folder", "error: 'folder' cannot be read: Is a directory\nhint: check the path\n"),
        ("text.gfp", "error: 'text.gfp' is not a session file, or its beginning is lost\n"
                     "hint: record one with 'gpuforge run --save FILE SCRIPT'\n"),
        ("empty.gfp", "error: 'empty.gfp' is not a session file, or its beginning is lost\n"
                      "hint: record one with 'gpuforge run --save FILE SCRIPT'\n"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_said(
    file: str, said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("folder").mkdir()
    Path("text.gfp").write_text("import numpy\n")
    Path("empty.gfp").touch()
    assert main(["report", file]) == 2
    assert capsys.readouterr() == ("", said)


@pytest.mark.parametrize("name", formats.names())
def test_a_crash_of_the_program_is_said(
    name: str, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "crashed.gfp", "--format", name, "-o", "-"]) == 0
    out, err = capfd.readouterr()
    said = "note: the recording ended early; what was written before that is shown\n"
    assert err == ("" if name == "text" else said)
    if name == "text":
        assert ("incomplete: the recording ended early; what was written before is shown") in out


def test_a_damaged_file_is_reported_up_to_the_damage(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = Path("run.gfp").read_bytes()
    for place in range(0, len(whole), 7):
        flipped = whole[:place] + bytes([whole[place] ^ 0x40]) + whole[place + 1 :]
        for damaged in (flipped, whole[:place]):
            Path("damaged.gfp").write_bytes(damaged)
            status = main(["report", "damaged.gfp"])
            out, err = capsys.readouterr()
            assert (status, err == "") in ((0, True), (2, False), (3, False)), err
        assert status == 2 or "incomplete" in out


def test_a_recording_without_spans_ends_with_a_status_of_its_own(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open("nothing.gfp", "wb") as file:
        Writer(file, HEADER, 0).close(50 * MS, 0, {}, [])
    assert main(["report", "nothing.gfp"]) == 3
    out, err = capsys.readouterr()
    assert "python heat.py" in out and err == "nothing was recorded: 'nothing.gfp' has no spans\n"


@pytest.mark.skipif(sys.platform != "linux", reason="limits the size of a file as Linux does")
def test_a_full_disk_leaves_no_analysis(folder: Path) -> None:
    # -B: Python would cut off the compiled files that it writes, and other tests would read them.
    program = """
import resource, signal, sys
from gpuforge.cli.main import main
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
sys.exit(main(["report", "run.gfp", "-o", "new.md"]))
"""
    done = subprocess.run([sys.executable, "-B", "-c", program], capture_output=True, text=True)
    assert done.returncode == 2 and "'new.md' cannot be written: File too large" in done.stderr
    assert not Path("new.md").exists()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_a_full_disk_behind_stdout_is_said(folder: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([*REPORT, "run.gfp"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert done.stderr == (
        "error: the output cannot be written to stdout: No space left on device\n"
        "hint: check where stdout is redirected to, and whether that disk is full\n"
    )


def test_what_is_left_out_is_said(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats.module("chrome-trace"), "MOST_SPANS", 3)
    assert main(["report", "run.gfp", "--format", "chrome-trace"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["gpuforge"]["left_out"] == 5
    assert (
        err == "note: only the 3 longest of 8 spans are written, with the spans that contain them\n"
    )


def test_a_file_is_replaced_as_a_whole(folder: Path) -> None:
    Path("run.json").write_text("x" * 10**6)
    assert main(["report", "run.gfp", "-o", "run.json"]) == 0
    assert json.loads(Path("run.json").read_text())["schema_version"] == 1


def test_output_into_a_device_or_a_pipe(folder: Path) -> None:
    done = subprocess.run(
        ["bash", "-c", 'exec "$@" -o >(cat >copy)', "-", *REPORT, "run.gfp", "--format", "json"],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert main(["report", "run.gfp", "-o", os.devnull]) == 0


def test_a_reader_that_leaves_early_is_no_error(folder: Path) -> None:
    with open("long.gfp", "wb") as file:
        writer = Writer(file, HEADER, 0)
        writer.write(steps(4000), lanes={7: Lane("MainThread")})
        writer.close(50 * MS, 0, {}, [])
    code = f"""
        {" ".join(REPORT)} long.gfp --json | head -c 1
        echo " ${{PIPESTATUS[0]}}"
    """
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("{ 0\n", "")


def test_the_help_lists_every_format(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["report", "--help"])
    shown = capsys.readouterr().out
    for name in formats.names():
        assert f"  {name}  " in shown.replace(" " * 2, "  ")
        assert formats.module(name).SUMMARY in shown


@pytest.mark.parametrize(
    ("output", "name"),
    [(None, "text"), ("-", "text"), ("a.json", "json"), ("a.trace.json", "chrome-trace"),
     ("a.md", "markdown"), ("a", "text"), ("x.speedscope.json", "speedscope")],
)  # fmt: skip
def test_the_end_of_the_name_says_the_format(output: str | None, name: str) -> None:
    assert report._by_suffix(output) == name
