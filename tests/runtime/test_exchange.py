"""Constants travel between machines of the same hardware; files that lie change nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuforge.cli.main import main
from gpuforge.errors import EnvironmentMismatch, GpuForgeError, WorkloadError
from gpuforge.history import History, Timing
from gpuforge.runtime.calibration import exchange
from gpuforge.runtime.calibration.exchange import LIMIT_BYTES, export_constants, import_constants
from gpuforge.runtime.placement.policy import Prior
from gpuforge.runtime.placement.priors import CONSTANT, Priors

RATIOS = {
    "matmul": {"torch:cpu": [[2**17, 0.4], [2**11, 1.5]]},
    "light": {"jax:cpu": [[2**20, 0.7]]},
}


@pytest.fixture
def measured(tmp_path: Path) -> History:
    history = History(tmp_path / "there", "fingerprint-there")
    history.keep_constant(CONSTANT, {"ratios": RATIOS, "barred": {"sort mlx:cpu": "no"}})
    history.keep([Timing("f", "k", "s", "torch:cpu@2", 10, (1.0,), 1)])
    return history


@pytest.fixture
def here(tmp_path: Path) -> History:
    return History(tmp_path / "here", "fingerprint-here")


def document(history: History, folder: Path) -> tuple[Path, Any]:
    path = folder / "constants.json"
    export_constants(history, path)
    return path, json.loads(path.read_text())


def test_constants_of_one_machine_start_another_as_priors(
    measured: History, here: History, tmp_path: Path
) -> None:
    path, _ = document(measured, tmp_path)
    assert import_constants(here, path) == 3
    prior: Prior = Priors(here).of(["matmul"])
    found = prior("torch:cpu", 2**17, 2.0)
    assert found is not None
    assert found.seconds == pytest.approx(0.4 * 2.0)
    assert here.timings("f") == []  # exact timings stay with their fingerprint
    assert import_constants(here, path) == 0


def test_what_was_measured_here_stays(measured: History, here: History, tmp_path: Path) -> None:
    here.keep_constant(CONSTANT, {"ratios": {"matmul": {"torch:cpu": [[2**17, 9.0]]}}})
    path, _ = document(measured, tmp_path)
    assert import_constants(here, path) == 2
    found = Priors(here).of(["matmul"])("torch:cpu", 2**17, 1.0)
    assert found is not None
    assert found.seconds == pytest.approx(9.0)


def test_other_hardware_is_refused(
    measured: History, here: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _ = document(measured, tmp_path)
    facts = {**exchange.describe_machine(), "cpu": "another"}
    monkeypatch.setattr(exchange, "describe_machine", lambda: facts)
    with pytest.raises(EnvironmentMismatch, match="other hardware: cpu"):
        import_constants(here, path)
    assert here.constant(CONSTANT) is None


def test_every_truncation_is_refused(measured: History, here: History, tmp_path: Path) -> None:
    path, _ = document(measured, tmp_path)
    whole = path.read_bytes().rstrip()
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(WorkloadError, match="not a complete JSON"):
            import_constants(here, path)
    assert here.constant(CONSTANT) is None


HOSTILE: dict[str, Any] = {
    "a list": [],
    "another format": {"format": "x"},
    "a later version": {"schema_version": 99},
    "no hardware": {"hardware": None},
    "unknown probe": {"time_over_numpy": {"../../etc": {}}},
    "unknown backend": {"time_over_numpy": {"light": {"os.system": [[2**20, 1.0]]}}},
    "negative": {"time_over_numpy": {"light": {"torch:cpu": [[2**20, -1.0]]}}},
    "zero": {"time_over_numpy": {"light": {"torch:cpu": [[2**20, 0]]}}},
    "not a number": {"time_over_numpy": {"light": {"torch:cpu": [[2**20, float("nan")]]}}},
    "infinite": {"time_over_numpy": {"light": {"torch:cpu": [[2**20, float("inf")]]}}},
    "a size nobody measures": {"time_over_numpy": {"light": {"torch:cpu": [[3, 1.0]]}}},
    "text": {"time_over_numpy": {"light": {"torch:cpu": [["1", "2"]]}}},
    "true": {"time_over_numpy": {"light": {"torch:cpu": [[2**20, True]]}}},
    "points that are none": {"time_over_numpy": {"light": {"torch:cpu": 3}}},
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_content_is_refused_and_nothing_kept(
    case: str, measured: History, here: History, tmp_path: Path
) -> None:
    path, content = document(measured, tmp_path)
    change = HOSTILE[case]
    path.write_text(json.dumps({**content, **change} if isinstance(change, dict) else change))
    with pytest.raises(WorkloadError) as caught:
        import_constants(here, path)
    assert caught.value.hint
    assert here.constant(CONSTANT) is None


@pytest.mark.parametrize("raw", [b"[" * 100_000, b"{" + b" " * LIMIT_BYTES, b"\xff\xfe\0"])
def test_deep_large_and_binary_files_are_refused(raw: bytes, here: History, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(raw)
    with pytest.raises(WorkloadError):
        import_constants(here, path)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(raw=st.binary(max_size=200))
def test_any_bytes_are_refused(raw: bytes, here: History, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(raw)
    with pytest.raises(GpuForgeError):
        import_constants(here, path)


def test_the_command_exports_and_imports(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import gpuforge as gf

    monkeypatch.setenv("GPUFORGE_CACHE_FOLDER", str(tmp_path / "cache"))
    monkeypatch.setattr("gpuforge.runtime.session._default", None)
    path = tmp_path / "constants.json"
    assert main(["calibrate", "--export", str(path)]) == 2
    assert "gpuforge calibrate" in capsys.readouterr().err
    with gf.session(cache_folder=str(tmp_path / "cache")) as session:
        session.history.keep_constant(CONSTANT, {"ratios": RATIOS})
    assert main(["calibrate", "--export", str(path)]) == 0
    assert main(["calibrate", "--import", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["imported"] == 0
    assert main(["calibrate", "--import", str(tmp_path / "none")]) == 2
    assert main(["calibrate", "--export", str(tmp_path / "no" / "folder")]) == 2
