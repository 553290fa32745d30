"""The array libraries that a session may use, and the backends of those that are open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuforge.errors import UnknownName
from gpuforge.runtime.backends import (
    Backend,
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

if TYPE_CHECKING:
    from gpuforge.runtime.evaluation.opening import Failure


@dataclass
class Library:
    """One installed array library of a session.

    Attributes
    ----------
    loaded : whether the user's program had imported it when the session began
    version : as its package says, once that was asked
    named_only : whether it is used by those only who name it
    wanted_seconds : what it might have saved so far, at best
    saved_seconds : what it saved when this program ran last, opening it left out; None: not known
    price_seconds : what opening it is expected to take, once that was asked
    devices : its backends once it was opened
    failures : those of its devices that cannot be used, and why
    """

    name: str
    loaded: bool = False
    named_only: bool = False
    version: str | None = None
    wanted_seconds: float = 0.0
    saved_seconds: float | None = None
    price_seconds: float | None = None
    opened: bool = False
    opening_seconds: float = 0.0
    devices: tuple[Backend, ...] = ()
    failures: tuple[Failure, ...] = ()


class Libraries(dict[str, Library]):
    """The installed libraries that the settings allow, by name.

    Attributes
    ----------
    asked_for : those that a pinned function or a caller named
    """

    def __init__(self, chosen: Settings) -> None:
        self.settings = chosen
        self.asked_for: set[str] = set()
        self._usable: dict[str, list[Backend]] = {}
        if chosen.device:
            check_device(chosen.device)
        wanted = (chosen.backend, *chosen.backends, *chosen.forbid)
        plugins = chosen.plugins or not _known(wanted, names())
        self.check_names(wanted, names(plugins=plugins))
        super().__init__(
            (entry.name, Library(entry.name, loaded=entry.loaded, named_only=entry.named_only))
            for entry in list_backends(plugins=plugins)
            if entry.found and entry.name != NUMPY and self._allowed(entry.name)
        )

    @staticmethod
    def check_names(wanted: tuple[str, ...], known: tuple[str, ...]) -> None:
        """Raise UnknownName for the first name that no backend has."""
        for name in wanted:
            if not _known((name,), known):
                raise UnknownName.among("backend", name, known)

    def _allowed(self, library: str) -> bool:
        only = [name.split(":")[0] for name in self.settings.backends]
        return (not only or library in only) and library not in self.settings.forbid

    def ask_for(self, name: str) -> Library | None:
        """Return a library that somebody named; None where it is not installed or not allowed.

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

    def take_in(self, library: Library, devices: tuple[Backend, ...]) -> None:
        """Let the devices of a library that was opened be used."""
        library.devices = devices
        self._usable.clear()

    def usable(self, backend: Backend, device: str = "") -> bool:
        """Return whether the settings let `backend` be used at all."""
        chosen = self.settings
        place = device_of(backend.name)
        return not (
            (chosen.backends and not matches(backend.name, chosen.backends))
            or matches(backend.name, chosen.forbid)
            or (chosen.cpu_only and place != "cpu")
            or any(wanted and not is_on(backend.name, wanted) for wanted in (chosen.device, device))
            or (chosen.deterministic and not backend.deterministic)
            or (backend.dies_when_short and not self._named(backend.name.split(":")[0]))
        )

    def backends(self, device: str = "") -> list[Backend]:
        """Return the open backends besides NumPy that the settings allow.

        One that ends the process where memory is short is used only by those who name it.
        """
        found = self._usable.get(device)
        if found is None:
            devices = [b for library in self.values() for b in library.devices]
            found = [backend for backend in devices if self.usable(backend, device)]
            self._usable[device] = found
        return found

    def _named(self, library: str) -> bool:
        asked = (self.settings.backend, *self.settings.backends, *self.asked_for)
        return any(name.split(":")[0] == library for name in asked if name)

    def is_no_choice(self, library: Library) -> bool:
        """Return whether a library is open already, is for those who name it, or for GPUs alone."""
        if library.opened:
            return True
        only_named = library.named_only or is_for_gpus(library.name)
        return only_named and not self._named(library.name)

    def version(self, name: str) -> str:
        """Return the version of a backend's library, which is not imported for it."""
        library = self.get(name.split(":")[0])
        if library is None:
            return ""
        if library.version is None:
            library.version = installed_version(library.name)
        return library.version


def _known(wanted: tuple[str, ...], known: tuple[str, ...]) -> bool:
    return all(name.split(":")[0] in known for name in wanted if name)
