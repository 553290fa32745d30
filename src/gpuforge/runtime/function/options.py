"""The options that the user gave for one function."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypedDict


class Options(NamedTuple):
    """The options of ``@gpuforge.offload``.

    Attributes
    ----------
    backend : pinned backend, or a prefix of its name; empty for the fastest
    device : only backends on this device: ``cpu``, ``cuda``, ...
    numerics : ``strict``, ``exact``, ``relaxed``, or empty for the session's
    pure : False for a function that is always called as written
    convert : whether arrays that the function creates are recorded too
    min_elements : calls over fewer elements stay on NumPy; None for the session's setting
    fallback : whether a pinned backend that is missing falls back to NumPy; None for the setting
    isolate : whether libraries compute in worker processes; None: only those that may end this one
    """

    backend: str = ""
    device: str = ""
    numerics: str = ""
    pure: bool = True
    convert: bool = False
    min_elements: int | None = None
    fallback: bool | None = None
    isolate: bool | None = None


class MapOptions(TypedDict, total=False):
    """The options of ``f.map(items)``; see `gpuforge.runtime.offload.Offloaded.map`."""

    batch: int | Literal["auto"]
    max_batch: int | None
    timeout: float | None
    on_error: Literal["raise", "return"]
    ordered: bool
