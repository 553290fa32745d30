"""Placement for unmodified programs: find functions by what their code does, and offload them.

A function's calls go through an `Accelerated` until its worth is known: one that gets no arrays, or
stays on NumPy for good, gets its own code back and costs what it did before. NumPy is not imported
here, so a program without it stays without.
"""

from __future__ import annotations

import dis
import inspect
import sys
from collections.abc import Iterator
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

from gpuforge.runtime.function.entry import Entry, written
from gpuforge.runtime.function.reading import codes_named, read_operations
from gpuforge.units import format_seconds

CALLS_WITHOUT_ARRAY = 32
"""A function that got no array in this many calls is left alone from then on."""
LOOKED_AT_EVERY = 256
SHORT_CALLS = 4096
SHORT_SECONDS = 50e-6
"""A function that runs on NumPy alone and took less than this per call, in that many calls, is left
alone: other libraries need as long to compute next to nothing (`Backend.floor_seconds` is 70 to
100 us on CPUs), and what is called often feels the 1 to 2 us that `Accelerated` adds."""
DEPTH = 4
"""A function with this many calls within each other is left alone: each takes several frames, and
Python limits their number."""
COMPILERS = frozenset("numba njit triton taichi pythran cython numexpr".split())
"""Packages that read the code of functions: a module that uses one is left alone."""
_FRAMES = frozenset(
    "locals globals vars dir exec eval super __class__ _getframe currentframe stack extract_stack "
    "format_stack print_stack warn settrace setprofile breakpoint set_trace".split()
)
"""Names by which a function may inspect its own frame or its caller's."""
_EFFECTS = frozenset(
    "print input open write writelines info debug warning error exception random rng default_rng "
    "rand randn randint seed shuffle permutation normal standard_normal uniform integers choice "
    "time perf_counter sleep send recv run Popen system urlopen".split()
)
"""Names of side effects, which a restarted function would repeat."""
_LATER = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_COMPUTES = codes_named("BINARY_", "UNARY_NEGATIVE", "UNARY_INVERT", "COMPARE_OP", "INPLACE_")
_CHANGES = codes_named("STORE_ATTR", "STORE_GLOBAL", "DELETE_ATTR", "DELETE_GLOBAL")


class Accelerated(Entry):
    """One accelerated function of the user's program.

    Attributes
    ----------
    offloaded : places its calls, from the first call with an array on
    without : number of calls so far, if all were without an array
    aside : calls made as written at the last check
    every : placed calls between two checks whether the function stays on NumPy for good
    look : placed calls until the next of them
    depth : number of calls that have not ended, those of other threads included
    left : why it is no longer placed; empty while it is
    """

    def __init__(self, function: FunctionType) -> None:
        self.offloaded: Any = None
        self.without = 0
        self.look = self.every = LOOKED_AT_EVERY
        self.aside = 0
        self.depth = 0
        self.left = ""
        super().__init__(function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.depth += 1
        if self.depth > DEPTH:
            self._leave_recursion()
        try:
            offloaded = self.offloaded
            if offloaded is None:
                return self._begin(args, kwargs)
            self.look -= 1
            if self.look < 0:
                self._look()
            return offloaded(*args, **kwargs)
        finally:
            self.depth -= 1

    def _begin(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make a call; start to place calls at the first one with an array."""
        numpy = sys.modules.get("numpy")
        array = getattr(numpy, "ndarray", None)
        for value in (*args, *kwargs.values()) if kwargs else args:
            if type(value) is array:
                break
        else:
            self.without += 1
            if self.without == CALLS_WITHOUT_ARRAY:
                self.leave(f"no array among its arguments in {self.without} calls")
            return self.plain(*args, **kwargs)
        reason = _effects(self.plain)
        if reason:
            self.leave(reason)
            return self.plain(*args, **kwargs)
        from gpuforge.runtime.offload import offload

        self.offloaded = made = offload(self.plain)
        return made(*args, **kwargs)

    def _leave_recursion(self) -> None:
        depth = 0
        frame: FrameType | None = sys._getframe()
        while frame is not None:
            depth += frame.f_code is self.written
            frame = frame.f_back
        if depth >= DEPTH:
            self.leave("it calls itself")
        self.depth = depth  # not those of other threads, whose counts may be lost

    def _look(self) -> None:
        made = self.every
        self.look = self.every = min(2 * made, SHORT_CALLS // 4)
        record = self.offloaded.stats()
        aside, self.aside = self.aside, sum(record.as_written.values())
        if record.stays:
            self.leave(record.stays)
        elif self.aside - aside >= made:  # none of them could be placed
            self.leave(max(record.as_written, key=record.as_written.__getitem__))
        elif list(record.counts) == ["numpy"]:
            known = record.counts["numpy"]
            if known.calls >= SHORT_CALLS and known.seconds < SHORT_SECONDS * known.calls:
                each = format_seconds(known.seconds / known.calls)
                self.leave(f"its calls are short: {each} each")

    def leave(self, reason: str) -> None:
        """Leave the function alone from now on."""
        self.left = reason
        self.restore()


FOUND: list[Accelerated] = []
"""The functions of this program whose calls are, or were, placed."""


def accelerate(namespace: dict[str, Any], path: str) -> None:
    """Accelerate those functions of a module and its classes that may be worth it.

    Parameters
    ----------
    namespace
        The module's namespace.
    path
        The module's file: functions defined elsewhere are left alone.
    """
    found = [one for one in _functions(namespace) if one.__code__.co_filename == path]
    known = {one.function for one in FOUND}  # a function that was left alone stays so
    new = [one for one in dict.fromkeys(found) if one not in known and not _unfit(one)]
    FOUND.extend(map(Accelerated, new))


def _functions(namespace: dict[str, Any]) -> Iterator[FunctionType]:
    for value in list(namespace.values()):
        if type(value) is FunctionType:
            yield value
        elif isinstance(value, type) and value.__module__ == namespace.get("__name__"):
            for name, member in list(vars(value).items()):
                plain = member.__func__ if isinstance(member, staticmethod) else member
                special = name.startswith("__") and name != "__call__"
                if type(plain) is FunctionType and not special:
                    yield plain


def _unfit(function: FunctionType) -> bool:
    """Return whether a function is not accelerated at all."""
    code = function.__code__
    takes = code.co_argcount + code.co_kwonlyargcount + (code.co_flags & inspect.CO_VARARGS)
    if code is not written(code) or code.co_flags & _LATER or code.co_freevars or not takes:
        return True
    if not _FRAMES.isdisjoint(code.co_names):
        return True
    codes = frozenset(code.co_code[::2])
    if not codes.isdisjoint(_CHANGES) or (code.co_name in code.co_names and _calls_itself(code)):
        return True
    return codes.isdisjoint(_COMPUTES) and not _uses_numpy(code, function.__globals__)


def _calls_itself(code: CodeType) -> bool:
    steps = dis.get_instructions(code)
    return any(step.opname == "LOAD_GLOBAL" and step.argval == code.co_name for step in steps)


def _uses_numpy(code: CodeType, names: dict[str, Any]) -> bool:
    for name in code.co_names:
        value = names.get(name)
        home = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", "")
        if str(home).split(".")[0] == "numpy":
            return True
    return False


def _effects(function: FunctionType) -> str:
    """Return a side effect of a function, or of functions of its module that it calls; or ''."""
    names = sorted(read_operations(function) & _EFFECTS)
    return f"it uses {names[0]!r}, whose effects must not happen twice" if names else ""
