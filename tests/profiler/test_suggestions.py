"""Each rule speaks where it must and is silent where it must not; all of them keep their word."""

from __future__ import annotations

import argparse
import math
import shlex

import pytest

from gpuforge import registry
from gpuforge.profiler.advise import Suggestion, suggestions
from gpuforge.profiler.advise.looking import FEWEST_SAMPLES, RULES, SMALLEST_SHARE
from gpuforge.profiler.model import Profile
from tests.profiler.made import MS
from tests.profiler.made_for_advice import MADE, Calling, put, run

RULE_NAMES = registry.names(RULES)


def of(rule: str, profile: Profile) -> list[Suggestion]:
    return [one for one in suggestions(profile) if one.rule == rule]


def test_every_rule_has_its_two_profiles() -> None:
    assert set(MADE) == set(RULE_NAMES)
    assert len(RULE_NAMES) >= 20


@pytest.mark.parametrize("rule", RULE_NAMES)
def test_a_rule_speaks_where_it_must(rule: str) -> None:
    profile = MADE[rule][0]()
    found = of(rule, profile)
    assert found, f"{rule} does not see what was made for it"
    for one in found:
        assert one.title and one.advice and one.evidence and all(one.evidence)
        assert SMALLEST_SHARE <= one.bound_share <= 1
        assert math.isclose(one.bound_seconds, one.bound_share * profile.wall_ns / 1e9)
        assert one.check_command.startswith("gpuforge ")


@pytest.mark.parametrize("rule", RULE_NAMES)
def test_a_rule_is_silent_where_it_must_be(rule: str) -> None:
    assert not of(rule, MADE[rule][1]())


@pytest.mark.parametrize("rule", RULE_NAMES)
def test_a_rule_has_nothing_to_say_of_other_programs(rule: str) -> None:
    quiet = Calling()
    for _ in range(40):
        quiet.call("solve", run(10 * MS), extra_ns=MS // 100)
    assert not of(rule, quiet.profile)
    assert not of(rule, Profile())


@pytest.mark.parametrize("rule", RULE_NAMES)
def test_its_check_is_a_command_that_exists(rule: str) -> None:
    commands = registry.load("gpuforge.cli.commands").modules
    for one in of(rule, MADE[rule][0]()):
        program, name, *words = shlex.split(one.check_command)
        assert program == "gpuforge"
        parser = argparse.ArgumentParser(exit_on_error=False)
        commands[name].add_arguments(parser)
        given = parser.parse_args(words)
        if name == "run":
            assert given.program == ["program.py"]
        if name == "doctor":
            assert set(words) <= set(registry.names("gpuforge.diagnose.checks"))


def test_little_is_not_said() -> None:
    few = Calling()
    for number in range(FEWEST_SAMPLES - 1):
        few.call("solve", put(MS, 10**7, sources=[[9, 10**7, 1]]), run(MS))
    assert not of("repeated_transfer", few.profile)
    few.call("solve", put(MS, 10**7, sources=[[9, 10**7, 1]]), run(MS))
    few.call("solve", put(MS, 10**7, sources=[[9, 10**7, 1]]), run(MS))
    assert of("repeated_transfer", few.profile)
    few.work("something else", 40 * int(few.profile.wall_ns / SMALLEST_SHARE))
    assert not of("repeated_transfer", few.profile)


def test_the_largest_gain_comes_first() -> None:
    making = Calling()
    for _ in range(40):
        making.call("large", put(5 * MS, 10**7, sources=[[1, 10**7, 1]]), run(MS))
        making.call("small", put(MS, 10**6, sources=[[2, 10**6, 1]]), run(MS))
    bounds = [one.bound_seconds for one in suggestions(making.profile)]
    assert len(bounds) >= 2
    assert bounds == sorted(bounds, reverse=True)


def test_a_suggestion_cites_what_it_rests_on() -> None:
    [one] = of("repeated_transfer", MADE["repeated_transfer"][0]())
    assert (one.file, one.line, one.samples) == ("program.py", 7, 39)
    assert one.bound_seconds == pytest.approx(0.039)
    assert one.evidence[0] == ("39 moves of arrays that were moved before: 372 MiB in 39 ms")
    assert one.check_command == "gpuforge run --save after.gfp program.py"


def test_spans_merged_by_the_recorder_count_for_all_of_them() -> None:
    making = Calling()
    place = making.call("length", backend="numpy", label="host", extra_ns=20_000 * 1000)
    making.profile.spans.count[place] = 1000
    [one] = of("calls_in_loop", making.profile)
    assert one.samples == 1000
    assert one.bound_seconds == pytest.approx(0.02, rel=0.01)
