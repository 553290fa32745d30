"""GPU products named in a line, in any spelling, by the grammar in ``products.toml``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

from gpuforge import registry
from gpuforge.detect.notation import size
from gpuforge.facts import Vendor

T = TypeVar("T")
GPUS_AT_MOST = 64
COUNTS = {"two": 2, "dual": 2, "both": 2, "three": 3, "four": 4, "quad": 4, "six": 6, "eight": 8}
_TIMES = re.compile(
    r"(?:\b(?:(?<!-)x(?=\d))?(\d{1,2})(?:\s?[x×*卡张块]\s?|(?<=x\d)\s)|"
    rf"\b(\d{{1,2}}|{'|'.join(COUNTS)})(\sx)?\s(?:\w+\s)?)$",
    re.I,
)
OF_PROCESSOR = re.compile(
    r"\b(?:Ryzen|Athlon|A\d+-\d{4}\w*)[^,;|+()\n]{0,40}\b(?:with|w/)\s$", re.I
)
_PAIR = {"dual", "both", "quad"}  # but part of a board's name, such as ASUS Dual
_BOARD = re.compile(r"\b(?:ASUS|Palit|OC|edition|KFA2|Gainward)\W+dual\W+$", re.I)
# Code names and families; next to a product, they describe that product.
_VAGUE = re.compile(
    r"(?:AMD |Intel )?(?:DG2|Battlemage|Navi \d\d|Vega [12]0|Radeon RX)|"
    r"(?:Intel(?:\(R\))? )?(?:Graphics|U?HD)|"
    r"(?:NVIDIA )?(?:Jetson (?:AGX|Orin)|DGX \w+)|(?:AMD )?(?:Radeon )?RX ?\d000(?: Series)?",
    re.I,
)
_HAVE = re.compile(
    r"\b(?:have|has|with|using|on|got|of|by|use|shows|sees) (?:only )?(\d{1,2}) $", re.I
)
# Revisions and trademark signs, which the patterns do not cover.
_NOISE = re.compile(r"\(rev \w\w\)|\((?:R|TM|C)\)|[®™]", re.I)
_RIG = re.compile(
    r"\b(\d{1,2})[ -]?x?[ -]?(?:GPUs?|cards?) (?:system|rig|server|machine|node|box|setup|PC)s? "
    r"(?:with|of|running)(?: an?)? $",
    re.I,
)
_MORE = re.compile(
    r"^s?(?:\s(?:GPUs?|cards?))?(?:\s?\(\d+\s?Gi?B\))?[\s(,]{0,3}[x×*]\s?(\d{1,2})\b", re.I
)
_PLURAL = re.compile(r"^s\b|^\s?\(each\b|^.{0,12}\bGPUs\b|^.{0,12}\bcards\b", re.I)
# A memory size next to a name; plain "RAM" means main memory.
_SIZE = r"(\d{1,3}(?:\.\d+)?)\s?G(?:i?Bs?|o)?(?![a-z\d_])"
_AFTER = re.compile(
    r"^(?:'?s)?(?:,?\s(?:GPUs?|Laptop|Mobile|LHR|OC|FE|Gaming|Founders Edition|Armor|Nitro\+?|"
    r"Pulse|Strix|ROG|TUF|Dual|Ventus|Eagle|Aorus|Windforce|Mini|Trio|X|\d{4}SP|\dx ?\w+|"
    r"\((?![^()]*\d\s?[GM]i?B)[^()]{1,40}\))){0,4}"
    r"[\s(,/\[@:|*-]{0,4}"
    r"(?:(?:each )?with\s|w/\s?|mit\s|con\s|avec\s|(?:VRAM|显存):?\s?|so\s|has\s)?"
    r"(?:about\s|around\s|only\s|just\s|its\s|[~\u2248])?"
    rf"(?:(?:\([^)]{{0,80}}?)?\b(\d{{3,6}})(?:\.\d+)?\s?Mi?B\b|{_SIZE}|[^()]{{0,40}}?{_SIZE}(?=\seach))"
    r"(?!\s?/|\s(?:of\s)?(?:system|DDR|RAM|SSD|PCIe|NVMe|HDD|M\.2|storage|disk|host|free))",
    re.I,
)
_BEFORE = re.compile(rf"(?:^|[\s(]|(?<=\d[x×])){_SIZE}(?:\sVRAM)?\s+$", re.I)


@dataclass(frozen=True)
class Product:
    """A product named in a text.

    Attributes
    ----------
    name : as written, without memory size and count
    start, end : span of the name
    count : how many of them the text mentions
    total_bytes : the memory size next to the name
    """

    vendor: Vendor
    name: str
    start: int
    end: int
    count: int = 1
    total_bytes: int | None = None


@cache
def _patterns(kind: str) -> tuple[tuple[Vendor, re.Pattern[str]], ...]:
    """Return the patterns of ``full``, ``short`` or ``bare`` names with their vendors."""
    found = []
    for entry in registry.table(__file__, "products")["product"]:
        maker, names, brief = (entry[key].replace("\n", "") for key in ("maker", "names", "short"))
        full = rf"(?:{maker}[ :-]+)?(?:{names})|{maker}[ :-]+(?:{brief})"
        forms = {"full": full, "short": brief, "bare": entry.get("bare")}[kind]
        found += [(entry["vendor"], _bounded(forms))] if forms else []
    return tuple(found)


def _bounded(forms: str) -> re.Pattern[str]:
    """Return a pattern that matches whole words only, plurals included.

    A blank of the grammar may be a hyphen, and nothing between a series and a number.
    """
    forms = re.sub(r"(?<!\[)\\s(?![+?*{])", r"[\\s-]", forms.replace(r"\s?", r"[\s-]?"))
    forms = forms.replace(r"\s+", r"(?:\s+|-|(?<=[a-z]))")
    return re.compile(
        rf"(?:(?<![a-z0-9_.-])|(?<=\d[x*])|(?<=[a-z]\.)(?=[a-z]))(?:{forms})(?![a-rt-z\d]|\.\d|\s?[KMG]i?B\b|\s?[%°])",
        re.I,
    )


def is_vague(name: str) -> bool:
    """Return whether a name denotes a family or a chip, not a product."""
    return bool(_VAGUE.fullmatch(name))


def products_in(text: str, *, asked: bool = False) -> list[Product]:
    """Return the products named in a line, in order.

    Parameters
    ----------
    asked
        Whether the text is the answer to "which GPU?", so that short names such as ``3090`` count.
    """
    text = text.replace("_", " ")
    found = _named(text, *(("full", "short") if asked else ("full",)))
    found = without_families(found, lambda one: (one.vendor, one.name))
    found = [
        one
        for last, one in zip([None, *found], found, strict=False)
        if not (
            last
            and last.vendor == one.vendor
            and re.fullmatch(r"\s?[(\[]\s?", text[last.end : one.start])
        )
    ]
    # Next to another GPU, the one that ends a processor's name is only part of that name.
    return [one for one in found if len(found) == 1 or not OF_PROCESSOR.search(text[: one.start])]


def bare_products_in(text: str) -> list[Product]:
    """Return what may be a product, depending on the words around it: ``3090``, ``M1``."""
    return _named(text, "bare")


def without_families(named: list[T], key: Callable[[T], tuple[Vendor | None, str]]) -> list[T]:
    """Drop families where a product of the same vendor is named too.

    Parameters
    ----------
    key
        Returns the vendor and the name (``""`` if there is none) of an item.
    """
    told = [(one, *key(one)) for one in named]
    exact = {vendor for _, vendor, name in told if name and not is_vague(name)}
    return [one for one, vendor, name in told if vendor not in exact or not is_vague(name)]


def _named(text: str, *kinds: str) -> list[Product]:
    """Return the names of some kinds in order; where they overlap, the first kind wins."""
    found: list[Product] = []
    plain = _NOISE.sub(lambda sign: " " * len(sign[0]), text[:1000])
    for vendor, pattern in (one for kind in kinds for one in _patterns(kind)):
        for match in pattern.finditer(plain):
            if not any(match.start() < one.end and one.start < match.end() for one in found):
                found.append(_product(vendor, match, text, plain))
    return sorted(found, key=lambda one: one.start)


def _product(vendor: Vendor, match: re.Match[str], text: str, plain: str) -> Product:
    before, after = plain[max(0, match.start() - 32) : match.start()], plain[match.end() :][:60]
    total = _AFTER.match(after)
    beside = f"{total[1]} MiB" if total and total[1] else None
    if total and not beside:
        beside = f"{total[2] or total[3]}G"
    if total is None and (first := _BEFORE.search(before)):
        beside, before = f"{first[1]} G", before[: first.start()]
    return Product(
        vendor,
        " ".join((match[0] if vendor == "nvidia" else text[match.start() : match.end()]).split()),
        match.start(),
        match.end(),
        next(_counts(before, after), 1),
        size(beside) if beside else None,
    )


def _counts(before: str, after: str) -> Iterator[int]:
    """Yield the numbers next to a name that give a count."""
    more, times = _MORE.match(after), _TIMES.search(before)
    if more:
        yield min(int(more[1]) or 1, GPUS_AT_MOST)
    elif have := _RIG.search(before) or _HAVE.search(before):
        yield min(int(have[1]) or 1, GPUS_AT_MOST)
    elif times and times[1]:
        yield min(int(times[1]) or 1, GPUS_AT_MOST)
    elif times and (
        times[3]
        or _PLURAL.search(after)
        or times[2].lower() in ("two", "three", "four", "six", "eight")
        or (times[2].lower() in _PAIR and not _BOARD.search(before))
    ):
        number = COUNTS.get(times[2].lower()) or int(times[2])
        yield min(number or 1, GPUS_AT_MOST)
