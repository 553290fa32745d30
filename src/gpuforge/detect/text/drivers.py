"""Versions and names of drivers in prose, and the makers that they imply."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuforge import registry
from gpuforge.detect import pci_ids
from gpuforge.detect.text.clauses import PERHAPS, THERE, evidence_of, form
from gpuforge.facts import Vendor

_VERSION = (
    r"(?<![\d.])(\d{3}\.\d{2,3}(?:\.\d{1,2})?(?=\.0\.0\b)|\d{3}\.\d{2,3}(?:\.\d{1,2})?|5\d0\.\d\.\d|\d{1,2}\.\d{1,3}\.\d{1,5}\.\d{1,5}|"
    r"\d{4}\.\d(?= \(HSA))(?=\.0\.0\b|(?![\d.]))"
)
OF_DRIVER = re.compile(_VERSION)
# A version that is a whole answer, such as Mesa's; NVIDIA's would be that of CUDA.
_WHOLE = r"^\W*v?(\d{1,2}(?:\.\d{1,3}){1,2})\W*$"
# Version schemes of packages: Adrenalin's year and month, Intel's build and compute runtime.
PACKAGE = {
    "amd": rf"\b(\d\d\.\d{{1,2}}\.\d{{1,2}})\b|{_WHOLE}",
    "intel": rf"(?<![\d.])(\d{{2,3}}\.\d{{4}}|\d\d\.\d\d\.\d{{5,6}})\b(?!\.)|{_WHOLE}",
    "nvidia": r"^(?:nvidia[ -]+)?v?([3-6]\d\d)\b(?![.-]\d)",
}
OF_GL = re.compile(
    r"(?:\bNVIDIA (?=\d{3}\.)|\bBuild (?=\d+(?:\.\d+){3})|"
    r"\bContext(?: [\d.]+)? (?=\d\d\.\d+\.\d{5}\.))(\d{2,3}\.\d{1,3}(?:\.\d{1,5}){0,2})\b"
)
_MODULE = re.compile(
    r"^filename:\s+\S*/nvidia\S*\.ko\S*\n(?:.*\n){0,4}?version:\s+([2-6]\d\d\.[\d.]+)", re.I | re.M
)
_OF_NVIDIA = re.compile(r"\bnvidia-smi\b|\bNVML\b|\bcu(?:da|dnn)(?![a-z])", re.I)
# Not what ubuntu-drivers offers: "nvidia-340 - distro non-free recommended".
KERNEL_DRIVER = re.compile(
    r"(nvidia|amdgpu|radeon|nouveau|i915|xe)(?=$|[\s,(-])(?!\S* - (?:distro|third-party))", re.I
)


# How the makers number drivers, with the maker that the number shows; None: what stands around it.
_NUMBERS: tuple[tuple[Vendor | None, str], ...] = (
    ("nvidia", r"\d{2}\.\d{2}\.1[1-6]\.\d{4}|[2-6]\d\d\.\d{2}(?:\.\d{1,2})?|5\d0\.\d\.\d"),
    ("intel", r"(?:2\d|3[0-3])\.\d{1,2}\.10[01]\.\d{4}"),
    ("amd", r"(?:2[5-9]|3[0-3])\.\d{1,2}\.\d{5}\.\d{4,5}|2\d(?:\.\d\d){3}"),
    ("amd", r"(?:[89]|1[2-9])\.\d{3}(?:\.\d{1,4}){2}"),
    ("amd", r"[12]\d\.(?:[1-9]|1[0-2])\.[1-9]"),
)
_CALLED = (
    r"d(?:ri|ir)vers?\b|treiber|pilotes?\b|controlador|adrenalin|catalyst|crimson|sürücü|ovladač"
)
_CALLED += "|radeon ?software|sterownik|драйвер|驱动|ドライバ|드라이버"
_OTHERS = "mesa|kernel|linux|ubuntu|vulkan|opengl|cuda|rocm|python|windows|wine|dxvk"
_DRIVER = re.compile(_CALLED, re.I)
# Between the word and its number stand words that say nothing else; the number may come first.
_NUMBER = re.compile(
    rf"(?:(?:{_CALLED})(?P<between>(?:(?!{_OTHERS})[^.;!?\n]){{0,40}}?)|(?:^|(?<=\s))@\s|(?P<beside>\]\[))?"
    rf"(?<![\d.])v?(?P<number>{'|'.join(f'(?:{form})' for _, form in _NUMBERS)})(?![\d.]*\d)"
    rf"(?P<after>[^.;,!?\n]{{0,24}}?(?:{_CALLED}))?",
    re.I,
)


# AMD's package for Linux, by year and month: "AMD drivers 20.40", "amdgpu-pro 17.40".
_AMDGPU_PRO = re.compile(
    r"\bamd(?:gpu)?(?:[- ]pro)?(?: linux)?(?: drivers?)?(?: version)? +"
    r"(?P<number>(?:1[6-9]|2[0-3])\.[1-6]0)\b",
    re.I,
)


def told_drivers(text: str) -> dict[Vendor, str]:
    """Return the version of each maker's driver that sentences tell of, the surest of each."""
    best: dict[Vendor, tuple[int, str]] = {}
    for line in text.splitlines():
        if not _DRIVER.search(line) and "][" not in line and "@ " not in line:
            continue
        for match in _NUMBER.finditer(line):
            if not any(match[name] is not None for name in ("between", "beside", "after")) and (
                not match[0].startswith("@")
            ):
                continue
            maker = next(m for m, form in _NUMBERS if re.fullmatch(form, match["number"]))
            begin, end = match.span("number")
            score = THERE + evidence_of("version", line, begin, end).score
            if maker and score >= PERHAPS and score > best.get(maker, (0, ""))[0]:
                best[maker] = score, match["number"]
    for line in text.splitlines() if "amd" not in best else ():
        pro = _AMDGPU_PRO.search(line)
        if pro and evidence_of("version", line, *pro.span("number")).score >= PERHAPS - THERE:
            best["amd"] = THERE, pro["number"]
    return {maker: version for maker, (_, version) in best.items()}


def nvidia_driver(text: str, labelled: str) -> tuple[str, bool]:
    """Return the version of NVIDIA's driver or ``""``, and whether it is certainly NVIDIA's.

    Parameters
    ----------
    labelled
        The driver's version according to a label of the text, which takes precedence.
    """
    module = _MODULE.search(text)
    own = labelled or _best("nvidia", text) or (module[1] if module else "")
    told = own or _best("said", text)
    found = told or _best("bare", text)
    if found.isdigit():  # another line may give the same version in full
        whole = re.search(rf"(?<![\d.]){found}\.\d{{2,3}}(?:\.\d{{1,2}})?(?![\d.]*\d)", text)
        found = whole[0] if whole else found
    return found, bool(own or (told and _OF_NVIDIA.search(text)))


def kernel_driver(text: str) -> str:
    """Return the kernel module that drives a card according to the text, or ``""``."""
    return _best("module_said", text).lower().replace("noveau", "nouveau")


def _best(name: str, text: str) -> str:
    """Return the most certain match in the lines of a text, or ``""``."""
    best, words = 0, ""
    for line in text.splitlines():
        for match in form("drivers", name).finditer(line):
            score = THERE + evidence_of("version", line, *match.span()).score
            if score >= PERHAPS and score > best:
                best, words = score, next(filter(None, match.groups()))
    return words


def makers_by_driver(text: str) -> Iterator[Vendor]:
    """Yield the makers whose driver or library prints lines in a text or is blamed there."""
    for maker, words in registry.table(__file__, "drivers")["makers"].items():
        if re.search(words.replace("\n", ""), text):
            yield maker


def paired_makers(text: str) -> list[Vendor]:
    """Return the makers of two GPUs named together in a text, as for a hybrid laptop."""
    for line in text.splitlines():
        pair = (
            form("drivers", "paired").search(line)
            if form("drivers", "hybrid").search(line)
            else None
        )
        if pair:
            named = (re.sub(r"(?i)^nv$", "nvidia", part) for part in pair.groups() if part)
            makers = (pci_ids.vendor_named_in(part) for part in named)
            return [maker for maker in makers if maker]
    return []
