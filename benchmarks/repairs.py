"""Which safe repairs work? Each broken environment made for real, repaired, checked, put back.

usage: python benchmarks/repairs.py    (from a checkout: the environments are those of the tests)
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import pytest  # noqa: E402

from diagnose.environments import Environment  # noqa: E402
from diagnose.test_repairs import SCENARIOS, Scenario, build  # noqa: E402
from gpuforge.changes.apply import apply_plan, undo  # noqa: E402
from gpuforge.changes.plan import Plan  # noqa: E402
from gpuforge.cli.build_planner import plan_builds  # noqa: E402
from gpuforge.diagnose.run import run_checks  # noqa: E402
from gpuforge.errors import PlanRefused  # noqa: E402


def attempt(scenario: Scenario, base: Path, folder: Path) -> str:
    """Return what became of one broken environment."""
    environment = Environment(base, folder / "venv")
    index = folder / "index"
    index.mkdir()
    variables = {
        "VIRTUAL_ENV": str(environment.prefix),
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(index),
        "PIP_CACHE_DIR": str(folder / "pip-cache"),
        "XDG_DATA_HOME": str(folder / "data"),
    }
    with mock.patch.dict(os.environ, variables), pytest.MonkeyPatch.context() as patch:
        build(scenario, environment, index, patch)
        before = environment.hashes()
        os.chdir(folder)
        found = [
            f
            for f in run_checks(scenario.name, planner=plan_builds).findings
            if f.cause == scenario.cause
        ]
        if not found:
            return "not found"
        try:
            record = apply_plan(Plan(scenario.cause, found[0].repair))
        except PlanRefused as error:
            return f"refused: {error}"
        left = [
            f
            for f in run_checks(scenario.name, planner=plan_builds).findings
            if f.cause == scenario.cause
        ]
        undo(record.id, even_if_changed=True)
        if environment.hashes() != before:
            return "not put back"
        return "still there" if left else "repaired"


def main() -> None:
    outcomes = {}
    with tempfile.TemporaryDirectory() as home:
        base = Path(home) / "base"
        subprocess.run([sys.executable, "-m", "venv", str(base)], check=True)
        for scenario in SCENARIOS:
            folder = Path(home) / scenario.cause
            folder.mkdir()
            started = time.perf_counter()
            outcome = attempt(scenario, base, folder)
            elapsed = time.perf_counter() - started
            outcomes[scenario.cause] = {"outcome": outcome, "seconds": elapsed}
            print(f"{scenario.cause:<32} {outcome:<12} {elapsed:5.1f} s", flush=True)
    repaired = sum(row["outcome"] == "repaired" for row in outcomes.values())
    refused = sum(str(row["outcome"]).startswith("refused") for row in outcomes.values())
    print(f"attempted {len(outcomes)}, repaired {repaired}, refused {refused}")
    target = Path(__file__).parent / "results" / "repairs.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(outcomes, indent=1) + "\n")


if __name__ == "__main__":
    main()
