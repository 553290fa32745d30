"""Requirement lines judged at sight: what is said to hold holds, and no parser is loaded."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuforge.diagnose.plain_requirement import doubtful
from gpuforge.diagnose.requirement import Requirements

PYTHON = "3.11.7"
releases = st.lists(st.integers(0, 3), min_size=1, max_size=3).map(lambda n: ".".join(map(str, n)))
installed = st.tuples(releases, st.sampled_from(["", ".post1", "rc1", "+cpu", ".dev3", "b2"]))
operators = st.sampled_from([">=", "<=", "==", "!=", "~=", ">", "<", "==="])
ends = st.sampled_from(["", "", "", ".*", "rc1", "a0", ".post1", "+cpu"])
clauses = st.lists(st.tuples(operators, releases, ends).map("".join), max_size=3).map(",".join)
comparisons = st.one_of(
    st.tuples(
        st.sampled_from(["python_version", "python_full_version"]),
        st.sampled_from([" < ", " >= ", "==", "!=", "<=", ">"]),
        st.sampled_from(["'3.9'", "'3.11'", "'3.12'", "'3'", "'3.11.7'", "'3.11.*'"]),
    ).map("".join),
    st.tuples(
        st.sampled_from(["sys_platform", "platform_system", "platform_machine", "os_name"]),
        st.sampled_from(["==", "!=", " in ", " not in "]),
        st.sampled_from(["'linux'", "'win32'", "'Linux'", "'x86_64'", "'posix'", "'nt'"]),
    ).map("".join),
)
markers = st.recursive(
    comparisons,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from([" and ", " or "]), inner).map("".join),
        inner.map(lambda one: f"({one})"),
    ),
    max_leaves=4,
)
lines = st.tuples(
    st.sampled_from(["needed", "needed[extra]", "absent", "nvidia-cudnn-cu12"]),
    clauses,
    st.one_of(st.just(""), markers.map(lambda m: f" ; {m}"), st.just('; extra == "gpu"')),
).map("".join)


@settings(max_examples=1500, deadline=None)
@given(lines, installed.map("".join))
def test_what_holds_at_sight_holds_by_the_rules(line: str, version: str) -> None:
    versions = {"package": "1.0", "needed": version, "nvidia-cudnn-cu12": version}
    required = {"package": (line,)}
    if not doubtful(required, versions, PYTHON):
        assert not Requirements(versions, required, PYTHON).unmet()


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("needed", "3.0rc1"),
        ("needed>=1.26,<2.7", "2.4.6"),
        ("needed (>=1.4.2)", "1.4.2"),
        ("needed~=1.5", "1.6"),
        ("needed==2.5.1", "2.5.1+cpu"),
        ("needed>=2.8.2", "2.9.0.post0"),
        ("needed<2027.0a0,>=2026.0", "2026.2.0"),
        ("needed==0.66b2", "0.66b2"),
        ("absent>=1; sys_platform == 'win32'", "1"),
        ("absent; (python_version < '3.11') and sys_platform != 'win32'", "1"),
        ("nvidia-other-cu12==9; extra == 'cuda'", "1"),
        ("docs; extra == 'docs'", "1"),
    ],
)
def test_plain_lines_are_no_doubt(line: str, version: str) -> None:
    assert not doubtful({"package": (line,)}, {"needed": version}, PYTHON)


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("needed>=2", "1.9"),
        ("needed", None),
        ("needed==2.9.0", "2.9.0.post0"),
        ("needed<2.5.1", "2.5.1+cpu"),
        ("needed>=2", "2.0rc1"),
        ("needed @ https://host/needed.whl", "1"),
        ("needed>=2; python_version >= '3.9'", "1"),
    ],
)
def test_what_does_not_hold_or_is_not_plain_is_a_doubt(line: str, version: str | None) -> None:
    versions = {"needed": version} if version else {}
    assert doubtful({"package": (line,)}, versions, PYTHON) == {"package": (line,)}


def test_a_healthy_environment_is_checked_without_parsers(tmp_path: Path) -> None:
    """Each of these takes milliseconds to import, and only a finding needs it."""
    info = tmp_path / "lib" / "python3.11" / "site-packages" / "one-1.0.dist-info"
    info.mkdir(parents=True)
    (tmp_path / "pyvenv.cfg").write_text("version = 3.11.7\n")
    (info.parent / "one").mkdir()
    (info.parent / "one" / "__init__.py").touch()
    (info / "METADATA").write_text("Name: one\nVersion: 1.0\nRequires-Dist: one>=1\n\nText\n")
    (info / "INSTALLER").write_text("pip\n")
    (info / "RECORD").write_text("one/__init__.py,,\none-1.0.dist-info/RECORD,,\n")
    code = (
        "import sys; from gpuforge.cli.main import main; main(['doctor']); "
        "heavy = {'packaging', 'tomllib', 'hashlib', 'logging', 'platformdirs', 'numpy'}; "
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    environ = {**os.environ, "VIRTUAL_ENV": str(tmp_path), "GPUFORGE_CACHE_FOLDER": str(tmp_path)}
    for _ in range(2):  # the second reads the detected machine from the cache
        done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environ,
                              capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr
