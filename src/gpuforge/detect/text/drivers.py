"""Versions and names of drivers in the words of people, and makers that these words show."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuforge.detect import pci_ids
from gpuforge.detect.text.clauses import PERHAPS, THERE, evidence_of
from gpuforge.facts import Vendor

_VERSION = (
    r"(?<![\d.])(\d{3}\.\d{2,3}(?:\.\d{1,2})?|\d{1,2}\.\d{1,2}\.\d{1,5}\.\d{1,5}|"
    r"\d{4}\.\d(?= \(HSA))(?![\d.])"
)
OF_DRIVER = re.compile(_VERSION)
# What the makers call their packages on Windows: Adrenalin's year and month, Intel's build.
PACKAGE = {
    "amd": r"\b(\d\d\.\d{1,2}\.\d{1,2})\b",
    "intel": r"(?<![\d.])(\d{2,3}\.\d{4})\b",
    "nvidia": r"^(?:nvidia[ -]+)?v?([3-6]\d\d)\b(?!\.\d)",
}
OF_GL = re.compile(r"\bNVIDIA (\d{3}\.\d{2,3}(?:\.\d{1,2})?)\b")
_SAID_DRIVER = re.compile(
    r"\b(3[0-3]\.0\.1[0-9]\.\d{4})\b|"
    r"\b([3-6]\d\d\.\d{2,3}(?:\.\d{1,2})?) "
    r"(?:(?:nvidia|proprietary|official|open|studio|game ready) ){0,2}drivers?\b|"
    r"\bdrivers?(?: version)?[\s:=(v-]{1,3}(?:nvidia[ /-])?"
    r"([3-6]\d\d(?:\.\d{2,3}(?:\.\d{1,2})?)?)(?![\d.]*\d)",
    re.I,
)
_ADRENALIN = re.compile(
    r"(?<!using )(?<!above )(?<!recommend )\b(?:(radeon|amd|adrenaline?|crimson|catalyst)[ :]+"
    r"(?:software |edition |drivers? |version )*|drivers? (?:version )?)v?"
    r"([12]\d\.\d{1,2}\.\d{1,2})\b",
    re.I,
)
# What only one maker's driver writes or is blamed for.
_DRIVERS_WORDS: tuple[tuple[Vendor, str], ...] = (
    ("intel", "MESA-INTEL: "),
    ("nvidia", r"OpenGL vendor string: NVIDIA"),
    (
        "apple",
        r"\bMPS backend out of memory|\bdevice=mps\b|\bmps:0\b|"
        r"mps\.is_available\(\)\W{0,6}True",
    ),
    ("amd", r"\bin the amdgpu kernel driver|MESA: error: amdgpu|\[drm:amdgpu"),
    ("amd", r"failed to (?:open|load driver:) (?:radeonsi|r600)\b"),
    ("intel", r"failed to (?:open|load driver:) (?:iris|crocus|i965)\b|(?:i965|iHD)_drv_video\.so"),
    ("amd", r"(?:radeonsi|r600)_drv_video\.so|(?:version\W{1,6}|`)[\d.]+\+rocm\d"),
    ("nvidia", r"failed to (?:open|load driver:) nouveau\b"),
)
# Two makers side by side in a line that speaks of two GPUs.
_HYBRID = re.compile(
    r"\bhybrid|\boptimus\b|\biGPU\b|\bintegrated\b|(?:\b(?:two|both|dual)\b|2).{0,20}(?:card|gpu)",
    re.I,
)
_PAIRED = re.compile(
    r"\b(intel|amd|nvidia)(?: (?:integrated (?:gpu|graphics)|igpu|graphics|u?hd|\d{3,4})){0,3} ?"
    r"(?:\+|and|&) ?(nv(?:idia)?|amd|intel)\b",
    re.I,
)
_BRANCH = r"([2-6]\d\d(?:\.\d{2,3}(?:\.\d{1,2})?)?)(?![\d.]*\d|\s?(?:MB|GB|W|MHz|fps|x)\b)"
_NVIDIA_DRIVER = re.compile(
    r"\bnvidia(?:'s)? (?:\w+ ){0,3}?"
    r"drivers?(?: version| ver\.?| is| was| branch| series|\W{1,4}v?){0,3}"
    rf"(?<=[ (:=v,r-]){_BRANCH}|"
    r"\bnvidia(?:-(?:linux-x86_64|drivers?|dkms|open|headless|utils|current|legacy))*"
    rf"[-/]{_BRANCH}|"
    r"\bnvidia v?([3-6]\d\d)(?:xx|\.x+)? (?:series )?drivers?\b|"
    rf"\bnvidia[ ,]+v?([3-6]\d\d\.\d{{2,3}}(?:\.\d{{2}})?)\b|\bdkms\b.{{0,30}} nvidia -v {_BRANCH}",
    re.I,
)
_MODULE = re.compile(
    r"^filename:\s+\S*/nvidia\S*\.ko\S*\n(?:.*\n){0,4}?version:\s+([2-6]\d\d\.[\d.]+)", re.I | re.M
)
_OF_NVIDIA = re.compile(r"\bnvidia-smi\b|\bCUDA Version\s*:", re.I)
_MODULE_SAID = re.compile(
    r"\b(nouveau|noveau|amdgpu|i915|xe)(?: kernel| open[ -]source)? (?:driver|module)|"
    r"\((i915|xe|amdgpu|nouveau)\)|"
    r"\b(?:using|with|running|on) (?:the )?(?:open[ -]source )?(nouveau|noveau)\b",
    re.I,
)
KERNEL_DRIVER = re.compile(r"(nvidia|amdgpu|radeon|nouveau|i915|xe)(?=$|[\s,(-])", re.I)
BESIDE = re.compile(
    rf"^\s*[,(/]?\s?(\d\d\.\d{{1,2}}\.\d{{1,5}}\.\d{{1,5}}|(?<=/ )\d{{3}}\.[\d.]+)\b|"
    rf"^[^,]{{0,30}}[,(\[ ]\s*(?:(?:nvidia |gpu )?drivers?(?: version)?|nvidia;|intel corporation;|"
    rf"advanced micro devices, inc\.;|amd;|[\w.]+\.dll|d3d11-)[\s:=v-]*{_VERSION}",
    re.I,
)


def amd_package(text: str) -> tuple[str, bool] | None:
    """Return the version of AMD's driver package on Windows, and whether AMD is named with it."""
    found = None if re.search("mesa", text, re.I) else _ADRENALIN.search(text)
    return (found[2], bool(found[1])) if found else None


def nvidia_driver(text: str, labelled: str) -> tuple[str, bool]:
    """Return the version of NVIDIA's driver or ``""``, and whether it is surely NVIDIA's.

    Parameters
    ----------
    labelled
        What a label of the text says of it; this counts first.
    """
    module = _MODULE.search(text)
    own = labelled or _best(_NVIDIA_DRIVER, text) or (module[1] if module else "")
    return own or _best(_SAID_DRIVER, text), bool(own or _OF_NVIDIA.search(text))


def kernel_driver(text: str) -> str:
    """Return the module of the kernel that a person says to drive a card, or ``""``."""
    return _best(_MODULE_SAID, text).lower().replace("noveau", "nouveau")


def _best(form: re.Pattern[str], text: str) -> str:
    """Return what the surest match in the lines of a text says, or ``""``."""
    best, words = 0, ""
    for line in text.splitlines():
        for match in form.finditer(line):
            score = THERE + evidence_of("version", line, *match.span()).score
            if score >= PERHAPS and score > best:
                best, words = score, next(filter(None, match.groups()))
    return words


def makers_by_driver(text: str) -> Iterator[Vendor]:
    """Yield the makers whose driver or library writes in a text, or is blamed there."""
    for maker, words in _DRIVERS_WORDS:
        if re.search(words, text):
            yield maker


def paired_makers(text: str) -> list[Vendor]:
    """Return the makers of two GPUs that a text names together, as of a hybrid laptop."""
    for line in text.splitlines():
        pair = _PAIRED.search(line) if _HYBRID.search(line) else None
        if pair:
            named = (re.sub(r"(?i)^nv$", "nvidia", part) for part in pair.groups() if part)
            makers = (pci_ids.vendor_named_in(part) for part in named)
            return [maker for maker in makers if maker]
    return []
