"""Memory of freed arrays stays with the process. Each case runs in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from gpuforge.runtime import heap

pytestmark = pytest.mark.skipif(
    bool(heap._reason_against(1)), reason=heap._reason_against(1) or "glibc can be told"
)
PROGRAM = """
import resource
import numpy as np
import gpuforge as gf
from gpuforge.runtime import heap

def faults(calls=20):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(calls):
        # None as large as what NumPy asks the system to back with huge pages.
        held = [np.ones(3 * 2**17) for _ in range(20)]
        del held
    return (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) // calls

faults(3)
plain = faults()
with gf.session(history=False):
    faults(3)
    print(plain, faults(), heap.kept_bytes)
    print(heap.keep(2**20))
"""


def run(**variables: str) -> list[str]:
    base = {k: v for k, v in os.environ.items() if not k.startswith(("MALLOC_", "GLIBC_"))}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True, text=True, check=True, env={**base, **variables},
    )  # fmt: skip
    return done.stdout.splitlines()


def test_arrays_take_memory_that_is_there() -> None:
    figures, again = run()
    plain, kept, most = map(int, figures.split())
    assert plain > 1000 > 10 * kept
    assert 0 < most <= 256 * 2**20
    assert again == "it was already set"


@pytest.mark.parametrize(
    ("variables", "reason"),
    [
        ({"GPUFORGE_KEPT_MEMORY": "0"}, ""),
        ({"MALLOC_TRIM_THRESHOLD_": "131072"}, "MALLOC_TRIM_THRESHOLD_ is set"),
        ({"GLIBC_TUNABLES": "glibc.malloc.trim_threshold=131072"}, "GLIBC_TUNABLES is set"),
    ],
)
def test_it_is_left_to_those_who_chose(variables: dict[str, str], reason: str) -> None:
    figures, again = run(**variables)
    plain, kept, most = map(int, figures.split())
    assert plain > 1000
    assert kept > 1000
    assert most == 0
    assert not reason or again == reason


def test_a_small_machine_keeps_a_small_part(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []
    monkeypatch.setattr(heap, "kept_bytes", 0)
    monkeypatch.setattr(heap, "_set", lambda most: told.append(most) is None)
    memory = heap.read_free_memory()
    assert memory is not None
    monkeypatch.setattr(heap, "read_free_memory", lambda: memory._replace(total_bytes=2**30))
    assert heap.keep(256 * 2**20) == ""
    assert told == [2**25]


def test_what_cannot_be_done_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heap, "kept_bytes", 0)
    monkeypatch.setattr(heap, "_set", lambda most: False)
    assert heap.keep(2**20) == "the C library rejected it"
    monkeypatch.setattr(heap, "read_free_memory", lambda: None)
    assert "does not report" in heap.keep(2**20)
    monkeypatch.setattr(heap.sys, "platform", "win32")
    assert heap.keep(2**20) == "it needs glibc"
    assert heap.kept_bytes == 0
