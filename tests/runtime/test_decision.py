"""What deciding about a call of a new signature takes, and what it leaves out."""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import median
from types import FrameType
from typing import Any

import numpy as np
import pytest

import gpuforge as gf
from gpuforge import published
from gpuforge.digest import digest
from gpuforge.runtime.function.key import ANY
from gpuforge.runtime.function.signature import Signature, sign
from gpuforge.runtime.offload import Offloaded
from gpuforge.runtime.placement.policy import NUMPY, Candidate, Kind
from gpuforge.runtime.record import KindRecord, stable_text

OWN = str(Path(gf.__file__).parent)
MOST_CALLS, MOST_CALLS_OPEN = 125, 140
"""Calls of gpuforge's own Python functions per decision; with Python 3.11, where a comprehension is
one, it makes 102, or 114 beside an open library."""


def standardised(x: Any) -> Any:
    return (x - x.mean()) / x.std()


def own_calls(placed: Offloaded[Any, Any], x: Any) -> int:
    """Return how many of gpuforge's functions a call calls."""
    made = 0

    def count(frame: FrameType, event: str, _: Any) -> None:
        nonlocal made
        made += event == "call" and frame.f_code.co_filename.startswith((OWN, "<string>"))

    sys.setprofile(count)
    try:
        placed(x)
    finally:
        sys.setprofile(None)
    return made


def decided_each_time(session: Any) -> Offloaded[Any, Any]:
    """Return an offloaded function that never waits, after calls of a few sizes."""
    placed = gf.offload(standardised)
    for size in range(100, 600, 50):
        placed(np.arange(float(size)))
        session.functions.of(placed, standardised, placed._options).may_wait = False
    return placed


def slow_blocks(session: Any) -> str:
    """Open blocks of NumPy as if the shortest call took them a second; return their name."""
    backend = session.find("blocks")
    backend.floor_seconds = 1.0
    return str(backend.name)


@pytest.mark.parametrize("most", [MOST_CALLS, MOST_CALLS_OPEN])
def test_a_small_new_signature_is_decided_in_few_calls(quiet_session: Any, most: int) -> None:
    if most == MOST_CALLS_OPEN:
        slow_blocks(quiet_session)
    placed = decided_each_time(quiet_session)
    assert median(own_calls(placed, np.arange(float(n))) for n in range(111, 511, 20)) <= most


def test_only_backends_that_may_be_faster_are_priced(
    quiet_session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks, priced = slow_blocks(quiet_session), []
    placed, estimate = decided_each_time(quiet_session), Kind.estimate

    def noted(kind: Kind, candidate: Candidate, *rest: Any) -> Any:
        priced.append(candidate.name)
        return estimate(kind, candidate, *rest)

    monkeypatch.setattr(Kind, "estimate", noted)
    placed(np.arange(333.0))
    assert set(priced) == {NUMPY}
    told = placed.explain(np.arange(335.0))
    assert set(priced) == {NUMPY, blocks}
    assert {row.backend: row.total_seconds for row in told.rows}[blocks] == 1.0
    assert told.choice == NUMPY


def test_a_call_loses_nothing_to_a_backend_that_cannot_be_faster(quiet_session: Any) -> None:
    slow_blocks(quiet_session)
    placed = decided_each_time(quiet_session)
    compared: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(published, "compared", lambda *given: compared.append(given))
        placed(np.arange(333.0))
    assert compared == [(NUMPY, 1, 0.0)]


@pytest.mark.parametrize(
    "given",
    [
        (np.ones(5),),
        (np.ones((3, 1, 2))[:, :, ::-1], np.float32(2), 7, "a, b", None, True),
        (np.ones(()), [1, 2], {"a": 1}),
        (np.ones(5, ">i2"), 12),
    ],
)
def test_the_key_of_a_signature_is_that_of_earlier_versions(given: tuple[Any, ...]) -> None:
    found = sign(given, {})
    assert isinstance(found, Signature)
    general = found._replace(exact=(*found.exact[:-1], ANY))
    record = KindRecord("", "", stable_text(found.kind)[:-1])
    for one in (found, general):
        assert record.key(one) == digest(stable_text(one.exact))
        assert record.sizes[record.key(one)] == one.size
