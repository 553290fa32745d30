"""What libraries that are not open would save, and when opening one is worth its price."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Mapping
from functools import cached_property
from types import MappingProxyType

from gpuforge.dataclass import dataclass
from gpuforge.digest import digest
from gpuforge.runtime.kept import Kept
from gpuforge.runtime.libraries import Libraries, Library
from gpuforge.runtime.placement.account import Account
from gpuforge.runtime.placement.policy import Kind
from gpuforge.runtime.placement.priors import Priors

_ORDER = ("cupy", "jax", "torch", "dpnp")
"""Which of libraries that promise the same is opened first: those that gain on most calls."""
ASSUMED_OPENING_SECONDS = {"jax": 0.6, "torch": 1.2}
ASSUMED_SECONDS = 1.0
"""Import and self-test of a library that was never opened on this machine, and of any other."""
OPENING_FELT, OPEN_AT = 0.75, 1.8
"""Of opening a library beside the program, what the program feels: most of an import holds Python's
lock. A library is opened once it might have saved so many times that."""


@dataclass(frozen=True)
class Wanted:
    """Calls on NumPy that another library might make faster.

    Attributes
    ----------
    seconds : what one of them took
    calls : how many there were
    expected : what the fastest of the open backends is expected to take for one
    operations, size, nbytes : names in the function's code; elements and bytes of its arrays
    recording : what recording one takes, if that was found to count
    """

    seconds: float
    calls: int
    expected: float
    operations: frozenset[str]
    size: int
    nbytes: int
    recording: float = 0.0


class Demand:
    """What the calls of one session would gain by libraries that are not open."""

    def __init__(self, libraries: Libraries, priors: Priors, account: Account, kept: Kept) -> None:
        self.libraries, self.priors, self.account, self.kept = libraries, priors, account, kept

    def want(
        self, call: Wanted,
        refused: Collection[str] = (), known: Mapping[str, float] = MappingProxyType({}),
        isolate: bool | None = None,
    ) -> Library | None:  # fmt: skip
        """Take in calls on NumPy that other backends might run; return a library to open for them.

        A library is to be opened once it might have saved `OPEN_AT` times what opening costs, and
        what opening others has cost and not yet brought back: one at a time, the most promising
        first. Not by calls for which all its devices are among those `refused`.

        `known` is the share of such a call that libraries save, where other processes measured it;
        `isolate` asks for libraries in worker processes.
        """
        opened = sum(library.opened for library in self.libraries.values())
        owed = max(0.0, self.account.lost_seconds)
        worth: dict[str, float] = {}
        choices = self.libraries.choices(isolate)
        for library in choices:
            if self.libraries.is_no_choice(library):
                continue
            if refused and self._none_left(library, refused):
                continue
            share = known.get(library.name)
            saving = call.calls * self._saving(library, call)
            if share is not None:
                saving = share * call.calls * call.seconds
            elif any(known.values()):  # one that is known to gain goes before others
                saving = 0.0
            library.wanted_seconds += saving / (1 + opened)
            if library.price_seconds is None:
                library.price_seconds = OPENING_FELT * self._opening_seconds(library)
                library.saved_seconds = self._saved(library)
            known_to_pay = _beyond(library) > 0
            hoped = library.wanted_seconds + _beyond(library)
            needed = library.price_seconds * (1 if known_to_pay else OPEN_AT)
            if hoped >= needed + (0.0 if known_to_pay else owed):
                worth[library.name] = hoped / max(library.price_seconds, 1e-9)
        if not worth:
            return None
        first = max(worth, key=lambda name: (worth[name], -_preference(name)))
        for library in choices:
            library.wanted_seconds = 0.0
        return next(library for library in choices if library.name == first)

    def _saving(self, library: Library, call: Wanted) -> float:
        """Return what a library may save of a call beyond what is expected of the open ones."""
        saving = self.priors.saving(
            library.name, call.operations, call.size, call.nbytes, call.seconds, call.expected
        )
        return max(0.0, min(saving, call.expected - call.recording))

    def _saved(self, library: Library) -> float | None:
        if not self._program or not self.kept.has(f"saved:{library.label}@"):
            return None  # to tell its version takes longer than to look
        found = self.kept.constant(self._saved_key(library))
        return found if isinstance(found, float) else None

    def _saved_key(self, library: Library) -> str:
        return f"saved:{library.label}@{self.libraries.version(library.name)}:{self._program}"

    @cached_property
    def _program(self) -> str:
        """A digest of the program that this process runs; empty where that is no file."""
        script = sys.argv[0] if sys.argv else ""
        # Only then has it a path: the current folder may be gone.
        return digest(os.path.realpath(script)) if os.path.isfile(script) else ""

    def _none_left(self, library: Library, refused: Collection[str]) -> bool:
        """Return whether all devices that a library had when it was last opened are refused."""
        version = self.libraries.version(library.name)
        devices = self.kept.constant(f"devices:{library.label}@{version}")
        if not isinstance(devices, list) or not all(isinstance(name, str) for name in devices):
            return False
        return bool(devices) and set(devices) <= set(refused)

    def _opening_seconds(self, library: Library) -> float:
        if library.loaded or library.name in sys.modules:
            return 0.05
        measured = self.kept.constant(f"opening:{library.label}")
        assumed = ASSUMED_OPENING_SECONDS.get(library.name, ASSUMED_SECONDS)
        return measured if isinstance(measured, float) else assumed

    def keep_savings(self, kinds: list[Kind]) -> None:
        """Remember what each open library would save if this program ran again, knowing all."""
        if not self._program:
            return
        for library in self.libraries.values():
            if library.opened:
                names = [backend.name for backend in library.devices]
                saved = sum(kind.potential(name) for kind in kinds for name in names)
                self.kept.keep(self._saved_key(library), saved, later=True)


def _beyond(library: Library) -> float:
    """Return what opening a library is known to save in this program: negative for a loss."""
    if library.saved_seconds is None:
        return 0.0
    price = library.price_seconds or 0.0
    saved = library.saved_seconds
    return saved if saved > price else min(0.0, saved) - price


def _preference(name: str) -> int:
    return _ORDER.index(name) if name in _ORDER else len(_ORDER)
