"""GPU detection for every vendor, each fact with the source ("route") that reported it.

A module of this package with a ``detect(probe) -> Seen`` is a detector; the others merge, score
and cache what the detectors report. ``gpuforge.detect`` is a package and also callable:
``gpuforge.detect(probe=None, *, refresh=False, cpu_only=None)`` calls `read_machine`.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from gpuforge.facts import Device, Machine
from gpuforge.probe import LiveProbe, Probe

if TYPE_CHECKING:
    from gpuforge.detect.machine import detect_machine
    from gpuforge.settings import Settings

__all__ = ["best_device", "detect", "detect_async", "detect_machine", "read_machine"]


def read_machine(
    probe: Probe | None = None,
    *,
    refresh: bool = False,
    cpu_only: bool | None = None,
    settings: Settings | None = None,
) -> Machine:
    """Return the GPUs and the CPU of this machine.

    Parameters
    ----------
    probe
        Where to read from, such as a `gpuforge.probe.SnapshotProbe`; this machine by default.
    refresh
        Detect again even if a recent result is cached.
    cpu_only
        Leave GPUs out; defaults to the setting ``cpu_only``.
    settings
        Settings to use instead of the current ones.

    Returns
    -------
    Machine
        Devices, failures, host and best device. A vendor that fails is reported in the result
        and never raises.
    """
    from gpuforge import settings as settings_module

    chosen = settings or settings_module.load().settings
    live = probe or LiveProbe()
    if chosen.cpu_only if cpu_only is None else cpu_only:
        from gpuforge.detect.host import read_host

        started = live.clock()
        host = read_host(live)
        return Machine("no_gpu", host=host, elapsed_seconds=live.clock() - started)
    if not isinstance(live, LiveProbe):
        return _detect(live, chosen)
    return _cached(live, chosen, refresh)


if TYPE_CHECKING:
    detect = read_machine
else:
    detect = sys.modules[__name__]


def _cached(probe: LiveProbe, settings: Settings, refresh: bool) -> Machine:
    from dataclasses import replace

    from gpuforge import settings as settings_module
    from gpuforge.detect.cache import Cache

    started = probe.clock()
    folder = settings_module.cache_folder(settings) / "detect"
    cache = Cache(folder, settings.cache_seconds)
    machine = cache.get(probe) if settings.detect_cache and not refresh else None
    if machine is not None:
        return replace(machine, elapsed_seconds=probe.clock() - started)
    machine = _detect(probe, settings, crumbs=folder)
    if cache.rebuilt:
        note = "the cache was damaged and has been rebuilt"
        machine = replace(machine, notes=(*machine.notes, note))
    if settings.detect_cache and not machine.failures:
        cache.put(probe, machine)
    return machine


def _detect(probe: Probe, settings: Settings, **more: Any) -> Machine:
    from gpuforge.detect.machine import detect_machine

    return detect_machine(
        probe,
        vendor_seconds=settings.vendor_seconds,
        parallel=settings.detect_parallel,
        plugins=settings.detect_plugins,
        **more,
    )


async def detect_async(probe: Probe | None = None, *, refresh: bool = False) -> Machine:
    """Return this machine without blocking the event loop."""
    import asyncio

    return await asyncio.to_thread(read_machine, probe, refresh=refresh)


def best_device() -> Device | None:
    """Return the highest-scoring device that this process may use, or None."""
    machine = read_machine()
    return next((d for d in machine.devices if d.index == machine.best_device), None)


def __getattr__(name: str) -> Any:
    if name == "detect_machine":
        from gpuforge.detect.machine import detect_machine

        return detect_machine
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class _Package(ModuleType):
    """A callable package: both ``gpuforge.detect()`` and ``import gpuforge.detect`` work."""

    def __call__(self, *arguments: Any, **options: Any) -> Machine:
        return read_machine(*arguments, **options)


sys.modules[__name__].__class__ = _Package
