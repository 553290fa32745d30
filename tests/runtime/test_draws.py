"""Importing a library leaves the program's random numbers alone."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from gpuforge.runtime import backends
from gpuforge.runtime.threads import draws
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


@pytest.mark.parametrize("name", sorted(draws.SILENT - {"numpy", "blocks"}))
def test_what_does_not_draw_loads_no_random_numbers(name: str) -> None:
    library, _ = backends.about(name)
    pytest.importorskip(library.partition(".")[0])
    code = (
        "import sys, gpuforge.runtime.evaluation.opening as opening\n"
        f"assert opening.open_library({name!r}).devices\n"
        "assert 'numpy.random' not in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr


def test_libraries_that_are_opened_at_the_same_time_leave_the_programs_function() -> None:
    usual = np.random.rand
    one, other = draws.apart("jax"), draws.apart("jax")
    with one:
        other.__enter__()
        assert np.random.rand is not usual
    assert np.random.rand(2).shape == (2,)
    other.__exit__(None, None, None)
    assert np.random.rand is usual


def test_a_function_that_the_program_put_there_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def mine(*shape: int) -> None: ...

    monkeypatch.setattr(np.random, "rand", np.random.rand)  # what is put back after the test
    with draws.apart("jax"):
        np.random.rand = mine
    assert np.random.rand is mine
