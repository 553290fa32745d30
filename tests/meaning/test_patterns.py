"""Every pattern means offloaded what it means in plain NumPy: free, and on each library."""

from __future__ import annotations

import pytest

from tests.meaning.compare import compare
from tests.meaning.known import KNOWN
from tests.meaning.pattern import Offloading, Pattern, all_patterns, plain
from tests.runtime.conftest import OTHERS

PATTERNS = all_patterns()
MODES = ("free", *OTHERS)
CASES = [(mode, p) for mode in MODES for p in PATTERNS]


@pytest.mark.parametrize(("mode", "pattern"), CASES, ids=[f"{m}-{p.id}" for m, p in CASES])
def test_pattern_means_the_same(mode: str, pattern: Pattern) -> None:
    if mode != "free":
        pytest.importorskip(mode)
    found = compare(pattern.run(plain), pattern.run(Offloading(mode)))
    if found and pattern.id in KNOWN:
        pytest.xfail(KNOWN[pattern.id])
    assert not found, "\n".join(found)


def test_patterns_agree_with_themselves() -> None:
    """A pattern that differs from itself proves nothing."""
    wrong = {p.id: found for p in PATTERNS if (found := compare(p.run(plain), p.run(plain)))}
    assert not wrong


def test_few_differences_are_known() -> None:
    assert len(PATTERNS) >= 400
    assert len(KNOWN) <= 20
    assert {p.id for p in PATTERNS} >= set(KNOWN)
