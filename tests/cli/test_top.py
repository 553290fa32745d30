"""``gpuforge top`` as its user sees it: once, as JSON, in a pipe, and in real terminals (tmux)."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpuforge import published
from gpuforge.cli.main import main

TOP = [sys.executable, "-m", "gpuforge", "top"]
ONCE = """\
gpuforge top  HH:MM:SS  this reading took TIME of CPU time
CPU  [                    ]    -   - cores  load -
Mem  [                    ]    -   - of -
     waiting for CPU -, memory -, I/O -
GPU 0  amd  0000:c1:00.0
busy [|                   ]   3 %  9.09 W  38 °C  - MHz
mem  [||||||||||||||||||| ]  96 %  491 MiB of 512 MiB  pressure: high
     PCIe 4 x16

    PID   CPU   MEMORY  GPU MEM   CALLS QUEUE RUN BATCH  PROGRAM AND ACTIVITY
no gpuforge processes of this user are running
"""


def same(text: str) -> str:
    text = re.sub(r"\d\d:\d\d:\d\d", "HH:MM:SS", text)
    return re.sub(r"took [\d.]+ \S+ of", "took TIME of", text)


def test_a_recorded_machine_once(
    corpus: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    folder = corpus / "devices" / "amd-strixpoint-apu-sysfs"
    assert main(["top", "--once", "--snapshot", str(folder)]) == 0
    assert same(capsys.readouterr().out) == ONCE


def test_json_is_one_document_with_reasons(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = corpus / "devices" / "amd-vega56-sysfs"
    assert main(["top", "--json", "--snapshot", str(folder)]) == 0
    document = json.loads(capsys.readouterr().out)
    (device,) = document["devices"]
    assert document["schema_version"] == 1 and device["power_watts"] == 8.0
    assert device["throttle_reasons"] is None and device["unknown"]["throttle_reasons"]
    assert document["host"]["utilization_ratio"] is None


def test_this_machine_and_this_process(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    published.count("numpy", 3, 0.5)
    published.now("fft \x1b[31mred")
    assert main(["top", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    (process,) = document["processes"]
    assert process["published"]["pid"] == os.getpid() and process["resident_bytes"] > 2**20
    assert process["published"]["backends"][0]["calls"] == 3
    assert 0 <= document["host"]["utilization_ratio"] <= 1 and document["cost_seconds"] > 0
    assert main(["top", "--once"]) == 0
    out = capsys.readouterr().out
    assert re.search(rf"^ *{os.getpid()} .* on numpy 1.5 s: fft", out, re.M) and "\x1b" not in out


@pytest.mark.parametrize("interval", ["0", "0.01", "soon", "-1"])
def test_an_interval_that_means_nothing_is_wrong_usage(
    interval: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["top", "--once", f"--interval={interval}"]) == 2
    streams = capsys.readouterr()
    assert streams.err.startswith("error: ") and "hint: " in streams.err and streams.out == ""


def test_a_pipe_gets_plain_views_until_it_is_closed() -> None:
    process = subprocess.Popen(
        [*TOP, "--interval", "0.1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout and process.stderr
    text = ""
    while text.count("gpuforge top") < 2:
        line = process.stdout.readline()
        assert line, process.stderr.read()
        text += line
    assert "\x1b" not in text and "CPU  [" in text
    process.stdout.close()
    assert process.wait(30) == 0
    assert process.stderr.read() == ""
    process.stderr.close()


def test_ctrl_c_ends_a_pipe_as_interrupted() -> None:
    process = subprocess.Popen(
        [*TOP, "--interval", "0.1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130 and err == "interrupted\n"


class Terminal:
    """A real terminal of 80 by 24 in which a command runs."""

    def __init__(self, folder: Path, command: str) -> None:
        self._base = ["tmux", "-S", str(folder / "tmux"), "-f", "/dev/null"]
        self("new-session", "-d", "-x", "80", "-y", "24", "sh")
        self("send-keys", "stty -echo; PS1=; clear; ", command, "; echo status $?", "Enter")

    def __call__(self, *arguments: str) -> str:
        done = subprocess.run(
            [*self._base, *arguments], capture_output=True, text=True, check=True, timeout=30
        )
        return done.stdout

    def screen(self) -> list[str]:
        return self("capture-pane", "-p", "-e").rstrip("\n").split("\n")

    def until(self, wanted: Callable[[str], object]) -> list[str]:
        """Return the screen once it is as wanted."""
        end = time.monotonic() + 60
        while not wanted("\n".join(lines := self.screen())):
            assert time.monotonic() < end, "\n".join(lines)
            time.sleep(0.05)
        return lines


@pytest.fixture
def terminal(own_home: Path) -> Iterator[Callable[[str], Terminal]]:
    if shutil.which("tmux") is None:
        pytest.skip("needs tmux")
    made: list[Terminal] = []

    def open_terminal(prefix: str = "") -> Terminal:
        made.append(Terminal(own_home, f"{prefix} {' '.join(TOP)} --interval 0.2"))
        return made[-1]

    yield open_terminal
    for one in made:
        one("kill-server")


def shows(text: str) -> bool:
    return "% of a core" in text and "q quits" in text


def test_in_a_terminal_values_change_and_q_quits(terminal: Callable[..., Terminal]) -> None:
    published.count("numpy", 3, 0.5)
    screen = terminal()
    lines = screen.until(shows)
    plain = [re.sub(r"\x1b\[[\d;]*m", "", line) for line in lines]
    assert len(lines) <= 24 and all(len(line) <= 80 for line in plain)
    assert plain[0].startswith("gpuforge top ") and plain[0].endswith("q quits")
    assert plain[1].startswith("CPU  [") and plain[2].startswith("Mem  [")
    assert any(line.split()[:1] == [str(os.getpid())] for line in plain)
    published.count("numpy", 4, 0.5)
    screen.until(lambda text: re.search(rf"{os.getpid()}.* 7 ", text))
    published.end()
    screen.until(lambda text: str(os.getpid()) not in text)
    screen("send-keys", "q")
    after = screen.until(lambda text: "status" in text)
    assert after == ["status 0"]  # what was there before is there again


def test_a_terminal_that_is_resized(terminal: Callable[..., Terminal]) -> None:
    screen = terminal()
    screen.until(shows)
    screen("resize-window", "-x", "40", "-y", "6")
    lines = screen.until(lambda text: "cores" not in text and "q quits" in text)
    assert len(lines) <= 6
    screen("resize-window", "-x", "132", "-y", "40")
    screen.until(lambda text: shows(text) and "ACTIVITY" in text)
    screen("send-keys", "q")
    screen.until(lambda text: "status 0" in text)


def test_ctrl_c_restores_the_terminal(terminal: Callable[..., Terminal]) -> None:
    screen = terminal()
    screen.until(shows)
    screen("send-keys", "C-c")
    assert screen.until(lambda text: "status" in text) == ["interrupted", "status 130"]
    screen("send-keys", "stty -a", "Enter")
    assert "-icanon" not in " ".join(screen.until(lambda text: "icanon" in text))


def test_ctrl_z_gives_the_terminal_back_until_it_goes_on(
    terminal: Callable[..., Terminal],
) -> None:
    screen = terminal()
    screen.until(shows)
    screen("send-keys", "C-z")
    lines = screen.until(lambda text: "status" in text)
    assert "gpuforge top  " not in "\n".join(lines)  # the screen from before, with its cursor
    assert screen("display-message", "-p", "#{cursor_flag}") == "1\n"
    screen("send-keys", "fg", "Enter")
    screen.until(shows)
    screen("send-keys", "q")
    screen.until(lambda text: "status" in text)


def test_no_colour_where_none_is_wanted(terminal: Callable[..., Terminal]) -> None:
    screen = terminal("NO_COLOR=1")
    assert "\x1b[" not in "\n".join(screen.until(shows))
    screen("send-keys", "q")
    screen.until(lambda text: "status 0" in text)


def test_a_dumb_terminal_gets_lines_one_after_the_other(
    terminal: Callable[..., Terminal],
) -> None:
    screen = terminal("TERM=dumb")
    lines = screen.until(lambda text: text.count("gpuforge top") >= 2)
    assert not any("\x1b" in line for line in lines)
    screen("send-keys", "C-c")
    screen.until(lambda text: "status 130" in text)
