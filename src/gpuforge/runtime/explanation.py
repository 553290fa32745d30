"""Where a call would run, and why: every number measured, or computed from measured ones."""

from __future__ import annotations

from dataclasses import dataclass

from gpuforge.runtime.call import Call
from gpuforge.runtime.decision import candidates, find_pinned, refusal
from gpuforge.runtime.placement import NUMPY, Candidate
from gpuforge.units import format_seconds, significant


@dataclass(frozen=True)
class Row:
    """One backend's outlook.

    Attributes
    ----------
    transfer_seconds, run_seconds, total_seconds : None where nothing was measured
    evidence : what the numbers rest on, or why it is no candidate
    """

    backend: str
    transfer_seconds: float | None
    run_seconds: float | None
    total_seconds: float | None
    evidence: str
    candidate: bool = True


@dataclass(frozen=True)
class Explanation:
    """Why a call runs where it runs. ``print`` it, or read its fields.

    Attributes
    ----------
    function : its name
    call : dtypes and shapes of the arrays
    choice : name of the backend, or empty when the call is made as written
    rows : one per backend
    notes : sentences about exploration and settings in force
    """

    function: str
    call: str
    choice: str
    rows: tuple[Row, ...] = ()
    notes: tuple[str, ...] = ()

    @classmethod
    def as_written(cls, function: str, reason: str) -> Explanation:
        """Return the explanation of a call that is not placed."""
        return cls(function, "", "", (), (f"called as written: {reason}",))

    def __str__(self) -> str:
        lines = [f"{self.function}({self.call})"]
        if self.rows:
            cells = [("backend", "transfer", "run", "total", "evidence")]
            cells += [_cells(row, self.choice) for row in self.rows]
            widths = [max(len(line[i]) for line in cells) for i in range(4)]
            for line in cells:
                columns = [cell.ljust(w) for cell, w in zip(line, widths, strict=False)]
                lines.append("  " + "  ".join([*columns, line[4]]))
        lines += self.notes
        return "\n".join(lines)


def _cells(row: Row, choice: str) -> tuple[str, str, str, str, str]:
    times = (row.transfer_seconds, row.run_seconds, row.total_seconds)
    a, b, c = ("-" if t is None else format_seconds(t) for t in times)
    chosen = "  <- chosen" if row.backend == choice else ""
    return row.backend, a, b, c, row.evidence + chosen


def explain_call(call: Call) -> Explanation:
    """Return the outlook of every backend for one call; nothing is run."""
    session, record = call.session, call.record
    with session.lock:
        rows = [_row(call, candidate) for candidate in candidates(call)]
        rows += _rows_not_open(call)
        choice = _choice(call)
    return Explanation(call.function.name, record.text, choice, tuple(rows), tuple(_notes(call)))


def _choice(call: Call) -> str:
    session, record = call.session, call.record
    options = call.function.options
    if record.stays or call.pin == NUMPY:
        return NUMPY
    if call.pin:
        pinned = find_pinned(call)
        if pinned is None or refusal(call, pinned.name):
            return NUMPY
        return pinned.name
    if call.signature.size < (options.min_elements or session.settings.min_elements):
        return NUMPY
    rivals = [c for c in candidates(call) if not refusal(call, c.name)]
    estimates = {c.name: record.kind.estimate(c, call.key, call.signature.size) for c in rivals}
    if estimates.get(NUMPY) is None:
        return NUMPY
    return session.policy.best(record.kind, call.key, rivals, estimates)


def _row(call: Call, candidate: Candidate) -> Row:
    record, name = call.record, candidate.name
    refused = refusal(call, name) or (record.stays if name != NUMPY else "")
    if refused:
        return Row(name, None, None, None, f"no candidate: {refused}", candidate=False)
    estimate = record.kind.estimate(candidate, call.key, call.signature.size)
    if estimate is None:
        return Row(name, None, None, None, "not measured yet for this function")
    transfer = 0.0 if name == NUMPY else record.transfers.get((call.key, name))
    run = None if transfer is None else max(0.0, estimate.seconds - transfer)
    evidence = estimate.evidence
    if not record.kind.curve(name).verified:
        evidence += "; its result was not compared with NumPy's yet"
    return Row(name, transfer, run, estimate.seconds, evidence)


def _rows_not_open(call: Call) -> list[Row]:
    rows = []
    for library in call.session.libraries.values():
        if not library.opened:
            text = call.record.stays or "installed, not loaded: too little to gain so far"
            rows.append(Row(library.name, None, None, None, text, candidate=False))
        for failure in library.failures:
            text = f"no candidate: {failure.reason}"
            rows.append(Row(failure.name, None, None, None, text, candidate=False))
    return rows


def _notes(call: Call) -> list[str]:
    session, kind = call.session, call.record.kind
    notes = [call.record.stays] if call.record.stays else []
    if not session.policy.learn:
        notes.append(
            "nothing is tried: learning is off"
            if not session.settings.deterministic
            else "nothing is tried: placements come from the recorded plan"
        )
    elif kind.busy_seconds > 0:
        share = kind.spent_seconds / kind.busy_seconds
        notes.append(
            f"trying other backends took {significant(100 * share)} % of"
            f" {format_seconds(kind.busy_seconds)} busy"
            f" (at most {significant(100 * session.policy.explore_share)} % for each)"
        )
        if kind.outlay_seconds:
            compiling = format_seconds(kind.outlay_seconds)
            notes.append(
                f"compiling for what was pinned or expected to be faster took {compiling} besides"
            )
    if call.relaxed:
        notes.append("numerics are relaxed: dtypes and precision are the backend's own")
    return notes
