"""Versions of CUDA, ROCm, PyTorch and Python, in the words of people and programs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuforge.detect.seen import Seen
from gpuforge.detect.text.labels import told_lines
from gpuforge.facts import Toolkit

PROGRAM = "prose"
LINE_LIMIT, REACH = 1000, 40
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
    r"(?<![\w./+-])(?:{words})(?:[\s_-]?(?:version|ver\.?))?(?:\s(?:is|of))?[\s:=(\-]{{0,3}}"
    r"(?:TheRock )?v?(?P<version>{form})(?![\d.]*\d)(?!\s?/\s?\d)"
)
# Words of what is wanted, was there before, or was tried.
_NOT_MINE = re.compile(
    r"\b(?:requires?|required|supports?|supported|minimum|recommend\w*|at least|needs?|compatible|"
    r"not|never|before|previous\w*|older|newer|earlier|instead|than|if|should|would|could|"
    r"upgrad\w+|downgrad\w+|updat\w+ to|pip3? install|conda install|apt install|only|depend\w*|"
    r"pin(?:ned|s)?|loosen|wheels?)\b|"
    r"n't\b|>=|<=|https?://",
    re.I,
)
_AFTER = re.compile(
    r"^\W{0,3}(?:or (?:newer|later|above|higher|greater)|and (?:above|later|newer)|support|"
    r"is (?:not|required|needed))|^\+(?!\w)",
    re.I,
)


def _compiled(form: str) -> dict[str, re.Pattern[str]]:
    return {
        name: re.compile(form.format(words=words, form=version), re.I)
        for name, (words, version) in _PROGRAMS.items()
    }


_LABELS, _MENTIONS = _compiled(_LABEL), _compiled(_SPOKEN)


def read(text: str, route: str, seen: Seen) -> None:
    """Add the version of each program that a text tells of: that of its label, else the first."""
    folded = text.lower()
    have = {one.name for one in seen.toolkits}
    lines = [line[:LINE_LIMIT] for line in told_lines(text)]
    for name in _PROGRAMS:
        if name in have or name.split()[0] not in folded:
            continue
        telling = [line for line in lines if name.split()[0] in line.lower()]
        label = next((found for line in telling if (found := _LABELS[name].search(line))), None)
        spoken = [version for line in telling for version in _spoken(name, line)]
        first = label["version"] if label else next(iter(spoken), "")
        # Another place may tell the same version to its last number.
        whole = next((one for one in spoken if one.startswith(f"{first}.")), first)
        if first:
            seen.toolkits.append(Toolkit(name, whole))


def _spoken(name: str, line: str) -> Iterator[str]:
    """Yield the versions that a line tells of what is there, a toolkit's before others."""
    matches = list(_MENTIONS[name].finditer(line))
    for match in sorted(matches, key=lambda one: "toolkit" not in one[0].lower()):
        before, after = line[: match.start()][-REACH:], line[match.end() :]
        clause = re.split(r"[.!?;](?=\s)", before)[-1]
        if not (_NOT_MINE.search(clause) or _AFTER.match(after) or "NVIDIA-SMI" in line):
            yield match["version"]
