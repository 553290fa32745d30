"""Verifying an environment: its Python runs its framework on the device, compared with NumPy."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuforge.compat.builds import FRAMEWORKS, PACKAGE
from gpuforge.environment.installed import check_resolved
from gpuforge.environment.process import surroundings
from gpuforge.environment.record import is_environment, python_of, read_record
from gpuforge.environment.requirement import normal_name
from gpuforge.errors import EnvironmentMismatch
from gpuforge.probe import Output
from gpuforge.probe.process import run

TIMEOUT_SECONDS = 300.0
_QUIET = {"TF_CPP_MIN_LOG_LEVEL": "2", "TF_ENABLE_ONEDNN_OPTS": "0", "PYTHONWARNINGS": "ignore"}


@dataclass(frozen=True)
class Check:
    """The result of one check."""

    name: str
    ok: bool
    detail: str
    seconds: float


@dataclass(frozen=True)
class Verification:
    """The results of all checks of an environment."""

    folder: Path
    framework: str
    accelerator: str
    python: str
    versions: dict[str, str]
    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """Whether at least one check ran and all of them passed."""
        return bool(self.checks) and all(check.ok for check in self.checks)

    def as_dict(self) -> dict[str, Any]:
        """Return the result as plain values for JSON."""
        return {
            "path": str(self.folder),
            "ok": self.ok,
            "framework": self.framework,
            "accelerator": self.accelerator,
            "python": self.python,
            "versions": self.versions,
            "checks": [vars(check) for check in self.checks],
        }


def verify_environment(folder: Path) -> Verification:
    """Run the checks inside the environment at `folder`.

    Raises
    ------
    EnvironmentMismatch
        If it is not an environment, has no known framework, or its Python does not run.
    """
    if not is_environment(folder):
        raise EnvironmentMismatch(
            f"{folder} is not a Python environment", hint="create one with 'gpuforge env create'"
        )
    record = read_record(folder)
    framework = record.framework if record else _framework_in(folder)
    accelerator = record.accelerator if record else "cpu"
    script = Path(__file__).with_name("inside.py").read_text(encoding="utf-8")
    found = _ask(folder, script, framework, accelerator)
    versions = {normal_name(name): version for name, version in found["distributions"].items()}
    problems = check_resolved(versions)
    told = "; ".join(problems) or f"{len(versions)} packages"
    listed = Check("packages", not problems, told, 0.0)
    checks = (listed, *(Check(**one) for one in found["checks"]))
    return Verification(folder, framework, accelerator, found["python"], versions, checks)


def _framework_in(folder: Path) -> str:
    """Return the framework of an environment that gpuforge did not create."""
    names = json.dumps([PACKAGE[framework] for framework in FRAMEWORKS])
    there = f"[name for name in {names} if importlib.util.find_spec(name)]"
    present = _ask(folder, f"import importlib.util, json; print(json.dumps({there}))")
    for framework in FRAMEWORKS:
        if PACKAGE[framework] in present:
            return framework
    raise EnvironmentMismatch(f"{folder} contains none of {', '.join(PACKAGE.values())}")


def _ask(folder: Path, code: str, *arguments: str) -> Any:
    """Run `code` in an environment and return the JSON document on its last line of output."""
    argv = [str(python_of(folder)), "-I", "-c", code, *arguments]
    done = run(argv, TIMEOUT_SECONDS, surroundings(_QUIET))
    if not isinstance(done, Output):
        raise EnvironmentMismatch(
            f"the Python of {folder} does not run: {done.reason}",
            hint="create it again: gpuforge env create --replace",
        )
    try:
        return json.loads(done.stdout.strip().splitlines()[-1])
    except (IndexError, ValueError):
        said = done.stderr.strip().splitlines()[-3:]
        raise EnvironmentMismatch(
            f"the Python of {folder} ended with status {done.status}: {' '.join(said)[:400]}",
            hint="create it again: gpuforge env create --replace",
        ) from None
