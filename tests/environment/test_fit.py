"""Fit: more memory or a newer capability never lowers it; a minimum that is not met never wins."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from machines import CAPABILITIES, GB, GRID, LINUX, cpu_only, machines, nvidia, of_vendor

from gpuforge.compat.versions import parse_version
from gpuforge.environment import advice, target
from gpuforge.environment.fit import fit_profile
from gpuforge.environment.profile import load_profiles
from gpuforge.errors import EnvironmentMismatch
from gpuforge.facts import Absent, Device, Host, Machine, Vendor, known

PROFILES = load_profiles()
names = st.sampled_from(sorted(PROFILES))


@given(names, st.integers(0, 300 * GB), st.integers(0, 300 * GB), st.sampled_from(CAPABILITIES))
def test_more_memory_never_lowers_the_fit(name: str, one: int, two: int, capability: str) -> None:
    less, more = sorted((one, two))
    small, large = nvidia(capability, memory=less), nvidia(capability, memory=more)
    assert fit_profile(small, PROFILES[name]).score <= fit_profile(large, PROFILES[name]).score
    assert fit_profile(small, PROFILES[name]).met <= fit_profile(large, PROFILES[name]).met


@given(names, st.integers(0, 300 * GB), st.integers(0, 300 * GB))
def test_more_memory_of_the_host_never_lowers_the_fit(name: str, one: int, two: int) -> None:
    less, more = sorted((one, two))
    small = cpu_only(replace(LINUX, memory_total_bytes=less))
    large = cpu_only(replace(LINUX, memory_total_bytes=more))
    assert fit_profile(small, PROFILES[name]).score <= fit_profile(large, PROFILES[name]).score


@given(
    names, st.integers(0, 300 * GB), st.sampled_from(CAPABILITIES), st.sampled_from(CAPABILITIES)
)
def test_a_newer_capability_never_lowers_the_fit(
    name: str, memory: int, one: str, two: str
) -> None:
    older, newer = sorted((one, two), key=parse_version)
    before = fit_profile(nvidia(older, memory=memory), PROFILES[name])
    after = fit_profile(nvidia(newer, memory=memory), PROFILES[name])
    assert before.score <= after.score


@given(machines(), names)
def test_a_met_minimum_always_stands_above_one_that_is_not(machine: Machine, name: str) -> None:
    fits = [fit_profile(machine, profile) for profile in PROFILES.values()]
    assert all(0 <= fit.score <= 100 for fit in fits)
    assert max([f.score for f in fits if not f.met], default=0) <= min(
        [f.score for f in fits if f.met], default=100
    )


def _least(device: Device) -> int:
    """What may be counted on where the memory is not shown: what every such device has."""
    shown = known(device.memory_total_bytes)
    least = {"apple": 8 * GB, "amd": 64 * GB}.get(device.vendor, 2 * GB)
    return shown if shown is not None else least


@given(machines())
def test_an_unmet_minimum_is_never_recommended(machine: Machine) -> None:
    try:
        best = advice.recommend(machine, python="3.12")
    except EnvironmentMismatch:
        return
    need = best.profile.minimum_memory_gb * GB
    memory = [_least(device) for device in machine.devices]
    host = known(machine.host.memory_total_bytes)
    on_cpu = host is None or host >= need
    assert best.fit.met
    assert on_cpu if best.fit.device == "CPU" else max([*memory, host or 0]) >= need


@pytest.mark.parametrize(
    ("memory", "expected"),
    [(1, "lightweight"), (2, "lightweight"), (4, "learning"), (8, "nlp"), (12, "research"),
     (16, "computer_vision"), (24, "deep_learning"), (80, "deep_learning")],
)  # fmt: skip
def test_the_most_demanding_profile_that_fits_fully_is_recommended(
    memory: int, expected: str
) -> None:
    assert advice.recommend(nvidia(memory=memory * GB)).profile.name == expected


def test_each_accelerator_gets_a_plan_with_its_recommendation() -> None:
    for accelerator, machine in GRID.items():
        best = advice.recommend(machine, python="3.12")
        assert best.plan.refusal is None
        assert best.plan.accelerator == accelerator


@pytest.mark.parametrize(
    ("vendor", "facts", "profile"),
    [
        ("amd", {"architecture": "gfx942"}, "computer_vision"),
        ("apple", {"name": "Apple M1"}, "nlp"),
        ("intel", {"architecture": "alchemist"}, "lightweight"),
    ],
)
def test_a_gpu_whose_memory_is_not_shown_is_used(
    vendor: Vendor, facts: dict[str, str], profile: str
) -> None:
    host = Host(platform="macos", machine="arm64") if vendor == "apple" else LINUX
    machine = of_vendor(vendor, host, memory_total_bytes=Absent("not shown"), **facts)
    best = advice.recommend(machine, python="3.12")
    assert (best.profile.name, best.plan.accelerator != "cpu") == (profile, True)
    assert "at least" in best.fit.reason
    assert "CPU" not in best.fit.reason


@pytest.mark.parametrize(("name", "capability"), [("GeForce GTX 970", "5.2"), ("Tesla K80", "3.7")])
@pytest.mark.parametrize("own", [(3, 11), (3, 14)])
def test_a_newer_driver_is_advised_rather_than_another_framework_on_the_cpu(
    name: str, capability: str, own: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever Python gpuforge runs on: the one asked for counts."""
    monkeypatch.setattr(target, "sys", SimpleNamespace(version_info=own))
    best = advice.recommend(nvidia(capability, "390.157", name=name), python="3.12")
    assert best.plan.framework == "pytorch"
    assert best.plan.refusal is not None
    assert best.plan.refusal.change is not None
    assert best.plan.refusal.change.kind == "driver"


def test_a_gpu_that_nothing_can_use_counts_for_nothing() -> None:
    best = advice.recommend(of_vendor("amd", architecture="gfx803"))
    assert (best.fit.device, best.plan.accelerator) == ("CPU", "cpu")


def test_too_little_of_everything_is_said() -> None:
    with pytest.raises(EnvironmentMismatch, match="too little memory"):
        advice.recommend(cpu_only(replace(LINUX, memory_total_bytes=10**8)))


def test_the_memory_in_a_name_counts_where_no_tool_shows_it() -> None:
    device = Device(0, "nvidia", name="GA100 [A100 SXM4 40GB]", compute_capability="8.0")
    fit = fit_profile(
        Machine("ok", (device,), host=LINUX, best_device=0), PROFILES["deep_learning"]
    )
    assert fit.met
    assert "at least 40 GB" in fit.reason
