"""Labelled values: ``GPU: RTX 3060``, answers below a form's headings, rows of tables."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import accumulate, islice

from gpuforge import registry
from gpuforge.detect.notation import lines_of

# How many lines below a heading its answer may start, and how many lines it may have.
REACH, ANSWERS = 4, 12
FIRST_LINES, LAST_LINES = 4000, 500
# What so many lines of 80 characters have: patterns take long to pass over more.
FIRST_CHARACTERS, LAST_CHARACTERS = 80 * FIRST_LINES, 80 * LAST_LINES
_PAIR = re.compile(
    r"(?:^|(?<=\s\s)|(?<=[|,;:(>*{]\s)|(?<=[|,;(>*\"'`]))[\s*#>|•·\"'`+-]{0,12}(?:\d{1,2}[.)]\s?)?"
    r"([^\W\d_][^:=：|{\n]{0,70}?|#\d[^:=：|\n]{0,30}?|[A-Z]{2,4}(?=\s{2}))[\"'*`\]\s.)]*"
    r"(?:(?<!\d):(?!//)|:(?!\d|//)|[=：|]>?|\s{2,}|\s[-–]\s|\s?(?:->|→))[\"'*`\s\[:]*(?=\S)"
)
# A label and a version where the blanks between them were lost.
_SPACED = re.compile(r"\s*((?:[A-Z][\w-]* ){1,3}[Vv]ersion) (\d[\w.+-]*)$")
# Labels of a computer's parts that follow each other on one line with a blank between them.
_INLINE = re.compile(
    r"(?<=\S)\s(?=(?:CPU|GPU|RAM|OS|Memory|Processor|(?:Graphics|Video) [Cc]ard|"
    r"Operating [Ss]ystem|Motherboard|Storage) ?: ?\S)"
)
_HEAD = re.compile(
    r"^[\s>]*(?:[-*•]\s+|\d[.)]\s+)?(?:#{1,6}\s+[*_]{0,2}|[*_]{2})([^\W_][^=：]{0,60}?)[*_:：?\s]*$|"
    r"^[\s>]*(?:[-*•]\s+|\d[.)]\s+)?([^\W_][^:=：]{0,60}?)\s?(?:[:：?]|(?=\[Required\]|\[Optional\])\S+)\s*$"
)
_NUMBER = re.compile(
    r"\[(\d{1,3})\]|#\s?(\d{1,3})\b|"
    r"\b(?:gpu|cuda|device|card|adapter|vulkan)[ :_]?((?:\d{1,2},?)+)(?![\w.])",
    re.I,
)
_UNIT = re.compile(r"[(\[]\s*(mi?b|gi?b|bytes)\b\s*[)\]]?", re.I)
# A line that starts the facts of one device, as in hashcat, which lists it once per runtime.
_OPENING = re.compile(
    r"^\W*(?:(?:backend|opencl|cuda|hip|metal|vulkan)\s)?(?:device|gpu|adapter|card)(?:\sid)?\s?[#\[]?(\d{1,2})\]?(?:/\d{1,2})?"
    r"(?:\s\(alias: #?(\d{1,2})\))?[\s:=-]*$",
    re.I,
)
_RULE = re.compile(r"^[\s|:+=\u2500-\u257f-]+$")
# Headings of a table that compares GPUs by what was measured on each.
_MEASURED = re.compile(
    r"\|[^|]*(?:\b(?:it|tokens?|samples?|images?|steps?|s|ms)/(?:s|sec|it|step)\b|\bt/s\b|\bfps\b|"
    r"\bT?FLOPS\b|\b(?:throughput|latency|speed-?up|hash-?rate|price)\b)",
    re.I,
)
_BLANKS = re.compile(r"\s{2,}")
# Headings of a table's column that numbers the devices.
_COUNTED = re.compile(r"#|gpu|id|index|idx|no\.?|device", re.I)
# A pair of PCI vendor and device ids, in hexadecimal, as in a Windows device key, a module alias
# or JSON, and in decimal.
_IDS = re.compile(
    r"VEN_(?P<a>10DE|1002|8086)&DEV_(?P<b>[0-9A-F]{4})|"
    r"pci:v0000(?P<c>10DE|1002|8086)d0000(?P<d>\w{4})|"
    r"(?<!sub)(?<!sub_)vendor(?:[ _]?id)?[\"']?\s?[:=]\s?[\"']?(?:0x)?"
    r"(?P<e>10de|1002|8086)\b.{1,6}?"
    r"device(?:[ _]?id)?[\"']?\s?[:=]\s?[\"']?(?:0x)?(?P<f>[0-9a-f]{4})\b|"
    r"\bPCI[ -]?ID\W{1,4}(?P<k>10de|1002|8086):(?P<l>[0-9a-f]{4})\b|"
    r"vendor[\"']?\s?:\s?(?P<g>4318|4098|32902), device: (?P<h>\d{2,5})\b",
    re.I,
)
# One half of a pair, whose other half may be some lines away, as programs print JSON.
_HALF = re.compile(
    r"(?<!sub)(?<!sub[_ ])(vendor|device)[_ ]?id[\"']?\s?[:=]\s{0,12}[\"']?"
    r"(0x[0-9a-f]{3,4}|\d{2,5})\b",
    re.I,
)
APART = 6
# The heading of another part of a computer, below which a driver is that part's.
_OTHER_PART = re.compile(
    r"^[\W_]*(?:DisplayLink|EVDI|Audio|Sound|Network|Printer)s?( \w+)?[\W_]*$", re.I
)


# What joins the words of a label that asks for several facts, each of which its value must show.
_JOINED = re.compile(r"\s*(?:[/&+]|\band\b)\s*")
_PATH = re.compile(r"/[\w.-]+\.[a-z]{1,4}$")
_NAMES = frozenset({"name", "maybe"})
_PLAIN = frozenset({"name", "cpu", "platform", "driver", "python", "torch", "cuda toolkit", "rocm"})


@dataclass(frozen=True)
class Label:
    """One labelled value.

    Attributes
    ----------
    line : line number
    facts : the facts that the label names, such as ``name``; several if it is ambiguous
    value : the text after the label
    numbers : which devices are meant, as the text numbers them
    unit : the unit of a size, if the label names it
    """

    line: int
    facts: frozenset[str]
    value: str
    numbers: tuple[int, ...] = ()
    unit: str = ""


@cache
def _meanings() -> tuple[tuple[str, re.Pattern[str]], ...]:
    table = registry.table(__file__, "labels")
    return tuple((fact, re.compile(words.replace("\n", ""))) for fact, words in table.items())


@lru_cache(maxsize=4096)
def facts_of(label: str) -> frozenset[str]:
    """Return the facts that a label's words name, even if joined as in ``gpuName``."""
    if re.search(r"gfx\d", label):
        return frozenset()
    parted = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", label)
    found = _asked_by(label) or (_asked_by(parted) if parted != label else frozenset())
    parts = () if found or _PATH.search(label) else _JOINED.split(label)
    asked = (_asked_by(part) for part in parts[: len(parts) if len(parts) > 1 else 0])
    return found or frozenset().union(*asked) & _PLAIN


def _asked_by(label: str) -> frozenset[str]:
    bare = re.sub(r"\([^)]*(?:\)|$)|\[(?:required|optional)\]", " ", _UNIT.sub(" ", label.lower()))
    words = " ".join(re.sub(r"[\W_\d]+", " ", bare).split()).removeprefix("sz ")
    if len(words) > 60 or not words:
        return frozenset()
    return frozenset(fact for fact, pattern in _meanings() if pattern.fullmatch(words))


def told_lines(text: str) -> list[str]:
    """Return the lines to read; of a long text, those at its beginning and end."""
    lines = lines_of(text)
    begin = _within(lines[:FIRST_LINES], FIRST_CHARACTERS)
    end = _within(lines[: begin - len(lines) - 1 : -1][:LAST_LINES], LAST_CHARACTERS)
    return lines[:begin] + lines[len(lines) - end :]


def _within(lines: list[str], characters: int) -> int:
    """Return how many of the first lines have no more than so many characters."""
    return bisect_right([*accumulate(map(len, lines))], characters)


@lru_cache(maxsize=2)
def labels_of(text: str) -> tuple[Label, ...]:
    """Return the labelled values of a text, line by line."""
    return tuple(_labels(told_lines(text)))


def _labels(lines: list[str]) -> Iterator[Label]:
    columns: list[str] = []
    part = -REACH - 1
    halves: dict[str, tuple[int, int]] = {}
    for number, line in enumerate(lines):
        parted = line.strip().strip("|").split("|") if "|" in line else _BLANKS.split(line.strip())
        cells = [cell.strip(" *`") for cell in parted]
        below = lines[number + 1] if number + 1 < len(lines) else ""
        ruled = len(cells) > (1 if line.count("|") > 2 else 2) and len(below) > 3
        if ruled and _RULE.match(below):
            told = any(facts_of(cell) for cell in cells) and not _MEASURED.search(line)
            columns = cells if told else []
        elif _heads_columns(line, cells) and len(_BLANKS.split(below.strip())) == len(cells):
            columns = cells
            continue
        elif columns and (_RULE.match(line) or len(cells) == len(columns)):
            rows = () if _RULE.match(line) else tuple(zip(columns, cells, strict=True))
            counted = (
                int(c) for h, c in rows if _COUNTED.fullmatch(h) and re.fullmatch(r"\d\d?", c)
            )
            numbers = tuple(islice(counted, 1))
            for head, cell in sorted(rows, key=lambda one: not _NAMES & facts_of(one[0])):
                yield from _label(number, head, cell, numbers)
            if len(rows) == 2 and not facts_of(columns[0]):  # each row is a label and its value
                yield from _label(number, cells[0], cells[1])
            continue
        else:
            columns = []
        if opening := _OPENING.match(line[:80]):
            first = min(int(part) for part in opening.groups() if part)
            yield Label(number, frozenset({"block"}), "", (first,))
            continue
        if line.startswith("name of display: "):  # glxinfo shows a memory before the GPU's name
            yield Label(number, frozenset({"display"}), "")
        yield from _ids(number, line)
        yield from _halves(number, line, halves)
        part = number if _OTHER_PART.match(line[:80]) else part
        pairs = _pairs(number, line)
        near = number - part <= REACH
        yield from (one for one in pairs if not (near and "driver" in one.facts))
        yield from _below(number, lines)


def _heads_columns(line: str, cells: list[str]) -> bool:
    """Return whether a line is the heading of a table without rules, as wmic prints it."""
    plain = len(cells) > 1 and len(line) < 120 and not re.search(r"[|:=.,\d]", line)
    asked = [facts_of(cell) for cell in cells] if plain else []
    return bool(asked) and all(asked) and any(_NAMES & one for one in asked)


def _label(line: int, head: str, value: str, numbers: tuple[int, ...] = ()) -> Iterator[Label]:
    found = facts_of(head)
    if found and value:
        unit = _UNIT.search(head)
        yield Label(line, found, value.strip(), _numbers(head) or numbers, unit[1] if unit else "")


def _ids(number: int, line: str) -> Iterator[Label]:
    """Yield pairs of PCI ids, such as ``10de:1b80``."""
    if not any(word in line for word in ("VEN_", "pci:v", "endor", "ENDOR", "PCI")):
        return
    for match in _IDS.finditer(line[:1000]):
        parts = [part for part in match.groups() if part]
        if match["h"]:
            parts = [f"{int(part):04x}" for part in (match["g"], match["h"])]
        yield Label(number, frozenset({"ids"}), ":".join(parts).lower())


def _halves(number: int, line: str, halves: dict[str, tuple[int, int]]) -> Iterator[Label]:
    """Yield the pair that a line completes, hexadecimal or decimal; `halves` are those before."""
    if line.lstrip().startswith(("}", "{")):
        halves.clear()
    for which, told in _HALF.findall(line[:1000]):
        halves[which.lower()] = int(told, 16 if told[:2] in ("0x", "0X") else 10), number
        if len(halves) == 2 and number - min(at for _, at in halves.values()) <= APART:
            ident = ":".join(f"{halves[half][0]:04x}" for half in ("vendor", "device"))
            halves.clear()
            yield Label(number, frozenset({"ids"}), ident)


def _numbers(head: str) -> tuple[int, ...]:
    """Return the device numbers in ``GPU 0,1``, ``Graphics card #1 VRAM`` or ``GPU[0]``."""
    shown = _NUMBER.search(head)
    listed = next((part for part in shown.groups() if part), "") if shown else ""
    return tuple(int(part) for part in listed.split(",") if part)[:64]


def _pairs(number: int, line: str) -> Iterator[Label]:
    """Yield the labels of one line; each value ends at the next label."""
    if len(parts := _INLINE.split(line)) > 2:
        for part in parts:  # the memory among them is the computer's
            yield from () if part.startswith(("Memory", "RAM")) else _pairs(number, part)
        return
    if single := _SPACED.match(line):
        yield from _label(number, single[1], single[2])
    matches = [(*_head(match), match.end()) for match in _PAIR.finditer(line)]
    matches = [match for match in matches if facts_of(match[0])]
    ends = [*(start for _, start, _ in matches[1:]), len(line)]
    numbers = _numbers(matches[0][0]) if matches else ()
    for (head, _, begin), end in zip(matches, ends, strict=False):
        yield from _label(number, head, line[begin:end].rstrip(" ,"), numbers)


def _head(match: re.Match[str]) -> tuple[str, int]:
    """Return a label and its start; text before its last comma belongs to the previous value."""
    head = match[1].rpartition(", ")[2]
    if head != match[1] and not facts_of(match[1]):
        return head, match.end(1) - len(head)
    return match[1], match.start()


def _below(number: int, lines: list[str]) -> Iterator[Label]:
    """Yield the answers below a heading."""
    head = _HEAD.match(lines[number]) if len(lines[number]) < 90 else None
    words = (head[1] or head[2]) if head else ""
    if not facts_of(words):
        return
    place = number + 1
    while place < min(len(lines), number + REACH) and not lines[place].strip(" \t`-*_"):
        place += 1
    answers = [line.strip() for line in lines[place : place + ANSWERS]]
    for below in range(place, place + len(answers)):
        value = lines[below].strip()
        if not value or value.startswith(("#", "**", "```", "<")) or any(_pairs(below, value)):
            return
        if value[0] in "-*•+" and (equal := answers.count(value)) > 1:
            value = f"{equal} x {value.lstrip('-*•+ ')}"  # a list repeats equal devices
        yield from _label(below, words, value.lstrip("-*•+ \t"))
