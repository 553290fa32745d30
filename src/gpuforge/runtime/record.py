"""What one session knows of one function: its kinds of call, their programs, their counts."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, is_dataclass
from functools import partial
from types import BuiltinFunctionType, CodeType, FunctionType
from typing import Any

import numpy as np

from gpuforge.errors import WorkloadError
from gpuforge.runtime.captures import Captures, read_captures
from gpuforge.runtime.contention import BlasLimit
from gpuforge.runtime.execution import Program
from gpuforge.runtime.placement import Kind
from gpuforge.runtime.reference import Template

MAX_KINDS = 256
"""Beyond this many kinds of call, new ones stay on NumPy: an argument changes with every call."""


@dataclass(frozen=True)
class Options:
    """What the user said about one function.

    Attributes
    ----------
    backend : pinned backend, or the start of its name; empty for the fastest
    device : only backends on this device: ``cpu``, ``cuda``, ...
    numerics : ``strict``, ``relaxed``, or empty for the session's
    pure : whether the function depends on its arguments alone and may be run again
    mutates : names of the arguments it writes into
    min_elements : calls over fewer elements stay on NumPy; None for the session's setting
    fallback : whether a pinned backend that is missing falls back to NumPy; None for the setting
    """

    backend: str = ""
    device: str = ""
    numerics: str = ""
    pure: bool = True
    mutates: tuple[str, ...] = ()
    min_elements: int | None = None
    fallback: bool | None = None


@dataclass
class Count:
    """Calls on one backend, and the wall seconds of the measured ones scaled to all of them."""

    calls: int = 0
    seconds: float = 0.0

    def add(self, calls: int, seconds: float) -> None:
        """Add `calls` calls of `seconds` each."""
        self.calls += calls
        self.seconds += calls * seconds


class Held:
    """A choice kept for the next `left` calls of one signature.

    Attributes
    ----------
    plain : the function is called as it is: on NumPy, and it does not write into arrays
    limit : on NumPy, what limits its BLAS to one thread during the call; None for no limit
    program : what runs on another backend; None on NumPy
    counted : the value of `left` when calls were last counted
    """

    __slots__ = ("backend", "counted", "kind", "left", "limit", "plain", "program", "seconds")

    def __init__(
        self, kind: KindRecord, backend: str, seconds: float, program: Program | None, left: int
    ) -> None:
        self.kind = kind
        self.backend = backend
        self.seconds = seconds
        self.program = program
        self.plain = False
        self.limit: BlasLimit | None = None
        self.left = self.counted = left

    def take_uncounted(self) -> int:
        """Return how many calls were made since this was last asked."""
        left = max(self.left, 0)
        made, self.counted = self.counted - left, left
        return made


@dataclass
class KindRecord:
    """One kind of call of one function in one session.

    Attributes
    ----------
    digest : names the kind in the history
    stays : why it can run on NumPy only; empty when it can go elsewhere
    template : what NumPy's result looks like, once NumPy ran
    signatures : exact signature to its digest
    transfers : (signature digest, backend) to measured transfer seconds
    fresh : (signature digest, backend) to samples that the history does not have yet
    """

    digest: str
    text: str
    kind: Kind = field(default_factory=Kind)
    stays: str = ""
    template: Template | None = None
    programs: dict[Hashable, Program] = field(default_factory=dict)
    signatures: dict[Hashable, str] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    transfers: dict[tuple[str, str], float] = field(default_factory=dict)
    fresh: dict[tuple[str, str], int] = field(default_factory=dict)

    def signature(self, exact: Hashable, size: int) -> str:
        """Return the digest of an exact signature."""
        found = self.signatures.get(exact)
        if found is None:
            found = self.signatures[exact] = digest(stable_text(exact))
            self.sizes[found] = size
        return found


class FunctionRecord:
    """One offloaded function in one session."""

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
        self.digest = digest(f"{self.name} {code_text(function)}")
        self.captures = read_captures(function)
        self.known_from_history = False

    def count_held(self) -> None:
        """Count the calls that were made on held choices, at the seconds last measured."""
        for held in list(self.held.values()):
            self.count(held)

    def count(self, held: Held) -> int:
        """Count the calls made on one held choice since it was last counted; return how many."""
        made = held.take_uncounted()
        if made:
            self.counts.setdefault(held.backend, Count()).add(made, held.seconds)
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
        self.count_held()
        self.held.clear()

    def drop_programs(self) -> None:
        """Forget every prepared program and held choice: what they rest on has changed."""
        self.let_go()
        for record in self.kinds.values():
            record.programs.clear()

    def read_again(self) -> Captures:
        """Read the captured values anew, after one of them changed."""
        self.captures = read_captures(self.function)
        self.drop_programs()
        return self.captures

    def written_leaves(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[int, ...]:
        """Return the places, among the leaves of a call, of the arguments named in ``mutates``.

        Raises
        ------
        WorkloadError
            If a name in ``mutates`` is no array argument of this call.
        """
        if not self.options.mutates:
            return ()
        bound = inspect.signature(self.function).bind(*args, **kwargs)
        bound.apply_defaults()
        wanted = []
        for name in self.options.mutates:
            value = bound.arguments.get(name)
            if not isinstance(value, np.ndarray):
                raise WorkloadError(
                    f"mutates names {name!r}, which is no array argument of {self.name}",
                    hint=f"its arguments are {', '.join(bound.arguments)}",
                )
            wanted.append(id(value))
        from gpuforge.runtime.structure import flatten

        leaves: list[Any] = []
        flatten((args, kwargs), leaves)
        return tuple(place for place, leaf in enumerate(leaves) if id(leaf) in wanted)


def name_of(function: Callable[..., Any]) -> str:
    """Return ``module.qualname`` of a function, or of what a partial wraps."""
    while isinstance(function, partial):
        function = function.func
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{getattr(named, '__module__', '?')}.{named.__qualname__}"


def code_text(function: Callable[..., Any]) -> str:
    """Return a text that changes with the code of a function, and with nothing else."""
    while isinstance(function, partial):
        function = function.func
    code = getattr(function, "__code__", None)
    return _code_text(code) if isinstance(code, CodeType) else ""


def _code_text(code: CodeType) -> str:
    constants = [_code_text(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts]
    return f"{code.co_code.hex()} {code.co_names} {constants}"


def digest(text: str) -> str:
    """Return a short name for a text."""
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=12).hexdigest()


def stable_text(value: Any) -> str:
    """Return a text for a key that is the same in every process."""
    if isinstance(value, tuple):
        return f"({','.join(map(stable_text, value))})"
    if isinstance(value, type | FunctionType | BuiltinFunctionType):
        return f"{value.__module__}.{value.__qualname__}"
    if is_dataclass(value):
        return type(value).__qualname__
    return repr(value)
