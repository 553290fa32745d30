"""Others that hear of spans while a profile is on: NVTX, ``torch.profiler``, OpenTelemetry.

Only those are told that the program itself has loaded, and that listen: nothing is imported for it,
and without them a span costs nothing more.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from gpuforge import trace

Listener = tuple[Callable[[str], Any], Callable[[Any], object]]
_NSIGHT = ("NVTX_INJECTION64_PATH", "NSYS_PROFILING_SESSION_ID", "NV_NSIGHT_INJECTION_PORT")
"""Variables that Nsight sets in the programs that it watches."""


def attach() -> Callable[[], None]:
    """Tell those that listen now of every span from now on; return what ends that."""
    found = [made for make in (_nvtx, _torch, _opentelemetry) if (made := make()) is not None]
    stops = [trace.listen(*listener) for listener in found]

    def stop() -> None:
        for one in stops:
            one()

    return stop


def _nvtx() -> Listener | None:
    """The package ``nvtx``, where the program has loaded it, under Nsight or not."""
    nvtx: Any = sys.modules.get("nvtx")
    if nvtx is None and any(name in os.environ for name in _NSIGHT):
        try:
            nvtx = import_module("nvtx")
        except ImportError as error:
            trace.tell(f"Nsight watches, but hears of no spans ({error}): pip install nvtx")
            return None
    if nvtx is None:
        return None
    end: Callable[[Any], object] = nvtx.end_range
    return (lambda name: nvtx.start_range(message=name, domain="gpuforge")), end


def _torch() -> Listener | None:
    """PyTorch's profiler, which may be switched on and off meanwhile."""
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return None
    is_on, record = torch.autograd._profiler_enabled, torch.profiler.record_function

    def begin(name: str) -> Any:
        if not is_on():
            return None
        mark = record(name)
        mark.__enter__()
        return mark

    def end(mark: Any) -> None:
        if mark is not None:
            mark.__exit__(None, None, None)

    return begin, end


def _opentelemetry() -> Listener | None:
    """OpenTelemetry, where the program has set a provider of tracers."""
    api: Any = sys.modules.get("opentelemetry.trace")
    context: Any = sys.modules.get("opentelemetry.context")
    if api is None or context is None or "Proxy" in type(api.get_tracer_provider()).__name__:
        return None
    tracer = api.get_tracer("gpuforge")

    def begin(name: str) -> tuple[Any, Any]:
        span = tracer.start_span(name)
        return span, context.attach(api.set_span_in_context(span))

    def end(begun: tuple[Any, Any]) -> None:
        context.detach(begun[1])
        begun[0].end()

    return begin, end
