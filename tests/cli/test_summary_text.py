"""The summary says what ran where and why, and nothing that was not measured."""

from __future__ import annotations

import pytest

from gpuforge.cli import summary_text
from gpuforge.runtime.execution.summary import FunctionSummary, Summary


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
