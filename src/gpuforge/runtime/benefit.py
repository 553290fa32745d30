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

    If every backend was timed before for these shapes and dtypes, those timings answer. Else the
    call is measured on copies of its arrays, in turns on NumPy and on every backend that placement
    may use, until it is clear which is faster; results are first compared with NumPy's. That runs
    the function about ten to fifty times, for at most about 3 seconds (one turn if a call takes
    longer), and imports libraries that were not imported yet.

    Parameters
    ----------
    function
        A plain function, or one made by `offload`, whose options then apply and for which placement
        keeps the measurements.
    *args, **kwargs
        The arguments of the call. Arrays, also in lists, tuples and dicts, are copied; other
        objects are passed through. If `function` has a parameter named ``measure``, use
        ``functools.partial``.
    measure
        False to run and import nothing. The answer is then ``"unknown"`` if learned timings and
        calibration are not conclusive.

    Returns
    -------
    Benefit
        Frozen; prints as a table. ``verdict`` is ``"yes"``, ``"no"`` or ``"unknown"``; the object
        is true only for ``"yes"``.

    Raises
    ------
    BackendUnavailable
        If `function` is pinned to a backend that is missing.
    Exception
        Whatever `function` raises.
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
