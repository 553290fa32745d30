"""What is known not to work together is named, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from gpuforge.compat.breakages import Breakage, breakages
from gpuforge.compat.tables import entries
from gpuforge.diagnose.distribution import normalised
from gpuforge.diagnose.finding import Finding
from gpuforge.diagnose.run import run_checks

from .environments import Environment, make_wheel
from .test_repairs import doctor

ROWS = entries("breakages", "breakage")
SPLIT = re.compile(r"([\w-]+)(.*)")
FIELDS = {"package", "with", "needs", "use", "unless", "source", "checked"}


def split(text: str) -> tuple[str, SpecifierSet]:
    found = SPLIT.fullmatch(text)
    assert found, text
    return found[1], SpecifierSet(found[2])


def around(versions: SpecifierSet) -> list[str]:
    """Return versions at and beside every border of `versions`."""
    found = {"0.0.1", "9999"}
    for clause in versions:
        parts = [int(part) for part in clause.version.split(".") if part.isdigit()]
        below = [*parts]
        while below and not below[-1]:
            below.pop()
        if below:
            below[-1] -= 1
        found |= {clause.version, ".".join(map(str, [*below, 99])), f"{clause.version}.1"}
    return sorted((v for v in found if not Version(v).is_prerelease), key=Version)


def named(row: dict[str, Any], version: str, other_version: str) -> list[Breakage]:
    (package, _), (other, _) = split(row["package"]), split(row["with"])
    found = breakages({package: version, other: other_version})
    return [one for one in found if one.needs == row["needs"]]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['package']} {row['with']}")
def test_row_names_the_versions_that_it_says(row: dict[str, Any]) -> None:
    assert FIELDS >= set(row) >= FIELDS - {"use", "unless"}
    (package, versions), (other, others) = split(row["package"]), split(row["with"])
    assert package == normalised(package) and other == normalised(other) != package
    assert str(versions) and str(others), "without a border, the package would never work"
    assert not row["needs"].endswith(".") and len(row["needs"]) < 100
    if str(versions).startswith("=="):  # perhaps a pre-release
        inside, outside = [str(versions).removeprefix("==")], ["9999"]
    else:
        inside = [v for v in around(versions) if versions.contains(v)]
        outside = [v for v in around(versions) if not versions.contains(v)]
    with_it = [v for v in around(others) if others.contains(v)]
    without = [v for v in around(others) if not others.contains(v)]
    assert inside and outside and with_it and without
    for found in (named(row, a, b) for a in inside for b in with_it):
        assert [(one.use, one.source) for one in found] == [(row.get("use", ""), row["source"])]
    assert not any(named(row, a, b) for a in outside for b in with_it)
    assert not any(named(row, a, b) for a in inside for b in without)


def test_no_two_rows_say_the_same() -> None:
    said = [(row["package"].rstrip(".0"), row["with"]) for row in ROWS]
    assert len(set(said)) == len(said)


def found_in(environment: Environment) -> list[Finding]:
    return list(run_checks("outgrown_packages").having("error", "warning"))


def add(environment: Environment, folder: Path, *packages: str) -> None:
    for package in packages:
        name, _, rest = package.partition("==")
        version, *requires = rest.split(" needs ")
        environment.add(make_wheel(folder, name, version, tuple(requires)))


def test_package_that_needs_what_is_gone_is_named(environment: Environment, tmp_path: Path) -> None:
    add(environment, tmp_path, "gensim==4.3.2 needs scipy>=1.7", "scipy==1.13.0", "numpy==1.26.4")
    (finding,) = found_in(environment)
    assert finding.state == "error" and finding.cause == "outgrown_package"
    assert finding.message.startswith("gensim 4.3.2 needs scipy.linalg.triu, which scipy 1.13.0")
    assert any("gensim>=4.3.3" in step for step in finding.steps)
    assert "'gensim>=4.3.3' scipy==1.13.0" in finding.repair[0].command


@pytest.mark.parametrize(
    "packages",
    [
        ("gensim==4.3.2", "scipy==1.12.0"),
        ("gensim==4.3.3", "scipy==1.13.0"),
        ("gensim==4.3.2",),
        ("scipy==1.13.0",),
        ("gensim==4.3.3.dev0", "scipy==1.13.0"),
        ("gensim==4.3.2", "scipy==1.13.0rc1"),
    ],
    ids=" ".join,
)
def test_what_works_together_is_not_named(
    packages: tuple[str, ...], environment: Environment, tmp_path: Path
) -> None:
    add(environment, tmp_path, *packages)
    assert not found_in(environment)


@pytest.mark.parametrize("installer", ["conda", "debian", ""])
def test_package_that_may_be_patched_is_not_named(
    installer: str, environment: Environment, tmp_path: Path
) -> None:
    add(environment, tmp_path, "gensim==4.3.2", "scipy==1.13.0")
    (environment.packages / "gensim-4.3.2.dist-info" / "INSTALLER").write_text(installer)
    assert not found_in(environment)


def test_package_from_a_repository_is_not_named(environment: Environment, tmp_path: Path) -> None:
    add(environment, tmp_path, "gensim==4.3.2", "scipy==1.13.0")
    info = environment.packages / "gensim-4.3.2.dist-info"
    (info / "direct_url.json").write_text('{"url": "https://example.org/gensim.git"}')
    with open(info / "RECORD", "a") as record:
        record.write(f"{info.name}/direct_url.json,,\n")
    assert not found_in(environment)


def test_what_the_metadata_forbid_is_named_once(environment: Environment, tmp_path: Path) -> None:
    add(environment, tmp_path, "gensim==4.3.2 needs scipy<1.13", "scipy==1.13.0")
    assert not found_in(environment)
    assert [f.check for f in run_checks().having("warning")] == ["package_versions"]


def test_older_version_is_offered_where_a_newer_one_is_not_allowed(
    environment: Environment, tmp_path: Path
) -> None:
    add(environment, tmp_path, "gensim==4.3.2", "scipy==1.13.0", "mine==1.0 needs gensim<4.3.3")
    (finding,) = found_in(environment)
    assert "'scipy<1.13' gensim==4.3.2" in finding.repair[0].command
    add(environment, tmp_path, "yours==1.0 needs scipy>=1.13")
    (finding,) = found_in(environment)
    assert not finding.repair and len(finding.steps) > 1


def test_rows_that_do_not_apply_are_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parsing the whole table would take longer than all of the check."""
    monkeypatch.delattr("tomllib.loads")
    installed = {split(row["package"])[0]: "9999" for row in ROWS}
    assert not list(breakages(installed | {"scipy": "1.13.0", "numpy": "2.0.0"}))


def test_repair_upgrades_the_package_and_keeps_the_other(
    environment: Environment, index: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add(environment, tmp_path, "gensim==4.3.2 needs scipy>=1.7", "scipy==1.13.0")
    make_wheel(index, "gensim", "4.3.3", ("scipy>=1.7",))
    make_wheel(index, "scipy", "1.14.0")
    before = environment.hashes()
    status, done = doctor(capsys, "outgrown_packages", "--fix", "--yes")
    assert [one["outcome"] for one in done["repairs"]] == ["repaired"] and status == 0
    assert {"gensim-4.3.3", "scipy-1.13.0"} <= environment.installed()
    doctor(capsys, "--undo", done["repairs"][0]["undo"])
    assert environment.hashes() == before


@pytest.mark.parametrize(("helper", "named"), [("audioop-lts", 0), ("audioop", 1)])
def test_package_that_helps_is_taken_into_account(helper: str, named: int) -> None:
    found = breakages({"pydub": "0.25.1", "python": "3.13.0", helper: "0.2.1"})
    assert len(list(found)) == named


@pytest.mark.parametrize("variant", ["tensorflow", "tensorflow-cpu"])
def test_package_that_helps_is_named_first_whatever_variant_of_the_other_is_installed(
    variant: str, environment: Environment, tmp_path: Path
) -> None:
    add(environment, tmp_path, "tensorflow-probability==0.25.0", f"{variant}==2.21.0")
    (finding,) = found_in(environment)
    assert f"needs the module tf_keras, which {variant} 2.21.0 does not have" in finding.message
    assert finding.steps[0] == "Install tf-keras: pip install tf-keras"
    add(environment, tmp_path, "tf-keras==2.21.0")
    assert not found_in(environment)
