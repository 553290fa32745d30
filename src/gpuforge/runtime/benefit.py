"""``gpuforge.would_benefit``: would another backend than NumPy be faster for a call?"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gpuforge.runtime.function.naming import name_of
from gpuforge.runtime.offload import BoundOffloaded, Offloaded, offload

if TYPE_CHECKING:
    from gpuforge.runtime.execution.benefit import Benefit


def would_benefit(
    function: Callable[..., Any], /, *args: Any, measure: bool = True, **kwargs: Any
) -> Benefit:
    """Return whether a call would be faster on another backend than NumPy, and by how much.

    What was learned answers where each backend was timed for these shapes and dtypes before. Else
    the call is measured: on copies of its arrays, in turns on NumPy and on every backend that
    placement may use, until it is clear which is faster; results are compared with NumPy's first.
    That runs the function some ten to fifty times, at most about 3 seconds (one turn, where a call
    takes longer), and loads libraries that were not loaded yet.

    Parameters
    ----------
    function
        A plain function, or one that `offload` made: then its options hold, and placement keeps
        what was measured.
    *args, **kwargs
        As for a call of `function`. Arrays, also in lists, tuples and dictionaries, are copied;
        other objects are passed as they are. For a `function` with an argument named ``measure``,
        use ``functools.partial``.
    measure
        False: nothing is run or loaded. The answer is ``"unknown"`` where what was learned and
        calibrated does not tell with some certainty.

    Returns
    -------
    Benefit
        Frozen; prints as a table. ``verdict`` is ``"yes"``, ``"no"`` or ``"unknown"``; it is true
        in an ``if`` only for ``"yes"``.

    Raises
    ------
    BackendUnavailable
        If `function` is pinned to a backend that is missing.
    Exception
        What `function` raises.
    """
    placed: Any = (
        function if isinstance(function, Offloaded | BoundOffloaded) else offload(function)
    )
    if isinstance(placed, BoundOffloaded):
        args, placed = (placed.__self__, *args), placed.__func__
    from gpuforge.runtime.execution.benefit import as_written, benefit_of
    from gpuforge.runtime.prelude import prelude

    prelude.end()
    if not isinstance(placed, Offloaded):
        return as_written(name_of(function), "a coroutine or generator runs in steps")
    return benefit_of(placed, args, kwargs, measure=measure)
