"""Versions of CUDA, ROCm, PyTorch and Python, in prose and in output of programs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from gpuforge import registry
from gpuforge.detect.seen import Seen
from gpuforge.detect.text.clauses import PERHAPS, THERE, evidence_of
from gpuforge.detect.text.labels import labels_of, told_lines
from gpuforge.facts import Toolkit

PROGRAM = "prose"
LINE_LIMIT, LINES_AT_MOST = 1000, 1000
# The score of a label of its own.
LABEL = 9
# What the driver supports, and what is asked for.
_FOREIGN = re.compile(r"NVIDIA-SMI|[<>!~]=")
_ASKED = re.compile(r"(__version__\)?)\s*\n")


@cache
def _patterns(name: str) -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    """Return the patterns of a program's version in an answer, in prose and in a folder."""
    table = registry.table(__file__, "versions")
    program: dict[str, str] = table["program"][name]
    filled = (table[kind].format(**program) for kind in ("answer", "spoken"))
    answer, spoken, folder = (re.compile(one, re.I) for one in (*filled, program["folder"]))
    return answer, spoken, folder


def read(text: str, route: str, seen: Seen) -> None:
    """Add each program's version in a text: that of the highest score, else the first."""
    folded = text.lower()
    have = {one.name for one in seen.toolkits}
    all_lines = told_lines(text)
    # The command given to an interpreter is on the line above.
    joined = _ASKED.sub(r"\1 ", text)
    lines = [line[:LINE_LIMIT] for line in told_lines(joined)]
    for name in registry.table(__file__, "versions")["program"]:
        word = name.split()[0]
        if name in have or word not in folded:
            continue
        telling = [line for line in lines if word in line.lower()][:LINES_AT_MOST]
        answers = (
            _patterns(name)[0].match(label.value)
            for label in labels_of(text)
            if name in label.facts and not _FOREIGN.search(all_lines[label.line])
        )
        told = [(LABEL, match["version"]) for match in answers if match]
        told += [one for line in telling for one in _told(name, line)]
        if told:
            _, first = max(told, key=lambda one: one[0])
            # Another line may give the same version in full.
            whole = next((one for _, one in told if one.startswith(f"{first}.")), first)
            seen.toolkits.append(Toolkit(name, whole))


def _told(name: str, line: str) -> Iterator[tuple[int, str]]:
    """Yield the installed versions that a line names, each with its score.

    A toolkit's version outweighs a runtime's, above all that which its compiler prints.
    """
    _, spoken, folders = _patterns(name)
    for match in spoken.finditer(line):
        words = match[0].lower()
        toolkit = 3 * ("compilation tools" in words) or "toolkit" in words
        begin = match.start("version" if " to " in words else 0)  # of two, the new one
        score = THERE + toolkit + evidence_of("version", line, begin, match.end()).score
        if score >= PERHAPS:
            yield score, match["version"]
    if folder := folders.search(line):
        score = PERHAPS + evidence_of("version", line, *folder.span()).score
        if score >= PERHAPS:
            yield PERHAPS, folder["version"]
