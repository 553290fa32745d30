"""What the checks find on recorded machines and in broken surroundings, and how doctor says it."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import gpuforge as gf
from gpuforge.cli.main import main
from gpuforge.diagnose import Finding
from gpuforge.diagnose.checks import package_imports
from gpuforge.diagnose.finding import SEVEREST_FIRST, fitted, of_cause
from gpuforge.diagnose.requirement import Requirements
from gpuforge.diagnose.run import load_checks, run_checks
from gpuforge.diagnose.site import Site
from gpuforge.errors import UnknownName
from gpuforge.probe import SnapshotProbe

from .environments import Environment, make_wheel

CAUSE_OF_KIND = {
    "version_mismatch": "driver_library_version_mismatch",
    "driver_not_loaded": "nvidia_driver_not_loaded",
    "no_devices": "nvidia_driver_not_loaded",
    "no_kernel_driver": "nvidia_driver_not_loaded",
    "kfd_permission": "kfd_permission_denied",
    "kfd_not_loaded": "kfd_not_loaded",
}


def recorded(corpus: Path) -> list[tuple[Path, dict]]:
    folders = sorted((corpus / "devices").glob("*/expected.toml"))
    return [(path.parent, tomllib.loads(path.read_text("utf-8"))) for path in folders]


def test_recorded_machine_with_a_driver_error_is_named_by_its_cause(corpus: Path) -> None:
    for folder, expected in recorded(corpus):
        if expected["status"] == "driver_error":
            report = run_checks(probe=SnapshotProbe(folder))
            causes = [finding.cause for finding in report.having("error")]
            assert causes == [CAUSE_OF_KIND[expected["error_kind"]]], folder.name


def test_healthy_recorded_machine_has_no_error(corpus: Path) -> None:
    for folder, expected in recorded(corpus):
        if expected["status"] != "driver_error":
            report = run_checks(probe=SnapshotProbe(folder))
            assert not report.having("error", "crashed", "unknown"), folder.name
            assert report.having("ok"), folder.name


def test_output_of_a_healthy_machine_is_explained_by_nothing(corpus: Path) -> None:
    for folder, expected in recorded(corpus):
        if expected["status"] != "driver_error":
            for path in folder.glob("*.*"):
                if path.suffix in (".txt", ".xml", ".json", ".csv"):
                    answer = gf.explain(path.read_text("utf-8", "replace"))
                    assert answer.cause is None, path


def test_every_check_has_a_summary_and_runs_here() -> None:
    loaded = load_checks()
    assert not loaded.failures
    assert all(module.SUMMARY for module in loaded.modules.values())
    report = gf.diagnose()
    assert {finding.check for finding in report.findings} == set(loaded.modules)
    assert not [f for f in report.findings if f.message.startswith("the check failed")]


def test_findings_are_in_order_of_severity() -> None:
    states = [finding.state for finding in run_checks().findings]
    assert len(set(states)) > 1
    assert states == sorted(states, key=SEVEREST_FIRST.index)


def test_check_that_fails_is_unknown_and_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(site: object) -> object:
        raise ZeroDivisionError("a mistake")
        yield

    monkeypatch.setattr("gpuforge.diagnose.checks.disk_space.check", broken)
    report = run_checks("disk_space", "shared_memory")
    assert [f.check for f in report.having("unknown")] == ["disk_space"]
    assert "ZeroDivisionError: a mistake" in report.findings[0].message
    assert len(report.findings) == 2


def test_check_has_a_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    release = threading.Event()

    def endless(site: object) -> object:
        release.wait()
        yield Finding("ok", "late")

    monkeypatch.setattr("gpuforge.diagnose.checks.disk_space.check", endless)
    monkeypatch.setattr("gpuforge.diagnose.checks.disk_space.SECONDS", 0.05, raising=False)
    report = run_checks("disk_space")
    release.set()
    assert report.findings[0].state == "unknown"
    assert "did not finish within" in report.findings[0].message


def test_shadowing_module_is_named(
    environment: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment.add(make_wheel(tmp_path, "torch", "2.9.0"))
    (tmp_path / "torch.py").write_text("")
    findings = gf.diagnose("shadowing_modules").having("error")
    assert [f.cause for f in findings] == ["shadowing_module"]
    assert str(tmp_path / "torch.py") in findings[0].evidence[0]
    assert "Rename" in findings[0].steps[0]


def test_package_folder_without_permission_is_named(environment: Environment) -> None:
    environment.packages.chmod(0o555)
    findings = gf.diagnose("python_environment").having("error")
    environment.packages.chmod(0o755)
    assert [f.cause for f in findings] == ["site_packages_permission_denied"]


def test_externally_managed_python_is_named_and_has_no_repair(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "lib" / f"python3.{sys.version_info.minor}"
    (library / "site-packages").mkdir(parents=True)
    (library / "EXTERNALLY-MANAGED").write_text("[externally-managed]\nError=use apt\n")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").symlink_to(sys.executable)
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path))
    findings = gf.diagnose("python_environment").findings
    assert [(f.cause, f.repair) for f in findings] == [("externally_managed_environment", ())]


def test_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    if sys.platform != "linux" or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("a small file system cannot be mounted here")
    try:
        monkeypatch.setenv("TMPDIR", str(folder))
        findings = gf.diagnose("disk_space").having("error")
        assert [f.cause for f in findings] == ["disk_full"]
        assert str(folder) in findings[0].evidence[0]
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_disk_on_which_no_file_can_be_created_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.statvfs(".")
    counts = (*real[:5], 1000, 0, 0, *real[8:])
    monkeypatch.setattr(os, "statvfs", lambda path: os.statvfs_result(counts))
    findings = gf.diagnose("disk_space").having("error")
    assert [f.cause for f in findings] == ["disk_full"]
    assert "all inodes are used" in findings[0].message


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_write_to_a_full_device_is_explained() -> None:
    with pytest.raises(OSError) as caught, open("/dev/full", "w") as file:
        file.write("x" * 10_000)
        file.flush()
    assert caught.value.errno == errno.ENOSPC
    answer = gf.explain(caught.value)
    assert answer.cause is not None
    assert answer.cause.cause == "disk_full"


def test_library_that_does_not_load_is_explained() -> None:
    import ctypes

    with pytest.raises(OSError) as caught:
        ctypes.CDLL("libcublasLt.so.99")
    answer = gf.explain(caught.value)
    assert answer.cause is not None
    assert answer.cause.cause == "cuda_runtime_lib_missing"


@pytest.mark.parametrize(
    ("code", "state", "cause"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "crashed", ""),
        (
            "raise ImportError('numpy.core.multiarray failed to import (_ARRAY_API not found)')",
            "error",
            "numpy_abi_mismatch",
        ),
        ("raise KeyError('own mistake')", "error", ""),
        ("", "ok", ""),
    ],
)
def test_framework_is_imported_in_its_own_process(
    environment: Environment, tmp_path: Path, code: str, state: str, cause: str
) -> None:
    environment.add(make_wheel(tmp_path, "torch", "2.9.0", files={"torch/__init__.py": code}))
    findings = gf.diagnose("package_imports").findings
    of_torch = [f for f in findings if "torch" in f.message]
    assert [(f.state, f.cause) for f in of_torch] == [(state, cause)]


def test_steps_name_the_package_that_needs_another_numpy(
    environment: Environment, tmp_path: Path
) -> None:
    environment.add(make_wheel(tmp_path, "numpy", "2.3.0"))
    environment.add(make_wheel(tmp_path, "numba", "0.59.0", ("numpy <1.27,>=1.22",)))
    (finding,) = gf.diagnose("package_versions").having("error")
    assert finding.cause == "numpy_abi_mismatch"
    assert finding.steps[0] == "Upgrade numba: pip install --upgrade numba"
    assert finding.steps[1].endswith("pip install 'numpy<1.27,>=1.22'")


def test_deep_imports_every_package(
    environment: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package_imports, "IMPORT_SECONDS", 2.0)
    broken = "from collections import Mapping"
    warns = "import warnings; warnings.warn('Pandas requires version 2.8 or newer of numexpr')"
    for name, code in {
        "attrdict": broken,
        "ender": "import os; os._exit(3)",
        "frames": warns,
        "talker": "print('hello')",
        "extra": "import graphviz_of_nobody",
        "hangs": "import time; time.sleep(100)",
        "last": "import last.gone",
    }.items():
        environment.add(make_wheel(tmp_path, name, "1.0", files={f"{name}/__init__.py": code}))
    findings = gf.diagnose(deep=True, skip=["package_index"]).findings
    found = {f.message: f for f in findings if f.check == "package_imports"}
    states = {
        name: [f.state for message, f in found.items() if name in message]
        for name in ("attrdict", "ender", "frames", "talker", "extra", "hangs", "last")
    }
    assert states == {
        "attrdict": ["error"],
        "ender": ["error"],
        "frames": ["warning"],
        "talker": [],
        "extra": ["skipped"],
        "hangs": ["unknown"],
        "last": ["error"],
    }
    assert any(f.cause == "python_version_unsupported" for f in found.values())


def test_modules_that_were_not_imported_do_not_count(
    environment: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package_imports, "_IMPORT_ALL", "raise SystemExit(1)")
    environment.add(make_wheel(tmp_path, "calm", "1.0", files={"calm/__init__.py": ""}))
    findings = gf.diagnose("package_imports").findings
    assert [f.state for f in findings if "not tested" in f.message] == ["unknown"]
    assert not [f for f in findings if "other modules" in f.message]


def test_slow_and_network_checks_say_that_they_did_not_run() -> None:
    skipped = {f.check: f.message for f in gf.diagnose().having("skipped")}
    assert "--network" in skipped["package_index"]
    assert "package_imports" in skipped["package_imports"]


def test_index_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    findings = gf.diagnose("package_index", network=True).findings
    assert [(f.state, f.cause) for f in findings] == [("error", "network_ssl_proxy_failure")]


def test_unknown_check_suggests_the_nearest() -> None:
    with pytest.raises(UnknownName) as caught:
        gf.diagnose("disc_space")
    assert "disk_space" in caught.value.hint


def test_cause_without_a_repair_is_known_to_doctor() -> None:
    (finding,) = run_checks("tensors_on_different_devices").findings
    assert (finding.state, finding.cause) == ("skipped", "tensors_on_different_devices")
    assert "gpuforge explain" in finding.message


def test_steps_of_a_finding_fit_the_machine(corpus: Path) -> None:
    def steps(folder: str, cause: str) -> str:
        site = Site(SnapshotProbe(corpus / "devices" / folder), False, ())
        return "\n".join(fitted(of_cause(cause, "error"), site).steps)

    assert "wsl" in steps("nv-wsl2-t1000-510", "wsl_gpu_not_exposed").lower()
    linux = steps("amd-mi100-rocm602-json", "nvidia_driver_not_loaded")
    assert "lsmod" in linux
    assert "Device Manager" not in linux


def test_doctor_that_checked_nothing_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "package_index"]) == 3
    assert "not checked" in capsys.readouterr().out


def test_doctor_prints_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["doctor", "--json", "--skip", "gpu_access"])
    document = json.loads(capsys.readouterr().out)
    assert status in (0, 1)
    assert document["schema_version"] == 1
    assert not document["network_checked"]
    assert "gpu_access" not in {f["check"] for f in document["findings"]}


def test_doctor_lists_checks_and_causes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--list", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert "gpu_access" in document["checks"]
    assert len(document["causes"]) >= 80


def test_recorded_machine_is_not_repaired(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(corpus / "devices" / "nv-err-driver-not-loaded")
    assert main(["doctor", "--snapshot", folder]) == 1
    assert "nvidia_driver_not_loaded" not in capsys.readouterr().err
    assert main(["doctor", "--snapshot", folder, "--fix"]) == 2


def test_undo_of_nothing_known_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--undo", "../../etc"]) == 2
    assert main(["doctor", "--undo", "list"]) == 0
    assert "no repairs have been made" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("version", "line", "holds"),
    [
        ("2.9.0+cu128", "torch==2.9.0", True),
        ("2.9.0", "torch==2.4.0", False),
        ("2.9.1", "torch~=2.9.0", True),
        ("1.26.4", "torch!=1.26.*", False),
        ("1.26.4", "torch (<1.27,>=1.22)", True),
        ("2.1.0.dev5", "torch>=2.0", True),
        ("2.0", "torch<2; python_version < '3.9'", True),
        ("2.0", "torch<2; python_version >= '3.9'", False),
        ("2.0", "torch<2; extra == 'old'", True),
        ("2.0", "torch<2; sys_platform == 'neither'", True),
        ("2.0", "torch @ https://example.org/x.whl", True),
    ],
)
def test_requirement_holds_by_the_rules_of_packaging(version: str, line: str, holds: bool) -> None:
    found = Requirements({"torch": version, "user": "1"}, {"user": (line,)}, "3.11")
    assert (found.unmet() == ()) is holds


def test_versions_that_all_packages_accept() -> None:
    def bounds(*lines: str) -> str | None:
        users = {f"user{n}": (line,) for n, line in enumerate(lines)}
        found = Requirements({}, users, "3.11").bounds("numpy")
        return found if found is None else str(found)

    assert bounds() == ""
    assert bounds("numpy>=1.22,<1.27", "numpy>=1.26") is not None
    assert bounds("numpy<1.27", "numpy>=2.1") is None
    assert bounds("numpy>1.22", "numpy<1.23") is not None
    assert bounds("numpy==1.26.*", "numpy!=1.26.0") is not None
    assert bounds("numpy==2.0+local", "numpy<3") is not None


# What uv 0.13.9 printed in such an environment.
UV_SAYS = """Checked 2 packages in 0.40ms
Found 1 incompatibility
The package `torchvision` requires `torch==2.4.0`, but `2.9.0` is installed"""


def test_pip_uv_and_conda_are_asked(environment: Environment, tmp_path: Path) -> None:
    def said() -> list[tuple[str, str]]:
        return [(f.state, f.message) for f in run_checks("package_tools").findings]

    assert ("ok", "pip works and finds all requirements met") in said()
    environment.add(make_wheel(tmp_path, "torch", "2.9.0"))
    environment.add(make_wheel(tmp_path, "torchvision", "0.19.0", ("torch==2.4.0",)))
    uv = environment.prefix / "bin" / "uv"
    uv.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{UV_SAYS}\nEND\nexit 1\n")
    uv.chmod(0o755)
    records = environment.prefix / "conda-meta"
    records.mkdir()
    (records / "torch-2.9.0-py312_0.json").write_text('{"name": "torch", "version": "2.9.0"}')
    (records / "scipy-1.16.0-py312_0.json").write_text('{"name": "scipy", "vers')
    assert said() == [
        ("error", "conda's record of scipy is damaged"),
        ("warning", "pip finds unmet requirements"),
        ("warning", "uv finds unmet requirements"),
    ]
    uv.write_text("#!/bin/sh\necho 'error: broken' >&2\nexit 2\n")
    (environment.packages / "pip" / "__main__.py").write_text("raise SystemExit(3)\n")
    found = said()
    assert ("error", "uv failed with exit status 2") in found
    assert ("error", "pip failed with exit status 3") in found


def test_a_check_that_is_asked_for_looks_at_everything(
    environment: Environment, tmp_path: Path
) -> None:
    files = {"one/__init__.py": "", "one/deep/a.py": "a = 1\n"}
    environment.add(make_wheel(tmp_path, "one", "1.0", files=files))
    (environment.packages / "one" / "deep" / "a.py").unlink()
    for folder in ("one", "one/deep"):  # as if it had been gone when the record was written
        os.utime(environment.packages / folder, (1, 1))
    assert not run_checks().having("error")
    (finding,) = run_checks("package_files").findings
    assert "1 of its 6 files" in finding.message and "one/deep/a.py" in finding.evidence[0]
    (environment.packages / "one-1.0.dist-info" / "INSTALLER").write_text("conda\n")
    assert not run_checks("package_files").having("error")


def test_a_second_description_is_no_version_to_install(
    environment: Environment, tmp_path: Path
) -> None:
    """What is left of an older version has no files: installing it would replace the newer."""
    environment.add(make_wheel(tmp_path, "one", "2.0"))
    old = environment.packages / "one-1.0.dist-info"
    old.mkdir()
    (old / "METADATA").write_text("Name: one\nVersion: 1.0\n")
    (old / "INSTALLER").write_text("pip\n")
    found = run_checks("package_files", "duplicate_packages").having("error", "warning")
    assert {finding.cause for finding in found} == {"package_incomplete", "several_versions"}
    assert not [finding for finding in found if finding.repair]
    assert f"Delete {old}," in next(f for f in found if f.cause == "package_incomplete").steps[0]
