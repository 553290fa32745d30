"""What earlier installations, other systems and other environments left behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gpuforge.changes.environment import PythonEnvironment
from gpuforge.diagnose import run
from gpuforge.diagnose.finding import Finding
from gpuforge.diagnose.requirement import Requirements
from gpuforge.diagnose.run import run_checks

from .environments import Environment, make_wheel

MINOR = f"python3.{sys.version_info.minor}"


def named(*checks: str) -> tuple[Finding, ...]:
    return run_checks(*checks).having("error", "warning", "unknown")


def test_what_pip_moved_aside_is_no_package(environment: Environment, tmp_path: Path) -> None:
    environment.add(make_wheel(tmp_path, "numpy", "2.0.0"))
    info = environment.packages / "numpy-2.0.0.dist-info"
    info.rename(info.with_name("~umpy-2.0.0.dist-info"))
    (finding,) = named("package_files")
    assert finding.cause == "interrupted_install"


def test_an_environment_of_windows_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "venv" / "Scripts").mkdir(parents=True)
    (tmp_path / "venv" / "Scripts" / "python.exe").touch()
    (tmp_path / "venv" / "Lib" / "site-packages").mkdir(parents=True)
    (tmp_path / "venv" / "pyvenv.cfg").write_text("version = 3.11.4\n")
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "venv"))
    (finding,) = named("python_environment")
    assert "was created on Windows" in finding.message


@pytest.mark.parametrize("kind", ["conda", "mixed", "virtual"])
def test_packages_of_the_user_come_where_python_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    prefix, user = tmp_path / "here", tmp_path / "user" / "lib" / MINOR / "site-packages"
    own = prefix / "lib" / MINOR / "site-packages"
    for folder in (own, user, prefix / "conda-meta"):
        folder.mkdir(parents=True)
    if kind != "conda":
        (prefix / "conda-meta").rmdir()
        mixed = str(kind == "mixed").lower()
        text = f"home = {tmp_path}/bin\ninclude-system-site-packages = {mixed}\n"
        (prefix / "pyvenv.cfg").write_text(f"{text}version = {sys.version.split()[0]}\n")
    monkeypatch.setattr("site.getuserbase", lambda: str(tmp_path / "user"))
    expected = {"conda": (user, own), "mixed": (own, user), "virtual": (own,)}[kind]
    assert PythonEnvironment(prefix).folders == expected
    monkeypatch.setenv("PYTHONNOUSERSITE", "1")
    assert PythonEnvironment(prefix).folders == (own,)


def test_a_version_is_told_with_its_folder_where_that_is_elsewhere(
    environment: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = tmp_path / "user" / "lib" / MINOR / "site-packages"
    user.mkdir(parents=True)
    config = environment.prefix / "pyvenv.cfg"
    config.write_text(config.read_text().replace("packages = false", "packages = true"))
    monkeypatch.setattr("site.getuserbase", lambda: str(tmp_path / "user"))
    environment.add(make_wheel(tmp_path, "science", "1.0", ("base-lib>=2",)))
    environment.packages = user
    environment.add(make_wheel(tmp_path, "base-lib", "1.0"))
    messages = [finding.message for finding in named("package_versions")]
    assert f"science requires base-lib>=2; 1.0 of {user} is installed" in messages


def test_a_path_file_to_packages_of_another_python_is_named(
    environment: Environment, tmp_path: Path
) -> None:
    folder, real = tmp_path / "old", environment.packages
    folder.mkdir()
    environment.packages = folder
    module = "fast/core.cpython-36m-x86_64-linux-gnu.so"
    wheel = make_wheel(tmp_path, "fast", "1.0", files={"fast/__init__.py": "", module: "x"})
    environment.add(wheel)
    (folder / "fast-1.0.dist-info" / "WHEEL").write_text("Tag: cp36-cp36m-linux_x86_64\n")
    (real / "old.pth").write_text(f"{folder}\n")
    (finding,) = named("package_files")
    assert finding.message.startswith(f"fast 1.0 in {folder} was compiled for Python 3.6")


def test_a_library_of_zeros_is_named(environment: Environment, tmp_path: Path) -> None:
    files = {"fast/__init__.py": "", "fast/core.so": "\0" * 200}
    environment.add(make_wheel(tmp_path, "fast", "1.0", files=files))
    (finding,) = named("package_files")
    assert finding.message.endswith("1 of its files are truncated, empty or damaged")


def test_a_damaged_pip_is_not_told_to_install_itself(environment: Environment) -> None:
    info = next(environment.packages.glob("pip-*.dist-info"))
    record = info / "RECORD"
    record.write_text(f"pip/gone.py,,\n{record.read_text()}")
    (info / "INSTALLER").write_text("pip\n")
    found = next(one for one in named("package_files") if one.message.startswith("pip "))
    assert found.steps[0].endswith("-m ensurepip") and not found.repair


def test_several_versions_are_one_finding(environment: Environment, tmp_path: Path) -> None:
    for version in ("1.9.0", "1.10.0"):
        files = {"thing/__init__.py": "", "thing/_version.py": f"v = {version!r}"}
        environment.add(make_wheel(tmp_path, "thing", version, files=files))
    (finding,) = named("package_files", "duplicate_packages")
    assert finding.steps[0].endswith("--no-deps thing==1.10.0")


def test_steps_name_the_installer_that_the_environment_has(
    environment: Environment, tmp_path: Path
) -> None:
    import shutil

    with open(environment.prefix / "pyvenv.cfg", "a") as file:
        file.write("uv = 0.9.0\n")
    (environment.packages / "pip").rename(tmp_path / "pip")
    shutil.rmtree(next(environment.packages.glob("pip-*.dist-info")))
    needs = [f"part{number}" for number in range(7)]
    environment.add(make_wheel(tmp_path, "science", "1.0", tuple(needs)))
    (finding,) = named("package_versions")
    install = f"uv pip install --python {environment.prefix}/bin/python"
    assert finding.steps[0] == f"Install what is missing: {install} {' '.join(needs)}"


def test_steps_name_the_pip_module_where_there_is_no_program(
    environment: Environment, tmp_path: Path
) -> None:
    """As where pip is that of the system: the shell would find another Python's program."""
    (environment.prefix / "bin" / "pip").unlink()
    environment.add(make_wheel(tmp_path, "science", "1.0", ("part",)))
    (finding,) = named("package_versions")
    assert f": {environment.prefix}/bin/python -m pip install part" in finding.steps[0]


def test_steps_name_an_option_that_uv_has(environment: Environment, tmp_path: Path) -> None:
    with open(environment.prefix / "pyvenv.cfg", "a") as file:
        file.write("uv = 0.9.0\n")
    (environment.packages / "pip").rename(tmp_path / "pip")
    environment.add(make_wheel(tmp_path, "mine", "1.0"))
    (environment.packages / "mine-1.0.dist-info" / "METADATA").unlink()
    (finding,) = [f for f in named("package_files") if f.message.startswith("mine ")]
    assert finding.steps[0].endswith("/bin/python --reinstall mine==1.0")


def test_a_missing_program_of_nvidia_is_no_missing_library(
    environment: Environment, tmp_path: Path
) -> None:
    environment.add(make_wheel(tmp_path, "gpustat", "1.1.1", ("nvidia-ml-py>=11",)))
    (finding,) = named("package_versions")
    assert finding.cause == "requirement_missing"


def test_the_pip_of_another_python_is_named(environment: Environment) -> None:
    """It installs there, which nobody sees until an import fails."""
    python = (environment.prefix / "bin" / "python").resolve()
    (environment.prefix / "bin" / "pip").write_text(f"#!{python}\nimport pip\n")
    (finding,) = named("python_environment")
    assert f"{python}, which is that of another environment" in finding.message


def test_lost_settings_are_written_by_the_python_that_the_environment_has(
    environment: Environment,
) -> None:
    """The environment's own would link to itself; without --clear, the packages stay."""
    real = (environment.prefix / "bin" / "python").resolve()
    (environment.prefix / "pyvenv.cfg").unlink()
    (finding,) = named("python_environment")
    command = finding.steps[0].partition(": ")[2]
    assert command == f"{real} -m venv {environment.prefix}"
    subprocess.run(command.split(), check=True)
    assert not named("python_environment")


def test_of_two_that_overwrite_each_other_the_one_that_is_looked_after_stays(
    environment: Environment, tmp_path: Path
) -> None:
    """jwt names Python 3.9 as its newest, PyJWT 3.13: https://pypi.org/project/PyJWT/."""
    for name, minor in {"jwt": 9, "pyjwt": 13}.items():
        environment.add(make_wheel(tmp_path, name, "1.0", files={"jwt/__init__.py": f"# {name}"}))
        info = environment.packages / f"{name}-1.0.dist-info"
        with open(info / "METADATA", "a") as metadata:
            metadata.write(f"Classifier: Programming Language :: Python :: 3.{minor}\n")
        record = (info / "RECORD").read_text()
        (info / "RECORD").write_text(
            record.replace("jwt/__init__.py,,", f"jwt/__init__.py,{name},9")
        )
    (finding,) = named("duplicate_packages")
    assert finding.steps[0].endswith("pip install pyjwt")


def test_a_plugin_of_jax_of_another_version_is_named_by_its_cause(
    environment: Environment, tmp_path: Path
) -> None:
    environment.add(make_wheel(tmp_path, "jax", "0.7.0", ("jax-cuda12-plugin>=0.7",)))
    environment.add(make_wheel(tmp_path, "jax-cuda12-plugin", "0.6.0"))
    (finding,) = named("package_versions")
    assert finding.cause == "jax_plugin_version_mismatch"


def test_a_requirement_of_several_extras_is_told_once() -> None:
    lines = tuple(f"jax-cuda12-plugin==0.7 ; extra == '{extra}'" for extra in ("a", "b", "c"))
    required = Requirements({"jax": "0.7", "jax-cuda12-plugin": "0.6"}, {"jax": lines}, "3.11.7")
    assert len(required.unmet()) == 1


def test_a_library_that_is_meant_to_be_empty_is_not_cut(
    environment: Environment, tmp_path: Path
) -> None:
    environment.add(make_wheel(tmp_path, "stub", "1.0", files={"stub/none.so": ""}))
    assert not named("package_files")


def test_steps_name_the_installer_without_touching_other_words() -> None:
    def shown(step: str) -> str:
        return run._PIP.sub(lambda found: f"uv pip {found[1]} --python C:\\Users\\me ", step)

    assert shown("pip install x; python -m pip uninstall y") == (
        "uv pip install --python C:\\Users\\me x; uv pip uninstall --python C:\\Users\\me y"
    )
    for step in ("uv pip install x", "/other/bin/python -m pip install x"):
        assert shown(step) == step
