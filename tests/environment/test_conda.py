"""Creating with conda's family, from a channel of the test's own: whole or not at all.

With the ``conda`` of this machine where there is one, and with py-rattler behind conda's words.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from channel import build_channel
from index import Index, running_index
from machines import cpu_only

from gpuforge.environment import advice
from gpuforge.environment.conda import PROGRAMS
from gpuforge.environment.create import create_environment, switched_path
from gpuforge.environment.installers import Sources, choose_installer, find_uv
from gpuforge.environment.place import Place
from gpuforge.environment.planning import Plan
from gpuforge.environment.process import run_lines
from gpuforge.environment.profile import Profile
from gpuforge.environment.record import is_environment, python_of, read_record
from gpuforge.errors import EnvironmentMismatch, PlanRefused

HERE = Path(__file__).parent
PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
REAL = shutil.which("conda")
# pip takes ten times as long for the wheels, and is tried elsewhere.
with_uv = pytest.mark.skipif(not find_uv(), reason="no uv, which keeps this short")

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="the test's channel is for Linux"
)


@pytest.fixture(scope="module")
def channel(tmp_path_factory: pytest.TempPathFactory) -> str:
    return build_channel(tmp_path_factory.mktemp("channel"))


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    folder = tmp_path / "wheels"
    folder.mkdir()
    with running_index(folder) as found:
        found.add("torch", "2.15.0", requires=("tool",))
        found.add("tool", "1.0", script=True)
        yield found


def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, body: str) -> Path:
    """Put a program `name` on the search path, alone of its family."""
    folder = tmp_path / "bin"
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    uv = shutil.which("uv")
    kept = [str(Path(uv).parent)] if uv else []
    monkeypatch.setenv("PATH", os.pathsep.join([str(folder), *kept, "/usr/bin", "/bin"]))
    return path


@pytest.fixture(
    params=[
        "rattler",
        pytest.param("conda", marks=pytest.mark.skipif(not REAL, reason="no conda here")),
    ]
)
def program(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if request.param == "rattler":
        pytest.importorskip("rattler", reason="py-rattler solves and links")
        monkeypatch.setenv("RATTLER_CACHE", str(tmp_path / "cache"))
        stand_in = HERE / "rattler_install.py"
        script(tmp_path, monkeypatch, "conda", f'exec "{sys.executable}" "{stand_in}" "$@"')


def plan(python: str = PYTHON) -> Plan:
    return advice.plan(
        Profile("mine", origin="a test"), machine=cpu_only(), python=python,
        framework_index="default", cpu_only=True,
    )  # fmt: skip


def sources(channel: str, index: Index, tmp_path: Path) -> Sources:
    return Sources(tmp_path / "wheelhouse", index=index.address, channels=(channel,))


def quiet(what: str, done: int, total: int) -> None:
    assert what
    assert 0 <= done <= total


def nothing_there(path: Path) -> bool:
    return not path.exists() and not Place(path).staging.exists()


@with_uv
@pytest.mark.usefixtures("program")
def test_conda_makes_an_environment_that_is_whole_under_its_name(
    channel: str, index: Index, tmp_path: Path
) -> None:
    path = tmp_path / "my env"
    conda = choose_installer("conda", tuple)
    created = create_environment(plan(), path, conda, sources(channel, index, tmp_path), quiet)
    assert created.record.installer == "conda"
    assert created.record.pins == {"tool": "1.0", "torch": "2.15.0"}
    assert any((path / "conda-meta").glob("python-*.json"))
    assert not Place(path).staging.exists()
    said = subprocess.run(
        [python_of(path), "-c", "import sys, torch; print(sys.prefix, torch.__file__)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert said.stdout.count(str(path)) == 2
    for name in ("tool", "pip"):
        subprocess.run([path / "bin" / name, "--version"], capture_output=True, check=True)
    staged = os.fsencode(Place(path).staging)
    held = [p for p in path.rglob("*") if p.is_file() and p.suffix != ".pyc"]
    assert not [p for p in held if staged in p.read_bytes()]


@with_uv
@pytest.mark.usefixtures("program")
def test_an_environment_of_conda_is_replaced_only_when_the_new_one_is_whole(
    channel: str, index: Index, tmp_path: Path
) -> None:
    path, found = tmp_path / "env", sources(channel, index, tmp_path)
    conda = choose_installer("conda", tuple)
    create_environment(plan(), path, conda, found, quiet)
    (path / "mine.txt").write_text("mine")
    with pytest.raises(PlanRefused, match="already"):
        create_environment(plan(), path, conda, found, quiet)
    nowhere = sources("http://127.0.0.1:9/channel", index, tmp_path)
    with pytest.raises(EnvironmentMismatch, match="channel cannot be reached"):
        create_environment(plan(), path, conda, nowhere, quiet, overwrite=True)
    assert (path / "mine.txt").exists()
    create_environment(plan(), path, conda, found, quiet, overwrite=True)
    assert not (path / "mine.txt").exists()
    assert switched_path(path, "jax")[0] == tmp_path / "env-jax"


@with_uv
@pytest.mark.usefixtures("program")
def test_what_the_channel_lacks_is_said_and_leaves_nothing(index: Index, tmp_path: Path) -> None:
    path = tmp_path / "env"
    old = build_channel(tmp_path, python="3.9.1")
    with pytest.raises(EnvironmentMismatch, match="channel does not have") as error:
        create_environment(
            plan(), path, choose_installer("conda", tuple), sources(old, index, tmp_path), quiet
        )
    assert "--channel" in error.value.hint
    assert nothing_there(path)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_that_is_not_there_is_said(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for variable in ("CONDA_EXE", "MAMBA_EXE"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(EnvironmentMismatch, match=name) as error:
        choose_installer(name, tuple)
    assert error.value.hint


def test_the_format_conda_takes_any_program_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(tmp_path, monkeypatch, "micromamba", "exit 1")
    assert choose_installer("conda", tuple).name == "micromamba"
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("MAMBA_EXE", str(tmp_path / "bin" / "micromamba"))
    assert choose_installer("micromamba", tuple).name == "micromamba"


@pytest.mark.parametrize("name", ["conda", "mamba", "micromamba"])
def test_each_program_is_given_these_words(
    name: str, tmp_path: Path, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(tmp_path, monkeypatch, name, f'printf "%s\\n" "$@" > {tmp_path}/said; exit 1')
    found = sources("conda-forge", index, tmp_path)
    with pytest.raises(EnvironmentMismatch):
        create_environment(plan(), tmp_path / "env", choose_installer(name, tuple), found, quiet)
    assert (tmp_path / "said").read_text().splitlines() == [
        "install", "--yes", "--quiet", "--prefix", str(tmp_path / "~nv"), "--override-channels",
        "--channel", "conda-forge", f"python {PYTHON}.*", "pip >=24", "__glibc >=2.28",
    ]  # fmt: skip
    assert nothing_there(tmp_path / "env")


def test_an_installer_that_ctrl_c_ended_was_interrupted() -> None:
    """Python may lose a Ctrl-C that comes while it starts the installer."""
    ends = "import os, signal; signal.signal(2, signal.SIG_DFL); os.kill(os.getpid(), 2)"
    with pytest.raises(KeyboardInterrupt):
        run_lines([sys.executable, "-c", ends])


def test_an_interrupted_conda_leaves_nothing(
    tmp_path: Path, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(tmp_path, monkeypatch, "conda", f"touch {tmp_path}/stalled; exec sleep 60")
    path = tmp_path / "env"
    argv = [sys.executable, "-m", "gpuforge", "env", "create", "--profile", "lightweight", "--yes",
            "--cpu-only", "--installer", "conda", "--path", str(path)]  # fmt: skip
    process = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, start_new_session=True)
    while not (tmp_path / "stalled").exists():
        assert process.poll() is None
    assert Place(path).staging.exists()
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert nothing_there(path)


PIXI = r"""
home=$(dirname "$3")/.pixi/envs/default
mkdir -p "$home/conda-meta"
"{python}" -m venv "$home"
printf '%s' "$home" > "$home/conda-meta/pixi_env_prefix"
touch "$(dirname "$3")/pixi.lock"
exec "$home/bin/python" -m pip install --quiet --index-url "{index}" torch
"""


@with_uv
def test_a_workspace_of_pixi_is_made_as_its_words_say(
    tmp_path: Path, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pixi itself is nowhere to be had: this shows what is asked of it, not that it obeys."""
    base = getattr(sys, "_base_executable", sys.executable)
    script(tmp_path, monkeypatch, "pixi", PIXI.format(python=base, index=index.address))
    path, found = tmp_path / "env", sources("conda-forge", index, tmp_path)
    pixi = choose_installer("pixi", tuple)
    created = create_environment(plan(), path, pixi, found, quiet)
    assert created.record.installer == "pixi"
    assert created.record.pins["torch"] == "2.15.0"
    manifest = (path / "pixi.toml").read_text()
    assert f'index-url = "{index.address}"' in manifest
    home = path / ".pixi" / "envs" / "default"
    assert (home / "conda-meta" / "pixi_env_prefix").read_text() == str(home)
    assert python_of(path) == home / "bin" / "python"
    assert read_record(path) == created.record
    create_environment(plan(), path, pixi, found, quiet, overwrite=True)
    (path / "analysis.py").write_text("years of work")
    assert not is_environment(path)
    with pytest.raises(PlanRefused, match="is not a Python environment"):
        create_environment(plan(), path, pixi, found, quiet, overwrite=True)
    assert (path / "analysis.py").read_text() == "years of work"
