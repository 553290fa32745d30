"""Random programs mean offloaded what they mean in plain NumPy.

``MEANING_PROGRAMS`` sets how many for each backend, ``MEANING_PROGRAMS_SEED`` which ones.
"""

from __future__ import annotations

import os

import pytest

from gpuforge.runtime.evaluation import groups
from tests.meaning.fuzz import fuzz, smallest, text_of
from tests.meaning.program import grow
from tests.runtime.conftest import OTHERS

PROGRAMS = int(os.environ.get("MEANING_PROGRAMS", "300"))
SEED = int(os.environ.get("MEANING_PROGRAMS_SEED", "1"))
SHOWN = 3


@pytest.mark.parametrize("mode", ["free", *OTHERS])
def test_programs_mean_the_same(mode: str) -> None:
    if mode != "free":
        pytest.importorskip(mode)
    wrong = [v for v in fuzz(mode, PROGRAMS, SEED) if v.found]
    texts = [text_of(smallest(v, mode)) for v in wrong[:SHOWN]]
    assert not wrong, f"{len(wrong)} of {PROGRAMS} programs disagree\n\n" + "\n".join(texts)


def test_programs_mean_the_same_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "BLOCK_BYTES", 16)
    monkeypatch.setattr(groups, "LEAST_BYTES", 0)
    wrong = [v for v in fuzz("blocks", PROGRAMS, SEED) if v.found]
    texts = [text_of(v) for v in wrong[:SHOWN]]
    assert not wrong, f"{len(wrong)} of {PROGRAMS} programs disagree\n\n" + "\n".join(texts)


def test_a_seed_gives_one_program() -> None:
    assert [grow(k).source for k in range(50)] == [grow(k).source for k in range(50)]


def test_most_programs_do_something() -> None:
    lengths = [len(grow(k).statements) for k in range(200)]
    assert sum(length >= 2 for length in lengths) > 180
