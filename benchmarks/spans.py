"""What a span costs, beside what other profilers cost.

usage: spans.py [--quick] [--out FILE]

All are timed in turns, in blocks of calls, in one process, by the processor's time of the thread:
other programs disturb that less than wall time. What is given is the time of one span, or of one
traced call, less that of the same loop without. A peer that is not installed is told as
skipped.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.util
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from statistics import quantiles
from time import perf_counter_ns, thread_time_ns
from typing import Any

import gpuforge as gf
from gpuforge import trace
from gpuforge.runtime.calibration.fingerprint import describe_machine

RESULTS = Path(__file__).parent / "results"
CALLS = 5_000
Case = tuple[Callable[[], AbstractContextManager[Any]], Callable[[int], None]]
"""What is on while a block is timed, and the block: so many spans or calls."""


def empty() -> None:
    """Do nothing: what is traced."""


def calls(times: int) -> None:
    for _ in range(times):
        empty()


def spans_of(make: Callable[[str], AbstractContextManager[Any]]) -> Callable[[int], None]:
    def block(times: int) -> None:
        for _ in range(times):
            with make("span"):
                empty()

    return block


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """Spans are on and kept in memory, as between two flushes."""
    trace.enable()
    try:
        yield
    finally:
        trace.enable(False)


def nested(times: int) -> None:
    for _ in range(times // 2):
        with gf.span("outer", number=1), gf.span("inner"):
            empty()


def own_cases() -> dict[str, Case]:
    off = contextlib.nullcontext
    return {
        "gpuforge, off": (off, spans_of(gf.span)),
        "gpuforge, on": (kept, spans_of(gf.span)),
        "gpuforge, on, nested, with an attribute": (kept, nested),
        "gpuforge, recorded with flushes": (gf.profile, spans_of(gf.span)),
    }


def peer(
    name: str, make: Callable[[Any], dict[str, Case]], skipped: dict[str, str]
) -> dict[str, Case]:
    """Return the cases of a library, none where it cannot be used here."""
    try:
        return make(importlib.import_module(name))
    except Exception as error:  # noqa: BLE001 - it is told why
        skipped[name] = f"{type(error).__name__}: {error}"
        return {}


def cprofile(module: Any) -> dict[str, Case]:
    return {"cProfile, a call": (module.Profile, calls)}


def pyinstrument(module: Any) -> dict[str, Case]:
    return {"pyinstrument, a call": (module.Profiler, calls)}


def viztracer(module: Any) -> dict[str, Case]:
    def tracer() -> Any:
        # It writes a trace when it ends: not into the folder that this is run in.
        file = Path(tempfile.gettempdir(), "viztracer.json")
        return module.VizTracer(verbose=0, tracer_entries=4 * CALLS, output_file=str(file))

    @contextlib.contextmanager
    def logging() -> Iterator[None]:
        nonlocal current
        with tracer() as current:
            yield

    current: Any = None
    return {
        "VizTracer, a call": (tracer, calls),
        "VizTracer, log_event": (logging, spans_of(lambda name: current.log_event(name))),
    }


def torch(module: Any) -> dict[str, Case]:
    record = module.profiler.record_function
    cpu = [module.profiler.ProfilerActivity.CPU]
    return {
        "torch record_function, profiler off": (contextlib.nullcontext, spans_of(record)),
        "torch record_function, profiler on": (
            lambda: module.profiler.profile(activities=cpu), spans_of(record),
        ),
    }  # fmt: skip


def nvtx(module: Any) -> dict[str, Case]:
    return {"nvtx annotate, no tool": (contextlib.nullcontext, spans_of(module.annotate))}


def opentelemetry(api: Any) -> dict[str, Case]:
    sdk = importlib.import_module("opentelemetry.sdk.trace")
    none = api.NoOpTracerProvider().get_tracer("none")
    real = sdk.TracerProvider(shutdown_on_exit=False).get_tracer("real")
    off = contextlib.nullcontext
    return {
        "OpenTelemetry, no provider": (off, spans_of(none.start_as_current_span)),
        "OpenTelemetry, SDK, nothing exported": (off, spans_of(real.start_as_current_span)),
    }


PEERS = {
    "cProfile": cprofile, "pyinstrument": pyinstrument, "viztracer": viztracer, "torch": torch,
    "nvtx": nvtx, "opentelemetry.trace": opentelemetry,
}  # fmt: skip


def time_spans(rounds: int) -> dict[str, Any]:
    skipped: dict[str, str] = {}
    cases = own_cases()
    for name, make in PEERS.items():
        cases |= peer(name, make, skipped)
    taken: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(rounds):
        for name, (on, block) in cases.items():
            start = thread_time_ns()
            calls(CALLS)
            bare = thread_time_ns() - start
            with on():
                block(CALLS // 10)
                start = thread_time_ns()
                block(CALLS)
                taken[name].append((thread_time_ns() - start - bare) / CALLS)
            trace.drain()
    start = perf_counter_ns()
    for _ in range(CALLS):
        perf_counter_ns()
    return {
        "nanoseconds": {name: spread(found) for name, found in taken.items()},
        "raw_nanoseconds": taken,
        "clock_read_nanoseconds": (perf_counter_ns() - start) / CALLS,
        "skipped": skipped,
    }


def spread(values: list[float]) -> dict[str, float]:
    low, middle, high = quantiles(values, n=4) if len(values) > 1 else [values[0]] * 3
    return {"least": min(values), "lower_quartile": low, "median": middle, "upper_quartile": high}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one round")
    parser.add_argument("--out", type=Path, default=RESULTS / "spans.json")
    chosen = parser.parse_args()
    rounds = 1 if chosen.quick else 7
    result = {
        "load_average": os.getloadavg(),
        "machine": describe_machine(),
        "python": sys.version,
        "quick": chosen.quick,
        "spans": time_spans(5 * rounds),
    }
    chosen.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    for name, found in result["spans"]["nanoseconds"].items():
        print(f"{found['median']:10,.0f} ns  (least {found['least']:,.0f})  {name}")
    for name, reason in result["spans"]["skipped"].items():
        print(f"{'skipped':>13}  {name}: {reason}")


if __name__ == "__main__":
    main()
