"""Rules speak about real programs under the profiler, and are silent once these are mended.

What only a GPU shows is in `made_for_advice`, made by hand.
"""

from __future__ import annotations

import importlib

import pytest

import gpuforge as gf
from gpuforge.profiler.advise import Suggestion, suggestions
from tests.profiler.programs_for_advice import PROGRAMS, Pair, Program

COLD = {"first_calls", "changing_shapes", "separate_steps", "settled_by_numpy"}
"""What they are about happens once, or takes long; the others run once before they are recorded."""


def said_of(program: Program, rule: str, pair: Pair) -> list[Suggestion]:
    with gf.session(history=False, fallback=True, backends=["numpy", pair.library]):
        if rule not in COLD:
            program()
        with gf.profile() as recording:
            program()
    return [one for one in suggestions(recording.profile) if one.rule == rule]


@pytest.mark.filterwarnings("default")  # calls are not placed where warnings are errors
@pytest.mark.parametrize("rule", PROGRAMS)
def test_a_rule_speaks_about_a_program_until_it_is_mended(
    rule: str, request: pytest.FixtureRequest
) -> None:
    pair = PROGRAMS[rule]
    if pair.library == "opencl":
        request.getfixturevalue("opencl")
    elif pair.library != "numpy":
        pytest.importorskip(pair.library)
    found = said_of(pair.slow, rule, pair)
    assert found, f"{rule} does not see what this program does"
    for one in found:
        assert 0.03 <= one.bound_share <= 1
        if one.file:
            assert one.file == importlib.import_module(pair.slow.__module__).__file__
            assert one.line > 0
    assert not said_of(pair.mended, rule, pair)
