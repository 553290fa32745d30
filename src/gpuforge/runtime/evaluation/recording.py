"""Record a call: run the user's function once, on arrays that record its operations."""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from contextlib import suppress
from traceback import clear_frames
from types import FunctionType, TracebackType
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

import gpuforge.runtime.array.operations  # noqa: F401 - fills the table
from gpuforge.runtime.array.array import SHUFFLE, Array, argument
from gpuforge.runtime.array.namespace import Namespace
from gpuforge.runtime.array.recorder import Engine, Recorder, references
from gpuforge.runtime.array.unsupported import READ_ONLY, NotRecordable
from gpuforge.runtime.evaluation.bytecode import compares_types, does, has_other_alias
from gpuforge.runtime.evaluation.holders import settle_kept
from gpuforge.runtime.evaluation.objects import HOLDING_NOTHING, attributes
from gpuforge.runtime.evaluation.replay import Noted
from gpuforge.runtime.evaluation.results import Results
from gpuforge.runtime.evaluation.substitution import substituted
from gpuforge.runtime.function.entry import written

_SUSPECT = (TypeError, AttributeError, BufferError, SystemError, NotImplementedError, ValueError)
"""Exceptions raised by a use of an array that only a real NumPy array supports."""
_REFUSED = "__array__ method not producing an array"
"""NumPy's error for what it would have done with an array of its own."""
MOST_OF_AN_ERROR = 160
"""Characters of an error's text that a reason quotes."""
_ALONE = 2
"""Reference count of a node that only its storage refers to."""


class Recorded:
    """A completed recorded call.

    Attributes
    ----------
    result : as NumPy would have returned it
    kept : whether a recorded array outlived the call, stored in some object
    noted : what a replay needs; None unless requested
    """

    __slots__ = ("kept", "noted", "recorder", "result")

    def __init__(
        self, result: Any, recorder: Recorder, kept: bool, noted: Noted | None = None
    ) -> None:
        self.result = result
        self.noted = noted
        self.recorder = recorder
        self.kept = kept or bool(recorder.trouble)


class StartAgain(Exception):
    """The function used an array in a way that needs a real NumPy array; the text says how.

    Attributes
    ----------
    kind : type of the exception raised inside the function
    factor : how many times as long as NumPy recording takes, if that is the reason; else 0
    """

    def __init__(self, text: str, kind: type[BaseException], factor: float = 0.0) -> None:
        super().__init__(text)
        self.kind, self.factor = kind, factor


def record(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    engine: Engine,
    *,
    creates: bool = False,
    noting: type[Noted] | None = None,
) -> Recorded:
    """Run a function once on recorded arrays and return its result with real NumPy arrays.

    `noting` is the class that keeps what a replay needs; None to keep nothing.

    Raises
    ------
    StartAgain
        If the function needs real NumPy arrays: the caller must call it as written, from the start.
    Exception
        Whatever the function raises; its writes into arguments up to then have been made.
    """
    if type(function) is FunctionType and "shuffle" in written(function.__code__).co_names:
        raise StartAgain(SHUFFLE, NotRecordable)  # before any random number is drawn
    values = (*args, *kwargs.values())
    if type(function) is FunctionType and does(function, values, compares_types):
        raise StartAgain("type(x) is compared with a type of NumPy", NotRecordable)
    if has_other_alias(function, values):
        raise StartAgain("the memory of an argument is aliased", NotRecordable)
    if any(map(_overlaps_itself, values)):
        raise StartAgain("elements of an argument share memory", NotRecordable)
    recorder = Recorder(engine)
    recorder.evaluations = [] if noting else None
    results = Results(recorder)
    body = substituted(function, Namespace(recorder, creates=creates))
    referred = references([recorder])[0]
    wrapped, given = _wrap_arguments(recorder, values)
    results.seen.update({id(one): one for one in wrapped if type(one) is np.ndarray})
    recorder.arguments = given
    positional = wrapped[: len(args)]
    named = dict(zip(kwargs, wrapped[len(args) :], strict=True))
    try:
        result = body(*positional, **named)
        if any(memory() is not None for memory in recorder.strided):
            raise recorder.refuse("memory read with other strides outlives the call")
    except BaseException as error:
        engine.pace = None
        if recorder.trouble or _is_caused_by_recording(error, function):
            again = StartAgain(
                recorder.trouble or _reason(error), type(error), getattr(error, "factor", 0.0)
            )
            clear_frames(error.__traceback__)
            del positional, named, wrapped
            recorder.arguments = []
            recorder.exports.clear()
            _close(references([recorder])[0] - referred, recorder, given, results)
            raise again from None
        recorder.force()
        _write_back(recorder, given)
        _settle_error(recorder, given, error)
        _settle_exports(recorder, Results(recorder), values)
        if any(type(value) not in HOLDING_NOTHING for value in values):
            left = _left_in_frames(error, given)
            if references([recorder])[0] - referred > len(left):
                settle_kept(recorder, given, results)
        recorder.closed = True
        raise
    engine.pace = None  # the body has ended: only evaluation is left
    del positional, named, wrapped
    noted = noting(recorder, result) if noting else None
    recorder.evaluate()
    if noted is not None:
        noted.close(recorder.evaluations)
    _write_back(recorder, given)
    made = results.of(result)
    del result
    _settle_exports(recorder, results, values)
    results.alive.clear()
    recorder.arguments = []
    kept = _close(references([recorder])[0] - referred, recorder, given, results)
    return Recorded(made, recorder, kept, noted)


def _close(others: int, recorder: Recorder, given: list[Array], results: Results) -> bool:
    """End a recording with `others` references to it; return whether recorded arrays outlive it."""
    own = len(given) + (recorder.namespace is not None)
    kept = others > own or any(references(given))
    if kept:
        settle_kept(recorder, given, results)
    recorder.closed, recorder.namespace = True, None
    return kept


def _overlaps_itself(value: Any) -> bool:
    """Return whether a write into one element of an array may change another one."""
    if type(value) is not np.ndarray or value.flags.forc or not value.flags.writeable:
        return False
    low, high = byte_bounds(value)
    return high - low < value.nbytes


def _wrap_arguments(recorder: Recorder, values: tuple[Any, ...]) -> tuple[list[Any], list[Array]]:
    """Return the values to pass for the arguments, and the recorded arrays among them.

    An array passed twice becomes one recorded array. One of a dtype that the backend lacks stays
    NumPy's own: NumPy computes with it, and a view of it cannot be recorded.
    """
    arrays: dict[int, Array] = {}
    for value in values:
        if type(value) is not np.ndarray or id(value) in arrays:
            continue
        if recorder.has(value.dtype):
            arrays[id(value)] = argument(recorder, value)
    return [arrays.get(id(value), value) for value in values], list(arrays.values())


def _write_back(recorder: Recorder, given: list[Array]) -> None:
    """Copy writes into recorded arguments back to the caller's arrays."""
    written = [array._storage for array in given if array._storage and array._storage.version]
    sources = [storage.source for storage in written if storage.source is not None]
    values = []
    for storage in written:
        host = recorder.host(storage.node)
        reused = any(np.may_share_memory(host, source) for source in sources)
        values.append(host.copy() if reused else host)
        host_before = storage.original.host
        if sys.getrefcount(storage.original) > _ALONE and host_before is not None:
            storage.original.host = host_before.copy()  # a copy of it is among the results
    for source, value in zip(sources, values, strict=True):
        np.copyto(source, value)


def _settle_error(recorder: Recorder, given: list[Array], error: BaseException) -> None:
    """Replace recorded arrays in an exception that leaves the function."""
    results = Results(recorder)
    error.args = tuple(results.of(value) for value in error.args)
    results.of(vars(error))


def _left_in_frames(error: BaseException, given: list[Array]) -> set[int]:
    """Return which arrays an exception's traceback shows; drop what gpuforge's own frames hold."""
    found, place = set(map(id, given)), error.__traceback__
    while place is not None:
        frame, place = place.tb_frame, place.tb_next
        if str(frame.f_globals.get("__name__", "")).startswith("gpuforge."):
            with suppress(RuntimeError):  # the frame of `record` is still running
                frame.clear()
        else:
            found.update(id(one) for one in frame.f_locals.values() if type(one) is Array)
    return found


def _settle_exports(recorder: Recorder, results: Results, values: tuple[Any, ...]) -> None:
    """Replace exports of recorded arrays in the attributes and items of arguments."""
    for value in values if recorder.exports else ():
        held: Any = value if type(value) in (dict, list) else attributes(value)
        for place, item in list(held.items() if type(held) is dict else enumerate(held)):
            made = results.given_to_numpy(item) if type(item) is np.ndarray else None
            if made is not None:
                held[place] = made
            elif isinstance(item, np.ndarray):
                results.of(item)  # a masked array, say: it and its mask become writable
    recorder.exports.clear()


def _is_caused_by_recording(error: BaseException, function: Callable[..., Any]) -> bool:
    """Return whether an exception may have been raised only because an array was recorded."""
    if isinstance(error, NotRecordable):
        return True
    if not isinstance(error, _SUSPECT):
        return False
    innermost: TracebackType | None = error.__traceback__
    while innermost is not None and innermost.tb_next is not None:
        innermost = innermost.tb_next
    if innermost is None:
        return False
    home = str(innermost.tb_frame.f_globals.get("__name__", ""))
    if home.startswith("gpuforge.runtime.array.dispatch"):
        return False  # NumPy raised it, asked with its own arrays
    if isinstance(error, ValueError):
        return _REFUSED in str(error) or bool(READ_ONLY.search(str(error)))
    if "type" in innermost.tb_frame.f_code.co_names:
        return True  # perhaps it chose by type(x), which is another one for a recorded array
    own = str(getattr(function, "__module__", ""))
    return not (_is_raise_statement(innermost) and home.split(".")[0] == own.split(".")[0])


def _is_raise_statement(place: TracebackType) -> bool:
    """Return whether a traceback entry is at a ``raise`` (or ``assert``) statement."""
    code = place.tb_frame.f_code.co_code
    opcode = code[place.tb_lasti] if place.tb_lasti < len(code) else -1
    return opcode in (dis.opmap["RAISE_VARARGS"], dis.opmap["RERAISE"])


def _reason(error: BaseException) -> str:
    innermost = error.__traceback__
    line = ""
    while innermost is not None:
        name = str(innermost.tb_frame.f_globals.get("__name__", ""))
        if not name.startswith(("gpuforge.", "numpy.")):
            line = f"{innermost.tb_frame.f_code.co_filename}:{innermost.tb_lineno}"
        innermost = innermost.tb_next
    text = " ".join(str(error).split())  # it may hold the values of a whole array
    text = f"{text[:MOST_OF_AN_ERROR]}..." if len(text) > MOST_OF_AN_ERROR else text
    return f"{line}: {text}" if line else text
