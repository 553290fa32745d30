"""``gpuforge startup``, ``gf.lazy_imports`` and what `gpuforge run --lazy-imports` says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import unittest.mock
from importlib.util import LazyLoader, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

import gpuforge as gf
from gpuforge.cli.main import main
from gpuforge.cli.startup_validation import Comparison, validate
from gpuforge.errors import InvalidSettings
from gpuforge.installation import loaded
from gpuforge.runtime.startup import record
from gpuforge.runtime.startup.deferrable import HEAVY, NOT_DEFERRED, why_not

RUN = [sys.executable, "-m", "gpuforge", "run"]


def document(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    status = main(["startup", "--json", *arguments])
    return status, json.loads(capsys.readouterr().out)


def started(*command: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        list(command), cwd=folder, capture_output=True, text=True, timeout=120,
        env={**os.environ, **variables},
    )  # fmt: skip


def test_before_any_run_nothing_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    status, found = document(capsys)
    assert status == 3
    assert found["program"] is None and found["unknown"]["program"]
    assert {one["variable"] for one in found["caches"]} > {"CUDA_MODULE_LOADING"}
    assert main(["startup"]) == 3
    assert "no start-up has been recorded yet" in capsys.readouterr().out


@pytest.mark.parametrize(
    "flags", [["--quick"], ["--measure", "--validate"], ["--measure", "--quick"]]
)
def test_flags_that_do_not_fit_are_refused(flags: list[str]) -> None:
    assert main(["startup", *flags]) == 2


def test_a_run_is_told_afterwards(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("jax")
    (tmp_path / "program.py").write_text(
        "import numpy as np, gpuforge as gf\n"
        "gf.warmup(['jax'], wait=True)\n"
        "gf.offload(lambda x: x + 1, backend='mlx:cpu', fallback=True)(np.ones(2))\n"
    )
    done = started(sys.executable, "program.py", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    status, found = document(capsys)
    (jax,) = [one for one in found["libraries"] if one["name"] == "jax"]
    assert status == 0 and found["program"] == str(tmp_path / "program.py")
    assert jax["state"] == "open" and jax["by"] == "gf.warmup()" and jax["loaded_in_vain"]
    assert 0 < jax["held_seconds"] <= jax["elapsed_seconds"]
    assert jax["elapsed_seconds"] == pytest.approx(
        jax["overlapped_seconds"] + jax["waited_seconds"], rel=0.5
    )
    main(["startup"])
    text = capsys.readouterr().out
    assert "program.py, ended" in text and "not used" in text


def test_a_library_that_no_call_came_to_was_loaded_in_vain(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pytest.importorskip("jax")
    (tmp_path / "program.py").write_text(
        "import gpuforge as gf, time\n"
        "made = gf.warmup(['jax'])\n"
        "while made.stats['jax'].state != 'ready':\n    time.sleep(0.05)\n"
    )
    assert started(sys.executable, "program.py", folder=tmp_path).returncode == 0
    (jax,) = document(capsys)[1]["libraries"]
    assert (jax["state"], jax["loaded_in_vain"]) == ("ready", True)


def test_deferred_imports_are_told_and_measured(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pytest.importorskip("scipy")
    pytest.importorskip("sympy")
    (tmp_path / "program.py").write_text("import sympy\nimport scipy\nprint(scipy.__version__)\n")
    done = started(*RUN, "--lazy-imports", "program.py", folder=tmp_path)
    assert "imports that were not needed: sympy" in done.stderr
    assert "run 'gpuforge startup --measure' to see what that saves" in done.stderr
    assert "scipy was imported when it was first used, at" in done.stderr
    assert "program.py:3" in done.stderr
    status, found = document(capsys)
    sympy, scipy = found["imports"]
    assert status == 0 and (sympy["module"], scipy["module"]) == ("sympy", "scipy")
    assert (
        sympy["saved_seconds"] is None and "was not measured" in sympy["unknown"]["saved_seconds"]
    )
    assert scipy["saved_seconds"] == 0.0 and scipy["used_at"].endswith("program.py:3")
    _, found = document(capsys, "--measure")
    assert found["imports"][0]["saved_seconds"] > 0
    again = started(*RUN, "--lazy-imports", "program.py", folder=tmp_path)
    assert "not needed: sympy; importing them took" in again.stderr


def test_lazy_imports_by_a_variable_and_in_code(tmp_path: Path) -> None:
    pytest.importorskip("sympy")
    (tmp_path / "asked.py").write_text(
        "import gpuforge as gf\nmade = gf.lazy_imports()\nimport sympy, sys\n"
        "print('sympy.core' in sys.modules, list(made.deferred))\n"
        "made.stop()\nprint(sympy.Integer(1), 'sympy.core' in sys.modules)\n"
    )
    (tmp_path / "variable.py").write_text(
        "import gpuforge\nimport sympy, sys\nprint('sympy.core' in sys.modules)\n"
    )
    done = started(sys.executable, "asked.py", folder=tmp_path)
    assert (done.stdout, done.stderr) == ("False ['sympy']\n1 True\n", "")
    lazy = started(sys.executable, "variable.py", folder=tmp_path, GPUFORGE_LAZY_IMPORTS="1")
    assert (lazy.stdout, lazy.stderr) == ("False\n", "")
    assert started(sys.executable, "variable.py", folder=tmp_path).stdout == "True\n"
    run = started(*RUN, "variable.py", folder=tmp_path, GPUFORGE_LAZY_IMPORTS="1")
    assert run.stdout == "False\n"


def test_what_is_deferred_is_not_loaded_to_place_and_record_calls(tmp_path: Path) -> None:
    for name in ("torch", "jax"):
        (tmp_path / "site-packages" / name).mkdir(parents=True)
        (tmp_path / "site-packages" / name / "__init__.py").write_text(f"print('{name} loads')")
    (tmp_path / "program.py").write_text(
        "import sys\nsys.path.insert(0, 'site-packages')\nimport torch, jax\n"
        "import gpuforge as gf, numpy as np\n"
        "@gf.offload\ndef call(function, x):\n    return function(x)\n"
        "print(call(np.sum, np.ones(3)), call(iter, np.ones(3)) is None)\n"
    )
    done = started(*RUN, "--lazy-imports", "--save", "it.gfp", "program.py", folder=tmp_path)
    assert (done.returncode, done.stdout) == (0, "3.0 False\n"), done.stderr
    assert "Traceback" not in done.stderr and (tmp_path / "it.gfp").exists()


@pytest.mark.parametrize("lazily", [True, False])
def test_a_module_that_waits_for_its_first_use_is_not_loaded(
    lazily: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "waits.py").write_text("here = True\n")
    spec = spec_from_file_location("waits", tmp_path / "waits.py")
    assert spec is not None and spec.loader is not None
    spec.loader = LazyLoader(spec.loader) if lazily else spec.loader
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "waits", module)
    spec.loader.exec_module(module)
    assert (loaded("waits") is None) == lazily
    assert module.here and loaded("waits") is module
    assert loaded("not_imported") is None
    monkeypatch.setitem(sys.modules, "waits", unittest.mock.MagicMock())
    assert loaded("waits") is sys.modules["waits"]


def test_names_are_added_to_what_is_deferred_already(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    first = gf.lazy_imports()
    try:
        assert gf.lazy_imports(["mine.part", "other"]) is gf.lazy_imports("third") is first
        assert {"mine", "other", "third", "torch"} <= first.names
    finally:
        first.stop()


def test_a_library_that_must_not_be_deferred_is_refused_with_the_reason() -> None:
    with pytest.raises(InvalidSettings, match="mpi4py cannot be deferred: MPI starts"):
        gf.lazy_imports(["mpi4py"])


def test_the_tables_agree() -> None:
    assert not HEAVY & set(NOT_DEFERRED)
    assert all(reason and not reason.endswith(".") for reason in NOT_DEFERRED.values())
    assert why_not("sklearn.experimental.enable_iterative_imputer")
    assert not why_not("sklearn.linear_model")


def test_a_failed_import_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    class Failed:
        module, imported_at, used_at, seconds, failure = "torch", "a:1", "a:2", 0.1, "OSError: x"

        def __init__(self) -> None:
            vars(self).update({n: getattr(Failed, n) for n in Failed.__annotations__ or FIELDS})

    monkeypatch.setattr(record, "_kept", {})
    record.keep_imports([Failed()])
    assert record.switched_off() == {"torch": "it failed before: OSError: x"}


FIELDS = ("module", "imported_at", "used_at", "seconds", "failure")


def test_validation_compares_in_turns_and_ends_in_time(capsys: pytest.CaptureFixture[str]) -> None:
    found = validate(20.0)
    assert [one.is_complete or one.reason != "" for one in found] == [True, True]
    for one in found:
        assert not one.differs
        assert len(one.baseline) - len(one.optimised) in (0, 1)
    assert "without using it" in found[0].text()


def test_validation_says_what_it_could_not_do() -> None:
    late = Comparison("something", reason="the time limit was reached before both forms had run")
    assert (
        late.text()
        == "something: not measured: the time limit was reached before both forms had run"
    )
    assert late.document()["same_result"] is None
    apart = Comparison("it", [2.0, 3.0, 3.0], [1.0, 1.5, 1.0], {"same"})
    assert "3 runs each: faster in every run" in apart.text()
    once = Comparison("it", [2.0], [1.0], {"same"})
    assert "without 2 s, with 1 s, 1 run each: too few runs to show a gain" in once.text()
    overlap = Comparison("it", [2.0, 3.0, 3.0], [1.0, 2.5, 1.0], {"a", "b"})
    assert "no gain is shown" in overlap.text() and "DIFFERENT results" in overlap.text()


def test_a_command_of_gpuforge_is_not_the_last_program(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("program.py", "gpuforge"):
        (tmp_path / name).touch()
        monkeypatch.setattr(sys, "argv", [str(tmp_path / name)])
        record.keep("libraries", {})
    status, found = document(capsys)
    assert status == 0 and found["program"] == str(tmp_path / "program.py")
