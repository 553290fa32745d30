"""The host that a text describes: system, processor and C library, by ``host_lines.toml``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from gpuforge import registry
from gpuforge.detect.notation import kept, size, whole, word
from gpuforge.detect.seen import HEARSAY, Seen, Sighting
from gpuforge.detect.source import WSL
from gpuforge.detect.text.labels import Label, labels_of, told_lines
from gpuforge.detect.text.products import OF_PROCESSOR, products_in
from gpuforge.facts import Vendor

PROGRAM = "lines"
LINE_LIMIT = 600
_CPU_ALONE = re.compile(
    r"^\W{0,3}((?:\d+th Gen )?(?:AMD |Intel(?:\(R\))? )?"
    r"(?:Ryzen|Core\b(?=(?:\(TM\))? (?:i\d|Ultra|2|Duo|m\d))|Xeon|EPYC"
    r"|i[3579]-\d|Threadripper)\b[^,;+\n]{2,50}?)(?=$|[,;]| \+| with )",
    re.M,
)
_CPU = re.compile(
    r"^(?!.*\b(?:erratum|microcode)\b).*?"
    r"\b(Intel|AMD|(?i:Ryzen|EPYC|Xeon)|Core|i[3579][- ]\d|Celeron|Pentium|Phenom|Athlon|"
    r"Threadripper|"
    r"Apple M\d|R[3579][- ]\d{4}|Atom|\d{4}X(?:3D)?|1[0-4]\d00\w?|ARM|Cortex|Neoverse|Ampere|"
    r"POWER\d)\b"
)
# What follows a processor's name: another fact, its memory, its cores and threads.
_BEHIND = re.compile(
    r" \||\s(?:com|mit|avec|con|with|с) \d+\s| ; | \(\d+ MiB| \((?:\d+C[/ ,]|Zen)|\s+\(\d+ CPUs\)"
    r"| , (?:Genuine|Auth)\w+|, \d+ ?[Mm][Hh]z\b|\s+\(\d+(?:\.\d+)? ?[MG]Hz\)|, \d+ threads\b"
)
_CORES = re.compile(r" (?:dual|quad|hexa|octa|six|eight)[ -]core\b.*$", re.I)
_GLIBC = re.compile(r"^(?:glibc\D*)?(?=\d)", re.I)
# What joins a processor with the GPU named behind it.
_JOINT = re.compile(r"(?:(?<=\s)\+|[\s,;&/(|–—-])*(?:\b(?:and|with|w/))?[\s(]*$")
# A system alone on its line, as a form's checked box or chosen answer: "Windows (CUDA)".
_CHECKED = re.compile(
    r"^\s*(?:[-*•]\s+)?(windows|linux|mac ?os(?: ?x)?)(?:\s\d[\d.]*)?(?:\s\([^()\n]{1,40}\))?\s*$",
    re.I | re.M,
)
# A question says nothing about the system, unless it is about the writer's own.
_QUESTION = re.compile(r"(?:^|(?<=[.!?\n]))(?![^.!?\n]*\b[Mm]y\b)[^.!?\n]*\?(?=\s|$)")


@cache
def _words(table: str) -> dict[str, re.Pattern[str]]:
    """Return the patterns of ``systems``, for answers or for prose."""
    words: dict[str, str] = registry.table(__file__, "host_lines")[table]
    return {name: re.compile(form.replace("\n", ""), re.I) for name, form in words.items()}


@cache
def _lines(table: str) -> dict[str, list[re.Pattern[str]]]:
    """Return the patterns of ``platforms`` or ``facts``."""
    lines: dict[str, list[str]] = registry.table(__file__, "host_lines")[table]
    found = {
        name: [re.compile(form.replace("\n", ""), re.M) for form in forms]
        for name, forms in lines.items()
    }
    if table == "platforms":
        found["wsl2"].insert(0, re.compile(WSL, re.M))
    return found


@cache
def _spoken() -> re.Pattern[str]:
    """Return the pattern of phrases in which people say which system they use."""
    linux = _words("systems")["linux"].pattern
    return re.compile(
        rf"\b(?<!works )(?<!tested )(?:on|use|using|running|run|under)\s+"
        rf"(?:an?\s|both\s|latest\s|my\s|the\s)?"
        rf"((?:windows|win)\s?(?:7|8|10|11)?\b|(?:{linux})|mac\s?os\b)|"
        r"^\W*((?:Windows|Win)\s?(?:7|8|10|11|XP|Server)\b.{0,30}|"
        r"(?:Linux|Ubuntu|Debian|Fedora)\s\d.{0,30})$|"
        r"\b(?<!works on )((?:[xkl]?ubuntu|linux ?mint|debian|fedora|centos|manjaro|windows|macos)"
        r"\s?\d\d?(?:\.\d+)?)\b|(?<![a-z])(win(?:7|8|10|11))\b",
        re.I | re.M,
    )


def read(text: str, route: str, seen: Seen) -> None:
    """Add what a text says about the host."""
    told = labels_of(text)
    text = "\n".join(line[:LINE_LIMIT] for line in told_lines(text))
    for platform, patterns in _lines("platforms").items():
        if "platform" not in seen.host and any(one.search(text) for one in patterns):
            seen.host["platform"] = platform
    for fact, patterns in _lines("facts").items():
        found = (pattern.search(text) for pattern in patterns)
        shown = next((word(match[match.lastindex or 1]) for match in found if match), None)
        if shown and fact in ("cores", "memory_total_bytes"):
            seen.host.update(kept(**{fact: whole(shown) if fact == "cores" else size(shown, "M")}))
        elif shown:
            shown = "x86_64" if shown == "amd64" else shown
            seen.host[fact] = _GLIBC.sub("glibc ", shown) if fact == "libc" else shown
    for label in told:
        for fact, value in _labelled(label).items():
            seen.host.setdefault(fact, value)
    asked = _QUESTION.sub("", text)
    if "cpu_model" not in seen.host and (alone := _CPU_ALONE.search(text)):
        model = alone[1].partition(" |")[0]
        seen.host["cpu_model"] = _without_gpu(_CORES.sub("", model)).strip()
    elif "cpu_model" not in seen.host and (named := _words("spoken")["cpu_model"].search(asked)):
        seen.host["cpu_model"] = named[0]
    if "platform" not in seen.host:
        seen.host.update(kept(platform=_named_system(asked)))
    system = seen.host.get("platform"), seen.host.get("machine")
    if system[0] == "jetson" or system == ("macos", "arm64"):  # each has a GPU of its maker
        maker: Vendor = "nvidia" if system[0] == "jetson" else "apple"
        seen.sightings.append(Sighting(maker, "labels", {}, HEARSAY, everywhere=True))


def _system_in(answer: str) -> str | None:
    """Return the first of the systems that an answer names."""
    return next((name for name, form in _words("systems").items() if form.search(answer)), None)


def _labelled(label: Label) -> Mapping[str, str]:
    """Return the facts that a label gives."""
    found: dict[str, str | None] = {}
    if "platform" in label.facts:
        found["platform"] = _system_in(label.value)
    if "machine" in label.facts and label.value in ("x86_64", "aarch64", "arm64"):
        found["machine"] = label.value
    if "cpu" in label.facts and _CPU.search(label.value) and ": " not in label.value:
        model = _BEHIND.split(re.sub(r"^\d+ ?[×x] ", "", label.value))[0]
        found["cpu_model"] = _without_gpu(model).strip("*`'\" |").rstrip(" .")
    return kept(**found)


def _without_gpu(model: str) -> str:
    """Return what a label says about the processor up to a GPU that is no part of its name."""
    for product in products_in(model):
        if not OF_PROCESSOR.search(model[: product.start]) and product.start:
            model = _JOINT.sub("", model[: product.start])
    return model


def _named_system(text: str) -> str | None:
    """Return the system that the writer claims to use, or else the only one named."""
    checked = {_system_in(system) for system in _CHECKED.findall(text)}
    if len(checked) == 1:
        return checked.pop()
    spoken = _spoken().search(text)
    if spoken and (system := _system_in(next(filter(None, spoken.groups())))):
        return system
    named, hints = (
        [name for name, form in _words(table).items() if form.search(text)]
        for table in ("named", "hints")
    )
    told = [name for name in hints if name in named] if len(named) > 1 else named or hints
    return told[0] if len(told) == 1 else None
