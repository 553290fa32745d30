"""Record what a function does with its arrays, and evaluate it where a value is needed.

A recorder belongs to one call. Its *engine* says which operations the chosen backend computes as
NumPy does, and evaluates tapes there.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from functools import lru_cache
from importlib import import_module
from types import CodeType, FrameType
from typing import Any, NamedTuple, Protocol
from weakref import ref

import numpy as np

from gpuforge import trace
from gpuforge.runtime.array.graph import (
    INPUT,
    NUMBER,
    Dtype,
    Lines,
    Node,
    Operation,
    Output,
    Shape,
    Tape,
)
from gpuforge.runtime.array.rules import count
from gpuforge.runtime.array.turns import Turn, resolve
from gpuforge.runtime.array.unsupported import NotRecordable, Unsupported

_errstate_variable: Any = getattr(
    import_module("numpy._core.umath"), "_extobj_contextvar", None
)  # slower, for a NumPy that keeps it elsewhere

TAPE_LIMIT, TAPE_MAXIMUM = 128, 1024
"""A tape with more entries is evaluated at the next loop iteration, or at once."""
TAPE_BYTES = 1 << 30
"""Most bytes of a longer tape, if all its values were of the largest one's size."""
MOST_TURNS = 4096
"""So many full tapes are not left to wait."""
MOST_WAITING_BYTES = 1 << 28
"""Nor are tapes for which so many bytes of arrays are kept that are not arguments."""
MOST_EVALUATIONS = 256
"""A call with more evaluations is not replayed."""
NUMERIC_KINDS = "biufc"
_OWN = ("gpuforge.", "numpy.")

Host = np.ndarray[Any, Any]


class Quick(NamedTuple):
    """All that is needed to record a binary operator on two operands of known kinds.

    Attributes
    ----------
    operation, result : the operation, and the dtype of its result
    number : what a Python number among the operands is converted to; None for two arrays
    least, most : limits that the number must be between
    """

    operation: Operation
    result: Dtype
    number: type | None = None
    least: float = 0
    most: float = 0


class Able(dict[tuple[Operation, Dtype], str]):
    """Cached answers of `Engine.supports`, by operation and dtype.

    Attributes
    ----------
    quick : by universal function and the kinds of its two operands, each a dtype or a Python type
    """

    __slots__ = ("quick",)

    def __init__(self) -> None:
        super().__init__()
        self.quick: dict[tuple[Any, ...], Quick] = {}


class Evaluation(NamedTuple):
    """One graph of a call that was evaluated.

    Attributes
    ----------
    program : the program that ran; None if the backend did not compute the values
    inputs : its arrays and numbers, or the earlier outputs that they are
    lines : source lines of its entries
    """

    program: Any
    inputs: list[Any]
    lines: Lines


class Engine(Protocol):
    """What a recorder needs from a backend.

    Attributes
    ----------
    able : cached answers of `supports`
    dtypes : NumPy type codes (``dtype.char``) that the backend supports
    latest : the program of the last evaluation; None if it did not compute the values
    pace : ends a recording that takes too long; None for no limit
    tape_limit : what `TAPE_LIMIT` is for tapes of small arrays
    repeats : whether it runs the turns of a loop as one program
    """

    able: Able
    dtypes: frozenset[str]
    latest: Any
    pace: Any
    tape_limit: int
    repeats: bool

    def supports(self, operation: Operation, dtype: Dtype) -> str:
        """Return why the operation stays on NumPy for inputs of `dtype`; empty if it runs here."""

    def run(self, tape: Tape, wanted: list[int], modes: dict[str, str]) -> list[Any]:
        """Return the values of the wanted entries, in arrays of the backend.

        `modes` is ``np.geterr()`` at the time of recording.
        """

    def get(self, value: Any) -> Host:
        """Return a value of the backend as a NumPy array that nothing else writes into."""


class Recorder:
    """One call that is recorded.

    Attributes
    ----------
    fallbacks : operations that NumPy computed on host arrays: (name, reason) to (line, times)
    evaluated : operations evaluated on the backend so far
    evaluations : all graphs evaluated so far, for a replay; None if values may have decided what
        was recorded next, or if no replay is wanted
    exports : by id, recorded arrays exported as NumPy arrays, with the exports
    reads : how often argument values were read while the function ran
    strided : what ``as_strided`` was given to make views that a program may write into
    turned : whether some multi-dimensional array is not in C order
    trouble : use of an array that needs a real NumPy array; empty if there was none
    closed : whether the call has ended; NumPy then computes everything
    tape_limit : what `TAPE_LIMIT` is for this tape
    stretched : whether that was set for its arrays
    turns : full tapes that wait to be evaluated
    parts : what has been made of earlier ones and is not evaluated yet
    waiting_bytes : bytes of arrays, not counting arguments, that are kept for the turns
    alike : how many of them compute the same as the one before
    left : whether this tape goes on beyond the loop of the one before
    """

    __slots__ = (
        "__weakref__ able alike arguments began closed engine errstate evaluated evaluations"
        " exports fallbacks filters left modes namespace parts quick reads stretched strided tape"
        " tape_limit trouble turned turns waiting_bytes"
    ).split()

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.tape = Tape()
        self.able = engine.able
        self.quick = engine.able.quick
        self.tape_limit, self.stretched = TAPE_LIMIT, False
        self.turns: list[Turn] = []
        self.parts: list[Any] = []
        self.alike, self.left, self.waiting_bytes = 0, False, 0
        self.fallbacks: dict[tuple[str, str], tuple[str, int]] = {}
        self.evaluated = self.reads = 0
        self.evaluations: list[Evaluation] | None = None
        self.exports: dict[int, tuple[Any, ref[Host]]] = {}
        self.strided: list[ref[Host]] = []
        self.began: tuple[Any, int] | None = None
        self.arguments: list[Any] = []
        self.closed = False
        self.namespace: Any = None
        self.trouble = ""
        self.turned = False
        self.errstate = _errstate()
        self.modes = _modes(self.errstate)
        self.filters = (warnings.filters, len(warnings.filters))

    def note(self, operation: Operation, inputs: tuple[Node, ...], params: tuple[Any, ...],
             shape: Shape, dtype: Dtype) -> Node:  # fmt: skip
        """Record one operation and return its node; evaluate it at once if it may raise.

        Raises
        ------
        Unsupported
            If the backend does not compute it as NumPy does.
        """
        self.begin()
        self.check(operation, inputs[0].dtype if inputs else dtype)
        places = tuple([self.place(node) for node in inputs])
        node = self.append(operation, places, params, shape, dtype)
        if operation.raises:
            self.force()
        return node

    def begin(self) -> None:
        """End a tape that has become too long, before new entries refer to places on it."""
        length = len(self.tape.entries)
        if not length:
            self.began = self.began if self.turns else None
        elif length > TAPE_MAXIMUM or (
            length > self.tape_limit and not self._stretch(length) and self._comes_round(length)
        ):
            self.turn() if self.engine.repeats else self.evaluate()

    def _stretch(self, length: int) -> bool:
        """Return whether the tape may be longer, since its arrays are small."""
        if self.stretched or self.engine.tape_limit == TAPE_LIMIT:
            return False
        nodes = (node for node in self.tape.nodes if node is not None)
        largest = max((count(node.shape) * node.dtype.itemsize for node in nodes), default=1)
        most = TAPE_BYTES // max(largest, 1)
        self.tape_limit, self.stretched = min(self.engine.tape_limit, max(most, TAPE_LIMIT)), True
        return length <= self.tape_limit

    def _comes_round(self, length: int) -> bool:
        frame = user_frame()
        # Not f_lasti alone: it moves by some places once Python has specialised an instruction.
        here = (frame.f_code, _positions(frame.f_code)[frame.f_lasti // 2])
        left = length > 2 * self.tape_limit and not self.left  # the loop of the turns before
        if self.began is None or left:
            self.began, self.left = here, left
            return False
        return self.began == here

    def turn(self) -> None:
        """Let a full tape wait: the turns of a loop may be evaluated together."""
        tape, self.tape = self.tape, Tape()
        wanted, before = self._wanted(tape), self.turns[-1] if self.turns else None
        for node in tape.nodes:
            if node is not None:
                node.tape = None
        self._keep_inputs(tape, set(map(id, before.inputs)) if before else set())
        self.turns.append(Turn.of(tape, wanted, before))
        self.alike += before is not None and self.turns[-1].is_like(before)
        self.left = False
        if self.engine.pace is not None:
            self.engine.pace.check_turn(is_loop=2 * self.alike > len(self.turns))
        if len(self.turns) > MOST_TURNS or self.waiting_bytes > MOST_WAITING_BYTES:
            self._evaluate_turns()

    def _keep_inputs(self, tape: Tape, known: set[int]) -> None:
        """Prepare the inputs of a tape that waits; `known` are the ids of the last one's.

        Arguments become nodes: other arrays are constants, also for a replay.
        """
        nodes = [one._storage.original for one in self.arguments]
        originals = {id(node.host): node for node in nodes}
        tape.inputs = [originals.get(id(value), value) for value in tape.inputs]
        self.waiting_bytes += sum(
            one.nbytes for one in tape.inputs if type(one) is np.ndarray and id(one) not in known
        )

    @staticmethod
    def _wanted(tape: Tape) -> list[int]:
        """Return the places of the entries that something still refers to."""
        return [
            index
            for index, referred in enumerate(references(tape.nodes))
            if referred and tape.entries[index][0] not in (INPUT, NUMBER)
        ]

    def check(self, operation: Operation, dtype: Dtype) -> None:
        """Raise Unsupported unless the backend computes `operation` on `dtype` as NumPy does."""
        key = (operation, dtype)
        reason = self.able.get(key)
        if reason is None:
            reason = self.able[key] = self.engine.supports(operation, dtype)
        if reason:
            if operation.structural:
                raise self.refuse(reason)  # a copy on the host would not share memory
            raise Unsupported(reason)

    def append(self, operation: Operation, places: tuple[int, ...], params: tuple[Any, ...],
               shape: Shape, dtype: Dtype) -> Node:  # fmt: skip
        """Add one entry to the tape and return its node."""
        tape = self.tape
        node = Node(shape, dtype, tape, len(tape.entries))
        tape.entries.append((operation, places, params))
        tape.nodes.append(node)
        if trace.enabled:
            frame = user_frame()
            tape.lines[node.index] = frame.f_code.co_filename, frame.f_lineno
        return node

    def place(self, node: Node) -> int:
        """Return the place of a node on the tape, adding a known value as an input."""
        tape = self.tape
        if node.tape is not tape:
            node.tape, node.index = tape, len(tape.entries)
            tape.entries.append((INPUT, (), (node.dtype, node.shape)))
            tape.nodes.append(node)
            value = node.host if node.value is None else node.value
            # Its turn may wait, or this tape, which must then be able to tell it from a constant.
            tape.inputs.append(node if value is None or node.made else value)
            tape.origins.append(node.made)
        return node.index

    def number(self, value: complex) -> int:
        """Add a Python number to the tape and return its place."""
        tape = self.tape
        tape.entries.append((NUMBER, (), (type(value),)))
        tape.nodes.append(None)
        tape.inputs.append(value)
        tape.origins.append(None)
        return len(tape.entries) - 1

    def has(self, dtype: Dtype) -> bool:
        """Return whether the backend supports `dtype`; other arrays stay NumPy's own."""
        return dtype.isnative and dtype.char in self.engine.dtypes

    def known(self, host: Host) -> Node:
        """Return a node for a host array that nothing else writes into during the call."""
        if host.dtype.kind not in NUMERIC_KINDS:
            raise Unsupported(f"arrays of dtype {host.dtype} stay in NumPy")
        if not host.dtype.isnative:
            host = host.astype(host.dtype.newbyteorder("="))
        node = Node(host.shape, host.dtype, None, -1)
        node.host = host
        self.turned = self.turned or not host.flags.c_contiguous
        return node

    def force(self) -> None:
        """Evaluate for a use of the values, on which what is recorded next may depend."""
        self.evaluations = None
        self.evaluate()

    def evaluate(self) -> None:
        """Evaluate every entry of the tape that is still referenced.

        If NumPy raises for the last recorded entries, the others remain to be evaluated.
        """
        if self.turns:
            last = self.tape.entries[-1:]
            if last and not last[0][0].raises:
                self.turn()
        self._evaluate_turns()
        tape, self.tape = self.tape, Tape()
        resolve(tape)
        self.tape_limit, self.stretched = TAPE_LIMIT, False
        wanted = self._wanted(tape)
        try:
            values = self.engine.run(tape, wanted, self.modes) if wanted else []
        except BaseException as error:
            if isinstance(error, NotRecordable):
                self.trouble = str(error)
            while tape.entries and tape.entries[-1][0].raises:
                tape.entries.pop()
                tape.nodes.pop()
            self.tape = tape
            raise
        self.evaluated += len(tape.entries) - len(tape.inputs) if wanted else 0
        self._keep(tape, [tape.nodes[index] for index in wanted], values)
        for node in tape.nodes:
            if node is not None:
                node.tape = None

    def _evaluate_turns(self) -> None:
        """Evaluate the tapes that wait, equal ones together.

        What has been evaluated is dropped at once, so that memory is free for what follows.
        """
        if self.turns:
            self._fold()
        while self.parts:
            part = self.parts[0]
            if part.wanted:
                resolve(part.tape)
                try:
                    values = self.engine.run(part.tape, part.wanted, self.modes)
                except NotRecordable as error:
                    self.trouble = str(error)
                    raise
                self.evaluated += part.operations
                self._keep(part.tape, part.nodes, values)
                del values
            del self.parts[0]

    def _fold(self) -> None:
        """Turn the tapes that wait into what is to be evaluated for them."""
        from gpuforge.runtime.array.repetition import folded

        turns, tape = self.turns, self.tape
        held = Counter(id(one) for turn in turns for one in turn.inputs)
        held.update(map(id, (*tape.inputs, *filter(None, tape.nodes))))
        nodes = [node for turn in turns for node in turn.nodes]
        alive = {
            id(node)
            for node, referred in zip(nodes, references(nodes), strict=True)
            if referred > held[id(node)] + 1
        }
        alive.update(map(id, tape.inputs))
        self.parts += folded(list(turns), alive)
        self.turns, self.began = [], None
        self.alike = self.waiting_bytes = 0

    def _keep(self, tape: Tape, nodes: list[Any], values: list[Any]) -> None:
        """Keep the values of an evaluated tape in their nodes."""
        number = self._evaluation(tape) if nodes else 0
        for output, (node, value) in enumerate(zip(nodes, values, strict=True)):
            node.value, node.made = value, Output(number, output)

    def _evaluation(self, tape: Tape) -> int:
        """Remember an evaluation for a replay, and return its number."""
        if self.evaluations is None or len(self.evaluations) >= MOST_EVALUATIONS:
            self.evaluations = None
            return 0
        pairs = zip(tape.inputs, tape.origins, strict=True)
        inputs = [value if origin is None else origin for value, origin in pairs]
        self.evaluations.append(Evaluation(self.engine.latest, inputs, tape.lines))
        return len(self.evaluations) - 1

    def host(self, node: Node) -> Host:
        """Return the value of a node as a NumPy array, which must not be written into."""
        self.reads += 1
        if node.value is None and node.host is None:
            self.force()
        if node.host is None:
            node.host = self.engine.get(node.value)
        return node.host

    def look_at(self, node: Node) -> None:
        """Count a read of a node's values, if the node is an argument."""
        self.reads += any(array._storage.original is node for array in self.arguments)

    def watch_errors(self) -> None:
        """Remember how floating-point errors are treated at this point.

        Raises
        ------
        Unsupported
            If they raise, or warnings raise or are caught: NumPy then computes at the statement.
        """
        if warnings.filters is not self.filters[0] or len(warnings.filters) != self.filters[1]:
            raise Unsupported("warnings are caught or turned into errors around it")
        if _errstate_variable and _errstate_variable.get(None) is self.errstate:
            return
        errstate = _errstate()
        modes = _modes(errstate)
        if modes != self.modes:
            if any(mode not in ("ignore", "warn") for mode in modes.values()):
                raise Unsupported("np.errstate raises, calls or prints around it")
            self.force()
            self.modes = modes
        self.errstate = errstate

    def refuse(self, use: str, kind: type[NotRecordable] = NotRecordable) -> NotRecordable:
        """Return the exception for a use of an array that needs a real NumPy array."""
        frame = user_frame()
        reason = f"{frame.f_code.co_filename}:{frame.f_lineno}: {use}"
        if kind is NotRecordable:
            self.trouble = reason
        return kind(reason)

    def fell_back(self, name: str, reason: str) -> None:
        """Count a fallback to NumPy, with the line of the user's code that caused it."""
        line, times = self.fallbacks.get((name, reason), ("", 0))
        if not times:
            frame = user_frame()
            line = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        self.fallbacks[name, reason] = (line, times + 1)


@lru_cache(maxsize=64)
def _positions(code: CodeType) -> list[Any]:
    """Return the place in the source of each unit of a function's bytecode."""
    return list(code.co_positions())


def user_frame() -> FrameType:
    """Return the innermost frame that belongs to neither gpuforge nor NumPy."""
    frame = sys._getframe(1)
    while frame.f_back and str(frame.f_globals.get("__name__", "")).startswith(_OWN):
        frame = frame.f_back
    return frame


def is_recording() -> bool:
    """Return whether the caller records an operation, which works with recorded arrays only."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith("gpuforge.runtime.array.operations"):
            return True
        frame = frame.f_back if module.startswith(_OWN) else None
    return False


def _errstate() -> Any:
    """Return the object that stands for how floating-point errors are treated now."""
    return _errstate_variable.get(None) if _errstate_variable else None


_known_modes: tuple[Any, dict[str, str]] = (None, {})
"""The latest object that `_errstate` returned, and what `np.geterr` did; empty at first."""


def _modes(errstate: Any) -> dict[str, str]:
    """Return how NumPy treats floating-point errors, which is read once per state."""
    global _known_modes
    known = _known_modes
    if _errstate_variable and known[1] and known[0] is errstate:
        return known[1]
    modes: dict[str, str] = {**np.geterr()}  # type: ignore[dict-item]
    _known_modes = errstate, modes
    return modes


def references(values: list[Any]) -> list[int]:
    """Return how many references each value of a list has, not counting the list's own."""
    count = sys.getrefcount
    # What the loop itself adds depends on the version of Python: 2 until 3.13, 1 since 3.14.
    return [count(value) - _LISTED for value in values]


_LISTED = 0  # for the next line, which finds it out
_LISTED = references([object()])[0]
"""Reference count of an object that only a list and a loop over it hold, in this Python."""
