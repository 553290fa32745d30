"""GPUs mentioned in sentences and log lines that imply that the machine has them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice, pairwise

from gpuforge import registry
from gpuforge.detect.notation import product_of
from gpuforge.detect.pci_ids import vendor_named_in
from gpuforge.detect.text.clauses import PERHAPS, THERE, evidence_of, form
from gpuforge.detect.text.labels import told_lines
from gpuforge.detect.text.products import Product, bare_products_in, products_in, without_families
from gpuforge.facts import Vendor

# Text with more products of a vendor than this, none of them certain, is about GPUs in general.
PRODUCTS_AT_MOST, SURE = 2, 7
LINE_LIMIT, LINES_AT_MOST = 600, 1500
# How many characters behind "my GPU is" may be its name.
ANSWER = 40
# Initial score by kind of name: a full name is unambiguous, a number may be anything.
_BASE = {"gpu": 1, "bare": -2, "maker": -1, "driver": -3}
# How the text before a product ends if the product continues a list.
_LISTED = re.compile(r"^(?!.*[.!?]\s+(?-i:[A-Z])).*(?:[,+/&]|\band)\W*$", re.I)
_SUCH = re.compile(r"\b(?:such as|like|e\.g\.?)(?: an?| the)?(?: \S+)? ?$")
# A question says nothing about the machine, unless it is about the writer's own.
_ASKED = re.compile(r"^[^.!?]*\?")
_OWN = re.compile(
    r"\b(my|our|I have|I've|I use|у меня|мо[йяюе]\w?|на ноут\w*|mein\w*|meu|minha)\b", re.I
)
# Of the words before what is there no more, those that leave no doubt.
_REPLACED = re.compile(r"upgraded|switched|swapped|replac|moved|changed|coming|sold", re.I)
_QUOTES = re.compile(r"^(#+ |[>*\u2022`+\s-]+|\[(?!previous|old)[^\]\d]{2,40}\]:?\s)+", re.I)


@dataclass(frozen=True)
class Mention:
    """A product that the machine has according to a text.

    Attributes
    ----------
    number : which device it is, as the text numbers them
    words : the words of its line, if that names no other product
    counted : whether the sentence says how many cards there are
    score : how certain it is; 0 if it counts only where nothing else does
    doubtful : whether the text leaves open that the machine has it
    gone : whether the sentence says that another has replaced it
    """

    line: int
    product: Product
    number: int | None = None
    words: str = ""
    counted: bool = False
    score: int = 0
    doubtful: bool = False
    gone: bool = False


def mentions_in(text: str) -> Iterator[Mention]:
    """Yield each product once that the machine has according to a person or a program."""
    found: dict[tuple[Vendor, frozenset[str], int | None], Mention] = {}
    doubtful: dict[frozenset[str], Mention] = {}
    told = [one for number, line in _telling(text) for one in _of_line(number, line)]
    products = {product_of(one.product.name) for one in told}
    gone = {product_of(one.product.name) for one in told if one.gone}
    for one in (one for one in told if not one.gone):
        words = product_of(one.product.name)
        if words and words in gone and gone < products:
            continue
        if not one.score:
            doubtful.setdefault(words, one)
            continue
        key = one.product.vendor, words, one.number
        last = found.setdefault(key, one)
        more = f"{last.product.name} ".lower() in one.product.name.lower()  # "Laptop GPU" follows
        sized = bool(one.product.total_bytes)
        best = one if last.product.total_bytes is None and (sized or more) else last
        count = max(last.product.count, one.product.count)
        score = max(last.score, one.score)
        whole = replace(best.product, count=count)
        doubt = last.doubtful and one.doubtful
        found[key] = replace(best, product=whole, score=score, doubtful=doubt)
    yield from _plausible(found)
    makers = list(_makers(text, {vendor for vendor, _, _ in found}))
    yield from (one for one in makers if not one.doubtful)
    if not found and len(doubtful) <= PRODUCTS_AT_MOST:
        yield from doubtful.values() or (one for one in makers if one.doubtful)


def _telling(text: str) -> Iterator[tuple[int, str]]:
    """Yield the first lines that may name a GPU, numbered."""
    lines = (line[:LINE_LIMIT] for line in told_lines(text))
    telling = ((number, line) for number, line in enumerate(lines) if _may_name(line))
    return islice(telling, LINES_AT_MOST)


def _may_name(line: str) -> bool:
    folded = line.lower()
    return any(hint in folded for hint in registry.table(__file__, "products")["hints"])


def _plausible(
    found: dict[tuple[Vendor, frozenset[str], int | None], Mention],
) -> Iterator[Mention]:
    """Yield the credible ones: no family beside its product, no vendor with too many products."""
    kept = without_families(list(found.items()), lambda one: (one[0][0], one[1].product.name))
    apples = [words for vendor, words, _ in found if vendor == "apple"]  # M1 may be part of M1 Pro
    kept = [one for one in kept if not any(one[0][1] < words for words in apples)]
    numbered = {(vendor, words) for (vendor, words, number), _ in kept if number is not None}
    own = [one for (v, words, n), one in kept if n is not None or (v, words) not in numbered]
    for vendor in dict.fromkeys(one.product.vendor for one in own):
        these = [one for one in own if one.product.vendor == vendor]
        sure = [one for one in these if _is_sure(one)]
        talk = [one for one in these if one not in sure]
        for likely in (talk, [one for one in talk if one.score > PERHAPS], []):
            if len({product_of(one.product.name) for one in likely}) <= PRODUCTS_AT_MOST:
                yield from (one for one in these if one in sure or one in likely)
                break


def _is_sure(one: Mention) -> bool:
    counted = one.counted or one.product.count > 1
    return one.number is not None or counted or one.score >= SURE


def _makers(text: str, told: set[Vendor]) -> Iterator[Mention]:
    """Yield each maker once of whose cards the text names no product, as in "my AMD card"."""
    best: dict[Vendor, tuple[int, str]] = {}
    for _, line in _telling(text):
        for match in form("clauses", "maker").finditer(line):
            # A tool's message about "the NVIDIA driver" does not imply a card.
            base = _BASE["driver" if "driver" in match[0].lower() else "maker"]
            score = base + evidence_of("maker", line, *match.span()).score
            score += 4 if match[4] else 2 if match[2] else 0
            vendor = vendor_named_in(next(filter(None, match.groups())))
            asked = _ASKED.search(line[match.end() :]) and not _OWN.search(line)
            if vendor and vendor not in told and not asked:
                best[vendor] = max((score, match[0]), best.get(vendor, (score, match[0])))
    sure = any(score >= THERE for score, _ in best.values())
    for vendor, (score, words) in best.items():
        if score >= PERHAPS:
            yield Mention(0, Product(vendor, "", 0, 0), words=words, doubtful=not sure)


def _of_line(number: int, line: str) -> Iterator[Mention]:
    """Yield the products of a line that the machine has or may have."""
    bare = _QUOTES.sub("", line).rstrip(" *`").replace("**", "")
    products = _candidates(bare)
    many, title = bool(form("clauses", "many").search(bare)), line.lstrip().startswith("#")
    last: Product | None = None  # the previous one, if it counts
    for kind, product in products:
        score, which, gone = _judged(bare, kind, product, last, title=title)
        # T-Rex prints the bus in the device's position: [00:01.0].
        alone = len({product_of(one.name) for _, one in products}) == 1
        words = bare if alone and not re.search(r"\[\d\d:", bare) else ""
        if score >= (PERHAPS if kind == "gpu" else THERE):
            last = product
            count = max(_listed_twice(bare, [one for _, one in products], product), product.count)
            product = replace(product, count=count)
            yield Mention(number, product, which, words, many, score, score < THERE)
        elif gone or (score >= PERHAPS and product_of(product.name)):
            yield Mention(number, product, None, words, doubtful=True, gone=gone)


def _candidates(line: str) -> list[tuple[str, Product]]:
    """Return every possible product in a line with the kind of its name, in order."""
    products = products_in(line)
    asks = None if products else form("clauses", "asks").search(line)
    if asks:
        answer = products_in(line[asks.end() :], asked=True)
        products = [
            replace(one, start=one.start + asks.end(), end=one.end + asks.end())
            for one in answer
            if one.end <= ANSWER
        ]
    bare = [
        one
        for one in bare_products_in(line)
        if not any(one.start < other.end and other.start < one.end for other in products)
    ]
    found = [*(("gpu", one) for one in products), *(("bare", one) for one in bare)]
    return sorted(found, key=lambda one: one[1].start)


def _judged(
    line: str, kind: str, product: Product, last: Product | None, *, title: bool
) -> tuple[int, int | None, bool]:
    """Return a product's score, which device it is as the text numbers them, whether it is former.

    What patterns cannot express, such as a question about other GPUs or the rest of a list, has
    the weight of `mark`, `general`, `mine` and `name` in the table.
    """
    evidence = evidence_of(kind, line, product.start, product.end)
    score, said = _BASE[kind] + evidence.score, evidence.said
    mark = said.get("mark")
    gone = "former" in said and _REPLACED.match(said["former"][0]) is not None
    which = next((int(part) for part in mark.groups() if part), None) if mark else None
    asked = kind == "gpu" and _ASKED.search(line[product.end :]) and not _OWN.search(line)
    if mark and (
        (asked and re.search(r"\bor\b", line))
        or (which is None and _SUCH.search(line[: product.start]))
    ):
        score, which = score - 5, None
    if asked and "general" not in said:
        score -= 3
    short = title or len(line) - (product.end - product.start) <= 24
    if kind == "gpu":
        return score + (2 if short else 0), which, gone
    joined = last is not None and form("clauses", "joined").fullmatch(
        line[last.end : product.start]
    )
    return score + (5 if joined or product.total_bytes else 0), which, gone


def _listed_twice(line: str, products: list[Product], product: Product) -> int:
    """Return how often a list names a product."""
    return 1 + sum(
        one.name == other.name == product.name and bool(_LISTED.search(line[one.end : other.start]))
        for one, other in pairwise(products)
    )
