"""Versions of CUDA, ROCm, PyTorch and Python, in prose and in output of programs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuforge.detect.seen import Seen
from gpuforge.detect.text.clauses import PERHAPS, THERE, evidence_of
from gpuforge.detect.text.labels import labels_of, told_lines
from gpuforge.facts import Toolkit

PROGRAM = "prose"
LINE_LIMIT, LINES_AT_MOST = 1000, 1000
# The score of a label of its own.
LABEL = 9
_BUILD = r"(?:\.?(?:dev|rc|a|b|post)\d{1,12})?(?:\+\w{1,20}(?:\.\w{1,20}){0,3})?"
# For each program, its names and the form of its version.
_PROGRAMS = {
    "cuda toolkit": (
        r"(?:/usr/local/|Build )?CUDA(?:[ _-]?(?:compilation tools, release|toolkit|SDK|runtime|"
        r"Driver Version / Runtime Version\s+[\d.]+ /))?",
        r"(?:(?:[4-9]|1\d)\.\d{1,2}(?:\.\d{1,3})?|1[0-3](?!\.?\d|\s?[x*]))",
    ),
    "rocm": (r"ROCm(?:[ -]?(?:release|SDK))?|TheRock", rf"\d\.\d{{1,2}}(?:\.\d{{1,2}})?{_BUILD}"),
    "torch": (r"(?:py)?torch", rf"[012]\.\d{{1,2}}(?:\.\d{{1,2}})?{_BUILD}"),
    "python": (r"C?python3?", r"[23]\.\d{1,2}(?:\.\d{1,2})?"),
}
# The version in the value of a label of its own (labels.toml).
_ANSWER = (
    r"^\W*(?:(?:{words}|tool ?kit|release|version|Python|v)[\s:=-]*){{0,3}}"
    r"(?P<version>{form})(?![\d.]*\d)"
)
_SPOKEN = (
    r"(?<![\w./-])(?:(?<!\+)|(?=cuda))(?:{words})(?:(?:[\s_-]|\s?\()(?:tool ?kit|version|ver\.?|"
    r"v\.?|libs?|libraries|stack|runtime|package|installed|with|in|is|of)(?![\w-])){{0,3}}"
    r"(?:version|ver\.?)?(?:[\s:=(\-]{{0,3}}|[\"'], ?[\"'])"
    r"(?:TheRock )?(?:v\.?\s?)?(?P<version>{form})(?![\d.]*\d)(?!\s?/\s?\d)"
)
# Folders whose name contains the version of the program in them.
_FOLDERS = {
    "cuda toolkit": r"\bcuda(?:[-/_]|[\\/]v)"
    r"(?P<version>\d{1,2}\.\d(?:\.\d)?(?=[\\/\s:]|$)|\d{1,2}\.\d\.\d{1,3}(?=_\w+\.run\b|_[\d.]+_linux))",
    "rocm": r"/rocm-(?P<version>\d\.\d{1,2}(?:\.\d{1,2})?)(?=[/\s:]|$)",
    "torch": r"torch\.__version__\W*(?P<version>[012]\.\d{1,2}\.\d{1,2}" + _BUILD + ")",
    "python": r"(?:[/\\]|--)python[ =]?(?P<version>[23]\.\d{1,2})(?=[/\\\s:]|$)",
}


def _compiled(form: str) -> dict[str, re.Pattern[str]]:
    return {
        name: re.compile(form.format(words=words, form=version), re.I)
        for name, (words, version) in _PROGRAMS.items()
    }


# What the driver supports, and what is asked for.
_FOREIGN = re.compile(r"NVIDIA-SMI|[<>!~]=")
_ASKED = re.compile(r"(__version__\)?)\s*\n")
_ANSWERS, _MENTIONS = _compiled(_ANSWER), _compiled(_SPOKEN)
_PLACES = {name: re.compile(form, re.I) for name, form in _FOLDERS.items()}


def read(text: str, route: str, seen: Seen) -> None:
    """Add each program's version in a text: that of the highest score, else the first."""
    folded = text.lower()
    have = {one.name for one in seen.toolkits}
    all_lines = told_lines(text)
    # The command given to an interpreter is on the line above.
    joined = _ASKED.sub(r"\1 ", text)
    lines = [line[:LINE_LIMIT] for line in told_lines(joined)]
    for name in _PROGRAMS:
        word = name.split()[0]
        if name in have or word not in folded:
            continue
        telling = [line for line in lines if word in line.lower()][:LINES_AT_MOST]
        answers = (
            _ANSWERS[name].match(label.value)
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

    A toolkit's version outweighs a runtime's.
    """
    for match in _MENTIONS[name].finditer(line):
        toolkit = "toolkit" in match[0].lower()
        score = THERE + toolkit + evidence_of("version", line, match.start(), match.end()).score
        if score >= PERHAPS:
            yield score, match["version"]
    if (place := _PLACES.get(name)) and (folder := place.search(line)):
        score = PERHAPS + evidence_of("version", line, *folder.span()).score
        if score >= PERHAPS:
            yield PERHAPS, folder["version"]
