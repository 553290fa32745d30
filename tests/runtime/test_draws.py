"""Importing a library leaves the program's random numbers alone."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.runtime.conftest import OTHERS

PROGRAM = """
import random
import numpy as np, gpuforge as gf
random.seed(7); np.random.seed(7)
wanted = np.random.rand(3).tolist(), random.random()
random.seed(7); np.random.seed(7)
gf.offload(backend={name!r})(lambda x: x + 1)(np.ones(5000))
assert {name!r} in __import__("sys").modules
assert (np.random.rand(3).tolist(), random.random()) == wanted
assert np.random.rand.__self__ is np.random.mtrand._rand
"""


@pytest.mark.parametrize("name", OTHERS)
def test_random_numbers_of_the_program_are_its_own(name: str) -> None:
    pytest.importorskip(name)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(name=name)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
