"""Do the packages planned beside an old framework work with it? They are installed and imported.

For each older release of torch, and for old releases of TensorFlow and JAX with CUDA, an
environment is made with what the profiles ask for, and every module is imported. Builds of the
framework's own index (``+cu118``) are replaced by those of the default index, of the same release.
torchcodec needs FFmpeg of the system; where there is none, its own message says so.

usage: python benchmarks/environments/oldest.py [PACKAGE==VERSION ...]    writes results/oldest.json
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path
from typing import Any

from gpuforge.environment import advice
from gpuforge.environment.installers import find_uv
from gpuforge.environment.planning import Plan
from gpuforge.environment.profile import load_profiles
from gpuforge.facts import Device, Driver, Host, Machine

RESULT = Path(__file__).parents[1] / "results" / "oldest.json"
CASES = (
    *("torch==2.4.1", "torch==2.5.1", "torch==2.6.0", "torch==2.7.1", "torch==2.8.0"),
    *("torch==2.9.1", "torch==2.10.0", "tensorflow==2.18.1", "tensorflow==2.21.0", "jax==0.6.2"),
)
PROFILES = {
    "torch": ("computer_vision", "nlp", "deep_learning", "reinforcement_learning"),
    "tensorflow": ("lightweight", "learning"),
    "jax": ("lightweight", "learning", "nlp"),
}
FRAMEWORK = {"torch": "pytorch", "tensorflow": "tensorflow", "jax": "jax"}
# Packages whose module has another name.
MODULE = {
    "opencv-python": "cv2", "pillow": "PIL", "scikit-image": "skimage", "scikit-learn": "sklearn",
    "huggingface-hub": "huggingface_hub", "hydra-core": "hydra", "torchcodec": "torchcodec",
    "orbax-checkpoint": "orbax.checkpoint", "ale-py": "ale_py", "nvidia-cudnn-cu12": "nvidia.cudnn",
}  # fmt: skip
IMPORTS = """
import importlib, json, sys, warnings
found = {}
for name in json.loads(sys.argv[1]):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            importlib.import_module(name)
            told = [str(w.message)[:200] for w in said if "C++" in str(w.message)]
            found[name] = "ok" if not told else "without its compiled part: " + told[0]
        except BaseException as error:
            found[name] = f"{type(error).__name__}: {error}"[:300]
print("\\n" + json.dumps(found))
"""


def machine() -> Machine:
    """Return a machine with a card and driver that every release here serves."""
    device = Device(
        0, "nvidia", name="NVIDIA A100", compute_capability="8.0", memory_total_bytes=40 * 10**9,
        driver=Driver("nvidia", "580.65.06"), score=80,
    )  # fmt: skip
    host = Host(platform="linux", machine="x86_64", libc="glibc 2.35")
    return Machine("ok", devices=(device,), host=host, best_device=0)


def planned(package: str, version: str) -> list[str]:
    """Return the requirements of all profiles together."""
    found: dict[str, None] = {}
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    for name in PROFILES[package]:
        made: Plan = advice.plan(
            load_profiles()[name], FRAMEWORK[package], machine=machine(), version=version,
            python=python, platform="linux-64", today=date(2026, 11, 21), cpu_only=False,
            framework_index="default",
        )  # fmt: skip
        made.check()
        found |= dict.fromkeys(package.requirement for package in made.packages)
    return list(found)


def measure(case: str, folder: Path) -> dict[str, Any]:
    """Install what is planned for one release, and import every module of it."""
    package, _, version = case.partition("==")
    requirements = planned(package, version)
    uv, environment = find_uv() or "uv", folder / "environment"
    subprocess.run([uv, "venv", "-q", "--python", sys.executable, environment], check=True)
    python = str(environment / "bin" / "python")
    done = subprocess.run(
        [uv, "pip", "install", "-q", "--python", python, *requirements],
        capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode != 0:
        return {"requirements": requirements, "installed": False, "said": done.stderr[-600:]}
    names = [re.split(r"[\[<>=!~]", text)[0] for text in requirements]
    modules = sorted({MODULE.get(name, name.replace("-", "_")) for name in names})
    out = subprocess.run(
        [python, "-c", IMPORTS, json.dumps(modules)], capture_output=True, text=True, cwd=folder
    )
    listed = subprocess.run(
        [uv, "pip", "freeze", "--python", python], capture_output=True, text=True, check=True
    ).stdout
    told = out.stdout.strip().splitlines()
    return {
        "requirements": requirements,
        "installed": True,
        "imports": json.loads(told[-1]) if told else {"python": out.stderr[-600:]},
        "packages": [line for line in listed.splitlines() if line.split("==")[0] in names],
    }


def main() -> int:
    results = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.exists() else {}
    for case in sys.argv[1:] or CASES:
        folder = Path(tempfile.mkdtemp())
        try:
            results[case] = measure(case, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        failed = {k: v for k, v in results[case].get("imports", {}).items() if v != "ok"}
        print(case, "installed" if results[case]["installed"] else results[case]["said"], failed)
        RESULT.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
