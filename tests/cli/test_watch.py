"""``gpuforge detect --watch``: says what changed, nothing else, until it is interrupted."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gpuforge.cli.main import main
from gpuforge.detect import detect_machine
from gpuforge.detect.differences import differences
from gpuforge.facts import Absent, Machine, VendorFailure
from gpuforge.probe import SnapshotProbe

WATCH = [sys.executable, "-m", "gpuforge", "detect", "--watch"]
GOOD, BROKEN = "nv-rtx4090-535-xml", "nv-err-version-mismatch-470"


@pytest.fixture
def machine(corpus: Path) -> Machine:
    return detect_machine(SnapshotProbe(corpus / "devices" / GOOD))


def test_what_changed_is_one_sentence_each(machine: Machine) -> None:
    (device,) = machine.devices
    other = replace(device, pci_address="0000:99:00.0", name="Other")
    driver = replace(device.driver, version="999.1")  # type: ignore[type-var]
    both = replace(machine, devices=(device, other))
    assert differences(machine, machine) == []
    assert differences(machine, both) == ["Other at 0000:99:00.0 appeared"]
    assert differences(both, machine) == ["Other at 0000:99:00.0 disappeared"]
    newer = replace(machine, devices=(replace(device, driver=driver),))
    (said,) = differences(machine, newer)
    assert "999.1" in said and "driver" in said
    failed = replace(machine, failures=(VendorFailure("nvidia", "timeout", "no answer"),))
    assert differences(machine, failed) == ["nvidia fails: timeout: no answer"]
    assert differences(failed, machine) == ["nvidia: timeout is resolved"]


def test_live_readings_are_no_change(machine: Machine) -> None:
    (device,) = machine.devices
    busy = replace(device, memory_free_bytes=1, score=Absent("not computed"))
    assert differences(machine, replace(machine, devices=(busy,))) == []


@pytest.fixture
def watching(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        command = [*WATCH, *arguments]
        errors = open(tmp_path / "stderr", "w")  # noqa: SIM115
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        errors.close()
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        assert process.stdout
        process.stdout.close()


def wait_for(path: Path, word: str) -> None:
    for _ in range(1200):
        if word in path.read_text():
            return
        time.sleep(0.05)
    raise AssertionError(f"{word!r} is not in {path.read_text()!r}")


def test_a_driver_that_breaks_and_is_mended_is_said_once_each(
    watching: Callable[..., subprocess.Popen[str]],
    corpus: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GPUFORGE_MONITOR_INTERVAL", "0.05")
    now = tmp_path / "now"
    now.symlink_to(corpus / "devices" / GOOD)
    process = watching("--snapshot", str(now))
    wait_for(tmp_path / "stderr", "every 50 ms")
    assert process.stdout

    def become(name: str) -> str:
        link = tmp_path / "next"
        link.symlink_to(corpus / "devices" / name)
        link.rename(now)
        while True:
            line = process.stdout.readline()
            if re.match(r"\d\d:\d\d:\d\d ", line):
                return line[9:].strip()

    assert "version_mismatch" in become(BROKEN) + process.stdout.readline()
    assert "appeared" in become(GOOD) + process.stdout.readline()
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert rest == "", "what did not change is not said"


def test_this_machine_is_watched_until_ctrl_c(
    watching: Callable[..., subprocess.Popen[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUFORGE_MONITOR_INTERVAL", "0.1")
    process = watching()
    wait_for(tmp_path / "stderr", "every 100 ms")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted" in (tmp_path / "stderr").read_text()


def test_one_document_and_no_end_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["detect", "--watch", "--json"]) == 2
    streams = capsys.readouterr()
    assert streams.out == "" and "cannot be combined" in streams.err
    assert "hint: run 'gpuforge detect --json --refresh'" in streams.err


def test_monitor_interval_is_how_long_it_sleeps(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", sleep)
    monkeypatch.setenv("GPUFORGE_MONITOR_INTERVAL", "7.5")
    assert main(["detect", "--watch", "--cpu-only"]) == 130
    assert slept == [7.5, 7.5] and "every 7.5 s" in capsys.readouterr().err
