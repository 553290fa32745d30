"""The toy backend of `docs/backends.md`, installed as another package would be."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "backends.md"
PROGRAM = """
import numpy as np
import gpuforge as gf

@gf.offload(backend="toy")
def waves(x):
    return np.exp(x) + 1

@gf.offload(backend="toy")
def sorted_waves(x):
    return np.sort(np.exp(x)) + 1

@gf.offload(backend="toy")
def shares(x, y):
    return x // y

def where(function):
    return {name: count.calls for name, count in function.stats().counts.items()}

x, whole = np.linspace(1, 0, 50), np.arange(50)
for _ in range(3):
    assert np.array_equal(waves(x), np.exp(x) + 1)
    assert np.array_equal(sorted_waves(x), np.sort(np.exp(x)) + 1)
    assert np.array_equal(shares(whole, whole + 1), whole // (whole + 1))
assert where(waves) == where(sorted_waves) == where(shares) == {"toy:cpu": 3}
assert "Toy does not compute sort as NumPy does" in str(sorted_waves.explain(x))
with np.errstate(divide="ignore"):
    assert np.array_equal(shares(whole, whole), whole // whole)
assert where(shares) == {"toy:cpu": 3, "numpy": 1}, where(shares)
"""


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """Install what the page shows; return the environment of a process that sees it."""
    text = PAGE.read_text(encoding="utf-8")
    source = re.search(r"```python\n(# toy_backend\.py\n.*?)```", text, re.DOTALL)
    table = re.search(r'```toml\n\[project\.entry-points\."(.*?)"\]\n(.*?)```', text, re.DOTALL)
    assert source and table
    (tmp_path / "toy_backend.py").write_text(source[1], encoding="utf-8")
    information = tmp_path / "toy-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n")
    entry = table[2].replace('"', "")
    (information / "entry_points.txt").write_text(f"[{table[1]}]\n{entry}")
    return {**os.environ, "PYTHONPATH": str(tmp_path)}


def run(environment: dict[str, str], *words: str, **more: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, *words], env={**environment, **more}, capture_output=True, text=True,
        timeout=60,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def test_the_toy_of_the_page_runs_calls_and_declares(installed: dict[str, str]) -> None:
    status, _, err = run(installed, "-c", PROGRAM)
    assert status == 0, err


@pytest.mark.parametrize("asked", [{"GPUFORGE_PLUGINS": "1"}, {"GPUFORGE_BACKENDS": "numpy,toy"}])
def test_it_is_listed_where_it_is_asked_for(
    asked: dict[str, str], installed: dict[str, str]
) -> None:
    only = {"GPUFORGE_FORBID": "torch,jax,mlx,dpnp,opencl,cupy", **asked}
    status, out, err = run(installed, "-m", "gpuforge", "calibrate", "--list", **only)
    assert status == 0, err
    assert re.search(r"^toy:cpu +\d", out, re.MULTILINE), out


def test_it_is_not_looked_for_where_nobody_asked(installed: dict[str, str]) -> None:
    code = (
        "import sys, gpuforge as gf; from gpuforge.runtime.session import default_session;"
        "assert 'toy' not in default_session().libraries; assert 'toy_backend' not in sys.modules"
    )
    status, _, err = run(installed, "-c", code)
    assert status == 0, err


def test_one_that_does_not_import_is_listed_with_the_reason(
    installed: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "toy_backend.py").write_text("raise OSError('libtoy.so.3 is missing')")
    only = {"GPUFORGE_FORBID": "torch,jax,mlx,dpnp,opencl,cupy", "GPUFORGE_PLUGINS": "1"}
    status, out, err = run(installed, "-m", "gpuforge", "calibrate", "--list", **only)
    assert status == 0
    assert "toy" not in out
    assert "not used: toy: OSError: libtoy.so.3 is missing" in err
