"""Excerpts of public error reports, labelled before they were first explained."""

from __future__ import annotations

import json
from pathlib import Path

from gpuforge.diagnose import explain

CASES = [
    json.loads(line)
    for line in (Path(__file__).parent / "fresh_reports" / "cases.jsonl")
    .read_text("utf-8")
    .splitlines()
]


def test_fresh_reports_are_explained() -> None:
    wrong = []
    for case in CASES:
        cause = explain(case["text"]).cause
        if (cause.cause if cause else "none") not in (case["cause"], *case["also"]):
            wrong.append((case["id"], cause and (cause.cause, cause.confidence)))
    assert not wrong
    assert len(CASES) > 250
