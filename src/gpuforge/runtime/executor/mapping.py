"""``f.map(items)``: one function over many items, ordered or not, lazily over iterators.

The modules that place and batch calls are imported once a program has run long enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuforge.errors import InvalidSettings, TaskTimeout, UnknownName, WorkloadError
from gpuforge.runtime.context import cluster, current
from gpuforge.runtime.executor import termination
from gpuforge.runtime.executor.progress import Progress, say_ended
from gpuforge.runtime.executor.worth import gains_nothing
from gpuforge.runtime.function.naming import name_of
from gpuforge.runtime.function.options import MapOptions
from gpuforge.runtime.prelude import LONG_SECONDS as COUNTED_SECONDS
from gpuforge.runtime.prelude import prelude
from gpuforge.runtime.short import FEW
from gpuforge.units import format_seconds

if TYPE_CHECKING:
    from gpuforge.runtime.executor.chunk import Chunk, Group
    from gpuforge.runtime.executor.plan import Batching, Plan

SEVERAL, SEVERAL_SECONDS = 256, 0.2
"""If batches gain nothing, up to this many items, for this long, are called without checks."""
FEW_AHEAD, AHEAD_SECONDS = 16, 1e-3
"""Limits for reading an iterator ahead where its items are called one by one."""
_OF_CLUSTERS = ("timeout", "on_error")
_OPTIONS = {*MapOptions.__annotations__, "spread", "alone"}
Call = Callable[..., Any]
_ndarray = np.ndarray


class Mapping:
    """One map in progress.

    Parameters
    ----------
    offloaded
        The function; `call` calls it, for instance as a bound method.
    spread
        Whether each item holds all arguments of a call, instead of being the only one.
    alone
        Whether to call every item on its own, without batches.
    """

    def __init__(
        self, offloaded: Any, call: Call, *, spread: bool = False, alone: bool = False,
        batch: Any = "auto", max_batch: int | None = None, timeout: float | None = None,
        on_error: str = "raise", ordered: bool = True,
    ) -> None:  # fmt: skip
        _check(batch, max_batch, timeout, on_error, ordered)
        self._offloaded, self._call, self._spread, self._alone = offloaded, call, spread, alone
        self._fixed = 0 if batch == "auto" else batch
        self._most = max_batch or 0
        self._timeout = timeout
        self._raises, self._ordered = on_error == "raise", ordered
        self._ends = None if timeout is None else perf_counter() + min(timeout, 1e9)
        options = offloaded._options
        if timeout is not None and options.isolate and not options.pure and call is offloaded:
            self._call, self._most = self._isolated, 1  # a later call must not take results along
        self._done = 0
        self._total: int | None = None
        self._waited = 0.0
        self.name = f"{name_of(offloaded._function)}.map"

    def over(self, items: Any) -> Any:
        """Return the results: a list if the items have a length, else an iterator."""
        check_items(self.name, items)
        if not hasattr(items, "__len__"):
            each = map(tuple, items) if self._spread else iter(items)
            found = self._watched(self._of_iterator(each))
            return self._one_by_one(found) if self._ordered else self._pairs(found)
        known = items if isinstance(items, list | tuple | np.ndarray) else list(items)
        if self._spread:  # an item may be an iterator, which gives its arguments only once
            known = [tuple(item) for item in known]
        self._total = len(known)
        chunks = self._watched(self._of_sequence(known))
        return self._listed(chunks) if self._ordered else self._pairs(chunks)

    # -- what becomes of results -------------------------------------------------------------------

    def _listed(self, chunks: Iterator[Chunk]) -> list[Any]:
        assert self._total is not None
        results: list[Any] = [None] * self._total
        finished: list[Sequence[int]] = []
        try:
            for chunk in chunks:
                self._raise_first(chunk)
                places = chunk.places
                finished.append(places)
                if type(places) is range:
                    results[places.start : places.stop] = chunk.values
                else:
                    for place, value in zip(places, chunk.values, strict=True):
                        results[place] = value
        except TaskTimeout as late:
            late.done = [(place, results[place]) for places in finished for place in places]
            raise
        return results

    def _one_by_one(self, chunks: Iterator[Chunk]) -> Iterator[Any]:
        for chunk in chunks:
            for at, value in enumerate(chunk.values):
                if at in chunk.errors and self._raises:
                    raise _with_item(chunk.errors[at], chunk.places[at])
                yield value

    def _pairs(self, chunks: Iterator[Chunk]) -> Iterator[tuple[int, Any]]:
        for chunk in chunks:
            self._raise_first(chunk)
            yield from zip(chunk.places, chunk.values, strict=True)

    def _raise_first(self, chunk: Chunk) -> None:
        if chunk.errors and self._raises:
            at = min(chunk.errors, key=lambda at: chunk.places[at])
            raise _with_item(chunk.errors[at], chunk.places[at])

    def _watched(self, chunks: Iterator[Chunk]) -> Iterator[Chunk]:
        """Count finished items, show progress, and report it if interrupted."""
        progress = Progress(self.name, self._total)

        def tell_terminated() -> None:
            progress.close()
            say_ended(self.name, self._done, self._total, "terminated")

        termination.begin(self, tell_terminated)
        try:
            for chunk in chunks:
                self._done += len(chunk.values)
                progress.update(self._done)
                yield chunk
        except KeyboardInterrupt:
            progress.close()
            say_ended(self.name, self._done, self._total)
            raise
        finally:
            termination.end(self)
            progress.close()

    def _isolated(self, *args: Any, **kwargs: Any) -> Any:
        """Make a call in a worker process, which is killed when the time is up."""
        from gpuforge.runtime.workers.functions import call_isolated

        assert self._ends is not None
        left = max(self._ends - perf_counter(), 0.0)
        try:
            return call_isolated(self._offloaded._function, args, kwargs, timeout=left)
        except TaskTimeout:
            self._check_time()
            raise

    def _check_time(self) -> None:
        if self._ends is not None and perf_counter() >= self._ends:
            assert self._timeout is not None
            of = f" of {self._total}" if self._total is not None else ""
            told = self._total is not None and self._ordered
            raise TaskTimeout(
                f"{self.name} took longer than {format_seconds(self._timeout)}:"
                f" {self._done}{of} items finished",
                hint="raise the timeout"
                + "; the error's attribute 'done' has the finished results" * told,
            )

    # -- how the items are called ------------------------------------------------------------------

    def _of_sequence(self, items: Any) -> Iterator[Chunk]:
        at = 0
        while at < len(items) and self._is_short():
            chunk = self._before(items, at)
            at += len(chunk.values)
            yield chunk
        if at < len(items):
            yield from self._batched(items, at)

    def _is_short(self) -> bool:
        """Return whether the program is still in its prelude, where calls run as written."""
        placed = current.get() is not None or self._call == self._isolated
        return not placed and prelude.lasts(self._offloaded._options.backend)

    def _before(self, items: Any, at: int) -> Chunk:
        """Call the next items one by one during the prelude."""
        from gpuforge.runtime.executor.chunk import CHUNK_SECONDS, Chunk

        self._check_time()
        group = self._group(items, range(len(items)))
        values: list[Any] = []
        errors: dict[int, Exception] = {}
        start = now = perf_counter()
        while now < start + CHUNK_SECONDS and at + len(values) < len(items):
            more, wrong = group.singly(at + len(values), 1)
            errors.update({len(values): error for error in wrong.values()})
            values += more
            now = perf_counter()
        if now - start < COUNTED_SECONDS * len(values):  # longer ones are counted as calls
            prelude.spend(now - start)
        return Chunk(range(at, at + len(values)), values, errors)

    def _batched(self, items: Any, at: int) -> Iterator[Chunk]:
        from gpuforge.runtime.executor.together import in_chunks

        batching = _batching(self._offloaded)
        for plan, group in self._groups(batching, items, at, at):
            yield from in_chunks(
                batching, plan, group, self._fixed, self._most, self._check_time, self._ends
            )  # fmt: skip
            if plan is not None:
                plan.keep()

    def _groups(
        self, batching: Batching, items: Any, at: int, first: int
    ) -> Iterator[tuple[Plan | None, Group]]:
        """Yield the items from `at` on in groups of one kind; their indices start at `first`."""
        from gpuforge.runtime.executor.plan import key_of
        from gpuforge.runtime.executor.together import columns_of, grouped

        rest = items[at:] if at else items
        places = range(first, first + len(rest))
        if not self._spread and not self._alone and _are_alike(rest):
            key = key_of((rest[0],))
            yield None if key is None else batching.plan(key), self._group(rest, places, [rest])
        elif batching.single or self._alone:  # in their given order
            yield None, self._group(rest, places)
        else:
            rows = rest if self._spread else [(item,) for item in rest]
            for plan, chosen in grouped(batching, rows):
                columns = columns_of([rows[place] for place in chosen])
                mine = [rest[place] for place in chosen]
                yield plan, self._group(mine, [first + place for place in chosen], columns)

    def _group(self, items: Any, places: Sequence[int], columns: Any = ()) -> Group:
        from gpuforge.runtime.executor.chunk import Group

        given = [(item, {}) for item in items] if self._spread else items
        return Group(self._call, places, given, self._spread, columns)

    def _of_iterator(self, iterator: Iterator[Any]) -> Iterator[Chunk]:
        """Read as many items from an iterator as the next batch needs, and call them."""
        at = 0
        while True:
            self._check_time()
            start = perf_counter()
            try:
                window = [next(iterator)]
            except StopIteration:
                return
            if self._is_short():
                chunk = self._before(window, 0)
                chunk.places = range(at, at + 1)
                yield chunk
                at += 1
                continue
            ahead = self._look_ahead(window[0])
            trouble: BaseException | None = None
            if ahead > 1:
                try:
                    window.extend(islice(iterator, ahead - 1))
                except Exception as error:  # noqa: BLE001 - raised at its place, below
                    trouble = error
            _batching(self._offloaded).mapped.waited_seconds += perf_counter() - start
            yield from self._in_window(window, at)
            at += len(window)
            if trouble is not None:
                raise trouble

    def _look_ahead(self, item: Any) -> int:
        """Return how many items to read together, including `item`."""
        from gpuforge.runtime.executor.chunk import UNENDING
        from gpuforge.runtime.executor.plan import key_of

        batching = _batching(self._offloaded)
        if batching.single or self._alone:
            return 1
        key = key_of(item if self._spread else (item,))
        if key is None:
            return 1
        plan, most = batching.plan(key), self._most or UNENDING
        size = plan.size(most, self._fixed)
        if size > 1 or self._fixed or not plan.is_settled:
            return size
        return max(1, min(FEW_AHEAD, most, int(AHEAD_SECONDS / (plan.ladder.each(1) or 1.0))))

    def _in_window(self, window: list[Any], first: int) -> Iterator[Chunk]:
        """Call the items of a window; sort the results if `ordered` is set."""
        from gpuforge.runtime.executor.chunk import Chunk
        from gpuforge.runtime.executor.together import in_chunks

        batching = _batching(self._offloaded)
        groups = self._groups(batching, window, 0, first)
        chunks = (
            chunk
            for plan, group in groups
            for chunk in in_chunks(batching, plan, group, self._fixed, self._most,
                                   self._check_time, self._ends)
        )  # fmt: skip
        if not self._ordered:
            yield from chunks
            return
        found = list(chunks)
        if len(found) == 1:
            yield found[0]
            return
        values = {place: value for one in found
                  for place, value in zip(one.places, one.values, strict=True)}  # fmt: skip
        errors = {one.places[at] - first: error for one in found for at, error in
                  one.errors.items()}  # fmt: skip
        places = range(first, first + len(window))
        yield Chunk(places, [values[place] for place in places], errors)


def _batching(offloaded: Any) -> Batching:
    from gpuforge.runtime.executor.plan import batching_of

    return batching_of(offloaded)


def map_items(offloaded: Any, call: Any, items: Any, **options: Any) -> Any:
    """Map a function over items; the options are those of `Mapping`."""
    workers = cluster.get()
    if workers is not None:
        return _on_cluster(workers, call, items, **options)
    if type(items) is list and 0 < len(items) <= SEVERAL and not options:
        held = _held(offloaded, items[0], len(items)) if call is offloaded else None
        if len(items) < FEW or (held is not None and _stays_single(held, items[0])):
            return _few(offloaded, call, items, held)
    for name in options:
        if name not in _OPTIONS:
            raise UnknownName.among("option of map", name, sorted(MapOptions.__annotations__))
    return Mapping(offloaded, call, **options).over(items)


def _on_cluster(
    workers: Any, call: Any, items: Any, *, spread: bool = False, alone: bool = False,
    **options: Any,
) -> Any:  # fmt: skip
    """Map a function over items on the workers of the cluster that is active."""
    for name in options:
        if name not in _OF_CLUSTERS:
            raise InvalidSettings(
                f"{name}= does not hold inside 'with gpuforge.cluster(...)', which sends chunks",
                hint="remove it, or call map outside the block",
            )
    return workers.map(partial(_spread, call) if spread else call, items, **options)


def _spread(call: Any, item: Any) -> Any:
    return call(*item)


def _held(offloaded: Any, first: Any, number: int) -> Any:
    """Return NumPy's cached decision for that many calls over arrays like `first`, or None."""
    context, table, _ = offloaded._hot
    held = table.get((first.dtype, first.shape, first.strides)) if type(first) is _ndarray else None
    if held is None or held.left <= number or current.get() is not context:
        return None
    brief = number * held.seconds < SEVERAL_SECONDS
    return held if brief and held.call is None and held.limit is None else None


def _stays_single(held: Any, first: Any) -> bool:
    """Return whether batches of such calls gain nothing and NumPy is the only backend."""
    return gains_nothing(held.seconds, first.nbytes) and len(held.kind.kind.curves) == 1


def _few(offloaded: Any, call: Any, items: list[Any], held: Any) -> list[Any]:
    """Call a few items, under the first one's cached decision if all are of its kind."""
    function = offloaded._function if held is not None and _are_alike(items) else call
    results: list[Any] = []
    start = perf_counter()
    try:
        for item in items:
            results.append(function(item))  # noqa: PERF401 - how many there are is told
    except BaseException as error:
        tell_failed(offloaded, error, len(items) - len(results) - 1, len(items))
        raise
    finally:
        if function is not call:
            held.left -= len(results)
    seconds = perf_counter() - start
    if function is not call and not held.plain:
        held.timed.append(seconds / len(items))
    if len(items) >= FEW:
        mapped = _batching(offloaded).mapped
        mapped.items += len(items)
        mapped.seconds += seconds
    return results


def tell_failed(offloaded: Any, error: BaseException, left: int, number: int) -> None:
    """Add to an error at which of a few items the map failed, with `left` items remaining."""
    if isinstance(error, Exception):
        _with_item(error, number - left - 1)
    elif isinstance(error, KeyboardInterrupt):
        say_ended(f"{name_of(offloaded._function)}.map", number - left - 1, number)


def _with_item(error: Exception, place: int) -> Exception:
    error.add_note(f"gpuforge: raised for item {place} of a map")
    return error


def _are_alike(items: Any) -> bool:
    """Return whether all items are arrays of one dtype, shape and layout."""
    if type(items) is np.ndarray:
        return items.ndim > 1 and items.flags.c_contiguous
    first, array = items[0], _ndarray
    if type(first) is not array:
        return False
    dtype, shape, strides = first.dtype, first.shape, first.strides
    for one in items:
        if type(one) is not array or one.dtype is not dtype:
            return False
        if one.shape != shape or one.strides != strides:
            return False
    return True


def check_items(name: str, items: Any) -> None:
    """Raise WorkloadError unless the map of that name can go over `items`."""
    if isinstance(items, str | bytes) or not isinstance(items, Iterable):
        raise WorkloadError(
            f"{name} takes a sequence, array or iterator of items, not {type(items).__name__}",
            hint="put a single item in a list",
        )
    if isinstance(items, np.ndarray) and not items.ndim:
        raise WorkloadError(
            f"{name} maps over the first axis of an array; this one has no axes",
            hint="put it in a list",
        )


def _check(batch: Any, most: Any, timeout: Any, on_error: Any, ordered: Any) -> None:
    """Raise InvalidSettings unless the options are valid."""
    if batch != "auto" and not _is_count(batch):
        raise InvalidSettings(f"batch={batch!r} is neither 'auto' nor an integer of at least 1")
    if most is not None and not _is_count(most):
        raise InvalidSettings(f"max_batch={most!r} is neither None nor an integer of at least 1")
    is_time = isinstance(timeout, int | float) and type(timeout) is not bool and timeout >= 0
    if timeout is not None and not is_time:
        raise InvalidSettings(f"timeout={timeout!r} is not None or a number of seconds >= 0")
    if on_error not in ("raise", "return"):
        raise InvalidSettings(f"on_error={on_error!r} is neither 'raise' nor 'return'")
    if type(ordered) is not bool:
        raise InvalidSettings(f"ordered={ordered!r} is neither True nor False")


def _is_count(value: Any) -> bool:
    return isinstance(value, int | np.integer) and type(value) is not bool and bool(value >= 1)
