"""The log: silent by default, opened by settings, harmless to a program's own logging."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from gpuforge import log
from gpuforge.cli.main import main
from gpuforge.settings import Settings


@pytest.fixture(autouse=True)
def closed_again() -> Iterator[None]:
    yield
    log.open_log(Settings())


def test_silent_by_default(capfd: pytest.CaptureFixture[str]) -> None:
    log.open_log(Settings())
    log.logger("part").warning("nobody asked")
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("settings", "shown"),
    [
        (Settings(log="debug"), ["d", "i", "w", "e"]),
        (Settings(log="warning"), ["w", "e"]),
        (Settings(verbose=True), ["i", "w", "e"]),
        (Settings(verbose=True, log="error"), ["i", "w", "e"]),
        (Settings(verbose=True, log="debug"), ["d", "i", "w", "e"]),
    ],
)
def test_settings_open_it(
    settings: Settings, shown: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    log.open_log(settings)
    log.open_log(settings)  # twice is once
    part = logging.getLogger("gpuforge.part")
    for level, text in zip((10, 20, 30, 40), "diwe", strict=True):
        part.log(level, text)
    assert capfd.readouterr().err == "".join(f"gpuforge.part: {text}\n" for text in shown)


def test_a_phase_says_its_time_also_when_it_fails(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "gpuforge")
    with pytest.raises(ZeroDivisionError), log.phase("dividing"):
        1 / 0
    assert caplog.messages[0].startswith("dividing took ")


@pytest.mark.parametrize(
    "arguments", [["config", "show", "--verbose"], ["config", "--verbose", "path"]]
)
def test_verbose_adds_phase_times_on_stderr(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 0
    assert "gpuforge: gpuforge config took " in capsys.readouterr().err


def test_the_variable_opens_it(monkeypatch: Any, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("GPUFORGE_LOG", "info")
    main(["config", "path"])
    assert "gpuforge: gpuforge config took " in capsys.readouterr().err


def test_a_wrong_level_is_an_error_of_the_command(
    monkeypatch: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GPUFORGE_LOG", "loud")
    assert main(["config", "show"]) == 2
    assert "GPUFORGE_LOG: log: 'loud'" in capsys.readouterr().err
