"""The host that a text tells of: its system, processor and C library."""

from __future__ import annotations

import re

from gpuforge.detect.notation import whole, word
from gpuforge.detect.seen import Seen
from gpuforge.detect.source import WSL

PROGRAM = "lines"
# Of each platform, lines that only it writes; the first platform that is told of counts.
PLATFORMS = {
    "wsl2": (WSL,),
    "windows": (
        r"^[ \t]*OS\s*: (Microsoft )?Windows",
        r"Python platform\s*: Windows|system='Windows'|^[ \t]*Operating System: Windows",
        r"\bMSC v\.\d|with MSVC|\bnvcuda\.dll|^[ \t]*PNP Device ID\s+PCI",
        r"^PS [A-Z]:\\|^[A-Z]:\\[\w\\ .-]*>",
        r"^[ \t]*\|.*(TCC/WDDM|\bWDDM\s+\|)",
    ),
    "macos": (
        r"^[ \t]*OS\s*: (macOS|Mac OS)",
        r"Python platform\s*: (macOS|Darwin)|Darwin Kernel Version",
    ),
    "freebsd": (r"\bFreeBSD \d+\.\d",),
    "jetson": (r"L4T|\bJetson (Orin|Xavier|Nano|AGX|TX)|-tegra\b",),
    "linux": (
        r"^[ \t]*OS\s*: (?!Microsoft|mac|Mac|Windows)\S",
        r"[Pp]latform\s*: Linux|^Linux \S+ \d+\.\d+|Linux version \d|system='Linux'",
        r"operatingSystem: linux|kubernetes\.io/os[=:]\s*\"?linux",
    ),
}
FACTS = {
    "cpu_model": (r"^[ \t]*[Mm]odel name\s*:\s+(\S.*)$", r"^CPU:\s*\n\s*Name: (\S.*)$"),
    "machine": (
        r"^[ \t]*Architecture:\s+(x86_64|aarch64|arm64|ppc64le)\b",
        r"^[ \t]*OS\s*: .*\((x86_64|aarch64|arm64)\)",
        r"^Linux \S+ \d.* (x86_64|aarch64) GNU/Linux",
        r"[Pp]latform: .*-(x86_64|aarch64|arm64)-",
    ),
    "cores": (r"^[ \t]*CPU\(s\):\s+(\d+)$",),
    "libc": (r"^[ \t]*Libc version\s*:\s+(glibc-[\d.]+)", r"-with-(glibc\d[\d.]+)"),
}


def read(text: str, route: str, seen: Seen) -> None:
    """Add what a text says of the host."""
    for platform, patterns in PLATFORMS.items():
        if "platform" not in seen.host and any(re.search(one, text, re.M) for one in patterns):
            seen.host["platform"] = platform
    for fact, patterns in FACTS.items():
        found = (re.search(pattern, text, re.M) for pattern in patterns)
        shown = next((word(match[1]) for match in found if match), None)
        if shown and fact == "cores":
            seen.host[fact] = whole(shown)
        elif shown:
            seen.host[fact] = re.sub(r"^glibc-?(?=\d)", "glibc ", shown)
