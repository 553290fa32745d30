"""Evaluate the graphs of one call on one backend; NumPy settles whatever fails there."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from time import perf_counter, thread_time
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from gpuforge import published, trace
from gpuforge.dataclass import dataclass
from gpuforge.errors import DeviceLost, WorkerDied
from gpuforge.log import logger
from gpuforge.runtime.array.graph import REPEAT, Dtype, Graph, Operation, Tape
from gpuforge.runtime.array.recorder import Able
from gpuforge.runtime.backends import Backend
from gpuforge.runtime.evaluation.background import COMPILING, Background
from gpuforge.runtime.evaluation.blocked import BlockedProgram
from gpuforge.runtime.evaluation.compilation import Compilation, compile_in_background
from gpuforge.runtime.evaluation.observed import moved, part, run
from gpuforge.runtime.evaluation.pace import Pace
from gpuforge.runtime.evaluation.pressure import release
from gpuforge.runtime.evaluation.program import Program, is_inexact, shared_outputs
from gpuforge.runtime.evaluation.program_store import ProgramStore
from gpuforge.runtime.evaluation.reference import ADDING, CANCELLING, ELEMENTWISE, compare

if TYPE_CHECKING:
    from gpuforge.runtime.evaluation.replay import Link

_log = logger("evaluation")
KEPT_PROGRAMS = 512
CHECKED_RUNS, CHECKED_EVERY = 4, 16
"""The first runs of a program, then one in so many, are checked for values NumPy warns about."""
SEEN_BEFORE_COMPILING = 2
COMPILE_SECONDS = 3.0
"""Limit for compiling the graphs of one call: a loop may make a new one per iteration."""
WARNED = "NumPy warns about a result"
LOST, LOST_SECONDS = 1.5, 5e-3
"""A backend has lost a try once it took this many times NumPy's time plus this many seconds."""
DOUBTFUL = 0.5
"""A backend that took more than this share of NumPy's time is timed again: its first run may have
waited for sleeping threads or for memory."""

CANCELLING_KINDS = ("reduction", "contraction", "scan", "factorisation", "transform")
ADDITIONS = ("add", "subtract")
"""Classes of operations in which sums of many terms may cancel, and operations in which two do."""

Host = np.ndarray[Any, Any]


class Elsewhere(Protocol):
    """Compiles graphs in other processes."""

    def ask(self, backend: Backend, graph: Graph, like: Sequence[Any]) -> bytes | None:
        """Return a graph compiled for inputs `like` these; None to compile it in this process."""


class Programs:
    """The programs of one session, by backend and graph, in a cache of `KEPT_PROGRAMS`.

    Attributes
    ----------
    elsewhere : compiles graphs in another process; None if there is none
    """

    def __init__(self, store: ProgramStore | None = None) -> None:
        self.store = store or ProgramStore()
        self.elsewhere: Elsewhere | None = None
        self._found: OrderedDict[tuple[str, Graph], Program] = OrderedDict()
        self._able: dict[tuple[str, bool], Able] = {}

    def of(self, backend: Backend, graph: Graph) -> Program:
        """Return the program for a graph on a backend, planning it if needed."""
        key = (backend.name, graph)
        found = self._found.get(key)
        if found is None:
            found = backend.plan(graph) or _program(backend, graph)
            self._found[key] = found
            found.shared = shared_outputs(graph, backend.lowering)
            if len(self._found) > KEPT_PROGRAMS:
                self._found.popitem(last=False)
        return found

    def find(self, backend: Backend, program: Program) -> bool:
        """Return whether a program is compiled, after trying to load it from the store."""
        if program.compiled is None and not program.sought:
            program.sought = True
            program.compiled = self.store.load(backend, program.graph)
            program.is_loaded = program.is_untried = program.compiled is not None
        return program.compiled is not None

    def compile(self, backend: Backend, program: Program, given: Sequence[Any]) -> Any:
        """Compile a program for inputs like `given`, store it and return its compiled form."""
        program.eager = False
        made = backend.program(program, given)
        self.store.keep(backend, program.graph, made)
        return made

    def able(self, backend: Backend, exact: bool) -> Able:
        """Return the cached answers of a backend's lowering: why it refuses an operation, or ''."""
        return self._able.setdefault((backend.name, exact), Able())

    def clear(self) -> None:
        """Drop all programs."""
        self._found.clear()


@dataclass
class Outcome:
    """The outcome of evaluating one call.

    Attributes
    ----------
    transfer_seconds, run_seconds, compile_seconds : wall time on the backend
    put_bytes, got_bytes : bytes moved to the backend and back; 0 if memory is shared
    recording_seconds : time that the calls after this one will not take, since they are replayed
    settled_seconds : time that NumPy took to settle or to compare
    settled : why NumPy settled part of the call; empty if it did not
    refused : why the backend is excluded for this kind of call from now on
    exhausted : whether memory ran out
    lost : how the device failed for good; empty if it did not
    died : whether the worker process that evaluated it died
    programs : graphs evaluated on the backend
    new_programs : graphs that were not met before, also if NumPy evaluated them
    left_out : graphs of a try that the backend did not get because it had already lost
    compared : whether all results were compared with NumPy's and agreed
    compilation : the compilation started in the background for later calls
    """

    transfer_seconds: float = 0.0
    run_seconds: float = 0.0
    compile_seconds: float = 0.0
    put_bytes: int = 0
    got_bytes: int = 0
    recording_seconds: float = 0.0
    settled_seconds: float = 0.0
    settled: str = ""
    refused: str = ""
    exhausted: bool = False
    lost: str = ""
    died: bool = False
    programs: int = 0
    new_programs: int = 0
    left_out: int = 0
    compared: bool = False
    compilation: Compilation | None = None

    @property
    def backend_seconds(self) -> float:
        """Time on the backend, compilation and settling included."""
        taken = self.transfer_seconds + self.run_seconds
        return taken + self.compile_seconds + self.settled_seconds

    @property
    def unseen_seconds(self) -> float:
        """Time that the left-out graphs would have taken, extrapolated from the others."""
        seen = self.transfer_seconds + self.run_seconds
        return seen * self.left_out / self.programs if self.programs else 0.0


class BackendEngine:
    """Evaluates the tapes of one call.

    Parameters
    ----------
    comparing
        Whether NumPy evaluates everything too and gives the results, to compare with the backend's.
    compile_seconds
        Limit for compiling within one call; beyond it, NumPy runs what is not compiled yet.
    compiling
        Whether new graphs are compiled at once; else NumPy runs a graph until it was met
        `SEEN_BEFORE_COMPILING` times.
    background
        Where graphs are compiled in the background; None if calls wait for compilation.
    pace
        Ends a recording that takes too long; None for no limit.
    numpy_seconds
        NumPy's time for the call as written; None if unknown or the call is not a try. A backend
        that takes much longer for some graphs of a call gets no more of them.
    timing
        Whether a newly compiled program runs twice, because its first run is not representative.
        Always so when comparing.
    """

    def __init__(
        self,
        backend: Backend,
        reference: Backend,
        programs: Programs,
        *,
        exact: bool = False,
        comparing: bool = False,
        compiling: bool = True,
        relaxed: bool = False,
        compile_seconds: float = COMPILE_SECONDS,
        background: Background | None = None,
        pace: Pace | None = None,
        numpy_seconds: float | None = None,
        timing: bool = True,
    ) -> None:
        self.backend, self.reference, self.programs = backend, reference, programs
        self.exact, self.comparing, self.compiling = exact, comparing, compiling
        self.relaxed, self.compile_seconds = relaxed, compile_seconds
        self.background, self.pace, self.numpy_seconds = background, pace, numpy_seconds
        self.timing = timing or comparing
        self.able = programs.able(backend, exact)
        self.dtypes = backend.lowering.dtypes
        self.tape_limit = backend.tape_limit
        self.repeats = backend.compiles and "turns" in backend.lowering.functions
        self.outcome = Outcome()
        self.latest: Program | None = None

    def supports(self, operation: Operation, dtype: Dtype) -> str:
        """Return why NumPy computes an operation instead; empty if the backend does."""
        return self.backend.lowering.refusal(operation, dtype, exact=self.exact)

    def get(self, value: Any) -> Host:
        """Return a value as a NumPy array."""
        if type(value) is np.ndarray:
            return value
        start = perf_counter()
        try:
            with part("get", self.backend) as span, self.backend.scope():
                host = self.backend.get(value)
                moved(span, self.backend, [host])
        except Exception as error:
            if not self.backend.lost(error):
                raise
            self.outcome.lost = describe_error(error)
            raise DeviceLost(
                f"{self.backend.name} failed with an array of this call on it: {self.outcome.lost}",
                hint="call again: NumPy runs this call, and a new process uses the device",
            ) from error
        self.outcome.transfer_seconds += perf_counter() - start
        if not self.backend.on_host:
            self.outcome.got_bytes += host.nbytes
        return host

    def run(self, tape: Tape, wanted: list[int], modes: dict[str, str]) -> list[Any]:
        """Return the wanted entries' values, from the backend or, if it settles, from NumPy."""
        if self.pace is not None and self.backend.threads:
            self.pace.check_in_blocks()
        elif self.pace is not None:
            so_far = self.outcome
            self.pace.check(so_far.transfer_seconds + so_far.run_seconds + so_far.compile_seconds)
        self.latest = None
        graph = Graph(tuple(tape.entries), tuple(wanted))
        if self.backend is self.reference:
            return self._by_numpy(graph, tape, modes)
        if self.outcome.refused:
            return self._by_numpy(graph, tape, modes, self.outcome.refused)
        if self.comparing and self._has_lost():
            self.outcome.left_out += 1
            self.outcome.compared = False
            return self._by_numpy(graph, tape, modes, "it takes longer than NumPy")
        program = self.programs.of(self.backend, graph)
        if not program.seen:
            program.see(tape)
        program.seen += 1
        self.outcome.new_programs += program.seen == 1
        if self._unready(program, tape):
            return self._by_numpy(graph, tape, modes, self.outcome.settled)
        trouble: Exception | None = None
        try:
            values, settled = self._on_backend(program, tape, modes)
        except Exception as error:  # noqa: BLE001 - whatever a library raises is settled by NumPy
            trouble = error
        if trouble is not None:
            return self._settle_failure(graph, tape, modes, trouble)
        if settled == WARNED and not self._does_numpy_warn(graph, tape, modes):
            settled = ""
        if settled:
            self.outcome.settled = settled
            return self._by_numpy(graph, tape, modes, settled)
        self.outcome.programs += 1
        self.latest = program
        return self._compare_with_numpy(graph, tape, modes, values) if self.comparing else values

    def rerun(
        self, links: list[Link], values: list[Any], wanted: list[int], modes: Mapping[str, Any]
    ) -> list[Host] | None:
        """Run programs again, one after the other; return the wanted values on the host.

        `values` are the arguments, to which the outputs are added; None to record the call instead.
        If NumPy would have to settle a run, the call is recorded, and the recorded call settles it.
        """
        backend = self.backend
        used = [place for link in links for place, _ in link.given if place is not None]
        arguments = [place for place in dict.fromkeys(used) if place < len(values)]
        try:
            with backend.scope():
                given = self._put([values[place] for place in arguments])
                for place, value in zip(arguments, given, strict=True):
                    values[place] = value
                for link in links:
                    made = self._rerun(link, values, modes)
                    if made is None:
                        return None
                    values += made
                    for place in link.drop:
                        values[place] = None
                with part("get", backend) as span:
                    hosts = [backend.get(values[place]) for place in wanted]
                    moved(span, backend, hosts)
        except Exception as error:  # noqa: BLE001 - the recorded call meets it too, and settles it
            _log.info("%s: %s", backend.name, describe_error(error))
            return None
        return hosts

    def _rerun(
        self, link: Link, values: Sequence[Any], modes: Mapping[str, Any]
    ) -> list[Any] | None:
        """Run one program of a replay; return its outputs, None if NumPy would have to settle."""
        backend, program = self.backend, link.program
        call = program.compiled if backend.compiles else program
        if call is None:
            return None
        check_finite = not self.relaxed and _warns(modes) and _is_check_due(program)
        program.checks_finite = check_finite and not backend.compiles
        program.modes = modes
        given = [known if place is None else values[place] for place, known in link.given]
        given = [backend.put(one) if type(one) is np.ndarray else one for one in given]
        with run(backend, program, link.lines) as running:
            made, fired, finite = running.call(call, given)
            if fired and _fired(fired):
                return None
            backend.wait(made)
            if check_finite and not all(map(bool, finite or map(self._finite, made))):
                return None
            pairs = zip(made, program.shared, strict=True)
            made = [_copy(value) if shared else value for value, shared in pairs]
        program.runs += 1
        return list(made)

    def _has_lost(self) -> bool:
        """Return whether the backend has taken too long for the graphs so far."""
        if self.numpy_seconds is None:
            return False
        took = self.outcome.transfer_seconds + self.outcome.run_seconds
        return took > LOST * self.numpy_seconds + LOST_SECONDS

    def _unready(self, program: Program, tape: Tape) -> bool:
        """Return whether NumPy must run an uncompiled graph; `settled` then says why."""
        if not self.backend.compiles or program.compiled is not None:
            return False
        start = perf_counter()
        with part("compile", self.backend):
            found = self.programs.find(self.backend, program)
        if found:
            self.outcome.compile_seconds += perf_counter() - start
            return False
        if self.background is not None and (
            self.compiling or program.seen >= SEEN_BEFORE_COMPILING
        ):
            started = compile_in_background(
                self.background, self.programs, self.backend, program, tape.inputs
            )
            self.outcome.compilation = started
            if started is not None or self.background.is_busy:
                self.outcome.settled = COMPILING
                return True
        if self.outcome.compile_seconds > self.compile_seconds:
            self.outcome.settled = "it has too many graphs, or too large ones, to be compiled"
            return True
        if not self.compiling and program.seen < SEEN_BEFORE_COMPILING:
            self.outcome.settled = "its graph is new and not compiled yet"
            return True
        return False

    def _on_backend(
        self, program: Program, tape: Tape, modes: dict[str, str]
    ) -> tuple[list[Any], str]:
        """Return a program's outputs and why NumPy must settle them (empty if it need not)."""
        backend, outcome = self.backend, self.outcome
        start = perf_counter()
        with backend.scope():
            given = self._put(tape.inputs)
            there = perf_counter()
            outcome.transfer_seconds += there - start
            if not backend.on_host:
                moved_there = [one.nbytes for one in tape.inputs if type(one) is np.ndarray]
                outcome.put_bytes += sum(moved_there)
            fresh = backend.compiles and (program.compiled is None or program.is_untried)
            check_finite = not self.relaxed and _warns(modes) and _is_check_due(program)
            program.checks_finite = check_finite and not backend.compiles
            program.modes = modes
            if fresh or (self.comparing and not program.runs):  # untypical run
                with part("compile", backend):
                    call = self._callable(program, given)
                    if self.timing:
                        backend.wait(call(*given)[0])
                there, start = perf_counter(), there
                outcome.compile_seconds += there - start
            with run(backend, program, tape.lines) as running:
                values, fired, finite = running.call(self._callable(program, given), given)
                settled = _fired(fired)
                backend.wait(values)
                if not settled and check_finite:
                    # NumPy checks faster than a compiled program that reduces to one value.
                    settled = self._suspicion(given, values, finite or map(self._finite, values))
                if settled in ("", WARNED):
                    values = [
                        _copy(value) if shared else value
                        for value, shared in zip(values, program.shared, strict=True)
                    ]
        program.runs += 1
        program.is_untried = False
        took = perf_counter() - there
        outcome.run_seconds += took
        if self.comparing and not settled and self._is_doubtful(took):
            outcome.run_seconds -= max(0.0, took - self._time_rerun(program, given))
        if trace.enabled:
            trace.count("runs of recorded calls")
        return values, settled

    def _is_doubtful(self, took: float) -> bool:
        """Return whether a run was neither clearly faster than NumPy nor so slow that it lost."""
        known = self.numpy_seconds
        return known is not None and took > DOUBTFUL * known and not self._has_lost()

    def _time_rerun(self, program: Program, given: list[Any]) -> float:
        """Return the seconds of another run of a program that has just run."""
        backend = self.backend
        start = perf_counter()
        with backend.scope():
            backend.wait(self._callable(program, given)(*given)[0])
        return perf_counter() - start

    def _put(self, inputs: list[Any]) -> list[Any]:
        """Return the inputs, with arrays moved to the device."""
        backend = self.backend
        with part("put", backend) as span:
            given = [backend.put(one) if type(one) is np.ndarray else one for one in inputs]
            moved(span, backend, inputs)
        return given

    def _callable(self, program: Program, given: Sequence[Any]) -> Any:
        if not self.backend.compiles:
            return program
        if program.compiled is None:
            program.compiled = self.programs.compile(self.backend, program, given)
        return program.compiled

    def _finite(self, value: Any) -> bool:
        return not is_inexact(value) or bool(np.isfinite(self.backend.get(value)).all())

    def _suspicion(self, given: list[Any], values: list[Any], finite: Iterable[Any]) -> str:
        """Return why NumPy may warn: a result has NaN or infinity that no input has; else ''.

        The results are right; NumPy computes them again only to issue the warning.
        """
        if all(map(bool, finite)):
            return ""
        inputs = [self.get(value) for value in given if is_inexact(value)]
        made = [self.get(value) for value in values if is_inexact(value)]
        for test in (np.isnan, np.isinf):
            if any(test(x).any() for x in made) and not any(test(x).any() for x in inputs):
                return WARNED
        return ""

    def _does_numpy_warn(self, graph: Graph, tape: Tape, modes: dict[str, str]) -> bool:
        """Return whether NumPy warns: what looks like it may come from a constant of the graph."""
        told: list[str] = []
        asked = {kind: "ignore" if mode == "ignore" else "call" for kind, mode in modes.items()}
        asked["under"] = "ignore"
        with np.errstate(call=lambda kind, _: told.append(kind)):
            self._by_numpy(graph, tape, asked)
        return bool(told)

    def _settle_failure(
        self, graph: Graph, tape: Tape, modes: dict[str, str], trouble: Exception
    ) -> list[Any]:
        """Evaluate with NumPy a graph that failed on the backend."""
        outcome = self.outcome
        outcome.exhausted = self.backend.exhausted(trouble)
        outcome.died = isinstance(trouble, WorkerDied)
        reason = describe_error(trouble)
        if self.backend.lost(trouble):
            outcome.lost = reason
        # These would keep the arrays of the failed run alive.
        trouble.__traceback__ = trouble.__cause__ = trouble.__context__ = None
        if outcome.exhausted:
            published.pressed(self.backend.name, exhausted=1)
            release(self.backend)
        values = self._by_numpy(graph, tape, modes, reason)  # what NumPy raises is the result
        outcome.settled = reason
        if not (outcome.exhausted or outcome.lost):
            outcome.refused = reason
        _log.warning("%s fails where NumPy does not: %s", self.backend.name, reason)
        return values

    def _by_numpy(
        self, graph: Graph, tape: Tape, modes: dict[str, str], reason: str = ""
    ) -> list[Host]:
        start = perf_counter()
        with part("settle", self.backend) as span:
            span.note(reason=reason or "it is compared")
            began = thread_time()
            program = self.programs.of(self.reference, graph)
            planned = thread_time()
            given = [
                self.get(value) if is_array else value
                for is_array, value in zip(program.arrays, tape.inputs, strict=True)
            ]
            with np.errstate(**modes):  # type: ignore[arg-type]
                program.checks_finite = False
                values, _, _ = program(*given)
            if self.pace is not None:
                self.pace.done(planned - began, thread_time() - planned)
        self.outcome.settled_seconds += perf_counter() - start
        shared = [graph.entries[place][0].name in _VIEWS for place in graph.outputs]
        pairs = zip(values, shared, strict=True)
        return [np.array(value) if copied else np.asarray(value) for value, copied in pairs]

    def _compare_with_numpy(
        self, graph: Graph, tape: Tape, modes: dict[str, str], values: list[Any]
    ) -> list[Any]:
        """Return NumPy's values; refuse the backend if its own differ."""
        expected = self._by_numpy(graph, tape, modes)
        floor = least_scale(graph)
        for wanted, value in zip(expected, values, strict=True):
            host = as_dtype(self.get(value), wanted.dtype)
            start = perf_counter()
            difference = compare(wanted, host, floor)
            self.outcome.settled_seconds += perf_counter() - start
            if difference:
                self.outcome.refused = difference
                _log.warning("%s is no longer used: %s", self.backend.name, difference)
                return list(expected)
        self.outcome.compared = True
        return list(expected)


def least_scale(graph: Graph) -> float:
    """Return the least scale for errors of a graph's results, as a share of the largest value."""
    operations = [
        entry[0]
        for one in (graph, *(entry[2][0].graph for entry in graph.entries if entry[0] is REPEAT))
        for entry in one.entries
    ]
    if any(one.kind in CANCELLING_KINDS for one in operations):
        return CANCELLING
    return ADDING if any(one.name in ADDITIONS for one in operations) else ELEMENTWISE


def as_dtype(host: Host, dtype: Dtype) -> Host:
    """Return `host` with the identical dtype object: C has two 64-bit integer types."""
    if host.dtype is dtype or host.dtype != dtype:
        return host
    return host.view(dtype)


def _program(backend: Backend, graph: Graph) -> Program:
    if backend.threads:
        return BlockedProgram(graph, backend.lowering, backend.threads)
    return Program(graph, backend.lowering)


def _fired(fired: list[Any]) -> str:
    for one in fired:
        if one is not False and bool(one):
            return "values that the library treats differently from NumPy"
    return ""


def _warns(modes: Mapping[str, Any]) -> bool:
    return any(modes[kind] != "ignore" for kind in ("over", "divide", "invalid"))


def _is_check_due(program: Program) -> bool:
    return program.runs < CHECKED_RUNS or program.runs % CHECKED_EVERY == 0


def _copy(value: Any) -> Any:
    """Return a copy that shares memory with no other array."""
    return value.clone() if hasattr(value, "clone") else value.copy()


_VIEWS = frozenset("getitem transpose reshape broadcast_to real imag turn_output".split())
"""Operations of which NumPy's result may share memory with another array."""


def describe_error(error: BaseException) -> str:
    """Return a one-line description of an exception, at most 160 characters."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:160]
