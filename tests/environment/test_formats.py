"""Exports: each parses in its own language, and nothing a user writes can leave its quotes."""

from __future__ import annotations

import json
import shlex
import tomllib
from datetime import date
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from machines import GRID, cpu_only, nvidia

from gpuforge.compat.builds import FRAMEWORKS
from gpuforge.environment import advice
from gpuforge.environment.companions import Package
from gpuforge.environment.formats import conda
from gpuforge.environment.planning import Plan, Wish, plan_environment
from gpuforge.environment.profile import Profile, load_profiles, parse_profile
from gpuforge.environment.quoting import comment, quoted
from gpuforge.environment.requirement import parse_requirement
from gpuforge.environment.target import target_of
from gpuforge.errors import EnvironmentMismatch, InvalidSettings, PlanRefused, UnknownName

PROFILES = load_profiles()
HOSTILE = [
    "numpy; rm -rf /",
    "numpy\nRUN evil",
    "numpy && evil",
    "$(evil)",
    "`evil`",
    'numpy"',
    "numpy'",
    "numpy #comment",
    "--index-url=https://evil",
    "-r /etc/passwd",
    "numpy @ https://evil/x.whl",
    "git+https://evil",
    "numpy{{ evil }}",
    "numpy: evil",
    "numpy]\nevil = [",
    "numpy\\",
    "numpy==1\x00",
    "numpy==1\u2028evil",
    "../../etc",
    "%post",
    "numpy; python_version < '4'",
    "numpy==1 || true",
    "ñumpy",
    "",
    "numpy[a;b]",
    "numpy>=$HOME",
]


def load_yaml(text: str) -> Any:
    return pytest.importorskip("yaml", reason="PyYAML reads YAML").safe_load(text)


def plans() -> dict[str, Plan]:
    found = {}
    for accelerator, machine in GRID.items():
        for name, profile in PROFILES.items():
            for framework in FRAMEWORKS:
                wish = Wish(profile, framework, accelerator)  # type: ignore[arg-type]
                target = target_of(machine, python="3.12")
                one = plan_environment(machine, wish, target, today=date(2026, 11, 21))
                if one.refusal is None:
                    found[f"{name}-{framework}-{accelerator}"] = one
    return found


PLANS = plans()
NAMES = sorted(PLANS)


IMAGES = [
    name for name in NAMES if PLANS[name].target.platform == "linux-64" and "jax-rocm" not in name
]


def exported(found: Plan, format_name: str) -> str:
    return advice.export(found, format_name)


def wanted(found: Plan) -> list[str]:
    return [package.requirement for package in found.packages]


def test_the_formats_are_the_promised_ones() -> None:
    assert set(advice.format_names()) == {
        "requirements", "uv", "conda", "pixi", "dockerfile", "apptainer",
    }  # fmt: skip
    assert len(NAMES) >= 8 * 10


@pytest.mark.parametrize("name", NAMES)
def test_requirements_hold_the_plan(name: str) -> None:
    lines = exported(PLANS[name], "requirements").splitlines()
    body = [line for line in lines if not line.startswith(("#", "--extra-index-url https://"))]
    assert body == wanted(PLANS[name])


@pytest.mark.parametrize("name", NAMES)
def test_uv_projects_parse(name: str) -> None:
    table = tomllib.loads(exported(PLANS[name], "uv"))
    assert table["project"]["dependencies"] == wanted(PLANS[name])
    indexes = {entry["name"]: entry["url"] for entry in table["tool"]["uv"].get("index", [])}
    sources = table["tool"]["uv"].get("sources", {})
    assert {p.key: p.index for p in PLANS[name].packages if p.index} == {
        key: indexes[value["index"]] for key, value in sources.items()
    }


@pytest.mark.parametrize("name", NAMES)
def test_pixi_workspaces_parse(name: str) -> None:
    found = PLANS[name]
    table = tomllib.loads(exported(found, "pixi"))
    assert table["workspace"]["platforms"] == [found.target.platform]
    assert list(table["pypi-dependencies"]) == [
        parse_requirement(text).name for text in wanted(found)
    ]
    if found.accelerator == "cuda":
        major = found.build.cuda_major if found.build else None
        assert table["system-requirements"]["cuda"] == f"{major}.0"


@pytest.mark.parametrize("name", NAMES)
def test_conda_files_parse(name: str) -> None:
    table = load_yaml(exported(PLANS[name], "conda"))
    *specs, pip = table["dependencies"]
    assert specs == conda.match_specs(PLANS[name])
    assert [line for line in pip["pip"] if not line.startswith("--")] == wanted(PLANS[name])


@pytest.mark.parametrize("name", NAMES)
def test_conda_specs_are_valid_match_specs(name: str) -> None:
    rattler = pytest.importorskip("rattler", reason="py-rattler reads conda's specs")
    for spec in conda.match_specs(PLANS[name]):
        parsed = rattler.MatchSpec(spec, strict=True)
        assert parsed.name is not None
        assert parsed.version


@pytest.mark.parametrize("name", ["lightweight-pytorch-metal", "lightweight-jax-rocm"])
def test_an_image_that_could_not_work_is_refused(name: str) -> None:
    for format_name in ("dockerfile", "apptainer"):
        with pytest.raises(PlanRefused) as error:
            exported(PLANS[name], format_name)
        assert error.value.hint


@pytest.mark.parametrize("name", IMAGES)
def test_dockerfiles_parse(name: str) -> None:
    parser = pytest.importorskip("dockerfile_parse", reason="a parser of Dockerfiles")
    text = exported(PLANS[name], "dockerfile")
    parsed = parser.DockerfileParser(fileobj=BytesIO(text.encode()))
    kinds = [line["instruction"] for line in parsed.structure]
    assert set(kinds) <= {"COMMENT", "FROM", "ENV", "RUN", "CMD"}
    runs = [json.loads(i["value"]) for i in parsed.structure if i["instruction"] == "RUN"]
    assert runs[-1][-len(PLANS[name].packages) :] == wanted(PLANS[name])
    assert parsed.baseimage == "python:3.12-slim"


@pytest.mark.parametrize("name", IMAGES)
def test_apptainer_commands_hold_the_plan(name: str) -> None:
    text = exported(PLANS[name], "apptainer")
    commands = [shlex.split(line) for line in text.splitlines() if "pip install" in line]
    assert commands[0][-len(PLANS[name].packages) :] == wanted(PLANS[name])


def channel(rattler: Any, folder: Any) -> list[Any]:
    """Return the records of a small channel: two Pythons and a pip."""
    records = {}
    for name, version, depends in (
        ("python", "3.11.9", []),
        ("python", "3.12.8", []),
        ("pip", "25.0", ["python >=3.9"]),
    ):
        records[f"{name}-{version}-0.conda"] = {
            "name": name, "version": version, "build": "0", "build_number": 0, "depends": depends,
            "subdir": "linux-64", "sha256": "0" * 64, "size": 1,
        }  # fmt: skip
    place = folder / "linux-64"
    place.mkdir(parents=True)
    document = {"info": {"subdir": "linux-64"}, "packages": {}, "packages.conda": records}
    (place / "repodata.json").write_text(json.dumps(document))
    data = rattler.SparseRepoData(
        rattler.Channel(folder.as_uri()), "linux-64", place / "repodata.json"
    )
    return [data]


@pytest.mark.parametrize(
    ("virtual", "solves"),
    [
        ({}, True),
        ({"__cuda": "12.9"}, False),
        ({"__glibc": "2.17"}, False),
        ({"__cuda": "13.2", "__glibc": "2.39"}, True),
    ],
)
def test_conda_specs_solve_under_the_planned_virtual_packages(
    tmp_path: Any, virtual: dict[str, str], solves: bool
) -> None:
    rattler = pytest.importorskip("rattler", reason="py-rattler solves conda's specs")
    import asyncio

    found = PLANS["lightweight-pytorch-cuda"]
    have = {**found.virtual_packages, **virtual}
    packages = [
        rattler.GenericVirtualPackage(
            rattler.PackageName(name), rattler.Version(version), rattler.BuildString("0")
        )
        for name, version in have.items()
    ]
    specs = [rattler.MatchSpec(spec) for spec in conda.match_specs(found)]
    solving = rattler.solve_with_sparse_repodata(
        specs=specs, sparse_repodata=channel(rattler, tmp_path), virtual_packages=packages
    )
    if solves:
        names = {record.name.normalized: str(record.version) for record in asyncio.run(solving)}
        assert names == {"python": "3.12.8", "pip": "25.0"}
    else:
        with pytest.raises(Exception, match=next(iter(virtual))):
            asyncio.run(solving)


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("place", ["packages", "frameworks", "accelerators"])
def test_hostile_requirements_do_not_enter_a_profile(text: str, place: str) -> None:
    tables: dict[str, dict[str, Any]] = {
        "packages": {"packages": [text]},
        "frameworks": {"frameworks": {"jax": {"packages": [text]}}},
        "accelerators": {"accelerators": {"cuda": {"packages": [text]}}},
    }
    with pytest.raises(InvalidSettings):
        parse_profile("mine", tables[place], "a test", {})


@pytest.mark.parametrize("text", [*HOSTILE, "A", "a" * 50, "a-b", "a b", "1a"])
def test_hostile_names_do_not_become_profiles(text: str) -> None:
    with pytest.raises(InvalidSettings):
        parse_profile(text, {}, "a test", {})


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_system_packages_and_words_are_refused(text: str) -> None:
    with pytest.raises(InvalidSettings):
        parse_profile("mine", {"system": {"apt": [text]}}, "a test", {})
    if not text.isprintable():
        with pytest.raises(InvalidSettings):
            parse_profile("mine", {"summary": text}, "a test", {})


@given(st.text())
def test_every_requirement_is_refused_or_harmless(text: str) -> None:
    try:
        found = str(parse_requirement(text))
    except InvalidSettings:
        return
    assert set(found) <= set(
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-[],=!<>~*+"
    )
    assert not found.startswith("-")


@given(st.text())
def test_quotes_cannot_be_left(text: str) -> None:
    if any("\ud800" <= char <= "\udfff" for char in text):
        return
    value = quoted(text)
    assert "\n" not in value
    assert json.loads(value) == text
    assert tomllib.loads(f"a = {value}")["a"] == text
    if "\x85" not in text:
        assert load_yaml(f"a: {value}")["a"] == text


@given(st.text())
def test_comments_stay_on_their_line(text: str) -> None:
    assert len(comment(text).splitlines()) == 1


@given(st.text(min_size=1), st.sampled_from(["uv", "conda", "pixi", "dockerfile", "apptainer"]))
def test_formats_quote_even_what_no_profile_lets_through(text: str, format_name: str) -> None:
    """A second wall: the formats themselves quote whatever stands in a plan."""
    if any("\ud800" <= char <= "\udfff" for char in text) or "\x85" in text:
        return
    base = PLANS["lightweight-pytorch-cuda"]
    index = f"https://host/{text}"
    found = Plan(
        profile=base.profile,
        framework=base.framework,
        accelerator=base.accelerator,
        target=base.target,
        build=base.build,
        packages=(Package("torch==2.15.0", "", index),),
    )
    rendered = advice.export(found, format_name)
    if format_name == "uv":
        assert tomllib.loads(rendered)["tool"]["uv"]["index"][0]["url"] == index
    elif format_name == "pixi":
        assert tomllib.loads(rendered)["pypi-dependencies"]["torch"]["index"] == index
    elif format_name == "conda":
        pip = load_yaml(rendered)["dependencies"][-1]["pip"]
        assert pip == [f"--extra-index-url {index}", "torch==2.15.0"]
    elif format_name == "dockerfile":
        run = next(line for line in rendered.split("\n") if line.startswith("RUN"))
        assert json.loads(run.removeprefix("RUN "))[6] == index
        assert len(rendered.split("\n")) == 6
    else:
        script = rendered.split("%post\n    set -e\n")[1].rsplit("\n\n%runscript", 1)[0]
        assert shlex.split(script)[6] == index


def test_a_refused_plan_is_not_exported() -> None:
    machine = nvidia("8.6", "470.82")
    wish = Wish(PROFILES["nlp"], "jax")
    found = plan_environment(machine, wish, target_of(machine), today=date(2026, 11, 21))
    with pytest.raises(EnvironmentMismatch) as error:
        advice.export(found, "uv")
    assert "525.60.13" in error.value.hint


def test_an_unknown_format_has_a_hint() -> None:
    with pytest.raises(UnknownName) as error:
        advice.export(PLANS[NAMES[0]], "dockerfiel")
    assert "dockerfile" in error.value.hint


def test_system_packages_reach_the_image() -> None:
    text = advice.export(PLANS["computer_vision-pytorch-cuda"], "dockerfile")
    assert '"libgl1"' in text
    assert "libgl1" in advice.export(PLANS["computer_vision-pytorch-cuda"], "apptainer")


def test_a_profile_without_packages_exports() -> None:
    machine = cpu_only()
    found = plan_environment(
        machine, Wish(Profile("bare"), "jax"), target_of(machine), today=date(2026, 11, 21)
    )
    for name in advice.format_names():
        assert "jax" in advice.export(found, name)
