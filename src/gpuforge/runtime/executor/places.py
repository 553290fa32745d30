"""The lanes of a dispatcher, and which of them may run a function."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from gpuforge.errors import InvalidSettings, UnknownName
from gpuforge.runtime.backends import GPUS, Backend, device_of, is_on, matches
from gpuforge.runtime.executor.dispatcher import Dispatcher
from gpuforge.runtime.executor.lane import CPU, HOST, Lane
from gpuforge.runtime.executor.quota import Quota
from gpuforge.runtime.function.options import Options
from gpuforge.runtime.session import Session, current_session

HOST_THREADS = min(32, (os.cpu_count() or 1) + 4)
"""The default of `concurrent.futures.ThreadPoolExecutor`."""


def place_of(name: str) -> str:
    """Return the device of a backend with its index: ``cuda:0`` of ``torch:cuda:0``."""
    return name.partition(":")[2] or CPU


class Places:
    """The lanes of one dispatcher.

    Without named devices there is one lane for the CPU and one for each GPU on which the session
    has opened a library. With names, each is a lane whose calls stay on that backend.

    Raises
    ------
    UnknownName, BackendUnavailable
        If a named device does not exist or cannot be used.
    InvalidSettings
        If a quota names no lane.
    """

    def __init__(
        self, dispatcher: Dispatcher, devices: Iterable[str] = (),
        quotas: Mapping[str, Quota] | None = None,
    ) -> None:  # fmt: skip
        self.dispatcher = dispatcher
        self.quotas = dict(quotas or {})
        for name, quota in self.quotas.items():
            if not isinstance(quota, Quota):
                raise InvalidSettings(f"the quota for {name!r} is {quota!r}, not a Quota")
        self._seen: list[Backend] | None = None
        self._lanes: tuple[str, ...] = ()
        self.named = tuple(dict.fromkeys(current_session().find(one).name for one in devices))
        self._open(HOST, HOST_THREADS)
        for name in self.named or (CPU,):
            self._open(name, backend=name if self.named else "")
        self._lanes = self.named or (CPU,)
        self._check_quotas()

    def _open(self, name: str, width: int = 1, device: str = "", backend: str = "") -> None:
        lane = Lane(name, width, device, backend)
        for wanted, quota in self.quotas.items():
            if _covers(wanted, name):
                lane.restrict(quota)
        self.dispatcher.add_lane(lane)

    def _check_quotas(self) -> None:
        lanes = self.dispatcher.schedule.lanes
        for name in self.quotas:
            later = not self.named and any(part in GPUS for part in name.split(":"))
            if not later and not any(_covers(name, lane) for lane in lanes):
                raise UnknownName.among("device of a quota", name, lanes)

    def lanes(self, options: Options | None, session: Session) -> tuple[str, ...]:
        """Return the lanes that may run a function; None stands for one of the host."""
        if options is None:
            return (HOST,)
        if not self.named:
            self._look(session)
        if len(self._lanes) == 1:
            return self._lanes
        if options.backend:
            return self._pinned(session.find(options.backend, device=options.device).name)
        if options.device:
            names = tuple(one for one in self._lanes if is_on(_full(one), options.device))
            return names or self._lanes[:1]
        return self._lanes

    def _pinned(self, name: str) -> tuple[str, ...]:
        found = [one for one in self._lanes if matches(name, [one]) or one == place_of(name)]
        return (found[0] if found else self._lanes[0],)

    def _look(self, session: Session) -> None:
        """Open a lane for each GPU that the session has started to use."""
        found = session.backends()
        if found is self._seen:
            return
        self._seen = found
        gpus = dict.fromkeys(place_of(b.name) for b in found if device_of(b.name) != CPU)
        for name in gpus:
            self._open(name, device=name)
        self.dispatcher.schedule.lanes[CPU].device = CPU if gpus else ""
        self._lanes = (CPU, *gpus)


def _covers(quota: str, lane: str) -> bool:
    """Return whether a quota applies to a lane: ``cuda`` and ``torch:cuda:0`` to ``cuda:0``."""
    device = ":" in quota and place_of(quota) == lane
    return matches(lane, [quota]) or device


def _full(lane: str) -> str:
    """Return the name of a lane as a backend name."""
    return lane if lane.count(":") == 2 or lane.endswith(f":{CPU}") else f":{lane}"
