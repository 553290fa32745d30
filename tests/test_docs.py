"""Every Python and console block of the documentation runs, and links lead somewhere.

The Python blocks of a page run one after the other in one program. One whose first line is
``# name.py`` is also written to that file. In a console block, ``$`` starts a command, ``# status
N`` behind it says how it ends (0 else), and the lines below are what it prints, ``...`` meaning
anything. ``pip install`` and ``make`` are not run: their extras and targets must exist.
"""

from __future__ import annotations

import ast
import doctest
import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#]*)(#[^)]*)?\)")


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path, language: str) -> list[Block]:
    source = page.read_text(encoding="utf-8")
    return [
        Block(page, source.count("\n", 0, found.start()) + 1, found[1], found[2])
        for found in BLOCK.finditer(source)
        if found[1] == language
    ]


def need(*sources: str) -> None:
    """Skip by name when a library that `sources` import is not installed."""
    for source in sources:
        for node in ast.walk(ast.parse(source)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                if importlib.util.find_spec(name.split(".")[0]) is None:
                    pytest.skip(f"needs {name}")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    return tmp_path


PYTHON_PAGES = [page for page in PAGES if blocks(page, "python")]


@pytest.mark.differ
@pytest.mark.parametrize("page", PYTHON_PAGES, ids=lambda page: page.name)
def test_the_python_blocks_of_a_page_run(page: Path, folder: Path) -> None:
    found = blocks(page, "python")
    need(*(block.text for block in found))
    # Blank lines keep the numbers of the lines, so that an error names the line of the page.
    lines = [""] * page.read_text(encoding="utf-8").count("\n")
    for block in found:
        text = block.text.splitlines()
        lines[block.line : block.line + len(text)] = text
    program = folder / page.with_suffix(".py").name
    program.write_text("\n".join(lines), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, program], cwd=folder, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr


CONSOLE_BLOCKS = [
    pytest.param(block, marks=[pytest.mark.slow] * ("calibrate" in block.text), id=str(block))
    for page in PAGES
    for block in blocks(page, "console")
]


@pytest.mark.differ
@pytest.mark.parametrize("block", CONSOLE_BLOCKS)
def test_a_console_block_does_what_it_says(block: Block, folder: Path) -> None:
    for source in (found.text for found in blocks(block.page, "python")):
        name = re.match(r"# (\w+\.py)\n", source)
        if name:
            (folder / name[1]).write_text(source, encoding="utf-8")
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, _, expected = part.partition("\n")
        if command.startswith(("pip install", "make")):
            assert_exists(command)
        else:
            run_command(command, expected, folder)


def assert_exists(command: str) -> None:
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    if command.startswith("make"):
        assert set(command.split()[1:]) <= set(targets), command
    for names in re.findall(r"\[([\w,]+)\]", command):
        assert set(names.split(",")) <= set(extras), command
        for requirement in [entry for name in names.split(",") for entry in extras[name]]:
            library = re.split(r"[<>=]", requirement)[0]
            if not any(importlib.metadata.distributions(name=library)):
                pytest.skip(f"needs {library}, which the block installs")


def run_command(command: str, expected: str, folder: Path) -> None:
    for program in re.findall(r"(?:examples/)?\w+\.py", command):
        if (folder / program).exists():
            need((folder / program).read_text(encoding="utf-8"))
    status = re.search(r"# status (\d+)$", command)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
    )
    assert done.returncode == int(status[1] if status else 0), f"{command}\n{done.stdout}"
    if expected:
        same = doctest.OutputChecker().check_output(expected, done.stdout, doctest.ELLIPSIS)
        assert same, f"{command}\nexpected:\n{expected}\nfound:\n{done.stdout}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in LINK.findall(page.read_text(encoding="utf-8")):
        if target.startswith("http"):
            continue
        there = (page.parent / target).resolve() if target else page
        assert there.exists(), f"{page.name}: {target}"
        if anchor:
            headings = re.findall(r"^#+ (.*)$", there.read_text(encoding="utf-8"), re.MULTILINE)
            slugs = {re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in headings}
            assert anchor[1:] in slugs, f"{page.name}: {target}{anchor}"


def test_settings_named_in_the_documentation_exist() -> None:
    from gpuforge import settings

    for page in PAGES:
        for name in re.findall(r"GPUFORGE_([A-Z_]+)", page.read_text(encoding="utf-8")):
            known = name in ("REQUIRE", "CORPUS") or name.lower() in settings.names()
            assert known, f"{page.name}: GPUFORGE_{name}"
