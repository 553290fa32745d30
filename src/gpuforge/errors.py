"""Every error that gpuforge raises on purpose.

::

    GpuForgeError
    ├── InvalidSettings        a setting, file or flag has an invalid value  (ValueError)
    ├── UnknownName            a name that is not registered  (LookupError)
    ├── BackendUnavailable     the backend asked for is not there or does not work
    ├── EnvironmentMismatch    builds that cannot work together or on this machine
    ├── PlanRefused            a change that would not be safe
    ├── DeviceOutOfMemory      a device has too little memory  (MemoryError)
    ├── DeviceLost             a device failed, and this process cannot use it any more
    ├── WorkerDied             a worker process ended while it computed
    ├── ClusterUnavailable     a cluster that cannot be reached, or that is gone
    ├── TaskTimeout            a task took longer than its timeout  (TimeoutError)
    ├── TaskCancelled          a task was cancelled  (concurrent.futures.CancelledError)
    ├── ExecutorClosed         an executor that was shut down takes no more tasks  (RuntimeError)
    └── WorkloadError          a program, file or input that cannot be used  (ValueError)

The message says what was found, where, and what was expected; ``hint`` is one thing to do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

TYPE_CHECKING = False  # as in `gpuforge`: `typing` takes 5 ms
if TYPE_CHECKING:
    from concurrent.futures import CancelledError


class GpuForgeError(Exception):
    """The root of the tree.

    Parameters
    ----------
    message
        What was found, where, and what was expected instead.
    hint
        One thing the reader can do about it; empty when there is none. A traceback shows it too.
    """

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint
        if hint:
            self.add_note(f"hint: {hint}")

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), str(self.args[0]), self.hint), vars(self))


def _rebuild(kind: type[GpuForgeError], message: str, hint: str) -> GpuForgeError:
    return kind(message, hint=hint)


class InvalidSettings(GpuForgeError, ValueError):
    """A setting, settings file or flag has an invalid value."""


class UnknownName(GpuForgeError, LookupError):
    """A name that is not registered."""

    @classmethod
    def among(
        cls, what: str, name: str, known: Iterable[str], *, hint: str = "", listing: str = ""
    ) -> UnknownName:
        """Return the error for `name`; its hint is the nearest of `known`, or how to list them."""
        hint = hint or suggestion(name, sorted(known))
        if listing and hint.startswith("known: "):
            hint = f"list them with '{listing}'"
        return cls(f"unknown {what} {name!r}", hint=hint)


class BackendUnavailable(GpuForgeError):
    """The backend asked for is not installed, does not import or does not compute."""


class EnvironmentMismatch(GpuForgeError):
    """Builds that cannot work together or on this machine."""


class PlanRefused(GpuForgeError):
    """A change that would not be safe is not made."""


class DeviceOutOfMemory(GpuForgeError, MemoryError):
    """A device has less free memory than a call needs."""


class DeviceLost(GpuForgeError):
    """A device failed, and this process cannot use it any more; another process may."""


class WorkerDied(GpuForgeError):
    """A worker process ended while it computed. The message says how, and what was done again.

    Attributes
    ----------
    status
        As in `subprocess`: a negative signal, or the exit status; None where it is not known.
    backend, function
        What ran in it; empty where that is not known.
    """

    status: int | None = None
    backend: str = ""
    function: str = ""


class ClusterUnavailable(GpuForgeError):
    """A cluster cannot be reached, or its scheduler is gone."""


class TaskTimeout(GpuForgeError, TimeoutError):
    """A task, or a map over items, took longer than its timeout.

    Attributes
    ----------
    done : of a map, what finished in time: (place of the item, result), in that order
    """

    done: Sequence[tuple[int, object]] = ()


class ExecutorClosed(GpuForgeError, RuntimeError):
    """An executor that was shut down takes no more tasks."""


class WorkloadError(GpuForgeError, ValueError):
    """A program, file or input that cannot be used."""


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
