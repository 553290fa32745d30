"""Session files: what is written is read, whatever ended the program or damaged the file."""

from __future__ import annotations

import io
import os
import struct
import subprocess
import sys
import zlib
from array import array
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuforge.errors import WorkloadError
from gpuforge.profiler.breakdown import breakdown
from gpuforge.profiler.model import NO_PARENT, Lane, Placement, Profile, Series
from gpuforge.profiler.paths import paths
from gpuforge.profiler.session_file import Writer, merging, read
from gpuforge.profiler.session_file.chunk import SPANS, VERSION, checksum, encode
from gpuforge.profiler.session_path import MAGIC
from gpuforge.trace import Span

BEGIN = 1_000_000
HOSTILE = "</script>\u202e\x00\ud800 \N{SNOWMAN}"


def nested(count: int, name: str = "s") -> list[Span]:
    """`count` pairs of a span and one inside it, each 10 ns and 4 ns long."""
    found: list[Span] = []
    for pair in range(count):
        start = BEGIN + 20 * pair
        outer = 2 * pair + 1
        found.append(Span("inner", 2, outer + 1, outer, start + 2, start + 6, 7, 100, None))
        found.append(Span(name, 0, outer, 0, start, start + 10, 7, 0, {"line": pair}))
    return found


def written(spans: list[Span], *, flushes: int = 1, raw_spans: int = 10**6) -> io.BytesIO:
    file = io.BytesIO()
    writer = Writer(file, {"program": ["python", "a.py"]}, BEGIN, raw_spans=raw_spans)
    size = -(-len(spans) // flushes) or 1
    for start in range(0, len(spans), size):
        writer.write(spans[start : start + size], lanes={7: Lane("MainThread", "thread", 1)})
    writer.close(10**9, 5, {"programs": 3}, ["a note"])
    file.seek(0)
    return file


def test_what_is_written_is_read() -> None:
    file = io.BytesIO()
    writer = Writer(file, {"program": [HOSTILE], "unknown": {"driver": "none"}}, BEGIN)
    placement = Placement(5, "f", "(8,) float64", "torch", 0.5, 2, {"numpy": 0.4}, 0.1, "faster")
    series = Series("memory", "bytes", "host", array("q", [1, 2]), array("d", [10.0, 20.0]))
    writer.write(nested(2, HOSTILE), lanes={7: Lane(HOSTILE)}, placements=[placement],
                 series=[series])  # fmt: skip
    writer.write([], series=[series])
    writer.close(10**9, 5, {"programs": 3}, ["a note"])
    file.seek(0)
    profile = read(file)
    assert profile.complete
    assert (profile.wall_ns, profile.cost_ns, profile.counts) == (10**9, 5, {"programs": 3})
    assert profile.notes == ["a note"]
    assert profile.header["program"] == [HOSTILE]
    assert profile.lanes == [Lane(HOSTILE)]
    assert profile.placements == [placement]
    assert list(profile.series[0].values) == [10.0, 20.0] * 2
    spans = list(profile.spans)
    assert [s.name for s in spans] == [HOSTILE, "inner"] * 2
    assert [(s.start_ns, s.duration_ns, s.parent) for s in spans] == [
        (0, 10, NO_PARENT), (2, 4, 0), (20, 10, NO_PARENT), (22, 4, 2),
    ]  # fmt: skip
    assert [s.attributes for s in spans] == [{"line": 0}, {}, {"line": 1}, {}]
    assert [s.bytes for s in spans] == [0, 100] * 2


@pytest.mark.parametrize("flushes", [1, 4, 50])
@pytest.mark.parametrize("raw_spans", [0, 1, 10, 51, 1000])
def test_merging_keeps_every_sum(flushes: int, raw_spans: int) -> None:
    whole = read(written(nested(100)))
    merged = read(written(nested(100), flushes=flushes, raw_spans=raw_spans))
    for path, same in zip(paths(whole), paths(merged), strict=True):
        assert (path.names, path.count, path.total_ns) == (same.names, same.count, same.total_ns)
        assert (path.own_ns, path.bytes, path.label_ns) == (same.own_ns, same.bytes, same.label_ns)
    late = max(200 - raw_spans, 0)
    assert len(merged.spans) <= raw_spans + 3
    assert any(f"{late:,} spans" in note for note in merged.notes) == bool(late)


def test_what_stood_open_at_a_flush_is_read_with_its_children() -> None:
    file = io.BytesIO()
    writer = Writer(file, {}, BEGIN)
    opened = Span("program", 0, 1, 0, BEGIN, 0, 7, 0, None)
    writer.write([Span("step", 0, 2, 1, BEGIN + 10, BEGIN + 30, 7, 0, None)], [opened])
    writer.write([Span("step", 0, 3, 1, BEGIN + 30, BEGIN + 90, 7, 0, None)], [opened])
    profile = read(io.BytesIO(file.getvalue()))
    assert not profile.complete
    assert "the end of the recording is missing" in " ".join(profile.notes)
    program, first, second = profile.spans
    assert (program.name, program.duration_ns, program.attributes) == (
        "program", 90, {"unfinished": True},
    )  # fmt: skip
    assert first.parent == second.parent == 0
    writer.write([Span("program", 0, 1, 0, BEGIN, BEGIN + 100, 7, 0, None)])
    writer.close(100, 0, {}, [])
    profile = read(io.BytesIO(file.getvalue()))
    assert [s.duration_ns for s in profile.spans] == [100, 20, 60]
    assert profile.complete


def test_the_last_flush_is_the_end_of_what_was_open_at_a_crash() -> None:
    file = io.BytesIO()
    writer = Writer(file, {}, BEGIN)
    writer.write([], [Span("waits", 0, 1, 0, BEGIN + 10, 0, 7, 0, None)])
    for at in (100, 900):
        writer.reached(at, 5)
    profile = read(io.BytesIO(file.getvalue()))
    assert (profile.wall_ns, profile.cost_ns) == (900, 5)
    assert [span.duration_ns for span in profile.spans] == [890]
    assert "1 span had not ended; the last flush counts as the end" in profile.notes
    writer.close(1_000, 7, {}, [])
    profile = read(io.BytesIO(file.getvalue()))
    assert (profile.wall_ns, profile.cost_ns) == (1_000, 7)
    assert profile.notes == ["1 span had not ended; the end of the recording counts as the end"]


def test_merged_spans_stand_under_one_that_is_open() -> None:
    file = io.BytesIO()
    writer = Writer(file, {}, BEGIN, raw_spans=1)
    program = Span("program", 0, 1, 0, BEGIN, 0, 7, 0, None)
    step = Span("step", 0, 2, 1, BEGIN + 5, 0, 7, 0, None)
    writer.write([Span("call", 2, 3, 2, BEGIN + 10, BEGIN + 20, 7, 8, None)], [program, step])
    writer.write([Span("step", 0, 2, 1, BEGIN + 5, BEGIN + 50, 7, 0, None)], [program])
    writer.write([Span("program", 0, 1, 0, BEGIN, BEGIN + 100, 7, 0, None)])
    writer.close(100, 0, {}, [])
    profile = read(io.BytesIO(file.getvalue()))
    assert [(s.name, s.parent, s.duration_ns) for s in profile.spans] == [
        ("program", NO_PARENT, 100), ("step", 0, 45), ("call", 1, 10),
    ]  # fmt: skip
    (thread,) = breakdown(profile)
    assert sum(thread.label_ns) == 100


def test_merging_what_was_counted_looks_at_all_spans_once() -> None:
    class Looked(list[Span]):
        times = 0

        def __iter__(self) -> Iterator[Span]:
            self.times += 1
            return super().__iter__()

    spans = nested(100)
    around = Looked(spans)
    writer = Writer(io.BytesIO(), {}, BEGIN, raw_spans=1)
    writer._divide_repeated([(span, 2) for span in spans if span.number > 1], around)
    assert around.times == 1 and writer.merging.merged == 2 * (len(spans) - 1)
    assert sum(row.count for row in writer.merging.rows) == writer.merging.merged


@pytest.mark.parametrize("raw_spans", [1, 100])
def test_spans_that_stand_for_several_are_read(raw_spans: int) -> None:
    file = io.BytesIO()
    writer = Writer(file, {}, BEGIN, raw_spans=raw_spans)
    outer = Span("outer", 0, 1, 0, BEGIN, BEGIN + 1000, 1, 0, None)
    for number in (2, 3):
        one = Span("call", 0, number, 1, BEGIN + 10, BEGIN + 210, 1, 0, {"line": 7})
        ended = [outer] if number == 3 else []
        writer.write(ended, [] if ended else [outer], repeated=[(one, 40)])
    writer.close(1000, 0, {}, [])
    file.seek(0)
    profile = read(file)
    calls = [span for span in profile.spans if span.name == "call"]
    assert sum(span.count for span in calls) == 80
    assert sum(span.duration_ns for span in calls) == 400
    assert {(span.parent, span.attributes["line"]) for span in calls} == {(0, 7)}


def test_paths_beyond_the_most_are_merged_into_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "MAX_ROWS", 5)
    spans: list[Span] = [
        Span(f"s{n}", 0, n + 1, 0, BEGIN + n, BEGIN + n + 1, 7, 0, None) for n in range(100)
    ]
    profile = read(written(spans, raw_spans=0))
    assert sum(s.count for s in profile.spans) == 100
    assert max(s.count for s in profile.spans) == 95
    assert merging.OTHER in profile.spans.names


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_a_file_cut_anywhere_is_read_up_to_there(data: st.DataObject) -> None:
    whole = written(nested(40), flushes=8).getvalue()
    cut = data.draw(st.integers(len(MAGIC) + 1, len(whole) - 1))
    profile = read(io.BytesIO(whole[:cut]))
    assert not profile.complete
    assert profile.notes
    full = read(io.BytesIO(whole))
    assert list(profile.spans) == list(full.spans)[: len(profile.spans)]


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_a_changed_byte_is_found_out(data: st.DataObject) -> None:
    whole = bytearray(written(nested(40), flushes=8).getvalue())
    place = data.draw(st.integers(len(MAGIC) + 1, len(whole) - 1))
    whole[place] ^= data.draw(st.integers(1, 255))
    profile = read(io.BytesIO(bytes(whole)))
    assert not profile.complete
    assert profile.notes


@given(st.binary(max_size=400))
@settings(max_examples=200, deadline=None)
def test_no_bytes_break_the_reader(body: bytes) -> None:
    payload = zlib.compress(body)
    frame = struct.pack("<4sII", SPANS, len(payload), checksum(SPANS, payload)) + payload
    profile = read(io.BytesIO(MAGIC + bytes([VERSION]) + frame))
    assert isinstance(profile, Profile)


@given(
    st.dictionaries(
        st.sampled_from(["names", "lanes", "attributes", "said"]),
        st.recursive(
            st.none() | st.integers() | st.text(max_size=3),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner),
        ),
    ),
    st.dictionaries(
        st.sampled_from(
            [
                *("name", "number", "parent", "lane", "label", "start", "duration", "bytes"),
                *("count", "said"),
            ]
        ),
        st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3).map(lambda v: array("q", v)),
    ),
)
@settings(max_examples=200, deadline=None)
def test_no_chunk_breaks_the_reader(fields: dict, columns: dict[str, array[int]]) -> None:  # type: ignore[type-arg]
    data = MAGIC + bytes([VERSION]) + encode(SPANS, fields, columns)
    profile = read(io.BytesIO(data))
    for span in profile.spans:
        assert span.parent < span.index


def test_what_was_said_of_many_spans_at_once_stands_in_the_file_once() -> None:
    said = {"function": "f" * 40, "place": 3}
    spans: list[Span] = [
        Span("call", 0, n, 0, BEGIN + n, BEGIN + n + 1, 1, 0, said if n % 2 else None)
        for n in range(1, 2001)
    ]
    alone: list[Span] = [
        span._replace(attributes={**span.attributes, "place": span.number})
        if span.attributes
        else span
        for span in spans
    ]
    shared, apart = written(spans), written(alone)
    assert shared.getbuffer().nbytes < apart.getbuffer().nbytes / 2
    found = read(shared).spans
    assert [span.attributes for span in found] == [span[8] or {} for span in spans]


def test_a_file_of_the_first_version_is_read() -> None:
    columns = {
        name: array(code, [1])
        for name, code in zip(
            "name number parent lane label start duration bytes count".split(), "IqqIBqqqq",
            strict=True,
        )
    }  # fmt: skip
    for name in ("name", "lane", "label", "parent"):
        columns[name][0] = 0
    fields = {"names": ["a"], "lanes": [["main", "thread", 1]], "attributes": {"0": {"k": 1}}}
    data = MAGIC + bytes([1]) + encode(SPANS, fields, columns)
    assert [span.attributes for span in read(io.BytesIO(data)).spans] == [{"k": 1}]


def test_a_bomb_is_not_unpacked() -> None:
    payload = zlib.compress(bytes(300 << 20))
    frame = struct.pack("<4sII", SPANS, len(payload), checksum(SPANS, payload)) + payload
    profile = read(io.BytesIO(MAGIC + bytes([VERSION]) + frame))
    assert "larger than a reader accepts" in " ".join(profile.notes)
    few = read(written(nested(5000), flushes=10), most_bytes=100_000)
    assert 0 < len(few.spans) < 10_000
    assert not few.complete


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not a session file"),
        (b"hello, this is a text", "is not a session file"),
        (MAGIC + bytes([VERSION + 1]), f"of version {VERSION + 1}; this .* up to {VERSION}"),
    ],
)
def test_what_is_no_session_file_is_said(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "a.gfp"
    path.write_bytes(content)
    with pytest.raises(WorkloadError, match=message) as caught:
        read(path)
    assert caught.value.hint


def test_a_file_that_is_something_else_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "thesis.txt"
    path.write_text("three years of work")
    with pytest.raises(WorkloadError, match="exists and is not a session file"):
        Writer(path, {}, BEGIN)
    assert path.read_text() == "three years of work"
    with pytest.raises(WorkloadError, match="cannot be written"):
        Writer(tmp_path / "no" / "folder.gfp", {}, BEGIN)
    with pytest.raises(WorkloadError, match="cannot be read"):
        read(tmp_path / "none.gfp")


def test_a_program_that_ends_at_once_leaves_what_was_flushed(tmp_path: Path) -> None:
    path = tmp_path / "a.gfp"
    code = (
        "import os; from gpuforge.profiler.session_file import Writer\n"
        "from gpuforge.trace import Span\n"
        f"writer = Writer({str(path)!r}, {{}}, 0)\n"
        "writer.write([Span('a', 0, 1, 0, 5, 9, 7, 0, None)])\n"
        "if os.fork() == 0:\n"
        "    writer.write([Span('of the child', 0, 2, 0, 5, 9, 7, 0, None)])\n"
        "    writer.close(1, 1, {}, [])\n"
        "    os._exit(0)\n"
        "os.wait()\n"
        "os.kill(os.getpid(), 9)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    assert [span.name for span in read(path).spans] == ["a"]
    assert os.path.getsize(path) < 1000
