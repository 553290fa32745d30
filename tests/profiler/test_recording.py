"""What gf.profile records: times that add up, planted work found, nothing changed."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import importlib.util
import json
import os
import subprocess
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from time import perf_counter, perf_counter_ns
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import gpuforge as gf
from gpuforge import published, trace
from gpuforge.errors import WorkloadError
from gpuforge.profiler import listeners
from gpuforge.profiler.breakdown import breakdown
from gpuforge.profiler.model import DEVICE, HOST, TRANSFER, WAIT, Profile
from gpuforge.profiler.paths import Path as CallPath
from gpuforge.profiler.paths import paths
from gpuforge.profiler.recording import Recording
from gpuforge.profiler.session_file import read
from gpuforge.runtime.session import session as make_session
from tests.profiler.programs import PROGRAMS, Walls

MS = 1_000_000


@pytest.fixture(autouse=True)
def off_afterwards() -> Iterator[None]:
    warnings.resetwarnings()  # where they are errors, calls are made as written
    yield
    assert not trace.enabled and trace.drainer is None
    assert not trace.drain().standing


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_times_of_every_thread_add_up(name: str, request: pytest.FixtureRequest) -> None:
    run, needs = PROGRAMS[name]
    if needs == "pyopencl":
        request.getfixturevalue("opencl")
    elif needs and importlib.util.find_spec(needs) is None:
        pytest.skip(f"needs {needs}")
    walls: Walls = {}
    with gf.profile() as p:
        start = perf_counter_ns()
        run(walls)
        time.sleep(max(0.0, 0.1 - (perf_counter_ns() - start) / 1e9))
        walls["MainThread"] = perf_counter_ns() - start
    profile = p.profile
    names = [lane.name for lane in profile.lanes]
    parts = {names[part.lane]: part for part in breakdown(profile)}
    assert set(walls) <= set(parts)
    for thread, wall in walls.items():
        told = sum(parts[thread].label_ns) + parts[thread].unexplained_ns
        assert told == pytest.approx(wall, rel=0.05, abs=MS), thread
        assert parts[thread].unexplained_ns < 0.05 * wall + MS
    for part in parts.values():
        if profile.lanes[part.lane].kind == "thread":
            told = sum(part.label_ns) + part.unexplained_ns
            assert told == pytest.approx(part.wall_ns, rel=0.05), names[part.lane]
            assert part.label_ns[DEVICE] == 0
    assert profile.complete and profile.cost_ns > 0
    assert not [span for span in profile.spans if span.duration_ns < 0]


def under(profile: Profile, *names: str) -> CallPath:
    found = paths(profile)
    for name in ("program", *names):
        found = found.children[name, "thread"]
    return found


def busy(profile: Profile, lane: str) -> list[tuple[int, int]]:
    """Return when a device's lane was busy, in order."""
    number = [one.name for one in profile.lanes].index(lane)
    return sorted((s.start_ns, s.end_ns) for s in profile.spans if s.lane == number)


LIBRARIES = {"dpnp": "dpnp:cpu", "pyopencl": "opencl:cpu"}


@pytest.fixture(params=LIBRARIES)
def planted(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A session with one library, and what makes its device work, and its copies take, so long."""
    if request.param == "pyopencl":
        request.getfixturevalue("opencl")
    else:
        pytest.importorskip(request.param)
    seconds = {"device": 0.0, "put": 0.0}
    with make_session() as session:
        trace.enable()  # queues that tell times are made while a profile is on
        backend = session.find(LIBRARIES[request.param], isolate=False)
        trace.enable(False)
        trace.drain()
        functions, put = backend.lowering.functions, backend.put
        sqrt = functions["sqrt"]

        def long_sqrt(*given: Any) -> Any:
            start = perf_counter()
            made = sqrt(*given)
            while perf_counter() < start + seconds["device"]:
                made = sqrt(*given)
                backend.wait(made)
            seconds["worked"] = perf_counter() - start
            return made

        def slow_put(array: Any) -> Any:
            start = perf_counter()
            time.sleep(seconds["put"])
            made = put(array)
            seconds["moved"] = perf_counter() - start
            return made

        monkeypatch.setitem(functions, "sqrt", long_sqrt)
        monkeypatch.setattr(backend, "put", slow_put)
        session.programs.clear()

        @gf.offload(backend=backend.name, isolate=False, numerics="relaxed")
        def root(x: np.ndarray) -> Any:
            return np.sqrt(x)

        yield root, seconds, backend


def test_planted_work_is_found_under_its_label(planted: Any) -> None:
    root, seconds, backend = planted
    x = np.ones(500_000)
    root(x)
    with gf.profile() as p:
        seconds.update(device=0.0, put=0.2)
        with gf.span("copies"):
            root(x + 1)
            moved = seconds["moved"] * 1e9
        seconds.update(device=0.3, put=0.0)
        with gf.span("computes"):
            root(x + 2)
            worked = seconds["worked"] * 1e9
        with gf.span("python"):
            end = perf_counter() + 0.1
            while perf_counter() < end:
                sum(range(100))
    profile = p.profile
    copies, computes = under(profile, "copies"), under(profile, "computes")
    put = under(profile, "copies", root.__qualname__, "record", "put")
    assert put.label_ns[TRANSFER] == pytest.approx(moved, rel=0.1) and moved > 200 * MS
    assert copies.label_ns[TRANSFER] >= put.label_ns[TRANSFER]
    assert copies.bytes == 2 * x.nbytes  # there and back
    assert computes.label_ns[WAIT] == pytest.approx(worked, rel=0.1) and worked > 300 * MS
    assert under(profile, "python").label_ns[HOST] == pytest.approx(100 * MS, rel=0.2)
    spans = busy(profile, f"{backend.name} compute")
    working = sum(end - start for start, end in spans)
    assert 0.7 * worked < working < 1.1 * (worked + copies.label_ns[WAIT])
    assert not any("does not tell" in note for note in profile.notes)
    moves = [s.attributes for s in profile.spans if s.label == TRANSFER]
    assert {move["direction"] for move in moves} == {"to device", "from device"}
    assert list(profile.counts) == ["runs of recorded calls"]
    place = profile.placements[0]
    assert place.backend == backend.name and place.seconds > 0 and place.function.endswith("root")


def test_copies_and_work_of_two_threads_overlap_on_the_lanes_of_the_device() -> None:
    pytest.importorskip("dpnp")
    begun = threading.Event()
    with gf.profile() as p, make_session() as session:
        backend = session.find("dpnp:cpu", isolate=False)
        sqrt, put = backend.lowering.functions["sqrt"], backend.put

        def long_sqrt(*given: Any) -> Any:
            made = sqrt(*given)
            end = perf_counter() + 0.3 * warm
            begun.set() if warm else None
            while perf_counter() < end:
                made = sqrt(*given)
                backend.wait(made)
            return made

        def slow_put(array: Any) -> Any:
            if begun.is_set():
                time.sleep(0.2)
            return put(array)

        backend.lowering.functions["sqrt"] = long_sqrt
        backend.put = slow_put

        @gf.offload(backend="dpnp:cpu", isolate=False)
        def root(x: np.ndarray) -> Any:
            return np.sqrt(x)

        @gf.offload(backend="dpnp:cpu", isolate=False)
        def double(x: np.ndarray) -> Any:
            return x + x

        def copies() -> None:
            begun.wait()
            double(x)

        other = threading.Thread(target=contextvars.copy_context().run, args=(copies,))
        warm, x = False, np.ones(10_000)
        root(x), double(x)
        warm = True
        other.start()
        root(x)
        other.join()
    (copied,) = [one for one in busy(p.profile, "dpnp:cpu copy") if one[1] - one[0] > 190 * MS]
    computing = [one for one in busy(p.profile, "dpnp:cpu compute") if one[1] > copied[0]]
    overlap = sum(max(min(copied[1], b) - max(copied[0], a), 0) for a, b in computing)
    assert overlap > 100 * MS


# -- nothing changes ------------------------------------------------------------------------------


def failing() -> list[str]:
    """Return the tracebacks of exceptions that leave spans and profiled functions."""

    @gf.profiled
    def plain() -> None:
        raise ValueError("plain")

    @gf.profiled("generator")
    def generator() -> Iterator[int]:
        yield 1
        raise ValueError("generator")

    @gf.profiled
    async def coroutine() -> None:
        await asyncio.sleep(0)
        raise ValueError("coroutine")

    def in_spans() -> None:
        with gf.span("outer"), gf.span("inner"):
            raise KeyError("span") from ValueError("cause")

    found = []
    for run in (plain, lambda: list(generator()), lambda: asyncio.run(coroutine()), in_spans):
        try:
            run()
        except Exception:
            found.append(traceback.format_exc())
    return found


def test_exceptions_and_tracebacks_are_the_same() -> None:
    before = failing()
    with gf.profile() as p:
        during = failing()
    assert len(before) == 4 and during == before
    errors = {s.name: s.attributes.get("error") for s in p.profile.spans if s.attributes}
    assert errors["outer"] == errors["inner"] == "KeyError" and errors["generator"] == "ValueError"


def test_an_exception_leaves_the_block_as_it_is() -> None:
    recording = gf.profile()
    with pytest.raises(ZeroDivisionError), recording:
        raise ZeroDivisionError
    assert recording.profile.complete


def test_profiled_functions_keep_their_ways() -> None:
    @gf.profiled
    def echo(first: int) -> Iterator[int]:
        """Say it again."""
        given = first
        try:
            while True:
                try:
                    given = yield given
                except KeyError:
                    given = -1
        finally:
            ended.append(given)

    ended: list[int] = []
    assert echo.__doc__ == "Say it again." and echo.__name__ == "echo"
    for on in (False, True):
        trace.enable(on)
        running: Any = echo(1)
        assert (next(running), running.send(5), running.throw(KeyError)) == (1, 5, -1)
        running.close()
    trace.enable(False)
    assert ended == [-1, -1]
    spans = trace.drain().spans
    assert len(spans) == 3 and not any("error" in span.attributes for span in spans)


def test_only_functions_are_profiled() -> None:
    for odd in (int, 3, property(len), classmethod(len)):
        for decorate in (gf.profiled, gf.profiled("name")):
            with pytest.raises(WorkloadError, match="takes a function, not "):
                decorate(odd)  # type: ignore[call-overload]
    half = gf.profiled(functools.partial(max, 1))
    with gf.profile() as p:
        assert half(2) == 2
    assert "partial" in p.profile.spans.names


ODD = {
    "leaves": "import os; p.flush(); os._exit(3)",
    "thread": "import threading; t = threading.Thread(target=sys.exit); t.start(); t.join()",
    "fork": "import os\nif not os.fork(): print('child', flush=True)\nelse: os.wait()",
    "recursion": "def f(): return f()\nf()",
    "del": "class A:\n    def __del__(self): print('gone')\na = A()",
    "interrupt": "import signal; signal.raise_signal(signal.SIGINT)",
    "unended": "sys.exit('so')",
}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("name", ODD)
def test_odd_programs_end_as_they_do(name: str, tmp_path: Path) -> None:
    path = tmp_path / "run.gfp"
    start = "import sys, gpuforge as gf\np = gf.profile(PATH)\n"
    body = f"with gf.span('odd'):\n    print('begin', flush=True)\n{ODD[name]}\nprint('end')\n"
    outcomes = []
    for begin in ("class P:\n    def flush(self): pass\np = P()\n", "p.start()\n"):
        source = start.replace("PATH", repr(str(path))) + begin + body
        # Since 3.12, Python warns of a fork while the thread runs that writes the profile.
        command = [sys.executable, "-W", "ignore:This process:DeprecationWarning", "-c", source]
        made = subprocess.run(command, capture_output=True, text=True)
        lines = [line for line in made.stderr.splitlines() if "line" not in line]
        outcomes.append((made.returncode, made.stdout, lines))
    assert outcomes[0] == outcomes[1]
    profile = read(path)
    assert profile.complete == (name != "leaves")
    assert profile.cost_ns and profile.wall_ns >= max(span.end_ns for span in profile.spans)
    assert "odd" in profile.spans.names


# -- what is told ---------------------------------------------------------------------------------


def test_a_file_holds_what_memory_would(tmp_path: Path) -> None:
    path = tmp_path / "run.gfp"
    with gf.profile(path) as p, gf.span("load", rows=3) as span:
        span.note(columns=4)
        time.sleep(0.45)  # memory is read five times a second
    profile = read(path)
    assert [s.name for s in p.profile.spans] == [s.name for s in profile.spans]
    assert [s.name for s in profile.spans] == ["program", "load"]
    said = profile.spans.attributes[1]
    assert (said["rows"], said["columns"]) == (3, 4) and said["memory_peak_bytes"] > 1 << 20
    assert profile.lanes[0].name == "MainThread"
    assert profile.header["versions"]["numpy"] == np.__version__
    assert len(profile.series[0].values) >= 3
    assert 0 < profile.cost_ns < profile.wall_ns
    assert "load" in p.summary() and p.bottlenecks(1)[0].path == ("program", "load")
    (found,) = [one for one in p.bottlenecks() if one.path == ("program", "load")]
    assert found.label == "host" and found.seconds > 0.4 and found.count == 1


class Shy:
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class Closed(dict[str, Any]):
    def copy(self) -> Closed:
        raise RuntimeError("no copy")


def test_no_attribute_or_name_makes_a_program_fail() -> None:
    around: dict[Any, Any] = {}
    around["itself"] = around
    odd = {"shy": Shy(), "around": around, "keys": {(1, 2): 3}, "huge": 10**9999, "number": 5}
    odd["closed"] = Closed(shy=Shy())
    with gf.profile() as p:
        for name, value in odd.items():
            with gf.span(name, value=value, told="text"):
                pass
        for name in ([1], Shy(), None):
            with gf.span(name):  # type: ignore[arg-type]
                pass
    spans = list(p.profile.spans)[1:]
    assert [span.name for span in spans] == [*odd, "[1]", "<Shy>", "None"]
    found = [span.attributes["value"] for span in spans[: len(odd)]]
    assert found == [
        "<Shy>",
        {"itself": "{'itself': {...}}"},
        {"(1, 2)": 3},
        "<int>",
        5,
        {"shy": "<Shy>"},
    ]
    assert {span.attributes["told"] for span in spans[: len(odd)]} == {"text"}


def test_a_program_may_change_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    with gf.profile("run.gfp") as p:
        os.chdir("sub")
    assert p.profile.complete and p.path == Path("run.gfp")


def test_a_recording_loads_only_what_records(tmp_path: Path) -> None:
    """Programs that are recorded pay for each module that they would not import themselves."""
    program = f"""
import sys, gpuforge as gf
with gf.profile({str(tmp_path / "run.gfp")!r}):
    pass
needless = "pathlib urllib gpuforge.profiler.session_file.reader gpuforge.profiler.formats".split()
print([name for name in needless if name in sys.modules])
"""
    # Without what site-packages of a developer import at every start.
    flags, folders = ("-I", "-S"), [str(Path(gf.__file__).parents[1])]
    begin = f"import sys; sys.path += {folders!r}\n"
    done = subprocess.run(
        [sys.executable, *flags, "-c", begin + program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_a_profile_is_exported(tmp_path: Path) -> None:
    pytest.importorskip("gpuforge.profiler.formats")
    with gf.profile(tmp_path / "run.gfp") as p, gf.span("step"):
        pass
    for _ in range(2):
        p.export("json", tmp_path / "run.json")
    with pytest.raises(WorkloadError, match="not overwritten with a report"):
        p.export("json", tmp_path / "run.gfp")
    assert "step" in json.dumps(json.loads((tmp_path / "run.json").read_text()))


def test_a_profile_gives_way_only_to_one_that_can_begin(tmp_path: Path) -> None:
    with Recording(gives_way=True) as outer:
        with pytest.raises(WorkloadError, match="cannot be written"):
            gf.profile(tmp_path / "gone" / "run.gfp").start()
        assert not outer.gave_way
        with gf.profile() as inner:
            pass
    assert outer.gave_way and inner.profile.complete


def test_one_profile_at_a_time() -> None:
    with gf.profile() as p:
        with pytest.raises(WorkloadError, match="already being profiled"):
            gf.profile().start()
        with pytest.raises(WorkloadError, match="not been recorded yet"):
            p.summary()
    p.stop()  # a second time nothing happens
    with gf.profile() as again:
        pass
    assert again.profile.spans.names == ["program"]
    with again, gf.span("second time"):
        pass
    assert "second time" in again.profile.spans.names


def test_a_file_that_cannot_be_written_on_does_not_end_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with gf.profile(tmp_path / "run.gfp") as p, gf.span("step"):

        def full(*_: Any, **__: Any) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(p._writer, "write", full)
    assert "No space left on device" in p.problem
    assert any("No space left" in note for note in p.profile.notes)


@pytest.mark.parametrize(
    ("name", "told"), [("run.gfp", "run.gfp' is incomplete"), ("", "the profile is incomplete")]
)
def test_an_error_in_the_last_flush_leaves_no_recording_running(
    name: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with gf.profile(tmp_path / name if name else None) as p, gf.span("step"):

        def broken(*_: Any, **__: Any) -> None:
            raise ValueError("a mistake of gpuforge")

        monkeypatch.setattr(p._writer, "write", broken)
    assert f"{told}: writing to it failed: a mistake of gpuforge" in p.problem
    with gf.profile() as again:
        pass
    assert again.profile.complete


@pytest.mark.skipif(sys.platform != "linux", reason="limits the size of a file as Linux does")
def test_a_disk_that_is_full_at_the_end_does_not_end_the_program(tmp_path: Path) -> None:
    program = """
import resource, signal
import gpuforge as gf
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with gf.profile("run.gfp") as p:
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    for n in range(20_000):
        with gf.span(f"step {n}"):
            pass
print(p.problem)
"""
    done = subprocess.run(
        [sys.executable, "-B", "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "'run.gfp' is incomplete: writing to it failed: File too large" in done.stdout
    assert done.stderr == ""


@pytest.mark.skipif(sys.platform != "linux", reason="limits the size of a file as Linux does")
def test_a_disk_that_was_full_for_a_while_costs_what_was_written_then(tmp_path: Path) -> None:
    program = """
import os, resource, signal
import gpuforge as gf
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
def spans(name):
    for n in range(5_000):
        with gf.span(name, number=n):
            pass
    p.flush()
with gf.profile("run.gfp") as p:
    spans("before")
    size = os.path.getsize("run.gfp")
    most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, most))
    spans("meanwhile")
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    spans("after")
"""
    subprocess.run([sys.executable, "-B", "-c", program], cwd=tmp_path, check=True)
    profile = read(tmp_path / "run.gfp")
    assert profile.complete and any("incomplete" in note for note in profile.notes)
    names = [span.name for span in profile.spans]
    assert (names.count("before"), names.count("after")) == (5_000, 5_000)
    assert "meanwhile" not in names


def test_held_calls_are_told_while_a_profile_is_on() -> None:
    @gf.offload(backend="numpy")
    def add(x: np.ndarray) -> np.ndarray:
        return x + 1

    x = np.ones(1000)
    for _ in range(5):
        add(x)
    with gf.profile() as p:
        for _ in range(40):
            add(x)
    for _ in range(5):
        add(x)
    calls = [s for s in p.profile.spans if s.name == add.__qualname__]
    assert len(calls) == 40
    assert {s.attributes["backend"] for s in calls} == {"numpy"}
    told = [one for one in p.profile.placements if one.function.endswith("add")]
    assert sum(one.calls for one in told) == 40
    assert all(one.seconds > 0 and one.reason for one in told)
    assert add.stats().counts["numpy"].calls == 50
    assert all(held.call is None for held in add.stats().held.values())


def test_of_many_short_calls_no_time_is_lost(tmp_path: Path) -> None:
    @gf.offload(backend="numpy")
    def short(x: Any) -> Any:
        return np.sort(x)

    values, calls = np.linspace(1.0, 0.0, 500), 4000
    with gf.profile(tmp_path / "run.gfp") as running, gf.span("loop"):
        for number in range(calls):
            short(values)
            if number == calls // 2:
                running.flush()
    profile = running.profile
    loop, found = under(profile, "loop"), under(profile, "loop", short.__qualname__)
    assert found.count == calls
    assert len(profile.spans) < calls
    assert sum(one.calls for one in profile.placements) == calls
    placed = sum(one.seconds for one in profile.placements)
    assert 0 < placed * 1e9 < 2 * found.total_ns
    assert loop.own_ns + found.total_ns <= 1.01 * loop.total_ns
    (main,) = [one for one in breakdown(profile) if profile.lanes[one.lane].name == "MainThread"]
    assert sum(main.label_ns) == pytest.approx(main.wall_ns, rel=0.01)


def test_counted_calls_that_make_others_hold_their_time(tmp_path: Path) -> None:
    @gf.offload(backend="numpy")
    def inner(x: Any) -> Any:
        return np.sort(x)

    @gf.offload(backend="numpy")
    def outer(x: Any) -> Any:
        return inner(x)

    values, calls = np.linspace(1.0, 0.0, 500), 1000
    with gf.profile(tmp_path / "run.gfp") as running, gf.span("loop"):
        for _ in range(calls):
            inner(values)
        for _ in range(calls):
            outer(values)
    profile, names = running.profile, (inner.__qualname__, outer.__qualname__)
    assert under(profile, "loop", names[0]).count <= calls + 1
    assert under(profile, "loop", *names[::-1]).count >= calls - 5
    assert sum(one.calls for one in profile.placements) >= 3 * calls - 5


def test_the_time_of_a_failed_call_inside_a_counted_one_is_told_once() -> None:
    fails = False

    @gf.offload(backend="numpy")
    def inner(x: Any) -> Any:
        if fails:
            time.sleep(0.02)
            raise ValueError
        return np.sort(x)

    @gf.offload(backend="numpy")
    def outer(x: Any) -> Any:
        with suppress(ValueError):
            return inner(x) if fails else np.sort(x)

    with gf.profile() as running, gf.span("loop"):
        for _ in range(1000):
            inner(np.ones(300))
            outer(np.ones(300))
        fails = True
        outer(np.ones(300))
    spans = [one for one in running.profile.spans if one.name.endswith(("inner", "outer"))]
    assert sum(one.duration_ns > 2e7 for one in spans) == 1


def test_counted_calls_have_the_attributes_of_their_arrays() -> None:
    @gf.offload(backend="numpy")
    def short(x: Any) -> Any:
        return np.sort(x)

    with gf.profile() as running:
        for size in (300, 301):  # of one kind
            for _ in range(1000):
                short(np.ones(size))
    spans = [span for span in running.profile.spans if span.name == short.__qualname__]
    counts = {size: sum(s.count for s in spans if s.attributes.get("shape") == [size])
              for size in (300, 301)}  # fmt: skip
    assert min(counts.values()) > 900 and max(counts.values()) <= 1000


def test_a_counted_call_that_fails_is_kept() -> None:
    @gf.offload(backend="numpy")
    def checked(x: Any) -> Any:
        if x[0] < 0:
            raise ValueError("negative")
        return x[0]

    with gf.profile() as running:
        for number in range(4000):
            with pytest.raises(ValueError) if number == 2000 else nullcontext():
                checked(np.full(4, -1.0 if number == 2000 else 1.0))
    spans = [span for span in running.profile.spans if span.name == checked.__qualname__]
    assert sum(span.count for span in spans) == 4000
    errors = [span.attributes["error"] for span in spans if "error" in span.attributes]
    assert errors == ["ValueError"]


def test_callables_without_a_hash_are_profiled() -> None:
    class Doubled:
        __hash__ = None  # type: ignore[assignment]

        def __call__(self, x: np.ndarray) -> np.ndarray:
            return x * 2

    placed = gf.offload(Doubled())
    with gf.profile() as p:
        placed(np.ones(3))
    assert any(span.name == Doubled.__qualname__ for span in p.profile.spans)


def test_memory_stays_bounded() -> None:
    most = 0
    with gf.profile() as p:
        for _ in range(200_000):
            with gf.span("s"):
                pass
            most = max(most, trace.waiting())
    assert most <= 2 * trace.MOST_SPANS + trace._LOOK_EVERY + 1
    assert sum(p.profile.spans.count) == 200_001


# -- others hear of spans -------------------------------------------------------------------------


def test_a_profile_may_begin_while_pytorch_is_being_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    with gf.profile() as recording:
        pass
    assert any("PyTorch was still loading" in note for note in recording.profile.notes)


def test_pytorchs_profiler_hears_of_spans() -> None:
    torch = pytest.importorskip("torch")
    with gf.profile():
        with gf.span("unheard"):
            pass
        cpu = torch.profiler.ProfilerActivity.CPU
        with torch.profiler.profile(activities=[cpu]) as heard, gf.span("heard"):
            torch.ones(3).sum()
    names = {event.name for event in heard.events()}
    assert "heard" in names and "unheard" not in names


def test_opentelemetry_hears_of_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry import trace as api
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    assert listeners._opentelemetry() is None  # no provider was set
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(api, "_TRACER_PROVIDER", provider)  # what sets it cannot unset it
    with gf.profile() as p:
        with gf.span("outer", rows=3, way=Path("a")) as span, gf.span("inner"):
            span.note(share=0.5)
        with pytest.raises(KeyError), gf.span("fails"):
            raise KeyError("x")
    inner, outer, fails, *_ = exporter.get_finished_spans()
    assert (inner.name, outer.name) == ("inner", "outer")
    assert inner.parent.span_id == outer.context.span_id
    assert dict(outer.attributes) == {"rows": 3, "way": "a", "share": 0.5}
    assert inner.status.is_unset and not inner.attributes
    assert (fails.status.is_ok, fails.status.description) == (False, "KeyError")
    assert any("also passed to OpenTelemetry" in note for note in p.profile.notes)


def test_what_listeners_cannot_hear_ends_no_program(monkeypatch: pytest.MonkeyPatch) -> None:
    class Textless:
        def __str__(self) -> str:
            raise RuntimeError("no text")

    heard: list[str] = []
    span = trace.OpenSpan()
    span.attributes, span.nbytes = {"what": Textless(), "size": 3}, 0
    assert listeners._told(span) == {"what": "<Textless>", "size": 3}
    stop = trace.listen(heard.append, lambda token, span: None)
    with gf.profile(), gf.span(Textless()), gf.span(3):  # type: ignore[arg-type]
        pass
    stop()
    assert heard[-2:] == ["<Textless>", "3"]


def test_nvtx_hears_of_spans_under_nsight(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("nvtx")
    assert listeners._nvtx() is None
    monkeypatch.setenv("NSYS_PROFILING_SESSION_ID", "1")
    found = listeners._nvtx()
    assert found is not None
    begin, end, is_on = found
    end(begin("span"), trace.OpenSpan())
    assert is_on is None
    with gf.profile(), gf.span("step"):
        assert trace._kind is not trace.OpenSpan


def test_nsight_without_the_package_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NSYS_PROFILING_SESSION_ID", "1")
    monkeypatch.setitem(sys.modules, "nvtx", None)
    with gf.profile() as p:
        pass
    assert any("pip install nvtx" in note for note in p.profile.notes)


def test_nobody_listens_unless_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("torch", "nvtx", "opentelemetry.trace"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    stop = listeners.attach()
    assert trace._kind is trace.OpenSpan
    stop()


def test_threads_that_all_make_room_do_not_wait_for_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trace, "MOST_SPANS", 500)

    def work() -> None:
        for _ in range(5_000):
            with gf.span("s"):
                pass

    with gf.profile() as p:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            p.flush()
            threads[0].join(0.01)
    assert sum(p.profile.spans.count) == 20_001
    assert len({s.number for s in trace.drain().spans}) == 0


def test_other_processes_see_the_innermost_open_span() -> None:
    def shown() -> list[str]:
        return [one.span for one in published.read_all() if one.pid == os.getpid()]

    with gf.profile(), gf.span("whole"), gf.span("inner"):
        late = time.monotonic() + 30
        while shown() != ["inner"] and time.monotonic() < late:
            time.sleep(0.02)
        assert shown() == ["inner"]
    assert shown() == [""]
