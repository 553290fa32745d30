"""What commands print where the terminal, the installation or the folder is not as usual."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuforge.cli import render
from gpuforge.cli.main import main


@contextlib.contextmanager
def ascii_streams() -> Iterator[io.BytesIO]:
    """Let stdout and stderr be ASCII; yield what is printed."""
    found = io.BytesIO()
    stream = io.TextIOWrapper(found, encoding="ascii", write_through=True)
    with contextlib.redirect_stdout(stream), contextlib.redirect_stderr(stream):
        yield found


def test_what_stdout_cannot_encode_is_spelt() -> None:
    with ascii_streams() as found:
        render.data("5 µs → 6 µs, 3× … 語")
        render.message("70 °C")
        assert found.getvalue().split(b"\n") == [
            b"5 us -> 6 us, 3x ... \\u8a9e",
            b"70 deg C",
            b"",
        ]


def test_json_is_json_in_every_encoding() -> None:
    with ascii_streams() as found:
        render.document({"name": "→ 語 \udcff"})
        assert json.loads(found.getvalue())["name"] == "→ 語 \udcff"


def test_a_file_of_a_format_is_utf8_on_stdout_as_well() -> None:
    with ascii_streams() as found:
        render.data("→", utf8=True)
        assert found.getvalue() == "→\n".encode()


def test_help_knows_the_commands_and_the_flags_without_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["help"]) == 0
    text = capsys.readouterr().out
    assert all(flag in text for flag in ("--cpu-only", "--diagnose", "--profile", "--version"))
    with pytest.raises(SystemExit) as ended:
        main(["help", "detect"])
    assert ended.value.code == 0
    assert "--snapshot" in capsys.readouterr().out
    assert main(["help", "detct"]) == 2


def without_packaging(*arguments: str) -> subprocess.CompletedProcess[str]:
    code = (
        "import sys; sys.modules['packaging'] = None; from gpuforge.cli.main import main;"
        "sys.exit(main(sys.argv[1:]))"
    )
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60
    )


def test_a_package_that_is_missing_is_named() -> None:
    done = without_packaging("env", "list")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "error: gpuforge needs the package packaging, which is not installed\n"
        "hint: run 'python -m pip install packaging'\n"
    )
    done = without_packaging("--cpu-only")
    assert (done.returncode, done.stderr) == (0, "")
    assert "CPU: " in done.stdout and "packaging" in done.stdout


def test_a_program_beside_a_gpuforge_py_gets_its_summary(tmp_path: Path) -> None:
    (tmp_path / "gpuforge.py").write_text("raise SystemExit('not this one')\n")
    (tmp_path / "program.py").write_text("print('done')\n")
    done = subprocess.run(
        [sys.executable, "-m", "gpuforge", "run", str(tmp_path / "program.py")],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert "no offloaded functions were called" in done.stderr and "Traceback" not in done.stderr


def test_a_plan_is_written_and_shown_as_json(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "requirements.txt"
    wanted = ["--cpu-only", "--profile", "lightweight", "--framework", "pytorch"]
    assert main(["env", "export", *wanted, "--json", "-o", str(file)]) == 0
    assert json.loads(capsys.readouterr().out)["text"] == file.read_text(encoding="utf-8")


def test_an_empty_folder_is_not_a_recorded_machine(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["detect", "--snapshot", str(tmp_path)]) == 2
    assert "is not a recorded machine: it is empty" in capsys.readouterr().err


def test_a_file_that_is_not_python_is_no_benchmark(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").touch()
    assert main(["bench", str(tmp_path / "notes.txt")]) == 2
    assert "is not a Python file" in capsys.readouterr().err


def test_the_list_of_commands_fits_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        ("--nope", "gpuforge: unrecognized arguments: --nope", "see 'gpuforge --help'"),
        ("env plan --framewrok jax", "gpuforge env plan: unrecognized", "'--framework'?"),
        ("env verify folder", "gpuforge env verify: unrecognized", "see 'gpuforge env verify"),
        ("config show --orign", "gpuforge config show: unrecognized", "'--origin'?"),
        ("config get zzz", "unknown setting 'zzz'", "list them with 'gpuforge config show'"),
        ("doctor zzz", "unknown check 'zzz'", "list them with 'gpuforge doctor --list'"),
        ("doctor --yes", "--yes needs --fix or --undo", "add --fix"),
        ("bench .", "'.' is a folder", "name a Python file"),
        ("serve --port x", "--port: not a whole number: 'x'", "see 'gpuforge serve --help'"),
    ],
)
def test_wrong_usage_is_answered_by_the_command_that_was_meant(
    arguments: str, message: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments.split()) == 2
    found = capsys.readouterr()
    assert message in found.err and hint in found.err and not found.out


@pytest.mark.parametrize("command", ["bench {0}/bench_x.py --save", "run --save"])
def test_a_result_that_cannot_be_written_is_refused_before_the_work(
    command: str,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = tmp_path / "bench_x.py"
    program.write_text("print('worked')")
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)  # also for root
    monkeypatch.setattr(
        "gpuforge.cli.commands.run.replace_this_process", lambda *_: pytest.fail("it was run")
    )
    for target in (tmp_path, tmp_path / "result", tmp_path / "none" / "result"):
        words = [*command.format(tmp_path).split(), str(target)]
        assert main([*words, str(program)] if words[0] == "run" else words) == 2
        found = capfd.readouterr()
        assert f"{str(target)!r} cannot be written" in found.err and not found.out
