"""A library is tried in a process of its own before the program imports it."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gpuforge as gf
from gpuforge.runtime.array.graph import Graph
from gpuforge.runtime.backends.numpy import NumpyBackend
from gpuforge.runtime.demand import OPEN_AT, TRY_AT, Demand, Wanted
from gpuforge.runtime.evaluation.engine import Programs
from gpuforge.runtime.evaluation.recording import record
from gpuforge.runtime.evaluation.replay import Noted, replay_of
from gpuforge.runtime.execution.probing import known_savings
from gpuforge.runtime.function.dependence import dependence_of
from gpuforge.runtime.libraries import Library
from gpuforge.runtime.placement.policy import NUMPY
from gpuforge.runtime.placement.priors import may_have_gpu
from gpuforge.runtime.threads.contention import allowed_cores
from gpuforge.runtime.workers import trial
from gpuforge.runtime.workers.compiler import Compilers
from gpuforge.runtime.workers.trial import Preparing, Timing, Trial

X = np.linspace(0.0, 3.0, 1000)
needs_room = pytest.mark.skipif(
    sys.platform != "linux" or may_have_gpu() or allowed_cores() < 2,
    reason="a library is tried where there is a second core and no GPU, on Linux",
)

PROGRAM = """
import logging, os, sys, time
import numpy as np
import gpuforge as gf
from gpuforge.runtime.execution import probing
from gpuforge.runtime.placement.evidence import Estimate
from gpuforge.runtime.workers import compiler, trial

name, change = sys.argv[1:]

def chain(x):
    for n in range(200):
        x = x * 0.5 + n
    return x

class Settings:
    half = 0.5

def unknown(x):
    for n in range(200):
        x = x * getattr(Settings, "half") + n
    return x

if change == "depends":  # on more than its arguments: its calls are never replayed
    change, chain = "gains", unknown

def expected(backend, size, numpy_seconds):
    return Estimate(numpy_seconds / 4, 0.1, "whatever the machine")

if change == "gains":
    learn = probing._learn_tried
    probing._learn_tried = lambda call, trial, seconds: learn(call, trial, 1e-9)
compiler._PROGRAM = compiler._PROGRAM.replace("os.nice(19)", "")  # other tests take all cores
trial.LEAST_OPENING_SECONDS = trial.ANSWER_SECONDS = 60.0
trial.PREPARING_SECONDS = 120.0
logging.getLogger("gpuforge.trial").addHandler(logging.StreamHandler(sys.stderr))
logging.getLogger("gpuforge.trial").setLevel(logging.INFO)
if change == "dies":
    compiler._PROGRAM = "import os; os._exit(3)"
with gf.session(history=False, backends=["numpy", name], kept_memory=0) as held:
    held.priors.of = lambda operations, bytes_each: expected
    library = held.libraries[name]
    library.price_seconds = 0.01
    placed, x = gf.offload(chain), np.linspace(0.0, 1.0, 100)
    wanted = chain(x)
    for _ in range(100_000):
        assert placed(x).tobytes() == wanted.tobytes()
        [kind] = placed.stats().kinds.values()
        if library.opened or held.libraries.tried and change == "":
            break
        if held.trials.background.is_busy:
            time.sleep(0.01)
    print("opened", library.opened, "loaded", name in sys.modules)
    print("tried", *held.libraries.tried, "untriable", library.untriable)
    measured = kind.kind.curve(name + ":cpu").cells.values()
    print("measured", sum(len(cell.seconds) for cell in measured))
    print("refused", kind.kind.curve(name + ":cpu").refused)
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        print("no child")
    if not library.opened:
        for _ in range(200):
            placed(x)
        assert not library.opened and name not in sys.modules
"""


def run(library: str, change: str, folder: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, library, change],
        cwd=folder, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert not done.returncode, done.stderr
    print(done.stderr)  # why a library cannot be tried
    return done.stdout.splitlines()


@needs_room
@pytest.mark.parametrize("library", ["torch", "jax"])
def test_a_library_that_does_not_gain_is_never_imported(library: str, tmp_path: Path) -> None:
    """Two hundred operations on a hundred numbers: PyTorch takes several times as long as NumPy.

    JAX may gain, since it computes them in one go: then it is measured as well.
    """
    pytest.importorskip(library, reason=f"{library} is not installed")
    if library == "jax":
        pytest.importorskip("torch", reason="one is enough")
    told = run(library, "", tmp_path)
    assert told[0] == "opened False loaded False" or library == "jax"
    assert told[1] == f"tried {library}:cpu untriable False"
    assert told[2:5] == ["measured 1", "refused ", "no child"]


@needs_room
@pytest.mark.parametrize("change", ["gains", "depends"])
def test_a_library_that_gains_is_opened(torch: Any, tmp_path: Path, change: str) -> None:
    assert run("torch", change, tmp_path)[0].startswith("opened True")


@needs_room
def test_a_library_whose_process_dies_is_opened_without_a_trial(torch: Any, tmp_path: Path) -> None:
    told = run("torch", "dies", tmp_path)
    assert told[0].startswith("opened True")
    assert told[1] == "tried untriable True"


# -- the steps, one by one ------------------------------------------------------------------------


def steep(x: Any) -> Any:
    return np.sin(x) * 2 + x**3


class Process:
    """Answers like the process of a library, in this one."""

    def __init__(self) -> None:
        self.devices = (SimpleNamespace(name="null:cpu"),)

    def opened(self, seconds: float) -> bool:
        return True


def tried(monkeypatch: pytest.MonkeyPatch, answer: Any, *, interrupted: bool = False) -> Trial:
    compilers: Any = SimpleNamespace(
        begin=lambda name: None, find=lambda name: answer, is_interrupted=lambda name: interrupted
    )
    monkeypatch.setattr(trial, "RemoteBackend", lambda process, place, facts: facts)
    return Trial(compilers, Library("null"), "subject", "key", 0.1, lambda name: "cpu" in name)


def test_the_states_of_a_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    made = tried(monkeypatch, Process())
    assert made.is_of("subject", "key") and not made.is_of("subject", "other")
    assert (made.state, made.waits, made.is_over) == ("opening", False, False)
    made.open()
    assert (made.state, made.waits, made.is_ready) == ("open", True, False)
    now = time.monotonic()
    monkeypatch.setattr(trial, "monotonic", lambda: now + 3)
    assert made.is_over, "its signature is not called any more"
    made.numpy_seconds = 1.0
    assert not made.is_over, "one of its calls takes a second"


def test_a_process_that_cannot_be_started_ends_the_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    made = tried(monkeypatch, None)
    made.open()
    assert made.is_over
    assert made.failure == "OSError: its process cannot be started"
    made = tried(monkeypatch, None, interrupted=True)
    made.open()
    assert made.is_over
    assert made.failure == "", "a fork tells nothing about the library"


@pytest.mark.parametrize(("price", "limit"), [(None, 60), (0.01, 10), (1.5, 15), (30.0, 60)])
def test_it_is_not_awaited_where_others_take_all_cores(
    price: float | None, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = Process()
    monkeypatch.setattr(process, "opened", lambda seconds: seconds > limit)
    made = tried(monkeypatch, process)
    made.library.price_seconds = price
    made.open()
    assert made.failure == f"it is not open after {limit} s"


def test_a_library_without_a_device_that_may_be_used_is_not_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    process = Process()
    process.devices = (SimpleNamespace(name="null:cuda:0"),)
    made = tried(monkeypatch, process)
    made.open()
    assert made.failure == "it has no device that may be used"
    assert made.devices == ["null:cuda:0"]


@pytest.mark.parametrize(
    ("expected", "numpy_seconds", "hopeless"),
    [
        (None, 1.0, False),
        (3.02, 1.0, True),
        (3.02, 1.01, False),
        (12e-3, 1e-3, False),
        (14e-3, 1e-3, True),
    ],
)
def test_hopeless_is_three_times_numpys_time_and_ten_milliseconds(
    expected: float | None, numpy_seconds: float, hopeless: bool
) -> None:
    made = Trial(Compilers(), Library("null"), "subject", "key", numpy_seconds, lambda name: True)
    made.expected_seconds = expected
    assert made.is_hopeless is hopeless


@pytest.fixture
def jax_process() -> Any:
    pytest.importorskip("jax", reason="jax is not installed")
    made = Compilers()
    yield made
    made.close()


@needs_room
def test_graphs_are_prepared_and_timed_in_the_process(jax_process: Compilers) -> None:
    made = Trial(jax_process, Library("jax"), "subject", "key", 1e-3, lambda name: True)
    made.open()
    assert made.state == "open", made.failure
    assert made.device == "jax:cpu"
    reference, programs = NumpyBackend(), Programs()
    engine = Preparing(made.backend, reference, programs)
    assert record(steep, (X,), {}, engine).result.tobytes() == steep(X).tobytes()
    [(graph, like)] = engine.graphs.items()
    assert isinstance(graph, Graph)
    assert (X.dtype, X.shape) in like
    made.prepare(engine.graphs)
    assert made.is_ready, made.failure
    assert made.expected_seconds is not None and 0 < made.expected_seconds < 1
    assert made.backend is not None
    timed = Timing(made.backend, reference, programs, comparing=True, numpy_seconds=10.0)
    assert record(steep, (X,), {}, timed).result.tobytes() == steep(X).tobytes()
    assert timed.outcome.compared and not timed.outcome.refused
    assert 0 < timed.outcome.run_seconds < 1


def long_loop(x: Any, y: Any) -> Any:
    for n in range(300):
        y[1:] = x[:-1] * 0.5 + n
        x = x + y * 0.25
    return x


@needs_room
def test_a_loop_is_timed_by_replaying_it(jax_process: Compilers) -> None:
    """Recording it again would take several times as long as the call."""
    made = Trial(jax_process, Library("jax"), "subject", "key", 1e-3, lambda name: True)
    made.open()
    assert made.backend is not None, made.failure
    engine = Preparing(made.backend, NumpyBackend(), made.programs)
    args = X.copy(), X * 2
    noted = record(long_loop, args, {}, engine, noting=Noted).noted
    dependence = dependence_of(long_loop)
    assert noted is not None and dependence is not None
    replay = replay_of(noted, engine, dependence, args, {})
    assert replay is not None and len(replay.links) <= 3
    made.prepare(engine.graphs)
    assert made.is_ready, made.failure
    timed = Timing(made.backend, NumpyBackend(), made.programs, comparing=True, numpy_seconds=10.0)
    given = X[::-1].copy(), X + 1
    hosts = timed.replayed(replay, list(given))
    assert hosts is not None and 0 < timed.outcome.run_seconds < 1
    result = long_loop(*given)
    timed.compare(replay, [result, given[1]], hosts)
    assert timed.outcome.compared and not timed.outcome.refused
    timed.compare(replay, [result, given[1] * 1.01], hosts)
    assert "differ" in timed.outcome.refused and not timed.outcome.compared


@needs_room
def test_linear_algebra_that_fails_over_zeros_is_timed_all_the_same(
    torch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    compilers = Compilers()
    try:
        made = Trial(compilers, Library("torch"), "subject", "key", 1e-3, lambda name: True)
        made.open()
        assert made.backend is not None, made.failure
        square = np.eye(20) * 3 + 1
        engine = Preparing(made.backend, NumpyBackend(), made.programs)
        record(np.linalg.inv, (square,), {}, engine)
        made.prepare(engine.graphs)
        assert made.is_ready and made.expected_seconds is None and not made.is_hopeless
        timed = Timing(made.backend, NumpyBackend(), made.programs, comparing=True)
        record(np.linalg.inv, (square,), {}, timed)
        assert timed.outcome.compared and timed.trouble is None
        made._process()._channel.close()
        timed = Timing(made.backend, NumpyBackend(), made.programs, comparing=True)
        found = record(np.linalg.inv, (square,), {}, timed).result
        assert found.tobytes() == np.linalg.inv(square).tobytes()
        assert timed.outcome.died and not timed.failed_there
    finally:
        compilers.close()


FORKED = """
import os, sys, threading, time
import numpy as np
import gpuforge as gf

def chain(x):
    for n in range(200):
        x = x * 0.5 + n
    return x

with gf.session(history=False, backends=["numpy", "torch"]) as held:
    placed, x = gf.offload(chain), np.linspace(0.0, 1.0, 100)
    wanted = chain(x)
    for _ in range(5):
        placed(x)
    [function] = held.functions.values()
    [record] = function.kinds.values()
    [key] = record.sizes
    held.trials.begin(held.libraries["torch"], record, key, 1e-3, "")
    start = time.perf_counter()
    state = sys.argv[1]
    while state == "ready" and (held.trials.current is None or held.trials.current.state != state):
        placed.stats().held.clear()
        assert placed(x).tobytes() == wanted.tobytes()
        time.sleep(0.01)
    start = time.perf_counter()
    child = os.fork()
    same = placed(x).tobytes() == wanted.tobytes()
    if not child:
        os._exit(0 if same else 9)
    assert os.waitpid(child, 0)[1] == 0 and same
    took = time.perf_counter() - start
    for _ in range(200):
        placed.stats().held.clear()
        assert placed(x).tobytes() == wanted.tobytes()
    if state == "opening":  # else it was timed meanwhile, perhaps beside other programs
        assert not held.libraries["torch"].untriable
    start = time.perf_counter()
    if state == "opening":
        held.trials.begin(held.libraries["torch"], record, key, 1e-3, "")
print("soon", took < 1.0 and time.perf_counter() - start < 1.0)
"""


@needs_room
@pytest.mark.parametrize("state", ["opening", "ready"])
def test_a_fork_and_the_end_do_not_wait_for_a_trial(torch: Any, state: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKED, state],
        cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert not done.returncode, done.stderr
    assert done.stdout.splitlines() == ["soon True"]


def test_what_is_saved_is_not_taken_from_a_slower_machine(quiet_session: Any) -> None:
    quiet_session.libraries["torch"] = Library("torch")
    placed = gf.offload(steep)
    for _ in range(3):
        placed(X)
    [function] = quiet_session.functions.values()
    [record] = function.kinds.values()
    [key] = record.sizes
    kind = record.kind
    for _ in range(25):
        kind.curve(NUMPY).add(key, X.size, 1.0)
    kind.curve("torch:cpu").add(key, X.size, 0.7)
    call = SimpleNamespace(
        session=quiet_session, record=record, key=key, signature=SimpleNamespace(size=X.size)
    )
    assert known_savings(call)["torch"] == pytest.approx(0.2)  # type: ignore[arg-type]
    for _ in range(25):
        kind.curve(NUMPY).add(key, X.size, 2.0)
    assert known_savings(call)["torch"] == pytest.approx(0.2)  # type: ignore[arg-type]


def test_a_hopeless_library_is_not_timed_again(quiet_session: Any) -> None:
    placed = gf.offload(steep)
    for _ in range(3):
        placed(X)
    [function] = quiet_session.functions.values()
    [record] = function.kinds.values()
    [key] = record.sizes
    made = Trial(Compilers(), Library("null"), record, key, 1e-3, lambda name: True)
    made.state, made.expected_seconds, made.device = trial.READY, 1.0, "null:cpu"
    made.backend = SimpleNamespace(version="1")  # type: ignore[assignment]
    quiet_session.trials.current = made
    placed.stats().held.clear()
    assert placed(X).tobytes() == steep(X).tobytes()
    assert quiet_session.trials.current is None
    assert list(record.kind.curve("null:cpu").cell(key).seconds) == [1.0]
    assert quiet_session.libraries.tried == {"null:cpu": "1"}


# -- when a trial, or an opening, is due ----------------------------------------------------------


def wanted(seconds: float = 0.1, calls: int = 1, **more: Any) -> Wanted:
    return Wanted(seconds, calls, seconds, frozenset(["exp"]), 1 << 20, 1 << 23, **more)


@pytest.fixture
def library(quiet_session: Any, monkeypatch: pytest.MonkeyPatch) -> Library:
    """Return the session's only library, of price 1, that is expected to save half of each call."""
    made, found = Library("torch", price_seconds=1.0), quiet_session.demand
    monkeypatch.setattr(found.libraries, "choices", lambda isolate: [made])
    monkeypatch.setattr(found.libraries, "is_no_choice", lambda one: one.opened)
    monkeypatch.setattr(Demand, "_saving", lambda self, library, call: call.seconds / 2)
    monkeypatch.setattr(found, "may_try", lambda library: True)
    monkeypatch.setattr(type(quiet_session.account), "share_of_time", 1.0)
    return made


def times(demand: Demand, call: Wanted, **known: float) -> int:
    """Return how many such calls are made until a library is worth opening or trying."""
    for count in range(1, 1000):
        if demand.want(call, known=known) is not None:
            return count
    raise AssertionError("never")


def test_what_is_not_measured_is_tried_early(quiet_session: Any, library: Library) -> None:
    demand = quiet_session.demand
    assert demand.is_tried_first(library, wanted(), None)
    assert not demand.is_tried_first(library, wanted(), 0.5)
    assert not demand.is_tried_first(library, Wanted(1, 1, 1, frozenset(), 1, 1 << 29), None)
    assert times(demand, wanted(0.01)) == pytest.approx(TRY_AT / 0.005, abs=1)
    assert library.wanted_seconds == 0.0, "another trial has to be worth it again"


def test_what_is_measured_is_opened_for_what_it_saves(quiet_session: Any, library: Library) -> None:
    demand = quiet_session.demand
    assert times(demand, wanted(0.01), torch=0.8) == pytest.approx(1 / 0.008, abs=1)
    library.missed_seconds = 0.0
    assert times(demand, wanted(0.01, in_blocks=True), torch=0.8) == pytest.approx(125, abs=1)
    with pytest.raises(AssertionError, match="never"):
        times(demand, wanted(0.01), torch=0.0)


def test_without_trials_a_library_is_opened_for_what_is_expected(
    quiet_session: Any, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    demand = quiet_session.demand
    monkeypatch.setattr(demand, "may_try", lambda library: False)
    assert times(demand, wanted(0.01)) == pytest.approx(OPEN_AT / 0.005, abs=1)


def test_what_paid_in_the_last_run_is_opened_without_a_trial(
    quiet_session: Any, library: Library
) -> None:
    library.saved_seconds = 2.0
    assert not quiet_session.demand.is_tried_first(library, wanted(), None)
    assert times(quiet_session.demand, wanted(0.01)) == 1
