"""No repair does harm: to what is installed, to another environment, to later changes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import gpuforge
from gpuforge.changes import apply, pip_process
from gpuforge.changes.action import AppendLines, MoveAside, RunPip
from gpuforge.changes.apply import apply_plan, undo
from gpuforge.changes.environment import PythonEnvironment, active_environment
from gpuforge.changes.plan import Plan
from gpuforge.changes.record import find_record, records, records_folder
from gpuforge.cli.build_planner import plan_builds
from gpuforge.cli.main import main
from gpuforge.diagnose.run import run_checks
from gpuforge.errors import PlanRefused, WorkloadError
from gpuforge.facts import Machine

from .environments import Environment, make_wheel
from .test_repairs import doctor, nvidia

MARKED = "numpy<2; python_version < '3.9'"


def hashes_of(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def on(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuforge.diagnose.site.read_machine", lambda probe: machine)


# What is installed decides what may be repaired.


def test_requirement_for_another_python_is_no_problem(
    environment: Environment, tmp_path: Path
) -> None:
    environment.add(make_wheel(tmp_path, "numpy", "2.4.6"))
    environment.add(make_wheel(tmp_path, "opencv-python", "4.12", (MARKED, "numpy>=2")))
    assert not run_checks("package_versions").having("error", "warning")


def test_numpy_is_not_taken_below_what_gpuforge_requires(
    environment: Environment, index: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    environment.add(make_wheel(index, "numpy", "2.4.6"))
    environment.add(make_wheel(index, "gpuforge", "0.1.0", ("numpy>=2.1",)))
    environment.add(make_wheel(index, "numba", "0.59", ("numpy<1.27",)))
    make_wheel(index, "numpy", "1.26.4")
    (finding,) = run_checks("package_versions").findings
    assert any("gpuforge requires numpy>=2.1" in line for line in finding.evidence)
    assert not any("numpy<" in action.command for action in finding.repair)
    before = environment.hashes()
    _, done = doctor(capsys, "package_versions", "--fix", "--yes")
    assert done["repairs"][0]["outcome"] == "refused"  # the index holds no newer numba
    assert environment.hashes() == before
    make_wheel(index, "numba", "0.68", ("numpy>=2",))
    _, done = doctor(capsys, "package_versions", "--fix", "--yes")
    assert done["repairs"][0]["outcome"] == "repaired"
    assert {"numpy-2.4.6", "numba-0.68"} <= environment.installed()


def test_repair_that_would_break_another_package_is_refused_by_name(
    environment: Environment, index: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    environment.add(make_wheel(index, "torch", "2.9.0"))
    environment.add(make_wheel(index, "torchvision", "0.19", ("torch==2.4.0",)))
    environment.add(make_wheel(index, "pillow", "11.0"))
    environment.add(make_wheel(index, "viewer", "1.0", ("pillow<12",)))
    make_wheel(index, "torchvision", "0.24", ("torch==2.9.0", "pillow>=12"))
    make_wheel(index, "pillow", "12.0")
    before = environment.hashes()
    _, done = doctor(capsys, "package_versions", "--fix", "--yes")
    (repair,) = done["repairs"]
    assert repair["outcome"] == "refused"
    assert "viewer requires pillow<12; 12.0 is installed" in repair["reason"]
    assert environment.hashes() == before


def test_build_for_a_gpu_comes_from_the_plan_for_this_machine(
    environment: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment.add(make_wheel(tmp_path, "torch", "2.11.0+cpu"))
    environment.add(make_wheel(tmp_path, "torchvision", "0.26.0+cpu"))
    on(nvidia("13.0", "6.0", "580.65.06"), monkeypatch)  # a P100: no code of CUDA 13 runs
    (finding,) = run_checks("gpu_builds", planner=plan_builds).findings
    (action,) = finding.repair
    assert "torch==2.11.0+cu126" in action.command
    assert "--no-deps" not in action.command
    assert not run_checks("gpu_builds").findings[0].repair  # nothing is guessed without a plan


@pytest.mark.parametrize(
    ("torch", "machine", "cause"),
    [
        ("2.11.0", nvidia("12.2", "8.0", "535.104.05"), "driver_too_old_for_cuda"),
        ("2.11.0+cu130", nvidia("13.0", "6.0", "580.65.06"), "torch_no_kernel_for_gpu"),
        ("2.15.0", nvidia("13.0", "6.1", "580.65.06"), "torch_no_kernel_for_gpu"),
        ("2.11.0+cu126", nvidia("12.6", "6.0", "560.28"), ""),
        ("2.11.0+cpu", nvidia("11.4", "3.0", "470.10"), ""),  # no build for that GPU fits
        ("2.8.0+cu129", nvidia("12.8", "12.0", "570.26"), ""),
    ],
)
def test_build_is_judged_by_the_tables(
    environment: Environment,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    torch: str,
    machine: Machine,
    cause: str,
) -> None:
    environment.add(make_wheel(tmp_path, "torch", torch))
    on(machine, monkeypatch)
    findings = run_checks("gpu_builds", planner=plan_builds).findings
    assert [f.cause for f in findings] == [cause]


def test_build_of_an_unknown_release_is_told_by_its_requirements(
    environment: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment.add(make_wheel(tmp_path, "torch", "3.9.0", ("nvidia-cuda-runtime==13.1.80",)))
    environment.add(make_wheel(tmp_path, "nvidia-cuda-runtime", "13.1.80"))
    on(nvidia("12.2", "8.0", "535.104.05"), monkeypatch)
    findings = run_checks("gpu_builds").findings
    assert [f.cause for f in findings] == ["driver_too_old_for_cuda"]


# One environment is looked at, named and changed.


def test_environment_whose_python_is_gone_is_named_and_nothing_is_changed(
    environment: Environment, index: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    environment.add(make_wheel(index, "torch", "2.9.0"))
    environment.add(make_wheel(index, "torchvision", "0.19", ("torch==2.4.0",)))
    make_wheel(index, "torchvision", "0.24", ("torch==2.9.0",))
    for link in (environment.prefix / "bin").glob("python*"):
        link.unlink()
        link.symlink_to("/nowhere/python3")
    before, ours = environment.hashes(), hashes_of(Path(sys.prefix) / "bin")
    status, done = doctor(capsys, "--fix", "--yes")
    assert status == 1
    assert done["environment"]["prefix"] == str(environment.prefix)
    assert "/nowhere/python3" in done["environment"]["not_changed_because"]
    assert "environment_broken" in [f["cause"] for f in done["findings"]]
    assert done["repairs"] == []
    assert environment.hashes() == before
    assert hashes_of(Path(sys.prefix) / "bin") == ours


def test_environment_that_is_gone_is_not_replaced_by_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "gone"))
    _, done = doctor(capsys, "python_environment")
    assert done["environment"]["prefix"] == str(tmp_path / "gone")
    assert [f["cause"] for f in done["findings"]] == ["environment_broken"]


def test_the_environment_is_shown_first(
    environment: Environment, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["doctor", "disk_space"])
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith(f"environment: {environment.prefix} (virtual environment")
    assert "named by VIRTUAL_ENV" in first


def test_conda_base_yields_to_the_environment_of_gpuforge(tmp_path: Path) -> None:
    base = tmp_path / "conda"
    (base / "conda-meta").mkdir(parents=True)
    other = active_environment({"CONDA_PREFIX": str(base)})
    assert other.prefix == base
    (base / "condabin").mkdir()
    inside = sys.prefix != sys.base_prefix
    assert (active_environment({"CONDA_PREFIX": str(base)}).prefix == base) is not inside
    assert "never changes" in PythonEnvironment(base).refusal or "no Python" in (
        PythonEnvironment(base).refusal
    )


def test_no_command_for_a_system_python_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = tmp_path / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
    packages.mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").symlink_to(sys.executable)
    (packages / "~orch").mkdir()
    for name, requires in (("torch-2.9.0", ""), ("torchvision-0.19", "torch==2.4.0")):
        (packages / f"{name}.dist-info").mkdir()
        text = f"Name: x\n{f'Requires-Dist: {requires}' if requires else ''}\n"
        (packages / f"{name}.dist-info" / "METADATA").write_text(text)
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path))
    (finding,) = run_checks("package_versions").findings
    assert finding.repair == ()
    assert "system Python, which gpuforge never changes" in finding.steps[-1]
    assert "pip" not in finding.steps[-1]


def test_system_packages_count_where_an_environment_sees_them(
    base_environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = Environment(base_environment, tmp_path / "base")
    base.add(make_wheel(tmp_path, "numpy", "2.4.6"))
    inner = Environment(base_environment, tmp_path / "inner")
    inner.add(make_wheel(tmp_path, "pandas", "3.0", ("numpy>=2",)))
    cfg = inner.prefix / "pyvenv.cfg"
    text = f"home = {base.prefix}/bin\nversion = 3.{sys.version_info.minor}.1\n"
    cfg.write_text(f"{text}include-system-site-packages = true\n")
    monkeypatch.setenv("VIRTUAL_ENV", str(inner.prefix))
    assert not run_checks("package_versions").having("warning", "error")
    cfg.write_text(f"{text}include-system-site-packages = false\n")
    assert run_checks("package_versions").having("warning", "error")


# Undo gives back what was there, and takes nothing else.


def moved(environment: Environment, name: str = "~orch") -> Plan:
    (environment.packages / name).mkdir(exist_ok=True)
    (environment.packages / name / "old.py").write_text("x = 1\n")
    return Plan("remains", (MoveAside(environment.packages / name, "remains"),))


def appended(environment: Environment) -> Plan:
    script = environment.prefix / "bin" / "activate"
    return Plan("variable", (AppendLines(script, ("export A=1",)),))


def test_edit_of_the_same_size_after_a_repair_is_not_overwritten(
    environment: Environment, index: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    environment.add(make_wheel(index, "torch", "2.9.0"))
    environment.add(make_wheel(index, "torchvision", "0.19", ("torch==2.4.0",)))
    make_wheel(index, "torchvision", "0.24", ("torch==2.9.0",), {"torchvision/a.py": "a = 1\n"})
    before = environment.hashes()
    _, done = doctor(capsys, "package_versions", "--fix", "--yes")
    changed = environment.packages / "torchvision" / "a.py"
    changed.write_text("a = 2\n")
    assert main(["doctor", "--undo", done["repairs"][0]["undo"]]) == 1
    assert str(changed) in capsys.readouterr().err
    assert changed.read_text() == "a = 2\n"
    assert main(["doctor", "--undo", done["repairs"][0]["undo"], "--yes"]) == 0
    assert environment.hashes() == before


def test_edit_of_a_file_that_the_repair_left_alone_is_noticed(environment: Environment) -> None:
    environment.add(make_wheel(environment.prefix, "mine", "1.0", files={"mine.py": "a = 1\n"}))
    plan = RunPip(PythonEnvironment(environment.prefix), ("uninstall", "-y", "nothing-at-all"))
    record = apply_plan(Plan("nothing", (plan,)))
    (environment.packages / "mine.py").write_text("a = 2\n")
    with pytest.raises(PlanRefused, match=r"mine\.py"):
        undo(record.id)


def test_interruption_while_keeping_leaves_nothing_behind(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(source: Path, store: Path) -> None:
        store.mkdir(parents=True)
        (store / "half").write_text("half a copy")
        raise KeyboardInterrupt

    before = environment.hashes()
    plan = RunPip(PythonEnvironment(environment.prefix), ("uninstall", "-y", "nothing"))
    monkeypatch.setattr(apply, "keep", interrupted)
    with pytest.raises(KeyboardInterrupt):
        apply_plan(Plan("nothing", (plan,)))
    (record,) = records()
    assert record.state == "keeping"
    undo(record.id)
    assert environment.hashes() == before


DAMAGES = {
    "cut": lambda record: record.write_bytes(record.read_bytes()[:40]),
    "empty": lambda record: record.write_bytes(b""),
    "no text": lambda record: record.write_bytes(b"\xff\xfe\x00\x80" * 50),
    "another shape": lambda record: record.write_text('["not", "a", "record"]'),
    "a folder": lambda record: (record.unlink(), record.mkdir()),
}


@pytest.mark.differ
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_record_hides_no_other_one(
    damage: Callable[[Path], object], environment: Environment, capsys: pytest.CaptureFixture[str]
) -> None:
    before = environment.hashes()
    first, second = (apply_plan(appended(environment)) for _ in range(2))
    damage(records_folder() / second.id / "record.json")
    assert main(["doctor", "--undo", "list"]) == 1
    shown = capsys.readouterr()
    assert first.id in shown.out
    assert second.id not in shown.out
    # The damaged one is named, with what to do: by the list, and where it is asked for itself.
    for said in (shown.err, _failure(capsys, second.id)):
        assert second.id in said
        assert "hint: " in said
    status, table = doctor(capsys, "--undo", "list")
    assert (status, [one["id"] for one in table["records"]]) == (1, [first.id])
    assert [second.id in one["message"] and one["hint"] != "" for one in table["unreadable"]] == [
        True
    ]
    undo(first.id, even_if_changed=True)
    assert environment.hashes() == before


def _failure(capsys: pytest.CaptureFixture[str], name: str) -> str:
    assert main(["doctor", "--undo", name]) == 2
    return capsys.readouterr().err


def test_repair_without_room_for_its_undo_is_refused_first(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = environment.hashes()
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(1, 1, 10_000))
    with pytest.raises(PlanRefused, match="not enough disk space for an undo copy"):
        apply_plan(appended(environment))
    assert environment.hashes() == before
    assert records() == ()


def small_disk(folder: Path, size: str) -> None:
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if sys.platform != "linux" or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("a small file system cannot be mounted here")


@pytest.mark.parametrize("room", [2, 6, 12, 20, 28, 40])
def test_full_disk_loses_nothing(
    base_environment: Path,
    tmp_path: Path,
    index: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    room: int,
) -> None:
    disk = tmp_path / "disk"
    small_disk(disk, "90m")
    try:
        environment = Environment(base_environment, disk / "venv")
        environment.add(make_wheel(index, "torch", "2.9.0"))
        environment.add(make_wheel(index, "torchvision", "0.19", ("torch==2.4.0",)))
        big = {f"torchvision/{n}.py": "#" * 2**20 for n in range(30)}
        make_wheel(index, "torchvision", "0.24", ("torch==2.9.0",), big)
        monkeypatch.setenv("VIRTUAL_ENV", str(environment.prefix))
        monkeypatch.setattr(apply, "RESERVE_BYTES", 0)  # so that pip itself meets the full disk
        free = shutil.disk_usage(disk).free
        (disk / "filling").write_bytes(b"x" * max(0, free - room * 2**20))
        before = environment.hashes()
        _, done = doctor(capsys, "package_versions", "--fix", "--yes")
        (repair,) = done["repairs"]
        if repair["outcome"] == "repaired":
            doctor(capsys, "--undo", repair["undo"])
        else:
            assert len(repair["reason"]) < 3000 and "Traceback" not in repair["reason"]
        assert environment.hashes() == before
        assert not (environment.prefix / ".gpuforge-undo").exists()
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_undo_that_cannot_put_everything_back_does_not_say_undone(
    environment: Environment, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    record = apply_plan(appended(environment))
    changed = environment.hashes()
    monkeypatch.setattr(apply, "put_back", lambda target, store: None)
    assert main(["doctor", "--undo", record.id]) == 1
    shown = capsys.readouterr()
    assert "undone" not in shown.out and "not everything could be restored" in shown.err
    assert environment.hashes() == changed
    monkeypatch.undo()


SLOW_PIP = """
import os, pathlib, signal, site, sys, time
if "--dry-run" in sys.argv:
    print("{{}}"); sys.exit()
signal.signal(signal.SIGTERM, signal.SIG_IGN)
folder = pathlib.Path(site.getsitepackages()[0])
(folder / "half.py").write_text("half")
pathlib.Path({number!r}).write_text(str(os.getpid()))
while True:
    (folder / "more.py").write_text(str(time.monotonic()))
    time.sleep(0.001)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_pip_ends_with_gpuforge_and_undo_gives_all_back(
    environment: Environment,
    index: Path,
    tmp_path: Path,
    how: signal.Signals,
    capsys: pytest.CaptureFixture[str],
) -> None:
    environment.add(make_wheel(index, "torch", "2.9.0"))
    environment.add(make_wheel(index, "torchvision", "0.19", ("torch==2.4.0",)))
    number = tmp_path / "number"
    (environment.packages / "pip" / "__main__.py").write_text(SLOW_PIP.format(number=str(number)))
    before = environment.hashes()
    process = subprocess.Popen(
        [sys.executable, "-m", "gpuforge", "doctor", "package_versions", "--fix", "--yes"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(Path(gpuforge.__file__).parents[1])},
    )
    while not number.exists() or not number.read_text():
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(how)
    process.wait()
    doctor(capsys, "--undo", records()[-1].id)
    assert environment.hashes() == before
    left = Path(f"/proc/{number.read_text()}/cmdline")  # empty for a process nobody waited for
    assert not left.exists() or not left.read_bytes()


def test_change_that_still_runs_is_not_undone(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gpuforge.changes import lock

    record = apply_plan(appended(environment))
    monkeypatch.setattr(lock, "WAIT_SECONDS", 0.05)
    running = pytest.raises(PlanRefused, match=r"another repair .* is still running")
    with lock.change_lock(), running:
        undo(record.id)
    undo(record.id)


def test_pip_is_told_where_to_install_by_nothing_but_its_python(
    environment: Environment, index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_wheel(index, "six", "1.17")
    for name in ("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT"):
        monkeypatch.setenv(name, str(tmp_path / "elsewhere"))
    monkeypatch.setenv("PIP_USER", "1")
    here = PythonEnvironment(environment.prefix)
    pip_process.run_pip(RunPip(here, ("install", "six")).argv)
    assert "six-1.17" in environment.installed()
    assert not (tmp_path / "elsewhere").exists()


def test_record_of_a_change_is_json(environment: Environment) -> None:
    record = apply_plan(appended(environment))
    text = next(Path(os.environ["XDG_DATA_HOME"]).rglob("record.json")).read_text()
    assert json.loads(text)["state"] == record.state == "applied"
    assert find_record(record.id) == record


@pytest.mark.parametrize(
    "damage", [lambda text: text[:40], lambda text: text.replace('"applied"', "7"), lambda _: "[]"]
)
def test_a_damaged_record_is_named(environment: Environment, damage: Callable[[str], str]) -> None:
    record = apply_plan(appended(environment))
    path = next(Path(os.environ["XDG_DATA_HOME"]).rglob("record.json"))
    path.write_text(damage(path.read_text()))
    with pytest.raises(WorkloadError, match=r"record\.json is damaged"):
        find_record(record.id)


@pytest.mark.parametrize("name", ["json", "copy", "random", "packaging", "tempfile", "numpy"])
@pytest.mark.parametrize("place", ["current folder", "PYTHONPATH"])
def test_module_that_hides_one_of_gpuforge_is_named_by_gpuforge(
    environment: Environment, tmp_path: Path, name: str, place: str
) -> None:
    environment.add(make_wheel(environment.prefix, "packaging", "26.0"))
    environment.add(make_wheel(environment.prefix, "numpy", "2.4.6"))
    work = tmp_path / "work"
    work.mkdir()
    (work / f"{name}.py").write_text("raise SystemExit('the wrong module')\n")
    ours = str(Path(gpuforge.__file__).parents[1])
    paths = [ours] if place == "current folder" else [str(work), ours]
    done = subprocess.run(
        [sys.executable, "-m", "gpuforge", "doctor", "shadowing_modules", "--json"],
        cwd=work if place == "current folder" else tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
    )
    findings = json.loads(done.stdout)["findings"]
    assert [f["evidence"] for f in findings] == [[str(work / f"{name}.py")]], done.stderr
