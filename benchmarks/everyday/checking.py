"""Whether a body runs on a library when it is pinned there, and gives there what NumPy gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import gpuforge as gf
from everyday.body import Body
from everyday.judging import difference, outcome

FORMS = ("plain", "xp")
ORDINARY_CALLS = 3
"""The first may be compared with NumPy; the later ones show what is left of that."""
SPECIAL_CALLS = 2


def session(backends: list[str]) -> Any:
    """Return a session of its own: nothing remembered, no exception where a pin is refused."""
    return gf.session(history=False, fallback=True, backends=["numpy", *backends])


def check(body: Body, form: str, backend: str, size: int) -> dict[str, Any]:
    """Call one form of a body, pinned, on ordinary and then on special arguments.

    Returns `ran` (the last ordinary call ran on `backend`), `why` (if it did not, what `explain`
    says about that), `calls` (calls per backend over all), `differs` (case -> how its outcome is
    not NumPy's) and `warned` (cases in which only one of NumPy and the offloaded call warns).
    """
    function = body.form(form)
    placed = gf.offload(backend=backend)(function)
    differs: dict[str, str] = {}
    warned: list[str] = []
    before = 0
    for seed in range(ORDINARY_CALLS):
        before = calls_on(placed, backend)
        arguments = body.make(size, np.random.default_rng(seed))
        compare("ordinary", function, placed, arguments, differs, warned)
    ran = calls_on(placed, backend) > before
    why = "" if ran else why_not(placed, backend, arguments)
    for case, make in body.specials.items():
        for seed in range(SPECIAL_CALLS):
            arguments = make(size, np.random.default_rng(seed))
            compare(case, function, placed, arguments, differs, warned)
    found = {"ran": ran, "why": why, "calls": calls(placed)}
    return {**found, "differs": differs, "warned": sorted({*warned})}


def compare(
    case: str, function: Callable[..., Any], placed: Any, arguments: tuple[Any, ...],
    differs: dict[str, str], warned: list[str],
) -> None:  # fmt: skip
    """Note under `case` how the call of `placed` differs from that of `function`."""
    expected, found = outcome(function, arguments), outcome(placed, arguments)
    text = difference(expected, found, arguments)
    if text:
        differs.setdefault(case, text)
    if expected.warned != found.warned:
        warned.append(case)


def why_not(placed: Any, backend: str, arguments: tuple[Any, ...]) -> str:
    """Return why calls with these arguments do not run on `backend`."""
    explanation = placed.explain(*arguments)
    rows = [row for row in explanation.rows if row.backend.split(":")[0] == backend]
    return "; ".join([row.evidence for row in rows if not row.candidate] or explanation.notes)


def calls(placed: Any) -> dict[str, int]:
    """Return how many calls of an offloaded function ran on each backend."""
    return {name: count.calls for name, count in placed.stats().counts.items() if count.calls}


def calls_on(placed: Any, backend: str) -> int:
    """Return how many calls ran on `backend` (`torch`), on whichever device of it."""
    return sum(n for name, n in calls(placed).items() if name.split(":")[0] == backend)
