"""NumPy's own arguments are read-only views; results that alias them look as without gpuforge."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuforge.runtime.structure import flatten, rebuild


def explain_read_only(error: ValueError) -> None:
    """Add to NumPy's error about a read-only array how to declare the write."""
    if "read-only" in str(error) and not getattr(error, "__notes__", None):
        error.add_note(
            "gpuforge: an offloaded function may write into the arguments it names only:"
            " @gpuforge.offload(mutates=('name',))"
        )


def give_back(result: Any, views: list[Any], originals: tuple[Any, ...]) -> Any:
    """Return `result` with views of arguments as writable and identical as NumPy's."""
    if type(result) is np.ndarray:
        return _give_back_array(result, views, originals)
    if isinstance(result, tuple | list | dict) or hasattr(result, "__dataclass_fields__"):
        leaves: list[Any] = []
        spec = flatten(result, leaves)
        made = [_give_back_array(v, views, originals) for v in leaves]
        return (
            result
            if all(a is b for a, b in zip(made, leaves, strict=True))
            else rebuild(spec, iter(made))
        )
    return result


def _give_back_array(value: Any, views: list[Any], originals: tuple[Any, ...]) -> Any:
    if type(value) is not np.ndarray or value.flags.writeable:
        return value
    for view, original in zip(views, originals, strict=True):
        if value is view:
            return original
    for view, original in zip(views, originals, strict=True):
        if type(original) is np.ndarray and original.flags.writeable and original is not view:
            owner = original if original.base is None else original.base
            if value.base is owner and 0 not in value.strides:
                value.flags.writeable = True
                return value
    return value
