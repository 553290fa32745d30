"""Splitting a text into the outputs of tools; pure functions over ``sections.toml``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache

from gpuforge import registry
from gpuforge.detect.text.plain import plain
from gpuforge.probe import Output

# Only the two ends of a long text are read: machines are described there, not inside a log.
FIRST_LINES, LAST_LINES, LINE_LIMIT, MARGIN_LIMIT = 20_000, 2_000, 4000, 120
LINES, PROSE = "lines", "prose"
# Of lines without a letter or digit, the first in a row: patterns take long to pass over many.
WORDLESS_LINES, _WORDS = 6, re.compile(r"\w")
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b\][^\x07]{0,200}\x07")
_QUOTE = re.compile(r"^(?:> ?)+|^[+](?=\s+\S)")
_FENCE = re.compile(r"^\s*(```+|~~~+|</?(?:details|summary|pre|code)\b[^>]*>)\w*\s*")
# Prefixes that loggers and containers add to a line: source, time, severity.
_DAY = r"\d{4}[-/.]?\d\d[-/.]?\d\d[T ]\s?"
_TIME = rf"(?:{_DAY}\d\d:\d\d(?=\])|(?:{_DAY})?\d{{1,2}}:\d\d:\d\d(?:[.,:-]\d{{1,9}})?Z?)"
_LEVEL = r"[\[(]?(?:INFO|DEBUG|WARN|WARNING|ERROR|TRACE|NOTICE|info|Info|Debug|Warning)[\])]?"
_LOGGED = re.compile(
    rf"^(?:[\w.-]{{2,40}}(?:\s{{1,12}}\||\s(?:std)?(?:out|err):)\s|\[\d+,\d+\]<std(?:out|err)>:)?"
    rf"(?:\[?{_TIME}\]?:?(?=\s|\[|$)(?:\s\||\s-\s[\w.]+(?=\s-\s))?)?"
    rf"(?:(?:\s*-\s|\s*){_LEVEL}(?:\s-\s|:\s|\s))?(?:-->\s)?(?:\+\s)?"
)
# A form's question or the command before lspci's line of a card.
_ASKED = re.compile(
    r"^(?:[^:=]{1,40}[:=]\s*|lspci\b.{1,60}?\s)"
    r"(?=(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.\d (?:VGA|3D|Display) )"
)
# A prompt or a heading of Markdown ends an output.
_END = re.compile(r"^\s*([\w.@~:/\\ \[\]()-]{0,80}[$%➜❯] \S|#{1,6} \S|PS [A-Z]:\\|- \[[ x]\] )")
# A list by ``nvidia-smi -L``, which has no other lines.
_LISTED = re.compile(r"^\s*(?:GPU \d+: .{3,80}\(UUID: |MIG )")
# Files of a snapshot that detectors ask for by these names.
_ASKED_FOR = (
    "nvidia-smi nvidia-settings tegrastats rocm-smi amd-smi rocminfo amdgpu_top xpu-smi sycl-ls "
    "clinfo lspci udevadm pciconf ioreg system_profiler sysctl win32_videocontroller wmic "
    "get-ciminstance get-wmiobject powershell dxdiag reg lshw inxi vulkaninfo hwinfo lines prose"
).split()


@dataclass
class Section:
    """One output in a text."""

    program: str
    line: int
    alone: bool = False
    lines: list[str] = field(default_factory=list)

    def text(self) -> str:
        """Return its lines, dedented by the indentation of the first.

        The last line has no line feed, as more may have followed.
        """
        margin = min(len(line) - len(line.lstrip()) for line in self.lines[:1])
        cut = (line[margin:] if not line[:margin].strip() else line.lstrip() for line in self.lines)
        return "\n".join(cut)


@dataclass(frozen=True)
class _Sign:
    """A line by which the output of a program is recognised."""

    program: str
    words: tuple[str, ...]
    sign: re.Pattern[str]
    head: re.Pattern[str] | None
    alone: bool

    def fits(self, line: str, folded: str) -> bool:
        return any(word in folded for word in self.words) and bool(self.sign.search(line))


@cache
def _signs() -> tuple[_Sign, ...]:
    def compiled(text: str) -> re.Pattern[str]:
        return re.compile(text.replace("\n", ""), re.I)

    return tuple(
        _Sign(
            entry["program"],
            tuple(entry["words"]),
            compiled(entry["sign"]),
            compiled(entry["head"]) if "head" in entry else None,
            entry.get("lines", False),
        )
        for entry in registry.table(__file__, "sections")["section"]
    )


def asked_for(source: str) -> bool:
    """Return whether a recorded file is named after a tool whose output detectors read."""
    name = source.lower()
    return any(name == tool or name.startswith((f"{tool}.", f"{tool}-")) for tool in _ASKED_FOR)


def outputs_in(text: str, source: str = "") -> list[tuple[str, Output]]:
    """Return program and output of each section of `text`, and all as ``lines``, ``prose``."""
    cleaned = list(_lines(text))
    where = f"{source}, " if source else ""
    found = [
        (one.program, Output(0, one.text(), "", source=f"{one.program} ({where}line {one.line})"))
        for one in sections_of(cleaned)
    ]
    whole = "\n".join(line for _, line in cleaned)
    output = Output(0, whole, "", source=source or "text")
    return [*found, (LINES, output), (PROSE, output)]


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield numbered lines, without what terminals and Markdown add."""
    numbered = list(enumerate(text.splitlines(), 1))
    wordless = 0
    for number, raw in numbered[:FIRST_LINES] + numbered[FIRST_LINES:][-LAST_LINES:]:
        wordless = 0 if _WORDS.search(raw[:LINE_LIMIT]) else wordless + 1
        if wordless > WORDLESS_LINES:
            continue
        line = _ESCAPE.sub("", raw[:LINE_LIMIT]) if "\x1b" in raw else raw[:LINE_LIMIT]
        for part in plain(line):
            yield number, _unlogged(part)


def _unlogged(line: str) -> str:
    """Return a line without quotation marks, a form's question and what a logger writes first."""
    line = _QUOTE.sub("", line).rstrip()
    line = line[max(0, len(line) - len(line.lstrip()) - MARGIN_LIMIT) :]
    line = _ASKED.sub("", line)
    logged = _LOGGED.match(line)
    return line[logged.end() :] if logged and line[:1].strip() else line


def sections_of(lines: list[tuple[int, str]]) -> list[Section]:
    """Return the outputs in numbered lines, in order."""
    found: list[Section] = []
    current: Section | None = None
    signs = _signs_in("\n".join(line for _, line in lines).lower())
    for number, line in lines:
        fence = _FENCE.match(line)
        if fence:
            line, current = line[fence.end() :], None
        program, is_head, alone = _recognised(line, signs)
        if program and (current is None or current.program != program or is_head):
            if not (current and program == current.program and _has_no_head(current, signs)):
                current = Section(program, number, alone)
                found.append(current)
        elif not program and current and (current.alone or _END.match(line)):
            current = None
        if current and line.strip() and _LISTED.match(current.lines[0] if current.lines else ""):
            current = current if _LISTED.match(line) else None
        if current is not None:
            current.lines.append(line)
    return found


def _signs_in(folded: str) -> tuple[_Sign, ...]:
    """Return the signs whose words occur in a lower-case text, so that its lines may match."""
    here = ((sign, tuple(word for word in sign.words if word in folded)) for sign in _signs())
    return tuple(replace(sign, words=words) for sign, words in here if words)


def _recognised(line: str, signs: tuple[_Sign, ...]) -> tuple[str, bool, bool]:
    """Return a line's program or ``""``, whether it starts an output, and the sign's `alone`."""
    folded = line.lower()
    for sign in signs:
        if sign.fits(line, folded):
            return sign.program, bool(sign.head and sign.head.search(line)), sign.alone
    return "", False, False


def _has_no_head(section: Section, signs: tuple[_Sign, ...]) -> bool:
    """Return whether the lines so far, such as an error, may belong to the output that starts."""
    return not any(_recognised(line, signs)[1] for line in section.lines)
