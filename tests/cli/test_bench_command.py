"""What ``gpuforge bench`` and ``gpuforge diff`` print, and how they end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpuforge.cli.commands import bench
from gpuforge.cli.main import main
from gpuforge.history import BenchmarkRun
from gpuforge.profiler.bench.against import Against, Benchmark
from gpuforge.profiler.bench.result import BenchResult, Measured, save
from gpuforge.profiler.bench.runs import open_history
from gpuforge.profiler.compare.comparison import Comparison, Verdict
from gpuforge.profiler.compare.conditions import Conditions
from gpuforge.profiler.compare.evidence import Interval
from gpuforge.profiler.compare.profiles import folded, profile_difference
from gpuforge.profiler.model import HOST, TRANSFER, WAIT, Lane, Profile
from gpuforge.profiler.session_file import Writer
from gpuforge.trace import Span
from tests.profiler.made import MS, Making

HERE = Conditions("m", {"cpu": "one"}, {"cpu boost": "no file"})


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(bench, "read_conditions", lambda: HERE)

    def call(*arguments: object) -> tuple[int, str, str]:
        status = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return call


def compared(verdict: Verdict, change: float, reason: str = "") -> Benchmark:
    spread = Interval(change, change - 0.01, change + 0.01)
    base, new = Interval(1e-6, 1e-6, 1e-6), Interval(1e-6 * (1 + change), 1e-6, 1e-6)
    return Benchmark(comparison=Comparison(verdict, reason, base, new, spread, 1e-5, 0.9, 20))


SAME, SLOWER = compared("same", 0.001), compared("slower", 0.051)
UNKNOWN = compared("inconclusive", 0.04, "the times vary more than the change")
ABSENT = Benchmark(problem="the base has no such function")
BROKEN = Benchmark(problem="on the working tree: OSError: no disk", failed_here=True)


@pytest.mark.parametrize(
    ("found", "options", "status", "last"),
    [
        ({"a": SAME}, (), 0, ""),
        ({"a": SAME, "b": SLOWER, "c": UNKNOWN}, (), 1, "slower by 3 % or more: b"),
        ({"a": SLOWER}, ("--fail-on", "6"), 0, ""),
        ({"a": SLOWER}, ("--fail-on", "5"), 1, "slower by 5 % or more: a"),
        ({"a": SAME, "b": UNKNOWN}, (), 3, "inconclusive: b"),
        ({"a": ABSENT}, (), 3, "inconclusive: a"),
        ({"a": SLOWER, "b": BROKEN}, (), 2, "failed in the working tree: b"),
        ({}, (), 3, "inconclusive: there are no bench_* functions"),
    ],
)
def test_status_of_a_comparison(
    call: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
    found: dict[str, Benchmark], options: tuple[str, ...], status: int, last: str,
) -> None:  # fmt: skip
    monkeypatch.setattr(bench, "compare_with", lambda *_, **__: Against("c0ffee" * 4, found))
    (tmp_path / "bench_a.py").touch()
    told, out, err = call("bench", tmp_path / "bench_a.py", "--against", "v1", *options)
    assert told == status and (last in err if last else err == "")
    assert bool(out) == bool(found)


def test_text_and_json_of_a_comparison(
    call: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = {"bench_slower": SLOWER, "bench_absent": ABSENT, "bench_unknown": UNKNOWN}
    monkeypatch.setattr(bench, "compare_with", lambda *_, **__: Against("c0ffee" * 4, found))
    (tmp_path / "bench_a.py").touch()
    arguments = ("bench", tmp_path / "bench_a.py", "--against", "v1")
    assert call(*arguments)[1] == (
        "change since v1 (c0ffeec0ffee)\n"
        "  bench_slower   slower  1 µs → 1.05 µs  +5.1 % [+4.1 %, +6.1 %]  p=1e-05\n"
        "  bench_absent   the base has no such function\n"
        "  bench_unknown  inconclusive  1 µs → 1.04 µs  +4 % [+3 %, +5 %]: "
        "the times vary more than the change\n"
    )
    document = json.loads(call(*arguments, "--json")[1])
    assert list(document) == ["schema_version", "ref", "commit", "regressions",
                              "changed_while_measuring", "benchmarks", "conditions",
                              "unknown"]  # fmt: skip
    assert document["conditions"] == {"cpu": "one", "cpu boost": None}
    assert document["unknown"] == {"conditions.cpu boost": "no file"}
    assert document["benchmarks"][1] == {
        "name": "bench_absent", "verdict": None, "reason": "the base has no such function",
    }  # fmt: skip


def test_what_changed_while_it_was_measured_is_said(
    call: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    readings = [HERE, Conditions("m", {"cpu": "one", "cpu boost": "1"})]
    monkeypatch.setattr(bench, "read_conditions", lambda: readings.pop(0))
    monkeypatch.setattr(bench, "compare_with", lambda *_, **__: Against("c0", {"a": SAME}))
    (tmp_path / "bench_a.py").touch()
    err = call("bench", tmp_path / "bench_a.py", "--against", "v1")[2]
    assert err == "warning: this changed during the measurement: " + (
        "cpu boost: unknown (no file) → 1\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("no.py",), "no file 'no.py'"),
        ((), "no bench_*.py or benchmarks/bench_*.py here"),
        (("--fail-on", "0"), "--fail-on 0 is not a positive percentage"),
        (("--fail-on", "x"), "invalid float value: 'x'"),
        (("--fail-on", "5"), "--fail-on needs --against"),
        (("bench_a.py", "--save", "none/a.json"), "its folder does not exist"),
        (("--save", "a", "--history"), "--save cannot be combined"),
        (("--format", "csv"), "invalid choice: 'csv'"),
        (("--format", "pyperf"), "--format needs --save"),
    ],
)
def test_wrong_usage(
    call: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
    arguments: tuple[str, ...], message: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    if "bench_a.py" in arguments:
        Path("bench_a.py").write_text("def bench_a(): pass")
    status, out, err = call("bench", *arguments)
    assert status == 2 and out == "" and message in err


def test_the_only_file_is_taken(call: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "bench_a.py").write_text("def bench_one(): pass\n")
    status, out, _ = call("bench", "--time-limit", "0.1s")
    assert status == 0 and out.startswith("bench_one  ")
    (tmp_path / "bench_b.py").touch()
    assert "several files: bench_b.py, benchmarks" in call("bench")[2]


def test_history_shows_where_times_changed(call: Any) -> None:
    assert call("bench", "--history")[0] == 3
    times = [(2e-3 if n > 9 else 1e-3) + 1e-6 * (n % 3) for n in range(20)]
    runs = [BenchmarkRun("p/ops.py::bench_a", float(n), f"v{n}", t) for n, t in enumerate(times)]
    open_history("m").keep_runs([*runs, BenchmarkRun("p/ops.py::bench_b", 1.0, "", 2.0)])
    status, out, err = call("bench", "--history")
    lines = out.splitlines()
    assert status == 0 and err == ""
    assert lines[0] == "p/ops.py::bench_a: 20 runs, last 2 ms"
    assert lines[1].startswith("  +99.9 % since 1970-01-01 ")
    assert "(v10): 1 ms → 2 ms, p=" in lines[1]
    assert lines[2:] == ["p/ops.py::bench_b: 1 run, last 2 s"]
    document = json.loads(call("bench", "--history", "--json")[1])
    assert document["benchmarks"][0]["changes"][0]["first_run"] == 10
    assert document["benchmarks"][1]["runs"] == [{"started": 1.0, "version": None, "seconds": 2.0}]


def stored(path: Path, seconds: float, **facts: str) -> Path:
    times = tuple(seconds * (1 + n / 1000) for n in range(10))
    measured = (Measured("ops.py::bench_a", 1, times),)
    save(BenchResult(1e9, "v1", Conditions("m", facts), measured), path)
    return path


def test_stored_results_need_a_history(call: Any, tmp_path: Path) -> None:
    base, new = stored(tmp_path / "base", 1e-3), stored(tmp_path / "new", 1.2e-3, cpu="other")
    status, out, err = call("diff", base, new)
    assert status == 3 and out == (
        "ops.py::bench_a  inconclusive  1 ms → 1.21 ms  +20 %  "
        "unpaired, weak evidence: 0 runs in the history, 5 are needed\n"
    )
    assert "not fully comparable: cpu: unknown (not recorded) → other" in err
    open_history("m").keep_runs(
        BenchmarkRun("ops.py::bench_a", float(n), "", 1e-3 + 1e-6 * (n % 4)) for n in range(8)
    )
    status, out, err = call("diff", base, new)
    assert status == 1 and "slower  1 ms → 1.21 ms  +20 %  unpaired, weak evidence: 8 runs" in out
    assert call("diff", base, new, "--fail-on", "30")[0] == 0
    document = json.loads(call("diff", base, new, "--json")[1])
    assert document["evidence"] == "unpaired, weak evidence"
    assert document["regressions"] == ["ops.py::bench_a"] and document["benchmarks"][0]["runs"] == 8


def profile(path: Path, solve_ms: int, *, extra: str = "", numpy: str = "2.4") -> Path:
    """A program whose step of 50 ms solves for a while, and may do something else for 5 ms."""
    spans: list[Span] = [
        Span("step", HOST, 1, 0, 0, (50 + solve_ms) * MS, 7, 0, None),
        Span("solve", WAIT, 2, 1, MS, (1 + solve_ms) * MS, 7, 0, None),
    ]
    if extra:
        start = (10 + solve_ms) * MS
        spans.append(Span(extra, TRANSFER, 3, 1, start, start + 5 * MS, 7, 0, None))
    writer = Writer(path, {"program": ["python", "a.py"], "versions": {"numpy": numpy}}, 0)
    writer.write(spans, lanes={7: Lane("MainThread")})
    writer.close((50 + solve_ms) * MS, 0, {}, [])
    writer.file.close()
    return path


def test_profiles_side_by_side(call: Any, tmp_path: Path) -> None:
    base = profile(tmp_path / "a.gfp", 20)
    new = profile(tmp_path / "b.gfp", 29, extra="copy;\x1b[2J", numpy="2.5")
    status, out, err = call("diff", base, new)
    assert status == 0
    assert err == "not fully comparable: numpy: 2.4 → 2.5\n"
    assert out.splitlines() == [
        "wall  70 ms → 79 ms  +12.9 %  unpaired, weak evidence (one run each)",
        "            base   new    change",
        "  host      50 ms  45 ms  -5 ms",
        "  wait      20 ms  29 ms  +9 ms",
        "  transfer  0 ns   5 ms   +5 ms",
        "call paths whose own time changed the most",
        "  +9 ms  wait      1 → 1 spans  64 % of the total increase   step > solve",
        "  -5 ms  host      1 → 1 spans  100 % of the total decrease  step",
        "  +5 ms  transfer  0 → 1 spans  36 % of the total increase   step > copy;?[2J",
    ]
    assert call("diff", base, new, "--fail-on", "12")[0] == 1
    assert call("diff", base, new, "--fail-on", "13")[0] == 0


def test_conditions_that_differ_are_named() -> None:
    gpu = {"index": 0, "driver": "560.35", "power_limit_watts": 700.0}
    base = Profile(header={"program": ["python", "a.py"], "machine": {"devices": [gpu]}})
    slower = {**gpu, "power_limit_watts": 350.0}
    new = Profile(header={"program": ["python", "b.py\x1b"], "machine": {"devices": [slower]}})
    assert list(profile_difference(base, new).differences) == [
        "program: python a.py → python b.py ",
        "machine devices 0 power_limit_watts: 700.0 → 350.0",
    ]
    short = Profile(header={"program": ["python", "a.py"], "unknown": {"machine": "too short"}})
    base.header["platform"] = short.header["platform"] = "Linux"
    (machine,) = profile_difference(base, short).differences
    assert machine == "machine: Linux → unknown (too short)"


@pytest.mark.parametrize("cut", ["base", "new run"])
def test_a_recording_that_ended_early_proves_nothing(call: Any, tmp_path: Path, cut: str) -> None:
    files = [profile(tmp_path / f"{name}.gfp", 20) for name in ("base", "new run")]
    short = tmp_path / f"{cut}.gfp"
    short.write_bytes(short.read_bytes()[:-5])
    status, out, err = call("diff", *files, "--fail-on", "5")
    assert status == 3 and out.startswith("wall ")
    assert f"inconclusive: the recording of the {cut} ended early" in err


def test_folded_stacks_of_two_profiles(call: Any, tmp_path: Path) -> None:
    base = profile(tmp_path / "a.gfp", 20)
    new = profile(tmp_path / "b.gfp", 29, extra="copy;all\n")
    assert call("diff", base, new, "--folded")[:2] == (
        0, "step 50000 45000\nstep;copy:all  0 5000\nstep;solve 20000 29000\n",
    )  # fmt: skip


def test_a_page_of_two_profiles(call: Any, tmp_path: Path) -> None:
    base = profile(tmp_path / "a.gfp", 20)
    new = profile(tmp_path / "b.gfp", 29, extra="copy", numpy="2.5")
    page = tmp_path / "d.html"
    status, out, err = call("diff", base, new, "-o", page)
    assert status == 0 and out.startswith("wall ") and f"wrote {page}\n" in err
    assert "<li>not fully comparable: numpy: 2.4 → 2.5</li>" in page.read_text(encoding="utf-8")
    assert call("diff", base, new, "-o", tmp_path)[0] == 2
    assert "an HTML page, not '.txt'" in call("diff", base, new, "-o", tmp_path / "d.txt")[2]


def test_json_of_two_profiles(call: Any, tmp_path: Path) -> None:
    base, new = profile(tmp_path / "a.gfp", 20), profile(tmp_path / "b.gfp", 29)
    document = json.loads(call("diff", base, new, "--json")[1])
    assert document["kind"] == "profile" and document["evidence"] == "unpaired, weak evidence"
    assert document["change"] == pytest.approx(9 / 70)
    (first, *_) = document["paths"]
    assert first["path"] == ["step", "solve"] and first["share"] == 1.0
    assert first["new"]["wait"] == 0.029 and first["change_seconds"] == pytest.approx(0.009)


def test_devices_stand_apart_and_an_empty_base_proves_nothing() -> None:
    making = Making()
    making.span("step", 0, 9 * MS)
    making.span("kernel", 0, 5 * MS, lane=making.lane("gpu", "device"), label="device")
    found = profile_difference(Profile(), making.profile)
    assert found.change is None
    assert list(folded(found)) == ["device;kernel 0 5000", "step 0 9000"]
    assert [found.share(path) for path in found.paths] == [1.0, 1.0]


def test_files_of_two_kinds_and_of_none(call: Any, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    one, two = stored(tmp_path / "r.json", 1e-3), profile(tmp_path / "a.gfp", 20)
    for arguments, message in (
        ((one, two), "cannot be compared: one is a bench result, the other a session file"),
        ((one, one, "--folded"), "--folded needs two session files"),
        ((one, one, "-o", tmp_path / "d.html"), "-o needs two session files"),
        ((one, tmp_path / "none"), "cannot be read"),
        ((one, tmp_path / "text"), "text"),
        ((two, two, "--fail-on", "-1"), "--fail-on -1 is not a positive percentage"),
    ):
        status, out, err = call("diff", *arguments)
        assert status == 2 and out == "" and message in err
