"""Products that sentences and lines of logs name, where they say that the GPU is there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice, pairwise

from gpuforge.detect.notation import product_of
from gpuforge.detect.pci_ids import vendor_named_in
from gpuforge.detect.text.labels import told_lines
from gpuforge.detect.text.products import COUNTS, GPUS_AT_MOST, Product, is_vague, products_in
from gpuforge.facts import Vendor

# A person who mentions more products of one vendor than this speaks of GPUs in general.
PRODUCTS_AT_MOST = 2
LINE_LIMIT, LINES_AT_MOST, CLAUSE = 600, 1500, 60
# Of which one stands in each line that names a product; a search for words is the cheapest.
_HINTS = (
    "rtx gtx geforce quadro tesla titan nvidia radeon rx instinct mi1 mi2 mi3 mi5 mi6 mi8 mi- amd "
    "ati vega intel arc graphics iris gma apple m1 m2 m3 m4 m5 gpu card jetson grid 0s strix mx gt "
    "fire max dgx gb gh2 r5 r7 r9 a1 a2 a3 a4 a5 a6 a8 h1 h2 h8 b1 b2 b3 l4 v1 p1 k8 "
    "my xt m5 0ti super 090 080 070 060 050"
).split()
# Words before a product by which a person says that it is there.
_MINE = re.compile(
    r"\b(I have|I've|I use|there is an?|use|using|used|picked up|installed|running|runs?|my|our|"
    r"with|on|have|has|got|own|"
    r"bought|contains?|includes?|features|equipped|"
    r"machine|laptop|desktop|card|tested|testing|we are|"
    r"device|cuda:\d|selected|detected|initialized|adapter)\b"
    r"(?:(?!\.\s|;).){0,40}$|"
    r"\b(have|has|with|my|our)\b(?:(?!\.\s|;).){0,60}\b(gpus?|cards?)\b(?:(?!\.\s|;).){0,60}$|"
    r"\b(?:host|server|node|pc|workstation|[ide]?gpus?|cards?|hardware|system|rig|specs?|setup)"
    r"[\s.:*-]{1,6}$|\b(?:avec|con|mit|tengo|uso|habe|j'ai)\b(?:(?!\.\s).){0,40}$|"
    r"\bMac(?:Book)?(?:\s?(?:mini|Studio|Pro|Air))?[\s,(]{1,3}$|"
    r"(?:^|[.!;]\s)\W*(?:windows|win|ubuntu|debian|fedora|linux|arch)[\s\w.-]{0,24}(?:bit)?[,\s]+$|"
    r"\bdrivers?(?:\s(?:for|of)(?:\s(?:my|the|an?))?)?\s?\(?\s?$|"
    r"(?:显卡|顯卡|グラボ|グラフィックボード|видеокарт\w*|\d卡)\W{0,2}[是为はв]?\s?$|^\W*(?:win(?:dows)?\s?\d+|"
    r"ubuntu[\s\d.]*)[,\s]{1,3}$",
    re.I,
)
# What stands beside a product where a line lists what a machine has.
_SPECS = re.compile(
    r"\bdrivers? (?:version )?[\d.]{3}|\bCUDA[ :]\d|\bGB RAM|\d ?GB (?:of RAM|DDR\d)|"
    r"\b(?:Windows|Win|Ubuntu|Debian|Fedora) ?\d|\bi[3579]-\d|\bRyzen \d|\bkernel \d|\bmesa \d|"
    r"\bWayland\b|\bXeon\b|\bEPYC\b",
    re.I,
)
# What leaves no doubt, whatever is asked or said beside it.
_SURELY_MINE = re.compile(
    r"\b(?:I have(?: got)?|I've(?: got)?|I own|I bought|I use|I used|I picked up|mine is|"
    r"I am using|I'?m using)"
    r"(?: an?| the| only| \d+ ?x?)? (?:\w+ ){0,2}$|\b(?:my|our)(?: \w+)? $",
    re.I,
)
# What stands between two that are both there.
_JOINED = re.compile(
    r"(?:\s?\(?\d+\s?GB\)?)?\W{0,3}\b(?:and|plus|as well as)\b.{0,14}|"
    r"\s?[,+&/]\s?(?:and |an? |my )*",
    re.I,
)
# What ends before a product that is listed beside the one before it.
_LISTED = re.compile(r"^(?!.*[.!?]\s+(?-i:[A-Z])).*(?:[,+/&]|\band)\W*$", re.I)
# Words that speak of GPUs at large.
_GENERAL = re.compile(
    r"\b(benchmarks?|according to|or (?:comparable|similar|better)|support(s|ed|ing)?|requires?|"
    r"required|recommend\w*|minimum|e\.g|such as|for example|"
    r"compatible|vs\.?|versus|others?|users?|if|(did|do|does|can) you|example|should|would|could|"
    r"planned|better than)\b|https?://|\b(like|than)\s(an?\s|the\s)?$",
    re.I,
)
# Words before a product that is there no more.
_GONE = re.compile(
    r"(?:\b(?:switched out|swapped(?: out)?|replac(?:ed|ing)|upgraded from|switched from|"
    r"moved from|"
    r"coming from|previous(?:ly)?|formerly|used to (?:have|use|own)|sold|instead of|unlike)\b)"
    r"(?:(?!\b(?:with|for|to|by|and)\b)[^.;,]){0,30}$",
    re.I,
)
# Words of a machine beside the one that a text is about.
_ELSEWHERE = re.compile(
    r"\b(?:fine|works?(?: well)?|(?:no|any) (?:problems?|issues?))\b[^.]{0,80}\b"
    r"(?:on|with) (?:an?|another|(?:my|the) other) (?:\w+ )?(?:PC|machine|laptop|computer|rig|"
    r"system)\b[^.]{0,40}$|"
    r"\bno (?:problems?|issues?)\b[^.]{0,40}\b(?:on|with)\b[^.]{0,40}$|"
    r"\b(?:another|(?:my|the) other) (?:\w+ )?(?:PC|machine|laptop|computer|rig|"
    r"system)\b[^.]{0,40}$",
    re.I,
)
_FRIEND = re.compile(r"\b(?:friend|colleague|coworker|brother)'?s\b", re.I)
# A sentence that counts several cards before it names them.
_MANY = re.compile(
    r"\b(?:have|has|with|own|got)\b.{0,20}\b(?:[3-9]|three|four|several)\b.{0,20}\b(?:cards?|"
    r"gpus?)\b",
    re.I,
)
# A processor that is named with the GPU in it.
_OF_CPU = re.compile(
    r"^\W*(?:Model name|CPU|Processor|Brand)\b.{0,20}[:=].*\bw(?:ith|/)\s?Radeon|"
    r"(?:Ryzen|Athlon|APU|A\d+-\d{4}|CPU|Processor)\b[^,;|+]{0,40}\b(?:with|"
    r"w/)\s?Radeon(?!\s\d{3}[MS]\b)",
    re.I,
)
# What programs write before a device's name: which one it is.
_MARK = re.compile(
    r"\b(?:gpu|device|adapter|card|cuda|hip|vulkan|"
    r"opencl)s?\W{0,2}#?(\d{1,2})?\b(?:(?!\.\s).){0,40}$|"
    r"#(\d{1,2})\b.{0,40}$|\b\d{1,2}\.\s['\"]$",
    re.I,
)
_ASKS = re.compile(
    r"\b(?:GPUs?|graphics? cards?|video cards?)"
    r"(?:\s(?:is|are|was|of)|\s?[:=(-])\s?(?:an?\s|the\s)?",
    re.I,
)
# A question speaks of what there may be, unless it is about the writer's own.
_ASKED = re.compile(r"^[^.!?]*\?")
_OWN = re.compile(r"\b(my|our|I have|I've|I use)\b", re.I)
# Numbers that are a product's name only behind such a word.
_NUMBERS = r"(?:[2-5]0[5-9]0|10[5-8]0|16[56]0)"
_BARE = re.compile(
    rf"(?:\b(?:my (?:old |new )?|the (?=\S+ (?:graphics )?card)|"
    rf"(?:on|with|using|have|got|use|own|bought) (?:an? |one |a single )(?:nvidia )?)|"
    rf"(?:我有|我的|[一两三四](?:个|张|块)|用的|使用)\s?)({_NUMBERS}(?:\s?(?:Ti|SUPER))?)"
    rf"(?![a-z\d]|\s?[x×]\s?\d|\s(?:images?|samples?|steps?|tokens?|epochs?|px|p|by|words)\b)|"
    rf"\b(?:on|with|using|have|hardware|gpu|card):?\s(?:an? )?({_NUMBERS}\s?(?:Ti|SUPER))\b|"
    rf"\b(?:\d{{1,2}}x?|two|three|four|six|eight|dual|both|both my|my \d)\s"
    rf"({_NUMBERS}(?:\s?(?:Ti|SUPER))?)(?='?s\b|\s(?:GPUs|cards)\b)|"
    rf"(?<![\d.])({_NUMBERS}(?:\s?(?:Ti|SUPER))?)(?=显卡)|"
    rf"(?<![\w.])\d{{1,2}}\s?x\s?({_NUMBERS}(?:\s?(?:Ti|SUPER))?)"
    rf"(?=\W*$|[),+ ]+(?:and|with|\+|\)))|"
    rf"\b(?:on|with|w/|using|have|my|(?<=/)w)\s(?:an? )?"
    rf"((?:{_NUMBERS}|[679][5-8]0)\s?(?:Ti|max-?q))\b",
    re.I,
)
_OF_MAC = re.compile(
    r"\bi?Mac(?:Book|\s?OS)?(?:\s?(?:Pro|Air|Mini|Studio))?\b[\s(,]{1,3}"
    r"(?:with |w/ |on |an? |the |Apple |\d\d(?:-inch)? )*"
    r"(M[1-9](?:\s?(?:Pro|Max|Ultra))?)\b(?!\.)|"
    r"\b(M[1-9](?:\s?(?:Pro|Max|Ultra))?)\s(?:chip|Mac|MacBook|iMac|Studio|Mini|Air)\b",
    re.I,
)
_VENDOR = r"(nvidia|amd|intel|radeon|geforce) (?:gpu|card|graphics|igpu|dgpu)\b"
_MY_VENDOR = re.compile(
    rf"\bmy (?:only )?{_VENDOR}|\bmy (nvidia) driver|\bI(?:'ve| have)?(?: tried| also)* "
    r"(?:re)?install(?:ed|ing)(?: the| my| latest)* (nvidia) drivers?|"
    r"\b(nvidia) (?:closed|open).source (?:kernel )?driver",
    re.I,
)
_THE_VENDOR = re.compile(rf"\b(?:my|the) (?:only )?{_VENDOR}", re.I)


@dataclass(frozen=True)
class Mention:
    """A product of which a text says that it is there.

    Attributes
    ----------
    number : which device it is, as the text counts
    words : what stands in its line, where no other product does
    counted : whether the sentence says how many cards there are
    doubtful : whether the words leave open that it is there
    """

    line: int
    product: Product
    number: int | None = None
    words: str = ""
    counted: bool = False
    doubtful: bool = False


def mentions_in(text: str) -> Iterator[Mention]:
    """Yield each product once that a person or a program says to be there."""
    found: dict[Vendor, dict[tuple[frozenset[str], int | None], Mention]] = {}
    doubtful: dict[frozenset[str], Mention] = {}
    lines = (line[:LINE_LIMIT] for line in told_lines(text))
    telling = ((number, line) for number, line in enumerate(lines) if _may_name(line))
    for number, line in islice(telling, LINES_AT_MOST):
        for one in _of_line(number, line):
            if one.doubtful:
                doubtful.setdefault(product_of(one.product.name), one)
                continue
            own = found.setdefault(one.product.vendor, {})
            key = product_of(one.product.name), one.number
            last = own.setdefault(key, one)
            best = one if last.product.total_bytes is None and one.product.total_bytes else last
            count = max(last.product.count, one.product.count)
            own[key] = replace(best, product=replace(best.product, count=count))
    for own in found.values():
        if any(not is_vague(one.product.name) for one in own.values()):
            for key in [key for key, one in own.items() if is_vague(one.product.name)]:
                del own[key]
        numbered = {words for words, number in own if number is not None}
        for key in [key for key in own if key[1] is None and key[0] in numbered]:
            del own[key]
        if (
            all(number is not None or one.counted for (_, number), one in own.items())
            or len({words for words, _ in own}) <= PRODUCTS_AT_MOST
        ):
            yield from own.values()
    if not found and len(doubtful) <= PRODUCTS_AT_MOST:
        yield from doubtful.values()
    own_vendors = [next(filter(None, match.groups())) for match in _MY_VENDOR.finditer(text)]
    for name in [*own_vendors, *_THE_VENDOR.findall(text)] if own_vendors else ():
        vendor = vendor_named_in(name)
        if vendor and vendor not in found:
            found[vendor] = {}
            yield Mention(0, Product(vendor, "", 0, 0))


def _may_name(line: str) -> bool:
    folded = line.lower()
    return any(hint in folded for hint in _HINTS)


def _numbered(vendor: Vendor, match: re.Match[str], line: str) -> Product:
    """Return the product whose number a pattern found, with the memory that stands behind it."""
    group = match.lastindex or 1
    total = re.match(r"\s?\(?(\d{1,2})\s?GB?\b", line[match.end(group) :], re.I)
    size = int(total[1]) << 30 if total else None
    many = re.search(
        rf"\b(\d{{1,2}}|{'|'.join(COUNTS)})(?:x| x)?(?: my)? ?$", line[: match.start(group)], re.I
    )
    said = (
        many[1].lower()
        if many
        and (
            re.search(r"\dx ?$", line[: match.start(group)], re.I)
            or re.match(r"'?s\b| GPUs| cards", line[match.end(group) :])
        )
        else "1"
    )
    count = min(COUNTS.get(said) or int(said) or 1, GPUS_AT_MOST)
    return Product(vendor, match[group], match.start(group), match.end(group), count, size)


def _around(line: str, product: Product) -> str:
    """Return the signs beside a product; underscores make it a part of a name in code."""
    return line[max(0, product.start - 1) : product.start] + line[product.end : product.end + 1]


def _of_line(number: int, line: str) -> Iterator[Mention]:
    bare = re.sub(
        r"^(#+ |[>*\u2022`+\s-]+|\[(?!previous|old)[^\]\d]{2,40}\]:?\s)+", "", line, flags=re.I
    ).rstrip(" *`")
    friends = _FRIEND.search(bare)
    asks = _ASKS.search(bare)
    products = [] if _OF_CPU.search(bare) else products_in(bare)
    if asks and not products:
        answer = products_in(bare[asks.end() :][:40], asked=True)
        shift = asks.end()
        products = [replace(one, start=one.start + shift, end=one.end + shift) for one in answer]
    own = None if products else _OF_MAC.search(bare) or _BARE.search(bare)
    if own:
        maker: Vendor = "apple" if own.re is _OF_MAC else "nvidia"
        products = [_numbered(maker, match, bare) for match in own.re.finditer(bare)]
    listed = bool(len(bare) < 160 and "," in bare and _SPECS.search(bare)) or bare.count(" + ") > 1
    last = 0  # where the one before ends, if it is there
    for product in products:
        before = bare[: product.start]
        mark = _MARK.search(before[-CLAUSE:])
        alone = len(bare) - (product.end - product.start) <= 24 or line.lstrip().startswith("#")
        joined = last and _JOINED.fullmatch(bare[last : product.start])
        mine = _MINE.search(before) or asks or own or joined or listed
        after = re.split(r"[.!?](?=\s)", bare[product.end :], maxsplit=1)[0][: CLAUSE // 2]
        clause = re.split(r"[.!?]\s", before[-CLAUSE:])[-1]
        general = _GENERAL.search(clause + bare[product.start : product.end] + after)
        sure = own and own.re is _BARE
        if _ASKED.search(bare[product.end :]) and not (sure or _OWN.search(bare)):
            general = _ASKED.search("?")
            mark = None if re.search(r"\bor\b", bare) else mark
        if _SURELY_MINE.search(before):
            general = None
        elif friends:
            continue
        inside = re.search(r"\b(?:w/|with) ?$", before) and re.search(r"\d{3}[MS]\b", product.name)
        which = next((int(part) for part in mark.groups() if part), None) if mark else None
        such = re.search(r"\b(?:such as|like|e\.g\.?)(?: an?| the)?(?: \S+)? ?$", before)
        marked = mark and not (which is None and such)
        if _GONE.search(before) or _ELSEWHERE.search(before):
            continue
        if re.match(r"\s?(?:v?bios|firmware)\b", bare[product.end :], re.I):
            continue
        if marked or inside or ((alone or mine) and not general):
            last = product.end
            same = 1 + sum(
                one.name == other.name == product.name
                and bool(_LISTED.search(bare[one.end : other.start]))
                for one, other in pairwise(products)
            )
            # T-Rex writes the bus in the place of the device: [00:01.0].
            shown = len(products) == 1 and not re.search(r"\[\d\d:", bare)
            product = replace(product, count=max(same, product.count))
            yield Mention(number, product, which, bare if shown else "", bool(_MANY.search(bare)))
        elif not general and product_of(product.name) and "_" not in _around(bare, product):
            alone = len(products) == 1
            yield Mention(number, product, None, bare if alone else "", doubtful=True)
