"""Record a call: run the user's function once, on arrays that record its operations."""

from __future__ import annotations

import dis
import gc
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from inspect import ismemberdescriptor
from itertools import islice, pairwise
from traceback import clear_frames
from types import CellType, FrameType, FunctionType, ModuleType, TracebackType
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

import gpuforge.runtime.array.operations  # noqa: F401 - fills the table
from gpuforge.runtime.array.array import SHUFFLE, Array, argument, node_of, value_of
from gpuforge.runtime.array.graph import Node
from gpuforge.runtime.array.namespace import Namespace
from gpuforge.runtime.array.recorder import Engine, Host, Recorder, references
from gpuforge.runtime.array.storage import Storage, follow
from gpuforge.runtime.array.unsupported import READ_ONLY, NotRecordable
from gpuforge.runtime.evaluation.replay import Noted
from gpuforge.runtime.function.entry import written

_SUSPECT = (TypeError, AttributeError, BufferError, SystemError, NotImplementedError, ValueError)
"""Exceptions raised by a use of an array that only a real NumPy array supports."""
_REFUSED = "__array__ method not producing an array"
"""NumPy's error for what it would have done with an array of its own."""
MOST_OF_AN_ERROR = 160
"""Characters of an error's text that a reason quotes."""


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
    if type(function) is FunctionType and _does(function, values, _compares_types):
        raise StartAgain("type(x) is compared with a type of NumPy", NotRecordable)
    if _has_other_alias(function, values):
        raise StartAgain("the memory of an argument is aliased", NotRecordable)
    if any(map(_overlaps_itself, values)):
        raise StartAgain("elements of an argument share memory", NotRecordable)
    recorder = Recorder(engine)
    recorder.evaluations = [] if noting else None
    results = _Results(recorder)
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
        _settle_exports(recorder, _Results(recorder), values)
        if any(type(value) not in _HOLDING_NOTHING for value in values):
            left = _left_in_frames(error, given)
            if references([recorder])[0] - referred > len(left):
                _settle_kept(recorder, given, results)
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


def _close(others: int, recorder: Recorder, given: list[Array], results: _Results) -> bool:
    """End a recording with `others` references to it; return whether recorded arrays outlive it."""
    own = len(given) + (recorder.namespace is not None)
    kept = others > own or any(references(given))
    if kept:
        _settle_kept(recorder, given, results)
    recorder.closed, recorder.namespace = True, None
    return kept


def _has_other_alias(function: Any, values: tuple[Any, ...]) -> bool:
    """Return whether a function that writes can reach an argument's memory by another name."""
    outside: list[Any] = []
    if type(function) is FunctionType:
        outside += map(function.__globals__.get, written(function.__code__).co_names)
        for cell in function.__closure__ or ():
            with suppress(ValueError):  # an empty one
                outside.append(cell.cell_contents)
    reached = [one for one in outside if type(one) is np.ndarray]
    for value in (*values, *outside):
        if type(value) in _HOLDING_NOTHING:
            continue
        held: Any = value if isinstance(value, list | tuple | dict) else ()
        if not held and not isinstance(value, _WITHOUT_RESULTS):
            held = _attributes(value)
        items = held.values() if isinstance(held, dict) else held
        reached += [one for one in islice(items, MAX_HELD) if type(one) is np.ndarray]
    if not reached:
        return False
    given = [value for value in values if type(value) is np.ndarray]
    if not any(np.may_share_memory(one, array) for one in reached for array in given):
        return False
    return _does(function, values, _may_write)


def _does(function: Any, values: tuple[Any, ...], has: Callable[[Any], bool]) -> bool:
    """Return whether the code of a function, or of one that it may call, may have a property."""
    kinds = tuple({type(value) for value in values})
    key = (getattr(function, "__code__", None), kinds, has)
    if key in _known:
        return _known[key]
    own = [vars(base) for kind in kinds for base in kind.__mro__[:-1]]
    seen: set[FunctionType] = set()
    level, depth = {function}, 0
    found = type(function) is not FunctionType
    while level and not found and depth <= MAX_DEPTH:
        found = any(has(written(one.__code__)) for one in level)
        named = [
            names.get(name)
            for one in level
            for names in (*own, one.__globals__)
            for name in written(one.__code__).co_names
        ]
        bases = [base for one in named if type(one) is type for base in one.__mro__]
        named += [vars(base).get("__init__") for base in bases]
        seen, depth = seen | level, depth + 1
        level = {one for one in map(_wrapped, named) if _is_program(one)} - seen
    _known[key] = found
    return found


def _is_program(value: Any) -> bool:
    """Return whether a value is a function, and not one of ours, which know recorded arrays."""
    module = value.__module__ if type(value) is FunctionType else "gpuforge.runtime."
    return not str(module).startswith("gpuforge.runtime.")


def _wrapped(value: Any) -> Any:
    """Return what a decorated function wraps, without code of the value's own: it may import."""
    if type(value) in (staticmethod, classmethod):
        return value.__func__
    if getattr(type(value), "_is_offloaded", False):
        return value._function
    return _attributes(value).get("__wrapped__", value)


def _overlaps_itself(value: Any) -> bool:
    """Return whether a write into one element of an array may change another one."""
    if type(value) is not np.ndarray or value.flags.forc or not value.flags.writeable:
        return False
    low, high = byte_bounds(value)
    return high - low < value.nbytes


MAX_HELD = 64
"""Values that are inspected in one container or object."""
_known: dict[Any, bool] = {}
MAX_DEPTH = 4
"""Depth of nested calls whose code is read."""


def _may_write(code: Any) -> bool:
    """Return whether code assigns to items or in place."""
    return any(
        step.opname in ("STORE_SUBSCR", "STORE_SLICE")
        or (step.opname == "BINARY_OP" and "=" in step.argrepr)
        for step in dis.get_instructions(code)
    )


def _compares_types(code: Any) -> bool:
    """Return whether code compares a ``type(x)`` with NumPy's: a recorded array has its own."""
    steps = list(dis.get_instructions(code)) if "type" in code.co_names else []
    nearby = [steps[max(0, n - 3) : n + 12] for n, one in enumerate(steps) if one.argval == "type"]
    return any(map(_compares, nearby))


def _compares(near: list[dis.Instruction]) -> bool:
    """Return whether the steps around a ``type(x)`` compare it, or look it up in a table."""
    names = [str(one.argval) for one in near]
    at = names.index("type")
    if not {"get", "issubclass"}.isdisjoint(names[:at]):
        return True
    if {"IS_OP", "COMPARE_OP", "CONTAINS_OP"}.isdisjoint(one.opname for one in near):
        used = [two for one, two in pairwise(near[at:]) if one.opname.startswith("CALL")][:1]
        return any("SUBSCR" in one.opname or one.argrepr == "[]" for one in used)
    return names.count("type") > 1 or any(isinstance(vars(np).get(name), type) for name in names)


def _wrap_arguments(recorder: Recorder, values: tuple[Any, ...]) -> tuple[list[Any], list[Array]]:
    """Return the values to pass for the arguments, and the recorded arrays among them.

    An array passed twice becomes one recorded array; non-native byte order is not recorded.
    """
    arrays: dict[int, Array] = {}
    for value in values:
        if type(value) is not np.ndarray or id(value) in arrays:
            continue
        if value.dtype.isnative:
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


_ALONE = 2
"""Reference count of a node that only its storage refers to."""


def _settle_error(recorder: Recorder, given: list[Array], error: BaseException) -> None:
    """Replace recorded arrays in an exception that leaves the function."""
    results = _Results(recorder)
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


def _settle_exports(recorder: Recorder, results: _Results, values: tuple[Any, ...]) -> None:
    """Replace exports of recorded arrays in the attributes and items of arguments."""
    for value in values if recorder.exports else ():
        held: Any = value if type(value) in (dict, list) else _attributes(value)
        for place, item in list(held.items() if type(held) is dict else enumerate(held)):
            made = results.given_to_numpy(item) if type(item) is np.ndarray else None
            if made is not None:
                held[place] = made
            elif isinstance(item, np.ndarray):
                results.of(item)  # a masked array, say: it and its mask become writable
    recorder.exports.clear()


class _Results:
    """Replaces the recorded arrays in a result with real NumPy arrays."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.seen: dict[int, Any] = {}
        self.hosts: list[Host] = []
        self.alive: list[Any] = []

    def of(self, value: Any) -> Any:
        """Return a value with every recorded array replaced; containers keep their identity."""
        kind = type(value)
        if kind is Array:
            return self._array(value)
        if kind is np.ndarray and value.dtype.kind != "O":
            return self._exported(value)
        if isinstance(value, np.ndarray):
            self.open(value)
        if kind in _ATOMS or id(value) in self.seen:
            return self.seen.get(id(value), value)
        self.alive.append(value)
        self.seen[id(value)] = value
        made: Any
        if isinstance(value, tuple):
            made = self._tuple(value)
        elif isinstance(value, list):
            made = value
            value[:] = [self.of(item) for item in value]
        elif isinstance(value, dict | set):
            made = value
            _replace_keys(value, self.of)
            for key, item in list(value.items()) if isinstance(value, dict) else ():
                made[key] = self.of(item)
        else:
            made = value
            if isinstance(value, np.ndarray) and value.dtype.kind == "O":
                self._elements(value.view(np.ndarray))
            if kind is not np.ndarray:
                self._object(value)
        self.seen[id(value)] = made
        return made

    def _elements(self, value: Host) -> None:
        """Replace what an array of objects holds, in place, even if it is read-only."""
        holding = set(filter(_may_hold, set(map(type, value.flat))))
        if not holding:
            return
        pairs = [(item, self.of(item) if type(item) in holding else item) for item in value.flat]
        if all(made is item for item, made in pairs):
            return
        with _writable(value):
            for place, (item, made) in enumerate(pairs):
                if made is not item:
                    value.flat[place] = made

    def _tuple(self, value: tuple[Any, ...]) -> Any:
        items = [self.of(item) for item in value]
        if all(a is b for a, b in zip(items, value, strict=True)):
            return value
        return _made_of(value, items)

    def _object(self, value: Any) -> None:
        if isinstance(value, partial):
            _set_partial(value, self.of(value.args), self.of(value.keywords))
            return
        for slot, item in _slots(value):
            made = self.of(item)
            if made is not item:
                slot.__set__(value, made)
        held = _attributes(value)
        if type(held) is dict and not isinstance(value, _WITHOUT_RESULTS):
            for name, item in list(held.items()):
                made = self.of(item)
                if made is not item:
                    held[name] = made

    def _array(self, value: Array) -> Any:
        found = self.seen.get(id(value))
        if found is None:
            found = self.seen[id(value)] = self._made(value)
            self.alive.append(value)
        return found

    def _made(self, value: Array) -> Any:
        if value._scalar:
            return value_of(value)
        storage = value._storage
        if storage is not None and storage.source is not None:
            return follow(storage.source, value._chain)
        if storage is not None:
            return follow(self._whole(storage), value._chain)
        return self._owned(node_of(value))

    def _whole(self, storage: Storage) -> Host:
        """Return a storage's memory, which several results may share."""
        found = self.seen.get(id(storage))
        if found is None:
            host = self._owned(storage.node)
            host = host if host.flags.c_contiguous else host.copy(order="C")
            found = self.seen[id(storage)] = host
            self.alive.append(storage)
        return found

    def _owned(self, node: Node) -> Host:
        """Return the value of a node in memory that no other result uses."""
        host = self.recorder.host(node)
        taken = any(host is other for other in self.hosts)
        self.hosts.append(host)
        if not (host.flags.c_contiguous or self.recorder.turned):
            return host.copy(order="C")  # libraries lay out their factors as they like
        shared = taken or 0 in host.strides  # a library repeats one number without copying it
        if shared or not host.flags.writeable or isinstance(host.base, np.ndarray):
            return host.copy(order="K")
        return host

    def given_to_numpy(self, value: Host) -> Any:
        """Return the result array for an exported array or a view of one; else None."""
        for array, held in self.recorder.exports.values():
            if held() is value:
                return self._array(array)
        return value if self.open(value) else None

    def open(self, value: Host) -> bool:
        """Let an array that NumPy made of an export be written into; return whether it is one."""
        lengths = zip(value.shape, value.strides, strict=True)
        found = all(step or length < 2 for length, step in lengths) and any(
            np.may_share_memory(value, memory)
            for array, _ in self.recorder.exports.values()
            for memory in (array._storage.source, array._node.host)
            if memory is not None
        )
        if found:
            with suppress(ValueError):  # the caller's array is read-only
                _unlock(value)
        return found

    def _exported(self, value: Host) -> Any:
        """Return the caller's own array for what ``np.asarray`` returned for an argument."""
        if value.flags.writeable or id(value) in self.seen:
            return value
        found = self.given_to_numpy(value)
        if found is not None:
            return found
        for array in self.recorder.arguments:
            if value is array._storage.original.host:
                return array._storage.source
        base = value.base
        if not isinstance(base, np.ndarray) or base.base is not None or 0 in value.strides:
            return value
        if not base.flags.writeable or value.nbytes < base.nbytes:
            return value  # NumPy made it read-only: a diagonal, the imaginary part of real numbers
        return value.copy(order="K")


_WITHOUT_RESULTS = (type, ModuleType, FunctionType, Array)
_ATOMS = {int, float, bool, complex, str, bytes, type(None), *set(np.sctypeDict.values())}


def _may_hold(kind: type) -> bool:
    """Return whether objects of a type may hold a recorded array, or are one."""
    return kind not in _ATOMS and (
        bool(kind.__dictoffset__)
        or hasattr(kind, "__slots__")
        or issubclass(kind, tuple | list | dict | np.ndarray | partial)
    )


@contextmanager
def _writable(array: Host) -> Iterator[None]:
    """Let a read-only array be written into, and for that the one whose memory it uses."""
    closed = _unlock(array)
    try:
        yield
    finally:
        for one in closed:
            one.flags.writeable = False


def _unlock(array: Host) -> list[Host]:
    """Make an array writable, and what it views; return those that were not."""
    closed: list[Host] = []
    owner: Any = array
    while isinstance(owner, np.ndarray) and not owner.flags.writeable:
        closed.append(owner)
        owner = owner.base
    for one in reversed(closed):
        one.flags.writeable = True
    return closed


_HOLDING_NOTHING = {np.ndarray, ModuleType, FunctionType, type, *_ATOMS}


def _settle_kept(recorder: Recorder, given: list[Array], results: _Results) -> None:
    """Replace recorded arrays that outlive the call in the objects that hold them."""
    kept = [one for one in gc.get_referrers(recorder) if type(one) is Array]
    new = {id(array): results.of(array) for array in kept}
    tuples, holders = _holders_of(kept, (kept, given, results.alive))
    for found in tuples:
        new[id(found)] = _made_of(found, [new.get(id(item), item) for item in found])
    for holder in holders:
        _replace(holder, new)


MAX_NESTED = 4
"""Depth of nested tuples that are searched for recorded arrays."""


def _holders_of(kept: list[Array], own: tuple[Any, ...]) -> tuple[list[Any], list[Any]]:
    """Return the tuples that hold arrays, each after those in it, and the user's other holders.

    Each level of nesting is one search of all objects: one for each array would take seconds.
    """
    tuples: dict[int, Any] = {}
    holders: list[Any] = []
    level: list[Any] = kept
    for _ in range(MAX_NESTED):
        found = [
            one
            for one in gc.get_referrers(*level)
            if not isinstance(one, FrameType) and not _is_one_of(one, (*own, level, holders))
        ]
        level = [one for one in found if _can_be_made_again(one)]
        holders += [one for one in found if not _can_be_made_again(one)]
        for one in level:
            tuples[id(one)] = tuples.pop(id(one), one)
        if not level:
            break
        own = (*own, found, tuples)
    return list(tuples.values()), holders


def _is_one_of(holder: Any, own: tuple[Any, ...]) -> bool:
    return any(holder is mine for mine in own)


def _replace(holder: Any, new: dict[int, Any]) -> None:
    """Replace the objects whose ids are in `new` in an object that holds some of them."""
    if isinstance(holder, dict | set):
        _replace_keys(holder, lambda key: new.get(id(key), key))
    if type(holder) is dict:
        _replace_items(holder, list(holder.items()), new)
    elif isinstance(holder, list | deque):
        _replace_items(holder, list(enumerate(holder)), new)
    elif isinstance(holder, CellType):
        holder.cell_contents = new.get(id(holder.cell_contents), holder.cell_contents)
    elif isinstance(holder, partial):
        _set_partial(holder, new.get(id(holder.args), holder.args), holder.keywords)
    else:
        if isinstance(holder, BaseException):
            holder.args = new.get(id(holder.args), holder.args)
        _replace_attributes(holder, new)


def _replace_attributes(holder: Any, new: dict[int, Any]) -> None:
    for slot, value in _slots(holder):
        if id(value) in new:
            slot.__set__(holder, new[id(value)])
    held = _attributes(holder)
    if isinstance(held, dict):
        _replace_items(held, list(held.items()), new)


def _replace_items(holder: Any, items: list[Any], new: dict[int, Any]) -> None:
    for key, item in items:
        if id(item) in new:
            holder[key] = new[id(item)]


def _replace_keys(holder: Any, made: Callable[[Any], Any]) -> None:
    """Replace keys of a dict, or items of a set, that are recorded: they hash as their values."""
    if _ATOMS.issuperset(map(type, holder)):
        return
    keys = list(map(made, holder))
    if any(new is not old for new, old in zip(keys, holder, strict=True)):
        found = dict(zip(keys, holder.values(), strict=True)) if isinstance(holder, dict) else keys
        holder.clear()
        holder.update(found)


def _can_be_made_again(value: Any) -> bool:
    """Return whether a value is a tuple, named or not, without a constructor of its own."""
    return type(value) is tuple or (isinstance(value, tuple) and hasattr(value, "_fields"))


def _made_of(value: tuple[Any, ...], items: list[Any]) -> Any:
    """Return a tuple like `value`, named or not, of other items."""
    return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)


def _set_partial(made: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> None:
    """Change the arguments of a partial in place: other objects may refer to it."""
    made.__setstate__((made.func, args, keywords, {}))


def _slots(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the descriptor and the value of each of an object's slots, those of its bases included.

    Descriptors work without code of the object's own, such as `__getattr__`.
    """
    for kind in () if type(value) is Array else type(value).__mro__:
        for slot in list(vars(kind).values()) if "__slots__" in vars(kind) else ():
            if ismemberdescriptor(slot):
                with suppress(AttributeError):  # it is empty
                    yield slot, slot.__get__(value)


def _attributes(value: Any) -> Any:
    """Return what is in an object's `__dict__`, if it has one, without code of its own."""
    try:
        return object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}


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


# -- a function with substituted globals ---------------------------------------------------------


_READ_FROM_THE_DICT = ("__name__", "__package__", "__spec__", "__path__", "__warningregistry__")
"""What Python itself reads from the dict of a frame's globals, past its `__getitem__`, to import
relatively, to name the module of what is defined there, and to warn once."""


class _Globals(dict[str, Any]):
    """A function's globals, with NumPy replaced by a recording namespace."""

    def __init__(self, real: dict[str, Any], namespace: Namespace) -> None:
        super().__init__({name: real[name] for name in _READ_FROM_THE_DICT if name in real})
        self.real, self.namespace = real, namespace

    def __del__(self) -> None:
        told = self.get("__warningregistry__")
        if told:  # the first warning of the module: later ones are told once in all
            self.real.setdefault("__warningregistry__", told)

    def __getitem__(self, name: str) -> Any:
        value = self.real[name]
        if value is np:
            return self.namespace
        if type(value) is FunctionType and value.__globals__ is self.real:
            return substituted(value, self.namespace)
        made = self.namespace.replaced(value)
        return value if made is None else made


def substituted(function: Callable[..., Any], namespace: Namespace) -> Callable[..., Any]:
    """Return a copy of a function whose globals have `namespace` in place of NumPy."""
    if type(function) is not FunctionType:
        return function
    code = written(function.__code__)
    if not code.co_names or _needs_globals(code):
        return function
    real = function.__globals__
    if type(real) is _Globals:
        real = real.real
    found = _Globals(real, namespace)
    dict.__setitem__(found, "__builtins__", real.get("__builtins__", __builtins__))
    made = FunctionType(code, found, function.__name__, function.__defaults__, function.__closure__)
    made.__kwdefaults__ = function.__kwdefaults__
    made.__dict__.update(function.__dict__)
    made.__qualname__, made.__module__ = function.__qualname__, function.__module__
    return made


_needs: dict[Any, bool] = {}
_USES_THE_DICT = {  # the body of a class reads names past `__getitem__`
    dis.opmap.get(name)
    for name in "STORE_GLOBAL DELETE_GLOBAL LOAD_NAME LOAD_FROM_DICT_OR_GLOBALS".split()
}


def _needs_globals(code: Any) -> bool:
    """Return whether code writes to its globals or may access their dict."""
    found = _needs.get(code)
    if found is None:
        found = (
            not {"globals", "f_globals", "exec", "eval"}.isdisjoint(code.co_names)
            or not _USES_THE_DICT.isdisjoint(code.co_code[::2])
            or any(_needs_globals(inner) for inner in code.co_consts if hasattr(inner, "co_code"))
        )
        _needs[code] = found
    return found
