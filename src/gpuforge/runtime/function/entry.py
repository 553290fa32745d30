"""Another code for a function that stays the same object: its calls come by somebody else first.

What the user holds is not replaced: identity, name, defaults, signature, source and pickling of a
function are those of the function object, and that one stays where it is. Only its code is another:
one that takes the same arguments and hands them, bound, to an `Entry`.
"""

from __future__ import annotations

import inspect
import os
from types import CodeType, FunctionType, TracebackType
from typing import Any

_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep
_MARK = "gpuforge"


class Entry:
    """What a function's calls come to first. To be subclassed: this one only calls the function.

    Attributes
    ----------
    function : the user's
    written : the code that the user wrote
    plain : a function with that code; its arguments are to be given in full
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
        return (_same, (self.plain,))  # where a function is pickled with its code

    def restore(self) -> None:
        """Give the function its own code again."""
        if written(self.function.__code__) is self.written:
            self.function.__code__ = self.written

    def cut(self, error: BaseException) -> None:
        """Take all that is gpuforge's out of the traceback of what the function raised."""
        place = error.__traceback__
        while place is not None and place.tb_frame.f_code is not self.written:
            place = place.tb_next
        if place is not None:
            error.__traceback__ = place
        while place is not None:
            following = place.tb_next
            if following is not None and _is_ours(following):
                place.tb_next = following.tb_next
            else:
                place = following


def written(code: CodeType) -> CodeType:
    """Return the code that the user wrote where `code` may be one that leads to an entry."""
    last = code.co_consts[-1] if code.co_consts else None
    return last.written if isinstance(last, Entry) else code


def _same(function: Any) -> Any:
    return function


def _is_ours(place: TracebackType) -> bool:
    code = place.tb_frame.f_code
    return code.co_filename.startswith(_PACKAGE) or written(code) is not code


def _code(entry: Entry) -> CodeType:
    """Return code that takes the arguments of the user's and calls `entry`.

    A bare ``raise`` adds no frame to a traceback that was cut.
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
    """Return the parameters of a function, and the arguments that hand them on."""
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
