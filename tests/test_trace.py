"""Spans and counts: nesting, threads, exceptions, and nothing at all while off."""

from __future__ import annotations

import asyncio
import importlib
import itertools
import os
import sys
import threading
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpuforge as gf
from gpuforge import trace

offload = importlib.import_module("gpuforge.runtime.offload")


@pytest.fixture(autouse=True)
def on() -> Iterator[None]:
    trace.drain()
    trace._here.lane.timed_ns = 0
    trace.enable()
    yield
    trace.enable(False)
    trace.drain()


def nothing_kept() -> bool:
    kept = trace.drain()
    return not (kept.spans or kept.standing or kept.counts or kept.choices or kept.readings)


def by_name() -> dict[str, trace.Span]:
    return {span.name: span for span in trace.drain().spans if span.label != trace.DEVICE}


def test_spans_nest() -> None:
    with trace.span("outer", size=3):
        with trace.span("first"):
            pass
        with trace.span("second"):
            trace.keep("timed", trace.TRANSFER, 1, 2, 64, direction="to device")
    spans = trace.drain().spans
    assert [span.name for span in spans] == ["outer", "first", "second", "timed"]
    outer, first, second, timed = spans
    assert outer.parent == 0 and first.parent == second.parent == outer.number
    assert timed.parent == second.number and timed.attributes == {"direction": "to device"}
    assert (timed.label, timed.nbytes, timed.end_ns - timed.start_ns) == (trace.TRANSFER, 64, 1)
    times = (outer.start_ns, first.start_ns, first.end_ns, second.start_ns, second.end_ns)
    assert list(times) == sorted(times) and second.end_ns <= outer.end_ns
    assert outer.attributes == {"size": 3} and outer.label == trace.HOST
    assert outer.number < first.number < second.number
    assert nothing_kept()


def test_an_exception_ends_its_spans_and_passes() -> None:
    with pytest.raises(ZeroDivisionError), trace.span("outer"), trace.span("inner"):
        raise ZeroDivisionError
    with trace.span("after"):
        pass
    found = by_name()
    assert found["inner"].attributes == found["outer"].attributes == {"error": "ZeroDivisionError"}
    assert found["after"].parent == 0 and found["after"].attributes is None


def test_a_span_that_is_entered_twice_ends() -> None:
    """Were it its own parent, whoever looks for the next span's would look for ever."""
    twice = trace.span("twice")
    with twice, twice:
        pass
    with trace.span("next"):
        pass
    assert [span.name for span in trace.drain().spans][-1] == "next"


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
        trace.keep("put", trace.TRANSFER, 0, 1)
        trace.keep_device("gpu copy", "put", 0, 1)

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
    assert nothing_kept()


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
    for name in "abc":
        with trace.span(name):
            pass
    kept = trace.drain()
    assert [span.name for span in kept.spans] == ["b", "c"] and kept.counts == {"dropped spans": 1}


def test_a_call_shows_its_way() -> None:
    pytest.importorskip("torch")

    @gf.offload(backend="torch:cpu")
    def pinned(x: np.ndarray) -> np.ndarray:
        return np.sqrt(x) + 1

    @gf.offload(backend="numpy")
    def stays(x: np.ndarray) -> np.ndarray:
        return x + 1

    warnings.resetwarnings()  # where they are errors, functions are called directly
    x = np.arange(64.0)
    pinned(x)
    trace.drain()
    np.testing.assert_allclose(pinned(x[1:]), np.sqrt(x[1:]) + 1)
    found = by_name()
    assert {"sign", "decide", "record", "put", "run", "get", "sqrt", "add"} <= set(found)
    assert found["put"].parent == found["run"].parent == found["record"].number
    assert found["sqrt"].parent == found["run"].number
    call = next(span for name, span in found.items() if name.endswith("pinned"))
    assert found["record"].parent == found["decide"].parent == call.number
    labels = {name: span.label for name, span in found.items()}
    assert labels["put"] == labels["get"] == trace.TRANSFER
    assert labels["run"] == labels["sqrt"] == trace.WAIT
    assert labels["decide"] == labels["record"] == call.label == trace.OVERHEAD
    step = found["sqrt"].attributes
    assert step["file"] == __file__ and step["output_bytes"] == x[1:].nbytes
    assert "np.sqrt(x) + 1" in Path(__file__).read_text().splitlines()[step["line"] - 1]
    assert found["run"].attributes["backend"] == "torch:cpu"
    stays(x)
    found = by_name()
    assert {"sign", "decide", "direct call"} < set(found) and len(found) == 4
    assert found["direct call"].label == trace.HOST
    trace.enable(False)
    pinned(x + 1)
    assert nothing_kept()


def test_what_comes_before_the_span_of_a_call_is_overhead(monkeypatch: pytest.MonkeyPatch) -> None:
    from gpuforge.runtime.execution import considered

    def later(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        time.sleep(0.01)
        return function(*args, **kwargs)

    double = gf.offload(backend="numpy")(lambda x: x * 2)
    for name in ("current_session", "call_span"):
        monkeypatch.setattr(considered, name, partial(later, getattr(considered, name)))
    offload._placing.cache_clear()
    with trace.span("whole"):
        double(np.ones(3))
    found = by_name()
    assert found["import"].label == found["sign"].label == trace.OVERHEAD
    assert found["import"].parent == found["sign"].parent == found["whole"].number
    assert found["sign"].end_ns - found["sign"].start_ns >= 20e6


def test_tasks_of_an_event_loop_have_each_their_own_nesting() -> None:
    async def work(name: str) -> None:
        with trace.span(name):
            await asyncio.sleep(0)
            with trace.span(f"{name} inside"):
                await asyncio.sleep(0)

    async def main() -> None:
        with trace.span("main"):
            await asyncio.gather(work("a"), work("b"))

    asyncio.run(main())
    found = by_name()
    for name in "ab":
        assert found[f"{name} inside"].parent == found[name].number
        assert found[name].parent == found["main"].number


def test_a_span_that_ends_before_those_inside_it_takes_no_more() -> None:
    def steps() -> Iterator[None]:
        with trace.span("generator"):
            yield

    with trace.span("outer"):
        running = steps()
        next(running)
        with trace.span("caller"):
            next(running, None)
        with trace.span("after"):
            pass
    found = by_name()
    assert found["caller"].parent == found["generator"].number
    assert found["after"].parent == found["outer"].number
    assert found["generator"].attributes is None


def test_what_stands_open_is_known() -> None:
    begun, end = threading.Event(), threading.Event()

    def work() -> None:
        with trace.span("there"):
            begun.set()
            end.wait()

    thread = threading.Thread(target=work, name="worker")
    thread.start()
    begun.wait()
    assert trace.current() == "" and thread.ident
    with trace.span("outer"), trace.span("here"):
        assert trace.current() == "here"
        assert trace.current(thread.ident) == "there"
        names = [span.name for span in trace.drain().standing]
        assert names == ["there", "outer", "here"]
    end.set()
    thread.join()
    kept = trace.drain()
    assert kept.standing == [] and "worker" in kept.lanes.values()
    assert [span.name for span in kept.spans] == ["there", "outer", "here"]


def test_a_drainer_is_called_before_anything_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[trace.Span] = []
    monkeypatch.setattr(trace, "MOST_SPANS", 3000)
    monkeypatch.setattr(trace, "drainer", lambda: taken.extend(trace.drain().spans))
    for _ in range(10_000):
        with trace.span("s"):
            pass
    assert 0 < trace.waiting() <= 3000 + trace._LOOK_EVERY
    kept = trace.drain()
    assert len(taken) + len(kept.spans) == 10_000 and kept.counts == {}


def repeat(repeating: trace.Repeating, times: int, inside: bool = False) -> None:
    """Do what `counted_call` does, without a call: each takes 10 ns, from 1000 ns on."""
    now = itertools.count(1000 + trace._here.lane.timed_ns, 10)
    for _ in range(times):
        if repeating.is_counted():
            before = trace.latest()
            if inside:
                with trace.span("inside"):
                    pass
            start = next(now)
            repeating.add(before, {"line": 1}, None, start, start + 10)
            continue
        with trace.span("call") as span:
            assert isinstance(span, trace.OpenSpan)
            if inside:
                with trace.span("inside"):
                    pass
        repeating.kept(span)


def test_of_many_short_spans_most_are_counted() -> None:
    repeating = trace.repeating(repeat, "call")
    assert trace.repeating(repeat, "call") is repeating
    with trace.span("outer"):
        repeat(repeating, trace.REPEATS_KEPT + 500)
    with trace.span("next"):
        repeat(repeating, 30)
    kept = trace.drain()
    numbers = {span.name: span.number for span in kept.spans}
    assert sum(span.name == "call" for span in kept.spans) == trace.REPEATS_KEPT
    assert [(one.times, one.span.parent) for one in kept.repeated] == [
        (500, numbers["outer"]), (30, numbers["next"]),
    ]  # fmt: skip
    first = kept.repeated[0].span
    assert (first.start_ns, first.end_ns, first.attributes) == (1000, 6000, {"line": 1})
    assert trace.drain().repeated == []
    begin = 1000 + trace._here.lane.timed_ns
    repeat(repeating, 3)
    (one,) = trace.drain().repeated
    assert (one.times, one.span.start_ns) == (3, begin)


def test_spans_with_others_inside_are_kept() -> None:
    repeating = trace.repeating(test_spans_with_others_inside_are_kept, "call")
    repeat(repeating, 2 * trace.REPEATS_KEPT, inside=True)
    assert len(trace.drain().spans) == 4 * trace.REPEATS_KEPT
    repeat(repeating, trace.REPEATS_KEPT)
    repeat(repeating, 3, inside=True)  # the first of them was to be counted
    kept = trace.drain()
    assert kept.repeated == []
    assert sum(span.name == "call" for span in kept.spans) == trace.REPEATS_KEPT + 2


def test_nothing_is_counted_that_others_hear() -> None:
    repeating = trace.repeating(test_nothing_is_counted_that_others_hear, "call")
    repeat(repeating, trace.REPEATS_KEPT)
    assert repeating.is_counted()
    stop = trace.listen(lambda name: name, lambda token: None)
    assert not repeating.is_counted()
    stop()
    assert repeating.is_counted()
    listens = False
    stop = trace.listen(lambda name: name, lambda token: None, lambda: listens)
    assert repeating.is_counted()
    listens = True
    assert not repeating.is_counted()
    stop()


def test_what_counted_before_a_new_start_keeps_its_spans() -> None:
    kind = object()
    old = trace.repeating(kind, "old")
    repeat(old, trace.REPEATS_KEPT)
    assert old.is_counted()
    trace.enable(False)
    assert not old.is_counted()
    trace.restart()
    trace.enable()
    repeat(old, 2 * trace.REPEATS_KEPT)
    kept = trace.drain()
    assert (len(kept.spans), kept.repeated) == (2 * trace.REPEATS_KEPT, [])
    assert trace.repeating(kind, "new") is not old


def test_what_was_counted_is_forgotten_once_told() -> None:
    repeating = trace.repeating(test_what_was_counted_is_forgotten_once_told, "call")
    repeat(repeating, trace.REPEATS_KEPT)
    for _ in range(5):
        with trace.span("step"):
            repeat(repeating, 2)
    for _ in range(3):
        trace.drain()
    assert len(repeating._sums) == 1  # the latest may be added to


def test_threads_lose_no_counted_span() -> None:
    repeating = trace.repeating(test_threads_lose_no_counted_span, "call")
    repeat(repeating, trace.REPEATS_KEPT)
    found: list[trace.Repeated] = []
    threads = [threading.Thread(target=repeat, args=(repeating, 20_000)) for _ in range(3)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        found += trace.drain().repeated
    found += trace.drain().repeated
    assert sum(one.times for one in found) == 60_000
    assert sum(one.span.end_ns - one.span.start_ns for one in found) == 600_000
    assert len({one.span.thread for one in found}) == 3


def test_a_span_under_another_ended_parent_is_counted_apart() -> None:
    repeating = trace.repeating(repeat, "call")
    repeat(repeating, trace.REPEATS_KEPT)
    with trace.span("outer"):
        for name in ("first", "second"):
            with trace.span(name):
                repeat(repeating, 2)
            repeat(repeating, 1)
    kept = trace.drain()
    names = {span.number: span.name for span in kept.spans}
    found = [(names[one.span.parent], one.times) for one in kept.repeated]
    assert sorted(found) == [("first", 2), ("outer", 2), ("second", 2)]


def test_a_function_that_wraps_itself_has_a_place() -> None:
    def own() -> None: ...

    own.__wrapped__ = own  # type: ignore[attr-defined]
    assert trace.defined(own)[1]["file"] == __file__


def test_counting_a_call_takes_few_calls() -> None:
    repeating, called = trace.repeating(repeat, "call"), []
    repeat(repeating, trace.REPEATS_KEPT + 1)
    sys.setprofile(lambda frame, event, _: called.append(event) if event == "call" else None)
    try:
        result, _ = repeating.call({}, None, lambda: 1, (), {})
    finally:
        sys.setprofile(None)
    assert result == 1
    assert len(called) <= 3  # call, the function, add
    assert sum(one.times for one in trace.drain().repeated) == 2


def test_what_is_counted_inside_what_is_counted_is_no_sibling() -> None:
    inner, outer = trace.repeating(repeat, "inner"), trace.repeating(trace, "outer")
    repeat(inner, trace.REPEATS_KEPT)
    repeat(outer, trace.REPEATS_KEPT)
    before, start = trace.latest(), trace._here.lane.timed_ns + 1
    assert outer.is_counted() and inner.add(before, {}, None, start + 1, start + 2)
    assert not outer.add(before, {}, None, start, start + 3)
    assert [one.span.name for one in trace.drain().repeated] == ["inner"]
    with trace.span("outer") as span:
        inner.add(trace.latest(), {}, None, span.start + 1, span.start + 2)
    outer.kept(span)
    repeat(outer, trace.REPEATS_KEPT)
    assert trace.drain().repeated[0].times == 1 and outer.is_counted()


def test_a_parent_may_begin_while_spans_are_taken_out(monkeypatch: pytest.MonkeyPatch) -> None:
    repeating = trace.repeating(repeat, "call")
    repeat(repeating, trace.REPEATS_KEPT)
    told = trace._told

    def meanwhile(spans: Iterable[trace.OpenSpan]) -> list[trace.Span]:
        monkeypatch.setattr(trace, "_told", told)
        with trace.span("parent"):
            repeat(repeating, 3)
        return told(spans)

    monkeypatch.setattr(trace, "_told", meanwhile)
    assert trace.drain().repeated == []
    (parent,), (one,) = (kept := trace.drain()).spans, kept.repeated
    assert (one.times, one.span.parent) == (3, parent.number)


def test_counts_are_of_one_kind_only_and_end_with_the_trace() -> None:
    class Kind:
        pass

    kinds = [trace.repeating(Kind(), "call") for _ in range(10)]  # freed ones would share an id
    assert len(set(map(id, kinds))) == 10
    trace.enable(False)
    trace.drain()
    assert not trace._repeating


def test_others_hear_of_spans() -> None:
    heard: list[tuple[str, str]] = []

    def begin(name: str) -> str:
        heard.append(("begin", name))
        return name

    stop = trace.listen(begin, lambda name, span: heard.append(("end", name)))
    with trace.span("a"), trace.within("b", trace.WAIT):
        pass
    stop()
    with trace.span("unheard"):
        pass
    assert heard == [("begin", "a"), ("begin", "b"), ("end", "b"), ("end", "a")]
    assert {span.name for span in trace.drain().spans} == {"a", "b", "unheard"}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # JAX, if it is loaded
@pytest.mark.filterwarnings("ignore:Exception ignored in:pytest.PytestUnraisableExceptionWarning")
def test_a_forked_child_keeps_nothing() -> None:
    with trace.span("parent"):
        child = os.fork()
        if not child:
            trace_is_off = not trace.enabled and nothing_kept()
            trace.enable()
            with trace.span("child"):
                pass
            (span,) = trace.drain().spans
            os._exit(0 if trace_is_off and span.name == "child" else 1)
        assert os.waitpid(child, 0)[1] == 0
    assert [span.name for span in trace.drain().spans] == ["parent"]
