"""``gpuforge explain`` as a user meets it."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest

from gpuforge.cli.diagnosis_text import render_short
from gpuforge.cli.main import main
from gpuforge.diagnose import explain

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"


def ask(monkeypatch: pytest.MonkeyPatch, content: bytes, *arguments: str) -> int:
    stdin = io.TextIOWrapper(io.BytesIO(content))
    monkeypatch.setattr("sys.stdin", stdin)
    return main(["explain", *arguments])


def test_log_on_stdin_is_explained(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(monkeypatch, OOM.encode(), "-", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    match = document["matches"][0]
    assert set(match) == {
        "cause", "confidence", "severity", "title", "evidence", "steps", "safe_fix"
    }  # fmt: skip
    assert match["cause"] == "gpu_out_of_memory"
    assert match["evidence"][0] == {"line": 1, "text": OOM.strip()}


def test_log_in_a_file_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "train.log"
    path.write_bytes(("\ufeff" + OOM).encode("utf-16-le"))
    assert main(["explain", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "gpu_out_of_memory" in shown
    assert "line 1:" in shown
    assert "What to do:" in shown


@pytest.mark.parametrize("content", [b"", b"KeyError: 'x'", b"\x00\xff\xfe\xfd" * 999])
def test_text_without_a_cause_is_status_3_and_an_empty_list(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], content: bytes
) -> None:
    assert ask(monkeypatch, content, "--json") == 3
    assert json.loads(capsys.readouterr().out)["matches"] == []


def test_pasted_text_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", OOM.strip()]) == 0
    assert "gpu_out_of_memory" in capsys.readouterr().out
    assert main(["explain", "step 1 of 10\n" * 999]) == 3
    assert "999 lines read" in capsys.readouterr().out


def test_empty_text_is_called_empty(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", "  "]) == 2
    assert "the text is empty" in capsys.readouterr().err
    assert ask(monkeypatch, b" \n", "-") == 3
    assert "empty" in capsys.readouterr().out


def test_explanation_prints_as_text() -> None:
    shown = str(explain("ImportError: libcuda.so.1: cannot open shared object file on WSL2"))
    assert "wsl_gpu_not_exposed" in shown
    assert "What to do:" in shown
    assert "object at 0x" not in shown


def test_hostile_text_is_shown_without_what_a_terminal_obeys(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile = (
        b"\x1b]0;owned\x07\x1b[2J\x1b[1;31m\xc2\x9b31m\x08\x08\r<script>alert(1)</script> "
        b"\xff\xfe CUDA out of memory \xe2\x80\xae reversed \x00\x1b(B\n"
    )
    for arguments in ((), ("--json",)):
        assert ask(monkeypatch, hostile * 5, *arguments) == 0
        shown = capsys.readouterr().out
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", shown)


def test_ten_megabytes_are_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    content = b"\x1b[0m noise error failed \xff\n" * 400_000 + OOM.encode()
    assert ask(monkeypatch, content, "--json") == 0
    evidence = json.loads(capsys.readouterr().out)["matches"][0]["evidence"]
    assert evidence[0]["line"] == 400_001


def test_cause_prints_its_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "driver_too_old_for_cuda"]) == 0
    assert "Source: https://" in capsys.readouterr().out
    assert main(["explain", "driver_too_old_for_cuda", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cause"] == "driver_too_old_for_cuda"


def test_neither_file_nor_cause_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "driver_to_old_for_cuda"]) == 2
    assert "driver_too_old_for_cuda" in capsys.readouterr().err


def test_snapshot_sharpens_the_answer(
    corpus: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = b"ImportError: libcuda.so.1: cannot open shared object file"
    folder = corpus / "devices" / "amd-mi100-rocm602-json"
    ask(monkeypatch, text, "--json", "--snapshot", str(folder))
    assert json.loads(capsys.readouterr().out)["matches"][0]["cause"] == "wrong_vendor_build"


def test_short_block_is_short_and_empty_without_a_cause() -> None:
    block = render_short(explain(OOM))
    assert "gpuforge explain gpu_out_of_memory" in block
    assert len(block.splitlines()) <= 5
    assert render_short(explain("KeyError: 1")) == ""


@pytest.mark.parametrize(("path", "asked"), [("{here}/train.py", 1), ("/home/other/train.py", 0)])
def test_this_machine_is_asked_where_the_log_names_its_folder(
    path: str,
    asked: int,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    seen: list[object] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("gpuforge.detect.read_machine", lambda probe: seen.append(probe))
    line = f'  File "{path.format(here=tmp_path)}", line 3, in <module>\n'
    assert ask(monkeypatch, (line + OOM).encode(), "-") == 0
    assert len(seen) == asked
    ask(monkeypatch, (line + "step 1 of 10").encode(), "-")
    assert len(seen) == asked, "a log without an error needs no facts"
