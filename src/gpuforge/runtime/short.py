"""Calls so short that looking at each would cost more than it could gain."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import count
from typing import Any

import numpy as np

from gpuforge.runtime.context import cluster, current
from gpuforge.runtime.function.key import STATIC

_ndarray = np.ndarray
SHORT_SECONDS = 20e-6
"""Calls on NumPy that are held and take longer are timed, each of them."""
SEEN_EVERY = 64
"""Of so many short calls one is looked at; a power of two."""
UNSEEN = SEEN_EVERY - 1
FEW = 4
"""Fewer items than this are called one by one by a map, without another thought."""


class Short:
    """The short calls of a function, most of which are made as written at once.

    Attributes
    ----------
    ticks : counts them, in threads too: an iterator of Python's own gives each number once
    unseen : counts a call with some arguments, and tells whether it is to be made at once; 0 where
        it is to be looked at, False where it is none of these calls, and not counted
    """

    __slots__ = ("_beside", "_counted", "_only", "_taken", "ticks", "unseen")

    def __init__(self, args: tuple[Any, ...] | None = None, kwargs: Any = None) -> None:
        """Take the calls in this session with arguments of the same key; None: all calls."""
        self.ticks = ticks = count()
        self._counted = 0
        self._beside = count()  # calls that a map makes beside the one that `ticks` counts
        self._taken = 0
        self._only: tuple[Any, Any, Any] | None = None
        self.unseen: Callable[[Any, Any], int]
        if args is None:
            self.unseen = lambda args, kwargs: next(ticks) & UNSEEN
            return
        self.unseen = _made(ticks, args, kwargs)
        if len(args) == 1 and not kwargs and type(args[0]) is _ndarray:
            self._only = (current.get(), args[0].shape, args[0].dtype)

    def takes(self, items: list[Any]) -> bool:
        """Count a map's calls with each of a few items, and tell whether to make them at once."""
        if self._only is None or cluster.get() is not None:
            return False
        session, shape, dtype = self._only
        for item in items:
            if type(item) is not _ndarray or item.shape != shape or item.dtype is not dtype:
                return False
        if current.get() is not session or not next(self.ticks) & UNSEEN:
            return False
        for _ in items[1:]:
            next(self._beside)
        return True

    def take_unseen(self) -> int:
        """Return how many calls were made without being looked at since this was last asked."""
        beside = next(self._beside)
        made, self._taken = beside - self._taken, beside + 1
        while True:
            now = next(self.ticks)
            made += _unseen(now) - _unseen(self._counted)
            self._counted = now + 1
            if now & UNSEEN:  # or who asks after each call might take every tick of a look
                return made


def _unseen(ticks: int) -> int:
    """Return how many of the numbers below `ticks` are no multiples of `SEEN_EVERY`."""
    return ticks - (ticks + UNSEEN) // SEEN_EVERY


def _made(ticks: Iterator[int], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return `Short.unseen` for arguments that have the key of these, strides left out.

    So calls over a view are counted with those over an array of its shape. It is compiled, once for
    all arguments of such kinds: a loop over them would take longer than the call itself.
    """
    tests: list[tuple[str, ...]] = []
    constants: list[Any] = []
    for value in (*args, *kwargs.values()):
        kind = type(value)
        if kind is _ndarray:
            tests.append((_KIND, "{0}.shape == {1}", "{0}.dtype is {1}"))
            constants += [kind, value.shape, value.dtype]
        elif kind in STATIC:
            tests.append((_KIND, "{0} == {1}"))
            constants += [kind, value]
        else:
            tests.append((_KIND,))
            constants.append(kind)
    make = _compiled(len(args), tuple(kwargs), tuple(tests))
    return make(ticks, current.get, current.get(), *constants)


_KIND = "type({0}) is {1}"


@cache
def _compiled(
    positional: int, names: tuple[str, ...], tests: tuple[tuple[str, ...], ...]
) -> Callable[..., Any]:
    """Return what makes `Short.unseen` of the constants that arguments are compared with.

    A test names the argument {0} and its constant {1}.
    """
    places = [f"args[{i}]" for i in range(positional)] + [f"kwargs[{name!r}]" for name in names]
    conditions = [f"len(args) == {positional}"]
    conditions.append(f"len(kwargs) == {len(names)}" if names else "not kwargs")
    constants: list[str] = []
    for place, asked in zip(places, tests, strict=True):
        for test in asked:
            constants.append(f"c{len(constants)}")
            conditions.append(test.format(place, constants[-1]))
    conditions.append(f"session() is here and next(ticks) & {UNSEEN}")
    scope: dict[str, Any] = {}
    exec(
        f"def make({', '.join(('ticks', 'session', 'here', *constants))}):\n"
        " def unseen(args, kwargs):\n"
        f"  try: return {' and '.join(conditions)}\n"
        "  except KeyError: return False\n"
        " return unseen\n",
        scope,
    )
    make: Callable[..., Any] = scope["make"]
    return make
