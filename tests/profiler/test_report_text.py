"""The report for the terminal, the analysis for a pull request, and the passes that feed them."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import given, settings

from gpuforge.facts import Absent
from gpuforge.profiler import formats, sections
from gpuforge.profiler.advise import Suggestion
from gpuforge.profiler.feeds import feeds
from gpuforge.profiler.formats import markdown
from gpuforge.profiler.model import Placement, Profile, Series
from gpuforge.profiler.peaks import peaks
from gpuforge.profiler.regret import lost_share, regrets
from gpuforge.profiler.sources import source
from gpuforge.profiler.summary import bottlenecks, first_line, summary, where_time
from gpuforge.profiler.tables import Table, cut
from gpuforge.profiler.transfers import transfers
from tests.profiler.any_profile import HOSTILE, profiles
from tests.profiler.made import MS, Making
from tests.profiler.test_passes import example

CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]")


def complete(tmp_path: Path) -> Profile:
    """A profile with everything that a report shows."""
    program = tmp_path / "heat.py"
    program.write_text("import numpy as np\n\n\ndef step(x):\n    return x @ x  # `x`\n")
    os.utime(program, (1e9, 1e9))
    making = Making(
        started=1_700_000_000.0, gpuforge="0.1", python="3.12.1", platform="Linux",
        versions={"numpy": "2.1.0"}, unknown={"driver": "no device"},
        peaks={"torch": {"to device": {"per_second": 2e9, "source": "measured"}}},
    )  # fmt: skip
    making.profile.header["program"] = ["python", str(program), "--fast"]
    queue = making.lane("torch:cuda:0 compute", "device")
    for at in range(0, 40 * MS, 20 * MS):
        step = making.span("step", at, 18 * MS, file=str(program), line=5)
        making.span("put", at, 4 * MS, inside=step, label="transfer", nbytes=4_000_000,
                    direction="to device", backend="torch")  # fmt: skip
        call = making.span("solve", at + 4 * MS, 10 * MS, inside=step, label="overhead",
                           function="solve", backend="torch",
                           memory_peak_bytes=3 << 20)  # fmt: skip
        making.span("run", at + 5 * MS, 8 * MS, inside=call, label="wait")
        making.span("gemm", at + 5 * MS, 7 * MS, inside=call, lane=queue, label="device")
        making.span("norm", at + 15 * MS, 2 * MS, inside=step)
    profile = making.profile
    profile.wall_ns, profile.cost_ns = 40 * MS, MS // 10
    profile.notes.append("two spans were merged")
    profile.placements += [
        Placement(0, "solve", "(8, 8) float64", "torch", 0.020, 2,
                  {"numpy": 0.009, "torch": 0.008}),
        Placement(5, "norm", "(8,) float64", "numpy", 0.004, 2, {"numpy": 0.002}),
    ]  # fmt: skip
    series = Series("memory", "bytes", "torch:cuda:0")
    series.times_ns.extend([0, MS])
    series.values.extend([1024.0, 5 * 2.0**20])
    profile.series.append(series)
    return profile


def suggestion(file: str) -> Suggestion:
    return Suggestion(
        "copies", "The same array is copied to the device 2 times", ["4 MB each | `x`"], 0.008, 0.2,
        "keep it there: x = gf.asarray(x)", "gpuforge report run.gfp", file, 5, 40,
    )  # fmt: skip


@pytest.fixture
def suggested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Profile:
    profile = complete(tmp_path)
    monkeypatch.setattr(sections, "suggestions", lambda _: [suggestion(str(tmp_path / "heat.py"))])
    return profile


def test_the_first_line_adds_up() -> None:
    assert first_line(example()) == (
        "15 ms: host 47 %, wait 27 %, transfer 20 %, overhead 6 %, unexplained 0 %"
    )
    assert first_line(Profile(wall_ns=2 * MS)) == "2 ms: no spans were recorded"


@settings(max_examples=40)
@given(profiles())
def test_the_parts_of_any_wall_time_add_up(profile: Profile) -> None:
    where = where_time(profile)
    if where is not None:
        assert sum(where.part_ns.values()) == where.wall_ns + where.overlap_ns
        assert sum(where.percent.values()) in (0, 100)
        assert min(where.percent.values()) >= 0
    assert first_line(profile).isprintable()
    assert len(summary(profile).splitlines()) >= 2


def test_bottlenecks_are_what_took_most_itself() -> None:
    found = bottlenecks(example(), 2)
    assert [(one.path, one.label, one.count) for one in found] == [
        (("step",), "host", 2),
        (("step", "solve", "run"), "wait", 1),
    ]
    assert found[0].seconds == 0.007
    assert found[0].share == pytest.approx(7 / 15)
    assert found[0].errors == 1
    assert str(found[0]).endswith("in 2 spans, of which 1 failed")
    assert str(found[1]) == "step > solve > run: 4 ms of its own (26.7 %, wait) in 1 span"


def test_the_text_says_the_most_important_first(suggested: Profile) -> None:
    found = str(formats.render(suggested, "text"))
    assert found.splitlines()[0] == (
        "40 ms: host 20 %, wait 40 %, transfer 20 %, overhead 10 %, unexplained 10 %"
    )
    expected = """
Steps that took the most time. Times exclude the steps inside a step.
step                 time  of wall  mostly    spans  written in
step > solve > run  16 ms   40.0 %  wait          2
step > put           8 ms   20.0 %  transfer      2
step                 4 ms   10.0 %  host          2  heat.py:5
step > solve         4 ms   10.0 %  overhead      2
step > norm          4 ms   10.0 %  host          2

Threads. Each from its first to its last span.
thread       wall  host   wait  transfer  overhead  unexplained
MainThread  38 ms  8 ms  16 ms      8 ms      4 ms         2 ms

Devices
device queue           busy  of wall
torch:cuda:0 compute  14 ms   35.0 %

Transfers. to device torch, peak: measured
direction        count     bytes  time   speed  of the link's peak
to device torch      2  7.63 MiB  8 ms  1 GB/s      50 % of 2 GB/s

Peaks
backend  of         at most  source
torch    to device   2 GB/s  measured

Placements. Placed calls took 24 ms; 8.3 % of it (2 ms) was lost compared with
  the best known backend for each call. For 2 of the calls, no other backend has
  been measured. The time of a backend with * is predicted.
call                  ran on  calls   each  predicted  best    lost
solve (8, 8) float64  torch       2  10 ms       8 ms  numpy*  2 ms
norm (8,) float64     numpy       2   2 ms       2 ms  numpy      -

Memory peaks
during             on            bytes
whole run: memory  torch:cuda:0  5 MiB
step > solve       host          3 MiB

Data flow between operations. If none were passed, only the order suggests that
  the second step uses the result of the first; bytes moved in between make that
  likely.
first  then  times  passed  moved between
solve  norm      2       -              -

1. The same array is copied to the device 2 times (at most 8 ms, 20.0 % of the
  wall time)
   - 4 MB each | `x`
"""
    rest = found[found.index("\nSteps that took") :]
    assert rest.startswith(expected), rest
    assert "two spans were merged" in found
    assert "check: gpuforge report run.gfp" in found


@settings(max_examples=40)
@given(profiles())
def test_any_text_is_80_columns_without_control_characters(profile: Profile) -> None:
    found = str(formats.render(profile, "text"))
    assert not CONTROL.search(found)
    assert max(map(len, found.split("\n"))) <= 80, found


def test_what_was_recorded_of_a_crashed_program_says_so() -> None:
    profile = example()
    profile.complete = False
    for name in ("text", "markdown"):
        assert "incomplete: the recording ended early" in str(formats.render(profile, name))


@pytest.mark.parametrize("name", ["text", "markdown"])
def test_a_rule_that_fails_does_not_cost_the_report(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(profile: Profile) -> list[Suggestion]:
        raise IndexError("too odd")

    monkeypatch.setattr(sections, "suggestions", fail)
    found = str(formats.render(example(), name))
    assert "the rules could not be run: IndexError: too odd" in found
    assert "step > solve > run" in found


def test_of_an_overlong_path_the_end_is_shown() -> None:
    making = Making()
    outer = making.span("x" * 5000, 0, 5 * MS)
    for at, step in enumerate(("read", "write")):
        making.span(step, 2 * at * MS, 2 * MS, inside=outer)
    for name in ("text", "markdown"):
        found = str(formats.render(making.profile, name))
        assert "… > read" in found and "… > write" in found


def test_names_are_cut_and_numbers_are_not() -> None:
    table = Table("", ("name", "n"), [("a" * 200, "1" * 30), ("b", "2")])
    assert table.aligned() == [
        "name".ljust(50) + "n".rjust(30),
        "a" * 15 + "…" + "a" * 32 + "  " + "1" * 30,
        "b".ljust(50) + "2".rjust(30),
    ]


def test_wide_characters_take_two_columns() -> None:
    table = Table("", ("name", "n"), [("読み込み", "1"), ("cafe\u0301 🎉", "20"), ("語" * 60, "3")])
    assert table.aligned() == [
        "name".ljust(76) + "   n",
        "読み込み".ljust(72) + "   1",
        "cafe\u0301 🎉".ljust(76) + "  20",
        "語" * 12 + "…" + "語" * 25 + "    3",
    ]


def test_the_analysis_is_fit_for_a_pull_request(
    suggested: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = str(formats.render(suggested, "markdown"))
    where = tmp_path / "heat.py"
    assert found.splitlines()[0] == f"# Analysis of `{where}`, 2023-11-14"
    assert "| `numpy` | `2.1.0` |" in found
    assert "- not known: driver: no device" in found
    finding = f"""
### 1. The same array is copied to the device 2 times

Priority: high. At most 8 ms (20.0 % of the wall time) could be saved. Rule: `copies`.

- 4 MB each \\| \\`x\\`

Now: `{where}:5`

```text
  3
  4  def step(x):
> 5      return x @ x  # `x`
```

Change: keep it there: x = gf.asarray(x)

Check: `gpuforge report run.gfp`
"""
    assert finding in found, found
    monkeypatch.chdir(tmp_path)
    assert "Now: `heat.py:5`" in str(formats.render(suggested, "markdown"))
    assert "| `solve` | `norm` | 2 | - |" in found
    assert "8.3 % of it (2 ms) was lost compared with" in found


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_no_markup(name: str) -> None:
    making = Making(program=["python", name], versions={name: name}, unknown={name: name})
    making.span(name, 0, MS, file=name, line=1, backend=name)
    making.profile.notes.append(name)
    found = str(formats.render(making.profile, "markdown"))
    outside = re.sub(r"\\.|`[^`\n]*`", "", found)
    assert not re.search(r"[<\]`]", outside.replace("```text", "").replace("```", ""))
    for block in re.findall(r"(?:^\|.*\n)+", found, re.MULTILINE):
        assert len({re.sub(r"\\.", "", line).count("|") for line in block.splitlines()}) == 1, block


@pytest.mark.parametrize(
    ("program", "name"),
    [
        (["python", "a/heat.py", "--x"], "heat"),
        (["python", "-m", "pkg.tool", "x.py"], "pkg.tool"),
        (["/usr/bin/python3", "bin/tool", "--x"], "tool"),
        (["python", "-c", "import x"], "python"),
        (["python", "-W", "ignore", "bin/tool"], "tool"),
        (["python", "-X", "dev", "-W", "ignore", "tool", "-W", "x"], "tool"),
        (["../../etc/passwd"], "passwd"),
        (["python", "/"], "program"),
        (["...."], "program"),
        ("heat.py", "program"),
        ([], "program"),
        (["python", "a b\n<c>.py"], "a-b-c"),
    ],
)
def test_an_analysis_is_named_after_the_program(program: object, name: str) -> None:
    profile = Profile(header={"program": program, "started": 1_700_000_000.0})
    assert markdown.default_path(profile) == Path("docs/analysis", f"{name}-2023-11-14.md")


def test_regret_is_against_the_best_that_is_known() -> None:
    profile = Profile(
        placements=[
            Placement(0, "f", "a", "torch", 6.0, 3, {"numpy": 1.5, "jax": 0.5}),
            Placement(0, "f", "a", "jax", 1.0, 1),
            Placement(0, "g", "a", "numpy", 1.0, 1, {"torch": float("nan"), "jax": -1.0}),
            Placement(0, "h", "a", "numpy", float("inf"), 1),
            Placement(0, "h", "a", "numpy", 1.0, 0),
        ]
    )
    first, *rest = regrets(profile)
    # JAX was expected to take 0.5 s and took 1 s.
    assert (first.best, first.best_seconds, first.measured) == ("jax", 1.0, True)
    assert first.lost_seconds == 3.0
    assert [one.lost_seconds for one in rest] == [0.0, 0.0]


def test_what_differs_from_call_to_call_is_no_regret() -> None:
    calls = [Placement(0, "f", "a", "numpy", seconds, 1, {"torch": 2.5}) for seconds in (1, 2, 4)]
    calls += [Placement(0, "f", "a", "torch", 5.0, 1, {"torch": 2.0, "numpy": 9.0})]
    torch, numpy = regrets(Profile(placements=calls))
    assert (numpy.placement.calls, numpy.placement.seconds, numpy.lost_seconds) == (3, 7.0, 0.0)
    assert (torch.best, torch.lost_seconds) == ("numpy", pytest.approx(5 - 7 / 3))
    assert torch.predicted_seconds == 2.0
    assert not torch.alone


def test_calls_without_another_backend_are_told() -> None:
    profile = Profile(placements=[Placement(0, "f", "a", "torch", 6.0, 3, {"torch": 1.0})])
    assert regrets(profile)[0].alone
    assert "For 3 of the calls, no other backend has been measured." in str(
        formats.render(profile, "markdown")
    )


def test_the_share_that_was_lost_is_of_all_placed_calls() -> None:
    calls = [Placement(0, "f", "a", "torch", 6.0, 3, {"jax": 1.0}),
             Placement(0, "g", "a", "numpy", 2.0, 1)]  # fmt: skip
    assert lost_share(regrets(Profile(placements=calls))) == 3 / 8
    assert lost_share([]) is None


def test_transfers_are_compared_with_the_link(tmp_path: Path) -> None:
    (found,) = transfers(complete(tmp_path))
    assert (found.backend, found.direction, found.count) == ("torch", "to device", 2)
    assert found.bytes_per_second == 1e9
    assert not isinstance(found.peak, Absent)
    assert (found.peak.per_second, found.of_peak) == (2e9, "50 % of 2 GB/s")


def test_a_link_without_a_peak_is_told_with_the_reason(tmp_path: Path) -> None:
    profile = complete(tmp_path)
    told = {"unknown": "not measured: | `x`"}
    profile.header["peaks"] = {"torch": {"to device": told}}
    (found,) = transfers(profile)
    assert found.of_peak == "-"
    expected = "to device torch, no peak: not measured:"
    assert expected in formats.render(profile, "text")
    assert f"{expected} \\| \\`x\\`" in formats.render(profile, "markdown")
    page = formats.render(profile, "html")
    assert expected in page and "Bytes moved to and from devices" in page


def test_peaks_are_those_of_devices_and_of_spans(tmp_path: Path) -> None:
    assert [(one.path, one.where, one.bytes) for one in peaks(complete(tmp_path), 5)] == [
        ((), "torch:cuda:0", 5 << 20),
        (("step", "solve"), "host", 3 << 20),
    ]


def test_no_speed_is_shown_as_none() -> None:
    making = Making()
    making.span("put", 0, MS, label="transfer", backend="torch:cpu", direction="to device")
    assert "B/s" not in str(formats.render(making.profile, "html"))
    making.span("put", MS, MS, label="transfer", backend="cuda", direction="to device", nbytes=8)
    for name in ("text", "html"):
        assert "8 kB/s" in str(formats.render(making.profile, name))


def test_one_operation_feeds_the_next_inside_a_span() -> None:
    making = Making()
    for at in range(0, 30, 10):
        outer = making.span("step", at, 10)
        making.span("load", at, 2, inside=outer)
        making.span("put", at + 2, 2, inside=outer, label="transfer", nbytes=100)
        making.span("solve", at + 4, 2, inside=outer)
    making.span("merged", 40, 10, count=3)
    assert [tuple(feed) for feed in feeds(making.profile, 5)] == [
        ("load", "solve", 3, 0, 300),
    ]


def test_the_analysis_tells_the_machine() -> None:
    host = {"cpu_model": "AMD EPYC", "cores": 1, "memory_total_bytes": 4 << 30}
    found = {"host": host, "devices": [{"name": "NVIDIA H100"}]}
    profile = Profile(header={"platform": "Linux", "machine": found})
    told = "| `machine` | `Linux, AMD EPYC, 1 core, 4 GiB, NVIDIA H100` |"
    assert told in formats.render(profile, "markdown")
    for odd in ({"host": 3}, {"host": host, "devices": [5]}, {"host": {"cores": "x"}}):
        profile.header["machine"] = odd
        assert "| `machine` | `Linux` |" in formats.render(profile, "markdown")
        assert "<dd>Linux</dd>" in formats.render(profile, "html")


def test_neither_a_failed_step_nor_the_start_of_a_loop_is_fed() -> None:
    making = Making()
    for at in range(0, 40, 10):
        making.span("make", at, 2)
        making.span("use", at + 2, 2)
    making.span("fails", 40, 2, error="ValueError")
    making.span("save", 42, 2)
    assert [tuple(feed) for feed in feeds(making.profile, 9)] == [
        ("make", "use", 4, 0, 0),
        ("use", "fails", 1, 0, 0),
    ]
    shown = formats.render(making.profile, "text")
    assert "make   use        4       -              -" in shown
    assert "1 (1 failed)" in shown and "left out" not in shown
    making.span("short", 50, 5, count=1_000)
    assert "1,000 spans were merged" in " ".join(
        formats.render(making.profile, "text").partition("Data flow")[2].split()
    )


def test_only_lines_of_python_files_are_read(tmp_path: Path) -> None:
    profile = Profile(header={"started": 1_700_000_000.0})
    secret = tmp_path / "id_rsa"
    secret.write_text("secret")
    code = tmp_path / "a.py"
    code.write_text("x = 1\ny = 2\n")
    assert source(profile, str(secret), 1).absent == "it is not a Python file"
    found = source(profile, str(code), 2)
    assert found.lines == ((1, "x = 1"), (2, "y = 2"))
    assert found.changed
    assert source(profile, str(code), 9).absent == "it no longer has this line"
    assert "FileNotFoundError" in source(profile, str(tmp_path / "b.py"), 1).absent
    os.mkfifo(tmp_path / "c.py")
    assert source(profile, str(tmp_path / "c.py"), 1).absent == "it is not a file of a usual size"
    code.write_bytes(b"# coding: nonsense\n")
    assert "SyntaxError" in source(profile, str(code), 1).absent
    assert source(profile, "\0.py", 1).absent


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("program > solve > direct call", 29, "program > solve > direct call"),
        ("program > solve > direct call", 27, "… > solve > direct call"),
        ("program > solve > direct call", 20, "… > direct call"),
        ("program > solve > direct call", 10, "pro…t call"),
        ("/home/somebody/work/program.py", 14, "/hom…rogram.py"),
    ],
)
def test_a_path_that_is_too_long_keeps_its_last_steps(text: str, width: int, shown: str) -> None:
    assert cut(text, width) == shown


@pytest.mark.parametrize("padding", range(12))
def test_no_line_ends_between_a_number_and_its_unit(padding: int) -> None:
    making = Making()
    making.span("a", 0, MS)
    said = "x" * padding + " 13.5 % 2 min 9 s 38.1 ms 7.63 MiB 954 MiB/s" * 9
    making.profile.notes.append(said)
    found = formats.render(making.profile, "text").splitlines()
    assert not any(re.search(r"\d$|^ *(%|s|ms|MiB|min)\b", line) for line in found[1:9])
    assert said in " ".join(line.strip() for line in found)
