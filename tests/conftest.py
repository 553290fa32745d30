"""What holds for every test: a home of its own, nothing left behind, no skip where none may be.

``GPUFORGE_REQUIRE=torch,jax`` names libraries that must be there: a test that is skipped for want
of one of them fails instead. ``--passed-to FILE`` lists the tests that passed; ``--passed-before
FILE`` leaves them out of a run with more libraries, except where these change what is tested.
``--part 1/3`` runs a third of the cases of each test that has many; with ``--repeated-later``, also
a third of the tests that a later run with more libraries repeats.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import sys
import tempfile
import threading
import zlib
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import settings

from gpuforge import published
from gpuforge.runtime.prelude import prelude

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)

REQUIRED = [name for name in os.environ.get("GPUFORGE_REQUIRE", "").split(",") if name]
# The same examples each time, without time limits: no verdict hangs on luck or on a busy machine.
# New examples are looked for by pytest --hypothesis-profile=default.
settings.register_profile("steady", deadline=None, derandomize=True)
settings.load_profile("steady")
AT_START = frozenset(os.environ)
LEFT_BY_DASK = frozenset(
    ("MALLOC_TRIM_THRESHOLD_", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
)
"""What Dask sets for its workers in the process that starts them, and leaves there: a backend that
is opened later would find one thread."""
CORPUS = Path(os.environ.get("GPUFORGE_CORPUS", Path(__file__).parents[2] / "shared" / "corpus"))


LIBRARIES_MATTER = ("tests/cli/", "tests/contract/", "tests/meaning/", "tests/runtime/")
OF_NUMPY_ALONE = (
    "tests/cli/test_report_issue.py", "tests/runtime/test_blocks.py",
    "tests/runtime/test_columns.py", "tests/runtime/test_heap.py", "tests/runtime/test_operations_",
)  # fmt: skip
"""Files whose tests name their backend, or place no call: what passed there passes again."""
MANY_CASES = 6
"""Of a test with so many cases, ``--part`` chooses some: they are of one kind, unless it is marked
`differ`."""
passed: list[str] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--passed-to", type=Path)
    parser.addoption("--passed-before", type=Path)
    parser.addoption("--repeated-later", action="store_true")
    parser.addoption("--part", type=_part, default=(1, 1), metavar="K/N")


def _part(text: str) -> tuple[int, int]:
    number, _, parts = text.partition("/")
    if not (number.isdecimal() and parts.isdecimal() and 1 <= int(number) <= int(parts)):
        raise argparse.ArgumentTypeError(f"{text!r} is not K/N with K from 1 to N, such as 1/3")
    return int(number), int(parts)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" and report.passed:
        passed.append(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    path = session.config.getoption("--passed-to")
    if path and not hasattr(session.config, "workerinput"):
        path.write_text("\n".join(passed))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    path = config.getoption("--passed-before")
    before = set(path.read_text().split("\n")) if path else set()
    number, parts = config.getoption("--part")
    later = config.getoption("--repeated-later")
    cases = Counter(_test_of(one) for one in items)

    def is_left_out(one: pytest.Item) -> bool:
        repeated = _is_repeated(one.nodeid)
        if one.nodeid in before and not repeated:
            return True
        # By its name: the part of a case does not change when others are added.
        place = zlib.crc32(one.nodeid.encode()) % parts
        alike = cases[_test_of(one)] >= MANY_CASES and one.get_closest_marker("differ") is None
        return place != number - 1 and (alike or (later and repeated))

    left_out = [one for one in items if is_left_out(one)]
    config.hook.pytest_deselected(items=left_out)
    names = {one.nodeid for one in left_out}
    items[:] = [one for one in items if one.nodeid not in names]


def _test_of(case: pytest.Item) -> str:
    return case.nodeid.partition("[")[0]


def _is_repeated(name: str) -> bool:
    """Return whether other libraries may change what a test that passed before tests."""
    return name.startswith(LIBRARIES_MATTER) and not name.startswith(OF_NUMPY_ALONE)


def pytest_sessionstart() -> None:
    missing = [name for name in REQUIRED if importlib.util.find_spec(name) is None]
    if missing:
        raise pytest.UsageError(f"GPUFORGE_REQUIRE names what is not installed: {missing}")


def not_skipped(report: Report) -> Report:
    """Turn a skip for want of a required library into a failure."""
    reason = str(report.longrepr)
    wanted = [name for name in REQUIRED if re.search(rf"\b{re.escape(name)}\b", reason)]
    if report.skipped and wanted and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped although GPUFORGE_REQUIRE names {wanted}: {reason}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    return not_skipped((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    return not_skipped((yield))


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give each test empty cache and configuration folders, and no setting from outside."""
    home = tmp_path_factory.mktemp("home")
    for variable in [name for name in os.environ if name.startswith("GPUFORGE_")]:
        if variable != "GPUFORGE_CORPUS":
            monkeypatch.delenv(variable)
    for variable in LEFT_BY_DASK - AT_START:
        os.environ.pop(variable, None)
    monkeypatch.setattr(prelude, "over", True)  # tests look at calls that are placed
    session = sys.modules.get("gpuforge.runtime.session")
    if session is not None:  # the default session of an earlier test knows another home
        monkeypatch.setattr(session, "_default", None)
        monkeypatch.setattr(session, "_all", [])
        # A second of a core for every test that opens JAX; tests/runtime/test_compilers.py has it.
        trials = sys.modules["gpuforge.runtime.startup.trials"]
        monkeypatch.setattr(trials, "compiles", lambda name: False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(home / "data"))
    (home / "runtime").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(home / "runtime"))
    return home


@pytest.fixture(autouse=True)
def nothing_left_behind(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail a test that leaves a thread, a process, an open file or a temporary file."""
    temporary = own_home / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)
    threads, processes, files = set(threading.enumerate()), child_processes(), open_files()
    yield
    end_workers()
    left: list[object] = [
        t for t in threading.enumerate() if t not in threads and t.is_alive() and not t.daemon
    ]
    left += [f"process {p}" for p in child_processes() - processes]
    left += [f"open file {p}" for p in open_files() - files if KEPT_OPEN not in p]
    left += [p for p in temporary.iterdir() if not p.name.startswith(NOT_OURS)]
    assert not left, f"left behind: {left}"


def end_workers() -> None:
    """End what the default session and calls of whole functions keep until the program ends."""
    for name, ends in (("session", "close_all"), ("workers.functions", "close_idle")):
        if module := sys.modules.get(f"gpuforge.runtime.{name}"):
            getattr(module, ends)()
    if module := sys.modules.get("gpuforge.monitor.metrics"):
        module._watch.close()
    published.end()


KEPT_OPEN = "/cache/pytools/"
"""Where PyOpenCL's cache of invokers lies, a database it holds open once it was used."""
NOT_OURS = ("torchinductor_", "pymp-", "pocl", "cl_cache", "pytest-of-")
"""What libraries, and pytest run inside a test, keep in the temporary folder."""


def child_processes() -> set[str]:
    """Return the running children of this process; multiprocessing's own tracker may stay."""
    found: set[str] = set()
    for task in Path("/proc/self/task").glob("*/children"):
        for child in read_bytes(task).split():
            command = read_bytes(Path("/proc", child.decode(), "cmdline")).replace(b"\0", b" ")
            if command and b"multiprocessing.resource_tracker" not in command:
                found.add(f"{child.decode()} {command.decode()}")
    return found


def read_bytes(path: Path) -> bytes:
    """Return what a file of /proc holds: nothing, if its thread or process ended meanwhile."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def open_files() -> set[str]:
    """Return the regular files that this process holds open for writing or reading."""
    found: set[str] = set()
    for link in Path("/proc/self/fd").glob("*"):
        try:
            target = os.readlink(link)
        except OSError:  # the listing's own descriptor
            continue
        if target.startswith("/") and not target.startswith(("/dev/", "/proc/", "/sys/")):
            found.add(target)
    return found


@pytest.fixture(scope="session")
def corpus() -> Path:
    """Return the folder of recorded machines and error reports, or skip by name."""
    if not CORPUS.is_dir():
        pytest.skip(f"no corpus at {CORPUS}: set GPUFORGE_CORPUS")
    return CORPUS
