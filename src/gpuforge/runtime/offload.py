"""``@gpuforge.offload``: a function whose calls run where they finish first.

A known signature that stays on NumPy costs less than a microsecond: a key from dtypes, shapes and
strides, one look-up, the call as written. Everything else takes the considered way of
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

from gpuforge.errors import InvalidSettings, UnknownName
from gpuforge.runtime.context import current
from gpuforge.runtime.function.key import hot_key
from gpuforge.runtime.function.naming import name_of
from gpuforge.runtime.function.options import MapOptions, Options
from gpuforge.runtime.prelude import prelude
from gpuforge.runtime.short import FEW, SHORT_SECONDS, UNSEEN, Short

if TYPE_CHECKING:
    from concurrent.futures import Future

    from gpuforge.runtime.execution.explanation import Explanation
    from gpuforge.runtime.prelude import Early
    from gpuforge.runtime.record import FunctionRecord, Held
    from gpuforge.runtime.session import Session

P = ParamSpec("P")
R = TypeVar("R")
_ndarray = np.ndarray
_LATER = 0x20 | 0x80 | 0x200
"""Flags of the code of generators, coroutines and asynchronous generators (Python, inspect)."""
_NO_LIMIT = nullcontext()


class Offloaded(Generic[P, R]):
    """A function that is placed per call. Made by `offload`."""

    def __init__(self, function: Callable[P, R], options: Options) -> None:
        self.__qualname__: str = ""
        _take_names(self, function)
        self.__wrapped__ = self._function = function
        self._options = options
        self._early: Early | None = None
        self._short: Short | None = None
        self._hot: tuple[Session | None, dict[Any, Held]] = (None, {})

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        short = self._short
        unseen = short.unseen(args, kwargs) if short is not None else False
        if unseen:
            return self._function(*args, **kwargs) if kwargs else self._function(*args)  # type: ignore[call-arg]
        context, table = self._hot
        if not table:
            return self._considered(args, kwargs)  # type: ignore[no-any-return]
        if kwargs or len(args) != 1 or type(args[0]) is not _ndarray:
            hot = hot_key(args, kwargs)
        else:
            array = args[0]
            hot = array.dtype, array.shape, array.strides
        held = table.get(hot)
        if held is None or held.left <= 0 or current.get() is not context:
            return self._considered(args, kwargs)  # type: ignore[no-any-return]
        if unseen is False and held.short and held.plain and next(held.short.ticks) & UNSEEN:
            return self._function(*args, **kwargs)  # short as well, but the latest ones are others
        held.left -= 1
        if held.again is None:
            return self._timed(held, args, kwargs)  # type: ignore[no-any-return]
        return held.again(held, args, kwargs)  # type: ignore[no-any-return]

    def _timed(self, held: Held, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make a held call as written, and keep how long it took."""
        with held.limit.one_thread() if held.limit else _NO_LIMIT:
            start = perf_counter()
            result = self._function(*args, **kwargs)
            seconds = perf_counter() - start
            held.timed.append(seconds)
        if held.plain and seconds > SHORT_SECONDS:
            held.plain = False  # each call is looked at, and timed, until the choice ends
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
            return (Offloaded, (self.__wrapped__, self._options))
        if self.__module__ == "__main__":
            return (_held, (self._holder,))
        return self.__qualname__

    @functools.cached_property
    def _holder(self) -> Any:
        """A class that stands for a function of ``__main__`` where it is pickled.

        Pickle finds it by its name, as it would find the function; cloudpickle, which takes classes
        of ``__main__`` by value, takes the function along.
        """
        named = {"__module__": self.__module__, "__qualname__": f"{self.__qualname__}._holder"}
        held = {"function": staticmethod(self.__wrapped__), "options": self._options}
        made = type("_holder", (), {**named, **held})
        _held_by[id(made)] = self
        return made

    def __repr__(self) -> str:
        return f"<offloaded {name_of(self.__wrapped__)}>"

    def explain(self, *args: P.args, **kwargs: P.kwargs) -> Explanation:
        """Return where this call would run and why, without running it."""
        made: Explanation = _placing().explain(self, args, kwargs)
        return made

    def map(self, items: Iterable[Any], **options: Unpack[MapOptions]) -> Any:
        """Call this function with each of many items, in batches where that is faster.

        Parameters
        ----------
        items
            Each is the only argument of one call. A sequence or an array (whose first axis is
            mapped over) gives a list, an iterator gives an iterator that takes at most one batch
            ahead.
        batch : int or "auto"
            Items in a batch; by default as many as take the least time.
        max_batch : int, optional
            The most items in a batch.
        timeout : float, optional
            Seconds for the whole map, looked at between batches.
        on_error : "raise" or "return"
            Whether an item's exception is raised at the end of its batch, or put in its place.
        ordered : bool
            False gives an iterator of (place of the item, result), as they finish.

        Raises
        ------
        UnknownName, InvalidSettings, WorkloadError
            If there is no such option, or an option or the items cannot be used.
        TaskTimeout
            If it took longer than `timeout`; its ``done`` holds what finished.
        """
        if type(items) is list and 0 < len(items) < FEW and not options:
            short = self._short
            if short is not None and short.takes(items):
                return self._few(items)
        return _mapping().map_items(self, self, items, **options)

    def _few(self, items: list[Any]) -> list[R]:
        """Call this function as written with each of a few items."""
        function: Any = self._function
        rest = iter(items)
        try:
            return [function(item) for item in rest]
        except BaseException as error:
            _mapping().tell_failed(self, error, length_hint(rest), len(items))
            raise

    def starmap(self, items: Iterable[Iterable[Any]], **options: Unpack[MapOptions]) -> Any:
        """Call this function with the arguments that each of many items holds; as `map`."""
        return _mapping().map_items(self, self, items, spread=True, **options)

    def stats(self) -> FunctionRecord:
        """Return what the current session knows of this function: counts, kinds, exclusions."""
        found: FunctionRecord = _placing().stats(self)
        return found

    def submit(
        self, *args: Any, priority: int = 0, timeout: float | str | None = None,
        memory: int | str | None = None, name: str = "", **kwargs: Any,
    ) -> Future[R]:  # fmt: skip
        """Let a call wait for its turn on a device, and return its future at once.

        The call runs in the session and context of whoever submits it. Small calls of one signature
        that wait together are made together where that was measured to be faster.

        Parameters
        ----------
        *args, **kwargs
            The function's own arguments. The four names below belong to `submit`; a function with a
            parameter of that name takes it by position, or through ``gf.executor().submit``.
        priority
            Whole number from -100 to 100: higher goes first. Half a minute of waiting counts as
            much as one step.
        timeout
            Seconds, or ``"250ms"``, that the call may run once it has begun. Then its future ends
            with TaskTimeout, and other tasks go on; the call itself cannot be stopped.
        memory
            Bytes that the call needs, or ``"500MB"``; default: those of its arrays. It begins once
            it has them beside those that run, within ``memory_limit`` and the quota of the device.
        name
            What messages call the task; default: the function's name.

        Returns
        -------
        concurrent.futures.Future
            Ends once: with the result, with what the function raised, with TaskTimeout or
            TaskCancelled.

        Raises
        ------
        InvalidSettings
            If an option means nothing.
        DeviceOutOfMemory
            If the call can never have the memory that it needs.
        """
        submitted: Future[R] = _tasks().submit(self, args, kwargs, priority, timeout, memory, name)
        return submitted

    def aio(
        self, *args: Any, priority: int = 0, timeout: float | str | None = None,
        memory: int | str | None = None, name: str = "", **kwargs: Any,
    ) -> Coroutine[Any, Any, R]:  # fmt: skip
        """Make a call beside an event loop: ``await f.aio(x)``. Takes what `submit` takes.

        Cancelled (also by ``asyncio.timeout``), it never begins, or is abandoned if it runs.
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


def _take_names(offloaded: Offloaded[..., Any], function: Callable[..., Any]) -> None:
    """Give an offloaded function the name and the attributes of the one it calls."""
    if type(function) is not FunctionType or "__class__" in vars(function):
        functools.update_wrapper(offloaded, function)
        return
    # That one asks for `__dict__`, after which Python reads the attributes more slowly.
    named: dict[str, Any] = {n: getattr(function, n) for n in functools.WRAPPER_ASSIGNMENTS}
    for name, value in {**named, **vars(function)}.items():
        setattr(offloaded, name, value)


class _Unfilled(Offloaded[P, R]):
    # It came by its holder, which is complete only afterwards. A class of its own: Python reads the
    # attributes of a class with `__getattr__` more slowly.

    def __getattr__(self, name: str) -> Any:
        holder = vars(self).get("_holder")
        if holder is None:
            raise AttributeError(f"an offloaded function has no attribute {name!r}")
        self.__class__ = Offloaded  # type: ignore[assignment]
        self.__init__(holder.function, holder.options)  # type: ignore[misc]
        return getattr(self, name)


_held_by: WeakValueDictionary[int, Offloaded[..., Any]] = WeakValueDictionary()


def _held(holder: Any) -> Any:
    """Return the one offloaded function that a holder stands for in this process."""
    found = _held_by.get(id(holder))
    if found is None:
        found = _held_by[id(holder)] = Offloaded.__new__(_Unfilled)
        vars(found)["_holder"] = holder
    return found


@functools.cache
def _placing() -> ModuleType:
    """Return what places calls, which is loaded for the first call that may be placed."""
    from gpuforge.runtime.execution import considered

    prelude.end()
    return considered


@functools.cache
def _mapping() -> ModuleType:
    from gpuforge.runtime.executor import mapping

    return mapping


@functools.cache
def _tasks() -> ModuleType:
    """Return what queues calls, which is loaded for the first call that is submitted."""
    from gpuforge.runtime.executor import calls

    return calls


class BoundOffloaded:
    """An offloaded method of one object: called, explained and counted with it."""

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
        """Call this method with each of many items, one after the other; as `Offloaded.map`."""
        return _mapping().map_items(self.__func__, self, items, alone=True, **options)

    def starmap(self, items: Iterable[Iterable[Any]], **options: Unpack[MapOptions]) -> Any:
        """Call this method with the arguments that each of many items holds; as `map`."""
        return _mapping().map_items(
            self.__func__, self, items, alone=True, spread=True, **options
        )  # fmt: skip

    def submit(self, *args: Any, **kwargs: Any) -> Future[Any]:
        """Let a call wait for its turn, as `Offloaded.submit` does."""
        return self.__func__.submit(self.__self__, *args, **kwargs)

    def aio(self, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, Any]:
        """Make a call beside an event loop, as `Offloaded.aio` does."""
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
    """Make a function over arrays run on whichever backend finishes first.

    Parameters
    ----------
    function
        A function over arrays: plain NumPy code, or written against the Array API with
        ``gpuforge.namespace(x)``. Each array that is itself an argument may be recorded.
    backend
        Pin to one backend: ``"numpy"``, ``"torch"``, ``"torch:cuda:0"``.
    device
        Use backends on this device only: ``"cpu"``, ``"cuda"``, ``"mps"``; ``"gpu"`` is any GPU.
    numerics
        ``"strict"``: NumPy's results within rounding; what a library does otherwise for some
        values only is guarded. ``"exact"``: operations that need a guard stay on NumPy.
        ``"relaxed"``: as strict, but warnings of overflow, division by zero and invalid values may
        be missing, and precision may be the backend's own. Default: the session's.
    pure
        False: the function is always called as written.
    convert
        Whether arrays that the function makes itself (``np.zeros(n)``) are recorded too.
    mutates
        Names of array arguments that the function writes into. Writes are seen without it; a name
        that the function does not have is an error.
    min_elements
        Calls over fewer elements stay on NumPy.
    fallback
        Whether a pinned backend that is missing falls back to NumPy instead of raising.
    isolate
        True: other libraries than NumPy compute in worker processes; NumPy makes a call again here
        whose worker dies. With ``backend="numpy"`` NumPy, too, computes in a worker, and with
        ``pure=False`` the whole function is called in one, on copies of its arguments. False: in
        this process. Default: in workers where a library ends the process when memory is short, or
        was lost on this machine before.

    Returns
    -------
    Offloaded
        Called like `function`; NumPy arrays in, NumPy's result out. Has ``explain(*args)``,
        ``stats()``, ``submit(*args)`` and ``aio(*args)``. Coroutine and
        generator functions are returned as they are, with an ``explain`` that says why.

    Raises
    ------
    UnknownName, InvalidSettings
        If a backend, argument name or option means nothing. When called: what `function` raises,
        and BackendUnavailable where a pinned backend is missing.
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
        return _lazy(wrapped) if _runs_later(wrapped) else Offloaded(wrapped, options)

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


def _runs_later(function: Callable[..., Any]) -> bool:
    code = getattr(_innermost(function), "__code__", None)
    return isinstance(code, CodeType) and bool(code.co_flags & _LATER)


def _innermost(function: Any) -> Any:
    while isinstance(function, functools.partial):
        function = function.func
    return getattr(function, "__func__", function)


def _lazy(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a coroutine or generator function as written: its body runs between others' calls."""
    reason = "a coroutine or generator runs in steps: offload the functions it calls"

    def explain(*args: Any, **kwargs: Any) -> Explanation:
        from gpuforge.runtime.execution.explanation import Explanation

        return Explanation.as_written(name_of(function), reason)

    function.explain = explain  # type: ignore[attr-defined]
    return function
