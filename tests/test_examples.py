"""Each example runs as its reader would run it, and gets a right answer; each checks its own."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))
ANSWERS = {
    "deblur_photograph": "hubble_deep_field",
    "digits_neighbours": "best: 20 plain components, 5 neighbours: 98.89%",
    "lattice": "corner to corner: 20 steps; diameter: 20",
    "mixed_sizes": "recognised: 93.7% of 5307",
    "particle_trajectories": "(Trojans): 85.6%",
}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_gets_its_answer(path: Path, tmp_path: Path) -> None:
    for library in sorted(imported(path) & {"sklearn", "skimage"}):
        pytest.importorskip(library)
    done = subprocess.run(
        [sys.executable, "-m", "gpuforge", "run", str(path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert ANSWERS[path.stem] in done.stdout
    assert done.stderr.startswith("gpuforge: ") and "offloaded function" in done.stderr


def test_every_example_has_its_answer_here() -> None:
    assert {path.stem for path in EXAMPLES} == set(ANSWERS)


def imported(path: Path) -> set[str]:
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return {name.split(".")[0] for name in plain} | {
        (node.module or "").split(".")[0] for node in nodes if isinstance(node, ast.ImportFrom)
    }
