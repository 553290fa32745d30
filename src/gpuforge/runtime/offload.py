"""``@gpuforge.offload``: run each call of a function on the backend that finishes it first.

A call whose signature is known to stay on NumPy costs less than a microsecond: build a key from
dtypes, shapes and strides, look it up, call the function as written. All other calls go through
`gpuforge.runtime.execution.considered`.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Coroutine, Iterable
from contextlib import nullcontext
from operator import length_hint
from time import perf_counter
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, Unpack, overload
from weakref import WeakValueDictionary

import numpy as np

from gpuforge import trace
from gpuforge.errors import InvalidSettings, UnknownName
from gpuforge.runtime.context import current
from gpuforge.runtime.function.key import Place, hot_key
from gpuforge.runtime.function.naming import name_of
from gpuforge.runtime.function.options import MapOptions, Options
from gpuforge.runtime.prelude import prelude
from gpuforge.runtime.short import FEW, SHORT_SECONDS, SKIP_MASK, ShortCalls

if TYPE_CHECKING:
    from concurrent.futures import Future

    from gpuforge.runtime.execution.explanation import Explanation
    from gpuforge.runtime.prelude import Early
    from gpuforge.runtime.record import CachedDecision, FunctionRecord
    from gpuforge.runtime.session import Session

P = ParamSpec("P")
R = TypeVar("R")
_ndarray = np.ndarray
_DEFERRED = 0x20 | 0x80 | 0x200
"""Code flags of generators, coroutines and asynchronous generators (see `inspect`)."""
_NO_LIMIT = nullcontext()
_COPIED = (*functools.WRAPPER_ASSIGNMENTS, "__defaults__", "__kwdefaults__")


class Offloaded(Generic[P, R]):
    """A function whose calls are placed one by one. Made by `offload`."""

    # `functools.wraps` around an offloaded function replaces `__wrapped__` and updates `__dict__`.
    __slots__ = ("__dict__", "__weakref__", "_early", "_function", "_hot", "_options", "_short")
    _is_offloaded = True  # asked of the type, since other objects may answer to any name

    def __init__(self, function: Callable[P, R], options: Options) -> None:
        self.__qualname__: str = ""
        _copy_metadata(self, function)
        self.__wrapped__ = self._function = function
        self._options = options
        self._early: Early | None = None
        self._short: ShortCalls | None = None
        self._hot: tuple[Session | None, dict[Any, CachedDecision], frozenset[Place]]
        self._hot = (None, {}, frozenset())

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        short = self._short
        skip = short.skip(args, kwargs) if short is not None else False
        if skip:
            return self._function(*args, **kwargs) if kwargs else self._function(*args)  # type: ignore[call-arg]
        context, table, changing = self._hot
        if not table:
            return self._considered(args, kwargs)  # type: ignore[no-any-return]
        if kwargs or len(args) != 1 or type(args[0]) is not _ndarray:
            hot = hot_key(args, kwargs, changing)
        else:
            array = args[0]
            hot = array.dtype, array.shape, array.strides
        held = table.get(hot)
        if held is None or held.left <= 0 or current.get() is not context:
            return self._considered(args, kwargs)  # type: ignore[no-any-return]
        if skip is False and held.short and held.plain and next(held.short.ticks) & SKIP_MASK:
            return self._function(*args, **kwargs)  # `_short` covers another signature
        held.left -= 1
        if held.call is None:
            return self._timed(held, args, kwargs)  # type: ignore[no-any-return]
        return held.call(held, args, kwargs)  # type: ignore[no-any-return]

    def _timed(self, held: CachedDecision, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the function as written under a cached decision, and record how long it took."""
        with held.limit.one_thread() if held.limit else _NO_LIMIT:
            start = perf_counter()
            result = self._function(*args, **kwargs)
            seconds = perf_counter() - start
            held.timed.append(seconds)
        if held.plain and seconds > SHORT_SECONDS:
            held.plain = False  # inspect and time each call until the decision expires
            if self._short is held.short:
                self._short = None
        return result

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else BoundOffloaded(self, instance)

    def __reduce__(self) -> Any:
        found: Any = sys.modules.get(self.__module__)
        for part in self.__qualname__.split("."):
            found = getattr(found, part, None)
        if found is not self:
            return (Offloaded, (self._function, self._options))
        if self.__module__ == "__main__":
            return (_held, (self._holder,))
        return self.__qualname__

    @functools.cached_property
    def _holder(self) -> Any:
        """A class that stands in for a function of ``__main__`` when it is pickled.

        Pickle finds the class by name, as it would find the function; cloudpickle pickles classes
        of ``__main__`` by value, and so includes the function.
        """
        named = {"__module__": self.__module__, "__qualname__": f"{self.__qualname__}._holder"}
        held = {"function": staticmethod(self._function), "options": self._options}
        made = type("_holder", (), {**named, **held})
        _held_by[id(made)] = self
        return made

    def __repr__(self) -> str:
        return f"<offloaded {name_of(self._function)}>"

    def explain(self, *args: P.args, **kwargs: P.kwargs) -> Explanation:
        """Return where this call would run and why, without running it.

        Raises
        ------
        TypeError
            If the function does not take these arguments.
        """
        made: Explanation = _placing().explain(self, args, kwargs)
        return made

    def map(self, items: Iterable[Any], **options: Unpack[MapOptions]) -> Any:
        """Call this function with each item, in batches where that is faster.

        Parameters
        ----------
        items
            Each item is the only argument of one call. A sequence or an array (mapped over its
            first axis) gives a list; an iterator gives an iterator that reads at most one batch
            ahead.
        batch : int or "auto"
            Items in a batch; by default the number that takes the least time.
        max_batch : int, optional
            Upper limit for the items in a batch.
        timeout : float, optional
            Seconds for the whole map, checked between batches.
        on_error : "raise" or "return"
            Whether an item's exception is raised at the end of its batch or returned as its result.
        ordered : bool
            False gives an iterator of (index of the item, result) in order of completion.

        Raises
        ------
        UnknownName, InvalidSettings, WorkloadError
            If an option does not exist, or an option or the items cannot be used.
        TaskTimeout
            If it took longer than `timeout`; its ``done`` holds the finished results.
        """
        if type(items) is list and 0 < len(items) < FEW and not options:
            short = self._short
            if short is not None and short.covers(items):
                return self._map_few(items)
        return _mapping().map_items(self, self, items, **options)

    def _map_few(self, items: list[Any]) -> list[R]:
        """Call the function as written with each of a few items."""
        function: Any = self._function
        rest = iter(items)
        try:
            return [function(item) for item in rest]
        except BaseException as error:
            _mapping().tell_failed(self, error, length_hint(rest), len(items))
            raise

    def starmap(self, items: Iterable[Iterable[Any]], **options: Unpack[MapOptions]) -> Any:
        """Call this function with each item's elements as its arguments; otherwise as `map`."""
        return _mapping().map_items(self, self, items, spread=True, **options)

    def stats(self) -> FunctionRecord:
        """Return what the current session knows about this function: counts, kinds, exclusions."""
        found: FunctionRecord = _placing().stats(self)
        return found

    def submit(
        self, *args: Any, priority: int = 0, timeout: float | str | None = None,
        memory: int | str | None = None, name: str = "", **kwargs: Any,
    ) -> Future[R]:  # fmt: skip
        """Queue a call for a device and return its future at once.

        The call runs in the session and context of the submitter. Small queued calls of one
        signature are batched where that was measured to be faster.

        Parameters
        ----------
        *args, **kwargs
            The function's own arguments. If it has a parameter with one of the names below, pass
            that by position, or use ``gf.executor().submit``.
        priority
            Integer from -100 to 100; higher goes first. Half a minute of waiting counts as one
            step.
        timeout
            Seconds, or ``"250ms"``, that the call may run once it has begun. After that its future
            fails with TaskTimeout and other tasks go on; the call itself cannot be stopped.
        memory
            Bytes that the call needs, or ``"500MB"``; default: the size of its arrays. It begins
            once they are free, within ``memory_limit`` and the quota of the device.
        name
            Name of the task in messages; default: the function's name.

        Returns
        -------
        concurrent.futures.Future
            Completes exactly once: with the result, the exception that the function raised,
            TaskTimeout or TaskCancelled.

        Raises
        ------
        InvalidSettings
            If an option is invalid.
        DeviceOutOfMemory
            If the call needs more memory than it can ever get.
        """
        submitted: Future[R] = _tasks().submit(self, args, kwargs, priority, timeout, memory, name)
        return submitted

    def aio(
        self, *args: Any, priority: int = 0, timeout: float | str | None = None,
        memory: int | str | None = None, name: str = "", **kwargs: Any,
    ) -> Coroutine[Any, Any, R]:  # fmt: skip
        """Call without blocking the event loop: ``await f.aio(x)``. Takes the options of `submit`.

        If cancelled (also by ``asyncio.timeout``), a queued call never begins; a running one is
        abandoned.
        """
        made: Coroutine[Any, Any, R] = _tasks().aio(
            self, args, kwargs, priority, timeout, memory, name
        )
        return made

    def _considered(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not prelude.over and current.get() is None:
            options = self._options
            early = self._early or prelude.begin(self, options.backend or options.isolate)
            if early is not None:
                return prelude.call(self, early, args, kwargs)
        return _placing().consider(self, args, kwargs)


def _copy_metadata(offloaded: Offloaded[..., Any], function: Callable[..., Any]) -> None:
    """Copy the name and the attributes of the wrapped function."""
    if type(function) is not FunctionType or "__class__" in vars(function):
        functools.update_wrapper(offloaded, function)
        return
    # `update_wrapper` reads `__dict__`, after which Python reads the attributes more slowly.
    named: dict[str, Any] = {name: getattr(function, name) for name in _COPIED}
    for name, value in {**named, **vars(function)}.items():
        setattr(offloaded, name, value)


class _Unfilled(Offloaded[P, R]):
    # Unpickled from a holder class that cloudpickle fills in only afterwards. A class of its own,
    # because Python reads the attributes of a class with `__getattr__` more slowly.
    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        holder = vars(self).get("_holder")
        if holder is None:
            raise AttributeError(f"an offloaded function has no attribute {name!r}")
        self.__class__ = Offloaded  # type: ignore[assignment]
        self.__init__(holder.function, holder.options)  # type: ignore[misc]
        return getattr(self, name)


_held_by: WeakValueDictionary[int, Offloaded[..., Any]] = WeakValueDictionary()


def _held(holder: Any) -> Any:
    """Return the offloaded function that a holder stands for, one per process."""
    found = _held_by.get(id(holder))
    if found is None:
        found = _held_by[id(holder)] = Offloaded.__new__(_Unfilled)
        vars(found)["_holder"] = holder
    return found


@functools.cache
def _placing() -> ModuleType:
    """Return the module that places calls, imported for the first call that may be placed."""
    with trace.within("import", trace.OVERHEAD) if trace.enabled else trace.NOTHING:
        from gpuforge.runtime.execution import considered
    prelude.end()
    return considered


def _load() -> None:
    placing = _placing()
    if prelude.warms:
        placing.warm_as_set()


prelude.load = _load


@functools.cache
def _mapping() -> ModuleType:
    from gpuforge.runtime.executor import mapping

    return mapping


@functools.cache
def _tasks() -> ModuleType:
    """Return the module that queues calls, imported for the first call that is submitted."""
    from gpuforge.runtime.executor import calls

    return calls


class BoundOffloaded:
    """An offloaded method bound to an object, which is the first argument of each call."""

    def __init__(self, offloaded: Offloaded[..., Any], instance: Any) -> None:
        self.__func__ = offloaded
        self.__self__ = instance

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__func__(self.__self__, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__func__, name)

    def __reduce__(self) -> Any:
        return (BoundOffloaded, (self.__func__, self.__self__))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BoundOffloaded) and (
            self.__func__ is other.__func__ and self.__self__ is other.__self__
        )

    def __hash__(self) -> int:
        return hash((id(self.__func__), id(self.__self__)))

    def explain(self, *args: Any, **kwargs: Any) -> Explanation:
        """Return where this call would run and why, without running it."""
        return self.__func__.explain(self.__self__, *args, **kwargs)

    def map(self, items: Iterable[Any], **options: Unpack[MapOptions]) -> Any:
        """Call this method with each item, one after the other; otherwise as `Offloaded.map`."""
        return _mapping().map_items(self.__func__, self, items, alone=True, **options)

    def starmap(self, items: Iterable[Iterable[Any]], **options: Unpack[MapOptions]) -> Any:
        """Call this method with each item's elements as its arguments; otherwise as `map`."""
        return _mapping().map_items(
            self.__func__, self, items, alone=True, spread=True, **options
        )  # fmt: skip

    def submit(self, *args: Any, **kwargs: Any) -> Future[Any]:
        """Queue a call, as `Offloaded.submit` does."""
        return self.__func__.submit(self.__self__, *args, **kwargs)

    def aio(self, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, Any]:
        """Call without blocking the event loop, as `Offloaded.aio` does."""
        return self.__func__.aio(self.__self__, *args, **kwargs)


@overload
def offload(function: Callable[P, R], /) -> Offloaded[P, R]: ...


@overload
def offload(
    *,
    backend: str = ...,
    device: str = ...,
    numerics: str = ...,
    pure: bool = ...,
    convert: bool = ...,
    mutates: Iterable[str] = ...,
    min_elements: int | None = ...,
    fallback: bool | None = ...,
    isolate: bool | None = ...,
) -> Callable[[Callable[P, R]], Offloaded[P, R]]: ...


def offload(
    function: Callable[..., Any] | None = None,
    /,
    *,
    backend: str = "",
    device: str = "",
    numerics: str = "",
    pure: bool = True,
    convert: bool = False,
    mutates: Iterable[str] = (),
    min_elements: int | None = None,
    fallback: bool | None = None,
    isolate: bool | None = None,
) -> Any:
    """Run each call of a function over arrays on the backend that finishes it first.

    Parameters
    ----------
    function
        A function over arrays, in plain NumPy or written against the Array API with
        ``gpuforge.namespace(x)``. Each array that is itself an argument may be recorded.
    backend
        Backend to pin the function to: ``"numpy"``, ``"torch"``, ``"torch:cuda:0"``.
    device
        Use backends on this device only: ``"cpu"``, ``"cuda"``, ``"mps"``; ``"gpu"`` is any GPU.
    numerics
        ``"strict"``: NumPy's results within rounding; operations that a library computes
        differently for some values are guarded. ``"exact"``: operations that need a guard stay on
        NumPy. ``"relaxed"``: as strict, but warnings about overflow, division by zero and invalid
        values may be missing, and precision may be the backend's own. Default: the session's.
    pure
        False: the function is always called as written.
    convert
        Whether arrays that the function creates (``np.zeros(n)``) are recorded too. It then needs
        no array among its arguments: ``simulate(1000, steps=20)`` is placed as well.
    mutates
        Names of array arguments that the function writes into. Writes are also detected without it;
        a name that is not a parameter is an error.
    min_elements
        Calls over fewer elements than this stay on NumPy.
    fallback
        Whether a pinned backend that is missing falls back to NumPy instead of raising.
    isolate
        True: libraries other than NumPy compute in worker processes; if a worker dies, NumPy
        repeats the call in this process. With ``backend="numpy"``, NumPy computes in a worker too;
        with ``pure=False`` as well, the whole function is called in one, on copies of its
        arguments. False: everything runs in this process. Default: in workers for a library that
        ends the process when memory is short, or whose worker was lost on this machine before.

    Returns
    -------
    Offloaded
        Called like `function`: NumPy arrays in, NumPy's result out. Has ``explain(*args)``,
        ``stats()``, ``submit(*args)`` and ``aio(*args)``. Coroutine and generator functions are
        returned unchanged, with an ``explain`` that says why.

    Raises
    ------
    UnknownName, InvalidSettings
        If a backend, argument name or option is invalid. Calls raise what `function` raises, and
        BackendUnavailable if a pinned backend is missing.
    """
    names = (mutates,) if isinstance(mutates, str) else tuple(mutates)
    if numerics not in ("", "strict", "exact", "relaxed"):
        raise InvalidSettings(f"numerics={numerics!r} is not 'strict', 'exact' or 'relaxed'")
    for name, value, kind in (
        ("backend", backend, str), ("device", device, str), ("pure", pure, bool),
        ("convert", convert, bool), ("min_elements", min_elements, int | None),
    ):  # fmt: skip
        if not isinstance(value, kind):
            wanted = "a name" if kind is str else "True or False" if kind is bool else "a number"
            raise InvalidSettings(f"offload: {name}={value!r} is not {wanted}")
    if device or backend:
        _check_names(backend, device)
    options = Options(backend, device, numerics, pure, convert, min_elements, fallback, isolate)

    def wrap(wrapped: Callable[..., Any]) -> Any:
        if not callable(wrapped):
            raise InvalidSettings(f"offload takes a function, not {wrapped!r}")
        _check_arguments(wrapped, names)
        return _explained(wrapped) if _is_deferred(wrapped) else Offloaded(wrapped, options)

    return wrap if function is None else wrap(function)


def _check_names(name: str, device: str) -> None:
    from gpuforge.runtime.backends import check_device, names

    if device:
        check_device(device)
    library = name.split(":")[0]
    known = names(plugins=bool(name) and library not in names())
    if name and library not in known:
        raise UnknownName.among("backend", name, known)


def _check_arguments(function: Callable[..., Any], names: tuple[str, ...]) -> None:
    if names:
        from inspect import signature

        known = signature(function).parameters
        for name in names:
            if name not in known:
                raise UnknownName.among("argument", name, known)


def _is_deferred(function: Callable[..., Any]) -> bool:
    code = getattr(_innermost(function), "__code__", None)
    return isinstance(code, CodeType) and bool(code.co_flags & _DEFERRED)


def _innermost(function: Any) -> Any:
    while isinstance(function, functools.partial):
        function = function.func
    return getattr(function, "__func__", function)


def _explained(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add `explain` to a coroutine or generator function, whose body runs piece by piece."""
    reason = "a coroutine or generator runs in steps: offload the functions it calls"

    def explain(*args: Any, **kwargs: Any) -> Explanation:
        from gpuforge.runtime.execution.explanation import Explanation

        return Explanation.as_written(name_of(function), reason)

    function.explain = explain  # type: ignore[attr-defined]
    return function
