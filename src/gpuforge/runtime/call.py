"""One call on its way, with what this session knows of its function and kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpuforge.runtime.peers import Peer
from gpuforge.runtime.priors import classify
from gpuforge.runtime.record import (
    MAX_KINDS,
    FunctionRecord,
    KindRecord,
    digest,
    stable_text,
)
from gpuforge.runtime.session import Session
from gpuforge.runtime.signature import Signature


@dataclass
class Call:
    """One call on its way.

    Attributes
    ----------
    held : calls of the same signature that ran since the last considered one
    written : places of the leaves that the function may write into
    """

    session: Session
    function: FunctionRecord
    record: KindRecord
    signature: Signature
    key: str
    written: tuple[int, ...]
    held: int = 0

    @property
    def leaves(self) -> tuple[Any, ...]:
        """The leaves of the arguments."""
        return self.signature.leaves

    @property
    def relaxed(self) -> bool:
        """Whether dtypes and precision may be the backend's own."""
        return (self.function.options.numerics or self.session.settings.numerics) == "relaxed"

    @property
    def pin(self) -> str:
        """The backend that the function, else the settings, pin the call to; empty for none."""
        return self.function.options.backend or self.session.settings.backend

    @property
    def may_fall_back(self) -> bool:
        """Whether NumPy takes over where a pinned backend is missing or not exact.

        Always, where the settings pin a whole program: some of its functions may not go there.
        """
        chosen = self.function.options.fallback
        if chosen is None and not self.function.options.backend:
            return True
        return self.session.settings.fallback if chosen is None else chosen

    def originals(self) -> tuple[Any, ...]:
        """Return the leaves, those that may be written to as copies."""
        return tuple(
            leaf.copy(order="K") if place in self.written else leaf
            for place, leaf in enumerate(self.leaves)
        )


def open_call(
    session: Session,
    function: FunctionRecord,
    signature: Signature,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    held: int = 0,
) -> Call:
    """Return the call with its records, which are made or read from the history at first."""
    with session.lock:
        record = function.kinds.get(signature.kind)
        if record is None:
            record = _new_kind(session, function, signature)
        key = record.signature((signature.exact, signature.opaque), signature.size)
    return Call(
        session, function, record, signature, key, function.written_leaves(args, kwargs), held
    )


def _new_kind(session: Session, function: FunctionRecord, signature: Signature) -> KindRecord:
    text = stable_text((signature.kind, signature.opaque))
    record = KindRecord(digest(text), str(signature))
    if len(function.kinds) >= MAX_KINDS:
        record.stays = f"over {MAX_KINDS} kinds of call: an argument changes with every call"
        return record
    record.stays = function.captures.stays_on_numpy
    if signature.opaque and not record.stays:
        function.captures.may_write = True
    operations = frozenset(function.captures.operations)
    record.kind.prior = session.prior(operations)
    record.kind.peer = Peer(session.peers, classify(operations), id(function))
    record.kind.family = function.family
    function.family.append(record.kind)
    function.kinds[signature.kind] = record
    _recall(session, function)
    return record


def _recall(session: Session, function: FunctionRecord) -> None:
    """Fill the kinds of a function with what other processes learned."""
    for timing in session.history.timings(function.digest):
        for record in function.kinds.values():
            name = timing.backend.split("@")[0]
            curve = record.kind.curve(name)
            known = timing.signature in curve.cells and curve.cells[timing.signature].seconds
            if record.digest == timing.kind and not known:
                record.sizes[timing.signature] = timing.size
                for seconds in timing.seconds:
                    curve.add(timing.signature, timing.size, seconds)
                curve.cell(timing.signature).row.clear()  # none of them ran in this process
