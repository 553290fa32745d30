"""Every error that gpuforge raises on purpose.

::

    GpuForgeError
    ├── InvalidSettings        a setting, file or flag has an invalid value  (ValueError)
    ├── UnknownName            a name that is not registered  (LookupError)
    ├── BackendUnavailable     the backend asked for is not there or does not work
    ├── EnvironmentMismatch    builds that cannot work together or on this machine
    ├── PlanRefused            a change that would not be safe
    ├── DeviceOutOfMemory      a device has too little memory  (MemoryError)
    ├── WorkloadError          a program, file or input that cannot be used  (ValueError)
    ├── TaskTimeout            a task took longer than its timeout  (TimeoutError)
    ├── TaskCancelled          a task was cancelled  (concurrent.futures.CancelledError)
    └── ExecutorClosed         an executor that was shut down takes no more tasks  (RuntimeError)

The message says what was found, where, and what was expected; ``hint`` is one thing to do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from concurrent.futures import CancelledError


class GpuForgeError(Exception):
    """The root of the tree.

    Parameters
    ----------
    message
        What was found, where, and what was expected instead.
    hint
        One thing the reader can do about it; empty when there is none.
    """

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), str(self.args[0]), self.hint))


def _rebuild(kind: type[GpuForgeError], message: str, hint: str) -> GpuForgeError:
    return kind(message, hint=hint)


class InvalidSettings(GpuForgeError, ValueError):
    """A setting, settings file or flag has an invalid value."""


class UnknownName(GpuForgeError, LookupError):
    """A name that is not registered."""

    @classmethod
    def among(cls, what: str, name: str, known: Iterable[str], *, hint: str = "") -> UnknownName:
        """Return the error for `name`, with the nearest of `known` as its hint."""
        return cls(f"unknown {what} {name!r}", hint=hint or suggestion(name, sorted(known)))


class BackendUnavailable(GpuForgeError):
    """The backend asked for is not installed, does not import or does not compute."""


class EnvironmentMismatch(GpuForgeError):
    """Builds that cannot work together or on this machine."""


class PlanRefused(GpuForgeError):
    """A change that would not be safe is not made."""


class DeviceOutOfMemory(GpuForgeError, MemoryError):
    """A device has less free memory than a call needs."""


class WorkloadError(GpuForgeError, ValueError):
    """A program, file or input that cannot be used."""


class TaskTimeout(GpuForgeError, TimeoutError):
    """A task took longer than its timeout: its call was abandoned, or never started."""


class ExecutorClosed(GpuForgeError, RuntimeError):
    """An executor that was shut down takes no more tasks."""


if TYPE_CHECKING:

    class TaskCancelled(GpuForgeError, CancelledError):
        """A task was cancelled before it was done."""


def __getattr__(name: str) -> type[GpuForgeError]:
    """Make ``TaskCancelled`` when it is first asked for: importing its base takes milliseconds."""
    if name != "TaskCancelled":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from concurrent.futures import CancelledError

    text = "A task was cancelled before it was done."
    made = type(name, (GpuForgeError, CancelledError), {"__module__": __name__, "__doc__": text})
    return globals().setdefault(name, made)  # type: ignore[no-any-return]


def suggestion(name: str, known: Collection[str]) -> str:
    """Return a hint for a name that is none of `known`: the nearest one, else all of them."""
    near = nearest(name, known)
    return f"did you mean {near!r}?" if near else f"known: {', '.join(known) or 'none'}"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the one of `known` that `name` was probably meant to be, or None."""
    import difflib

    folded = {choice.casefold(): choice for choice in known}
    matches = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.6)
    return folded[matches[0]] if matches else None
