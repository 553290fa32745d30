"""Batches of lattices: transforms of equal size share a call, equal graphs share an analysis."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import index
from time import perf_counter
from typing import Any

from gpuforge.errors import InvalidSettings, UnknownName, WorkloadError
from gpuforge.lattice.analysis import Analysis
from gpuforge.lattice.grid import Lattice
from gpuforge.lattice.transform import STACKED_BYTES, Transform, xor_all

OPERATIONS = ("analyze", "shortest_path", "xor_transform")
Operation = str | tuple[Any, ...] | list[Any]
"""The name of a method, or a sequence of the name, positional arguments and a dict of keywords."""


@dataclass(frozen=True)
class BatchStats:
    """Statistics of a batch so far."""

    lattices: int
    """Number of lattices in the batch."""
    operations: Mapping[str, int]
    """Number of operations performed, by name."""
    calls: int
    """Number of array function calls that all transforms took."""
    largest: int
    """Number of transforms in the largest of these calls."""
    analyses: int
    """Number of graphs analysed; equal ones are analysed once per run."""
    seconds: float
    """Total time of all runs."""


@dataclass
class Batch:
    """Lattices that are processed together. Created by `batch`."""

    lattices: Sequence[Lattice]
    max_batch: int
    _operations: Counter[str] = field(default_factory=Counter, repr=False)
    _sizes: Counter[int] = field(default_factory=Counter, repr=False)
    _analyses: int = field(default=0, repr=False)
    _seconds: float = field(default=0.0, repr=False)

    def xor_transform(self, data: Sequence[Any], key: Any = None) -> list[Any]:
        """Transform one piece of data with each lattice, as `Lattice.xor_transform` does.

        Parameters
        ----------
        data
            One array, list or bytes for each lattice, in their order.
        key
            One key for all of them; by default each lattice's own states.

        Returns
        -------
        list
            The results, in the same order.

        Raises
        ------
        WorkloadError
            If `data` does not have one item per lattice, or an item cannot be transformed; a note
            of the exception has its number.
        """
        return self.run([("xor_transform", one, key) for one in data])

    def run(self, operations: Sequence[Operation]) -> list[Any]:
        """Perform one operation on each lattice.

        Parameters
        ----------
        operations
            One for each lattice, in their order: the name of a method (``"analyze"``), or a tuple
            of the name and its arguments: ``("shortest_path", 0, 99)``,
            ``("xor_transform", data)``. A dict as the last item holds keyword arguments:
            ``("shortest_path", 0, 99, {"weighted": True})``.

        Returns
        -------
        list
            The results, in the same order.

        Raises
        ------
        UnknownName
            If there is no operation of that name.
        WorkloadError
            If there is not one operation per lattice, or an operation fails; a note of the
            exception has its number.
        """
        begin = perf_counter()
        operations = list(operations)
        if len(operations) != len(self.lattices):
            raise WorkloadError(
                f"{len(operations)} operations for {len(self.lattices)} lattices: expected one each"
            )
        results: list[Any] = [None] * len(operations)
        transforms: dict[int, Transform] = {}
        analyses: dict[tuple[Any, ...], Analysis] = {}
        for number, (lattice, operation) in enumerate(zip(self.lattices, operations, strict=True)):
            try:
                name, args, kwargs = _parsed(operation)
                if name == "xor_transform":
                    work = _transform(lattice, *args, **kwargs)
                    if work.data.nbytes <= STACKED_BYTES:
                        transforms[number] = work
                    else:
                        results[number] = xor_all([work])[0]
                        self._sizes[1] += 1
                elif name == "analyze":
                    graph = lattice.shape, lattice.removed.tobytes()
                    if graph not in analyses or args or kwargs:
                        analyses[graph] = lattice.analyze(*args, **kwargs)
                    results[number] = analyses[graph]
                else:
                    results[number] = lattice.shortest_path(*args, **kwargs)
            except Exception as error:
                error.add_note(f"in operation {number} of {len(operations)}, with {lattice}")
                raise
            self._operations[name] += 1
        for some in _groups(transforms, self.max_batch):
            for number, found in zip(some, xor_all([transforms[n] for n in some]), strict=True):
                results[number] = found
            self._sizes[len(some)] += 1
        self._analyses += len(analyses)
        self._seconds += perf_counter() - begin
        return results

    def stats(self) -> BatchStats:
        """Return the statistics of this batch so far."""
        return BatchStats(
            len(self.lattices),
            dict(self._operations),
            self._sizes.total(),
            max(self._sizes, default=0),
            self._analyses,
            self._seconds,
        )


def batch(lattices: Iterable[Lattice], max_batch: int = 16) -> Batch:
    """Return several lattices as one batch, which combines similar operations.

    Parameters
    ----------
    lattices
        The lattices, of any shapes.
    max_batch
        Largest number of transforms in one call, at least 1.

    Raises
    ------
    InvalidSettings
        If `max_batch` is not a positive integer.
    WorkloadError
        If one of `lattices` is not a `Lattice`.
    """
    found = list(lattices)
    for number, one in enumerate(found):
        if not isinstance(one, Lattice):
            raise WorkloadError(f"number {number} of the batch is {one!r}: expected a Lattice")
    try:
        most = index(max_batch)
    except TypeError:
        most = 0
    if most < 1:
        raise InvalidSettings(f"max_batch is {max_batch!r}; expected an integer of at least 1")
    return Batch(found, most)


def _parsed(operation: Operation) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
    parts = operation if isinstance(operation, tuple | list) else (operation,)
    if not parts or not isinstance(parts[0], str):
        raise WorkloadError(
            f"{operation!r} is not an operation: expected a name or a tuple (name, arguments...)",
            hint="for instance ('shortest_path', 0, 99)",
        )
    name, *args = parts
    if name not in OPERATIONS:
        raise UnknownName.among("operation", name, OPERATIONS)
    kwargs = args.pop() if args and isinstance(args[-1], dict) else {}
    return name, tuple(args), kwargs


def _transform(lattice: Lattice, data: Any, key: Any = None) -> Transform:
    return Transform.of(data, key, lattice.states)


def _groups(transforms: Mapping[int, Transform], most: int) -> Iterator[list[int]]:
    """Yield the numbers of transforms of equal size and dtype, in groups of at most `most`."""
    alike: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for number, one in transforms.items():
        alike[one.data.dtype, one.data.size].append(number)
    for numbers in alike.values():
        for start in range(0, len(numbers), most):
            yield numbers[start : start + most]
