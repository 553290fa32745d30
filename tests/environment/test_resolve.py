"""Exported files resolve on the default index: eight profiles, three frameworks, CUDA, linux-64."""

from __future__ import annotations

import runpy
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gpuforge.compat.builds import FRAMEWORKS
from gpuforge.environment.installers import find_uv
from gpuforge.environment.profile import load_profiles

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "environments" / "resolve.py"
pytestmark = [pytest.mark.resolve, pytest.mark.slow]


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(SCRIPT))


@pytest.fixture(scope="module")
def index() -> None:
    """Skip by name where uv is missing or no index answers."""
    uv = find_uv()
    if uv is None:
        pytest.skip("uv is not installed: pip install gpuforge[uv]")
    asked = subprocess.run(
        [uv, "pip", "compile", "-", "--quiet", "--no-header"],
        input="tqdm\n", capture_output=True, text=True, check=False,
    )  # fmt: skip
    if asked.returncode != 0:
        pytest.skip(f"the package index does not answer: {asked.stderr.strip()[:200]}")


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("profile", sorted(load_profiles()))
def test_the_exported_requirements_resolve(
    profile: str, framework: str, script: dict[str, Any], index: None
) -> None:
    result = script["try_one"](profile, framework, "cuda", "3.12")
    assert (result.outcome, result.packages > 5) == ("resolved", True), result.detail
