"""Make several calls of one function: in batches where that is faster, else one by one.

Calls are grouped by what determines their graph: dtypes and shapes of arrays, values of other
arguments. The first item of a kind is recorded, which runs its body; if the body is known to record
the same graph for all of them, batches of the others are evaluated without it. Batches are used
after their results were compared with single calls, and where they take less time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from gpuforge.runtime.array.unsupported import Unsupported
from gpuforge.runtime.evaluation.engine import least_scale
from gpuforge.runtime.evaluation.recording import StartAgain
from gpuforge.runtime.evaluation.reference import compare
from gpuforge.runtime.executor.batch import Batch
from gpuforge.runtime.executor.chunk import CHUNK_SECONDS, Chunk, Column, Group
from gpuforge.runtime.executor.item import record_item
from gpuforge.runtime.executor.plan import (
    COMPARED,
    MOST_AT_ONCE,
    Batching,
    Offloaded,
    Plan,
    batching_of,
    key_of,
)
from gpuforge.runtime.function.signature import overlapping, warnings_raise

RENEWING = 16
"""Without a cached decision for single calls, it is looked up again after this many."""
LOOKING = 16
"""Number of single calls between checks of the clock."""
TIRING_FAILURES = 8
ALONE = 4
"""A failed batch is halved until this few items are left, which are called one by one."""


@dataclass(frozen=True)
class Result:
    """The outcome of one call.

    Attributes
    ----------
    value : its return value; None if it raised
    error : its exception; None if it returned
    """

    value: Any = None
    error: BaseException | None = None


def modes_of_batches() -> dict[str, Any] | None:
    """Return the floating-point error modes of a batch: raise where NumPy would warn.

    None if the current modes are unusual: NumPy then computes each item.
    """
    modes = np.geterr()
    if any(mode not in ("warn", "ignore") for mode in modes.values()) or warnings_raise():
        return None
    return {kind: "raise" if mode == "warn" else mode for kind, mode in modes.items()}


def in_chunks(
    batching: Batching, plan: Plan | None, group: Group, fixed: int = 0, most: int = 0,
    before: Callable[[], None] | None = None, ends: float | None = None,
) -> Iterator[Chunk]:  # fmt: skip
    """Make the calls of a group, and yield their results chunk by chunk.

    `before` is called before each chunk. No single call starts after `ends`.
    """
    number, at, each = len(group.places), 0, 0.0
    while at < number:
        if before is not None:
            before()
        start = perf_counter()
        left = min(number - at, most) if most else number - at
        size = plan.size(left, fixed) if plan is not None else 1
        modes = modes_of_batches() if size > 1 else None
        if plan is not None and modes is not None:
            values, errors = together(plan, group, at, size, modes)
        else:
            long = plan is None or plan.is_settled
            seconds = CHUNK_SECONDS if long else CHUNK_SECONDS / 25
            size = max(1, min(left, MOST_AT_ONCE, int(seconds / each) if each else 1))
            values, errors = _timed(plan, group, at, size, ends)
            size = len(values)
            each = max((perf_counter() - start) / size, 1e-7)
        batching.mapped.items += size
        batching.mapped.seconds += perf_counter() - start
        yield Chunk(group.places[at : at + size], values, errors)
        at += size


def _timed(
    plan: Plan | None, group: Group, at: int, size: int, ends: float | None
) -> tuple[list[Any], dict[int, Exception]]:
    """Make single calls, under their cached decision if there is one, looked up only once."""
    held, telling = None, True
    if plan is not None and size > 1:
        held, telling = plan.batching.held(*group.arguments(at))
        size = min(size, RENEWING if held is None else held.left)
    function = plan.batching.function if plan is not None and held is not None else None
    start = perf_counter()
    step, until = (LOOKING, start + 2 * CHUNK_SECONDS) if ends is None else (1, ends)
    values, errors = group.singly(at, size, function, step=step, until=until)
    seconds = perf_counter() - start
    size = len(values)
    if held is not None:
        held.left -= size
        if not held.plain:
            held.timed.append(seconds / size)
    if plan is not None:
        if telling or plan.ladder.each(1) is None:
            plan.ladder.add(1, seconds / size)
        plan.spent_seconds += seconds
    return values, errors


def together(
    plan: Plan, group: Group, at: int, size: int, modes: dict[str, Any]
) -> tuple[list[Any], dict[int, Exception]]:
    """Make calls as a batch, preparing the batched form if needed."""
    batching = plan.batching
    dependence = batching.dependence
    assert dependence is not None
    if not dependence.holds():  # the function has changed
        batching.look()
        for each in batching.plans.values():
            each.batch = None
        return group.singly(at, size)
    if plan.batch is None:
        return _begin(plan, group, at, size, modes)
    return _halving(plan, plan.batch, group, at, size, modes)


def _halving(
    plan: Plan, batch: Batch, group: Group, at: int, size: int, modes: dict[str, Any]
) -> tuple[list[Any], dict[int, Exception]]:
    """Run a batch; if it fails, run its halves, until failing items are called one by one."""
    try:
        made = batch.run([column[at : at + size] for column in group.columns], size, modes)
    except Unsupported as why:
        plan.refuse(str(why))
        return group.singly(at, size)
    except Exception as error:  # noqa: BLE001 - the single calls raise what is the user's
        return _failed(plan, batch, group, at, size, modes, error)
    plan.made += 1
    plan.batching.mapped.add(size, made.where)
    plan.ladder.add(size, made.seconds / size, made.where)
    if made.exhausted:
        plan.ladder.exhausted(size)
    return made.results, {}


def _failed(
    plan: Plan, batch: Batch, group: Group, at: int, size: int, modes: dict[str, Any],
    error: Exception,
) -> tuple[list[Any], dict[int, Exception]]:  # fmt: skip
    if isinstance(error, MemoryError):
        plan.ladder.exhausted(size)
    else:
        plan.failed += 1
        if plan.failed > max(TIRING_FAILURES, plan.made):
            plan.refuse(f"NumPy warned or raised in most batches: {error}")
    if size <= ALONE or plan.refused:
        return group.singly(at, size)
    half = size // 2
    values, errors = _halving(plan, batch, group, at, half, modes)
    others, more = _halving(plan, batch, group, at + half, size - half, modes)
    return values + others, errors | {place + half: error for place, error in more.items()}


def _begin(
    plan: Plan, group: Group, at: int, size: int, modes: dict[str, Any]
) -> tuple[list[Any], dict[int, Exception]]:
    """Record the first item and compare the first batch with single calls."""
    batching = plan.batching
    known = min(COMPARED, size)
    args, kwargs = group.arguments(at)
    if overlapping((*args, *kwargs.values())):
        return group.singly(at, size)
    try:
        first, item = record_item(
            batching.function, args, kwargs, batching.session.reference, batching.session.programs,
            creates=batching.options.convert,
        )  # fmt: skip
    except StartAgain as why:
        plan.refuse(f"it needs a real NumPy array ({why})")
        return group.singly(at, size)
    except Exception as error:  # noqa: BLE001 - the user's own
        values, errors = group.singly(at + 1, size - 1)
        return [error, *values], {0: error} | {p + 1: e for p, e in errors.items()}
    values, errors = group.singly(at + 1, known - 1)
    values, errors = [first, *values], {place + 1: error for place, error in errors.items()}
    if isinstance(item, str):
        plan.refuse(item)
    elif not batching.dependence or not batching.dependence.holds():
        plan.refuse("it modifies something that it depends on")
    elif not errors:
        batch = Batch(batching.session, batching.runs, item, plan.text)
        found = _believed(plan, batch, group, at, size, modes, values)
        if found is not None:
            return values + found[known:], {}
    others, more = group.singly(at + known, size - known)
    return values + others, errors | {place + known: error for place, error in more.items()}


def _believed(
    plan: Plan, batch: Batch, group: Group, at: int, size: int, modes: dict[str, Any],
    expected: list[Any],
) -> list[Any] | None:  # fmt: skip
    """Return the results of a first batch if they agree with single calls, else None."""
    try:
        made = batch.run([column[at : at + size] for column in group.columns], size, modes)
    except Unsupported as why:
        plan.refuse(str(why))
        return None
    except Exception as error:  # noqa: BLE001 - the single calls raise what is the user's
        plan.failed += 1
        if plan.failed > TIRING_FAILURES:
            plan.refuse(f"NumPy warned or raised in the first batches: {error}")
        return None
    floor = least_scale(batch.item.graph)
    for one, other in zip(expected, made.results, strict=False):
        difference = _difference(one, other, floor)
        if difference:
            plan.refuse(f"its first batched results differ from single calls: {difference}")
            return None
    plan.ready(batch)
    plan.batching.mapped.add(size, made.where)
    return made.results


def _difference(expected: Any, found: Any, floor: float) -> str:
    if type(expected) is not type(found):
        return f"{type(found).__name__} instead of {type(expected).__name__}"
    if isinstance(expected, tuple | list):
        pairs = zip(expected, found, strict=True)
        return next((text for one, other in pairs if (text := _difference(one, other, floor))), "")
    return compare(np.asarray(expected), np.asarray(found), floor)


def grouped(
    batching: Batching, values: Sequence[Sequence[Any]],
) -> Iterator[tuple[Plan | None, list[int]]]:  # fmt: skip
    """Group calls by kind; each is given by the values of its arguments."""
    groups: dict[Any, list[int]] = {}
    for place, one in enumerate(values):
        groups.setdefault(key_of(one), []).append(place)
    for key, places in groups.items():
        yield (None if key is None else batching.plan(key)), places


def call_together(
    function: Offloaded, calls: Sequence[tuple[tuple[Any, ...], dict[str, Any]]]
) -> list[Result]:
    """Make several calls of one function, in batches where that is faster.

    Parameters
    ----------
    function
        Made by `gpuforge.offload`.
    calls
        The positional and keyword arguments of each call.

    Returns
    -------
    list of Result
        What each call returned or raised, in order. A call that raises does not stop the others.
    """
    found: list[Result] = [Result()] * len(calls)
    batching = batching_of(function)
    rows = [_values(one) for one in calls]
    plans: Any = [(None, range(len(calls)))]
    if not batching.single and len({tuple(kwargs) for _, kwargs in calls}) < 2:
        plans = grouped(batching, rows)
    for plan, places in plans:
        columns = () if plan is None else columns_of([rows[place] for place in places])
        group = Group(function, places, [calls[place] for place in places], True, columns)
        for chunk in in_chunks(batching, plan, group):
            for at, place in enumerate(chunk.places):
                error = chunk.errors.get(at)
                found[place] = Result(error=error) if error else Result(chunk.values[at])
        if plan is not None:
            plan.keep()
    return found


def _values(call: tuple[tuple[Any, ...], dict[str, Any]]) -> tuple[Any, ...]:
    return (*call[0], *call[1].values())


def columns_of(rows: Sequence[Sequence[Any]]) -> list[Column]:
    """Return the array arguments of calls of one kind, each as a column over all calls."""
    places = [place for place, value in enumerate(rows[0]) if type(value) is np.ndarray]
    return [[row[place] for row in rows] for place in places]
