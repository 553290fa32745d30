"""Each rule speaks where it must and is silent where it must not; all of them keep their word."""

from __future__ import annotations

import argparse
import math
import shlex
import subprocess
import sys
from array import array
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpuforge import registry
from gpuforge.profiler.advise import FEWEST_SAMPLES, RULES, SMALLEST_SHARE, Suggestion, suggestions
from gpuforge.profiler.advise.facts import Facts
from gpuforge.profiler.model import ITSELF, LABELS, NO_PARENT, Profile, Series
from tests.profiler.made import MS
from tests.profiler.made_for_advice import CUDA, MADE, Calling, gpu, put, run

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


def test_the_longest_step_of_a_first_call_is_named() -> None:
    (found,) = of("first_calls", MADE["first_calls"][0]())
    told = "longest step of the first call: compile, 100 ms (62.5 % of the wall time)"
    assert told in found.evidence


def test_compiling_is_no_part_of_starting_a_call() -> None:
    making = Calling()
    for _ in range(40):
        making.call("step", ("compile", "overhead", 10 * MS), run(2 * MS), extra_ns=MS)
    assert not of("short_runs", making.profile)
    for _ in range(80):
        making.call("step", run(2 * MS), extra_ns=6 * MS)
    (found,) = of("short_runs", making.profile)
    told = "a typical call without compiling: 8 ms, of which the device computes 2 ms"
    assert told in found.evidence


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
    assert one.evidence[0] == (
        "39 transfers of arrays that had already been transferred: 372 MiB in 39 ms"
    )
    assert one.check_command == "gpuforge run --save after.gfp program.py"


@pytest.mark.parametrize(
    ("program", "by", "plain", "flagged"),
    [
        ("python3 -m a b", "", "--save after.gfp -m a b", "--backend jax --save after.gfp -m a b"),
        ("python a.py", ITSELF, "python a.py", "gpuforge run --backend jax a.py"),
        ("python -m ipykernel_launcher -f x", ITSELF, "run the cell again", "run the cell again"),
        ("", "", "gpuforge run --save after.gfp PROGRAM", "jax --save after.gfp PROGRAM"),
    ],
)
def test_the_check_records_the_program_as_it_was(
    program: str, by: str, plain: str, flagged: str
) -> None:
    facts = Facts(Profile(header={"program": program.split(), "recorded_by": by}))
    assert facts.again().endswith(plain)
    assert facts.again("--backend", "jax").endswith(flagged)


def test_spans_merged_by_the_recorder_count_for_all_of_them() -> None:
    making = Calling()
    place = making.call("length", backend="numpy", label="host", extra_ns=20_000 * 1000)
    making.profile.spans.count[place] = 1000
    [one] = of("calls_in_loop", making.profile)
    assert one.samples == 1000
    assert one.bound_seconds == pytest.approx(0.02, rel=0.01)


KEYS = {
    "function": st.sampled_from(["f", "g"]),
    "file": st.just("program.py"),
    "line": st.integers(1, 9),
    "backend": st.sampled_from(["numpy", "torch:cpu", CUDA, "opencl"]),
    "shape": st.lists(st.integers(0, 10**6), max_size=3),
    "dtype": st.sampled_from(["float64", "float32", "bool", "datetime64[ns]"]),
    "strides": st.lists(st.integers(-64, 64), max_size=3),
    "direction": st.sampled_from(["to device", "from device"]),
    "sources": st.lists(
        st.tuples(st.integers(0, 3), st.integers(1, 10**6), st.none() | st.just(1))
    ),
    "pinned": st.booleans(),
    "operation": st.sampled_from(["matmul", "add", "exp"]),
    "output_bytes": st.none() | st.integers(0, 10**9),
    "reason": st.just("not finite"),
}
NAMES = ["put", "get", "run", "compile", "settle", "fallback", "add", "exp", "f", "load"]


@st.composite
def profiles(draw: st.DrawFn) -> Profile:
    """Return a profile in which anything may be said of any span, and nothing need be."""
    making = Calling(**gpu(compute_capability="8.6", memory_total_bytes=10**10))
    places = [NO_PARENT]
    for start in range(draw(st.integers(0, 30))):
        lane = making.lane(*draw(st.sampled_from([("MainThread",), ("other",)])))
        label = draw(st.sampled_from(LABELS))
        if label == "device":
            lane = making.lane(f"{CUDA} compute", "device")
        said = draw(st.fixed_dictionaries({}, optional=KEYS))
        places.append(making.span(
            draw(st.sampled_from(NAMES)), start * MS, draw(st.integers(0, 100 * MS)),
            inside=draw(st.sampled_from(places)), lane=lane, label=label,
            nbytes=draw(st.integers(0, 10**9)), count=draw(st.integers(1, 1000)), **said,
        ))  # fmt: skip
    for name in ("throttled", "clock", "utilisation", "memory used"):
        values = array("d", draw(st.lists(st.floats(0, 1e10), max_size=5)))
        times = array("q", range(len(values)))
        making.profile.series.append(Series(name, "", "gpu 0", times, values))
    making.profile.cost_ns = draw(st.integers(0, 10**9))
    return making.profile


@settings(max_examples=100)
@given(profiles())
@example(Profile())
def test_no_profile_makes_a_rule_fail_or_promise_more_than_the_wall_time(profile: Profile) -> None:
    facts = Facts(profile)
    for rule in registry.load(RULES).modules.values():
        for one in rule.look(facts):
            assert 0 <= one.bound_seconds <= profile.wall_ns / 1e9
            assert one.title and one.advice and one.evidence
    suggestions(profile)


def test_the_page_says_what_the_rules_say() -> None:
    page = Path(__file__).parents[2] / "docs" / "suggestions.md"
    script = page.with_name("generate_suggestions.py")
    done = subprocess.run(
        [sys.executable, script, "--print"], capture_output=True, text=True, check=True
    )
    same = done.stdout == page.read_text(encoding="utf-8")
    assert same, "run 'python docs/generate_suggestions.py' and commit the page"
