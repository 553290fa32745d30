"""Real broken environments: found, repaired, checked again, and put back exactly."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import gpuforge
from gpuforge.changes.action import RunPip
from gpuforge.changes.environment import PythonEnvironment
from gpuforge.changes.record import records
from gpuforge.cli.main import main
from gpuforge.facts import Device, Driver, Machine, Toolkit

from .environments import Environment, a_part_of, make_wheel

Wheel = tuple[str, str, tuple[str, ...]]
CUDNN = {"nvidia/cudnn/lib/libcudnn.so.9": "library"}
BLAS = {"nvidia/cublas/lib/libcublas.so.12": "library"}


def nvidia(cuda: str, capability: str = "8.9", driver: str = "570.26") -> Machine:
    served = Driver("nvidia", driver)
    device = Device(0, "nvidia", "GeForce", compute_capability=capability, driver=served)
    return Machine("ok", (device,), toolkits=(Toolkit("cuda", cuda),))


@dataclass
class Scenario:
    """An environment that is broken, and what mends it.

    Attributes
    ----------
    installed : wheels in the environment: name, version, requirements
    offered : wheels of the index
    breaks : what is done to the environment besides
    variables : variables that are set, ``{prefix}`` standing for the environment
    asked : whether the user names the cause, because nothing but an error text shows it
    """

    cause: str
    check: str
    installed: list[Wheel] = field(default_factory=list)
    offered: list[Wheel] = field(default_factory=list)
    machine: Machine | None = None
    breaks: Callable[[Environment], None] | None = None
    files: dict[str, dict[str, str]] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    asked: bool = False

    @property
    def name(self) -> str:
        """What doctor is asked for."""
        return self.cause if self.asked else self.check


def delete(path: str) -> Callable[[Environment], None]:
    return lambda environment: (environment.packages / path).unlink()


def damage_cache(environment: Environment) -> None:
    folder = Path(os.environ["PIP_CACHE_DIR"]) / "wheels" / "ab" / "cd"
    folder.mkdir(parents=True)
    (folder / "torch-2.9.0-py3-none-any.whl").write_bytes(b"half a download")


def leave_remains(environment: Environment) -> None:
    (environment.packages / "~orch").mkdir()
    (environment.packages / "~orch" / "old.py").write_text("x = 1\n")


def add_toolkit(environment: Environment) -> None:
    (environment.prefix / "old-cuda").mkdir()
    (environment.prefix / "old-cuda" / "libcublas.so.11").touch()


def add_compilers(environment: Environment) -> None:
    toolkit = environment.prefix / "cuda" / "include" / "crt"
    toolkit.mkdir(parents=True)
    (toolkit / "host_config.h").write_text(
        "#if __GNUC__ > 12\n#error -- unsupported GNU version! gcc versions later than 12"
        " are not supported!\n#endif\n"
    )
    for name, version in {"g++": "13", "g++-12": "12", "gcc-12": "12"}.items():
        script = environment.prefix / "bin" / name
        script.write_text(f"#!/bin/sh\necho {version}\n")
        script.chmod(0o755)


TORCH_CPU: Wheel = ("torch", "2.9.0+cpu", ())
TORCH_CUDA: Wheel = ("torch", "2.9.0", ())
SCENARIOS = [
    Scenario(
        "cupy_multiple_packages",
        "duplicate_packages",
        [("cupy-cuda11x", "13.6.0", ()), ("cupy-cuda12x", "13.6.0", ())],
        [("cupy-cuda12x", "13.6.0", ())],
    ),
    Scenario("torch_cpu_only_build", "gpu_builds", [TORCH_CPU], [TORCH_CUDA], nvidia("12.8")),
    Scenario(
        "wrong_vendor_build",
        "gpu_builds",
        [("torch", "2.9.0+rocm6.4", ())],
        [TORCH_CUDA],
        nvidia("12.8"),
    ),
    Scenario(
        "torch_no_kernel_for_gpu",
        "gpu_builds",
        [("torch", "2.6.0+cu124", ())],
        [("torch", "2.10.0", ())],
        nvidia("12.9", "12.0"),
    ),
    Scenario(
        "jax_cpu_fallback",
        "gpu_builds",
        [("jax", "0.8.0", ("jax-cuda12-plugin==0.8.0; extra == 'cuda12'",))],
        [("jax-cuda12-plugin", "0.8.0", ())],
        nvidia("12.8"),
    ),
    Scenario(
        "tf_gpu_libs_missing",
        "gpu_builds",
        [("tensorflow", "2.20.0", ("nvidia-cudnn-cu12; extra == 'and-cuda'",))],
        [("nvidia-cudnn-cu12", "9.3.0", ())],
        nvidia("12.8"),
    ),
    Scenario(
        "cupy_wrong_cuda_wheel",
        "gpu_builds",
        [("cupy-cuda13x", "13.6.0", ())],
        [("cupy-cuda12x", "13.6.0", ())],
        nvidia("12.8"),
    ),
    Scenario(
        "torch_extension_abi_mismatch",
        "package_versions",
        [("torch", "2.9.0", ()), ("torchvision", "0.19.0", ("torch==2.4.0",))],
        [("torchvision", "0.24.0", ("torch==2.9.0",))],
    ),
    Scenario(
        "xformers_mismatch",
        "package_versions",
        [("torch", "2.9.0", ()), ("xformers", "0.0.27", ("torch (==2.3.1)",))],
        [("xformers", "0.0.33", ("torch==2.9.0",))],
    ),
    Scenario(
        "jax_plugin_version_mismatch",
        "package_versions",
        [
            ("jax", "0.8.0", ()),
            ("jaxlib", "0.8.0", ()),
            ("jax-cuda12-plugin", "0.7.0", ("jaxlib==0.7.0",)),
        ],
        [
            ("jax", "0.8.0", ("jaxlib==0.8.0",)),
            ("jaxlib", "0.8.0", ()),
            ("jax-cuda12-plugin", "0.8.0", ("jaxlib==0.8.0",)),
        ],
    ),
    Scenario(
        "numpy_abi_mismatch",
        "package_versions",
        [("numpy", "2.3.0", ()), ("numba", "0.59.0", ("numpy <1.27,>=1.22",))],
        [("numpy", "1.26.4", ()), ("numpy", "2.3.0", ())],
    ),
    Scenario(
        "cuda_runtime_lib_missing",
        "package_files",
        [("nvidia-cublas-cu12", "12.8.0", ())],
        [("nvidia-cublas-cu12", "12.8.0", ())],
        breaks=delete("nvidia/cublas/lib/libcublas.so.12"),
        files={"nvidia-cublas-cu12": BLAS},
    ),
    Scenario(
        "cudnn_missing_or_mismatch",
        "package_files",
        [("nvidia-cudnn-cu12", "9.3.0", ())],
        [("nvidia-cudnn-cu12", "9.3.0", ())],
        breaks=delete("nvidia/cudnn/lib/libcudnn.so.9"),
        files={"nvidia-cudnn-cu12": CUDNN},
    ),
    Scenario(
        "bitsandbytes_cuda_setup_failed",
        "package_files",
        [("bitsandbytes", "0.48.0", ())],
        [("bitsandbytes", "0.48.0", ())],
        breaks=delete("bitsandbytes/libbitsandbytes_cuda128.so"),
        files={"bitsandbytes": {"bitsandbytes/libbitsandbytes_cuda128.so": "library"}},
    ),
    Scenario(
        "cupy_headers_missing",
        "gpu_builds",
        [("cupy-cuda12x", "13.6.0", ())],
        [("nvidia-cuda-runtime-cu12", "12.8.90", ())],
        nvidia("12.8"),
        variables={"CUDA_HOME": "{prefix}/nowhere"},
    ),
    Scenario(
        "numba_nvvm_missing",
        "gpu_builds",
        [("numba-cuda", "0.20.0", ()), ("nvidia-cuda-runtime-cu12", "12.8.90", ())],
        [("nvidia-cuda-nvcc-cu12", "12.8.93", ()), ("nvidia-cuda-nvrtc-cu12", "12.8.93", ())],
        nvidia("12.8"),
        variables={"CUDA_HOME": "{prefix}/nowhere"},
    ),
    Scenario(
        "ld_library_path_shadow",
        "environment_variables",
        [("nvidia-cublas-cu12", "12.8.0", ())],
        breaks=add_toolkit,
        variables={"LD_LIBRARY_PATH": "{prefix}/old-cuda"},
    ),
    Scenario(
        "nvcc_host_compiler_unsupported",
        "environment_variables",
        breaks=add_compilers,
        variables={"CUDA_HOME": "{prefix}/cuda", "PATH": "{prefix}/bin:/usr/bin:/bin"},
    ),
    Scenario("gpu_memory_fragmentation", "environment_variables", asked=True),
    Scenario("mps_op_not_implemented", "environment_variables", asked=True),
    Scenario("p2p_access_failure", "environment_variables", asked=True),
    Scenario("pip_hash_mismatch", "package_cache", breaks=damage_cache),
    Scenario("interrupted_install", "package_files", breaks=leave_remains),
]


def build(
    scenario: Scenario, environment: Environment, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf = index.parent / "shelf"
    shelf.mkdir()
    for name, version, requires in scenario.installed:
        wheel = make_wheel(shelf, name, version, requires, scenario.files.get(name))
        environment.add(wheel)
    for name, version, requires in scenario.offered:
        make_wheel(index, name, version, requires, scenario.files.get(name))
    if scenario.breaks:
        scenario.breaks(environment)
    for name, value in scenario.variables.items():
        monkeypatch.setenv(name, value.format(prefix=environment.prefix))
    if scenario.machine:
        machine = scenario.machine
        monkeypatch.setattr("gpuforge.diagnose.site.read_machine", lambda probe: machine)


def doctor(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict]:
    status = main(["doctor", "--json", *arguments])
    return status, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("scenario", a_part_of(SCENARIOS, 3), ids=lambda scenario: scenario.cause)
def test_broken_environment_is_repaired_and_put_back(
    scenario: Scenario,
    environment: Environment,
    index: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    build(scenario, environment, index, monkeypatch)
    before = environment.hashes()
    _, found = doctor(capsys, scenario.name)
    assert [f["cause"] for f in found["findings"]] == [scenario.cause]

    status, done = doctor(capsys, scenario.name, "--fix", "--yes")
    assert [(r["cause"], r["outcome"]) for r in done["repairs"]] == [(scenario.cause, "repaired")]
    assert status == 0

    _, undone = doctor(capsys, "--undo", done["repairs"][0]["undo"])
    assert undone["undone"]["state"] == "undone"
    assert environment.hashes() == before
    _, again = doctor(capsys, scenario.name)
    assert [f["cause"] for f in again["findings"]] == [scenario.cause]


def freeze(environment: Environment) -> str:
    python = environment.prefix / "bin" / "python"
    done = subprocess.run(
        [python, "-m", "pip", "freeze", "--all"], capture_output=True, text=True, check=True
    )
    return done.stdout


def test_undo_restores_what_pip_freeze_shows(
    environment: Environment,
    index: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    build(SCENARIOS[0], environment, index, monkeypatch)
    before = freeze(environment)
    _, done = doctor(capsys, "duplicate_packages", "--fix", "--yes")
    assert freeze(environment) != before
    doctor(capsys, "--undo", done["repairs"][0]["undo"])
    assert freeze(environment) == before


def test_undo_does_not_take_back_what_others_did_since(
    environment: Environment,
    index: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    build(SCENARIOS[-1], environment, index, monkeypatch)
    _, done = doctor(capsys, "package_files", "--fix", "--yes")
    undo = done["repairs"][0]["undo"]
    (environment.packages / "~orch").write_text("new")
    assert main(["doctor", "--undo", undo]) == 1
    assert "was changed by something else" in capsys.readouterr().err
    assert main(["doctor", "--undo", undo, "--yes"]) == 0
    assert (environment.packages / "~orch" / "old.py").exists()
    capsys.readouterr()
    assert main(["doctor", "--undo", undo]) == 1
    assert "already" in capsys.readouterr().err


def test_repair_that_fails_changes_nothing(
    environment: Environment,
    index: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    scenario = Scenario(**{**vars(SCENARIOS[0]), "offered": []})
    build(scenario, environment, index, monkeypatch)
    before = environment.hashes()
    status, done = doctor(capsys, "duplicate_packages", "--fix", "--yes")
    assert status == 1
    assert done["repairs"][0]["outcome"] == "refused"
    assert "pip failed with exit status" in done["repairs"][0]["reason"]
    assert environment.hashes() == before


def test_without_yes_and_without_a_terminal_nothing_is_changed(
    environment: Environment,
    index: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    build(SCENARIOS[0], environment, index, monkeypatch)
    monkeypatch.setattr("sys.stdin", open(os.devnull))  # noqa: SIM115
    before = environment.hashes()
    _, done = doctor(capsys, "duplicate_packages", "--fix")
    assert done["repairs"][0]["outcome"] == "declined"
    assert environment.hashes() == before
    monkeypatch.setenv("GPUFORGE_AUTO_INSTALL", "on")  # the setting agrees in advance
    _, done = doctor(capsys, "duplicate_packages", "--fix")
    sys.stdin.close()
    assert done["repairs"][0]["outcome"] == "repaired"


def test_interruption_leaves_a_record_that_can_be_undone(
    environment: Environment,
    index: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    build(SCENARIOS[0], environment, index, monkeypatch)
    pipe = tmp_path / "started"
    os.mkfifo(pipe)
    # A pip that breaks the environment, says so, and never ends by itself.
    (environment.packages / "pip" / "__main__.py").write_text(
        "import pathlib, signal, site, sys\n"
        "if '--dry-run' in sys.argv: print('{}'); sys.exit()\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "folder = pathlib.Path(site.getsitepackages()[0])\n"
        "(folder / 'cupy_cuda11x' / '__init__.py').write_text('half')\n"
        "(folder / 'half_installed.py').write_text('half')\n"
        f"open({str(pipe)!r}, 'w').write('now')\n"
        "signal.pause()\n"
    )
    before = environment.hashes()
    process = subprocess.Popen(
        [sys.executable, "-m", "gpuforge", "doctor", "duplicate_packages", "--fix", "--yes"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(Path(gpuforge.__file__).parents[1])},
    )
    assert pipe.read_text() == "now"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    record = records()[-1]
    assert record.state == "applying"
    assert (environment.packages / "half_installed.py").exists()
    doctor(capsys, "--undo", record.id)
    assert environment.hashes() == before


def test_variable_that_shadows_libraries_is_unset_at_activation(
    environment: Environment,
    index: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    scenario = Scenario("ld_library_path_shadow", "environment_variables")
    scenario.installed = [("nvidia-cublas-cu12", "12.8.0", ())]
    build(scenario, environment, index, monkeypatch)
    toolkit = tmp_path / "cuda" / "lib64"
    toolkit.mkdir(parents=True)
    (toolkit / "libcublas.so.11").write_text("old")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(toolkit))
    before = environment.hashes()
    _, done = doctor(capsys, scenario.check, "--fix", "--yes")
    repair = done["repairs"][0]
    # The variable of this process stays, and the answer says so; a new shell no longer has it.
    assert repair["outcome"] == "repaired"
    (left,) = done["findings"]
    assert (left["state"], left["cause"]) == (
        "warning",
        "",
    ) and "activate the environment again" in left["message"]
    shown = subprocess.run(
        ["sh", "-c", f". {environment.prefix}/bin/activate; echo ${{LD_LIBRARY_PATH-none}}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.strip() == "none"
    doctor(capsys, "--undo", repair["undo"])
    assert environment.hashes() == before


@pytest.mark.parametrize(
    "scenario",
    [s for s in SCENARIOS if s.asked or s.breaks is add_compilers],
    ids=lambda scenario: scenario.cause,
)
def test_variables_that_a_repair_writes_are_those_of_the_next_shell(
    scenario: Scenario,
    environment: Environment,
    index: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    build(scenario, environment, index, monkeypatch)
    (line,) = doctor(capsys, scenario.name, "--fix", "--yes")[1]["repairs"][0]["commands"]
    (written,) = [word for word in shlex.split(line) if word.startswith("export ")]
    activate = f". {environment.prefix}/bin/activate; env"
    shown = subprocess.run(["sh", "-c", activate], capture_output=True, text=True, check=True)
    wanted = written.removeprefix("export ").split()
    assert set(wanted) <= set(shown.stdout.splitlines())
    for variable in wanted:  # and then nothing is left to do
        monkeypatch.setenv(*variable.split("="))
    (left,) = doctor(capsys, scenario.name)[1]["findings"]
    assert left["state"] == "ok"


def test_a_named_variable_that_is_set_otherwise_is_left_to_the_user(
    environment: Environment, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:128")
    _, done = doctor(capsys, "gpu_memory_fragmentation", "--fix", "--yes")
    assert done["repairs"] == [] and "max_split_size_mb:128" in done["findings"][0]["message"]


def test_the_repair_that_is_named_repairs(
    environment: Environment, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["doctor", "gpu_memory_fragmentation"])
    shown = capsys.readouterr().out
    command = next(line for line in shown.splitlines() if "to repair it" in line)
    main([*command.split("gpuforge ")[1].split(), "--yes"])
    assert "repaired" in capsys.readouterr().out


def test_conda_environments_and_rocm_builds_get_their_own(
    environment: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (environment.prefix / "pyvenv.cfg").unlink()
    (environment.prefix / "conda-meta").mkdir()
    environment.add(make_wheel(tmp_path, "torch", "2.9.0+rocm6.4"))
    _, done = doctor(capsys, "gpu_memory_fragmentation", "--fix", "--yes")
    assert done["repairs"][0]["outcome"] == "repaired"
    script = environment.prefix / "etc" / "conda" / "activate.d" / "gpuforge.sh"
    assert script.read_text() == "export PYTORCH_HIP_ALLOC_CONF=expandable_segments:True\n"


def test_system_python_is_never_changed(tmp_path: Path) -> None:
    def refusal() -> str:
        return RunPip(PythonEnvironment(tmp_path), ("install", "torch")).refusal()

    (tmp_path / "lib" / "python3.12").mkdir(parents=True)
    (tmp_path / "lib" / "python3.12" / "EXTERNALLY-MANAGED").write_text("[externally-managed]\n")
    assert "contains no Python" in refusal()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").touch()
    assert "system Python, which gpuforge never changes" in refusal()
    (tmp_path / "pyvenv.cfg").write_text("home = /usr/bin\n")
    assert "another tool manages this Python" in refusal()
    (tmp_path / "lib" / "python3.12" / "EXTERNALLY-MANAGED").unlink()
    assert "has no pip" in refusal()
    by_hand = RunPip(PythonEnvironment(tmp_path), ("install", "--force-reinstall", "torch")).command
    assert by_hand == f"uv pip install --python {tmp_path}/bin/python --reinstall torch"


def test_each_repair_promised_is_made_for_real() -> None:
    from gpuforge.diagnose.known_error import known_errors

    known = known_errors()
    promised = {cause: error.repaired_by for cause, error in known.items() if error.repaired_by}
    assert promised == {s.cause: s.check for s in SCENARIOS if s.cause in known}
    assert len(promised) >= 10 and all(known[cause].safe_fix for cause in promised)
