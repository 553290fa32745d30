"""``@gpuforge.offload``: a function whose calls run where they finish first.

A known signature costs about a microsecond: a key from dtypes, shapes and strides, one look-up,
read-only views, the call. Everything else takes the considered way of `gpuforge.runtime.placer`.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from types import FunctionType, MethodType
from typing import Any, Generic, ParamSpec, TypeVar, overload

import numpy as np

from gpuforge.errors import InvalidSettings, UnknownName
from gpuforge.runtime import placer
from gpuforge.runtime.call import open_call
from gpuforge.runtime.explanation import Explanation, explain_call
from gpuforge.runtime.readonly import explain_read_only, give_back
from gpuforge.runtime.record import FunctionRecord, Held, Options, name_of
from gpuforge.runtime.session import Session, current, current_session
from gpuforge.runtime.signature import AsWritten, opaque_types, sign

P = ParamSpec("P")
R = TypeVar("R")
_ndarray = np.ndarray
_STATIC = {int, bool, str, type(None)}
_DYNAMIC = {float, complex}
_KEPT_KEYS = 4096
_NO_LIMIT = nullcontext()


class Offloaded(Generic[P, R]):
    """A function that is placed per call. Made by `offload`."""

    def __init__(self, function: Callable[P, R], options: Options) -> None:
        self.__wrapped__ = self._function = function
        self._options = options
        self._hot: tuple[Session | None, dict[Any, Held]] = (None, {})
        self.__qualname__: str = ""
        functools.update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        context, table = self._hot
        hot = _hot_key(args, kwargs) if kwargs or len(args) != 1 else _hot_key_of_one(args[0])
        held = table.get(hot)
        if held is None or held.left <= 0 or current.get() is not context:
            return self._considered(args, kwargs, hot)  # type: ignore[no-any-return]
        held.left -= 1
        if held.plain:
            return self._function(*args, **kwargs)
        if held.program is not None:
            return self._elsewhere(held, args, kwargs)  # type: ignore[no-any-return]
        return self._on_views(held, args, kwargs)  # type: ignore[no-any-return]

    def _on_views(self, held: Held, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a held choice on NumPy, on read-only views of the arguments."""
        given = (*args, *kwargs.values())
        views = []
        for value in given:
            if type(value) is _ndarray and value.flags.writeable:
                value = value.view()
                value.flags.writeable = False
            views.append(value)
        positional = len(views) - len(kwargs)
        named = dict(zip(kwargs, views[positional:], strict=True))
        function: Any = self._function
        try:
            with held.limit.one_thread() if held.limit else _NO_LIMIT:
                result = function(*views[:positional], **named)
        except ValueError as error:
            explain_read_only(error)
            raise
        if type(result) in _SCALARS:
            return result
        return give_back(result, views, given)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __reduce__(self) -> Any:
        found: Any = sys.modules.get(self.__module__)
        for part in self.__qualname__.split("."):
            found = getattr(found, part, None)
        if found is self:
            return self.__qualname__
        return (Offloaded, (self.__wrapped__, self._options))

    def __repr__(self) -> str:
        return f"<offloaded {name_of(self.__wrapped__)}>"

    def explain(self, *args: P.args, **kwargs: P.kwargs) -> Explanation:
        """Return where this call would run and why, without running it."""
        session = current_session()
        if not session.settings.enabled:
            return Explanation.as_written(name_of(self.__wrapped__), "GPUFORGE_ENABLED is off")
        signature = sign(args, kwargs)
        if isinstance(signature, AsWritten):
            return Explanation.as_written(name_of(self.__wrapped__), signature.reason)
        function = session.record(self, self.__wrapped__, self._options)
        return explain_call(open_call(session, function, signature, args, kwargs))

    def stats(self) -> FunctionRecord:
        """Return what the current session knows of this function: counts, kinds, exclusions."""
        found = current_session().record(self, self.__wrapped__, self._options)
        found.count_held()
        return found

    def _considered(self, args: tuple[Any, ...], kwargs: dict[str, Any], hot: Any) -> Any:
        session = current_session()
        if not session.settings.enabled:
            return self.__wrapped__(*args, **kwargs)
        function = session.record(self, self.__wrapped__, self._options)
        signature = _signed(session, self._options, args, kwargs)
        if isinstance(signature, AsWritten):
            return self._as_written(function, signature.reason, args, kwargs)
        held_before = function.held.pop(hot, None)
        made = function.count(held_before) if held_before else 0
        call = open_call(session, function, signature, args, kwargs, made)
        with session.counted():
            placed = placer.place(call)
        if hot is not None and placed.hold and not call.written:
            held = Held(call.record, placed.backend, placed.seconds, placed.program, placed.hold)
            if placed.program is None:
                held.limit = session.blas if placer.limits_threads(call) else None
                held.plain = not (held.limit or function.captures.may_write)
            self._hold(function, hot, held)
        return placed.result

    def _hold(self, function: FunctionRecord, hot: Any, held: Held) -> None:
        context, table = self._hot
        if context is not current.get() or table is not function.held:
            self._hot = (current.get(), function.held)
        if len(function.held) >= _KEPT_KEYS:
            function.let_go()
        function.held[hot] = held

    def _elsewhere(self, held: Held, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a held choice on another backend than NumPy."""
        program, template = held.program, held.kind.template
        assert program is not None and template is not None
        function = current_session().record(self, self.__wrapped__, self._options)
        if _raising() or (program.backend.compiles and function.captures.changed()):
            return self._considered(args, kwargs, None)
        given = (*args, *kwargs.values())
        leaves = given if program.positional else tuple(v for v in given if type(v) not in _STATIC)
        placer.inside.placed = True
        try:
            return program.run(leaves, template)
        except Exception as error:  # noqa: BLE001 - settled below, outside the handler
            trouble = error
        finally:
            placer.inside.placed = False
        held.left = 0
        again = sign(args, kwargs)
        assert not isinstance(again, AsWritten)
        fresh = open_call(current_session(), function, again, args, kwargs)
        return placer.settle(fresh, program.backend, trouble).result

    def _as_written(
        self, function: FunctionRecord, reason: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if not getattr(placer.inside, "placed", False):
            function.as_written[reason] = function.as_written.get(reason, 0) + 1
        return self.__wrapped__(*args, **kwargs)


def _hot_key_of_one(value: Any) -> Any:
    """Return the key of a call with one positional argument; None when it must be considered."""
    if type(value) is _ndarray:
        return value.dtype, value.shape, value.strides
    return _hot_key((value,), {})


def _hot_key(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return a key of dtypes, shapes, strides and static values; None for other arguments."""
    key: list[Any] = [*kwargs] if kwargs else []
    for value in (*args, *kwargs.values()) if kwargs else args:
        kind = type(value)
        if kind is _ndarray:
            key += value.dtype, value.shape, value.strides
        elif kind in _STATIC:
            key += kind, value
        elif kind in _DYNAMIC or kind in opaque_types:
            key.append(kind)
        else:
            return None
    return tuple(key)


_SCALARS = {float, int, bool, type(None), *np.sctypeDict.values()}


def _raising() -> str:
    """Return the name of a floating-point error that raises now; empty when none does."""
    modes = np.geterr().items()
    return next((name for name, mode in modes if mode in ("raise", "call")), "")


def _signed(
    session: Session, options: Options, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    if not options.pure and not (options.backend or session.settings.backend):
        return AsWritten("impure: it cannot be run a second time to compare backends")
    raising = _raising()
    if raising:
        return AsWritten(f"np.errstate({raising}='raise') is active")
    return sign(args, kwargs)


@overload
def offload(function: Callable[P, R], /) -> Offloaded[P, R]: ...


@overload
def offload(
    *,
    backend: str = ...,
    device: str = ...,
    numerics: str = ...,
    pure: bool = ...,
    mutates: Iterable[str] = ...,
    min_elements: int | None = ...,
    fallback: bool | None = ...,
) -> Callable[[Callable[P, R]], Offloaded[P, R]]: ...


def offload(
    function: Callable[..., Any] | None = None,
    /,
    *,
    backend: str = "",
    device: str = "",
    numerics: str = "",
    pure: bool = True,
    mutates: Iterable[str] = (),
    min_elements: int | None = None,
    fallback: bool | None = None,
) -> Any:
    """Make a function over arrays run on whichever backend finishes first.

    Parameters
    ----------
    function
        A function written against the Array API: it takes its namespace from
        ``gpuforge.namespace(x)`` and depends on its arguments alone.
    backend
        Pin to one backend: ``"numpy"``, ``"torch"``, ``"torch:cuda:0"``.
    device
        Use backends on this device only: ``"cpu"``, ``"cuda"``, ``"mps"``.
    numerics
        ``"relaxed"`` lets dtypes and precision be the backend's own; default: the session's.
    pure
        False: the function has effects or hidden inputs; it is never run twice.
    mutates
        Names of the array arguments that the function writes into.
    min_elements
        Calls over fewer elements stay on NumPy.
    fallback
        Whether a pinned backend that is missing falls back to NumPy instead of raising.

    Returns
    -------
    Offloaded
        Called like `function`; NumPy arrays in, NumPy's result out. Has ``explain(*args)`` and
        ``stats()``. Coroutine and generator functions are returned as they are, with an ``explain``
        that says why.

    Raises
    ------
    UnknownName, InvalidSettings
        If a backend, argument name or option means nothing. When called: what `function` raises,
        and BackendUnavailable where a pinned backend is missing.
    """
    names = (mutates,) if isinstance(mutates, str) else tuple(mutates)
    if numerics not in ("", "strict", "relaxed"):
        raise InvalidSettings(f"numerics={numerics!r} is neither 'strict' nor 'relaxed'")
    _check_backend(backend)
    options = Options(backend, device, numerics, pure, names, min_elements, fallback)

    def wrap(wrapped: Callable[..., Any]) -> Any:
        if not callable(wrapped):
            raise InvalidSettings(f"offload takes a function, not {wrapped!r}")
        _check_arguments(wrapped, names)
        return _lazy(wrapped) if _runs_later(wrapped) else Offloaded(wrapped, options)

    return wrap if function is None else wrap(function)


def _check_backend(name: str) -> None:
    from gpuforge.runtime.backends import names

    library = name.split(":")[0]
    known = names(plugins=bool(name) and library not in names())
    if name and library not in known:
        raise UnknownName.among("backend", name, known)


def _check_arguments(function: Callable[..., Any], names: tuple[str, ...]) -> None:
    if names:
        known = inspect.signature(function).parameters
        for name in names:
            if name not in known:
                raise UnknownName.among("argument", name, known)


def _runs_later(function: Callable[..., Any]) -> bool:
    return (
        inspect.iscoroutinefunction(function)
        or inspect.isgeneratorfunction(function)
        or inspect.isasyncgenfunction(function)
    )


def _lazy(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a coroutine or generator function as written: its body runs between others' calls."""
    assert isinstance(function, FunctionType)
    reason = "a coroutine or generator runs piece by piece: offload the functions it calls"
    function.explain = lambda *args, **kwargs: Explanation.as_written(  # type: ignore[attr-defined]
        name_of(function), reason
    )
    return function
