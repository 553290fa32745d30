"""docs/operations.md says what the table and the lowerings of the installed libraries say."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"


def test_the_page_is_what_its_script_writes() -> None:
    text = (DOCS / "operations.md").read_text(encoding="utf-8")
    line = re.search(r"^Described here: (.*)\.$", text, re.MULTILINE)
    assert line, "the page names the libraries that it describes"
    libraries = re.findall(r"`(\w+)`", line[1])
    for name in libraries:
        if importlib.util.find_spec({"opencl": "pyopencl"}.get(name, name)) is None:
            pytest.skip(f"{name} is not installed")
    done = subprocess.run(
        [sys.executable, DOCS / "generate_operations.py", "--print", *libraries],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    same = done.stdout.splitlines() == text.splitlines()
    assert same, "run 'python docs/generate_operations.py' and commit the page"
