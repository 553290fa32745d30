"""Text as if typed plainly: without Markdown, HTML and the signs of other alphabets."""

from __future__ import annotations

import html
import re

# Punctuation of Chinese and Japanese, quotation marks, dashes and blanks of typesetters.
_SIGNS = str.maketrans("，：（）；“”„‘’‐‑", ',:();"""\'\'--') | {
    ord(blank): " " for blank in "\u00a0\u2002\u2003\u2007\u2009\u200a\u202f\u3000"
}
_ENTITY = re.compile(r"&(?:nbsp|amp|lt|gt|quot|#\d{1,4});")
_BREAK = re.compile(r"\s?<br\s?/?>\s?", re.I)
_TAG = re.compile(
    r"</?(?:b|i|em|strong|p|li|ul|ol|span|kbd|samp|div|tt|sub|sup|u)(?:\s[^<>]*)?>", re.I
)
_ESCAPED = re.compile(r"\\(?=[_*#~])")
_PATH = re.compile(r"\b[A-Za-z]:\\")
# A line that is bold as a whole is a heading, and keeps its signs.
_BOLD = re.compile(r"^(?!\W*\*\*[^*]+\*\*\W*$)(.*)$")
_EMPHASIS = re.compile(r"\*\*(?=[^\s*])([^*]{1,120}?)\*\*")
_MARK = re.compile(r"(?<!`)`(?!`)")
# A line between grave accents, on its own or in a list, and what stands behind it.
_MARKED = re.compile(r"^\s*(?:\d{1,2}\.\s+|[-*]\s+)?`(?!`)([^`]{20,})(?:`(?!`|\s?[:=])(.*))?$")
# The full stop behind a version that ends a sentence.
_STOP = re.compile(r"(?<=\d)\.$")
# A link as an answer.
_LINK = re.compile(r"(?<=[:=|] )\[([^\[\]]{1,120})\]\(https?://[^()\s]{1,400}\)")
# What a form gives as an example is no answer.
_EXAMPLE = re.compile(
    r"\((?:e\.?g\.?|for example|example:)[ ,:][^()]{1,200}\)|"
    r"\[e\.?g\.?[ ,:][^\[\]]{1,200}\](?=\s*[\w\"'])",  # without an answer, it may be the answer
    re.I,
)
_UNCHECKED = re.compile(r"^\s*[-*+] \[ ?\] ")
_CHECKED = re.compile(r"^(\s*[-*+] )\[[xX]\] ")
_IDEOGRAPH = r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"
_UNIT = re.compile(r"(?<=\d)( ?)([ГМ])и?[Бб](?:айт\w*)?(?!\w)")
_SEAM = re.compile(rf"(?<={_IDEOGRAPH})(?=[A-Za-z0-9])|(?<=[A-Za-z0-9])(?={_IDEOGRAPH})")
# A list by ``nvidia-smi -L`` and a card of ``lspci -k`` that lost their line breaks.
_LISTED = re.compile(r"\s+(?=GPU \d+: )")
# Speccy writes a size and a maker without a blank: 2047MBNVIDIA GeForce GTX 660.
_JOINED = re.compile(r"(?<=\dMB)(?=NVIDIA|ATI|AMD|Intel)|(?<=\d MB)(?=NVIDIA|ATI|AMD|Intel)")
_DETAILS = re.compile(r"(?<=\S)\s+(?=(?:Subsystem|Kernel driver in use|Kernel modules): \S)")


def plain(line: str) -> list[str]:
    """Return the lines that one line of a pasted text shows once it is rendered."""
    line = line.replace("\t", "        ")
    if not line.isascii():
        line = _SEAM.sub(" ", line.translate(_SIGNS))
        line = _UNIT.sub(lambda unit: unit[1] + ("GB" if unit[2] == "Г" else "MB"), line)
    line = _JOINED.sub(" ", line) if "MB" in line else line
    if "&" in line:
        line = _ENTITY.sub(lambda sign: html.unescape(sign[0]).replace("\u00a0", " "), line)
    if "\\" in line and not _PATH.search(line):
        line = _ESCAPED.sub("", line)
    if "[" in line:
        line = "" if _UNCHECKED.match(line) else _CHECKED.sub(r"\1", line)
        line = _LINK.sub(r"\1", line) if "](http" in line else line
    if "(" in line or "[" in line:
        line = _EXAMPLE.sub("", line)
    if "**" in line and _BOLD.match(line):
        line = _EMPHASIS.sub(r"\1", line)
    parts = [one for part in _BREAK.split(line) for one in _unmarked(_TAG.sub("", part))]
    if line.count("(UUID: GPU-") > 1:
        parts = [one for part in parts for one in _LISTED.split(part)]
    if " Kernel driver in use: " in line:
        parts = [one for part in parts for one in _DETAILS.split(part)]
    return parts


def _unmarked(line: str) -> list[str]:
    line = _MARK.sub("", _MARKED.sub(r"\1\n\2", line)) if "`" in line else line
    return [_STOP.sub("", part.rstrip()) for part in line.rstrip().split("\n")]
