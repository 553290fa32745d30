"""Plans: every choice possible, every refusal with a reason, every trap sidestepped."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from machines import GRID, LINUX, MAC, cpu_only, machines, nvidia, of_vendor

from gpuforge.compat import rocm
from gpuforge.compat.builds import ACCELERATORS, FRAMEWORKS, PLATFORMS, Accelerator, builds
from gpuforge.compat.tables import entries
from gpuforge.compat.versions import parse_version
from gpuforge.environment.installed import check_resolved, parse_pins
from gpuforge.environment.obstacles import capabilities, obstacles
from gpuforge.environment.planning import Plan, Wish, plan_environment
from gpuforge.environment.profile import Profile, load_profiles
from gpuforge.environment.requirement import parse_requirement
from gpuforge.environment.target import target_of
from gpuforge.errors import InvalidSettings, UnknownName
from gpuforge.facts import Absent, Device, Driver, Host, Machine, VendorFailure, known

PROFILES = load_profiles()
TODAY = date(2026, 11, 21)
PYTHONS = ("3.11", "3.12", "3.13")


def plan(
    machine: Machine,
    profile: str | Profile = "lightweight",
    framework: str = "pytorch",
    *,
    accelerator: Accelerator | None = None,
    python: str = "3.12",
    platform: str | None = None,
    version: str = "",
    framework_index: str = "",
    today: date = TODAY,
    newer: Mapping[str, str] | None = None,
) -> Plan:
    chosen = PROFILES[profile] if isinstance(profile, str) else profile
    wish = Wish(chosen, framework, accelerator, version, framework_index)
    target = target_of(machine, python=python, platform=platform)
    return plan_environment(machine, wish, target, today=today, newer=newer)


def profile(*packages: str, framework: str = "") -> Profile:
    wanted = tuple(parse_requirement(text) for text in packages)
    if framework:
        return Profile("mine", frameworks={framework: wanted}, origin="a test")
    return Profile("mine", packages=wanted, origin="a test")


def requirements(found: Plan) -> list[str]:
    assert found.refusal is None, found.refusal
    return [package.requirement for package in found.packages]


def assert_possible(found: Plan, machine: Machine, *, by_name: bool = False) -> None:
    """Assert, from the raw tables, that nothing impossible was chosen."""
    if found.refusal is not None:
        assert found.refusal.reason
        assert not found.packages
        return
    build = found.build
    assert build is not None
    assert build.platform == found.target.platform in PLATFORMS
    assert found.target.python in build.pythons
    if found.target.glibc and found.target.platform.startswith("linux"):
        assert parse_version(found.target.glibc) >= parse_version(build.glibc_min)
    vendor = {"cuda": "nvidia", "rocm": "amd", "xpu": "intel", "metal": "apple"}
    own = [d for d in machine.devices if d.vendor == vendor.get(build.accelerator)]
    assert bool(own) == (build.accelerator != "cpu") or build.accelerator == "cpu"
    if build.accelerator == "cuda":
        assert any(_cuda_possible(found, device) for device in own)
    if build.accelerator == "rocm" and build.framework == "pytorch" and not by_name:
        assert any(build.variant in rocm.wheels(known(d.architecture) or "") for d in own)
    if build.accelerator == "xpu":
        told = [str(known(d.name) or known(d.architecture)).lower() for d in own]
        assert any(re.search(r"\barc\b|max|alchemist|battlemage|lake", name) for name in told)
    pins = {p.key: p.requirement for p in found.packages}
    majors = {name[-2:] for name in pins if name.endswith(("-cu12", "-cu13"))}
    majors |= {name[-3:-1] for name in pins if name.endswith(("cuda12x", "cuda13x"))}
    assert majors <= {str(build.cuda_major)}
    for entry in entries("companions", "module"):
        assert len(set(entry["packages"]) & set(pins)) <= 1
    assert all(package.reason for package in found.packages)


def _cuda_possible(found: Plan, device: Device) -> bool:
    build = found.build
    assert build is not None
    minimum = next(
        entry
        for entry in entries("cuda", "minor_compat")
        if entry["cuda_major"] == build.cuda_major
    )
    driver = known(device.driver)
    version = known(driver.version) if driver else None
    if version and version.count(".") == 3:
        digits = version.replace(".", "")[-5:]
        version = f"{digits[:3]}.{digits[3:]}"
    capability = known(device.compute_capability) or {"NVIDIA T4": "7.5"}.get(
        known(device.name) or ""
    )
    if version is None or capability is None:
        return False
    kind = "windows" if version.count(".") == 1 else found.target.driver_kind
    if parse_version(version) < parse_version(minimum[f"{kind}_min"]):
        return False
    have = parse_version(capability)
    if not build.codes:
        return have >= parse_version(build.capability_min) > ()
    for code in build.codes:
        of = parse_version(code)
        thor = {capability, code} == {"10.1", "11.0"}
        if (of[0] == have[0] and of[1] <= have[1]) or thor or (code.endswith("PTX") and of <= have):
            return True
    return False


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("accelerator", ACCELERATORS)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_whole_grid_is_planned_or_refused_with_a_reason(
    framework: str, accelerator: Accelerator, python: str
) -> None:
    for name in PROFILES:
        found = plan(GRID[accelerator], name, framework, accelerator=accelerator, python=python)
        assert_possible(found, GRID[accelerator])
        if found.refusal is None:
            assert found.accelerator == accelerator
            assert len(found.packages) >= 5


@settings(max_examples=300)
@given(
    machines(),
    st.sampled_from(sorted(PROFILES)),
    st.sampled_from(FRAMEWORKS),
    st.sampled_from(("3.9", "3.11", "3.12", "3.13", "3.14", "3.15")),
    st.sampled_from((None, *ACCELERATORS)),
    st.sampled_from((None, *PLATFORMS)),
)
def test_no_plan_holds_an_impossible_choice(
    machine: Machine,
    name: str,
    framework: str,
    python: str,
    accelerator: Accelerator | None,
    platform: str | None,
) -> None:
    found = plan(
        machine, name, framework, python=python, accelerator=accelerator, platform=platform
    )
    assert_possible(found, machine)
    assert (
        plan(machine, name, framework, python=python, accelerator=accelerator, platform=platform)
        == found
    )


@settings(max_examples=200)
@given(machines(), st.sampled_from(FRAMEWORKS))
def test_a_change_that_is_named_helps(machine: Machine, framework: str) -> None:
    found = plan(machine, "lightweight", framework, python="3.10")
    change = found.refusal.change if found.refusal else None
    if change is None or change.kind in ("repair", "system"):
        return
    accelerator = found.accelerator
    wanted = {"python": "3.10", "framework": framework}
    if change.kind in wanted:
        wanted[change.kind] = change.need
    if change.kind == "driver":
        machine = replace(
            machine,
            devices=tuple(
                replace(d, driver=Driver("nvidia", change.need)) if d.vendor == "nvidia" else d
                for d in machine.devices
            ),
        )
    again = plan(
        machine,
        "lightweight",
        wanted["framework"],
        python=wanted["python"],
        accelerator=accelerator,
    )  # type: ignore[arg-type]
    assert again.refusal is None


def test_pascal_gets_the_cuda_12_6_build_although_its_driver_runs_cuda_13() -> None:
    found = plan(nvidia("6.1", "580.65.06"), "production")
    assert requirements(found)[0] == "torch==2.14.1+cu126"
    assert found.packages[0].index.endswith("/cu126")
    assert "onnxruntime-gpu==1.26.0" in requirements(found)


def test_an_old_driver_of_the_same_major_is_enough() -> None:
    assert requirements(plan(nvidia("8.9", "580.65.06")))[0] == "torch==2.15.0"
    found = plan(nvidia("8.9", "535.104.05"))
    assert requirements(found)[0] == "torch==2.14.1+cu126"
    assert any("a newer release" in w and "580" in w for w in found.warnings)


def test_wsl_counts_the_drivers_of_windows() -> None:
    wsl = replace(LINUX, platform="wsl2")
    assert plan(nvidia("8.6", "527.04.01", host=LINUX), framework="jax").refusal is None
    # Two parts are a number of Windows, whatever system the snapshot of a machine shows.
    for driver, host in (("527.04.01", wsl), ("527.04", wsl), ("527.04", LINUX)):
        refusal = plan(nvidia("8.6", driver, host=host), framework="jax").refusal
        assert refusal is not None
        assert refusal.change is not None
        assert refusal.change.need == "528.33"


@pytest.mark.parametrize("family", ["alchemist", "battlemage", "lunar lake"])
def test_an_intel_gpu_without_a_name_is_known_by_its_architecture(family: str) -> None:
    found = plan(of_vendor("intel", architecture=family))
    assert requirements(found)[0] == "torch==2.15.0+xpu"
    assert plan(of_vendor("intel", architecture="gen9")).accelerator == "cpu"


def test_a_too_old_driver_is_refused_with_the_driver_that_would_help() -> None:
    found = plan(nvidia("8.6", "470.82"), framework="jax")
    assert found.refusal is not None
    assert found.refusal.change is not None
    assert (found.refusal.change.kind, found.refusal.change.need) == ("driver", "525.60.13")
    assert found.as_dict()["refusal"]["offer"] == "cpu"
    assert plan(nvidia("8.6", "470.82"), framework="jax", accelerator="cpu").refusal is None


def test_python_is_named_when_it_alone_is_wrong() -> None:
    arc = GRID["xpu"]
    found = plan(arc, framework="jax", python="3.11")
    assert found.refusal is not None
    assert found.refusal.change is not None
    assert (found.refusal.change.kind, found.refusal.change.need) == ("python", "3.12")


def test_a_framework_version_is_named_when_it_alone_is_wrong() -> None:
    found = plan(nvidia("6.1"), version="2.99.0")
    assert found.refusal is not None
    assert found.refusal.change is not None
    assert (found.refusal.change.kind, found.refusal.change.need) == ("version", "2.14.1")


def test_another_framework_is_named_where_one_has_no_build() -> None:
    found = plan(GRID["metal"], framework="tensorflow")
    assert found.refusal is not None
    assert found.refusal.change is not None
    assert (found.refusal.change.kind, found.refusal.change.need) == ("framework", "pytorch")


def test_a_gpu_that_nothing_serves_gives_the_cpu_and_says_so() -> None:
    found = plan(nvidia("3.0", "390.157"))
    assert (found.accelerator, found.refusal) == ("cpu", None)
    assert any("not for cuda" in warning for warning in found.warnings)


def test_an_unsupported_integrated_gpu_gets_the_cpu_build_not_the_xpu_one() -> None:
    found = plan(of_vendor("intel", name="Intel(R) UHD Graphics 770"))
    assert found.accelerator == "cpu"


def test_what_serves_a_family_on_linux_alone_is_not_taken_on_windows() -> None:
    name = "Intel(R) Data Center GPU Max 1100"
    assert plan(of_vendor("intel", name=name)).accelerator == "xpu"
    windows = of_vendor("intel", Host(platform="windows", machine="AMD64"), name=name)
    refusal = plan(windows).refusal
    assert refusal is not None
    assert "on Windows" in refusal.reason


@pytest.mark.parametrize("capability", ["5.3", "6.2", "7.2", "8.7"])
def test_a_jetson_gets_no_build_for_servers_of_an_older_cuda(capability: str) -> None:
    jetson = Host(platform="jetson", machine="aarch64", libc="glibc 2.35")
    for framework in FRAMEWORKS:
        found = plan(nvidia(capability, "540.4.0", host=jetson), framework=framework)
        assert found.accelerator == "cpu" or found.refusal is not None
    orin = plan(nvidia("8.7", "580.00", host=jetson))
    assert requirements(orin)[0] == "torch==2.15.0"


@pytest.mark.parametrize("gfx", ["gfx803", "gfx1103", "gfx1010"])
def test_rocm_is_not_chosen_for_a_target_it_does_not_hold(gfx: str) -> None:
    assert plan(of_vendor("amd", architecture=gfx)).accelerator == "cpu"


def test_an_unknown_capability_is_taken_from_the_product_name_or_not_at_all() -> None:
    unknown = Absent("not shown")
    assert plan(nvidia(unknown, name="Tesla V100-SXM2-16GB")).accelerator == "cuda"
    assert plan(nvidia(unknown, Absent("not shown"), name="NVIDIA X")).accelerator == "cpu"


def test_of_a_family_alone_a_build_must_serve_every_member() -> None:
    family = replace(nvidia(Absent("not shown")).devices[0], architecture="pascal")
    machine = Machine("ok", devices=(family,), host=LINUX)
    assert requirements(plan(machine))[0] == "torch==2.14.1+cu126"
    assert requirements(plan(machine, framework="tensorflow"))[0].startswith("tensorflow[")


def test_a_target_is_taken_from_the_product_name() -> None:
    found = plan(of_vendor("amd", name="Arcturus GL-XL [Instinct MI100]"))
    assert requirements(found)[0] == "torch==2.13.0+rocm7.2"


def test_driver_numbers_of_windows_are_understood() -> None:
    windows = Host(platform="windows", machine="x86_64")
    found = plan(nvidia("7.5", "31.0.15.1694", host=windows), framework="pytorch")
    assert requirements(found)[0] == "torch==2.5.1+cu118"


def test_an_unreadable_gpu_is_refused_not_replaced_by_the_cpu() -> None:
    machine = Machine(
        "driver_error",
        failures=(VendorFailure("nvidia", "driver_not_loaded", "no driver"),),
        host=LINUX,
    )
    found = plan(machine)
    assert found.refusal is not None
    assert "no driver" in found.refusal.reason
    assert found.accelerator == "cuda"
    assert plan(machine, accelerator="cpu").refusal is None


def test_one_build_that_serves_every_card_is_preferred() -> None:
    new, old = nvidia("8.9").devices[0], nvidia("6.1").devices[0]
    both = Machine("ok", devices=(new, replace(old, index=1, score=20)), host=LINUX)
    assert requirements(plan(both))[0] == "torch==2.14.1+cu126"
    split = Machine(
        "ok", devices=(nvidia("12.0").devices[0], replace(old, index=1, score=20)), host=LINUX
    )
    found = plan(split)
    assert requirements(found)[0] == "torch==2.15.0"
    assert any("is not supported by" in warning for warning in found.warnings)


@pytest.mark.parametrize(
    ("glibc", "version"), [("glibc 2.17", "2.6.0"), ("glibc 2.28", "2.15.0"), ("2.39", "2.15.0")]
)
def test_glibc_limits_the_release(glibc: str, version: str) -> None:
    found = plan(cpu_only(replace(LINUX, libc=glibc)))
    assert found.build is not None
    assert found.build.version == version


def test_old_macos_limits_the_release() -> None:
    machine = of_vendor("apple", MAC, name="Apple M1")
    wish = Wish(PROFILES["lightweight"])
    for macos, accelerator, version in (("15.1", "metal", "2.15.0"), ("13.6", None, None)):
        target = target_of(machine, python="3.12", macos=macos)
        found = plan_environment(machine, wish, target, today=TODAY)
        assert (found.build.version if found.build else None) == version
        if accelerator is None:
            assert found.refusal is not None
            assert found.refusal.change is not None
            assert found.refusal.change.kind == "system"


@pytest.mark.parametrize(
    "host",
    [
        Host(platform="macos", machine="x86_64"),
        Host(platform="linux", machine="ppc64le"),
        Host(platform="freebsd", machine="x86_64"),
        replace(LINUX, libc="musl 1.2"),
    ],
)
def test_a_platform_without_wheels_is_refused(host: Host) -> None:
    refusal = plan(cpu_only(host)).refusal
    assert refusal is not None
    assert "has no build for" in refusal.reason


def test_companions_follow_the_cuda_major() -> None:
    wanted = profile("cupy", "numba-cuda", "cudf", "onnxruntime-gpu")
    thirteen = requirements(plan(nvidia(), wanted))
    assert "cupy-cuda13x[ctk]>=14.0.1" in thirteen
    assert "numba-cuda[cu13]>=0.28" in thirteen
    assert "cudf-cu13>=26.10" in thirteen
    twelve = plan(nvidia("6.1"), wanted)
    assert "cupy-cuda12x[ctk]>=14.0.1" in requirements(twelve)
    assert any(w.startswith("cudf is omitted") for w in twelve.warnings)
    cpu = plan(cpu_only(), wanted)
    assert requirements(cpu)[1:] == ["onnxruntime"]
    assert sum("is omitted" in warning for warning in cpu.warnings) == 3


def test_a_package_of_the_wrong_cuda_major_is_repaired_or_refused() -> None:
    repaired = plan(nvidia(), profile("cupy-cuda12x", "cudf-cu12"))
    assert "cupy-cuda13x[ctk]>=14.0.1" in requirements(repaired)
    refusal = plan(nvidia(), profile("nvidia-cudnn-cu12")).refusal
    assert refusal is not None
    assert "same library files" in refusal.reason
    assert plan(cpu_only(), profile("nvidia-cudnn-cu12")).refusal is None


def test_a_second_framework_shares_the_cuda_major_or_is_refused() -> None:
    both = plan(nvidia(), profile("jax"))
    assert "jax[cuda13]==0.12.0.1" in requirements(both)
    # tensorflow is for CUDA 12 only, so torch steps back to a build of CUDA 12.
    assert "torch==2.14.1+cu126" in requirements(plan(nvidia(), profile("torch"), "tensorflow"))
    assert "torch==2.10.0" in requirements(plan(nvidia("12.0"), profile("torch"), "tensorflow"))
    mixed = plan(
        nvidia("7.5", "580.65.06", host=replace(LINUX, machine="aarch64")), profile("tensorflow")
    )
    assert mixed.refusal is not None


def test_two_wheels_of_one_module_become_one() -> None:
    found = plan(cpu_only(), profile("opencv-python", "opencv-python-headless"))
    assert requirements(found)[1:] == ["opencv-python"]
    found = plan(nvidia(), profile("onnxruntime", "onnxruntime-gpu"))
    assert requirements(found)[1:] == ["onnxruntime-gpu>=1.28"]


def test_a_bound_on_the_framework_is_kept_and_a_pin_chooses_the_build() -> None:
    assert "torch>=2.6" in requirements(plan(cpu_only(), profile("torch>=2.6")))
    found = plan(cpu_only(), profile("torch==2.13.0"))
    assert requirements(found) == ["torch==2.13.0+cpu"]


def test_idle_packages_are_named() -> None:
    found = plan(cpu_only(), profile("gym"))
    assert any("gymnasium" in warning for warning in found.warnings)


def test_a_name_that_is_nearly_known_is_questioned() -> None:
    found = plan(cpu_only(), profile("numpyy", "polars", "cupy-cuda12x"))
    assert [w for w in found.warnings if "did you mean" in w] == [
        "numpyy is not a known package: did you mean 'numpy'?"
    ]


def test_torchvision_goes_with_torch() -> None:
    assert "torchvision==0.29.2" in requirements(plan(nvidia(), "learning"))
    assert "torchvision==0.28.0+cu126" in requirements(
        plan(nvidia("6.1"), "learning", version="2.13.0")
    )


def test_the_frameworks_own_index_can_be_replaced() -> None:
    found = plan(cpu_only(), framework_index="default")
    assert found.packages[0].requirement == "torch==2.15.0"
    assert found.indexes == ()
    found = plan(cpu_only(), framework_index="https://mirror.example/torch")
    assert found.indexes == ("https://mirror.example/torch",)
    for hostile in ("https://a b", "x\ny", "--flag", "ftp://a", 'https://a"b', "https://a`b`"):
        with pytest.raises(InvalidSettings):
            plan(cpu_only(), framework_index=hostile)


def test_old_facts_and_newer_releases_are_said() -> None:
    assert not plan(cpu_only()).warnings
    assert any("days old" in w for w in plan(cpu_only(), today=date(2027, 4, 1)).warnings)
    found = plan(cpu_only(), newer={"torch": "2.16.0", "jax": "0.12.0.1"})
    assert any("torch 2.16.0 is available" in w for w in found.warnings)
    assert not plan(cpu_only(), framework="jax", newer={"jax": "0.12.0.1"}).warnings


def test_pins_are_kept_where_the_build_allows_them() -> None:
    assert "onnxruntime-gpu==1.31.1" in requirements(plan(nvidia(), "production"))
    assert "onnxruntime==1.31.1" in requirements(plan(cpu_only(), "production"))


def test_production_pins_every_package() -> None:
    for framework in FRAMEWORKS:
        assert all("==" in text for text in requirements(plan(nvidia(), "production", framework)))


def test_unknown_names_have_a_hint() -> None:
    with pytest.raises(UnknownName) as error:
        plan(cpu_only(), framework="pytorhc")
    assert "pytorch" in error.value.hint
    with pytest.raises(UnknownName):
        plan(cpu_only(), platform="linux-32")
    with pytest.raises(InvalidSettings):
        plan(cpu_only(), python="three")


@pytest.mark.parametrize(
    ("pins", "problem"),
    [
        ("nvidia-cudnn-cu12==9.1\nnvidia-nccl-cu13==2.3\n", "two CUDA majors"),
        ("cuda-bindings==12.9.2\nnvidia-nccl-cu13==2.3\n", "two CUDA majors"),
        ("cupy-cuda12x==14.2.0\ncupy-cuda13x==14.2.0\n", "two CUDA majors"),
        ("onnxruntime==1.31.1\nonnxruntime-gpu==1.31.1\n", "module onnxruntime"),
        ("opencv-python==5.0\nopencv_python_headless==5.0\n", "module cv2"),
    ],
)
def test_what_resolves_but_cannot_work_is_found(pins: str, problem: str) -> None:
    assert any(problem in found for found in check_resolved(parse_pins(pins)))


def test_a_silent_step_back_is_found() -> None:
    found = plan(nvidia(), profile("cudf"))
    pins = {"torch": "2.15.0", "cudf-cu13": "25.6.0"}
    assert any("older than the planned" in text for text in check_resolved(pins, found))
    assert not check_resolved({"torch": "2.15.0", "cudf-cu13": "26.10.2"}, found)
    assert any("is not installed" in text for text in check_resolved({"torch": "2.15.0"}, found))


@pytest.mark.parametrize(
    ("name", "capability"),
    [
        ("GeForce RTX 208...", "7.5"), ("NVIDIA GeForce RTX 3060 ...", "8.6"),
        ("GeForce GTX 108...", "6.1"), ("Tesla V100-SXM2...", "7.0"), ("Quadro RTX 6...", "7.5"),
        ("NVIDIA CMP 30HX", "7.5"), ("CMP 170HX", "8.0"), ("NVIDIA CMP 90HX", "8.6"),
        ("GeForce GTX 1660 Ti", "7.5"), ("NVIDIA RTX 4000 SFF Ada Generation", "8.9"),
        ("NVIDIA RTX A2000", "8.6"), ("NVIDIA A10G", "8.6"), ("NVIDIA T1000 8GB", "7.5"),
    ],
)  # fmt: skip
def test_a_name_cut_short_or_unlisted_still_tells_the_capability(
    name: str, capability: str
) -> None:
    machine = nvidia(Absent("not shown"), "580.65.06", name=name)
    assert capabilities(machine.devices[0]) == (capability,)
    assert plan(machine).accelerator == "cuda"


def test_a_card_of_unknown_name_is_one_that_its_driver_serves() -> None:
    unknown = Absent("not shown")
    assert requirements(plan(nvidia(unknown, "590.48.01", name="NVIDIA GeForce ...")))[0] == (
        "torch==2.15.0"
    )
    assert requirements(plan(nvidia(unknown, "535.54.03", name="NVIDIA GeForce ...")))[0] == (
        "torch==2.14.1+cu126"
    )


@pytest.mark.parametrize(
    ("facts", "accelerator"),
    [
        ({"name": "Intel(R) Graphics [0x7d55]"}, "xpu"),
        ({"pci_id": "8086:7d55"}, "xpu"),
        ({"name": "Intel Corporation Graphics", "pci_id": "8086:7dd5"}, "xpu"),
        ({"name": "Mesa Intel(R) Graphics (MTL)"}, "xpu"),
        ({"pci_id": "8086:9a49"}, "cpu"),
        ({"name": "Intel(R) Data Center GPU Flex 170", "architecture": "alchemist"}, "cpu"),
    ],
)
def test_meteor_lake_is_known_without_its_name(facts: dict[str, str], accelerator: str) -> None:
    assert plan(of_vendor("intel", **facts)).accelerator == accelerator


@pytest.mark.parametrize("framework", ["tensorflow", "jax"])
@pytest.mark.parametrize("capability", ["6.0", "6.1", "7.0"])
def test_a_device_that_cudnn_dropped_gets_the_last_one_that_serves_it(
    framework: str, capability: str
) -> None:
    found = requirements(plan(nvidia(capability, "550.54.15"), framework=framework))
    assert "nvidia-cudnn-cu12==9.10.2.21" in found
    newer = requirements(plan(nvidia("7.5", "550.54.15"), framework=framework))
    assert not [package for package in newer if "cudnn" in package]


def test_volta_gets_no_build_whose_cudnn_dropped_it() -> None:
    build = next(b for b in builds("pytorch") if (b.version, b.variant) == ("2.11.0", "cu128"))
    met = obstacles(build, nvidia("7.0").devices[0], target_of(nvidia("7.0"), python="3.12"))
    assert [obstacle.kind for obstacle in met] == ["device"]
    assert "cuDNN 9.17.1.4" in met[0].reason


@pytest.mark.parametrize(
    ("module", "variant"),
    [("6.2.4", "rocm6.1"), ("6.3.6", "rocm6.2.4"), ("6.8.5", "rocm6.4"), ("6.12.12", "rocm7.2"),
     ("6.8.0-45-generic", "rocm7.2")],
)  # fmt: skip
def test_mi100_gets_a_rocm_that_its_kernel_driver_takes(module: str, variant: str) -> None:
    machine = of_vendor("amd", architecture="gfx908", driver=Driver("amdgpu", module))
    found = plan(machine)
    assert found.build is not None
    assert found.build.variant == variant
    jax = plan(machine, framework="jax")
    assert (jax.refusal is None) == (variant == "rocm7.2")


def test_a_kernel_driver_too_old_for_every_rocm_is_refused_with_one_that_is_not() -> None:
    machine = of_vendor("amd", architecture="gfx900", driver=Driver("amdgpu", "5.9.25"))
    refusal = plan(machine).refusal
    assert refusal is not None
    assert refusal.change is not None
    assert refusal.change.kind == "driver"
    assert "amdgpu 6." in str(refusal.change)


@pytest.mark.parametrize("driver", ["450.80.02", "510.47.03"])
def test_companions_of_an_old_torch_work_with_it(driver: str) -> None:
    machine = nvidia("8.0", driver)
    vision = requirements(plan(machine, "computer_vision"))
    assert vision[0] == "torch==2.5.1+cu118"
    assert {"transformers<5.6", "torchcodec==0.1.*"} <= set(vision)
    assert {"torchrl==0.6.*", "tensordict==0.6.*"} <= set(
        requirements(plan(machine, "reinforcement_learning"))
    )
    assert "torchao==0.12.0" in requirements(plan(machine, "deep_learning"))
    newest = requirements(plan(nvidia(), "computer_vision"))
    assert {"transformers", "torchcodec>=0.12"} <= set(newest)


def test_a_pair_without_a_wheel_for_the_platform_is_left_out() -> None:
    found = plan(nvidia("8.0", "510.47.03"), "computer_vision", platform="win-64")
    assert not [text for text in requirements(found) if text.startswith("torchcodec")]
    assert any("torchcodec is omitted" in warning for warning in found.warnings)


@settings(max_examples=150)
@given(machines(), st.sampled_from(FRAMEWORKS), st.sampled_from(("3.9", "3.10", "3.14")))
def test_advice_to_step_forward_brings_what_it_names(
    machine: Machine, framework: str, python: str
) -> None:
    found = plan(machine, framework=framework, python=python)
    for warning in found.warnings:
        advised = re.search(r"is possible: choose Python (\S+) to use (\S+ \S+ \(\S+\))", warning)
        if advised is None or found.build is None:
            continue
        again = plan(machine, framework=framework, python=advised[1])
        assert again.build is not None
        assert advised[2] == f"{framework} {again.build.version} ({again.build.variant})"
        assert again.build.version != found.build.version


def test_repair_is_advised_only_where_the_framework_has_a_build_for_such_a_gpu() -> None:
    failed = VendorFailure("amd", "permission", "/dev/kfd may not be opened")
    machine = Machine("driver_error", failures=(failed,), host=LINUX)
    torch = plan(machine)
    assert torch.refusal is not None
    assert "gpuforge doctor" in str(torch.refusal.change)
    assert "fits" not in str(torch.refusal.change)
    assert plan(machine, framework="tensorflow").refusal is None


def test_a_machine_with_a_driver_of_windows_is_planned_as_windows() -> None:
    device = replace(nvidia("7.5").devices[0], driver=Driver("nvidia", "31.0.15.5134"))
    target = target_of(Machine("ok", devices=(device,)), python="3.12")
    assert (target.platform, target.driver_kind) == ("win-64", "windows")


def test_freebsd_is_refused_by_its_name() -> None:
    for machine in (nvidia(host=Host(platform="freebsd", machine="amd64")),
                    cpu_only(Host(platform="freebsd", machine="amd64"))):  # fmt: skip
        refusal = plan(machine).refusal
        assert refusal is not None
        assert "FreeBSD" in refusal.reason


def test_the_default_index_is_named_for_what_it_holds() -> None:
    cpu = plan(cpu_only(), framework_index="default")
    assert cpu.build is not None
    assert (cpu.build.requirement, cpu.build.variant) == ("torch==2.15.0", "cu132")
    assert any("runs on the CPU" in warning for warning in cpu.warnings)
    # An older driver gets the newest release whose build there it runs.
    old = plan(nvidia("8.9", "535.104.05"), framework_index="default")
    assert old.build is not None
    assert (old.build.requirement, old.build.variant) == ("torch==2.10.0", "cu128")
    assert plan(nvidia("6.1", "580.65.06"), framework_index="default").build is not None
    older = plan(nvidia("8.0", "510.47.03"), framework_index="default")
    assert older.refusal is not None
