"""What is sent to workers and back: functions, chunks of items, and outcomes."""

from __future__ import annotations

import pickle
import platform
from collections import OrderedDict
from collections.abc import Callable, Sequence
from hashlib import blake2b
from threading import Lock
from time import perf_counter
from typing import Any, NamedTuple

from gpuforge import __version__
from gpuforge.errors import EnvironmentMismatch, WorkloadError
from gpuforge.history import Rows
from gpuforge.runtime.executor.cluster.learning import learned_lately
from gpuforge.runtime.executor.running import options_of
from gpuforge.runtime.executor.together import call_together

MAX_FUNCTIONS = 64
"""Size of a worker's cache of functions (least recently used)."""
HERE = (__version__, ".".join(platform.python_version_tuple()[:2]))
"""The versions of gpuforge and Python, which must be the same on both sides."""

Outcome = tuple[bool, Any]
"""Whether an item succeeded, and the result or the exception."""


class Done(NamedTuple):
    """What a worker returns for a chunk.

    Attributes
    ----------
    outcomes : the pickled list of outcomes
    seconds : time of the function for all items
    learned : what the worker learned since its last report; usually empty
    """

    outcomes: bytes
    seconds: float
    learned: Rows


class ItemsFailed(Exception):
    """Items of a chunk failed, so Dask should retry it; carries the outcomes."""


class Ended(Exception):
    """A call raised what is no `Exception`, such as SystemExit, which would end the worker."""


class Function:
    """A pickled function. Each process unpickles it once, so that learned timings persist."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.payload = pack(function)
        self.digest = blake2b(self.payload, digest_size=16).hexdigest()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.made()(*args, **kwargs)

    def __dask_tokenize__(self) -> str:
        return self.digest

    def made(self) -> Callable[..., Any]:
        """Return the function itself.

        Raises
        ------
        WorkloadError
            If it cannot be loaded in this process.
        """
        with _lock:
            found = _made.get(self.digest)
            if found is None:
                found = _made[self.digest] = self._load()
            _made.move_to_end(self.digest)
            if len(_made) > MAX_FUNCTIONS:
                _made.popitem(last=False)
        return found

    def _load(self) -> Callable[..., Any]:
        try:
            made: Callable[..., Any] = pickle.loads(self.payload)
        except Exception as error:
            raise WorkloadError(
                f"a worker on {platform.node()} cannot make the function:"
                f" {type(error).__name__}: {error}",
                hint="install its module on the workers, or call"
                " cloudpickle.register_pickle_by_value(module) first",
            ) from error
        return made


_made: OrderedDict[str, Callable[..., Any]] = OrderedDict()
_lock = Lock()


def pack(value: Any) -> bytes:
    """Pickle a value; definitions of ``__main__``, closures and lambdas by value."""
    import cloudpickle

    try:
        data = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    except Exception:  # noqa: BLE001 - the next attempt reports a lasting failure
        data = b"__main__"
    if b"__main__" in data or cloudpickle.list_registry_pickle_by_value():
        data = cloudpickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    return data


def run_chunk(versions: tuple[str, str], function: Function, items: bytes, again: bool) -> Done:
    """Call the function for each item, on a worker.

    With `again`, failures are raised together, so that Dask retries the chunk.
    """
    check_versions(versions)
    called = function.made()
    values = pickle.loads(items)
    start = perf_counter()
    outcomes = _outcomes(called, values)
    seconds = perf_counter() - start
    done = Done(_packed(outcomes), seconds, learned_lately())
    if again and not all(good for good, _ in outcomes):
        raise ItemsFailed(done)
    return done


def _outcomes(function: Any, values: Sequence[Any]) -> list[Outcome]:
    """Return the outcome of each item; an offloaded function is called in batches."""
    if options_of(function) is None:
        return [outcome(function, value) for value in values]
    try:
        found = call_together(function, [((value,), {}) for value in values])
    except BaseException as error:  # noqa: BLE001 - it ends a map here, too
        raise _harmless(error) from None
    return [(True, one.value) if one.error is None else _failed(one.error) for one in found]


def run_call(
    versions: tuple[str, str], function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Make one call, on a worker."""
    check_versions(versions)
    try:
        return function.made()(*args, **kwargs)
    except BaseException as error:  # noqa: BLE001 - raised again, in a form that can be sent
        found = _portable(error)
    raise _harmless(found)  # out here, where it has no context that cannot be sent


def same(value: Any) -> Any:
    """Return a value: as a Dask task it is sent once, and recomputed if a worker is lost."""
    return value


def check_versions(client: tuple[str, str]) -> None:
    """Raise EnvironmentMismatch unless this process has the versions of the client."""
    if client != HERE:
        raise EnvironmentMismatch(
            f"a worker on {platform.node()} has gpuforge {HERE[0]} on Python {HERE[1]},"
            f" the client has gpuforge {client[0]} on Python {client[1]}",
            hint="install the same versions on both sides",
        )


def outcome(function: Callable[..., Any], value: Any) -> Outcome:
    """Return the result for one item, or the exception in its place."""
    try:
        return True, function(value)
    except BaseException as error:  # noqa: BLE001 - the caller raises it at its place
        return _failed(error)


def _failed(error: BaseException) -> Outcome:
    """Return the outcome of an item that raised, with a traceback from the function on."""
    if error.__traceback__ is not None:
        error.__traceback__ = error.__traceback__.tb_next or error.__traceback__
    return False, _portable(error)


def _packed(outcomes: Sequence[Outcome]) -> bytes:
    try:
        return pack(outcomes)
    except Exception:  # noqa: BLE001 - each result that cannot be sent says so at its place
        return pack([_sendable(one) for one in outcomes])


def _sendable(one: Outcome) -> Outcome:
    try:
        pack(one)
    except Exception as error:  # noqa: BLE001 - becomes the error of the item
        kind = type(one[1]).__name__
        return False, WorkloadError(
            f"the result, a {kind}, cannot be sent back: {type(error).__name__}: {error}",
            hint="return arrays, numbers or plain objects",
        )
    return one


def _harmless(error: BaseException) -> Exception:
    """Return what a worker may raise: the exception itself, or one that carries it."""
    return error if isinstance(error, Exception) else Ended(error)


def _portable(error: BaseException) -> BaseException:
    """Return an exception if it can be pickled, with its traceback; else one that quotes it."""
    from tblib import pickling_support

    pickling_support.install(error)
    try:
        pickle.loads(pack(error))
    except Exception:  # noqa: BLE001 - pickling an exception may fail in any way
        return RuntimeError(f"{type(error).__module__}.{type(error).__qualname__}: {error}")
    return error
