"""Intercept calls of a function by replacing its code, while the function object stays.

Identity, name, defaults, signature, source and pickling of the user's function are unchanged. Only
its code is replaced, by code that takes the same arguments and passes them, bound, to an `Entry`.
"""

from __future__ import annotations

import inspect
import os
from types import CodeType, FunctionType, TracebackType
from typing import Any

_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep
_MARK = "gpuforge"


class Entry:
    """Receives the calls of a function. Subclass it: this one only calls the function.

    Attributes
    ----------
    function : the user's function
    written : the code that the user wrote
    plain : a function with that code but without defaults
    """

    def __init__(self, function: FunctionType) -> None:
        self.function = function
        self.written = code = function.__code__
        self.plain = FunctionType(code, function.__globals__, function.__name__)
        self.plain.__qualname__, self.plain.__module__ = function.__qualname__, function.__module__
        self.plain.__doc__ = function.__doc__
        function.__code__ = _code(self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.plain(*args, **kwargs)

    def __reduce__(self) -> Any:
        return (_same, (self.plain,))  # for a function that is pickled with its code

    def restore(self) -> None:
        """Restore the function's own code."""
        if written(self.function.__code__) is self.written:
            self.function.__code__ = self.written

    def cut(self, error: BaseException) -> None:
        """Remove gpuforge's frames from the traceback of an exception that the function raised."""
        place = error.__traceback__
        while place is not None and place.tb_frame.f_code is not self.written:
            place = place.tb_next
        if place is not None:
            error.__traceback__ = place
        while place is not None:
            following = place.tb_next
            if following is not None and _is_internal_frame(following):
                place.tb_next = following.tb_next
            else:
                place = following


def written(code: CodeType) -> CodeType:
    """Return the code that the user wrote, also if `code` is the replacement."""
    last = code.co_consts[-1] if code.co_consts else None
    return last.written if isinstance(last, Entry) else code


def _same(function: Any) -> Any:
    return function


def _is_internal_frame(place: TracebackType) -> bool:
    code = place.tb_frame.f_code
    return code.co_filename.startswith(_PACKAGE) or written(code) is not code


def _code(entry: Entry) -> CodeType:
    """Return code that takes the same arguments as the user's and calls `entry`.

    A bare ``raise`` adds no frame to the traceback that `Entry.cut` has shortened.
    """
    code = entry.written
    takes, gives = _arguments(code)
    here, error = (_unused(code, name) for name in ("entry", "error"))
    source = (
        f"def function({takes}):\n"
        f" {here} = {_MARK!r}\n"
        f" try: return {here}({gives})\n"
        f" except BaseException as {error}:\n"
        f"  {here}.cut({error})\n"
        "  raise\n"
    )
    module = compile(source, code.co_filename, "exec", dont_inherit=True)
    made = next(value for value in module.co_consts if isinstance(value, CodeType))
    constants = tuple(entry if value == _MARK else value for value in made.co_consts)
    if constants[-1] is not entry:
        constants = (*constants, entry)
    return made.replace(
        co_consts=constants, co_name=code.co_name, co_qualname=code.co_qualname,
        co_firstlineno=code.co_firstlineno,
    )  # fmt: skip


def _arguments(code: CodeType) -> tuple[str, str]:
    """Return the source of a function's parameters, and of the arguments that pass them on."""
    count, named = code.co_argcount, code.co_kwonlyargcount
    rest = iter(code.co_varnames[count + named :])
    takes = [*code.co_varnames[:count]]
    gives = [*code.co_varnames[:count]]
    if code.co_posonlyargcount:
        takes.insert(code.co_posonlyargcount, "/")
    if code.co_flags & inspect.CO_VARARGS:
        gives.append(f"*{next(rest)}")
        takes.append(gives[-1])
    elif named:
        takes.append("*")
    takes += code.co_varnames[count : count + named]
    gives += [f"{name}={name}" for name in code.co_varnames[count : count + named]]
    if code.co_flags & inspect.CO_VARKEYWORDS:
        gives.append(f"**{next(rest)}")
        takes.append(gives[-1])
    return ", ".join(takes), ", ".join(gives)


def _unused(code: CodeType, name: str) -> str:
    while name in code.co_varnames:
        name += "_"
    return name
