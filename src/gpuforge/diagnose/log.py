"""An error log, cleaned and indexed so that every search takes time linear in its length."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import accumulate, compress, pairwise, tee

from gpuforge.diagnose.known_error import said_elsewhere
from gpuforge.diagnose.large_log import REPEATING, reduced
from gpuforge.diagnose.line_breaks import rejoined
from gpuforge.diagnose.word_order import is_disordered

LINES_PER_CLUE = 64
WINDOW_BEFORE, WINDOW_AFTER = 600, 1400
SHOWN_CHARACTERS = 240
ORDER_CHARACTERS = 20_000
_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]|\][^\x07\x1b\n]{0,2000}(?:\x07|\x1b\\)?|[@-_])?"
)
_CONTROLS = dict.fromkeys(
    (
        *(*range(9), 11, 12, *range(14, 32), *range(127, 160)),
        *(0x200B, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0xFEFF),
    )
)
_ASCII_CONTROLS = bytes(code for code in _CONTROLS if code < 128)
_QUOTES = {0x2018: "'", 0x2019: "'", 0x201C: '"', 0x201D: '"', 0x00A0: " "}
# U+0130 is the only character whose lower case is longer, which would shift positions.
_TABLE = {**_CONTROLS, **_QUOTES, 0x0130: "I"}
# The NVIDIA driver wraps its kernel messages, and each line has the kernel's prefix.
_WRAPPED = re.compile(r"\n[^\n]{0,100}?NVRM: {1,20}(?=[a-z(])")
_WRAPPED_MESSAGE = re.compile(
    r"NVRM:[^\n]{1,300}(?:\n[^\n]{0,100}?NVRM: {1,20}[a-z(][^\n]{0,300}){1,9}"
)
# A block with at least this share of control characters is binary, such as a library or archive.
BINARY_SHARE, BLOCK, FEW = 0.02, 4096, 64
# Lines with arguments, settings, variables, installed packages, shell traces, source code that
# raises errors or titles of changes: they show the context, not the failure.
_SETTING = re.compile(
    r"\W{0,20}(?:"
    r"(?:export |set |setx |declare -x |env )?(?!\w*(?:err|fail|exit|code|stat|sig))[\w.-]{2,60}="
    r"['\"]?[\w./:+,@%-]{0,200}['\"]?[,;)]?\s{0,9}$|"
    r"['\"]?(?!\w*(?:err|fail|exit|code|stat|sig|xid|total|pend|count))[a-z][\w.-]{1,60}['\"]?: ?"
    r"(?:[\d.]{1,20}|true|false|none|null|\[\]|\{\}|['\"]{2}),?\s{0,9}$|"
    r"(?:\[?(?:pip3?|conda)\]? {1,9})?[a-z][\w.-]{1,60}(?:==| @ | {1,60})"
    r"v?\d{1,9}(?:\.[\w+!-]{1,40}){1,9}"
    r"(?: {1,60}[\w.:/+-]{1,60}){0,3}\s{0,9}$|"
    r"(?<=\+ )(?:echo|export|source|eval|cd|module|srun|mpirun|python3?|[a-z_]{2,40}=)|"
    r"(?:successfully installed|installing collected packages|requirement already satisfied|"
    r"downloading|using cached|collecting) |"
    r"(?:raise|throw|throw new) [\w.:]{3,60}\(|(?:self|cls)\.[\w.]{1,80}\(|"
    r"unset \w{2,60}\s{0,9}$|usage: |\[-{1,2}[a-z]|"
    r"(?:\w{2,60}=\S{1,200} ){1,40}[\w./-]{0,80}(?:python[\d.]*|run|launch|srun|vllm|bash|sh) |"
    r"(?:fix(?:e[sd])?|docs?|feat|chore|refactor|perf|ci)(?:\([\w./-]{1,40}\))?!?: )"
)
_DUMP = re.compile(
    r".{0,200}?\b(?:namespace|\w{0,40}args?|\w{0,40}config|\w{0,40}settings?|options|arguments|hparams|"
    r"parameters|environ)\b['\"]?\s{0,3}[:=]?\s{0,3}\w{0,40}[({\[](?=.{0,600}?[=:].{1,200}?[=:].{1,200}?[=:])"
)
# What follows these words may happen or should be avoided, but did not happen.
_ADVICE = re.compile(
    r"\b(?:if (?:you|it|there|the|your)\b|in case of|(?:to|helps?|can) (?:avoid|prevent|reduce)\b|"
    r"(?:may|might|could|can) (?:cause|lead to|result in|run)\b)[^.!?;,\n]{0,60}$|"
    r"\b(?:(?:possible|potential|likely) (?:root )?(?:reason|cause)s?\b|"
    r"(?:reasons|causes) (?:for|of|are|include)\b)[^.!?\n]{0,120}$"
)
_TO_WORDS = bytes(
    byte if 97 <= byte <= 122 else byte + 32 if 65 <= byte <= 90 else 32 for byte in range(256)
)
_TO_NUMBERS = bytes(byte if 48 <= byte <= 57 else 32 for byte in range(256))
_WORD = re.compile("[a-z]+")
_NUMBER = re.compile("[0-9]+")
# "error 59" is not in "validation error 59.13 %"; the name of a library may go on, as "so.1.2".
_WHOLE_NUMBER = re.compile(r"(?<![.\d])\d+$")
_FRACTION = re.compile(r"\.\d| ?%")
_ESCAPED = re.compile(r"\\(?=[_*\[\]<>#`~])")
# Letters of other languages and scripts; lines and blocks, such as of progress bars, are none.
_ELSEWHERE = re.compile("[\u00c0-\u024f\u0400-\u04ff\u3002-\u9fff\uac00-\ud7a3\uff0c\uff1f]")
_TRANSLATED = re.compile("\0(?: ?\0)* ?")


@dataclass(frozen=True)
class Place:
    """Where a text was found: its line, or a window of a very long line, and what precedes it."""

    position: int
    window: str
    before: str = ""

    @property
    def line(self) -> int:
        """Where the line or window begins."""
        return self.position - len(self.before)


@dataclass(frozen=True)
class _Block:
    """Whole lines of a log: where they begin and end, their words and pairs of adjacent words."""

    start: int
    end: int
    words: frozenset[str]
    pairs: frozenset[tuple[str, str]]


def clean(text: str) -> str:
    """Return `text` without terminal escapes and invisible characters, with LF line endings."""
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    shown = _shown(text)
    # Backspaces of old progress bars are normal; other control characters are rare in text.
    if len(text) - len(shown) - text.count("\b") <= FEW:
        return shown
    return _without_binary(text)


def _shown(text: str) -> str:
    # Translating bytes, and text only for lines that are not ASCII, is ten times as fast.
    text = text.encode("utf-8", "replace").translate(None, _ASCII_CONTROLS).decode("utf-8")
    return _by_script(text, lambda part: part if part.isascii() else part.translate(_TABLE))


def _by_script(text: str, change: Callable[[str], str]) -> str:
    """Return `text` with its lines of ASCII and the rest of them changed, each kind at once.

    One other letter makes Python store and search all of a text at a fraction of the speed.
    """
    if text.isascii():
        return change(text)
    lines = text.split("\n")
    kinds = [line.isascii() for line in lines]
    changed = {
        kind: iter(change("\n".join(compress(lines, map(kind.__eq__, kinds)))).split("\n"))
        for kind in (True, False)
    }
    return "\n".join(next(changed[kind]) for kind in kinds)


def _joined(message: re.Match[str]) -> str:
    """Return a wrapped message as one line, padded so that later positions do not change."""
    text = message[0]
    joined = _WRAPPED.sub(" ", text)
    lines = text.count("\n") - joined.count("\n")
    return joined + " " * (len(text) - len(joined) - lines) + "\n" * lines


def _without_binary(text: str) -> str:
    """Return `text` without binary parts, whose line breaks are kept."""
    parts, binary = [], 0
    for start in range(0, len(text), BLOCK):
        block = text[start : start + BLOCK]
        shown = _shown(block)
        if len(block) - len(shown) - block.count("\b") > BINARY_SHARE * len(block):
            shown = "\n" * block.count("\n")
            binary += 1
        parts.append(shown)
    if binary * BLOCK > len(text) / 4:
        return "\n" * text.count("\n")
    return "".join(parts)


def evenly_spaced(text: str) -> str:
    """Return `text` with single spaces, and without the backslashes that Markdown puts in words."""
    text = text.replace("\t", " ")
    while "  " in text:
        text = text.replace("  ", " ")
    return _ESCAPED.sub("", text)


def in_english(text: str) -> str:
    """Return `text` with the words that are known from other languages in English."""
    return _by_script(text, _translated)


def _translated(text: str) -> str:
    letters = not text.isascii() and _ELSEWHERE.search(text)
    for elsewhere, here in said_elsewhere():
        if (letters or elsewhere.isascii()) and elsewhere in text:
            text = text.replace(elsewhere, f"\0{here}\0")
    return _TRANSLATED.sub(" ", text.replace(" \0", "\0")) if "\0" in text else text


def words_of(text: str) -> tuple[str, ...]:
    """Return the runs of ASCII letters in lower-case `text`, in order."""
    return tuple(_WORD.findall(text))


@cache
def _words_and_pairs(text: str) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """Return the words and numbers of `text`, and the pairs of adjacent words."""
    words = words_of(text)
    return (*words, *_NUMBER.findall(text)), tuple(pairwise(words))


def is_setting(line: str) -> bool:
    """Return whether a lower-case line only shows settings, arguments or installed packages."""
    return bool(_SETTING.match(line) or _DUMP.match(line))


def is_advice(before: str) -> bool:
    """Return whether the lower-case text `before` announces something that only might happen."""
    return bool(_ADVICE.search(before[-160:]))


class Log:
    """The text of a report: as shown, in English (`text`), as searched (`folded`, lower case)."""

    def __init__(self, text: str) -> None:
        self._is_long = len(text) > REPEATING
        shown = clean(reduced(text) if self._is_long else text)
        self._shown = _WRAPPED_MESSAGE.sub(_joined, shown) if "NVRM:" in shown else shown
        self.text = in_english(evenly_spaced(self._shown))
        self.folded = self.text.lower()
        self._found: dict[str, Iterator[Place]] = {}
        # Each character that is not ASCII is a "?" here, so that a text is found much faster.
        self._ascii = self.folded.encode("ascii", "replace").decode("ascii")
        self._is_short = len(self._ascii) <= BLOCK

    def rejoined(self) -> Iterator[Log]:
        """Yield the log with its broken lines joined, if it is short and may have some."""
        readings = () if self._is_long else rejoined(self._shown)
        return (Log(text) for text in readings if text != self._shown)

    @cached_property
    def _blocks(self) -> list[_Block]:
        """The log in blocks of whole lines."""
        letters, digits = (
            self._ascii.encode("ascii").translate(table).decode("ascii")
            for table in (_TO_WORDS, _TO_NUMBERS)
        )
        blocks, start = [], 0
        while start < len(letters):
            end = self._ascii.find("\n", start + BLOCK) + 1 or len(letters)
            words, numbers = letters[start:end].split(), digits[start:end].split()
            pairs = frozenset(pairwise(words))
            blocks.append(_Block(start, end, frozenset((*words, *numbers)), pairs))
            start = end
        return blocks

    @cached_property
    def _index(self) -> dict[str, int]:
        """Where each run of ASCII letters or digits is: a bit for each block."""
        index: dict[str, int] = {}
        for number, block in enumerate(self._blocks):
            for word in block.words:
                index[word] = index.get(word, 0) | 1 << number
        return index

    @cached_property
    def words(self) -> frozenset[str]:
        """All runs of ASCII letters and of digits in the log."""
        return frozenset(self._index)

    def __contains__(self, text: str) -> bool:
        return text in (self._ascii if text.isascii() else self.folded)

    def places(self, text: str) -> Iterator[Place]:
        """Return at most `LINES_PER_CLUE` lines in which `text` occurs as whole words."""
        if self._is_short and text not in self:  # faster than looking up its words
            return iter(())
        # What has been found stays in the first of the two iterators: clues share many texts.
        found = self._found.get(text) or self._search(text)
        self._found[text], places = tee(found)
        return places

    def _search(self, text: str) -> Iterator[Place]:
        searched = self._ascii if text.isascii() else self.folded
        counts = _WHOLE_NUMBER.search(text)
        found = start = 0
        for block in self._blocks_with(text):
            position = searched.find(text, max(block.start, start), block.end)
            while position >= 0 and found < LINES_PER_CLUE:
                found += 1
                start = position + len(text)
                measured = counts and _FRACTION.match(searched, start)
                if not measured and self._is_whole(position, start):
                    yield self._place(position, start)
                    line_end = self.folded.find("\n", start, start + WINDOW_AFTER)
                    start = line_end if line_end >= 0 else start + WINDOW_AFTER
                position = searched.find(text, start, block.end)

    def _blocks_with(self, text: str) -> Iterator[_Block]:
        """Yield the blocks with all words of `text`; most texts occur in none or in few of them."""
        words, pairs = _words_and_pairs(text)
        within = (1 << len(self._blocks)) - 1
        for word in words:
            within &= self._index.get(word, 0)
        while within:
            block = self._blocks[(within & -within).bit_length() - 1]
            if block.pairs.issuperset(pairs):
                yield block
            within &= within - 1

    def is_heap(self, place: Place) -> bool:
        """Return whether the words around `place`, or in the whole log, are in random order."""
        line = self.text[place.line : place.line + len(place.window)]
        return self._is_heap or is_disordered(line)

    @cached_property
    def _is_heap(self) -> bool:
        return is_disordered(self.text[:ORDER_CHARACTERS])

    def line_number(self, position: int) -> int:
        """Return the number, from 1, of the line at `position`."""
        return bisect_right(self._line_ends, position) + 1

    def line(self, position: int) -> str:
        """Return the original line at `position`, truncated to `SHOWN_CHARACTERS`."""
        start = self.text.rfind("\n", max(0, position - WINDOW_BEFORE), position) + 1
        start = start or max(0, position - SHOWN_CHARACTERS // 2)
        end = self.text.find("\n", position, start + WINDOW_AFTER)
        line = self.text[start : end if end >= 0 else start + WINDOW_AFTER].strip()
        shown = self._shown_lines[self.line_number(position) - 1]
        if line not in shown:
            line = shown.strip()
        return line if len(line) <= SHOWN_CHARACTERS else line[: SHOWN_CHARACTERS - 3] + "..."

    @cached_property
    def _line_ends(self) -> list[int]:
        return list(accumulate(len(line) + 1 for line in self.text.split("\n")))

    @cached_property
    def _shown_lines(self) -> list[str]:
        return self._shown.split("\n")

    def _is_whole(self, start: int, end: int) -> bool:
        return not (
            _same_kind(self.folded[start - 1 : start], self.folded[start])
            or _same_kind(self.folded[end - 1], self.folded[end : end + 1])
        )

    def _place(self, start: int, end: int) -> Place:
        left = self.folded.rfind("\n", max(0, start - WINDOW_BEFORE), start)
        right = self.folded.find("\n", end, end + WINDOW_AFTER)
        window = self.folded[
            left + 1 if left >= 0 else max(0, start - WINDOW_BEFORE) : right
            if right >= 0
            else end + WINDOW_AFTER
        ]
        return Place(start, window, self.folded[max(left + 1, start - WINDOW_BEFORE, 0) : start])


def _same_kind(left: str, right: str) -> bool:
    """Return whether two adjacent characters belong to the same word or number."""
    return (left.isascii() and left.isalpha() and right.isascii() and right.isalpha()) or (
        left.isdecimal() and right.isdecimal()
    )
