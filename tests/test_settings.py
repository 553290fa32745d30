"""What settings mean, where they come from, and that no file can do harm."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuforge import settings
from gpuforge.errors import InvalidSettings, UnknownName
from gpuforge.settings import Settings

EXAMPLES = {
    "enabled": ("off", False),
    "cpu_only": ("1", True),
    "backend": ("torch", "torch"),
    "backends": ("numpy, torch", ("numpy", "torch")),
    "forbid": ("jax", ("jax",)),
    "device": ("cuda", "cuda"),
    "fallback": ("yes", True),
    "numerics": ("Relaxed", "relaxed"),
    "deterministic": ("true", True),
    "plan": ("plan.json", "plan.json"),
    "learn": ("no", False),
    "explore_share": ("0.25", 0.25),
    "min_elements": ("1000", 1000),
    "compiler_process": ("false", False),
    "warmup": ("1", True),
    "lazy_imports": ("yes", True),
    "kernel_caches": ("off", False),
    "plugins": ("on", True),
    "tame_threads": ("0", False),
    "kept_memory": ("64 MiB", 64 * 2**20),
    "history": ("off", False),
    "cache_folder": ("/tmp/elsewhere", "/tmp/elsewhere"),
    "package_index": ("https://index.example/simple", "https://index.example/simple"),
    "framework_index": ("default", "default"),
    "find_links": ("/wheels, /more", ("/wheels", "/more")),
    "framework": ("JAX", "jax"),
    "profile": ("nlp", "nlp"),
    "auto_install": ("yes", True),
    "memory_strategy": ("Eager", "eager"),
    "profiler": ("off", False),
    "monitor_interval": ("0.5", 0.5),
    "memory_limit": ("8 GiB", 8 * 2**30),
    "worker_memory": ("4 GiB", 4 * 2**30),
    "pressure_warning": ("0.5", 0.5),
    "pressure_critical": ("0.75", 0.75),
    "cache_seconds": ("2 min", 120.0),
    "detect_cache": ("off", False),
    "detect_parallel": ("off", False),
    "detect_plugins": ("on", True),
    "vendor_seconds": ("5", 5.0),
    "verbose": ("on", True),
    "log": ("debug", "debug"),
}
WRONG = {
    "enabled": "perhaps",
    "backends": 3,
    "device": 3,
    "numerics": "strickt",
    "explore_share": "2",
    "min_elements": "-1",
    "cache_seconds": "soon",
    "log": "loud",
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "gpuforge.toml"


def write_user_file(text: str) -> Path:
    path = settings.user_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", settings.names())
def test_each_setting_is_read_from_its_variable(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text, value = EXAMPLES[name]
    monkeypatch.setenv(f"GPUFORGE_{name.upper()}", text)
    loaded = settings.load()
    assert getattr(loaded.settings, name) == value
    assert loaded.origins[name] == f"GPUFORGE_{name.upper()}"
    assert getattr(Settings(), name) != value, "the example must differ from the default"


@pytest.mark.parametrize("name", settings.names())
def test_each_setting_says_what_it_means_and_survives_its_own_text(name: str) -> None:
    assert len(settings.describe(name)) > 20
    default = getattr(Settings(), name)
    assert settings.parse(name, settings.to_text(default)) == default


@pytest.mark.parametrize("name", WRONG)
def test_a_value_that_means_nothing_names_its_place(name: str) -> None:
    with pytest.raises(InvalidSettings, match=f"^here: {name}: ") as error:
        settings.parse(name, WRONG[name], where="here")
    assert error.value.hint


def test_a_wrong_choice_gets_the_near_one_as_hint() -> None:
    with pytest.raises(InvalidSettings) as error:
        settings.parse("numerics", "strickt")
    assert error.value.hint == "did you mean 'strict'?"


def test_precedence(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(flags: dict[str, object] | None = None) -> tuple[object, str]:
        loaded = settings.load(flags=flags)
        return loaded.settings.min_elements, loaded.origins["min_elements"]

    assert load() == (0, "default")
    user = write_user_file("min_elements = 1")
    assert load() == (1, str(user))
    project.write_text("min_elements = 2")
    assert load() == (2, str(project))
    monkeypatch.setenv("GPUFORGE_MIN_ELEMENTS", "3")
    assert load() == (3, "GPUFORGE_MIN_ELEMENTS")
    assert load({"min_elements": 4}) == (4, "argument")


def test_an_empty_variable_counts_as_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUFORGE_EXPLORE_SHARE", "")
    assert settings.load().origins["explore_share"] == "default"


def test_a_project_file_is_found_from_a_folder_below(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write_text("learn = false")
    below = project.parent / "a" / "b"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    assert settings.load().settings.learn is False


def test_pyproject_counts_as_project_file(project: Path) -> None:
    project.with_name("pyproject.toml").write_text("[tool.gpuforge]\nlearn = false")
    assert settings.load().settings.learn is False


def test_a_removed_current_folder_is_no_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert settings.load().settings == Settings()


@pytest.mark.parametrize(
    ("name", "default"),
    [("plan", ""), ("cache_folder", ""), ("profile", ""), ("auto_install", False)],
)
def test_a_project_may_not_set_folders_or_installs(
    project: Path, name: str, default: object
) -> None:
    project.write_text(f'{name} = "yes"\nlearn = false')
    loaded = settings.load()
    assert getattr(loaded.settings, name) == default and loaded.settings.learn is False
    assert loaded.problems == (f"{project}: {name} is ignored: a project file may not set it",)


HOSTILE = {
    "no TOML": b"\x00\xff\xfe[[[",
    "deep nesting": b"learn = " + b"[" * 5000,
    "huge decimal": b"min_elements = 1" + b"0" * 20_000,
    "huge hexadecimal": b"min_elements = 0x1" + b"0" * 20_000,
    "huge seconds": b"cache_seconds = 0x1" + b"0" * 20_000,
    "huge list": b"log = [0x1" + b"0" * 20_000 + b"]",
    "not a number": b"explore_share = nan",
    "endless": b"cache_seconds = inf",
    "a date": b"backends = 2020-01-01",
    "list of lists": b'backends = [["numpy"]]',
    "a table": b"[enabled]\nx = 1",
    "long key": b"x" * 60_000 + b" = 1",
    "many keys": b"\n".join(b"k%d = 1" % n for n in range(8000)),
    "too large": b"# " + b"x" * 70_000,
    "escape sequence in a key": b'"\\u001b[2J" = 1',
    "two of one": b"learn = false\nlearn = true",
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_project_file_is_left_out_and_said_so(project: Path, content: bytes) -> None:
    project.write_bytes(content)
    loaded = settings.load()
    assert loaded.settings == Settings()
    assert 1 <= len(loaded.problems) <= settings.PROBLEM_LIMIT + 1
    assert all(str(project) in problem and len(problem) < 1000 for problem in loaded.problems)


@pytest.mark.parametrize("target", ["/dev/zero", "/dev/stdin", "fifo"])
def test_a_project_file_that_never_ends_is_not_read(project: Path, target: str) -> None:
    if target == "fifo":
        os.mkfifo(project)
    else:
        project.symlink_to(target)
    loaded = settings.load()
    assert loaded.settings == Settings()
    assert loaded.problems == (f"{project} is ignored: {project} is not a regular file",)


@pytest.mark.parametrize("text", ["learn = 7", "lern = true", "learn = ", "[learn]\nx = 1"])
def test_a_mistake_in_the_users_file_is_an_error_that_names_it(text: str) -> None:
    path = write_user_file(text)
    with pytest.raises(InvalidSettings) as error:
        settings.load(strict=True)
    assert str(path) in str(error.value) and error.value.hint


def test_a_users_file_that_cannot_be_read_is_left_out_and_named() -> None:
    path = write_user_file("learn = ")
    loaded = settings.load()
    assert loaded.settings == Settings()
    assert len(loaded.problems) == 1 and str(path) in loaded.problems[0]


def test_an_unknown_setting_gets_the_near_one_as_hint() -> None:
    with pytest.raises(UnknownName) as error:
        settings.parse("explor_share", 1)
    assert error.value.hint == "did you mean 'explore_share'?"


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.dates(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(name=st.sampled_from(settings.names()), value=anything)
def test_any_value_is_parsed_or_refused_with_a_reason(name: str, value: object) -> None:
    try:
        parsed = settings.parse(name, value)
    except InvalidSettings as error:
        assert str(error).startswith(f"{name}: ")
    else:
        assert settings.parse(name, parsed) == parsed
