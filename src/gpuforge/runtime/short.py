"""Calls so short that inspecting each one would cost more than it could gain."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import count
from typing import Any

import numpy as np

from gpuforge.runtime.context import cluster, current
from gpuforge.runtime.function.key import ANY, STATIC

_ndarray = np.ndarray
SHORT_SECONDS = 20e-6
"""Calls on NumPy with a cached decision are all timed if they take longer than this."""
INSPECT_EVERY = 64
"""One in this many short calls is inspected; a power of two."""
SKIP_MASK = INSPECT_EVERY - 1
FEW = 4
"""A map over fewer items than this calls the function item by item and decides nothing."""


class ShortCalls:
    """The short calls of a function, most of which run as written without being inspected.

    Attributes
    ----------
    ticks : counts the calls; an iterator of Python's own, so no two threads get the same number
    skip : counts a call and returns whether it may skip inspection: non-zero if so, 0 if it must be
        inspected, False if it is not one of these calls (it is then not counted)
    fits : returns whether a call is one of these, without counting it
    """

    __slots__ = ("_array_key", "_counted", "_extra", "_taken", "fits", "skip", "ticks")

    def __init__(
        self, args: tuple[Any, ...] | None = None, kwargs: Any = None, *, alike: bool = True
    ) -> None:
        """Cover this session's calls with arguments of the same key; None: all calls.

        If not `alike`, calls with other shapes and numbers are covered, too, unless an array has
        more than twice as many elements.
        """
        self.ticks = ticks = count()
        self._counted = 0
        self._extra = count()  # calls of a map except the one that `ticks` counts
        self._taken = 0
        self._array_key: tuple[Any, Any, Any] | None = None
        self.skip: Callable[[Any, Any], int]
        self.fits: Callable[[Any, Any], bool]
        if args is None:
            self.skip = lambda args, kwargs: next(ticks) & SKIP_MASK
            self.fits = lambda args, kwargs: True
            return
        self.skip, self.fits = _tests(ticks, args, kwargs, alike)
        if alike and len(args) == 1 and not kwargs and type(args[0]) is _ndarray:
            self._array_key = (current.get(), args[0].shape, args[0].dtype)

    def covers(self, items: list[Any]) -> bool:
        """Count a map's calls over a few items; return whether all of them may skip inspection."""
        if self._array_key is None or cluster.get() is not None:
            return False
        session, shape, dtype = self._array_key
        for item in items:
            if type(item) is not _ndarray or item.shape != shape or item.dtype is not dtype:
                return False
        if current.get() is not session or not next(self.ticks) & SKIP_MASK:
            return False
        for _ in items[1:]:
            next(self._extra)
        return True

    def take_skipped(self) -> int:
        """Return how many calls have skipped inspection since the last call of this method."""
        extra = next(self._extra)
        made, self._taken = extra - self._taken, extra + 1
        while True:
            now = next(self.ticks)
            made += _skipped(now) - _skipped(self._counted)
            self._counted = now + 1
            if now & SKIP_MASK:  # this tick must not consume the one at which a call is inspected
                return made


def _skipped(ticks: int) -> int:
    """Return how many of the numbers below `ticks` are not multiples of `INSPECT_EVERY`."""
    return ticks - (ticks + SKIP_MASK) // INSPECT_EVERY


def _tests(ticks: Iterator[int], args: tuple[Any, ...], kwargs: dict[str, Any], alike: bool) -> Any:
    """Return `ShortCalls.skip` and `fits` for arguments like these, ignoring strides.

    So a call over a view is counted with calls over an array of its shape. The functions are
    compiled, once per combination of kinds: a loop would take longer than the call itself.
    """
    tests: list[tuple[str, ...]] = []
    constants: list[Any] = []
    for value in (*args, *kwargs.values()):
        kind = type(value)
        if kind is _ndarray:
            tests.append((_KIND, _SHAPE if alike else _SIZE, "{0}.dtype is {1}"))
            constants += [kind, value.shape if alike else 2 * value.size, value.dtype]
        elif kind in STATIC and alike:
            tests.append((_KIND, "{0} == {1}"))
            constants += [kind, value]
        elif value is ANY:
            tests.append((_KIND,))
            constants.append(int)
        else:
            tests.append((_KIND,))
            constants.append(kind)
    make = _compile_tests(len(args), tuple(kwargs), tuple(tests))
    return make(ticks, current.get, current.get(), *constants)


_KIND, _SHAPE, _SIZE = "type({0}) is {1}", "{0}.shape == {1}", "{0}.size <= {1}"


@cache
def _compile_tests(
    positional: int, names: tuple[str, ...], tests: tuple[tuple[str, ...], ...]
) -> Callable[..., Any]:
    """Return a factory that makes the functions from the constants to compare arguments with.

    In a test, {0} stands for the argument and {1} for its constant.
    """
    places = [f"args[{i}]" for i in range(positional)] + [f"kwargs[{name!r}]" for name in names]
    conditions = [f"len(args) == {positional}"]
    conditions.append(f"len(kwargs) == {len(names)}" if names else "not kwargs")
    constants: list[str] = []
    for place, asked in zip(places, tests, strict=True):
        for test in asked:
            constants.append(f"c{len(constants)}")
            conditions.append(test.format(place, constants[-1]))
    fit = " and ".join((*conditions, "session() is here"))
    scope: dict[str, Any] = {}
    exec(
        f"def make({', '.join(('ticks', 'session', 'here', *constants))}):\n"
        " def skip(args, kwargs):\n"
        f"  try: return {fit} and next(ticks) & {SKIP_MASK}\n"
        "  except KeyError: return False\n"
        " def fits(args, kwargs):\n"
        f"  try: return {fit}\n"
        "  except KeyError: return False\n"
        " return skip, fits\n",
        scope,
    )
    make: Callable[..., Any] = scope["make"]
    return make
