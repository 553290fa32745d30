"""Reports as terminals, mails and Markdown change them: cut, wrapped, quoted, with other spaces."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuforge.diagnose import explain
from gpuforge.diagnose.large_log import REPEATING
from gpuforge.diagnose.line_breaks import rejoined
from gpuforge.diagnose.log import Log, evenly_spaced

from .test_fresh_reports import CASES

SHORT = [case for case in CASES if len(case["text"]) < 3000]
KNOWN = [case for case in SHORT if "none" not in (case["cause"], *case["also"])][::6]
FINE = [case for case in SHORT if case["cause"] == "none" and not case["also"]][::6]
MESSAGE = (
    "RuntimeError: The NVIDIA driver that was found on this machine, which is the one of the host, "
    "says: CUDA error: out of memory, while 23.65 GiB were in use"
)


def _cut(text: str, width: int) -> str:
    lines = text.split("\n")
    return "\n".join(
        line[at : at + width] for line in lines for at in range(0, len(line) or 1, width)
    )


def _wrapped(text: str, width: int) -> str:
    return "\n".join(
        textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False)
        for line in text.split("\n")
    )


CHANGES: dict[str, Callable[[str], str]] = {
    "cut at 80": lambda text: _cut(text, 80),
    "cut at 120": lambda text: _cut(text, 120),
    "wrapped at 72": lambda text: _wrapped(text, 72),
    "quoted": lambda text: "\n".join(f"> {line}" for line in _wrapped(text, 70).split("\n")),
    "double spaces": lambda text: re.sub(r"(?<=\S) (?=\S)", "  ", text),
    "tabs": lambda text: re.sub(r"(?<=\S) (?=\S)", "\t", text),
    "Markdown": lambda text: re.sub(r"([_*\[\]<>#`~])", r"\\\1", text),
}
LOST = {"cut at 80": 2, "cut at 120": 2, "wrapped at 72": 2, "quoted": 2}


def _as_it_is(text: str) -> bool:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Log, "rejoined", lambda _: iter(()))
        return explain(text).cause is not None


def _named(text: str) -> str:
    cause = explain(text).cause
    return cause.cause if cause else "none"


@pytest.mark.parametrize("change", CHANGES)
def test_reports_are_explained_as_they_are_pasted(change: str) -> None:
    lost = [
        (case["id"], answer)
        for case in KNOWN
        if (answer := _named(CHANGES[change](case["text"]))) not in (case["cause"], *case["also"])
    ]
    assert len(lost) <= LOST.get(change, 0), lost
    assert len(KNOWN) > 80


@pytest.mark.parametrize("change", CHANGES)
def test_rejoined_lines_name_no_cause_where_none_was(change: str) -> None:
    texts = [CHANGES[change](case["text"]) for case in FINE]
    named = [text for text in texts if explain(text).cause]
    assert not [text for text in named if not _as_it_is(text)]
    assert len(FINE) > 60


@pytest.mark.parametrize("change", CHANGES)
def test_the_line_of_the_message_is_told(change: str) -> None:
    text = f"step 1 of 2\n\n{CHANGES[change](MESSAGE)}\nstep 2 of 2"
    answer = explain(text)
    assert answer.cause is not None
    assert answer.cause.cause == "gpu_out_of_memory"
    assert answer.cause.evidence[0].line in range(3, text.count("\n") + 1)
    assert "out of memory" in " ".join(answer.cause.evidence[0].text.split())
    assert answer.lines_read == text.count("\n") + 1


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ("The worker did not find what it had been looking for on the disk.", "Out of memory"),
        ("The worker did not find what it had been looking for on the disk", "srun: Out of memory"),
        ("The worker did not find what it had been looking for on the disk", "2026-01-01 00:00 go"),
        ("The worker did not find what it had been looking for on the disk", "  memory"),
        ("The worker did not find what it had", "been looking for"),
    ],
)
def test_lines_that_a_program_broke_stay(line: str, after: str) -> None:
    assert [*rejoined(f"{line}\n{after}")] in ([], [f"{line}\n{after}"])


def test_a_long_log_is_read_once() -> None:
    text = f"{MESSAGE[:80]}\n{MESSAGE[80:]}\n"
    assert [*Log(text).rejoined()]
    assert not [*Log("step of a run\n" * (REPEATING // 10) + text).rejoined()]


@given(st.text("ab >\n\t.:", max_size=400))
def test_line_numbers_are_kept(text: str) -> None:
    for other in rejoined(text):
        assert other.count("\n") == text.count("\n")
        assert {*other} <= {*text.replace("\t", " "), " "}
    assert evenly_spaced(text).count("\n") == text.count("\n")


def test_a_backslash_of_a_path_stays() -> None:
    assert evenly_spaced(r"C:\Users\me \_a\[0\]") == r"C:\Users\me _a[0]"
