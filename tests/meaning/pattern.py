"""One pattern: a few lines of Python around arrays, and how they are run plain or offloaded."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import pkgutil
import random
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Offload = Callable[[Callable[..., Any]], Callable[..., Any]]
CALLS = 3
NEEDS = {"scipy_calls": "scipy"}
"""Files of patterns that use a library which may be absent."""


@dataclass
class Given:
    """The arguments of one call."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)


def call(*args: Any, **kwargs: Any) -> Given:
    """Return the arguments of one call, keywords included."""
    return Given(args, kwargs)


@dataclass
class Outcome:
    """What one call left behind: its arguments as they are afterwards, result, error, prints."""

    given: Given
    result: Any = None
    error: BaseException | None = None
    printed: str = ""
    warned: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Pattern:
    """A function with makers of fresh arguments, or a scene that is handed `offload` itself.

    The first maker makes the arguments of the first call, and so on in turn; at least three calls.
    """

    group: str
    function: Callable[..., Any]
    makers: tuple[Callable[[], Any], ...] = ()

    @property
    def id(self) -> str:
        return f"{self.group}.{self.function.__name__}"

    def run(self, offload: Offload) -> list[Outcome]:
        """Run the calls of this pattern one after the other and return what each left behind."""
        with warnings.catch_warnings():
            warnings.resetwarnings()
            warnings.simplefilter("ignore")
            random.seed(7)
            np.random.seed(7)
            return self._calls(offload)

    def _calls(self, offload: Offload) -> list[Outcome]:
        if not self.makers:
            return [observe(lambda: self.function(offload), Given(()))]
        function = offload(self.function)
        count = max(CALLS, len(self.makers))
        return [
            observe(function, as_given(self.makers[k % len(self.makers)]())) for k in range(count)
        ]


def as_given(made: Any) -> Given:
    if isinstance(made, Given):
        return made
    return Given(made) if type(made) is tuple else Given((made,))


def observe(function: Callable[..., Any], given: Given) -> Outcome:
    """Call `function` and note all that can be seen from outside."""
    outcome, printed = Outcome(given), io.StringIO()
    with warnings.catch_warnings(record=True) as warned, contextlib.redirect_stdout(printed):
        warnings.resetwarnings()
        warnings.simplefilter("always")
        try:
            outcome.result = function(*given.args, **given.kwargs)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            outcome.error = error
    outcome.printed = printed.getvalue()
    outcome.warned = sorted({w.category.__name__ for w in warned})
    return outcome


_found: list[Pattern] = []


def pattern(*makers: Callable[[], Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a function as a pattern, with the makers of its successive calls' arguments."""

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        _found.append(Pattern(function.__module__.rpartition(".")[2], function, makers))
        return function

    return enter


def scene(function: Callable[..., Any]) -> Callable[..., Any]:
    """Enter a whole little program: it is handed `offload` and returns what is to be compared."""
    _found.append(Pattern(function.__module__.rpartition(".")[2], function))
    return function


def all_patterns() -> list[Pattern]:
    """Return every pattern of the folder `patterns`, each id once."""
    folder = importlib.import_module("tests.meaning.patterns")
    for module in sorted(m.name for m in pkgutil.iter_modules(folder.__path__)):
        if module not in NEEDS or importlib.util.find_spec(NEEDS[module]) is not None:
            importlib.import_module(f"tests.meaning.patterns.{module}")
    ids = [p.id for p in _found]
    assert len(set(ids)) == len(ids), sorted({i for i in ids if ids.count(i) > 1})
    return list(_found)


def plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """Offload nothing: the reference."""
    return function


@dataclass
class Offloading:
    """`gf.offload` of one mode (free, or pinned to a library); remembers what it made."""

    mode: str
    made: list[Any] = field(default_factory=list)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        import gpuforge as gf

        wrap = gf.offload if self.mode == "free" else gf.offload(backend=self.mode)
        made = wrap(function)
        self.made.append(made)
        return made

    def calls(self) -> dict[str, int]:
        """Return how many calls were made on each backend."""
        counts: dict[str, int] = {}
        for name, calls in self._each():
            counts[name] = counts.get(name, 0) + calls
        return counts

    def _each(self) -> Iterator[tuple[str, int]]:
        for made in self.made:
            if hasattr(made, "stats"):
                for name, count in made.stats().counts.items():
                    yield name, count.calls
