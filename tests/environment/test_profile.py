"""Profiles: the eight that are shipped, users' own, and what a misspelt one is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuforge.compat.builds import FRAMEWORKS, PACKAGE
from gpuforge.environment.profile import PROJECT_FOLDER, choose, folders, load_profiles
from gpuforge.errors import InvalidSettings, UnknownName

SHIPPED = {
    "learning": (11, 2),
    "research": (15, 6),
    "computer_vision": (18, 8),
    "nlp": (14, 4),
    "deep_learning": (19, 12),
    "production": (8, 2),
    "lightweight": (5, 1),
    "reinforcement_learning": (12, 4),
}


def written(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.toml").write_text(text, encoding="utf-8")
    return folder


def test_the_eight_profiles_have_their_sizes_and_minima() -> None:
    found = load_profiles()
    assert set(found) == set(SHIPPED)
    for name, (packages, memory) in SHIPPED.items():
        assert found[name].minimum_memory_gb == memory
        for framework in FRAMEWORKS:
            assert len(found[name].wanted(framework, "")) + 1 == packages, (name, framework)
            assert PACKAGE[framework] not in {r.key for r in found[name].wanted(framework, "")}
    assert [name for name in found if found[name].pinned] == ["production"]


def test_users_add_and_projects_override(tmp_path: Path) -> None:
    mine = written(tmp_path / "user", "mine", 'packages = ["numpy"]')
    written(mine, "nlp", 'packages = ["tokenizers"]')
    project = written(tmp_path / "project", "nlp", 'packages = ["spacy"]')
    found = load_profiles([mine, project])
    assert [str(r) for r in found["mine"].packages] == ["numpy"]
    assert [str(r) for r in found["nlp"].packages] == ["spacy"]
    assert found["nlp"].origin == str(project / "nlp.toml")


def test_a_profile_extends_another(tmp_path: Path) -> None:
    folder = written(
        tmp_path,
        "mine",
        'extends = "lightweight"\nminimum_memory_gb = 3\npackages = ["polars", "numpy>=2"]',
    )
    found = load_profiles([folder])["mine"]
    assert [str(r) for r in found.wanted("jax", "")] == [
        "numpy>=2", "onnxruntime", "safetensors", "tqdm", "polars",
    ]  # fmt: skip
    assert (found.minimum_memory_gb, found.cpu_fit) == (3, 80)


def test_an_override_extends_what_it_overrides(tmp_path: Path) -> None:
    folder = written(tmp_path, "lightweight", 'extends = "lightweight"\npackages = ["polars"]')
    found = load_profiles([folder])["lightweight"]
    assert [r.key for r in found.packages][-1] == "polars"
    assert len(found.packages) == 5


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ('pakages = ["numpy"]', "unknown key 'pakages'", "packages"),
        ("[framework.jax]\npackages = []", "unknown key 'framework'", "frameworks"),
        ("[frameworks.pytroch]\npackages = []", "frameworks.pytroch", "pytorch"),
        ("[accelerators.cud]\npackages = []", "accelerators.cud", "cuda"),
        ('extends = "learnign"', "does not exist", "learning"),
        ('extends = "mine"', "in a cycle", ""),
        ('packages = "numpy"', "not a list", "numpy"),
        ('packages = ["num py"]', "not a package requirement", "numpy>=2.0"),
        ("minimum_memory_gb = -1", "minimum_memory_gb", ""),
        ("minimum_memory_gb = true", "minimum_memory_gb", ""),
        ("cpu_fit = 101", "cpu_fit", ""),
        ("packages = [", "not valid TOML", ""),
        ("frameworks = 3", "not a table", "NAME"),
        ("[frameworks.jax]\npackage = []", "only contain 'packages'", "packages"),
    ],
)
def test_a_mistake_is_named_with_its_file(
    tmp_path: Path, text: str, message: str, hint: str
) -> None:
    folder = written(tmp_path, "mine", text)
    with pytest.raises(InvalidSettings) as error:
        load_profiles([folder])
    assert message in str(error.value)
    assert "mine" in str(error.value)
    assert hint in error.value.hint


def test_two_profiles_that_extend_each_other_are_refused(tmp_path: Path) -> None:
    folder = written(tmp_path, "one", 'extends = "two"')
    written(tmp_path, "two", 'extends = "one"')
    with pytest.raises(InvalidSettings, match="in a cycle"):
        load_profiles([folder])


def test_an_unreadable_profile_is_named(tmp_path: Path) -> None:
    tmp_path.joinpath("mine.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidSettings, match="cannot be read"):
        load_profiles([tmp_path])


def test_a_misspelt_profile_has_a_hint() -> None:
    with pytest.raises(UnknownName) as error:
        choose(load_profiles(), "deep-lerning")
    assert "deep_learning" in error.value.hint


def test_the_project_is_found_from_below(tmp_path: Path) -> None:
    (tmp_path / PROJECT_FOLDER).mkdir(parents=True)
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    assert folders(tmp_path / "config", below)[-1] == tmp_path / PROJECT_FOLDER
