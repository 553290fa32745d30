"""What one session knows about each function: its kinds of call, cached decisions and counts."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager
from functools import cached_property, partial
from threading import Lock
from types import BuiltinFunctionType, CodeType, FunctionType
from typing import TYPE_CHECKING, Any
from weakref import ref

from gpuforge import __version__, published
from gpuforge.dataclass import dataclass, field
from gpuforge.digest import digest
from gpuforge.runtime.function.key import generalize
from gpuforge.runtime.function.naming import name_of
from gpuforge.runtime.function.numbers import Numbers
from gpuforge.runtime.function.options import Options
from gpuforge.runtime.function.reading import read_operations
from gpuforge.runtime.function.signature import NO_ARRAY
from gpuforge.runtime.kept import Kept
from gpuforge.runtime.placement.account import DECIDING_SHARE
from gpuforge.runtime.placement.policy import FEW_SIGNATURES, NUMPY, Kind
from gpuforge.runtime.prelude import prelude
from gpuforge.runtime.short import SHORT_SECONDS, ShortCalls
from gpuforge.trace import Choice
from gpuforge.units import counted, format_seconds, significant

if TYPE_CHECKING:
    from gpuforge.runtime.evaluation.compilation import Compilation
    from gpuforge.runtime.evaluation.engine import Outcome
    from gpuforge.runtime.evaluation.replay import Replay
    from gpuforge.runtime.function.dependence import Dependence
    from gpuforge.runtime.function.signature import Signature
    from gpuforge.runtime.libraries import Library
    from gpuforge.runtime.threads.contention import BlasLimit

KEPT_WAITING = 8
KEPT_ENDED = 64
"""What counted short calls, and dropped decisions, that are still counted: another thread may be in
the middle of such a call."""
SWEEP_FUNCTIONS = 64
"""Records of deleted functions are swept when there are this many functions, and again each time
the number left has doubled."""
MAX_REPLAYS = 64
"""Replays that are kept for one kind of call; calls of other signatures are recorded."""
MAX_NEW_GRAPHS = 6
"""After this many recorded calls of a signature in a row, each with a new graph, no library that
compiles gets such calls."""
MANY = 32
LONG_SECONDS, WAIT_SECONDS = 1e-3, 0.01
"""Deciding about a signature takes some milliseconds in all. In a program of more than `MANY`
functions, calls of each further one run as written until one took longer than the first, or all
together longer than the second."""
LONGER, SHORT_AGAIN_SECONDS = 8, 200e-6
"""For a function that waits because deciding about it took too long: it had calls of more than
`FEW_SIGNATURES` (by then `Numbers` has told which numbers keep changing); it is decided about again
at a call of `LONGER` times its usual time; most calls shorter than the last are not inspected,
since that takes up to 6 us."""
MAX_KINDS = 256
"""Kinds of call beyond this number stay on NumPy: an argument probably changes with every call."""


@dataclass
class Count:
    """Calls on one backend, and their wall seconds, extrapolated from the timed ones."""

    calls: int = 0
    seconds: float = 0.0

    def add(self, calls: int, seconds: float) -> None:
        """Add `calls` calls of `seconds` each."""
        self.calls += calls
        self.seconds += calls * seconds


@dataclass
class Mapped:
    """What mapping a function over items took, and how it was batched.

    Attributes
    ----------
    items : number of items finished
    seconds : wall time of their calls
    waited_seconds : wall time spent waiting for an iterator to yield items
    sizes : batch size to number of batches; all other items were called one by one
    backends : backend to number of items computed in batches on it
    refused : kind of item to the reason why it is not batched
    """

    items: int = 0
    seconds: float = 0.0
    waited_seconds: float = 0.0
    sizes: dict[int, int] = field(default_factory=dict)
    backends: dict[str, int] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    @property
    def items_per_second(self) -> float | None:
        """The throughput; None before the first item."""
        return self.items / self.seconds if self.seconds else None

    @property
    def batched_items(self) -> int:
        """Number of items computed in batches."""
        return sum(size * times for size, times in self.sizes.items())

    def __str__(self) -> str:
        rate = f" ({significant(self.items_per_second)} a second)" if self.items_per_second else ""
        sizes = f"{min(self.sizes)} to {max(self.sizes)}" if self.sizes else ""
        batched = f", {self.batched_items:,} of them in batches of {sizes}" if sizes else ""
        return (
            f"mapped over {counted(self.items, 'item')} in {format_seconds(self.seconds)}{rate}"
            f"{batched}; waited {format_seconds(self.waited_seconds)} for items"
        )

    def add(self, size: int, backend: str) -> None:
        """Count one batch."""
        self.sizes[size] = self.sizes.get(size, 0) + 1
        self.backends[backend] = self.backends.get(backend, 0) + size
        published.batched()


class CachedDecision:
    """The backend chosen for one signature, cached (``held``) for its next `left` calls.

    Attributes
    ----------
    plain : whether most calls run as written without being inspected; `short` then counts them
    backend : where the calls run
    seconds : duration of the call at which it was decided
    is_timed : whether later calls as written are long enough to be timed
    timed : seconds of each later call that was timed
    counted : the value of `left` when calls were last counted
    call : makes a call on another backend than NumPy, or a traced one; None to call as written
    replay : makes the call without running the user's Python; None where that is not safe
    choice : what tracing records for the calls; None where tracing was off
    numpy_seconds : what NumPy would take for one call; 0 if unknown
    limit : limits NumPy's BLAS to one thread during the call; None for no limit
    lost_seconds : how much longer the call at which it was decided took than on the best known
        backend; None where no other backend is known
    moved_bytes : bytes that call moved to the backend and back
    short : the calls that bypass this decision; None where `plain` was never set
    """

    __slots__ = (
        "backend", "call", "choice", "counted", "is_timed", "kind", "left", "limit", "lost_seconds",
        "moved_bytes", "numpy_seconds", "plain", "replay", "seconds", "short", "timed",
    )  # fmt: skip

    def __init__(
        self,
        kind: KindRecord,
        backend: str,
        seconds: float,
        left: int,
        call: Any = None,
        limit: BlasLimit | None = None,
        replay: Replay | None = None,
    ) -> None:
        self.call = call
        self.replay = replay
        self.choice: Choice | None = None
        self.numpy_seconds = 0.0
        self.lost_seconds: float | None = None
        self.moved_bytes = (0, 0)
        self.limit = limit
        self.short: ShortCalls | None = None
        self.kind = kind
        self.backend = backend
        self.seconds = seconds
        self.is_timed = limit is not None or seconds >= SHORT_SECONDS
        self.plain = backend == NUMPY and not self.is_timed and call is None
        self.timed: list[float] = []
        self.left = self.counted = left

    def take_uncounted(self) -> int:
        """Return how many calls were made since the last call of this method."""
        left = self.left  # below 0 where several threads took the last call at once
        made, self.counted = self.counted - left, left
        return made + (self.short.take_skipped() if self.short else 0)

    def end(self) -> None:
        """Expire the decision; the current call is counted elsewhere."""
        self.counted -= self.left + 1
        self.left = 0


@dataclass
class KindRecord:
    """One kind of call of one function in one session.

    Attributes
    ----------
    digest : identifies the kind in the history
    stem : with what the `stable_text` of all its exact signatures begins
    signatures : exact signature to its digest
    transfers : (signature digest, backend) to measured transfer seconds
    moved_bytes : (signature digest, backend) to the bytes that a call moves there and back
    bytes_each : mean bytes of an array element
    unsaved : (signature digest, backend) to number of samples not yet in the history
    stays : why it runs only as written; empty if it can run elsewhere
    fallbacks : operations that NumPy computed in recorded calls: (name, reason) to (line, times)
    settled : reason why NumPy settled recorded calls to how often it did
    compiling : (signature digest, backend) to its compilation in the background
    compiled : (signature digest, backend) to number of graphs compiled
    replays : (signature digest, backend) to what makes such a call without the user's Python
    new_graphs : signature digest to number of recorded calls in a row with a graph not met before
    missed : (signature digest, backend) to number of decisions in a row at which the numbers of a
        call were others than those of its replay
    shares : (signature digest, backend) to the share of NumPy's time that it saves, if not open
    probing : library to load if recording the next call shows that it may gain
    probed : whether such a recording was made
    """

    digest: str
    text: str
    stem: str
    kind: Kind = field(default_factory=Kind)
    stays: str = ""
    bytes_each: float = 8.0
    signatures: dict[Hashable, str] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    transfers: dict[tuple[str, str], float] = field(default_factory=dict)
    moved_bytes: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    unsaved: dict[tuple[str, str], int] = field(default_factory=dict)
    fallbacks: dict[tuple[str, str], tuple[str, int]] = field(default_factory=dict)
    settled: dict[str, int] = field(default_factory=dict)
    compiling: dict[tuple[str, str], Compilation] = field(default_factory=dict)
    compiled: dict[tuple[str, str], int] = field(default_factory=dict)
    replays: dict[tuple[str, str], Replay] = field(default_factory=dict)
    new_graphs: dict[str, int] = field(default_factory=dict)
    missed: dict[tuple[str, str], int] = field(default_factory=dict)
    shares: dict[tuple[str, str], float] = field(default_factory=dict)
    probing: Library | None = None
    probed: bool = False

    def note_graphs(self, key: str, outcome: Outcome) -> None:
        """Note whether a recorded call had a graph that was not met before."""
        if outcome.programs or outcome.new_programs:
            new = self.new_graphs.get(key, 0)
            self.new_graphs[key] = new + 1 if outcome.new_programs else 0

    def note_replayed(self, key: str, backend: str) -> None:
        """Note that a call of a signature was replayed."""
        if self.missed or self.new_graphs:
            self.missed.pop((key, backend), None)
            self.new_graphs.pop(key, None)

    def varies(self, key: str) -> bool:
        """Return whether each call of a signature has another graph: a number in it changes."""
        return self.new_graphs.get(key, 0) >= MAX_NEW_GRAPHS

    def key(self, signature: Signature) -> str:
        """Return the digest of an exact signature of this kind."""
        found = self.signatures.get(signature.exact)
        if found is None:
            texts = [self.stem, *map(_form_text, signature.exact[len(signature.kind) :])]
            found = self.signatures[signature.exact] = digest(f"{','.join(texts)})")
            self.sizes[found] = signature.size
        return found


class FunctionRecord:
    """What one session knows about one offloaded function.

    Attributes
    ----------
    mapped : totals of mapping it over items
    batching : how its items are batched; None where it was never mapped
    numbers : the whole numbers it was called with
    deciding_seconds : what deciding took about calls that then ran on NumPy as written
    may_wait : whether its calls may run as written without a decision
    waits : whether they do so now, until they are long enough to be worth one
    """

    def __init__(
        self, function: Callable[..., Any], options: Options, owner: Callable[[], object]
    ) -> None:
        self.function = function
        self.owner = owner
        self.options = options
        self.name = name_of(function)
        self.kinds: dict[Hashable, KindRecord] = {}
        self.family: list[Kind] = []
        self.counts: dict[str, Count] = {}
        self.as_written: dict[str, int] = {}
        self.held: dict[Any, CachedDecision] = {}
        self.mapped = Mapped()
        self.batching: Any = None
        self.numbers = Numbers()
        self.deciding_seconds = 0.0
        self.may_wait = self.waits = False
        self._waiting: deque[ShortCalls] = deque(maxlen=KEPT_WAITING)
        self._aside: dict[tuple[Any, ...], ShortCalls] = {}
        self._waited_seconds = self._due_seconds = 0.0
        self._ended: deque[CachedDecision] = deque(maxlen=KEPT_ENDED)
        self._counting = Lock()
        self.stays = "" if options.pure else "pure=False: it is called directly"

    def __str__(self) -> str:
        lines = [f"{one}: {counted(count.calls, 'call')}, {format_seconds(count.seconds)}"
                 for one, count in list(self.counts.items())]  # fmt: skip
        lines += [str(self.mapped)] if self.mapped.items else []
        return "\n".join([self.name, *(f"  {line}" for line in lines)])

    @cached_property
    def digest(self) -> str:
        """Identifies the function in the history; changes with its code."""
        return digest(f"{self.name} {code_text(self.function)}")

    @cached_property
    def operations(self) -> frozenset[str]:
        """The names used in the function's code, from which its class of operations is inferred."""
        return read_operations(self.function)

    @cached_property
    def dependence(self) -> Dependence | None:
        """What the function depends on besides its arguments; None if that cannot be determined."""
        from gpuforge.runtime.function.dependence import dependence_of

        return dependence_of(self.function)

    @property
    def stays_key(self) -> str:
        """The history's key for the reason why the function stays on NumPy."""
        return f"stays:{__version__}:{self.digest}"

    @property
    def numbers_key(self) -> str:
        """The history's key for the arguments whose whole numbers keep changing."""
        return f"changing:{__version__}:{self.digest}"

    def count_held(self) -> None:
        """Count the calls made under cached decisions, at the mean time of the timed ones."""
        for held in (*self.held.copy().values(), *self._ended.copy()):
            self.count(held)
        known = self.counts.get(NUMPY)
        made = self._take_waiting()
        if made and known:
            self.add(NUMPY, made, known.seconds / known.calls)
        with self._counting:
            aside = sum(one.take_skipped() for one in self._aside.values())
        if aside:
            self.note_as_written(NO_ARRAY.reason, aside)

    @property
    def waits_again(self) -> bool:
        """Whether it waits because deciding about its calls took too long."""
        return self.waits and bool(self._due_seconds)

    @property
    def short_seconds(self) -> float:
        """Calls that wait are not all inspected if they take no longer than this."""
        return SHORT_AGAIN_SECONDS if self._due_seconds else SHORT_SECONDS

    @property
    def waiting(self) -> ShortCalls | None:
        """Most of the short calls that wait for a decision; they are not inspected."""
        return self._waiting[-1] if self._waiting else None

    def _take_waiting(self) -> int:
        with self._counting:
            return sum(one.take_skipped() for one in self._waiting)

    def count(self, held: CachedDecision) -> int:
        """Count the calls made under one cached decision since the last count; return how many."""
        with self._counting:
            made = held.take_uncounted()
        if made:
            times = held.timed.copy()
            seconds = sum(times) / len(times) if times else held.seconds
            self.add(held.backend, made, seconds)
            put, got = held.moved_bytes
            published.transferred(held.backend, 0.0, made * put, made * got)
            lost = held.lost_seconds
            if lost is not None:
                lost = max(0.0, lost + seconds - held.seconds) if lost else 0.0
                published.compared(held.backend, made, made * lost)
        return made

    def add(self, backend: str, calls: int, seconds: float) -> None:
        """Count calls of `seconds` each."""
        with self._counting:
            known = self.counts.get(backend) or self.counts.setdefault(backend, Count())
            known.add(calls, seconds)
        published.count(backend, calls, seconds)

    def wait(self, seconds: float) -> float:
        """Count a call that ran as written without a decision; end this if calls are long.

        The calls before it that were not inspected count like it; return the seconds of all.
        """
        calls = 1 + self._take_waiting()
        self.add(NUMPY, calls, seconds)
        self._waited_seconds += calls * seconds  # threads may lose a call's: it is a threshold
        long, most = LONG_SECONDS, WAIT_SECONDS
        if self._due_seconds:
            known = self.counts[NUMPY]
            long, most = max(long, LONGER * known.seconds / known.calls), self._due_seconds
        if seconds > long or self._waited_seconds > most:
            self.waits = False
        return calls * seconds

    def note_decision(self, seconds: float, *, too_long: bool) -> None:
        """Note what deciding took about a call that then ran on NumPy as written.

        If that is `too_long` in this session, and the shapes of calls change all the time, so that
        each is decided about again, calls run as written until the time of this function's calls is
        worth its decisions.
        """
        self.deciding_seconds += seconds
        if not (too_long and self.may_wait and list(self.counts) == [NUMPY]):
            return
        if sum(len(kind.sizes) for kind in self.kinds.values()) > FEW_SIGNATURES:
            self.count_held()
            due = max(0.0, self.deciding_seconds / DECIDING_SHARE - self.counts[NUMPY].seconds)
            self.waits, self._waited_seconds, self._due_seconds = due > 0, 0.0, due

    def leave_uninspected(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Leave most calls that wait uninspected: those of the first such call's key.

        Of a function that waits because of its changing shapes, those of similar sizes.
        """
        with self._counting:  # else a thread could count calls with what another replaces
            alike = not self._due_seconds
            if self.waiting is None or not (alike or self.waiting.fits(args, kwargs)):
                given = generalize(args, kwargs, self.numbers.changing)
                self._waiting.append(ShortCalls(*given, alike=alike))
        owner: Any = self.owner()
        if owner is not None:
            owner._short = self.waiting

    def note_as_written(self, reason: str, calls: int = 1) -> None:
        """Count calls that cannot be placed."""
        with self._counting:
            self.as_written[reason] = self.as_written.get(reason, 0) + calls

    def leave_aside(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Leave most calls without an array uninspected: those with arguments of these types."""
        types = (len(args), *kwargs, *map(type, args), *map(type, kwargs.values()))
        with self._counting:
            found = self._aside.get(types)
            if found is None and len(self._aside) < KEPT_WAITING:
                found = self._aside[types] = ShortCalls(args, kwargs, alike=False)
        owner: Any = self.owner()
        if owner is not None:
            owner._short = found

    def end_waiting(self) -> None:
        """Have all calls decided about from now on."""
        self.waits = False
        if self._waiting:
            self.inspect_waiting()

    def inspect_waiting(self) -> None:
        """Inspect the next call that waits or has no array, however short the previous one was."""
        owner: Any = self.owner()
        if owner is not None and owner._short in (self.waiting, *self._aside.copy().values()):
            owner._short = None

    def hold(self, key: Any, held: CachedDecision) -> None:
        """Cache a decision for the next calls of a key, replacing any previous one."""
        with self._counting:  # else a decision that another caches meanwhile is never counted
            before = self.held.get(key)
            self.held[key] = held
        if before is not None:
            self.end(before)

    def end(self, held: CachedDecision) -> int:
        """Count the calls of a dropped decision; another thread may still be making one."""
        owner: Any = self.owner()
        if held.short is not None and owner is not None and owner._short is held.short:
            owner._short = None
        self._ended.append(held)
        made = self.count(held)
        held.timed = []  # up to 2,000 samples for each of the decisions in `_ended`
        return made

    def take_counts(self, other: FunctionRecord) -> None:
        """Add the counts of another function with the same name."""
        for name, count in other.counts.items():
            mine = self.counts.setdefault(name, Count())
            mine.calls += count.calls
            mine.seconds += count.seconds
        for reason, calls in other.as_written.items():
            self.as_written[reason] = self.as_written.get(reason, 0) + calls

    def drop_decisions(self) -> None:
        """Drop the cached decisions: the next call of each signature is decided anew."""
        for key in list(self.held):
            held = self.held.pop(key, None)
            if held is not None:
                self.end(held)
        self.inspect_waiting()

    def fork(self) -> None:
        """Continue in a forked child: a fresh lock, no cached decisions."""
        self._counting = Lock()
        self.drop_decisions()


class Functions(dict[int, FunctionRecord]):
    """The records of one session's offloaded functions, by the ``id`` of their owner.

    The counts of deleted functions are kept under their name.

    Parameters
    ----------
    kept
        The history's constants, among them why functions stay on NumPy.
    lock
        The session's lock, held while a record is added.
    tell_apart
        Whether each whole number is a signature of its own, whatever earlier processes found.
    may_wait
        Whether the short calls of functions beyond the first `MANY` may wait for a decision.
    """

    def __init__(
        self, kept: Kept, lock: AbstractContextManager[object], *, tell_apart: bool = False,
        may_wait: bool = False,
    ) -> None:  # fmt: skip
        self._kept, self._lock, self._tell_apart = kept, lock, tell_apart
        self._may_wait = may_wait
        self._retired: dict[str, FunctionRecord] = {}
        self._sweep_at = SWEEP_FUNCTIONS

    def of(self, owner: object, function: Any, options: Options) -> FunctionRecord:
        """Return the record of an offloaded function, creating it if needed."""
        found = self.get(id(owner))
        if found is not None and found.owner() is owner:
            return found
        with self._lock:
            found = self.get(id(owner))  # another thread may have made it meanwhile
            if found is not None and found.owner() is owner:
                return found
            if found is not None:
                self._retire(self.pop(id(owner)))
            if len(self) >= self._sweep_at:
                self._sweep()
            made = self[id(owner)] = FunctionRecord(function, options, ref(owner))
            made.may_wait = self._may_wait and not (options.backend or options.isolate)
            made.waits = made.may_wait and self._waits(made)
            if self._kept.has("stays:"):
                made.stays = made.stays or str(self._kept.constant(made.stays_key) or "")
            if not self._tell_apart and self._kept.has("changing:"):
                made.numbers.recall(str(self._kept.constant(made.numbers_key) or ""))
            calls, seconds = prelude.taken(owner)
            if calls:
                made.add(NUMPY, calls, seconds / calls)
            return made

    def _waits(self, function: FunctionRecord) -> bool:
        """Return whether a new function waits: not if it is among the first or was measured."""
        if len(self) <= MANY:
            return False
        measured = self._kept.measured
        return not measured or function.digest not in measured

    def _sweep(self) -> None:
        """Retire the records of deleted functions."""
        gone = [key for key, record in self.items() if record.owner() is None]
        for key in gone:
            self._retire(self.pop(key))
        self._sweep_at = 2 * len(self) + SWEEP_FUNCTIONS

    def _retire(self, record: FunctionRecord) -> None:
        record.count_held()
        record.drop_decisions()
        kept = self._retired.setdefault(record.name, record)
        if kept is not record:
            kept.take_counts(record)
        record.batching = None
        record.kinds.clear()
        record.family.clear()

    def every(self) -> list[FunctionRecord]:
        """Return the records of all functions called in this session, deleted ones included."""
        with self._lock:
            return [*self.values(), *self._retired.values()]

    def drop_decisions(self) -> None:
        """Drop the cached decisions of all functions."""
        with self._lock:
            for function in self.values():
                function.drop_decisions()

    def fork(self, lock: AbstractContextManager[object]) -> None:
        """Continue in a forked child."""
        self._lock = lock
        for function in self.values():
            function.fork()


def code_text(function: Callable[..., Any]) -> str:
    """Return text that changes with a function's code and with nothing else."""
    while isinstance(function, partial):
        function = function.func
    code = getattr(function, "__code__", None)
    return _code_text(code) if isinstance(code, CodeType) else ""


def _code_text(code: CodeType) -> str:
    constants = [_code_text(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts]
    return f"{code.co_code.hex()} {code.co_names} {constants}"


def _form_text(one: Any) -> str:
    """Return the `stable_text` of a value, or faster of an array's shape and strides."""
    return repr(one).replace(" ", "").replace(",)", ")") if type(one) is tuple else stable_text(one)


def stable_text(value: Any) -> str:
    """Return text for a key that is the same in every process."""
    if isinstance(value, tuple):
        return f"({','.join(map(stable_text, value))})"
    if isinstance(value, type | FunctionType | BuiltinFunctionType):
        return f"{value.__module__}.{value.__qualname__}"
    if hasattr(type(value), "__dataclass_fields__"):
        return type(value).__qualname__
    return repr(value)
