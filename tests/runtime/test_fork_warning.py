"""JAX warns of forks: programs that never asked for JAX are spared, those that did are told."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

PROGRAM = """
import os, sys
{first}
import numpy as np, gpuforge as gf
gf.offload(backend="jax")(lambda x: x + 1)(np.ones(5000))
assert "jax" in sys.modules
{later}
child = os.fork()
if child == 0:
    os._exit(0)
os.waitpid(child, 0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.parametrize(
    ("first", "later", "told"),
    [("", "", False), ("import jax", "", True), ("", "import jax", True)],
)
def test_only_programs_that_use_jax_are_warned(
    jax: Any, first: str, later: str, told: bool
) -> None:
    code = PROGRAM.format(first=first, later=later)
    done = subprocess.run(
        [sys.executable, "-W", "always::RuntimeWarning", "-c", code],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert ("os.fork() was called" in done.stderr) == told, done.stderr
