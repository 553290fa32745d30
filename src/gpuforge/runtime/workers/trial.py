"""Try a library on a call in a compiler process, before the program imports it.

An import takes a second and holds the interpreter's lock for most of it, so a library that does not
gain should never be imported. A trial has three steps, at calls of one signature that the program
makes anyway: the library is opened in the process; a call's graphs are recorded and compiled there;
the next call's graphs are computed by NumPy, as ever, and there as well, which is timed. Only in
the third step does the program wait for the process: otherwise both would share the cores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf, prod
from operator import itemgetter
from time import monotonic
from typing import TYPE_CHECKING, Any

from gpuforge.errors import WorkerDied
from gpuforge.log import logger
from gpuforge.runtime.array.graph import INPUT, NUMBER, Graph, Tape
from gpuforge.runtime.evaluation.engine import (
    BackendEngine,
    Programs,
    as_dtype,
    describe_error,
    least_scale,
)
from gpuforge.runtime.evaluation.reference import compare
from gpuforge.runtime.workers.remote import LibraryFailed, RemoteBackend

if TYPE_CHECKING:
    from gpuforge.runtime.evaluation.engine import Host
    from gpuforge.runtime.evaluation.replay import Replay
    from gpuforge.runtime.libraries import Library
    from gpuforge.runtime.workers.compiler import Compiler, Compilers

_log = logger("trial")
OPENING_SECONDS, PREPARING_SECONDS = 60.0, 30.0
"""Time limits for opening the library, and for compiling the graphs of one call."""
STARVED, LEAST_OPENING_SECONDS = 10.0, 10.0
"""Opening takes so many times as long as expected, and so long at least, where others take all
cores: a process of the lowest priority hardly runs there, so the trial is given up."""
PATIENCE_SECONDS, PATIENCE_CALLS = 2.0, 4.0
"""A trial is given up if its signature is not called for so long, or for so many of its calls."""
ANSWER_SECONDS, ANSWER_CALLS = 1.0, 10.0
"""Time limit for a run in the process: the first, or so many times NumPy's time if that is more."""
BUSY = 0.6
"""Less processor time than this share of its wall time means that a run had to wait for a core."""
RUNS = 3
"""Runs of a graph, of which the shortest counts: the first may find threads asleep."""
HOPELESS, HOPELESS_SECONDS = 3.0, 10e-3
"""A library that took so many times NumPy's time, and so many seconds more, is not timed again."""
OPENING, OPEN, PREPARING, READY, FAILED = "opening", "open", "preparing", "ready", "failed"


class Trial:
    """One library tried on calls of one signature.

    Attributes
    ----------
    subject : what is called, compared by identity and by key
    numpy_seconds : NumPy's time for a call
    state : ``opening``, ``open`` (for the next call to be recorded), ``preparing``, ``ready`` (for
        the next call to be timed) or ``failed``
    backend, device : the device in the process, once open, and the name that it has in the program
    devices : the names of all devices there
    programs : the programs of its graphs
    expected_seconds : time of the recorded call's graphs over zeros, once ready; None if unknown
    replay : the recorded call, to be timed without recording another; None if there is none
    failure : why the library cannot be tried; empty if it can
    """

    def __init__(
        self, compilers: Compilers, library: Library, subject: object, key: str,
        numpy_seconds: float, allowed: Callable[[str], bool],
    ) -> None:  # fmt: skip
        self.library, self.subject, self.key = library, subject, key
        self.numpy_seconds = numpy_seconds
        self.state, self.failure = OPENING, ""
        self.backend: RemoteBackend | None = None
        self.device = ""
        self.devices: list[str] = []
        self.programs = Programs()
        self.expected_seconds: float | None = None
        self.replay: Replay | None = None
        self._compilers, self._allowed = compilers, allowed
        self._since = monotonic()

    def is_of(self, subject: object, key: str) -> bool:
        """Return whether it tries calls of this signature."""
        return self.subject is subject and self.key == key

    @property
    def is_over(self) -> bool:
        """Whether it ended, or waits for a call that does not come."""
        patience = max(PATIENCE_SECONDS, PATIENCE_CALLS * self.numpy_seconds)
        late = monotonic() - self._since > patience
        return self.state == FAILED or (self.waits and late)

    @property
    def waits(self) -> bool:
        """Whether its next step is due with the next call of its signature."""
        return self.state in (OPEN, READY)

    @property
    def is_ready(self) -> bool:
        """Whether the next call can be timed."""
        return self.state == READY

    def open(self) -> None:
        """Start the process and wait until the library is open there, in a background thread."""
        self._step(self._open, OPEN)

    def prepare(self, graphs: dict[Graph, list[Any]]) -> None:
        """Compile graphs for inputs like these, in a background thread."""
        self._step(lambda: self._prepare(graphs), READY)

    def stop(self) -> None:
        """End it, which tells nothing about the library."""
        self.state = FAILED

    def fail(self, why: str) -> None:
        """End it: the library cannot be tried in a process of its own."""
        if self.state != FAILED:
            self.state, self.failure = FAILED, why
            _log.info("%s cannot be tried in a separate process: %s", self.library.name, why)

    def _step(self, step: Callable[[], None], then: str) -> None:
        try:
            step()
        except Exception as error:  # noqa: BLE001 - the library is opened without a trial
            if self._compilers.is_interrupted(self.library.name):
                self.stop()
            self.fail(f"{type(error).__name__}: {error}")
            return
        self._since = monotonic()
        if self.state != FAILED:
            self.state = then

    def _process(self) -> Compiler:
        found = self._compilers.find(self.library.name)
        if found is None:
            raise OSError("its process cannot be started")
        return found

    def _open(self) -> None:
        import gpuforge.runtime.evaluation.recording  # noqa: F401 - so that no call waits for it

        self._compilers.begin(self.library.name)
        process = self._process()
        expected = self.library.price_seconds or OPENING_SECONDS
        limit = min(max(STARVED * expected, LEAST_OPENING_SECONDS), OPENING_SECONDS)
        if not process.opened(limit):
            self.fail(f"it is not open after {limit:.0f} s")
            return
        devices = process.devices or ()
        self.devices = [facts.name for facts in devices]
        for place, facts in enumerate(devices):
            if self._allowed(facts.name):
                process.answer_seconds = max(ANSWER_SECONDS, ANSWER_CALLS * self.numpy_seconds)
                self.backend, self.device = RemoteBackend(process, place, facts), facts.name
                return
        self.fail("it has no device that may be used")

    def _prepare(self, graphs: dict[Graph, list[Any]]) -> None:
        assert self.backend is not None
        request = ("prepare", self.backend.place, list(graphs.items()))
        process = self._process()
        self.expected_seconds = process.ask(request, (), itemgetter(0), PREPARING_SECONDS)

    @property
    def is_hopeless(self) -> bool:
        """Whether the library took so long over zeros that it need not be timed."""
        known = self.expected_seconds
        return known is not None and known > HOPELESS * self.numpy_seconds + HOPELESS_SECONDS


class Preparing(BackendEngine):
    """Evaluates a call on NumPy, divided into the graphs that another backend would get.

    Attributes
    ----------
    graphs : each graph, with the dtype and shape of its input arrays, and its input numbers
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.graphs: dict[Graph, list[Any]] = {}

    def run(self, tape: Tape, wanted: list[int], modes: dict[str, str]) -> list[Any]:
        """Return the wanted entries' values, computed by NumPy."""
        if self.pace is not None:
            self.pace.check(0.0)
        graph = Graph(tuple(tape.entries), tuple(wanted))
        entries = [entry for entry in graph.entries if entry[0] in (INPUT, NUMBER)]
        self.graphs[graph] = [
            params if operation is INPUT else value
            for (operation, _, params), value in zip(entries, tape.inputs, strict=True)
        ]
        self.latest = self.programs.of(self.reference, graph)
        self.outcome.programs += 1
        return self._by_numpy(graph, tape, modes)

    @property
    def nbytes(self) -> int:
        """Bytes of all input arrays."""
        return sum(map(_nbytes, self.graphs.values()))


def _nbytes(like: Iterable[Any]) -> int:
    arrays = [one for one in like if type(one) is tuple]
    return sum(dtype.itemsize * prod(shape) for dtype, shape in arrays)


class Timing(BackendEngine):
    """Evaluates a call on NumPy, and in another process to time and compare it.

    Attributes
    ----------
    trouble : what was raised instead of an answer; None if nothing was
    was_busy : whether a run had to wait for a core
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.trouble: Exception | None = None
        self.was_busy = False

    @property
    def failed_there(self) -> bool:
        """Whether the library raised something, rather than the channel to it."""
        return isinstance(self.trouble, LibraryFailed)

    def _settle_failure(
        self, graph: Graph, tape: Tape, modes: dict[str, str], trouble: Exception
    ) -> list[Any]:
        self.trouble = trouble
        return super()._settle_failure(graph, tape, modes, trouble)

    def _unready(self, program: Any, tape: Tape) -> bool:
        return False

    def replayed(self, replay: Replay, values: list[Any]) -> list[Host] | None:
        """Return what a replay computes from the arguments, timed; None if it cannot be compared.

        It is then the library that cannot run it: `outcome` says why.
        """
        try:
            for link in replay.links:
                given = [known if place is None else values[place] for place, known in link.given]
                program = self.programs.of(self.backend, link.program.graph)
                made, self.outcome.settled = self._timed(program, given)
                if self.outcome.settled:
                    return None
                values += made
                self.outcome.programs += 1
        except Exception as error:  # noqa: BLE001 - whatever the library raises
            self.trouble, self.outcome.refused = error, describe_error(error)
            self.outcome.died = isinstance(error, WorkerDied)
            return None
        return [self.get(values[place]) for place in replay.wanted]

    def compare(self, replay: Replay, wanted: list[Host], made: list[Host]) -> None:
        """Refuse the library if NumPy's values differ from what a replay computed."""
        floor = max(least_scale(link.program.graph) for link in replay.links)
        found = [compare(one, as_dtype(other, one.dtype), floor)
                 for one, other in zip(wanted, made, strict=False)]  # fmt: skip
        if len(wanted) != len(made):
            found.append("its results are of another form")
        self.outcome.refused = next(filter(None, found), "")
        self.outcome.compared = not self.outcome.refused

    def _on_backend(self, program: Any, tape: Tape, modes: dict[str, str]) -> tuple[list[Any], str]:
        return self._timed(program, tape.inputs)

    def _timed(self, program: Any, given: list[Any]) -> tuple[list[Any], str]:
        program.checks_finite = False
        shortest, cpu_seconds = inf, 0.0
        for _ in range(RUNS):
            values, fired, _ = program(*given)
            if fired:
                return values, "values that the library treats differently from NumPy"
            if program.seconds < shortest:
                shortest, cpu_seconds = program.seconds, program.cpu_seconds
            if self._is_clear(shortest):
                break
        self.was_busy = self.was_busy or cpu_seconds < BUSY * shortest
        self.outcome.run_seconds += shortest
        return values, ""

    def _is_clear(self, seconds: float) -> bool:
        """Return whether one more run would tell nothing: it is much slower, or much faster."""
        known = self.numpy_seconds
        return known is not None and not known / 4 < seconds < 2 * known
