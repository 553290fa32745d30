"""Does doctor call healthy environments healthy? Environments of many kinds, made for real.

usage: python benchmarks/healthy_environments.py [NAME ...]    (from a checkout)

Packages come from pip's configured index. A kind that cannot be made here is listed as such.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from tests.diagnose.environments import make_wheel  # noqa: E402

HERE = {name: value for name, value in os.environ.items()
        if not name.startswith(("VIRTUAL_ENV", "CONDA", "PYTHON", "LD_LIB"))}  # fmt: skip
SCIENCE = ("numpy==2.4.6", "pandas==2.3.3", "scipy==1.17.1", "scikit-learn==1.9.1", "matplotlib")
PROFILES = ("lightweight", "learning", "nlp", "computer_vision", "research", "production",
            "reinforcement_learning", "deep_learning")  # fmt: skip
# Doctor as this Python runs it, for the environment that VIRTUAL_ENV names or, without, its own.
DOCTOR = """
import sys
sys.path[:0] = {paths!r}
from gpuforge.cli.main import main
if {gpu!r}:
    import gpuforge.diagnose.site
    from tests.diagnose.test_repairs import nvidia
    gpuforge.diagnose.site.read_machine = lambda probe: nvidia({gpu!r})
del sys.path[:{count}]
sys.exit(main(["doctor", "--json"]))
"""


def run(*argv: str | Path, cwd: Path | None = None, **environ: str) -> None:
    subprocess.run([*map(str, argv)], check=True, env={**HERE, **environ}, cwd=cwd,
                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)  # fmt: skip


def uv() -> str:
    beside = Path(sys.executable).with_name("uv")
    return str(beside) if beside.exists() else shutil.which("uv") or "uv"


def install(prefix: Path, *packages: str | Path) -> None:
    """Install by uv, which is quick; two of the kinds are pip's."""
    links = HERE.get("PIP_FIND_LINKS", "").split()
    more = [part for link in links for part in ("--find-links", link)]
    if packages:
        run(uv(), "pip", "install", "-q", "--python", prefix / "bin/python", *more, *packages)


def venv(*packages: str, options: tuple[str, ...] = (), python: str = sys.executable) -> Any:
    def make(folder: Path) -> Path:
        run(python, "-m", "venv", *options, folder / "venv")
        install(folder / "venv", *packages)
        return folder / "venv"

    return make


def by_pip(*arguments: str) -> Any:
    def make(folder: Path) -> Path:
        run(sys.executable, "-m", "venv", folder / "venv")
        run(folder / "venv/bin/python", "-m", "pip", "install", "-q", *arguments)
        return folder / "venv"

    return make


def by_uv(*packages: str, options: tuple[str, ...] = ()) -> Any:
    def make(folder: Path) -> Path:
        run(uv(), "venv", "-q", *options, "--python", sys.executable, folder / "venv")
        install(folder / "venv", *packages)
        return folder / "venv"

    return make


def profile(name: str) -> Any:
    def make(folder: Path) -> Path:
        run(sys.executable, "-m", "gpuforge", "env", "create", "--profile", name, "--cpu-only",
            "--framework", "jax",  # its builds for the CPU lie on the default index
            "--path", folder / "venv", "--installer", "uv", "--yes",
            PYTHONPATH=str(ROOT / "src"))  # fmt: skip
        return folder / "venv"

    return make


def copied(folder: Path) -> Path:
    made = venv(*SCIENCE)(folder)
    shutil.copytree(made, folder / "copy", symlinks=True, copy_function=shutil.copyfile)
    for path in (folder / "copy" / "bin").iterdir():
        path.chmod(0o755)
    return folder / "copy"


def slimmed(folder: Path) -> Path:
    """An environment as containers have it: without tests, caches of modules and debug symbols."""
    made = venv(*SCIENCE)(folder)
    for name in ("tests", "__pycache__"):
        for path in [*made.rglob(name)]:
            shutil.rmtree(path, ignore_errors=True)
    return Path(made)


def imported(folder: Path) -> Path:
    """An environment that was used: modules were compiled after they were installed."""
    made = by_uv(*SCIENCE)(folder)
    run(made / "bin/python", "-c", "import pandas, scipy.sparse, sklearn, matplotlib.pyplot")
    return Path(made)


def project(folder: Path) -> Path:
    """A project that is installed and worked on in its own folder."""
    (folder / "mine").mkdir()
    (folder / "mine" / "__init__.py").touch()
    (folder / "tests").mkdir()
    (folder / "tests" / "__init__.py").touch()
    (folder / "test.py").touch()
    (folder / "pyproject.toml").write_text("[project]\nname = 'mine'\nversion = '1'\n"
                                           "[tool.setuptools]\npackages = ['mine']\n")  # fmt: skip
    return Path(venv("numpy==2.4.6", str(folder))(folder))


def editable(folder: Path) -> Path:
    return Path(venv("-e", str(ROOT))(folder))


def editable_in_odd_folder(folder: Path) -> Path:
    """A project and an environment in folders whose names hold a space and an umlaut."""
    home = folder / "my wörk"
    (home / "src" / "mine").mkdir(parents=True)
    (home / "src" / "mine" / "__init__.py").touch()
    (home / "pyproject.toml").write_text("[project]\nname = 'mine'\nversion = '1'\n")
    made = by_uv("numpy==2.4.6", "-e", str(home))(home)
    run(made / "bin/python", "-c", "import mine, numpy")
    return Path(made)


def edited(folder: Path) -> Path:
    """Projects worked on in their own folders, each installed by another build backend."""
    made = Path(venv()(folder))
    for backend in ("hatchling.build", "flit_core.buildapi", "poetry.core.masonry.api"):
        name = backend.split(".")[0].split("_")[0]
        package = folder / name / "src" / name
        package.mkdir(parents=True)
        (package / "__init__.py").write_text('"""Mine."""\n__version__ = "1"\n')
        requires = backend.split(".")[0] if "poetry" not in backend else "poetry-core"
        (folder / name / "pyproject.toml").write_text(
            f"[build-system]\nrequires = ['{requires}']\nbuild-backend = '{backend}'\n"
            f"[project]\nname = '{name}'\nversion = '1'\ndescription = 'Mine.'\n"
        )
        install(made, "-e", str(folder / name))
        run(made / "bin/python", "-c", f"import {name}")
    return made


def linked(folder: Path) -> Path:
    """Packages that are links into uv's cache."""
    run(uv(), "venv", "-q", "--python", sys.executable, folder / "venv")
    install(folder / "venv", "--link-mode=symlink", "numpy==2.4.6", "requests", "pandas==2.3.3")
    return folder / "venv"


def by_hand(*wheels: tuple[str, str, tuple[str, ...]]) -> Any:
    def make(folder: Path) -> Path:
        for name, version, requires in wheels:
            make_wheel(folder, name, version, requires)
        return Path(by_pip("--no-index", "--find-links", str(folder), wheels[0][0])(folder))

    return make


def system(folder: Path) -> None:
    """The system's own Python, with what the distribution put into it."""
    run("/usr/bin/python3", "-c", "import ssl")


def inside_system(folder: Path) -> Path:
    run("/usr/bin/python3", "-m", "venv", "--without-pip", "--system-site-packages",
        folder / "venv")  # fmt: skip
    run(sys.executable, "-m", "pip", "--python", folder / "venv/bin/python", "install", "-q",
        "--ignore-installed", "pip", "numpy==2.4.6", "pandas==2.3.3")  # fmt: skip
    return folder / "venv"


TORCH_GPU = ("torch", "2.9.0", ("nvidia-cublas-cu12==12.8.4.1",))
KINDS: dict[str, tuple[Callable[[Path], Path | None], str]] = {
    "venv, empty": (venv(), ""),
    "venv, science": (venv(*SCIENCE), ""),
    "venv, filled by pip": (by_pip("numpy==2.4.6", "pandas==2.3.3"), ""),
    "venv, web": (venv("requests", "pydantic", "aiohttp", "fastapi", "sqlalchemy"), ""),
    "venv of NumPy 1": (venv("numpy==1.26.4", "pandas==2.0.3", "scipy==1.11.4"), ""),
    "venv --copies": (venv("numpy==2.4.6", options=("--copies",)), ""),
    "venv --system-site-packages": (venv("polars", options=("--system-site-packages",)), ""),
    "venv --upgrade-deps": (venv("xarray", "dask", options=("--upgrade-deps",)), ""),
    "venv of the system's Python, its packages seen": (inside_system, ""),
    "the system's Python": (system, ""),
    "uv, empty": (by_uv(), ""),
    "uv, science": (by_uv(*SCIENCE), ""),
    "uv --seed": (by_uv("polars", "pyarrow", "numba", options=("--seed",)), ""),
    "uv, used": (imported, ""),
    "copied elsewhere": (copied, ""),
    "slimmed for a container": (slimmed, ""),
    "a project in its own folder": (project, ""),
    "gpuforge, editable": (editable, ""),
    "editable, in a folder with a space": (editable_in_odd_folder, ""),
    "tools with hooks and modules for several Pythons": (
        by_uv("debugpy", "coverage", "setuptools", "googleapis-common-protos", "ipykernel",
              "sphinxcontrib-jsmath", "pywavelets", "zope.interface"), ""),
    "PyTorch for the CPU": (by_uv("torch==2.13.0+cpu", "numpy==2.4.6"), ""),
    "JAX": (venv("jax==0.10.2", "jaxlib==0.10.2"), ""),
    "TensorFlow for the CPU": (by_uv("tensorflow-cpu"), ""),
    "ONNX Runtime": (venv("onnxruntime", "opencv-python-headless"), ""),
    "MLX": (venv("mlx[cpu]"), ""),
    "boosted trees and OpenMP": (venv("lightgbm", "xgboost", "faiss-cpu", "scikit-learn"), ""),
    "transformers": (by_uv("transformers", "safetensors", "torch==2.13.0+cpu"), ""),
    "tools that share a namespace, as pytest, IPython and protobuf do": (
        venv("pytest", "pytest-cov", "ipython", "mypy", "black", "protobuf", "google-auth",
             "setuptools", "importlib-metadata", "attrs", "nvidia-nvtx"), ""),
    "projects of several backends, editable": (edited, ""),
    "packages linked into uv's cache": (linked, ""),
    "venv, activated, PYTHONPATH to its own project": (venv("numpy==2.4.6", "six"), ""),
    "pynvml beside nvidia-ml-py": (venv("pynvml", "nvidia-ml-py"), ""),
    "PyTorch with CUDA 12.8, driver 570": (
        by_hand(TORCH_GPU, ("nvidia-cublas-cu12", "12.8.4.1", ())), "12.8"),
    "JAX with its plugin, driver 570": (
        by_hand(("jax", "0.8.3", ("jax-cuda12-plugin==0.8.3",)),
                ("jax-cuda12-plugin", "0.8.3", ())), "12.8"),
    **{f"profile {name}": (profile(name), "") for name in PROFILES},
}  # fmt: skip


def diagnosed(prefix: Path | None, folder: Path, gpu: str, activated: bool) -> dict[str, Any]:
    """Return doctor's findings, as the Python of the checkout asks or the system's own."""
    paths = [str(ROOT), str(ROOT / "src")]
    code = DOCTOR.format(paths=paths, gpu=gpu, count=len(paths))
    environ, python = {**HERE, "XDG_CACHE_HOME": str(folder / "cache")}, sys.executable
    if prefix is None:
        python = "/usr/bin/python3"
        here = next(Path(sys.prefix).glob("lib/python3*/site-packages"))
        code = f"import sys; sys.path.append({str(here)!r})\n{code}"
    else:
        environ["VIRTUAL_ENV"] = str(prefix)
    if prefix and activated:
        (folder / "project" / "mine").mkdir(parents=True)
        (folder / "project" / "mine" / "__init__.py").touch()
        environ["PYTHONPATH"] = str(folder / "project")
        environ["PATH"] = f"{prefix}/bin{os.pathsep}{environ['PATH']}"
    done = subprocess.run([python, "-P", "-c", code], env=environ, cwd=folder, text=True,
                          capture_output=True)  # fmt: skip
    try:
        found: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        return {"failed": done.stderr[-500:], "findings": []}
    return found


def main() -> None:
    chosen = sys.argv[1:] or list(KINDS)
    rows: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(dir=os.environ.get("BROKEN_FOLDER")) as home:
        for number, name in enumerate(chosen):
            make, gpu = KINDS[name]
            folder = Path(home) / str(number)
            folder.mkdir()
            started = time.monotonic()
            try:
                found = diagnosed(make(folder), folder, gpu, "activated" in name)
            except (subprocess.CalledProcessError, OSError, RuntimeError) as error:
                told = getattr(error, "stderr", None) or str(error).encode()
                rows[name] = {"not made": told.decode("utf-8", "replace")[-300:]}
            else:
                bad = [f"{f['state']} {f['check']}: {f['message']}" for f in found["findings"]
                       if f["state"] not in ("ok", "skipped")]  # fmt: skip
                # What a pretended GPU lacks is no fault of the environment.
                pretended = ("container_setup", "gpu_health") if gpu else ()
                bad = [line for line in bad if not any(name in line for name in pretended)]
                rows[name] = {"alarms": bad, **{k: v for k, v in found.items() if k == "failed"}}
            rows[name]["seconds"] = round(time.monotonic() - started, 1)
            print(name, json.dumps(rows[name]), flush=True)
            shutil.rmtree(folder, ignore_errors=True)
            _write(rows)
    print(json.dumps({k: v for k, v in _write(rows).items() if k != "kinds"}))


def _write(rows: dict[str, Any]) -> dict[str, Any]:
    made = {name: row for name, row in rows.items() if "not made" not in row}
    wrong = [name for name, row in made.items() if row["alarms"] or "failed" in row]
    result = {"made": len(made), "false alarms": wrong, "kinds": rows}
    if not sys.argv[1:]:
        target = Path(__file__).parent / "results" / "healthy_environments.json"
        target.write_text(json.dumps(result, indent=1) + "\n")
    return result


if __name__ == "__main__":
    main()
