"""What is known about mapping one function: whether and in which sizes to batch its items."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from gpuforge import __version__
from gpuforge.digest import digest
from gpuforge.log import logger
from gpuforge.runtime.array.rules import count
from gpuforge.runtime.executor.batch import Batch
from gpuforge.runtime.executor.ladder import Ladder
from gpuforge.runtime.executor.worth import gains_nothing
from gpuforge.runtime.function.dependence import Dependence, dependence_of
from gpuforge.runtime.function.key import hot_key
from gpuforge.runtime.function.options import Options
from gpuforge.runtime.function.signature import NUMERIC_KINDS
from gpuforge.runtime.placement.policy import NUMPY
from gpuforge.runtime.record import CachedDecision, FunctionRecord, Mapped, stable_text
from gpuforge.runtime.session import Session, current_session

_log = logger("map")
COMPARED = 4
"""Number of results of the first batch that are compared with single calls."""
TRY_AFTER_SECONDS = 1e-3
"""Batches are tried once single calls of a kind took this long, as preparation costs as much."""
MOST_AT_ONCE = 4096
WORKING_BYTES = 1 << 18
"""Size of the first batch: beyond a core's own cache, each step is slower."""
MOST_BYTES = 1 << 28


class Offloaded(Protocol):
    """A function with the options that it was offloaded with."""

    _function: Any
    _options: Options

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Make one call."""


class Plan:
    """What is known about one kind of item of one function.

    Attributes
    ----------
    refused : why its items are not batched; empty if they may be
    spent_seconds : total time of single calls in maps
    nbytes : bytes of an item's arrays
    """

    def __init__(self, batching: Batching, key: Any) -> None:
        self.batching, self.key = batching, key
        self.text = stable_text(tuple(str(p) if isinstance(p, np.dtype) else p for p in key))
        self.ladder = Ladder(1, 1)
        self.batch: Batch | None = None
        self.refused = batching.never or batching.record.stays
        self.spent_seconds = 0.0
        self.nbytes = sum(
            count(shape) * dtype.itemsize
            for dtype, shape in pairwise(key) if isinstance(dtype, np.dtype)
        )  # fmt: skip
        self.made = self.failed = 0
        session = batching.session
        self.name = f"map:{__version__}:{batching.record.digest}:{digest(self.text)}"
        kept = session.kept.constant(self.name)
        self.remembered = kept if isinstance(kept, int) else 0
        self.pinned = self._planned(session)

    def _planned(self, session: Session) -> int:
        """Return the batch size in the recorded plan; 0 if sizes are chosen by time."""
        if session.plan is None:
            return 0
        found = session.plan.backend(self.name)
        if found is None:
            found = f"batches of {max(1, self.remembered)}"
            session.plan.record(self.name, found)
        return int(found.rsplit(" ", 1)[-1])

    def size(self, available: int, fixed: int) -> int:
        """Return the size of the next batch; 1 for single calls."""
        if self.refused or available < 2:
            return 1
        if self.pinned:
            return self.pinned if available >= self.pinned else 1
        if self.batch is None:
            return self._first(available, fixed)
        return self.ladder.choose(available, fixed)

    def _first(self, available: int, fixed: int) -> int:
        if fixed:
            return min(fixed, available)
        each, session = self.ladder.each(1), self.batching.session
        if each is None or not session.policy.learn or available < COMPARED:
            return 1
        if self._is_large:
            return 1
        price = TRY_AFTER_SECONDS * (20 if self.remembered == 1 else 1)
        return min(available, 2 * COMPARED) if self.spent_seconds >= price else 1

    @property
    def _is_large(self) -> bool:
        """Whether batches gain nothing on NumPy, and NumPy is the only backend."""
        long = gains_nothing(self.ladder.each(1) or 0.0, self.nbytes)
        return long and not self.batching.session.backends()

    @property
    def is_settled(self) -> bool:
        """Whether it is settled that there will only be single calls."""
        if self.batch is None:
            return bool(self.refused) or self._is_large
        return self.ladder.best == 1

    def refuse(self, reason: str) -> None:
        """Stop batching items of this kind."""
        self.refused, self.batch = reason, None
        self.batching.mapped.refused[self.text] = reason
        _log.info("%s: items %s are called one by one: %s", self.batching.record.name, self.text,
                  reason)  # fmt: skip

    def ready(self, batch: Batch) -> None:
        """Set the batched form, after its first results agreed with single calls."""
        self.batch = batch
        limit = max(1, min(MOST_AT_ONCE, self._bytes() // batch.bytes_each))
        start = self.remembered or WORKING_BYTES // batch.live_bytes
        seconds = self.ladder.each(1)
        self.ladder = Ladder(max(1, start), limit)
        if seconds is not None:
            self.ladder.add(1, seconds)

    def _bytes(self) -> int:
        """Return the memory limit of a batch."""
        session = self.batching.session
        limit = session.settings.memory_limit or MOST_BYTES
        for backend in session.backends():
            memory = backend.memory()
            if memory is not None:
                limit = min(limit, memory.free_bytes // 2) if limit else memory.free_bytes // 2
        return limit

    def keep(self) -> None:
        """Store the best size for this process and later ones."""
        best = self.ladder.best
        if self.batch and best and best != self.remembered and not self.pinned:
            self.remembered = best
            self.batching.session.kept.keep(self.name, best)


class Batching:
    """What one session knows about mapping one function.

    Attributes
    ----------
    never : why its items are not batched; empty if they may be
    mapped : totals for `stats`
    """

    def __init__(self, session: Session, offloaded: Offloaded, record: FunctionRecord) -> None:
        self.session, self.record = session, record
        self.function = offloaded._function
        self.options = offloaded._options
        self.plans: dict[Any, Plan] = {}
        self.mapped = record.mapped = Mapped()
        numerics = self.options.numerics or session.settings.numerics
        self.dependence: Dependence | None = None
        self.never = ""
        if not session.settings.enabled:
            self.never = "GPUFORGE_ENABLED is off"
        elif not self.options.pure:
            self.never = "pure=False: it is called directly"
        elif numerics == "exact":
            self.never = "numerics='exact': a batch may differ from single calls in the last digits"
        else:
            self.look()

    def look(self) -> None:
        """Determine again what the function depends on."""
        self.dependence = dependence_of(self.function, arrays=True)
        if self.dependence is None:
            self.never = "it may depend on more than its arguments"

    @cached_property
    def runs(self) -> FunctionRecord:
        """The record of its batches, which are placed as calls of a separate function."""
        made = self.session.functions.of(self, self.function, self.options)
        made.name = f"{self.record.name} (map)"
        made.digest = digest(f"map {self.record.digest}")
        made.operations = self.record.operations
        return made

    def plan(self, key: Any) -> Plan:
        """Return the plan of a kind of item, a new one at first."""
        found = self.plans.get(key)
        if found is None:
            if len(self.plans) >= 256:
                self.plans.clear()
            found = self.plans[key] = Plan(self, key)
        return found

    def held(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[CachedDecision | None, bool]:
        """Return NumPy's cached decision for such calls, and whether any choice is cached."""
        found = self.record.held.get(hot_key(args, kwargs, self.record.numbers.changing))
        if found is None or found.left < 1:
            return None, False
        plain = found.backend == NUMPY and found.limit is None
        return (found if plain else None), True

    @property
    def single(self) -> bool:
        """Whether batching is off."""
        return bool(self.never or self.record.stays)


def batching_of(offloaded: Offloaded) -> Batching:
    """Return what the current session knows about mapping a function."""
    session = current_session()
    record = session.functions.of(offloaded, offloaded._function, offloaded._options)
    if record.batching is None:
        record.batching = Batching(session, offloaded, record)
    return record.batching  # type: ignore[no-any-return]


def key_of(values: Sequence[Any]) -> Any:
    """Return the key that determines the graph of a call; None if it cannot be batched."""
    key: list[Any] = []
    arrays = False
    for value in values:
        kind = type(value)
        if kind is np.ndarray:
            if value.dtype.kind not in NUMERIC_KINDS or not value.flags.c_contiguous:
                return None
            key += value.dtype, value.shape
            arrays = True
        elif kind in (int, bool, str, type(None)) or (kind is float and value and value == value):
            key += kind, value
        else:
            return None
    return tuple(key) if arrays else None
