"""The user, home folder, locale, limits and clock of the process."""

from __future__ import annotations

import os
import pwd
import resource
import time
from pathlib import Path

import pytest

from gpuforge.diagnose.run import run_checks

from .environments import Environment


def named() -> list[str]:
    return [f.message for f in run_checks("process_limits").having("error", "warning", "unknown")]


@pytest.fixture(autouse=True)
def ordinary(environment: Environment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("LC_ALL", "LC_CTYPE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(resource, "getrlimit", lambda number: (65536 * 2**30, -1))


def test_an_ordinary_process_is_not_named() -> None:
    assert not named()


def test_limits_that_are_too_low_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    low = {resource.RLIMIT_NOFILE: 64, resource.RLIMIT_AS: 2**30, resource.RLIMIT_CPU: 60}
    monkeypatch.setattr(resource, "getrlimit", lambda number: (low.get(number, -1), -1))
    assert [m.partition(" of ")[2].partition(",")[0] for m in named()] == [
        "open files", "address space", "processor time"
    ]  # fmt: skip


def test_a_home_folder_that_is_gone_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/nonexistent")
    assert "/nonexistent cannot be written" in named()[0]
    monkeypatch.setenv("XDG_CACHE_HOME", "/tmp")
    assert not named()


def test_a_user_without_a_name_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(number: int) -> None:
        raise KeyError(number)

    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    assert f"the user {os.getuid()} has no name" in named()[0]
    monkeypatch.setenv("USER", "me")
    assert not named()


@pytest.mark.skipif(not Path("/usr/lib/locale").is_dir(), reason="no locales of glibc")
def test_a_locale_that_does_not_exist_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "tlh_XX.UTF-8")
    assert "tlh_XX.UTF-8" in named()[0]
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    assert not named()


def test_a_clock_of_the_past_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert "the clock is wrong" in named()[0]
