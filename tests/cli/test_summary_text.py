"""The summary says what ran where and why, and nothing that was not measured."""

from __future__ import annotations

from types import FunctionType

import pytest

from gpuforge.cli import summary_text
from gpuforge.dataclass import replace
from gpuforge.runtime.accelerated import Accelerated
from gpuforge.runtime.execution.summary import FunctionSummary, Summary, functions_of
from gpuforge.runtime.function.options import Options
from gpuforge.runtime.record import FunctionRecord


def function(name: str = "__main__.whiten", seconds: float = 1.5) -> FunctionSummary:
    return FunctionSummary(
        name=name,
        calls=12,
        seconds=seconds,
        placements=(("torch", 9, 1.2), ("numpy", 1, 0.3)),
        reason="torch: measured 133 ms, numpy 300 ms",
        as_written=(("tensors need gradients", 2),),
    )


def test_every_part_is_there() -> None:
    summary = Summary((function(),), 0.0, 0.0, ("threads fought",), "calibrate")
    assert summary_text.render_summary(summary, 2.0, "OMP_WAIT_POLICY=PASSIVE").splitlines() == [
        "gpuforge: 2 s total, 1.5 s of it in 1 offloaded function",
        "  function  calls  time   ran on",
        "  whiten    12     1.5 s  torch 9× 1.2 s, numpy 1× 300 ms, "
        "called directly 2× (tensors need gradients)",
        "  whiten: torch: measured 133 ms, numpy 300 ms",
        "note: environment variables set for this run: OMP_WAIT_POLICY=PASSIVE",
        "note: threads fought",
        "next: calibrate",
    ]


def test_many_functions_are_ranked_and_cut() -> None:
    functions = tuple(function(f"f{n}", float(n)) for n in range(20))
    text = summary_text.render_summary(Summary(functions, 0.0, 0.0, (), ""), 300.0, "")
    assert text.index("f19") < text.index("f18") and "f7 " not in text
    assert "and 8 more, 28 s together" in text and "next:" not in text


def test_the_time_of_calls_within_others_counts_once() -> None:
    inner = replace(function("inner", 1.0), within=True)
    text = summary_text.render_summary(Summary((function(), inner), 0.0, 0.0, (), ""), 2.0, "")
    assert text.startswith("gpuforge: 2 s total, 1.5 s of it in 2 offloaded functions\n")
    text = summary_text.render_summary(Summary((function(),), 0.0, 0.0, (), ""), 1.0, "")
    assert text.startswith("gpuforge: 1 s total, 1 s of it in ")


def test_the_next_step_comes_last() -> None:
    details = ["accelerated functions: none"]
    summary = Summary((function(),), 0.0, 0.0, (), "calibrate")
    for text in (
        summary_text.render_summary(summary, 2.0, "", details),
        summary_text.render_nothing_placed(2.0, details, accelerated=True),
    ):
        said, advice = text.splitlines()[-2:]
        assert said == details[0] and advice.startswith("next: ")


def test_functions_left_alone_are_counted_beyond_the_first() -> None:
    found = []
    for number in range(summary_text.SHOWN_FUNCTIONS + 3):
        found.append(Accelerated(FunctionType(replace.__code__, globals(), f"f{number}")))
        found[-1].leave("it calls itself")
    lines = summary_text.render_accelerated(found, None)
    assert lines[0].startswith("  not accelerated: ") and lines[0].endswith(": it calls itself")
    assert lines[-1] == "  not accelerated: 3 more"


def inner(x: float) -> float:
    return x + 1


def outer(x: float) -> float:
    return inner(x) * 2


def test_a_function_that_a_slower_one_calls_is_within_it() -> None:
    records = [FunctionRecord(one, Options(), lambda: None) for one in (inner, outer)]
    for record, seconds in zip(records, (1.0, 1.5), strict=True):
        record.add("numpy", 1, seconds)
    found = {one.name.rpartition(".")[2]: one.within for one in functions_of(records)}
    assert found == {"outer": False, "inner": True}
    records[0].add("numpy", 1, 1.0)  # called directly as well
    assert not any(one.within for one in functions_of(records))


def test_names_cannot_command_the_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    from gpuforge.cli import render

    render.last_words("name \x1b[2J")
    assert capfd.readouterr().err == "name \\x1b[2J\n"


@pytest.mark.parametrize("accelerated", [False, True])
def test_a_program_that_offloads_nothing_is_told_what_to_do(accelerated: bool) -> None:
    text = summary_text.render_nothing_placed(5.83, accelerated=accelerated)
    said, advice = text.split("\n")
    assert said.startswith("gpuforge: 5.83 s; no ") and "  " not in said
    assert advice.startswith("next: ")
