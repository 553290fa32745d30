"""The tables of `compat`: sourced, and read as their rules say."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuforge.compat import cuda, intel, rocm, tables
from gpuforge.compat.builds import ACCELERATORS, FRAMEWORKS, PLATFORMS, builds, releases
from gpuforge.compat.tables import checked, entries, every_entry
from gpuforge.compat.versions import at_least, parse_version

NAMES = sorted(path.stem for path in Path(tables.__file__).parent.glob("*.toml"))
CAPABILITIES = [entry["cc"] for entry in entries("nvidia", "arch")]


@pytest.mark.parametrize("name", NAMES)
def test_every_entry_names_its_source_and_day(name: str) -> None:
    for entry in every_entry(name):
        assert entry["source"].strip(), entry
        assert date(2026, 1, 1) <= entry["checked"] <= date(2030, 1, 1), entry


def test_checked_is_the_oldest_entry() -> None:
    assert checked("cuda", "jax") == min(
        entry["checked"] for name in ("cuda", "jax") for entry in every_entry(name)
    )


@pytest.mark.parametrize(
    ("driver", "kind", "expected"),
    [
        ("580.65.06", "linux", (13, 12, 11)),
        ("580", "linux", (13, 12, 11)),
        ("579.99", "linux", (12, 11)),
        ("525.60.13", "linux", (12, 11)),
        ("525.60.12", "linux", (11,)),
        ("528.33", "windows", (12, 11)),
        ("528.32", "windows", (11,)),
        ("450.80.01", "linux", ()),
    ],
)
def test_majors_follow_minor_version_compatibility(
    driver: str, kind: cuda.DriverKind, expected: tuple[int, ...]
) -> None:
    assert cuda.majors(driver, kind) == expected


def test_newest_toolkit_is_the_full_one_not_the_minimum() -> None:
    assert cuda.newest_toolkit("535.104.05") == "12.2"
    assert cuda.newest_toolkit("590.48.01") == "13.1"
    assert cuda.newest_toolkit("100.1") is None


@pytest.mark.parametrize(
    ("capability", "code", "version", "runs"),
    [
        ("8.6", "8.0", "12.6", True),
        ("8.0", "8.6", "12.6", False),
        ("8.9", "8.6", "12.6", True),
        ("9.0", "8.6", "12.6", False),
        ("6.1", "6.0", "12.6", True),
        ("6.2", "6.0", "12.6", False),
        ("5.3", "5.0", "12.6", False),
        ("8.7", "8.0", "13.0", False),
        ("8.7", "8.0", "13.2", True),
        ("11.0", "10.1", "12.8", True),
        ("12.1", "12.0", "13.0", True),
        ("12.0", "10.0", "13.0", False),
    ],
)
def test_compiled_code_runs_on_its_own_generation(
    capability: str, code: str, version: str, runs: bool
) -> None:
    assert cuda.runs_code(capability, code, version) is runs


def test_ptx_serves_newer_devices_when_the_driver_knows_its_cuda() -> None:
    assert cuda.serving_code("12.0", ("8.9", "9.0+PTX"), "12.5", "12.8") == "9.0+PTX"
    assert cuda.serving_code("12.0", ("8.9", "9.0+PTX"), "12.5", "12.4") is None
    assert cuda.serving_code("12.0", ("8.9", "9.0+PTX"), "12.5", None) is None
    assert cuda.serving_code("7.0", ("8.9", "9.0+PTX"), "12.5", "12.8") is None


@given(st.sampled_from(CAPABILITIES), st.sampled_from(CAPABILITIES))
def test_code_of_another_major_never_runs_but_for_the_renumbered_thor(one: str, two: str) -> None:
    if cuda.runs_code(one, two, "13.2"):
        majors = {parse_version(one)[0], parse_version(two)[0]}
        assert len(majors) == 1 or {one, two} == {"10.1", "11.0"}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Tesla V100-SXM2-16GB", "7.0"),
        ("NVIDIA GeForce RTX 4070 Ti", "8.9"),
        ("NVIDIA GeForce RTX 3060 Laptop GPU", "8.6"),
        ("NVIDIA H100 80GB HBM3", "9.0"),
        ("NVIDIA A10G", None),
        ("", None),
        ("Matrox G200", None),
    ],
)
def test_capability_of_a_product_name(name: str, expected: str | None) -> None:
    assert cuda.capability_of(name) == expected


def test_rocm_targets() -> None:
    assert "rocm7.2" in rocm.wheels("gfx1030")
    assert rocm.wheels("gfx803") == () == rocm.wheels("gfx1103")
    assert rocm.official("gfx90a", 7)
    assert not rocm.official("gfx906", 7)


@pytest.mark.parametrize(
    ("name", "serves"),
    [
        ("Intel(R) Arc(TM) A770 Graphics", True),
        ("Intel(R) Arc(TM) B580 Graphics", True),
        ("Intel(R) Data Center GPU Max 1550", True),
        ("Intel(R) UHD Graphics 730", False),
        ("Intel(R) Iris(R) Xe Graphics", False),
        ("HD Graphics 520", False),
    ],
)
def test_intel_families(name: str, serves: bool) -> None:
    found = intel.family_of(name)
    assert found is not None
    assert found.xpu is serves


def test_unknown_intel_device_is_in_no_family() -> None:
    assert intel.family_of("Mobile 4 Series Chipset") is None


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_builds_are_whole(framework: str) -> None:
    found = builds(framework)
    assert found
    assert [parse_version(v) for v in releases(framework)] == sorted(
        (parse_version(v) for v in releases(framework)), reverse=True
    )
    for build in found:
        assert build.accelerator in ACCELERATORS
        assert build.platform in PLATFORMS
        assert build.pythons
        assert (build.accelerator == "cuda") == bool(build.cuda)
        assert build.accelerator in ("metal", "cpu") or not build.platform.startswith("osx")


def test_default_index_builds_of_the_newest_torch() -> None:
    default = {
        b.platform: b.variant
        for b in builds("pytorch")
        if b.version == "2.15.0" and not b.index and b.accelerator != "metal"
    }
    assert default == {
        "linux-64": "cu132",
        "linux-aarch64": "cu132",
        "osx-arm64": "cpu",
        "win-64": "cpu",
    }


def test_versions_compare_as_packages_do() -> None:
    assert at_least("2.9", "2.9.0") and at_least("2.9.0", "2.9")
    assert not at_least("2.9.0rc1", "2.9.0") and at_least("2.9.0.post1", "2.9.0")
    assert at_least("glibc 2.35", "2.28") and not at_least("none", "0.1")
    assert at_least("7.5", "7.5+PTX")


@given(st.lists(st.integers(0, 999), min_size=1, max_size=4))
def test_versions_compare_as_numbers(parts: list[int]) -> None:
    text = ".".join(map(str, parts))
    assert parse_version(text) == tuple(parts)
    assert at_least(text, text)
    assert at_least(f"{text}.1", text)
