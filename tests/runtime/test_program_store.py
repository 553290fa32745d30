"""Compiled programs are loaded by the processes to come, and compiled anew where they cannot be."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from gpuforge.runtime.array.graph import INPUT, Graph, Operation
from gpuforge.runtime.backends import Backend, Program
from gpuforge.runtime.evaluation import program_store
from gpuforge.runtime.evaluation.program_store import ProgramStore

ADD = Operation("add", np.add, "elementwise")
GRAPH = Graph(((INPUT, (), (np.dtype("f8"), (3,))), (ADD, (0, 0), ())), (1,))


class Written(Backend):
    """A backend whose compiled programs are numbers."""

    name = "written:cpu"
    stored_under = "1.0"

    def stored(self, program: Program) -> bytes:
        return str(program(1)).encode()

    def restored(self, data: bytes) -> Program:
        number = int(data)
        return lambda one: number


def test_what_one_store_keeps_another_loads(tmp_path: Path) -> None:
    ProgramStore(tmp_path, "m").keep(Written(), GRAPH, lambda one: 42)
    found = ProgramStore(tmp_path, "m").load(Written(), GRAPH)
    assert found is not None
    assert found(1) == 42


def test_another_machine_graph_or_version_finds_nothing(tmp_path: Path) -> None:
    ProgramStore(tmp_path, "m").keep(Written(), GRAPH, lambda one: 42)
    other = Graph(((INPUT, (), (np.dtype("f8"), (4,))), (ADD, (0, 0), ())), (1,))
    newer = Written()
    newer.stored_under = "1.1"
    assert ProgramStore(tmp_path, "n").load(Written(), GRAPH) is None
    assert ProgramStore(tmp_path, "m").load(Written(), other) is None
    assert ProgramStore(tmp_path, "m").load(newer, GRAPH) is None


def test_other_code_finds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = ProgramStore(tmp_path, "m")
    store.keep(Written(), GRAPH, lambda one: 42)
    monkeypatch.setattr(program_store, "_sources", lambda: "changed")
    assert store.load(Written(), GRAPH) is None


def test_a_graph_without_a_name_of_its_own_is_not_kept(tmp_path: Path) -> None:
    nameless = Graph(((INPUT, (), (object(), ())),), (0,))
    ProgramStore(tmp_path, "m").keep(Written(), nameless, lambda one: 42)
    assert not any(tmp_path.iterdir())


def test_a_library_that_does_not_tell_its_version_keeps_nothing(tmp_path: Path) -> None:
    class Silent(Written):
        @property
        def stored_under(self) -> str:
            raise LookupError("no metadata")

    store = ProgramStore(tmp_path, "m")
    store.keep(Silent(), GRAPH, lambda one: 42)
    assert store.load(Silent(), GRAPH) is None
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("size", [0, 10, 33])
def test_a_damaged_file_is_passed_over(tmp_path: Path, size: int) -> None:
    store = ProgramStore(tmp_path, "m")
    store.keep(Written(), GRAPH, lambda one: 42)
    [path] = (tmp_path / "programs").iterdir()
    path.write_bytes(path.read_bytes()[:size])
    assert store.load(Written(), GRAPH) is None


def test_a_folder_that_cannot_be_made_keeps_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = ProgramStore(tmp_path / "file", "m")
    store.keep(Written(), GRAPH, lambda one: 42)
    assert store.load(Written(), GRAPH) is None


def test_the_files_used_last_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_store, "MAX_FILES", 3)
    folder = tmp_path / "programs"
    folder.mkdir()
    for number in range(5):
        (folder / f"{number}").write_text("")
        os.utime(folder / f"{number}", (0, number))
    ProgramStore(tmp_path, "m").keep(Written(), GRAPH, lambda one: 42)
    assert {"3", "4"} < {path.name for path in folder.iterdir()}
    assert len(list(folder.iterdir())) == 3


PROGRAM = """
import numpy as np
import gpuforge as gf
from gpuforge.runtime.backends.jax import JaxBackend

compiled, compile_one = [], JaxBackend.program
JaxBackend.program = lambda *given: compiled.append(1) or compile_one(*given)

@gf.offload(backend="jax")
def ratio(x):
    return x.sum(1) / (1 + abs(x).max(1))

@gf.offload(backend="jax")
def inverse(x):
    return np.linalg.inv(x @ x.T + np.eye(len(x)))

x = np.random.default_rng(0).random((40, 40))
ratio(x[:3].copy())
opened = len(compiled)
for function in (ratio, inverse):
    np.testing.assert_allclose(function(x), function.__wrapped__(x), rtol=1e-9)
    assert not function.stats().stays
print(len(compiled) - opened)
"""


@pytest.mark.parametrize("learn", ["1", "0"])
def test_a_program_that_runs_again_compiles_nothing(tmp_path: Path, learn: str) -> None:
    pytest.importorskip("jax", reason="jax is not installed")

    def run() -> int:
        variables = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "GPUFORGE_LEARN": learn}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=variables, capture_output=True, text=True,
            timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-2000:]
        return int(done.stdout)

    first, again = run(), run()
    assert first == 2
    assert again == (0 if learn == "1" else 2)
    kept = list(tmp_path.glob("gpuforge/programs/*"))
    assert bool(kept) == (learn == "1")
    assert all(path.stat().st_mtime <= time.time() for path in kept)


def test_a_result_that_left_the_finite_numbers_is_seen_by_the_next_process_too(
    tmp_path: Path,
) -> None:
    """NumPy looks at a product's result on the host, which the stored program cannot do."""
    pytest.importorskip("jax", reason="jax is not installed")
    code = (
        "import sys, numpy as np, gpuforge as gf\n"
        "from gpuforge.runtime.evaluation import engine\n"
        "product = gf.offload(lambda x, y: x @ y, backend='jax')\n"
        "said, before = [], engine.BackendEngine._on_backend\n"
        "def noted(*given):\n"
        "    values, settled = before(*given); said.append(settled); return values, settled\n"
        "engine.BackendEngine._on_backend = noted\n"
        "large = np.full((8, 8), 1e30, np.float32)\n"
        "small = np.ones((8, 8), np.float32)\n"
        "assert product(small, small)[0, 0] == 8 and not said[-1], said\n"
        "with np.errstate(all='ignore'):\n"
        "    assert np.isinf(product(large, large)).all() and said[-1], said\n"
    )
    for _ in range(2):
        subprocess.run(
            [sys.executable, "-c", code], check=True, cwd=tmp_path,
            env={**os.environ, "GPUFORGE_CACHE_FOLDER": str(tmp_path)},
        )  # fmt: skip
    assert any((tmp_path / "programs").iterdir())
