"""Estimate what unopened libraries would save, and when opening one is worth its price."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cached_property
from importlib.util import find_spec
from types import MappingProxyType

from gpuforge.dataclass import dataclass
from gpuforge.digest import digest
from gpuforge.runtime.backends import compiles
from gpuforge.runtime.function.reading import LOOP
from gpuforge.runtime.kept import Kept
from gpuforge.runtime.libraries import Libraries, Library
from gpuforge.runtime.placement.account import Account
from gpuforge.runtime.placement.policy import NUMPYS_OWN, Kind
from gpuforge.runtime.placement.priors import Priors, may_have_gpu

_ORDER = ("jax", "torch", "dpnp", "cupy")
_ORDER_ON_GPUS = ("torch", "cupy", "jax", "dpnp")
"""Order in which equally promising libraries are opened: those that gain on most calls first. On a
GPU, PyTorch moves arrays fastest and compiles nothing."""
ASSUMED_OPENING_SECONDS = {"blocks": 0.03, "jax": 0.9, "torch": 2.0}
ASSUMED_SECONDS = 1.0
ASSUMED_ON_GPUS = 2.5
"""Assumed time to import and test a library that was never opened on this machine.

On a GPU, at least what opening another library took, so that the order decides.

Source: on an H200 beside 16 cores, the first call on a GPU took 4.7 s with PyTorch, the first of
the process; then 1.7 s with CuPy and 1.0 s with JAX. On two cores of an AMD Zen 3 without a GPU,
JAX 0.10 took 0.9 to 1.0 s and PyTorch 2.13 2.1 to 2.4 s.
"""
_WITH_GPUS = {"jax": "jax_plugins"}
"""Packages without which a library has no GPU on Linux.

Source: JAX documentation, "Installation": its GPU support is a plugin.
"""
LOOP_TRIES, LOOP_SECONDS = 3.0, 0.8
"""NumPy in blocks is opened for a function with a loop once it might have saved so many times what
a recorded call may lose, and this many seconds at most, or always if its calls cannot be replayed.
One call is recorded before, to measure what that takes: it may be several times the loop's time."""
OPENING_FELT, OPEN_AT, TRY_AT = 0.75, 1.8, 0.3
"""OPENING_FELT is the share of opening a library in the background by which the program is slowed,
since most of an import holds Python's lock: the price. A library is opened once it might have saved
OPEN_AT times the price, or tried in a process of its own at TRY_AT times the price."""
MAX_SENT_BYTES = 1 << 28
"""Calls with larger arrays are not tried in another process, to which they would be copied."""


@dataclass(frozen=True)
class Wanted:
    """Calls on NumPy, whole or in blocks, that another library might speed up.

    Attributes
    ----------
    seconds : NumPy's time of one call
    calls : number of calls
    expected : expected time of one call on the fastest open backend
    operations, size, nbytes : names in the function's code; elements and bytes of its arrays
    recording : time to record one call, if it was found to matter
    in_blocks : whether it ran in blocks
    varies : whether each call has another graph, which a library would have to compile
    """

    seconds: float
    calls: int
    expected: float
    operations: frozenset[str]
    size: int
    nbytes: int
    recording: float = 0.0
    in_blocks: bool = False
    varies: bool = False


class Demand:
    """What one session's calls would gain from libraries that are not open.

    Attributes
    ----------
    may_try : tells whether a library can be tried in a process of its own before it is opened
    """

    def __init__(self, libraries: Libraries, priors: Priors, account: Account, kept: Kept) -> None:
        self.libraries, self.priors, self.account, self.kept = libraries, priors, account, kept
        self.may_try: Callable[[Library], bool] = lambda library: False
        self._gpus: dict[str, bool] = {}

    def want(
        self, call: Wanted,
        refused: Collection[str] = (), known: Mapping[str, float] = MappingProxyType({}),
        isolate: bool | None = None,
    ) -> Library | None:  # fmt: skip
        """Account for calls on NumPy; return a library to open for calls like them, if any.

        A library is opened once it would have saved its price, and what opening others has cost and
        not yet regained, in calls on which it was measured: one at a time, the most promising
        first, and at a call that gains itself. Where it can be tried without being opened, it is
        returned to be tried once it might have saved `TRY_AT` times its price in other calls; where
        it cannot, it is opened once it might have saved `OPEN_AT` times its price.

        Calls for which all its devices are among those `refused` do not count, and calls in blocks
        only where it was measured or has a GPU. `known` maps libraries to the share of such a call
        that they were measured to save; `isolate` asks for libraries in worker processes.
        """
        opened = sum(one.opened and not one.is_numpy for one in self.libraries.values())
        worth: dict[str, float] = {}
        calls = call.calls * self.account.share_of_time
        choices = self.libraries.choices(isolate)
        for library in choices:
            if self.libraries.is_no_choice(library):
                continue
            if refused and self._none_left(library, refused):
                continue
            share = known.get(library.name)
            if call.in_blocks and share is None and not self._may_use_gpu(library):
                continue
            if call.varies and compiles(library.name):
                continue
            saving = calls * self._saving(library, call)
            if share is not None:
                saving = calls * max(0.0, call.expected - (1 - share) * call.seconds)
            elif any(known.values()) and not library.is_numpy:  # those known to gain come first
                saving = 0.0
            if share is None:
                library.wanted_seconds += saving / (1 + opened)
            else:
                library.missed_seconds += saving
            if library.price_seconds is None:
                library.price_seconds = OPENING_FELT * self._opening_seconds(library)
                library.saved_seconds = self._saved(library)
            hoped, needed = self._balance(library, call, share)
            if saving > 0 and hoped >= needed:
                worth[library.name] = hoped / max(library.price_seconds, 1e-9)
        if not worth:
            return None
        first = max(worth, key=lambda name: (worth[name], -_preference(name)))
        found = next(library for library in choices if library.name == first)
        tried_only = not found.is_numpy and self.is_tried_first(found, call, known.get(first))
        for library in [found] if found.is_numpy or tried_only else choices:
            library.wanted_seconds = 0.0
            library.missed_seconds *= tried_only
        return found

    def is_tried_first(self, library: Library, call: Wanted, share: float | None) -> bool:
        """Return whether a library must be measured on calls like this before it is opened.

        `share` is what it was measured to save of such a call; None if it was not.
        """
        small = call.nbytes <= MAX_SENT_BYTES
        return share is None and small and _beyond(library) <= 0 and self.may_try(library)

    def _balance(self, library: Library, call: Wanted, share: float | None) -> tuple[float, float]:
        """Return what opening a library, or a trial of it, may bring and what it must bring."""
        price = library.price_seconds or 0.0
        beyond = _beyond(library)
        owed = 0.0 if beyond > 0 or library.is_numpy else max(0.0, self.account.lost_seconds)
        if self.is_tried_first(library, call, share):
            return library.wanted_seconds, TRY_AT * price
        if share is not None and self.may_try(library):
            return library.missed_seconds + beyond, price + owed
        needed = price * (1 if beyond > 0 else OPEN_AT)
        if library.is_numpy and LOOP in call.operations:
            from gpuforge.runtime.evaluation.pace import MOST_CALLS, TELLING_SECONDS

            risk = LOOP_TRIES * (MOST_CALLS * call.seconds + TELLING_SECONDS)
            needed = max(needed, LOOP_SECONDS if call.recording else min(risk, LOOP_SECONDS))
        return library.wanted_seconds + library.missed_seconds + beyond, needed + owed

    def _saving(self, library: Library, call: Wanted) -> float:
        """Return what a library may save of a call beyond the best open backend."""
        saving = self.priors.saving(
            library.name, call.operations, call.size, call.nbytes, call.seconds, call.expected,
            on_gpu=self._may_use_gpu(library),
        )  # fmt: skip
        # A library that compiles runs a loop as one program, and calls like it are replayed.
        recording = 0.0 if compiles(library.name) else call.recording
        return max(0.0, min(saving, call.expected - recording))

    def _saved(self, library: Library) -> float | None:
        if not self._program or not self.kept.has(f"saved:{library.label}@"):
            return None  # finding out the version would take longer
        found = self.kept.constant(self._saved_key(library))
        return found if isinstance(found, float) else None

    def _saved_key(self, library: Library) -> str:
        return f"saved:{library.label}@{self.libraries.version(library.name)}:{self._program}"

    @cached_property
    def _program(self) -> str:
        """A digest of the program that this process runs; empty if it is not a file."""
        script = sys.argv[0] if sys.argv else ""
        # Resolve the path only now: the current folder may be gone.
        return digest(os.path.realpath(script)) if os.path.isfile(script) else ""

    def _none_left(self, library: Library, refused: Collection[str]) -> bool:
        """Return whether all devices that a library had when it was last opened are refused."""
        devices = self._devices(library)
        return bool(devices) and set(devices) <= set(refused)

    def _devices(self, library: Library) -> list[str]:
        """Return the devices that a library had when it was last opened; empty if it never was."""
        version = self.libraries.version(library.name)
        found = self.kept.constant(f"devices:{library.label}@{version}")
        is_list = isinstance(found, list) and all(isinstance(name, str) for name in found)
        return list(found) if is_list else []

    def _may_use_gpu(self, library: Library) -> bool:
        """Return whether a library had a GPU when last opened, or may have one if it never was."""
        if library.is_numpy or not may_have_gpu():
            return False
        if library.name not in self._gpus:
            devices = self._devices(library)
            needed = _WITH_GPUS.get(library.name, "") if sys.platform == "linux" else ""
            built = not needed or find_spec(needed) is not None
            built = built and "+cpu" not in self.libraries.version(library.name)
            on_gpus = any(":cpu" not in name for name in devices)
            self._gpus[library.name] = on_gpus if devices else built
        return self._gpus[library.name]

    def _opening_seconds(self, library: Library) -> float:
        from gpuforge.installation import loaded

        if not library.is_numpy and (library.loaded or loaded(library.name)):
            return 0.05
        measured = self.kept.constant(f"opening:{library.label}")
        if isinstance(measured, float):
            return measured
        if self._may_use_gpu(library):
            known = [self.kept.constant(f"opening:{name}") for name in _ORDER_ON_GPUS]
            return max([ASSUMED_ON_GPUS, *(one for one in known if isinstance(one, float))])
        return ASSUMED_OPENING_SECONDS.get(library.name, ASSUMED_SECONDS)

    def keep_savings(self, kinds: list[Kind]) -> None:
        """Store what each open library would save in the next run, with all timings known.

        The one that saves most comes first; what the next would save beside it counts.
        """
        if not self._program:
            return
        tried = self.libraries.tried
        left = [one for one in self.libraries.values() if one.opened or _names(one, tried)]
        others = set(NUMPYS_OWN)
        while left:
            saved = {one.label: _potential(one, tried, kinds, others) for one in left}
            first = max(left, key=lambda one: saved[one.label])
            left.remove(first)
            others |= {*_names(first, tried)}
            if first.opened or saved[first.label] > (first.price_seconds or 0.0):
                self.kept.keep(self._saved_key(first), saved[first.label], later=True)


def _names(library: Library, tried: Iterable[str]) -> list[str]:
    """Return the names of an open library's devices, else of those that were tried."""
    if library.opened:
        return [backend.name for backend in library.devices]
    return [name for name in tried if name.split(":")[0] == library.name]


def _potential(
    library: Library, tried: Iterable[str], kinds: list[Kind], others: set[str]
) -> float:
    beside = NUMPYS_OWN if library.is_numpy else others
    return sum(kind.potential(name, beside) for kind in kinds for name in _names(library, tried))


def _beyond(library: Library) -> float:
    """Return what opening a library is known to save in this program; negative for a loss."""
    if library.saved_seconds is None:
        return 0.0
    price = library.price_seconds or 0.0
    saved = library.saved_seconds
    return saved if saved > price else min(0.0, saved) - price


def _preference(name: str) -> int:
    order = _ORDER_ON_GPUS if may_have_gpu() else _ORDER
    return order.index(name) if name in order else len(order)
