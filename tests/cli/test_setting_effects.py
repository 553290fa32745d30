"""What a setting changes in the command that reads it, where no other test shows it."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from gpuforge.cli.commands.env.make import _confirm
from gpuforge.cli.main import main
from gpuforge.compat.builds import FRAMEWORKS
from gpuforge.diagnose.run import run_checks
from gpuforge.errors import InvalidSettings, PlanRefused
from gpuforge.probe import SnapshotProbe
from gpuforge.settings import parse


@pytest.fixture
def answered(capsys: pytest.CaptureFixture[str], corpus: Path, monkeypatch: Any) -> Any:
    """Run a command on a recorded machine under settings; return its JSON document."""

    def call(*argv: str, machine: str = "nv-rtx4090-535-xml", **settings: str) -> dict[str, Any]:
        for name, value in settings.items():
            monkeypatch.setenv(f"GPUFORGE_{name.upper()}", value)
        main([*argv, "--snapshot", str(corpus / "devices" / machine), "--json"])
        for name in settings:
            monkeypatch.delenv(f"GPUFORGE_{name.upper()}")
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    return call


def test_framework(answered: Any) -> None:
    assert answered("env", "recommend")["framework"] == "pytorch"
    assert answered("env", "recommend", framework="jax")["framework"] == "jax"
    assert answered("env", "plan", framework="jax")["framework"] == "jax"
    assert "jax" in answered("env", "export", framework="jax")["text"]
    found = answered("env", "plan", "--framework", "pytorch", framework="jax")
    assert found["framework"] == "pytorch", "the flag goes before the setting"
    for name in FRAMEWORKS:
        assert parse("framework", name) == name
    with pytest.raises(InvalidSettings):
        parse("framework", "torch")


def test_profile(answered: Any) -> None:
    assert answered("env", "recommend")["profile"] != "learning"
    assert answered("env", "recommend", profile="learning")["profile"] == "learning"
    assert answered("env", "plan", profile="learning")["profile"] == "learning"
    assert answered("env", "plan", "--profile", "nlp", profile="learning")["profile"] == "nlp"


def test_auto_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False, raising=False)
    with pytest.raises(PlanRefused, match="confirmation is needed"):
        _confirm(Namespace(yes=False), "make it?")
    monkeypatch.setenv("GPUFORGE_AUTO_INSTALL", "on")
    _confirm(Namespace(yes=False), "make it?")


def test_memory_limit(answered: Any) -> None:
    whole = answered("env", "recommend")
    bound = answered("env", "recommend", memory_limit="3 GB")
    assert "25.8 GB" in whole["fit"]["reason"] and "3 GB" in bound["fit"]["reason"]
    assert whole["profile"] != bound["profile"]
    assert answered("env", "recommend", memory_limit="1 TB") == whole


def memory(folder: Path, available_kb: int, files: dict[str, str]) -> tuple[str, str]:
    files = {
        "proc/meminfo": f"MemTotal: 100000000 kB\nMemAvailable: {available_kb} kB\n",
        **files,
    }
    for name, text in files.items():
        path = folder / "sysroot" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (finding,) = run_checks("host_memory", probe=SnapshotProbe(folder)).findings
    return finding.state, finding.message


@pytest.mark.parametrize(
    ("name", "value", "state"),
    [("", "", "ok"), ("pressure_warning", "0.5", "warning"), ("pressure_critical", "0.5", "error")],
)
def test_pressure(name: str, value: str, state: str, tmp_path: Path, monkeypatch: Any) -> None:
    if name:
        monkeypatch.setenv(f"GPUFORGE_{name.upper()}", value)
    assert memory(tmp_path, 40_000_000, {})[0] == state


GIB = 2**30
V1 = "sys/fs/cgroup/memory/"
SLICE = "sys/fs/cgroup/user.slice/"


@pytest.mark.parametrize(
    ("files", "state", "left"),
    [
        pytest.param(
            {
                "sys/fs/cgroup/memory.max": f"{8 * GIB}",
                "sys/fs/cgroup/memory.current": f"{4 * GIB}",
            },
            "ok",
            "4 GiB",
            id="a container's own group",
        ),
        pytest.param(
            {
                "sys/fs/cgroup/memory.max": f"{8 * GIB}",
                "sys/fs/cgroup/memory.current": f"{8 * GIB}",
                "sys/fs/cgroup/memory.stat": f"anon 1\ninactive_file {6 * GIB}\n",
            },
            "ok",
            "6 GiB",
            id="files that can be given back are free",
        ),
        pytest.param(
            {
                V1 + "memory.limit_in_bytes": f"{8 * GIB}",
                V1 + "memory.usage_in_bytes": f"{8 * GIB}",
            },
            "error",
            "0 B",
            id="version 1",
        ),
        pytest.param(
            {
                "proc/self/cgroup": "0::/user.slice/session.scope\n",
                SLICE + "memory.max": f"{4 * GIB}",
                SLICE + "memory.current": f"{3.5 * GIB:.0f}",
                SLICE + "session.scope/memory.max": "max",
            },
            "warning",
            "512 MiB",
            id="a group above",
        ),
        pytest.param(
            {
                V1 + "memory.limit_in_bytes": "9223372036854771712",
                V1 + "memory.usage_in_bytes": "1",
            },
            "ok",
            "38.1 GiB",
            id="no limit in version 1",
        ),
        pytest.param(
            {"proc/self/cgroup": "0::/\n\x00::" + "/a" * 5000}, "ok", "38.1", id="hostile"
        ),
    ],
)
def test_memory_of_control_groups(
    files: dict[str, str], state: str, left: str, tmp_path: Path
) -> None:
    found = memory(tmp_path, 40_000_000, files)
    assert (found[0], left in found[1]) == (state, True), found


def test_detect_plugins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    info = tmp_path / "other-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: other\nVersion: 1\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[gpuforge.detectors]\nother = not_there\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    main(["detect", "--refresh", "--verbose"])
    assert "not_there" not in capsys.readouterr().err
    monkeypatch.setenv("GPUFORGE_DETECT_PLUGINS", "on")
    main(["detect", "--refresh", "--verbose"])
    assert "not_there" in capsys.readouterr().err
