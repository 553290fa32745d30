"""The array libraries that a session may use, and the backends of those that are open."""

from __future__ import annotations

import os
from collections.abc import Callable

from gpuforge.dataclass import dataclass
from gpuforge.errors import UnknownName
from gpuforge.runtime.backends import (
    Backend,
    Failure,
    about,
    check_device,
    device_of,
    installed_version,
    is_on,
    list_backends,
    matches,
    names,
)
from gpuforge.runtime.placement.policy import NUMPY
from gpuforge.runtime.placement.priors import is_for_gpus
from gpuforge.settings import Settings

ISOLATES = os.name == "posix"
"""Whether worker processes are supported: shared memory is passed to them over a socket."""


@dataclass
class Library:
    """One installed array library of a session, in this process or in a worker process.

    Attributes
    ----------
    isolated : whether its devices compute in a worker process
    loaded : whether the user's program had imported it when the session began
    version : from its package metadata, once requested
    named_only : whether it is used only when named
    wanted_seconds : optimistic estimate of what it might have saved so far
    missed_seconds : what it would have saved so far in calls on which it was measured
    untriable : whether it cannot be tried in a process of its own
    saved_seconds : what it saved in the program's last run, without its opening; None if unknown
    price_seconds : expected time to open it, once requested
    devices : its backends, once opened
    failures : its devices that cannot be used, with reasons
    """

    name: str
    loaded: bool = False
    named_only: bool = False
    version: str | None = None
    wanted_seconds: float = 0.0
    missed_seconds: float = 0.0
    untriable: bool = False
    saved_seconds: float | None = None
    price_seconds: float | None = None
    opened: bool = False
    opening_seconds: float = 0.0
    devices: tuple[Backend, ...] = ()
    failures: tuple[Failure, ...] = ()
    isolated: bool = False

    @property
    def label(self) -> str:
        """Its name in the history."""
        return f"{self.name}:worker" if self.isolated else self.name

    @property
    def is_numpy(self) -> bool:
        """Whether it is another way to use NumPy, so that nothing needs to be imported."""
        return about(self.name)[0] == NUMPY


class Libraries(dict[str, Library]):
    """The installed libraries that the settings allow, by name, each in its default form.

    Attributes
    ----------
    measured : tells whether a calibration exists for a library that is otherwise for GPUs only
    twins : libraries in the other form (this process or a worker), once a function asked for it
    asked_for : libraries that a pinned function or a caller named
    tried : versions of the devices that were tried in a process of their own
    """

    def __init__(self, chosen: Settings) -> None:
        self.settings = chosen
        self.asked_for: set[str] = set()
        self.tried: dict[str, str] = {}
        self.measured: Callable[[str], bool] = lambda name: False
        self.twins: dict[str, Library] = {}
        self._usable: dict[tuple[str, bool | None], list[Backend]] = {}
        if chosen.device:
            check_device(chosen.device)
        wanted = (chosen.backend, *chosen.backends, *chosen.forbid)
        plugins = chosen.plugins or not _known(wanted, names())
        self.check_names(wanted, names(plugins=plugins))
        super().__init__(
            (one.name, Library(one.name, one.loaded, one.named_only,
                               isolated=one.named_only and ISOLATES))
            for one in list_backends(plugins=plugins)
            if one.found and one.name != NUMPY and self._allowed(one.name)
        )  # fmt: skip

    @staticmethod
    def check_names(wanted: tuple[str, ...], known: tuple[str, ...]) -> None:
        """Raise UnknownName for the first name that is not a backend."""
        for name in wanted:
            if not _known((name,), known):
                raise UnknownName.among("backend", name, known)

    def _allowed(self, library: str) -> bool:
        only = [name.split(":")[0] for name in self.settings.backends]
        return (not only or library in only) and library not in self.settings.forbid

    def ask_for(self, name: str) -> Library | None:
        """Return a library by name; None if it is not installed or not allowed.

        Raises
        ------
        UnknownName
            If no backend has that name.
        """
        if name not in self.asked_for:
            self.asked_for.add(name)
            self._usable.clear()
        if name not in self and name not in names():
            self.check_names((name,), names(plugins=True))
            for entry in list_backends(plugins=True):
                if entry.name == name and entry.found and self._allowed(name):
                    self[name] = Library(name, loaded=entry.loaded)
        return self.get(name)

    def form(self, name: str, isolate: bool | None) -> Library | None:
        """Return a library by name in the wanted form, in a worker process or in this one.

        None if it is not installed or not allowed; raises as `ask_for`.
        """
        if name == NUMPY:
            return self.twins.setdefault(NUMPY, Library(NUMPY, isolated=True))
        library = self.ask_for(name)
        return library if library is None or isolate is None else self._formed(library, isolate)

    def _formed(self, library: Library, isolate: bool) -> Library:
        if library.isolated == isolate:
            return library
        made = Library(library.name, library.loaded, library.named_only, isolated=isolate)
        return self.twins.setdefault(library.name, made)

    def choices(self, isolate: bool | None) -> list[Library]:
        """Return all libraries in the wanted form."""
        if isolate is None:
            return list(self.values())
        return [self._formed(library, isolate) for library in self.values()]

    def isolate(self, name: str) -> None:
        """Make a library compute in a worker process by default."""
        library = self.get(name)
        if library is not None and not library.isolated and ISOLATES:
            self[name] = self._formed(library, True)
            self.twins[name] = library
            self._usable.clear()

    def take_in(self, library: Library, devices: tuple[Backend, ...]) -> None:
        """Add the devices of an opened library."""
        library.devices = devices
        self._usable.clear()

    def usable(self, backend: Backend, device: str = "") -> bool:
        """Return whether the settings allow `backend`."""
        return not (
            not self.allows(backend.name, device)
            or (self.settings.deterministic and not backend.deterministic)
            or (backend.dies_when_short and not self._named(backend.name.split(":")[0]))
        )

    def allows(self, name: str, device: str = "") -> bool:
        """Return whether the settings, and a function's `device`, allow a backend by its name."""
        chosen = self.settings
        return not (
            (chosen.backends and not matches(name, chosen.backends))
            or matches(name, chosen.forbid)
            or (chosen.cpu_only and device_of(name) != "cpu")
            or any(wanted and not is_on(name, wanted) for wanted in (chosen.device, device))
        )

    def backends(self, device: str = "", isolate: bool | None = None) -> list[Backend]:
        """Return the open backends, NumPy excluded, that the settings and a function allow.

        One that ends this process when memory is short is included only if it was named.
        """
        found = self._usable.get((device, isolate))
        if found is None:
            devices = [b for library in self.choices(isolate) for b in library.devices]
            found = [backend for backend in devices if self.usable(backend, device)]
            self._usable[device, isolate] = found
        return found

    def every(self) -> list[Backend]:
        """Return all open backends that the settings allow, in this process and in workers."""
        twins = [b for library in self.twins.values() for b in library.devices]
        return [*self.backends(), *(backend for backend in twins if self.usable(backend))]

    def _named(self, library: str) -> bool:
        asked = (self.settings.backend, *self.settings.backends, *self.asked_for)
        return any(name.split(":")[0] == library for name in asked if name)

    def is_no_choice(self, library: Library) -> bool:
        """Return whether a library is open, used only when named, or cannot gain here.

        Libraries for GPUs do not gain without one, nor does NumPy in a worker process.
        """
        if library.opened or (library.is_numpy and library.isolated):
            return True
        ends_process = library.named_only and not library.isolated
        for_gpus = is_for_gpus(library.name) and not self.measured(library.name)
        only_named = ends_process or for_gpus
        return only_named and not self._named(library.name)

    def version(self, name: str) -> str:
        """Return the version of a backend's library without importing it."""
        library = self.get(name.split(":")[0])
        if library is None:
            return ""
        if library.version is None:
            library.version = installed_version(library.name)
        return library.version


def _known(wanted: tuple[str, ...], known: tuple[str, ...]) -> bool:
    return all(name.split(":")[0] in known for name in wanted if name)
