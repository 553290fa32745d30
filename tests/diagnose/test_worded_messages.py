"""Messages as the sources of programs word them: causes, and lines that are no evidence of one."""

from __future__ import annotations

import json
from pathlib import Path

from gpuforge.diagnose import explain, known_error

from .known_errors_index import in_full

MESSAGES = [
    json.loads(line)
    for line in (Path(__file__).parent / "worded_messages.jsonl").read_text("utf-8").splitlines()
]


def test_messages_of_many_programs_are_explained() -> None:
    wrong = []
    for program, message, wanted, _ in MESSAGES:
        cause = explain(message).cause
        if (cause.cause if cause else "none") not in wanted:
            wrong.append((program, message, wanted, cause and cause.cause))
    assert not wrong
    assert len({program for program, *_ in MESSAGES}) > 120


def test_many_of_them_are_no_evidence() -> None:
    assert sum(wanted == ["none"] for _, _, wanted, _ in MESSAGES) > 60


def test_known_errors_are_named_by_messages_whose_source_is_given() -> None:
    causes = {*known_error.causes(), "none"}
    for _, message, wanted, source in MESSAGES:
        assert {*wanted} <= causes, message
        assert wanted == ["none"] or source.startswith("github.com/") or not source


def test_wordings_stand_for_each_of_their_texts() -> None:
    wordings = {"cannot": ["failed to", "can't"], "usable": ["", "valid"], "said": "^(?!fix)"}
    clue = {"find": "no <usable> gpu", "match": "<said>.*<cannot> open", "weight": 0.5}
    assert in_full(clue, wordings) == {
        "find": ["no gpu", "no valid gpu"],
        "match": "^(?!fix).*(failed to|can't) open",
        "weight": 0.5,
    }
