"""Creating environments, for real and from an index of its own: whole or not at all."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from index import Index, running_index
from machines import cpu_only

from gpuforge import __version__
from gpuforge.compat.builds import builds
from gpuforge.environment import advice, itself
from gpuforge.environment.create import (
    create_environment,
    fetch_plan,
    switched_path,
)
from gpuforge.environment.failure import explain_failure
from gpuforge.environment.installers import (
    Installer,
    Sources,
    choose_installer,
    find_python,
    find_uv,
)
from gpuforge.environment.place import Place
from gpuforge.environment.planning import Plan
from gpuforge.environment.profile import Profile
from gpuforge.environment.record import is_environment, python_of, read_record
from gpuforge.environment.requirement import parse_requirement
from gpuforge.errors import EnvironmentMismatch, InvalidSettings, PlanRefused

PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
# pip takes seconds for what uv does in parts of one.
INSTALLERS = [
    pytest.param("pip", marks=pytest.mark.slow),
    pytest.param("uv", marks=pytest.mark.skipif(not find_uv(), reason="no uv")),
]
TORCH = "2.15.0"


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    for name in [n for n in os.environ if n.startswith(("PIP_", "UV_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    folder = tmp_path / "wheels"
    folder.mkdir()
    with running_index(folder) as found:
        found.add("torch", TORCH, requires=("tool",))
        found.add("tool", "1.0", script=True)
        yield found


def plan(*packages: str) -> Plan:
    wanted = tuple(parse_requirement(text) for text in packages)
    profile = Profile("mine", packages=wanted, origin="a test")
    return advice.plan(
        profile, machine=cpu_only(), python=PYTHON, framework_index="default", cpu_only=True
    )


def installer(name: str) -> Installer:
    return choose_installer(name, lambda: ("numpy", "tool"))


def sources(index: Index, tmp_path: Path) -> Sources:
    return Sources(wheelhouse=tmp_path / "wheelhouse", index=index.address)


def quiet(what: str, done: int, total: int) -> None:
    assert what
    assert 0 <= done <= total


def nothing_there(path: Path) -> bool:
    return not path.exists() and not Place(path).staging.exists()


@pytest.mark.parametrize("name", ["pip", INSTALLERS[1]])
def test_an_environment_is_whole_under_its_name(name: str, index: Index, tmp_path: Path) -> None:
    path = tmp_path / "my env"
    created = create_environment(plan(), path, installer(name), sources(index, tmp_path), quiet)
    assert created.folder == path
    assert created.record.pins == {"tool": "1.0", "torch": TORCH}
    assert read_record(path) == created.record
    assert not Place(path).staging.exists()
    run = subprocess.run([path / "bin" / "tool"], capture_output=True, text=True, check=True)
    assert run.stdout == "1.0\n"
    run = subprocess.run(
        [python_of(path), "-c", "import sys, torch; print(sys.prefix, torch.__file__)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert run.stdout.count(str(path)) == 2
    text = (path / "bin" / "activate").read_text()
    assert str(path) in text
    assert Place(path).staging.name not in text


@pytest.mark.parametrize("name", INSTALLERS)
def test_a_created_environment_holds_gpuforge(name: str, index: Index, tmp_path: Path) -> None:
    for text in itself.requirements():
        index.add(parse_requirement(text).name, "99.0")
    path = tmp_path / "env"
    created = create_environment(plan(), path, installer(name), sources(index, tmp_path), quiet)
    assert created.without == ""
    activated = f". {path}/bin/activate && cd / && gpuforge --version && command -v gpuforge"
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(["sh", "-c", activated], capture_output=True, text=True, env=variables)
    assert done.stdout.splitlines() == [f"gpuforge {__version__}", f"{path}/bin/gpuforge"]
    listed = subprocess.run(
        [python_of(path), "-c", "import importlib.metadata as m; print(m.requires('gpuforge'))"],
        capture_output=True, text=True, env=variables, check=True,
    ).stdout  # fmt: skip
    assert all(text in listed for text in itself.requirements())


def test_where_gpuforge_cannot_be_is_said(index: Index, tmp_path: Path) -> None:
    created = create_environment(
        plan(), tmp_path / "env", installer(""), sources(index, tmp_path), quiet
    )
    assert "can be resolved only without it" in created.without
    old = next(b for b in builds("tensorflow") if b.version == "2.17.1")
    assert "numpy" in itself.obstacle(old, "3.12")
    assert itself.obstacle(None, "3.10")
    assert itself.obstacle(builds("pytorch")[0], "3.12") == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", INSTALLERS)
def test_downloads_are_kept(name: str, index: Index, tmp_path: Path) -> None:
    found = sources(index, tmp_path)
    pins = fetch_plan(plan(), installer(name), found, quiet)
    assert pins == {"tool": "1.0", "torch": TORCH}
    assert {path.name.split("-")[0] for path in found.wheelhouse.iterdir()} == {"tool", "torch"}
    index.fetched.clear()
    nowhere = replace(found, index="http://127.0.0.1:9/simple", offline=True)
    for which in {"pip", name}:
        create_environment(plan(), tmp_path / f"env-{which}", installer(which), nowhere, quiet)
    assert index.fetched == []


def test_an_environment_that_is_there_stays_unless_replaced(index: Index, tmp_path: Path) -> None:
    path, found = tmp_path / "env", sources(index, tmp_path)
    create_environment(plan(), path, installer(""), found, quiet)
    marker = path / "mine.txt"
    marker.write_text("mine")
    with pytest.raises(PlanRefused) as error:
        create_environment(plan(), path, installer(""), found, quiet)
    assert "--replace" in error.value.hint
    with pytest.raises(EnvironmentMismatch):
        create_environment(plan("absent"), path, installer(""), found, quiet, overwrite=True)
    assert marker.exists()
    create_environment(plan(), path, installer(""), found, quiet, overwrite=True)
    assert not marker.exists()
    assert is_environment(path)
    assert not Place(path).former.exists()


def test_what_is_no_environment_is_never_touched(index: Index, tmp_path: Path) -> None:
    folder, file = tmp_path / "data", tmp_path / "file"
    folder.mkdir()
    (folder / "thesis.txt").write_text("years of work")
    file.write_text("more work")
    link = tmp_path / "link"
    link.symlink_to(sys.prefix)
    for path in (folder, file, link, Path(sys.prefix)):
        with pytest.raises(PlanRefused):
            create_environment(
                plan(), path, installer(""), sources(index, tmp_path), quiet, overwrite=True
            )
    assert (folder / "thesis.txt").read_text() == "years of work"
    assert file.read_text() == "more work"


def test_a_place_that_cannot_be_is_said(index: Index, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for path in (file / "env", Path("/proc/no/env")):
        with pytest.raises(EnvironmentMismatch, match="cannot create"):
            create_environment(plan(), path, installer(""), sources(index, tmp_path), quiet)
    with pytest.raises(PlanRefused, match="cannot hold"):
        create_environment(plan(), Path("/"), installer(""), sources(index, tmp_path), quiet)


def test_what_a_killed_run_left_is_cleared(index: Index, tmp_path: Path) -> None:
    path = tmp_path / "env"
    place = Place(path)
    place.staging.mkdir()
    gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"],
                          capture_output=True, text=True, check=True)  # fmt: skip
    (place.staging / ".gpuforge-unfinished").write_text(gone.stdout.strip())
    create_environment(plan(), path, installer(""), sources(index, tmp_path), quiet)
    assert is_environment(path)
    assert not place.staging.exists()


def test_two_runs_do_not_build_in_one_place(index: Index, tmp_path: Path) -> None:
    place = Place(tmp_path / "env")
    place.staging.mkdir()
    (place.staging / ".gpuforge-unfinished").write_text(str(os.getppid()))
    with pytest.raises(PlanRefused, match="is creating"):
        create_environment(plan(), place.path, installer(""), sources(index, tmp_path), quiet)
    assert place.staging.exists()


def test_a_folder_of_the_users_is_built_around(index: Index, tmp_path: Path) -> None:
    place = Place(tmp_path / "env")
    place.staging.mkdir()
    (place.staging / "notes.txt").write_text("mine")
    create_environment(plan(), place.path, installer(""), sources(index, tmp_path), quiet)
    assert (place.staging / "notes.txt").read_text() == "mine"
    assert is_environment(place.path)


def test_two_environments_are_made_at_once_in_one_folder(tmp_path: Path) -> None:
    """Their names may differ in their first character alone."""
    places = [Place(tmp_path / name) for name in ("a", "b", "env", "fnv")]
    for place in places:
        place.prepare(overwrite=False)
    assert len({place.staging for place in places}) == 4
    assert all(len(str(p.staging)) == len(str(p.path)) for p in places)
    for place in places:
        (place.staging / "pyvenv.cfg").write_text("")
        place.finish()
    assert sorted(os.listdir(tmp_path)) == ["a", "b", "env", "fnv"]


@pytest.mark.skipif(sys.platform != "linux", reason="children end with their parent on Linux")
def test_replacing_survives_a_kill_at_any_moment(index: Index, tmp_path: Path) -> None:
    path = tmp_path / "env"
    create_environment(plan(), path, installer(""), sources(index, tmp_path), quiet)
    argv = [sys.executable, "-m", "gpuforge", "env", "create", "--profile", "lightweight", "--yes",
            "--replace", "--framework", "pytorch", "--cpu-only", "--framework-index", "default",
            "--index", index.address, "--path", str(path)]  # fmt: skip
    for name in ("numpy", "onnxruntime", "safetensors", "tqdm"):
        index.add(name, "3.0")
    variables = {**os.environ, "TMPDIR": str(tmp_path)}  # killed processes leave what is there
    for tenths in range(3, 23, 2):
        process = subprocess.Popen(
            argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=variables
        )
        try:
            process.wait(tenths / 10)
        except subprocess.TimeoutExpired:
            process.kill()
        process.wait()
    again = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert "created" in again.stderr, again.stderr
    assert is_environment(path)
    left = {name for name in os.listdir(tmp_path) if "env" in name or "gpuforge" in name}
    assert left == {"env"}


@pytest.mark.parametrize("moment", ["former moved", "new one named", "former half removed"])
def test_a_kill_in_the_last_steps_loses_nothing(moment: str, index: Index, tmp_path: Path) -> None:
    path, found = tmp_path / "env", sources(index, tmp_path)
    create_environment(plan(), path, installer(""), found, quiet)
    place = Place(path)
    path.rename(place.former)
    if moment != "former moved":
        create_environment(plan(), tmp_path / "new", installer(""), found, quiet)
        (tmp_path / "new").rename(path)
        (path / ".gpuforge-unfinished").write_text("999999999")
    if moment == "former half removed":
        (place.former / "pyvenv.cfg").unlink()
    create_environment(plan(), path, installer(""), found, quiet, overwrite=True)
    assert is_environment(path)
    assert not place.former.exists()
    assert not (path / ".gpuforge-unfinished").exists()


def test_a_replacement_that_was_cut_off_is_put_back(index: Index, tmp_path: Path) -> None:
    path, found = tmp_path / "env", sources(index, tmp_path)
    create_environment(plan(), path, installer(""), found, quiet)
    place = Place(path)
    path.rename(place.former)
    with pytest.raises(PlanRefused, match="already"):
        create_environment(plan(), path, installer(""), found, quiet)
    assert is_environment(path)


@pytest.mark.parametrize("name", INSTALLERS)
def test_a_wrong_package_name_is_named_with_a_suggestion(
    name: str, index: Index, tmp_path: Path
) -> None:
    path = tmp_path / "env"
    with pytest.raises(EnvironmentMismatch) as error:
        create_environment(plan("numpyy"), path, installer(name), sources(index, tmp_path), quiet)
    assert "'numpyy'" in str(error.value)
    assert error.value.hint == "did you mean 'numpy'?"
    assert nothing_there(path)


@pytest.mark.parametrize("name", INSTALLERS)
def test_a_missing_index_is_said(name: str, index: Index, tmp_path: Path) -> None:
    path = tmp_path / "env"
    nowhere = Sources(wheelhouse=tmp_path / "wheelhouse", index="http://127.0.0.1:9/simple")
    with pytest.raises(EnvironmentMismatch, match="index cannot be reached") as error:
        create_environment(plan(), path, installer(name), nowhere, quiet)
    assert "--index" in error.value.hint
    assert nothing_there(path)


@pytest.mark.parametrize("name", INSTALLERS)
def test_a_broken_wheel_leaves_nothing(name: str, index: Index, tmp_path: Path) -> None:
    path = tmp_path / "env"
    wheel = index.add("broken", "1.0")
    wheel.write_bytes(wheel.read_bytes()[:100])
    with pytest.raises(EnvironmentMismatch):
        create_environment(plan("broken"), path, installer(name), sources(index, tmp_path), quiet)
    assert nothing_there(path)


@pytest.mark.parametrize("name", INSTALLERS)
def test_two_cuda_majors_are_refused_before_anything_is_installed(
    name: str, index: Index, tmp_path: Path
) -> None:
    path = tmp_path / "env"
    index.add("nvidia-nccl-cu12", "2.0")
    index.add("nvidia-nccl-cu13", "2.0")
    index.add("both", "1.0", requires=("nvidia-nccl-cu12", "nvidia-nccl-cu13"))
    with pytest.raises(EnvironmentMismatch, match="two CUDA majors"):
        create_environment(plan("both"), path, installer(name), sources(index, tmp_path), quiet)
    assert nothing_there(path)


@pytest.mark.parametrize("name", INSTALLERS)
def test_a_conflict_is_explained(name: str, index: Index, tmp_path: Path) -> None:
    path = tmp_path / "env"
    index.add("wants-old-tool", "1.0", requires=("tool<1",))
    with pytest.raises(EnvironmentMismatch, match="tool"):
        create_environment(
            plan("wants-old-tool"), path, installer(name), sources(index, tmp_path), quiet
        )
    assert nothing_there(path)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="mounting needs root")
@pytest.mark.parametrize("name", INSTALLERS)
def test_a_full_disk_is_said_and_leaves_nothing(name: str, index: Index, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(small)])
    if mounted.returncode != 0:
        pytest.skip("tmpfs cannot be mounted here")
    try:
        path = small / "env"
        with pytest.raises(EnvironmentMismatch, match="the disk is full"):
            create_environment(plan(), path, installer(name), sources(index, tmp_path), quiet)
        assert nothing_there(path)
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_an_interrupted_create_leaves_nothing_and_can_be_run_again(
    index: Index, tmp_path: Path, own_home: Path
) -> None:
    profiles = own_home / "config" / "gpuforge" / "profiles"
    profiles.mkdir(parents=True)
    (profiles / "mine.toml").write_text('packages = ["stalling"]')
    path = tmp_path / "env"
    index.add("stalling", "1.0")
    index.stalls_on = "stalling"
    argv = [sys.executable, "-m", "gpuforge", "env", "create", "--profile", "mine", "--yes",
            "--framework", "pytorch", "--cpu-only", "--framework-index", "default",
            "--index", index.address, "--path", str(path)]  # fmt: skip
    process = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, start_new_session=True)
    assert index.stalled.wait(60)
    assert Place(path).staging.exists()
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "interrupted" in said
    assert nothing_there(path)
    index.stalls_on = ""
    index.go_on.set()
    again = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert is_environment(path), again.stderr
    # The wheel called torch here computes nothing, and verification says so.
    assert again.returncode == 1
    assert "does not work" in again.stdout


def test_a_refused_plan_creates_nothing(tmp_path: Path, index: Index) -> None:
    found = advice.plan(
        Profile("bare"), "tensorflow", machine=cpu_only(), accelerator="cuda", python=PYTHON
    )
    with pytest.raises(EnvironmentMismatch):
        create_environment(found, tmp_path / "env", installer(""), sources(index, tmp_path), quiet)
    assert nothing_there(tmp_path / "env")


def test_switching_names_and_finds_the_environments(index: Index, tmp_path: Path) -> None:
    base, found = tmp_path / ".venv", sources(index, tmp_path)
    create_environment(plan(), base, installer(""), found, quiet)
    path, record = switched_path(base, "jax")
    assert (path, record.base) == (tmp_path / ".venv-jax", ".venv")
    assert switched_path(base, "pytorch")[0] == base
    index.add("jax", "0.10.2")
    jax = advice.plan(
        Profile("mine"), "jax", machine=cpu_only(), python=PYTHON, cpu_only=True, version="0.10.2"
    )
    create_environment(jax, path, installer(""), found, quiet, base=record.base)
    assert switched_path(path, "pytorch")[0] == base
    assert switched_path(path, "tensorflow")[0] == tmp_path / ".venv-tensorflow"
    with pytest.raises(PlanRefused):
        switched_path(tmp_path, "jax")


def test_a_broken_record_is_named(tmp_path: Path) -> None:
    (tmp_path / "gpuforge-environment.json").write_text(json.dumps({"profile": "x"}))
    with pytest.raises(InvalidSettings, match=r"environment\.json cannot be read"):
        read_record(tmp_path)


def test_a_python_that_is_not_there_is_said() -> None:
    with pytest.raises(EnvironmentMismatch, match=r"3\.99"):
        find_python("3.99")
    assert find_python(PYTHON)


@pytest.mark.parametrize(
    ("tail", "meaning"),
    [
        ("error: failed to copy: No space left on device (os error 28)", "the disk is full"),
        ("ERROR: Could not install packages due to an OSError: [Errno 28] ENOSPC", "disk is full"),
        ("error: Failed to fetch: `https://x/`\n  dns error", "cannot be reached"),
        (
            "WARNING: Retrying (Retry(total=1, connect=None, status=None)) after connection broken"
            " by 'NewConnectionError('<pip._vendor.urllib3.connection.HTTPSConnection object at"
            " 0x7f>: Failed to establish a new connection: [Errno 111] Connection refused')':"
            " /simple/numpy/",
            "('NewConnectionError('Failed to establish a new connection",
        ),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM", "does not match its hash"),
        ("HTTP status client error (403 Forbidden)", "refuses access"),
        ("error: externally-managed-environment", "managed by the system"),
        ("PermissionError: [Errno 13] Permission denied: '/x'", "cannot be written"),
        ("", "the installer printed nothing"),
        ("error: something new\n  of two lines", "something new of two lines"),
    ],
)
def test_an_installers_last_words_are_explained(tail: str, meaning: str) -> None:
    error = explain_failure(tail, "installing")
    assert meaning in str(error)
    assert error.hint


def test_long_last_words_end_with_a_whole_word() -> None:
    said = str(explain_failure("error: Failed to fetch: " + "because " * 200, "installing"))
    assert said.endswith("because ...)")
