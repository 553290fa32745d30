"""GPU products named in a line, in any spelling, by the grammar in ``products.toml``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

from gpuforge import registry
from gpuforge.detect.notation import size
from gpuforge.detect.text.clauses import form
from gpuforge.facts import Vendor

T = TypeVar("T")
GPUS_AT_MOST = 64
COUNTS = {"two": 2, "dual": 2, "both": 2, "three": 3, "four": 4, "quad": 4, "six": 6, "eight": 8,
          "zwei": 2, "drei": 3, "vier": 4, "deux": 2, "trois": 3, "quatre": 4, "dos": 2, "tres": 3,
          "cuatro": 4, "duas": 2, "três": 3, "quatro": 4, "две": 2, "два": 2, "три": 3, "четыре": 4,
          "两": 2, "三": 3, "四": 4, "六": 6, "八": 8}  # fmt: skip
OF_PROCESSOR = re.compile(
    r"\b(?:Ryzen|Athlon|A\d+-\d{4}\w*)[^,;|+()\n]{0,40}\b(?:with|w/)\s$", re.I
)
# What stands before a number that is a processor's: "Ryzen 5600", "i5-3570".
_NUMBER_OF_PROCESSOR = re.compile(r"\b(?:Ryzen|Core|Xeon|i[3579])(?: \d)?[ -]$", re.I)
_PAIR = {"dual", "both", "quad"}  # but part of a board's name, such as ASUS Dual
# What NVIDIA calls a chip, which pci.ids writes before the product.
_CHIP = re.compile(r"(?<![A-Z])(?:G[TFKMPVAB]\d{3}|G[789]\d|NV\d\d|C\d\d)\w{0,3}$")
# Revisions and trademark signs, which the patterns do not cover.
_NO_WIDTH = r"(?<!\d{3}[x*×])(?<!\d{3}\s[x*×]\s)"
_NOISE = re.compile(r"\(rev \w\w\)|\((?:R|TM|C)\)|[®™]", re.I)


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
        rf"(?:(?<![a-z0-9_.-])|(?<=\d[x*])|(?<=[a-z]\.)(?=[a-z])){_NO_WIDTH}(?:{forms})(?!(?!(?<=\d)GPUs?\b)[a-rt-z\d]|\.\d|\s?[KMG]i?B\b|\s?[%°])",
        re.I,
    )


def is_vague(name: str) -> bool:
    """Return whether a name denotes a family or a chip, not a product."""
    return bool(form("products", "vague").fullmatch(" ".join(_NOISE.sub(" ", name).split())))


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
    chips = [one for one in found if _CHIP.search(one.name) and _sold_as(one, found, text)]
    found = [one for one in found if one not in chips]
    found = [
        one
        for last, one in zip([None, *found], found, strict=False)
        if not (
            last
            and last.vendor == one.vendor
            and re.fullmatch(r"\s?[(\[]\s?", text[last.end : one.start])
        )
    ]
    # Next to another GPU, the one that ends a processor's name is only part of that name, but an
    # answer that begins with the processor lists both.
    begin = 5 * asked
    return [x for x in found if len(found) == 1 or not OF_PROCESSOR.search(text[: x.start], begin)]


def _sold_as(chip: Product, found: list[Product], text: str) -> bool:
    """Return whether a product stands in brackets behind a chip, as in ``GT218 [GeForce 210]``."""
    return any(text[chip.end : one.start].strip() == "[" for one in found)


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
    patterns = ((kind, *one) for kind in kinds for one in _patterns(kind))
    for kind, vendor, pattern in patterns:
        for match in pattern.finditer(plain):
            of_processor = kind == "short" and _NUMBER_OF_PROCESSOR.search(plain[: match.start()])
            if not of_processor and not any(
                match.start() < one.end and one.start < match.end() for one in found
            ):
                found.append(_product(vendor, match, text, plain))
    return sorted(found, key=lambda one: one.start)


def _product(vendor: Vendor, match: re.Match[str], text: str, plain: str) -> Product:
    before, after = plain[max(0, match.start() - 32) : match.start()], plain[match.end() :][:60]
    total = form("products", "memory_after").match(after)
    beside = f"{total[1]} MiB" if total and total[1] else None
    if total and not beside:
        beside = f"{total[2] or total[3] or total[4]}G"
    if total is None and (first := form("products", "memory_before").search(before)):
        beside = f"{first[1]} G" if first[1] else f"{first[2]} M"
        before = before[: first.start()]
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
    for name in ("more", "rig", "have", "boards"):
        if told := form("products", name).search(after if name == "more" else before):
            yield number_of(next(filter(None, told.groups())))
            return
    times = form("products", "times").search(before)
    if times and times[1]:
        yield number_of(times[1])
    elif times and (
        times[3]
        or form("products", "plural").search(after)
        or times[2].lower() in COUNTS.keys() - _PAIR
        or (times[2].lower() in _PAIR and not form("products", "board").search(before))
    ):
        yield number_of(times[2])


def number_of(words: str) -> int:
    """Return how many GPUs a number or its word means."""
    return min(COUNTS.get(words.lower()) or int(words) or 1, GPUS_AT_MOST)
