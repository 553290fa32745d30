"""The house keeps its shape: layers, no cycles, import costs, size, one place that prints."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

SRC = Path(__file__).parent.parent / "src" / "gpuforge"
LINE_BUDGET = 81_100
LAYERS = [
    {
        "dataclass",
        "digest",
        "ending",
        "errors",
        "folders",
        "installation",
        "units",
        "registry",
        "stored",
    },
    {
        "facts",
        "flow",
        "probe",
        "settings",
        "settings_file",
        "log",
        "trace",
        "published",
        "compat",
        "history",
    },
    {"detect", "changes"},
    {"readings"},
    {"diagnose", "environment", "runtime", "profiler", "monitor"},
    {"inference", "images", "lattice", "cli"},
]
LEVEL = {package: level for level, packages in enumerate(LAYERS) for package in packages}
ROOT_MODULES = {"__init__", "__main__"}
# Modules of L0 and L1 may build on these; packages of one level do not import each other.
FOUNDATION = {
    "dataclass": 0,
    "digest": 0,
    "ending": 0,
    "errors": 0,
    "units": 1,
    "folders": 1,
    "registry": 1,
    "stored": 1,
    "facts": 2,
    "probe": 3,
    "settings": 4,
    "log": 5,
}
# Modules and packages of the runtime import downwards only, and none of their own level.
LEVELS_OF_THE_RUNTIME = [
    {
        "array",
        "context",
        "heap",
        "kept",
        "namespace",
        "progress_line",
        "staging",
        "threads",
        "timing",
    },
    {"function", "lowering"},
    {"short"},
    {"backends", "placement", "prelude"},
    {"evaluation", "libraries", "record"},
    {"calibration", "demand", "workers"},
    {"startup"},
    {"session"},
    {"warmup"},
    {"execution"},
    {"executor"},
    {"offload"},
    {"accelerated", "benefit", "ready"},
]
# Workloads on the public API; like the runtime they are loaded only where they are used.
WORKLOADS = {"inference", "images", "lattice"}
LIBRARIES_OF_THE_RUNTIME = {"numpy", "torch", "jax", "array_api_compat", "threadpoolctl"}


def modules() -> dict[str, Path]:
    names = {}
    for path in sorted(SRC.rglob("*.py")):
        parts = list(path.relative_to(SRC).with_suffix("").parts)
        if parts[-1] == "__init__" and len(parts) > 1:
            parts.pop()
        names[".".join(parts)] = path
    return names


def is_type_checking(test: ast.expr) -> bool:
    return "TYPE_CHECKING" in ast.dump(test)


def imports(path: Path, *, top_level: bool) -> set[str]:
    """Return absolute names that a module imports; `top_level` leaves out the deferred ones."""
    found: set[str] = set()
    todo: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.If) and is_type_checking(node.test):
            todo += node.orelse
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module or ""}
        elif not (top_level and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)):
            todo += ast.iter_child_nodes(node)
    return found


def package(name: str) -> str:
    return name.split(".")[0]


def test_layers_import_downwards_only() -> None:
    wrong = []
    for name, path in modules().items():
        if name in ROOT_MODULES:
            continue
        here = package(name)
        assert here in LEVEL, f"{here} stands in no layer"
        for target in imports(path, top_level=False):
            if not target.startswith("gpuforge.") or target == "gpuforge.__version__":
                continue
            there = package(target.removeprefix("gpuforge."))
            below = LEVEL[there] < LEVEL[here]
            beneath = there in FOUNDATION and FOUNDATION[there] < FOUNDATION.get(here, 9)
            if there != here and not below and not beneath:
                wrong.append(f"{name} imports {target}")
    assert not wrong


def test_the_runtime_imports_downwards_only() -> None:
    levels = {part: n for n, parts in enumerate(LEVELS_OF_THE_RUNTIME) for part in parts}
    wrong = []
    for name, path in modules().items():
        if not name.startswith("runtime."):
            continue
        here = name.split(".")[1]
        assert here in levels, f"{name} stands in no level of the runtime"
        for target in imports(path, top_level=False):
            parts = target.removeprefix("gpuforge.runtime.").split(".")
            there = parts[0] if target.startswith("gpuforge.runtime.") else here
            if there != here and levels.get(there, 99) >= levels[here]:
                wrong.append(f"{name} imports {target}")
    assert not wrong


def test_no_import_cycles() -> None:
    known = modules()
    graph = {
        name: {
            t.removeprefix("gpuforge.")
            for t in imports(path, top_level=True)
            if t.removeprefix("gpuforge.") in known and t != f"gpuforge.{name}"
        }
        for name, path in known.items()
    }
    done: set[str] = set()

    def visit(name: str, way: tuple[str, ...]) -> None:
        assert name not in way, f"import cycle: {' -> '.join((*way, name))}"
        if name not in done:
            for target in graph[name]:
                visit(target, (*way, name))
            done.add(name)

    for name in graph:
        visit(name, ())


def test_only_render_prints() -> None:
    for name, path in modules().items():
        if name == "cli.render":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            assert not (called and node.func.id == "print"), f"{name}:{node.lineno} prints"


def test_no_silent_broad_except() -> None:
    for name, path in modules().items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ExceptHandler):
                continue
            broad = node.type is None or (
                isinstance(node.type, ast.Name) and node.type.id in ("Exception", "BaseException")
            )
            silent = all(isinstance(s, ast.Pass | ast.Continue) for s in node.body)
            assert not (broad and silent), f"{name}:{node.lineno} swallows everything"


def test_array_libraries_are_imported_by_the_runtime_and_workloads_only() -> None:
    for name, path in modules().items():
        libraries = {t.split(".")[0] for t in imports(path, top_level=True)}
        if package(name) not in {"runtime", *WORKLOADS}:
            assert not libraries & LIBRARIES_OF_THE_RUNTIME, name


def test_the_lattice_is_written_on_the_public_api_only() -> None:
    own = re.compile(r"gpuforge(\.lattice(\..*)?|\.errors(\..*)?)?")
    for name, path in modules().items():
        if package(name) == "lattice":
            for target in imports(path, top_level=False):
                assert not target.startswith("gpuforge") or own.fullmatch(target), (name, target)


def test_size_of_the_house() -> None:
    lines = sum(path.read_text(encoding="utf-8").count("\n") for path in SRC.rglob("*.py"))
    assert lines <= LINE_BUDGET


@pytest.mark.parametrize("statement", ["import gpuforge", "import gpuforge.cli.main"])
def test_import_loads_no_array_library_and_starts_no_thread(statement: str) -> None:
    code = (
        f"import sys, os; {statement}; import threading;"
        "heavy = {'numpy', 'torch', 'jax', 'sqlite3', 'asyncio', 'platformdirs', 'tomlkit'};"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules);"
        "assert threading.active_count() == 1;"
        "fds = [os.readlink(f'/proc/self/fd/{f}') for f in os.listdir('/proc/self/fd')"
        " if os.path.islink(f'/proc/self/fd/{f}')] if os.path.isdir('/proc/self/fd') else [];"
        "assert not [f for f in fds if f.startswith(('/dev/dri', '/dev/nvidia', '/dev/kfd'))]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("statement", "own", "others"),
    [
        ("import gpuforge.runtime.offload", 12, 3),
        ("import gpuforge.runtime.execution.considered", 62, 24),
    ],
)
def test_what_places_calls_loads_little_beside_numpy(statement: str, own: int, others: int) -> None:
    """A module takes 0.1 to 3 ms; `dataclasses`, `logging` and their like are told by name."""
    code = (
        f"import sys, numpy; before = set(sys.modules); {statement};"
        "found = set(sys.modules) - before;"
        "heavy = {'dataclasses', 'logging', 'statistics', 'hashlib', 'platformdirs', 'tempfile',"
        " 'subprocess', 'socket', 'sqlite3', 'tomllib', 'importlib.metadata', 'inspect', 'dis'};"
        "assert not heavy & found, heavy & found;"
        "own = {name for name in found if name.startswith('gpuforge')};"
        f"assert len(own) <= {own} and len(found - own) <= {others}, sorted(found)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
