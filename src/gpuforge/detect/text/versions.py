"""Versions of CUDA, ROCm, PyTorch and Python, in the words of people and programs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuforge.detect.seen import Seen
from gpuforge.detect.text.clauses import PERHAPS, THERE, evidence_of
from gpuforge.detect.text.labels import told_lines
from gpuforge.facts import Toolkit

PROGRAM = "prose"
LINE_LIMIT, LINES_AT_MOST = 1000, 1000
# What a label of its own scores.
LABEL = 9
_BUILD = r"(?:\.?(?:dev|rc|a|b|post)\d{1,12})?(?:\+\w{1,20}(?:\.\w{1,20}){0,3})?"
# Of each program, its words and the form of its version.
_PROGRAMS = {
    "cuda toolkit": (
        r"(?:/usr/local/|Build )?CUDA(?:[ _-]?(?:compilation tools, release|toolkit|SDK|runtime|"
        r"Driver Version / Runtime Version\s+[\d.]+ /))?",
        r"(?:[4-9]|1\d)\.\d{1,2}(?:\.\d{1,3})?",
    ),
    "rocm": (r"ROCm(?:[ -]?(?:release|SDK))?|TheRock", rf"\d\.\d{{1,2}}(?:\.\d{{1,2}})?{_BUILD}"),
    "torch": (r"(?:py)?torch", rf"[012]\.\d{{1,2}}(?:\.\d{{1,2}})?{_BUILD}"),
    "python": (r"(?:python3?)", r"[23]\.\d{1,2}(?:\.\d{1,2})?"),
}
# A label of its own tells what is there, whatever is said elsewhere.
_LABEL = (
    r"(?:^[\s>*#|\-\d.`\"']*|[({{,]\s?[\"'])(?:installed )?(?:version of )?(?:{words})"
    r"(?:\s?(?:/|and|&)\s?cudnn)?[\s_-]?(?:version|ver)?(?:\s?\([^)]*\))?(?:[\s*`\"'|]*[:=|"
    r"][\s*`\"'|:=]*|"
    r"\s{{2,}}|[\"'], ?[\"'])"
    r"(?:(?:{words})[\s:=-]*)?(?:Python )?v?(?P<version>{form})(?![\d.]*\d)"
)
_SPOKEN = (
    r"(?<![\w./+-])(?:{words})(?:[\s_-](?:tool ?kit|version|ver\.?|v\.?|libs?|libraries|stack|"
    r"runtime|installed|with|in|is|of)(?![\w-])){{0,3}}(?:version|ver\.?)?[\s:=(\-]{{0,3}}"
    r"(?:TheRock )?(?:v\.?\s?)?(?P<version>{form})(?![\d.]*\d)(?!\s?/\s?\d)"
)
# Folders in which a program of a version lies.
_FOLDERS = {
    "cuda toolkit": r"\bcuda(?:[-/_]|[\\/]v)(?P<version>\d{1,2}\.\d(?:\.\d)?)(?=[\\/\s:]|$)",
    "rocm": r"/rocm-(?P<version>\d\.\d{1,2}(?:\.\d{1,2})?)(?=[/\s:]|$)",
    "python": r"[/\\]python(?P<version>[23]\.\d{1,2})(?=[/\\\s:]|$)",
}


def _compiled(form: str) -> dict[str, re.Pattern[str]]:
    return {
        name: re.compile(form.format(words=words, form=version), re.I)
        for name, (words, version) in _PROGRAMS.items()
    }


_LABELS, _MENTIONS = _compiled(_LABEL), _compiled(_SPOKEN)
_PLACES = {name: re.compile(form, re.I) for name, form in _FOLDERS.items()}


def read(text: str, route: str, seen: Seen) -> None:
    """Add the version of each program that a text tells of: that of the best place, the first."""
    folded = text.lower()
    have = {one.name for one in seen.toolkits}
    lines = [line[:LINE_LIMIT] for line in told_lines(text)]
    for name in _PROGRAMS:
        word = name.split()[0]
        if name in have or word not in folded:
            continue
        telling = [line for line in lines if word in line.lower()][:LINES_AT_MOST]
        told = [one for line in telling for one in _told(name, line)]
        if told:
            _, first = max(told, key=lambda one: one[0])
            # Another place may tell the same version to its last number.
            whole = next((one for _, one in told if one.startswith(f"{first}.")), first)
            seen.toolkits.append(Toolkit(name, whole))


def _told(name: str, line: str) -> Iterator[tuple[int, str]]:
    """Yield the versions that a line tells of what is there, each with its score.

    A label of its own counts most, a toolkit's version more than a runtime's.
    """
    if label := _LABELS[name].search(line):
        yield LABEL, label["version"]
    for match in _MENTIONS[name].finditer(line):
        toolkit = "toolkit" in match[0].lower()
        score = THERE + toolkit + evidence_of("version", line, match.start(), match.end()).score
        if score >= PERHAPS:
            yield score, match["version"]
    if (place := _PLACES.get(name)) and (folder := place.search(line)):
        score = PERHAPS + evidence_of("version", line, *folder.span()).score
        if score >= PERHAPS:
            yield PERHAPS, folder["version"]
