"""Forwarding spans to NVTX, ``torch.profiler`` and OpenTelemetry while a profile is recorded.

Spans are forwarded only to active tools: to Nsight if it profiles this program, to PyTorch if it is
loaded and while its profiler is on, to OpenTelemetry if the program has set a tracer provider.
Without them a span has no extra cost.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

from gpuforge import trace
from gpuforge.installation import loaded

_NSIGHT = ("NVTX_INJECTION64_PATH", "NSYS_PROFILING_SESSION_ID", "NV_NSIGHT_INJECTION_PORT")
"""Variables that Nsight sets in programs that it profiles."""
_BESIDE = "spans are also passed to {}: what that takes is not in the stated cost of the recording"


def attach() -> Callable[[], None]:
    """Forward spans to all active tools from now on; return a function that ends that."""
    found = [made for make in (_nvtx, _torch, _opentelemetry) if (made := make()) is not None]
    stops = [trace.listen(*listener) for listener in found]

    def stop() -> None:
        for one in stops:
            one()

    return stop


def _nvtx() -> trace.Listener | None:
    """Return a listener for the package ``nvtx`` if Nsight profiles this program."""
    if not any(name in os.environ for name in _NSIGHT):
        return None
    try:
        nvtx: Any = import_module("nvtx")
    except ImportError as error:
        trace.tell(f"Nsight is active but receives no spans ({error}): pip install nvtx")
        return None
    trace.tell(_BESIDE.format("NVTX"))
    begin = partial(nvtx.start_range, domain="gpuforge")
    return begin, lambda mark, span: nvtx.end_range(mark), None


def _torch() -> trace.Listener | None:
    """Return a listener for PyTorch's profiler, which may be switched on and off at any time."""
    torch = loaded("torch")
    if torch is None:
        return None
    try:
        record, is_on = torch.profiler.record_function, torch.autograd._profiler_enabled
    except AttributeError:
        trace.tell("PyTorch was still loading at the start: its profiler receives no spans")
        return None

    def begin(name: str) -> Any:
        mark = record(name)
        mark.__enter__()
        return mark

    return begin, lambda mark, span: mark.__exit__(None, None, None), is_on


def _opentelemetry() -> trace.Listener | None:
    """Return a listener for OpenTelemetry if the program has set a tracer provider."""
    api: Any = sys.modules.get("opentelemetry.trace")
    context: Any = sys.modules.get("opentelemetry.context")
    if api is None or context is None or "Proxy" in type(api.get_tracer_provider()).__name__:
        return None
    trace.tell(_BESIDE.format("OpenTelemetry"))
    tracer = api.get_tracer("gpuforge")

    def begin(name: str) -> tuple[Any, Any]:
        span = tracer.start_span(name)
        return span, context.attach(api.set_span_in_context(span))

    def end(begun: tuple[Any, Any], span: trace.OpenSpan) -> None:
        heard, token = begun
        context.detach(token)
        if heard.is_recording():
            heard.set_attributes(_told(span))
            if error := (span.attributes or {}).get("error"):
                heard.set_status(api.Status(api.StatusCode.ERROR, str(error)))
        heard.end()

    return begin, end, None


def _told(span: trace.OpenSpan) -> dict[str, str | bool | int | float]:
    """Return the attributes of a span as OpenTelemetry takes them: others than numbers as text."""
    found = {
        name: value if isinstance(value, bool | int | float) else trace.as_text(value)
        for name, value in (span.attributes or {}).items()
    }
    return found | ({"bytes": span.nbytes} if span.nbytes else {})
