"""Redaction by allow-list: what is known to be harmless is shown, everything else is masked.

A word is shown if gpuforge's own source and tables contain it, if it is the name of an installed
package or a standard library module, or if it is a short number, a version or a device address.
Paths are redacted part by part. So no complete list of patterns of secrets is needed: a secret is
masked because it is not a known word.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterable
from functools import cache
from pathlib import Path

MASK = "***"
# "gfx90a" is three atoms (runs of letters or digits); with more, it could as well be a secret.
MAXIMUM_DIGITS, MAXIMUM_ATOMS = 6, 3
_WORD = re.compile(r"[A-Za-z]{2,}")
_ATOM = re.compile(r"[A-Za-z]+|\d+")
_PUNCTUATION = "\"'`()[]{}<>,;:.!?"
# Everything that follows these on a line is masked, even numbers and known words.
_SECRET = re.compile(
    r"(?i)(?:pass(?:word|wd|phrase|code)?|pwd|pin|token|secrets?|keys?|auth\w*|credentials?|bearer|"
    r"basic|cookies?|session(?:id)?|signature|sig|sid|jwt|private)[\"']*(?:\s*[:=]|\s+(?=\S*\d)|$)"
)
_SECRET_WORD = re.compile(
    r"(?i)(?:^|[_.-])(?:pass(?:word|wd|phrase|code)?|pwd|pin|token|secret|key|auth\w*|credentials?|"
    r"cookie|session|signature|sid|jwt|private)s?(?:$|[_.-])|(?:token|secret|passw|apikey)"
)
# Prefixes of issuers' tokens, the rest of which may look like words or numbers.
_TOKEN = re.compile(
    r"(?i)\b(?:gh[a-z]_|github_pat|glpat|hf_|sk-|pk-|nvapi|pypi-|npm_|xox|a[ks]ia|eyj)"
)
_NETWORK = re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}\b|(?:[0-9a-fA-F]{0,4}:){4,}|@|\?")
_UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_DEVICE = re.compile(r"(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]|[0-9a-f]{4}:[0-9a-f]{4}")
_ADDRESS = re.compile(r"(?i)([a-z][a-z0-9+]{1,9}://)")
_HOMES = ("home", "users")


class Redactor:
    """Masks everything that is not known to be harmless.

    Parameters
    ----------
    harmless
        Words that may be shown besides gpuforge's own: names and versions of packages.
    """

    def __init__(self, harmless: Iterable[str] = ()) -> None:
        self._exact = frozenset(text.casefold() for text in (*harmless, "x86_64", "-m"))
        parts = (part.casefold() for text in self._exact for part in _WORD.findall(text))
        self._words = vocabulary() | frozenset(parts) | _modules()
        self._home = str(Path.home())

    def value(self, value: object, name: str = "") -> object:
        """Return a JSON-like `value` with its texts redacted; `name` is its key."""
        if isinstance(value, dict):
            return {self.text(str(key)): self.value(item, str(key)) for key, item in value.items()}
        if isinstance(value, list | tuple | frozenset | set):
            return [self.value(item, name) for item in value]
        if value is None or isinstance(value, bool):
            return value
        if _SECRET_WORD.search(name):
            return MASK
        return value if isinstance(value, int | float) else self.text(str(value))

    def text(self, text: str) -> str:
        """Return `text` with all words masked that are not known to be harmless."""
        if self._home != "/":
            text = text.replace(self._home, "~")
        return "\n".join(self._line(line) for line in text.split("\n"))

    def _line(self, line: str) -> str:
        secret = _SECRET.search(line)
        # A message may end in such a word; only what follows it is masked.
        end = secret.end() if secret else len(line)
        shown = "".join(self._chunk(part) for part in re.split(r"(\s+)", line[:end]))
        return shown if not line[end:].strip() else f"{shown} {MASK}"

    def _chunk(self, chunk: str) -> str:
        """Return one word, masked unless all of it is harmless; punctuation around it is kept."""
        core = chunk.strip(_PUNCTUATION)
        if not core or core.casefold() in self._exact or _DEVICE.fullmatch(core):
            return chunk
        if _TOKEN.search(core) or _UUID.search(core):
            shown = MASK
        elif match := _ADDRESS.search(core):
            shown = core if core.rstrip("/") in addresses() else f"{match[1]}{MASK}"
        elif "=" in core and not _SECRET_WORD.search(core.partition("=")[0]):
            shown = "=".join(self._chunk(part) for part in core.split("="))
        elif core.startswith(("/", "~/", "./", "../")) or re.match(r"[A-Za-z]:\\", core):
            shown = self._path(core)
        elif _NETWORK.search(core) or not self._is_harmless(core):
            shown = MASK
        else:
            shown = core
        return chunk.replace(core, shown)

    def _path(self, path: str) -> str:
        """Return a path, or several separated by colons, with each unknown part masked."""
        parts = re.split(r"([/\\:])", path)
        for number, part in enumerate(parts):
            owner = parts[number - 2].casefold() in _HOMES if number > 1 else False
            known = part in ("", "/", "\\", ":", "~", ".", "..") or part.casefold() in self._exact
            if owner or not (known or self._is_harmless(part)) or _TOKEN.search(part):
                parts[number] = MASK if part else part
        return "".join(parts)

    def _is_harmless(self, text: str) -> bool:
        """Return whether a text consists of known words and short numbers, such as ``cu126``."""
        if not text.isascii() or sum(map(str.isdigit, text)) > 2 * MAXIMUM_DIGITS:
            return False
        for run in re.findall(r"[A-Za-z0-9]+", text.removesuffix("'s")):
            atoms = _ATOM.findall(run)
            if len(atoms) > MAXIMUM_ATOMS or not all(map(self._is_known, atoms)):
                return False
        return True

    def _is_known(self, atom: str) -> bool:
        return len(atom) <= MAXIMUM_DIGITS if atom.isdigit() else atom.casefold() in self._words


@cache
def vocabulary() -> frozenset[str]:
    """Return the words of gpuforge's own modules and tables, in lower case."""
    return frozenset(word.casefold() for text in _own_texts() for word in _WORD.findall(text))


@cache
def addresses() -> frozenset[str]:
    """Return the web addresses in gpuforge's own modules and tables."""
    found = (re.findall(r"https?://[\w./-]+", text) for text in _own_texts())
    return frozenset(address.rstrip("/.") for several in found for address in several)


@cache
def _own_texts() -> Collection[str]:
    root = Path(__file__).parents[1]
    files = [path for kind in ("*.py", "*.toml") for path in sorted(root.rglob(kind))]
    return [f"{path.stem} {path.read_text(encoding='utf-8')}" for path in files]


@cache
def _modules() -> frozenset[str]:
    words = (word.casefold() for name in sys.stdlib_module_names for word in _WORD.findall(name))
    return frozenset({*words, "a", "lib", "bin", "usr", "opt", "etc", "tmp", "var"})
