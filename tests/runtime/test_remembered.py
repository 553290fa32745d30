"""What one process found out, the next one knows: refusals, functions that stay, the account."""

from __future__ import annotations

import subprocess
import sys
import threading
from importlib.metadata import packages_distributions, version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gpuforge as gf
from gpuforge.runtime import backends
from gpuforge.runtime.backends.numpy import NumpyBackend
from gpuforge.runtime.demand import Wanted
from gpuforge.runtime.evaluation import opening
from gpuforge.runtime.execution import summary
from gpuforge.runtime.libraries import Library
from gpuforge.runtime.placement.account import FLOOR_SECONDS, SHARE, Account
from gpuforge.runtime.placement.policy import NUMPY

from .conftest import places, refusals

X = np.random.default_rng(5).random(20_000)

FUNCTIONS = """
import sys
import numpy as np
import gpuforge as gf
from gpuforge.runtime.session import default_session

ran = []

@gf.offload(backend=sys.argv[1])
def counted(x):
    ran.append(1)
    return np.histogram2d(x, x)[0]

@gf.offload(backend=sys.argv[1])
def addressed(x):
    ran.append(1)
    return x.ctypes.data % 2

def waves(x):
    return np.exp(x) * np.sin(x)

x = np.random.default_rng(0).random(20_000)
session = default_session()
"""
FIRST = """
counted(x), addressed(x)
assert len(ran) == 3, ran
assert "torch" in sys.modules
print(counted.explain(x))
"""
SECOND = """
library = session.libraries["torch"]
library.price_seconds = 0.0  # it is loaded for the first call that may gain
session.demand.may_try = lambda library: False
for _ in range(20):
    counted(x), addressed(x)
assert len(ran) == 40, ran
assert "torch" not in sys.modules and not library.opened
print(counted.explain(x))
print(addressed.explain(x))
placed = gf.offload(waves)
for _ in range(20):
    placed(x)
    session.background.wait()
assert library.opened
session.openings.collect()
print(counted.explain(x))
"""


def test_a_second_run_neither_loads_nor_tries_what_was_refused(torch: Any, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    assert "none of its operations run there" in run(program, FIRST, "torch")
    told = run(program, SECOND, "")
    assert "it needs a real NumPy array" in told
    assert "not a candidate: none of its operations run there" in told


def run(program: Path, body: str, backend: str) -> str:
    program.write_text(FUNCTIONS + body)
    done = subprocess.run(
        [sys.executable, str(program), backend], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_refusal_is_forgotten_with_another_version_of_the_library(
    torch: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def counted(x: Any) -> Any:
        return np.histogram2d(x, x)[0]

    def refused() -> dict[str, str]:
        with gf.session(cache_folder=str(tmp_path)):
            placed = gf.offload(counted)
            placed(X)
            return refusals(placed)

    with gf.session(cache_folder=str(tmp_path)):
        gf.offload(backend="torch:cpu")(counted)(X)
    assert refused() == {"torch:cpu": "none of its operations run there"}
    monkeypatch.setattr("gpuforge.runtime.libraries.installed_version", lambda name: "another")
    assert refused() == {}


class TestAccount:
    def test_a_loss_within_the_bound_is_borne(self) -> None:
        account = Account()
        account.add(10.0, 10.0 * (1 + SHARE) + FLOOR_SECONDS * 0.9)
        assert not account.in_the_red and not account.retreated
        account.add(0.0, FLOOR_SECONDS)
        assert account.in_the_red and account.retreated
        account.add(10.0, 1.0)
        assert not account.in_the_red and account.retreated

    def test_calls_within_calls_allow_no_more(self) -> None:
        account = Account(elapsed=lambda: 2.0)
        account.add(8.0, 8.0)  # the same two seconds in four functions, one within the other
        assert account.share_of_time == 0.25
        assert account.allowance() == pytest.approx(SHARE * 2.0 + FLOOR_SECONDS)

    def test_what_another_backend_saves_is_no_call_within_a_call(self) -> None:
        account = Account(elapsed=lambda: 20.0)
        account.add(100.0, 10.0, "torch:cuda")
        account.add(10.0, 10.0)
        assert account.share_of_time == 1.0

    def test_calls_within_calls_want_a_library_once(self) -> None:
        wanted = []
        with gf.session(history=False) as held:
            for elapsed in (8.0, 2.0):
                held.account.placed_seconds, held.account.elapsed = 8.0, lambda time=elapsed: time
                call = Wanted(1e-3, 8, 1e-3, frozenset(["exp"]), X.size, X.nbytes)
                for library in held.libraries.values():
                    library.wanted_seconds = 0.0
                held.demand.want(call)
                wanted.append([one.wanted_seconds for one in held.libraries.values()])
        assert any(wanted[0])
        np.testing.assert_allclose(wanted[1], np.array(wanted[0]) / 4)

    def test_nothing_is_tried_in_the_red_and_that_is_said(self, torch: Any) -> None:
        with gf.session(history=False, explore_share=1) as held:
            held.find("torch")
            placed = gf.offload(lambda x: np.exp(x) * np.sin(x))
            held.account.add(1.0, 3.0)
            for _ in range(50):
                placed(X)
            assert places(placed) == {"numpy": 50}
            assert all(not record.kind.spent_seconds for record in placed.stats().kinds.values())
            assert "placement has cost more than it gained" in str(placed.explain(X))
            told = " ".join(summary.collect().notes)
            assert "placement had cost more than it gained" in told


def test_the_reason_is_named_where_the_fastest_is_not_chosen(torch: Any) -> None:
    with gf.session(history=False, explore_share=0) as held:
        held.find("torch")
        placed = gf.offload(lambda x: np.exp(x) * np.sin(x))
        placed(X)
        [record] = placed.stats().kinds.values()
        [key] = record.sizes
        record.kind.curve(NUMPY).add(key, X.size, 1.0)
        record.kind.curve("torch:cpu").add(key, X.size, 0.1)
        record.kind.spent_seconds = 400 * record.kind.busy_seconds
        explained = placed.explain(X)
    text = str(explained)
    assert explained.choice == "numpy"
    assert "torch:cpu is expected to be faster, but its result must first be compared" in text
    assert "400 times as long as" in text and "% of" not in text


class SlowLibrary:
    """A library that takes as long to open as the test wants."""

    LIBRARY = "numpy"

    def __init__(self) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()

    def open_devices(self) -> list[Any]:
        self.begun.set()
        assert self.go_on.wait(60)
        backend = NumpyBackend()
        backend.name = "slow:cpu"
        return [backend]


def test_calls_go_on_while_another_thread_opens_a_library(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = SlowLibrary()
    point = SimpleNamespace(load=lambda: slow)
    monkeypatch.setattr(backends, "_entry_points", lambda: {"slow": point})
    monkeypatch.setattr(opening, "_tested", {})
    with gf.session(history=False, backends=["numpy", "slow"]) as held:
        assert isinstance(held.libraries["slow"], Library)
        thread = threading.Thread(target=held.find, args=("slow",))
        thread.start()
        try:
            assert slow.begun.wait(60)
            placed = gf.offload(lambda x: x + 1)
            assert placed(X)[0] == X[0] + 1
            assert places(placed) == {"numpy": 1}
            assert not held.libraries["slow"].devices
        finally:
            slow.go_on.set()
            thread.join()
        assert [backend.name for backend in held.backends()] == ["slow:cpu"]


def test_the_version_of_a_library_is_its_packages() -> None:
    """It is read from the name of a folder where that is told, which is faster."""
    names = {name: backends.about(name)[0].split(".")[0] for name in backends.names()}
    packages = packages_distributions()
    installed = {name: packages[library] for name, library in names.items() if library in packages}
    assert "numpy" in installed
    for name, found in installed.items():
        assert backends._version_from_folder(names[name]) in {version(one) for one in found}
