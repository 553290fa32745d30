"""Work beside the program: one job at a time, waited for before a fork and at the end."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import pytest

from gpuforge.runtime.evaluation.background import Background, importing


def test_one_job_at_a_time() -> None:
    background, go, done = Background(), threading.Event(), []

    def job() -> None:
        go.wait()
        done.append(1)

    assert background.start(job)
    assert background.is_busy
    assert not background.start(lambda: done.append(2))
    go.set()
    background.wait()
    assert done == [1]
    assert not background.is_busy
    assert background.start(lambda: done.append(3))
    background.wait()
    assert done == [1, 3]


def test_the_finders_are_given_back() -> None:
    finders = list(sys.meta_path)
    with importing():
        assert sys.meta_path[1:] == finders
    assert sys.meta_path == finders


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_fork_waits_for_the_job() -> None:
    background, done = Background(), []

    def job() -> None:
        time.sleep(0.3)
        done.append(1)

    background.start(job)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JAX, which another test may have loaded, warns of forks
        child = os.fork()
    if child == 0:
        os._exit(
            0 if done == [1] and not background.is_busy and background.start(lambda: None) else 1
        )
    assert os.waitpid(child, 0)[1] == 0
    background.wait()


def test_an_import_ends_with_the_program(tmp_path: Path) -> None:
    """The first module marks that it began; the ones after it are never imported."""
    for n in range(200):
        (tmp_path / f"slow{n}.py").write_text(
            f"import time; print({n}, flush=True); time.sleep(0.1); import slow{n + 1}"
        )
    program = """
import threading, time
from gpuforge.runtime.evaluation.background import Background, ProgramEnds, importing
def load():
    try:
        with importing():
            import slow0
    except ProgramEnds:
        print("stopped")
Background().start(load)
time.sleep(0.5)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
    )  # fmt: skip
    assert done.stdout.splitlines()[-1] == "stopped"
    assert len(done.stdout.splitlines()) < 100
    assert done.stderr == ""


OPENED_BESIDE = """
import numpy as np
import gpuforge as gf
from gpuforge.runtime.placement.evidence import Estimate

def polynomial(x):
    y = x
    for n in range(12):
        y = y * x + n
    return y

def expected(backend, size, numpy_seconds):
    return Estimate(numpy_seconds / 4, 0.1, "a price that no machine changes")

with gf.session(history=False, backends=["numpy", "jax"], explore_share=1) as held:
    held.priors.of = lambda operations, bytes_each: expected
    held.demand.may_try = lambda library: False  # what it would measure depends on the machine
    library = held.libraries["jax"]
    library.price_seconds = 0.0
    placed, x = gf.offload(polynomial), np.random.default_rng(0).random(300_000)
    for _ in range(200):
        placed(x)
        held.background.wait()
        if library.opened:
            break
    assert library.opened
    held.background.wait()
    for device in library.devices:
        device.compile_seconds = device.floor_seconds = 0.0
    (function,) = held.functions.values()
    (record,) = function.kinds.values()
    for _ in range(300):
        np.testing.assert_allclose(placed(x), polynomial(x), rtol=1e-11)
        held.background.wait()
        if record.compiled:
            break
    print("compiled", sum(record.compiled.values()))
"""


def test_a_library_is_opened_and_a_graph_compiled_beside_the_program(
    jax: Any, tmp_path: Path
) -> None:
    """In a process of its own: what was measured before decides what is worth a try."""
    del jax
    done = subprocess.run(
        [sys.executable, "-c", OPENED_BESIDE],
        cwd=tmp_path, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.stdout == "compiled 1\n", done.stderr
