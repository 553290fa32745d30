"""Spans and counts: nesting, threads, exceptions, and nothing at all while off."""

from __future__ import annotations

import threading
import tracemalloc
import warnings
from collections.abc import Iterator

import numpy as np
import pytest

import gpuforge as gf
from gpuforge import trace


@pytest.fixture(autouse=True)
def on() -> Iterator[None]:
    trace.drain()
    trace.enable()
    yield
    trace.enable(False)
    trace.drain()


def by_name() -> dict[str, trace.Span]:
    return {span.name: span for span in trace.drain().spans}


def test_spans_nest_and_end_inside_out() -> None:
    with trace.span("outer", size=3):
        with trace.span("first"):
            pass
        with trace.span("second"):
            trace.keep("timed", 1.0, 2.0, bytes=8)
    spans = trace.drain().spans
    assert [span.name for span in spans] == ["first", "timed", "second", "outer"]
    first, timed, second, outer = spans
    assert outer.parent == 0 and first.parent == second.parent == outer.number
    assert timed.parent == second.number and timed.attributes == {"bytes": 8}
    assert outer.start <= first.start <= first.end <= second.start <= second.end <= outer.end
    assert outer.attributes == {"size": 3}
    assert trace.drain() == ([], {})


def test_an_exception_ends_its_spans_and_passes() -> None:
    with pytest.raises(ZeroDivisionError), trace.span("outer"), trace.span("inner"):
        raise ZeroDivisionError
    with trace.span("after"):
        pass
    found = by_name()
    assert found["inner"].attributes == found["outer"].attributes == {"error": "ZeroDivisionError"}
    assert found["after"].parent == 0 and not found["after"].attributes


def test_each_thread_has_its_own_nesting() -> None:
    meet = threading.Barrier(2)

    def work(name: str) -> None:
        with trace.span(name):
            meet.wait()
            with trace.span(f"{name} inside"):
                trace.count("steps", 2)
                meet.wait()

    threads = [threading.Thread(target=work, args=(name,)) for name in "ab"]
    with trace.span("main"):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    kept = trace.drain()
    found = {span.name: span for span in kept.spans}
    assert kept.counts == {"steps": 4}
    for name in "ab":
        assert found[name].parent == 0
        assert found[f"{name} inside"].parent == found[name].number
        assert found[f"{name} inside"].thread == found[name].thread != found["main"].thread


def test_off_keeps_nothing_and_allocates_nothing() -> None:
    trace.enable(False)

    def site() -> None:
        with trace.span("run"):
            trace.count("calls")
        trace.keep("put", 0.0, 1.0)

    site()
    tracemalloc.start()
    try:
        before = tracemalloc.take_snapshot()
        for _ in range(1000):
            site()
        after = tracemalloc.take_snapshot()
    finally:
        tracemalloc.stop()
    grown = [
        row
        for row in after.compare_to(before, "filename")
        if row.traceback[0].filename == trace.__file__
    ]
    assert sum(row.size_diff for row in grown) < 1000
    assert trace.drain() == ([], {})


def test_switching_off_inside_a_span_still_ends_it() -> None:
    with trace.span("outer"):
        trace.enable(False)
        with trace.span("unseen"):
            pass
    trace.enable()
    with trace.span("next"):
        pass
    found = by_name()
    assert set(found) == {"outer", "next"} and found["next"].parent == 0


def test_the_oldest_spans_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "MOST_SPANS", 2)
    monkeypatch.setattr(trace, "_finished", type(trace._finished)(maxlen=2))
    for name in "abc":
        with trace.span(name):
            pass
    kept = trace.drain()
    assert [span.name for span in kept.spans] == ["b", "c"] and kept.counts == {"dropped": 1}


def test_a_call_shows_its_way() -> None:
    pytest.importorskip("torch")

    @gf.offload(backend="torch:cpu")
    def pinned(x: np.ndarray) -> np.ndarray:
        return np.sqrt(x) + 1

    @gf.offload(backend="numpy")
    def stays(x: np.ndarray) -> np.ndarray:
        return x + 1

    warnings.resetwarnings()  # where they are errors, calls are made as written
    x = np.arange(64.0)
    pinned(x)
    trace.drain()
    np.testing.assert_allclose(pinned(x[1:]), np.sqrt(x[1:]) + 1)
    found = by_name()
    assert {"decide", "record", "put", "run", "get"} <= set(found)
    assert found["put"].parent == found["run"].parent == found["record"].number
    assert found["run"].attributes["backend"] == "torch:cpu"
    stays(x)
    found = by_name()
    assert {"decide", "as written"} == set(found)
    trace.enable(False)
    pinned(x + 1)
    assert trace.drain() == ([], {})
