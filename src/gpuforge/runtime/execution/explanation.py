"""Where a call would run and why, with estimates for every backend and their evidence."""

from __future__ import annotations

from gpuforge.dataclass import dataclass
from gpuforge.runtime.execution.call import Call
from gpuforge.runtime.execution.decision import decide
from gpuforge.runtime.placement.policy import NUMPY, Decision
from gpuforge.runtime.placement.policy import Row as Known
from gpuforge.units import format_seconds, significant


@dataclass(frozen=True)
class Row:
    """The estimate for one backend.

    Attributes
    ----------
    transfer_seconds, run_seconds, total_seconds : None if nothing was measured
    evidence : what the numbers rest on, or why the backend is not a candidate
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
    function : name of the function
    call : dtypes and shapes of the arrays
    choice : name of the backend, or empty if the function is called as written
    rows : one per backend
    notes : sentences about exploration and the settings in force
    """

    function: str
    call: str
    choice: str
    rows: tuple[Row, ...] = ()
    notes: tuple[str, ...] = ()

    @classmethod
    def as_written(cls, function: str, reason: str) -> Explanation:
        """Return the explanation of a call that is not placed."""
        return cls(function, "", "", (), (f"called directly: {reason}",))

    def __repr__(self) -> str:
        return str(self)

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
    """Return the estimates of every backend for one call, without running it."""
    with call.session.lock:
        decision = decide(call, every=True)
        rows = [_row(call, row) for row in decision.rows] + _rows_not_open(call)
    choice = decision.trial or decision.backend
    notes = (*_notes(call, decision), *_why_not_the_fastest(call, decision, rows))
    return Explanation(call.function.name, call.signature.text, choice, tuple(rows), notes)


def _row(call: Call, row: Known) -> Row:
    name, estimate = row.backend, row.estimate
    if row.refused:
        return Row(name, None, None, None, f"not a candidate: {row.refused}", candidate=False)
    if estimate is None:
        return Row(name, None, None, None, "not measured yet for this function")
    transfer = 0.0 if name == NUMPY else call.record.transfers.get((call.key, name))
    run = None if transfer is None else max(0.0, estimate.seconds - transfer)
    evidence = estimate.evidence
    if not call.record.kind.curve(name).verified:
        evidence += "; its result has not been compared with NumPy's yet"
    return Row(name, transfer, run, estimate.seconds, evidence)


def _rows_not_open(call: Call) -> list[Row]:
    rows = []
    for library in call.session.libraries.values():
        if not library.opened:
            rows.append(_row_not_open(call, library.name))
        for failure in library.failures:
            text = f"not a candidate: {failure.reason}"
            rows.append(Row(failure.name, None, None, None, text, candidate=False))
    return rows


def _row_not_open(call: Call, library: str) -> Row:
    """Return what is known of a library that is not loaded, perhaps from a separate process."""
    stays = call.function.stays or call.record.stays
    for name, curve in call.record.kind.curves.items():
        if stays or name.split(":")[0] != library:
            continue
        cell = curve.cells.get(call.key)
        if curve.refused:
            return Row(name, None, None, None, f"not a candidate: {curve.refused}", candidate=False)
        if cell and cell.seconds:
            text = "not loaded: too little to gain so far, as measured before"
            return Row(name, None, None, cell.typical, text, candidate=False)
    text = stays or "installed but not loaded: too little to gain so far"
    return Row(library, None, None, None, text, candidate=False)


def _notes(call: Call, decision: Decision) -> list[str]:
    session, kind = call.session, call.record.kind
    notes = [decision.why] if decision.why else []
    if decision.trial:
        notes.append(f"the next call also runs on {decision.trial}, to compare the results")
    elif decision.exploring:
        notes.append(f"the next call tries {decision.backend}, to measure how long it takes")
    for (name, reason), (line, times) in call.record.fallbacks.items():
        notes.append(f"{line}: NumPy computes {name} on the host ({reason}), {times} times so far")
    if not session.policy.learn:
        notes.append(
            "no other backend is tried: learning is off"
            if not session.settings.deterministic
            else "no other backend is tried: placements come from the recorded plan"
        )
    elif kind.busy_seconds > 0:
        notes += _prices(call)
    if session.in_the_red:
        notes.append(
            "no other backend is tried unless it is known to be faster: so far, placement has cost"
            " more than it gained"
        )
    if call.relaxed:
        notes.append(
            "numerics are relaxed: warnings may be missing, and precision depends on the backend"
        )
    return notes


def _prices(call: Call) -> list[str]:
    """Return what exploration and compilation have cost so far, besides the calls themselves."""
    kind = call.record.kind
    spent, busy = format_seconds(kind.spent_seconds), format_seconds(kind.busy_seconds)
    times = kind.spent_seconds / kind.busy_seconds
    notes = [
        f"trying other backends took {spent}, {significant(times)} times as long as the calls"
        f" ({busy})"
        if times > 1
        else f"trying other backends took {significant(100 * times)} % of the calls' {busy}"
    ]
    if kind.outlay_seconds:
        compiling = format_seconds(kind.outlay_seconds)
        notes.append(f"compiling for pinned or faster backends took another {compiling}")
    return notes


def _why_not_the_fastest(call: Call, decision: Decision, rows: list[Row]) -> list[str]:
    """Return why the call does not run on the backend that is expected to be fastest."""
    able = [row for row in rows if row.candidate]
    known = {row.backend: row.total_seconds for row in able if row.total_seconds is not None}
    mine = known.get(decision.backend)
    if mine is None or decision.why or decision.trial or decision.exploring:
        return []
    return [
        f"{name} is expected to be faster, but {_what_is_in_the_way(call, name)}"
        for name, seconds in known.items()
        if seconds < mine
    ]


def _what_is_in_the_way(call: Call, name: str) -> str:
    session, curve = call.session, call.record.kind.curve(name)
    if call.pin:
        return f"the call is pinned to {call.pin}"
    if session.plan is not None:
        return "the recorded plan names another backend"
    if not curve.verified:
        return "its result must first be compared with NumPy's, when that is likely to pay off"
    candidate = next((one for one in session.candidates() if one.name == name), None)
    if candidate is not None and candidate.compiles and not curve.cell(call.key).ready:
        price = format_seconds(call.record.kind.compile_seconds(candidate))
        return f"compiling for these shapes takes about {price}: done when it is likely to pay off"
    return "it has too few measurements; it is tried when that is likely to pay off"
