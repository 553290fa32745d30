"""Predicting in batches, in the fastest way whose results agree with the plain ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from threading import RLock
from time import perf_counter
from typing import Any, Protocol

import numpy as np

import gpuforge.inference.tree as tree
from gpuforge.errors import DeviceOutOfMemory, WorkloadError
from gpuforge.inference.report import Report, Trial

Way = dict[str, Any]
"""A way to run a model, by option: {"channels_last": True, "threads": 2}. {} is the plain way."""
WAYS = frozenset(["inference_mode", "channels_last", "half", "threads", "compile", "parallel"])
Run = Callable[[tuple[Any, ...], dict[str, Any]], Any]

LARGEST_BATCH, LARGEST_BYTES = 4096, 32 << 20
"""Limits of a batch in items and in bytes of input: intermediate results may take a hundred times
as much, and a system that runs short of memory kills processes."""
TOLERANCE, TOLERANCE_DOUBLE, TOLERANCE_RELAXED = 1e-4, 1e-9, 2e-2
GAIN = 0.95
"""A way is used if a batch takes at most this share of the time that it took before."""
TURNS, TURN_SECONDS = 7, 2.0
"""Two ways are timed alternately for so many turns, or until so much time has passed."""
MAX_KINDS = 8
"""Number of combinations of shapes and dtypes to optimize for; others are predicted plainly."""
_EXHAUSTED = ("out of memory", "allocate memory", "not enough memory", "failed to allocate",
              "bad_alloc", "bad allocation")  # fmt: skip


class Model(Protocol):
    """A model that can be run in several ways.

    Attributes
    ----------
    name : the kind of model, and where it runs
    fixed_batch : the batch size if the model fixes it; None for any size
    """

    name: str
    fixed_batch: int | None

    def state(self) -> tuple[Any, ...]:
        """Return a value that changes whenever the parameters change."""

    def ways(self, relaxed: bool) -> list[Way]:
        """Return the ways that may make it faster; each is tried on top of those in use."""

    def build(self, way: Way) -> Run:
        """Return a function that runs one batch in a way."""

    def release(self) -> None:
        """Release the memory that the library caches."""


@dataclass
class _Kind:
    """How to predict inputs of one combination of item shapes and dtypes.

    Attributes
    ----------
    way, run : the way in use, and the function that runs it
    state : the model's state when the way was chosen
    size : items in a batch
    splits : whether parts of a batch give the same results as the whole; None if not known yet
    """

    way: Way
    run: Run
    state: tuple[Any, ...]
    size: int
    splits: bool | None = None
    trials: list[Trial] = field(default_factory=list)
    tolerance: float = TOLERANCE


class Inference:
    """Predicts with one model, one call at a time. Created by ``gpuforge.inference``."""

    def __init__(
        self, model: Model, ways: frozenset[str], batch: int | None, relaxed: bool
    ) -> None:
        self._model, self._ways, self._relaxed = model, ways, relaxed
        self._plain = model.build({})
        self._requested_batch = batch
        self._kinds: dict[Any, _Kind] = {}
        self._latest: _Kind | None = None
        self._notes: dict[str, None] = {}
        self._lock = RLock()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.predict(*args, **kwargs)

    def predict(self, *args: Any, **kwargs: Any) -> Any:
        """Return the model's outputs for some items.

        Parameters
        ----------
        *args, **kwargs
            The model's arguments with NumPy arrays in place of tensors, also inside tuples, lists
            and dictionaries; items are along the first axis. For an ONNX file: in the order of its
            inputs, by name, or in one dictionary.

        Returns
        -------
        NumPy arrays, in the tuples, lists and dictionaries that the model returns. For an ONNX file
        with several outputs: a dictionary by name.

        Raises
        ------
        DeviceOutOfMemory
            If there is not enough memory for a single item.
        WorkloadError
            If `batch` is a number, and parts of a batch give other results than the whole.
        Exception
            Any exception that the model raises.
        """
        with self._lock:
            count = tree.length((args, kwargs))
            kind = self._kind(args, kwargs, count)
            if self._may_split(kind, args, kwargs, count):
                assert count is not None
                return self._in_parts(kind, args, kwargs, count)
            return self._whole(kind, args, kwargs)

    @property
    def report(self) -> Report:
        """How inputs like the latest ones are predicted, and which ways were tried."""
        kind = self._latest
        way = kind.way if kind else {}
        split = kind is None or kind.splits is not False
        return Report(
            self._model.name, _name(way) or "plain", kind.size if kind and split else None,
            kind.tolerance if kind else TOLERANCE, tuple(kind.trials) if kind else (),
            tuple(self._notes),
        )  # fmt: skip

    def _note(self, text: str) -> None:
        self._notes[text] = None

    # -- splitting into batches ------------------------------------------------------------------

    def _may_split(
        self, kind: _Kind, args: tuple[Any, ...], kwargs: dict[str, Any], count: int | None
    ) -> bool:
        """Return whether to predict these inputs in parts."""
        if count is None:
            self._note("inputs are not split: their arrays have different numbers of items")
            return False
        if self._model.fixed_batch:
            return 0 < count != self._model.fixed_batch
        if count <= kind.size:
            return False
        if kind.splits is None:
            kind.splits = self._splits(kind, args, kwargs)
        if not kind.splits and self._requested_batch:
            raise WorkloadError(
                f"{self._model.name} gives different results for parts of a batch than for all",
                hint="remove batch=: the model then gets all items at once",
            )
        return kind.splits

    def _splits(self, kind: _Kind, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Return whether the model gives the same results for two items as for each one alone."""
        two = tree.part((args, kwargs), slice(0, 2))
        try:
            together = self._plain(*two)
            alone = [self._plain(*tree.part(two, slice(at, at + 1))) for at in (0, 1)]
        except Exception as error:  # noqa: BLE001 - what it raises for the whole is the result
            if is_exhausted(error):
                self._note("parts were not compared with the whole: two items need too much")
                return True
            self._note(f"inputs are not split: two items alone fail ({type(error).__name__})")
            return False
        whole = all(array.shape[:1] == (2,) for array in tree.leaves(together)
                    if isinstance(array, np.ndarray))  # fmt: skip
        if whole and tree.difference(together, tree.joined(alone)) <= kind.tolerance:
            return True
        self._note("inputs are not split: the model's results depend on the whole batch")
        return False

    def _whole(self, kind: _Kind, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Predict all items at once, or in parts if memory runs out."""
        try:
            return self._run(kind)(args, kwargs)
        except Exception as error:
            if not is_exhausted(error):
                raise
            trouble = error
        count = tree.length((args, kwargs))
        if count is None:
            raise DeviceOutOfMemory(
                f"{self._model.name} has too little memory for these inputs: {trouble}",
                hint="pass arrays of equal length, which can be split into parts",
            ) from trouble
        self._halve(kind, count, trouble)
        if not self._may_split(kind, args, kwargs, count):
            raise DeviceOutOfMemory(
                f"{self._model.name} has too little memory for {count} items, and gives other"
                f" results for parts of them: {trouble}",
                hint="free memory, or use a device with more of it",
            ) from trouble
        return self._in_parts(kind, args, kwargs, count)

    def _in_parts(
        self, kind: _Kind, args: tuple[Any, ...], kwargs: dict[str, Any], count: int
    ) -> Any:
        parts: list[Any] = []
        done, run, fixed = 0, self._run(kind), self._model.fixed_batch
        while done < count:
            size = min(kind.size, count - done)
            given = tree.part((args, kwargs), slice(done, done + size))
            try:
                if fixed and size < fixed:
                    made = tree.part(run(*tree.padded(given, fixed)), slice(0, size))
                else:
                    made = run(*given)
            except Exception as error:
                if not is_exhausted(error) or fixed:
                    raise
                trouble = error
            else:
                parts.append(made)
                done += size
                continue
            self._halve(kind, size, trouble)
        return tree.joined(parts) if len(parts) > 1 else parts[0]

    def _halve(self, kind: _Kind, size: int, error: Exception) -> None:
        """Halve the batch size after memory ran out for a batch of `size` items."""
        if size <= 1:
            raise DeviceOutOfMemory(
                f"{self._model.name} has too little memory for a single item: {error}",
                hint="free memory, or use a device with more of it",
            ) from error
        kind.size = size // 2
        self._note(f"memory ran out for {size} items at once: {kind.size} from then on")
        self._model.release()

    # -- finding the fastest way -----------------------------------------------------------------

    def _run(self, kind: _Kind) -> Run:
        """Return the function in use; the plain one if parameters changed since optimization."""
        if kind.way and kind.state != self._model.state():
            self._note("parameters changed after optimizing: the original model is used")
            kind.way, kind.run = {}, self._plain
        return kind.run

    def _kind(self, args: tuple[Any, ...], kwargs: dict[str, Any], count: int | None) -> _Kind:
        key = tuple((array.dtype.str, array.shape[1:]) for array in tree.arrays((args, kwargs)))
        found = self._kinds.get(key)
        if found is None:
            found = self._new_kind((args, kwargs), count)
            if any(name.endswith(("f8", "c16")) for name, _ in key):
                found.tolerance = TOLERANCE_DOUBLE
            if self._relaxed:
                found.tolerance = TOLERANCE_RELAXED
            if self._ways and len(self._kinds) < MAX_KINDS:
                self._find_way(found, (args, kwargs), count)
            self._kinds[key] = found
        self._latest = found
        return found

    def _new_kind(self, given: Any, count: int | None) -> _Kind:
        each = sum(array.nbytes for array in tree.arrays(given)) // max(count or 1, 1)
        fitting = min(LARGEST_BATCH, max(1, LARGEST_BYTES // max(each, 1)))
        size = self._model.fixed_batch or self._requested_batch or fitting
        return _Kind({}, self._plain, self._model.state(), size)

    def _find_way(self, kind: _Kind, given: Any, count: int | None) -> None:
        """Try the ways that may be faster on the first batch."""
        fixed, example = self._model.fixed_batch, given
        if count and count > kind.size:
            example = tree.part(given, slice(0, kind.size))
        elif count and fixed and count < fixed:
            example = tree.padded(given, fixed)
        try:
            expected = self._plain(*example)
        except Exception as error:
            if not count or fixed or not is_exhausted(error):
                raise
            trouble = error
        else:
            self._try_ways(kind, example, expected)
            return
        self._halve(kind, min(kind.size, count), trouble)
        self._find_way(kind, given, count)

    def _try_ways(self, kind: _Kind, example: Any, expected: Any) -> None:
        if self._model.state() != kind.state:
            self._note("it is not optimized: it changes its own buffers as it runs")
            return
        for way in self._model.ways(self._relaxed):
            if self._ways.issuperset(way):
                kind.trials.append(self._try_way(kind, way, example, expected))

    def _try_way(self, kind: _Kind, added: Way, example: Any, expected: Any) -> Trial:
        way, name = {**kind.way, **added}, _name(added)
        start = perf_counter()
        try:
            run = self._model.build(way)
            found = run(*example)
            first = perf_counter() - start
            apart = tree.difference(expected, found)
            if not apart <= kind.tolerance:
                return Trial(name, None, None, first, apart, note="not used: its results differ")
            seconds, before = _time_alternately(run, kind.run, example)
        except Exception as error:  # noqa: BLE001 - whatever it raises bars this way alone
            reason = " ".join(str(error).split())[:120]
            return Trial(name, note=f"not used: {type(error).__name__}: {reason}")
        if seconds > GAIN * before:
            return Trial(name, seconds, before, first, apart, note="not used: not faster")
        kind.way, kind.run = way, run
        return Trial(name, seconds, before, first, apart, used=True)


def is_exhausted(error: Exception) -> bool:
    """Return whether an exception of any library means that memory ran out."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    text = str(error).lower()
    return any(words in text for words in _EXHAUSTED)


def _time_alternately(run: Run, before: Run, example: Any) -> tuple[float, float]:
    """Return the median seconds of one batch with `run` and with `before`, timed alternately."""
    times: tuple[list[float], list[float]] = ([], [])
    began = perf_counter()
    for _ in range(TURNS):
        for one, out in zip((run, before), times, strict=True):
            start = perf_counter()
            one(*example)
            out.append(perf_counter() - start)
        if perf_counter() - began > TURN_SECONDS:
            break
    return median(times[0]), median(times[1])


def _name(way: Way) -> str:
    return " + ".join(key if value is True else f"{key}={value}" for key, value in way.items())
