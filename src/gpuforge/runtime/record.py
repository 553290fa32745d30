"""What one session knows of one function: its kinds of call, their programs, their counts."""

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
from gpuforge.runtime.function.naming import name_of
from gpuforge.runtime.function.options import Options
from gpuforge.runtime.function.reading import read_operations
from gpuforge.runtime.kept import Kept
from gpuforge.runtime.placement.policy import NUMPY, Kind
from gpuforge.runtime.prelude import prelude
from gpuforge.runtime.short import SHORT_SECONDS, Short
from gpuforge.trace import Choice

if TYPE_CHECKING:
    from gpuforge.runtime.evaluation.compilation import Compilation
    from gpuforge.runtime.evaluation.replay import Replay
    from gpuforge.runtime.function.dependence import Dependence
    from gpuforge.runtime.libraries import Library
    from gpuforge.runtime.threads.contention import BlasLimit

KEPT_ENDED = 64
"""Choices held no more that are still looked at when calls are counted: threads may lag behind."""
SWEEP_FUNCTIONS = 64
"""So many functions are looked through for those that are gone; then when they are twice as many as
were left."""
MAX_KINDS = 256
"""Beyond this many kinds of call, new ones stay on NumPy: an argument changes with every call."""


@dataclass
class Count:
    """Calls on one backend, and the wall seconds of the measured ones scaled to all of them."""

    calls: int = 0
    seconds: float = 0.0

    def add(self, calls: int, seconds: float) -> None:
        """Add `calls` calls of `seconds` each."""
        self.calls += calls
        self.seconds += calls * seconds


@dataclass
class Mapped:
    """What mapping a function over items took.

    Attributes
    ----------
    items : how many came to their end
    seconds : wall time of their calls
    waited_seconds : wall time in which an iterator of items was waited for
    sizes : items in a batch to how many batches there were; all other items were called singly
    backends : backend to the items of the batches that it computed
    refused : kind of item to why it is called singly
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
        """How many items came out of batches."""
        return sum(size * times for size, times in self.sizes.items())

    def add(self, size: int, backend: str) -> None:
        """Take in one batch."""
        self.sizes[size] = self.sizes.get(size, 0) + 1
        self.backends[backend] = self.backends.get(backend, 0) + size
        published.batched()


class Held:
    """A choice kept for the next `left` calls of one signature.

    Attributes
    ----------
    plain : most calls are made as written, unseen: they are short, and counted by `short`
    backend : where the calls run
    seconds : what the considered call before took
    timed : seconds of the calls made since, where they are long enough to be timed
    counted : the value of `left` when calls were last counted
    again : what makes a held call on another backend than NumPy
    replay : what makes it without the user's Python; None where that is not safe
    choice : what tracing is told of the calls; None where it was off
    numpy_seconds : what NumPy would take for one of the calls; 0 where that is not known
    limit : what limits NumPy's BLAS to one thread during the call; None for no limit
    lost_seconds : what the considered call before took more than on the best backend known; None
        where no other is known
    moved_bytes : what that call moved to the backend and back
    short : the calls that are made without looking at the choice; None where `plain` never was set
    """

    __slots__ = (
        "again", "backend", "choice", "counted", "kind", "left", "limit", "lost_seconds",
        "moved_bytes", "numpy_seconds", "plain", "replay", "seconds", "short", "timed",
    )  # fmt: skip

    def __init__(
        self,
        kind: KindRecord,
        backend: str,
        seconds: float,
        left: int,
        again: Any = None,
        limit: BlasLimit | None = None,
        replay: Replay | None = None,
    ) -> None:
        self.again = again
        self.replay = replay
        self.choice: Choice | None = None
        self.numpy_seconds = 0.0
        self.lost_seconds: float | None = None
        self.moved_bytes = (0, 0)
        self.limit = limit
        self.short: Short | None = None
        self.kind = kind
        self.backend = backend
        self.seconds = seconds
        short = backend == NUMPY and seconds < SHORT_SECONDS
        self.plain = short and limit is None and again is None
        self.timed: list[float] = []
        self.left = self.counted = left

    def take_uncounted(self) -> int:
        """Return how many calls were made since this was last asked."""
        left = self.left  # below 0 where several threads took the last one
        made, self.counted = self.counted - left, left
        return made + (self.short.take_unseen() if self.short else 0)

    def end(self) -> None:
        """Let no more calls be made; the one at hand is counted elsewhere."""
        self.counted -= self.left + 1
        self.left = 0


@dataclass
class KindRecord:
    """One kind of call of one function in one session.

    Attributes
    ----------
    digest : names the kind in the history
    signatures : exact signature to its digest
    transfers : (signature digest, backend) to measured transfer seconds
    moved_bytes : (signature digest, backend) to the bytes that a call moved there and back
    bytes_each : bytes of the arrays' elements, on average
    fresh : (signature digest, backend) to samples that the history does not have yet
    stays : why it runs as written only; empty when it can go elsewhere
    fallbacks : operations that NumPy did within recorded calls: (name, reason) to (line, times)
    settled : why NumPy settled recorded calls, and how often
    compiling : (signature digest, backend) to what is compiled for it beside the program
    compiled : (signature digest, backend) to how many graphs were
    sounding : the library to load if recording the next call shows that it can gain
    sounded : whether that was done
    """

    digest: str
    text: str
    kind: Kind = field(default_factory=Kind)
    stays: str = ""
    bytes_each: float = 8.0
    signatures: dict[Hashable, str] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    transfers: dict[tuple[str, str], float] = field(default_factory=dict)
    moved_bytes: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    fresh: dict[tuple[str, str], int] = field(default_factory=dict)
    fallbacks: dict[tuple[str, str], tuple[str, int]] = field(default_factory=dict)
    settled: dict[str, int] = field(default_factory=dict)
    compiling: dict[tuple[str, str], Compilation] = field(default_factory=dict)
    compiled: dict[tuple[str, str], int] = field(default_factory=dict)
    sounding: Library | None = None
    sounded: bool = False

    def signature(self, exact: Hashable, size: int) -> str:
        """Return the digest of an exact signature."""
        found = self.signatures.get(exact)
        if found is None:
            found = self.signatures[exact] = digest(stable_text(exact))
            self.sizes[found] = size
        return found


class FunctionRecord:
    """One offloaded function in one session.

    Attributes
    ----------
    mapped : what mapping it over items took
    batching : how its items are batched, where they were mapped
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
        self.held: dict[Any, Held] = {}
        self.mapped = Mapped()
        self.batching: Any = None
        self._ended: deque[Held] = deque(maxlen=KEPT_ENDED)
        self._counting = Lock()
        self.stays = "" if options.pure else "pure=False: it is called directly"

    @cached_property
    def digest(self) -> str:
        """Names the function in the history; another one for another code."""
        return digest(f"{self.name} {code_text(self.function)}")

    @cached_property
    def operations(self) -> frozenset[str]:
        """The names in the function's code, which tell its class of operations."""
        return read_operations(self.function)

    @cached_property
    def dependence(self) -> Dependence | None:
        """What the function depends on besides its arguments; None where that may vary."""
        from gpuforge.runtime.function.dependence import dependence_of

        return dependence_of(self.function)

    @property
    def stays_key(self) -> str:
        """The name under which the history keeps why the function stays on NumPy."""
        return f"stays:{__version__}:{self.digest}"

    def count_held(self) -> None:
        """Count the calls that were made on held choices, at what those timed of them took."""
        for held in (*self.held.copy().values(), *self._ended.copy()):
            self.count(held)

    def count(self, held: Held) -> int:
        """Count the calls made on one held choice since it was last counted; return how many."""
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
            self.counts.setdefault(backend, Count()).add(calls, seconds)
        published.count(backend, calls, seconds)

    def hold(self, key: Any, held: Held) -> None:
        """Keep a choice for the next calls of a key, in place of the one before."""
        with self._counting:  # or a choice that another thread keeps meanwhile is never counted
            before = self.held.get(key)
            self.held[key] = held
        if before is not None:
            self.end(before)

    def end(self, held: Held) -> int:
        """Count a choice that is held no more; another thread may still make a call on it."""
        owner: Any = self.owner()
        if held.short is not None and owner is not None and owner._short is held.short:
            owner._short = None
        self._ended.append(held)
        made = self.count(held)
        held.timed = []  # up to 2,000 each, of as many choices as are still looked at
        return made

    def take_counts(self, other: FunctionRecord) -> None:
        """Add the counts of another record of a function with this name."""
        for name, count in other.counts.items():
            mine = self.counts.setdefault(name, Count())
            mine.calls += count.calls
            mine.seconds += count.seconds
        for reason, calls in other.as_written.items():
            self.as_written[reason] = self.as_written.get(reason, 0) + calls

    def let_go(self) -> None:
        """Give up the held choices: the next call of each is considered anew."""
        for key in list(self.held):
            held = self.held.pop(key, None)
            if held is not None:
                self.end(held)

    def fork(self) -> None:
        """Go on in a forked child: a fresh lock, nothing held."""
        self._counting = Lock()
        self.let_go()


class Functions(dict[int, FunctionRecord]):
    """The offloaded functions of one session, by the ``id`` of their owner.

    Functions that are gone leave their counts under their name.

    Parameters
    ----------
    kept
        What the history keeps of why functions stay on NumPy.
    lock
        Of the session, held while one is added.
    """

    def __init__(self, kept: Kept, lock: AbstractContextManager[object]) -> None:
        self._kept, self._lock = kept, lock
        self._retired: dict[str, FunctionRecord] = {}
        self._sweep_at = SWEEP_FUNCTIONS

    def of(self, owner: object, function: Any, options: Options) -> FunctionRecord:
        """Return the record of an offloaded function, a new one at first."""
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
            if self._kept.has("stays:"):
                made.stays = made.stays or str(self._kept.constant(made.stays_key) or "")
            calls, seconds = prelude.taken(owner)
            if calls:
                made.add(NUMPY, calls, seconds / calls)
            return made

    def _sweep(self) -> None:
        """Retire the records of functions that are gone."""
        gone = [key for key, record in self.items() if record.owner() is None]
        for key in gone:
            self._retire(self.pop(key))
        self._sweep_at = 2 * len(self) + SWEEP_FUNCTIONS

    def _retire(self, record: FunctionRecord) -> None:
        record.let_go()
        kept = self._retired.setdefault(record.name, record)
        if kept is not record:
            kept.take_counts(record)
        record.batching = None
        record.kinds.clear()
        record.family.clear()

    def every(self) -> list[FunctionRecord]:
        """Return the records of all functions called in this session, those that are gone too."""
        with self._lock:
            return [*self.values(), *self._retired.values()]

    def let_go(self) -> None:
        """Give up the held choices of all functions."""
        with self._lock:
            for function in self.values():
                function.let_go()

    def fork(self, lock: AbstractContextManager[object]) -> None:
        """Go on in a forked child."""
        self._lock = lock
        for function in self.values():
            function.fork()


def code_text(function: Callable[..., Any]) -> str:
    """Return a text that changes with the code of a function, and with nothing else."""
    while isinstance(function, partial):
        function = function.func
    code = getattr(function, "__code__", None)
    return _code_text(code) if isinstance(code, CodeType) else ""


def _code_text(code: CodeType) -> str:
    constants = [_code_text(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts]
    return f"{code.co_code.hex()} {code.co_names} {constants}"


def stable_text(value: Any) -> str:
    """Return a text for a key that is the same in every process."""
    if isinstance(value, tuple):
        return f"({','.join(map(stable_text, value))})"
    if isinstance(value, type | FunctionType | BuiltinFunctionType):
        return f"{value.__module__}.{value.__qualname__}"
    if hasattr(type(value), "__dataclass_fields__"):
        return type(value).__qualname__
    return repr(value)
