"""Plans for machines whose outputs were recorded: the committed table, and nothing impossible."""

from __future__ import annotations

import runpy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from machines import machines, nvidia, of_vendor
from test_plan import assert_possible, plan

from gpuforge.compat.builds import FRAMEWORKS
from gpuforge.facts import Driver, Machine

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "environments" / "plans.py"


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(SCRIPT))


def test_the_committed_table_is_what_is_planned(corpus: Path, script: dict[str, Any]) -> None:
    text = script["TABLE"].read_text(encoding="utf-8")
    assert script["render"](corpus / "devices") == text


@pytest.fixture(scope="module")
def rules() -> dict[str, Any]:
    return runpy.run_path(str(SCRIPT.with_name("rules.py")))


def test_no_plan_breaks_a_rule_that_the_facts_tell(corpus: Path, rules: dict[str, Any]) -> None:
    found = rules["measure"](corpus / "devices")
    assert found["plans"] > 2000
    assert found["impossible"] == []
    assert found["needless_cpu"] == []


@settings(max_examples=300)
@given(machines(), st.sampled_from(FRAMEWORKS), st.sampled_from(["nlp", "computer_vision"]))
def test_no_plan_of_an_invented_machine_breaks_a_rule(
    rules: dict[str, Any], machine: Machine, framework: str, name: str
) -> None:
    assert list(rules["wrong"](plan(machine, name, framework), machine)) == []


def test_the_rules_find_what_is_wrong(rules: dict[str, Any]) -> None:
    pascal, old = nvidia("6.0", "535.54.03"), nvidia("8.0", "510.47.03")
    newest = plan(nvidia(), "nlp")
    assert any("driver" in text for text in rules["wrong"](newest, pascal))
    assert any("no kernels" in text for text in rules["wrong"](newest, nvidia("6.0")))
    cpu = plan(pascal, "nlp", accelerator="cpu")
    assert any("needless" in text for text in rules["wrong"](cpu, pascal))
    made = plan(old, "computer_vision")
    loose = tuple(replace(p, requirement=p.requirement.split("<")[0]) for p in made.packages)
    assert list(rules["wrong"](made, old)) == []
    assert any("transformers" in t for t in rules["wrong"](replace(made, packages=loose), old))
    jax = plan(pascal, "nlp", "jax")
    without = tuple(p for p in jax.packages if "cudnn" not in p.requirement)
    assert any("cuDNN" in t for t in rules["wrong"](replace(jax, packages=without), pascal))
    mi100 = of_vendor("amd", architecture="gfx908", driver=Driver("amdgpu", "6.2.4"))
    newer = plan(of_vendor("amd", architecture="gfx908"))
    assert any("amdgpu 6.2.4" in text for text in rules["wrong"](newer, mi100))


def test_no_recorded_machine_gets_an_impossible_choice(
    corpus: Path, script: dict[str, Any]
) -> None:
    snapshots = script["snapshots"](corpus / "devices")
    assert len(snapshots) > 100
    for snapshot in snapshots:
        machine = script["machine_of"](snapshot)
        for framework in FRAMEWORKS:
            for name in ("production", "research"):
                found = plan(machine, name, framework)
                assert_possible(found, machine, by_name=True)


def planned(name: str, corpus: Path, script: dict[str, Any]) -> Any:
    machine = script["machine_of"](corpus / "devices" / name)
    profile = script["load_profiles"]()["learning"]
    return script["advice"].plan(profile, "pytorch", machine=machine, python="3.12")


def test_a_platform_without_any_build_is_refused_without_more_words(
    corpus: Path, script: dict[str, Any]
) -> None:
    found = planned("mac-intel-amd-dual-mojave-text", corpus, script)
    assert found.refusal is not None
    assert not [text for text in found.warnings if text.startswith("CPU, not")]


def test_a_card_that_the_release_lists_comes_without_a_note(
    corpus: Path, script: dict[str, Any]
) -> None:
    found = planned("amd-rx9060xt-amdgpu-top-json", corpus, script)
    assert found.accelerator == "rocm"
    assert not [text for text in found.warnings if text.startswith("gfx1200")]
