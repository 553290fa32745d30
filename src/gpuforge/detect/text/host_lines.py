"""The host that a text tells of: its system, processor and C library."""

from __future__ import annotations

import re

from gpuforge.detect.notation import kept, whole, word
from gpuforge.detect.seen import Seen
from gpuforge.detect.source import WSL
from gpuforge.detect.text.labels import labels_of, told_lines

PROGRAM = "lines"
LINE_LIMIT = 600
# Systems by the words in which people answer for theirs; the first that an answer holds counts.
SYSTEMS = {
    "wsl2": r"\bWSL ?2?\b",
    "windows": r"\bWin(dows|32|64)?\s?(\d|XP|Vista|NT|Server|x64|-|$)|\bWindows\b",
    "macos": (
        r"\b(mac\s?OS|Mac[Bb]ook|Mac|Darwin|OS ?X|Sonoma|Ventura|Monterey|Sequoia|Tahoe|Big Sur)\b"
    ),
    "freebsd": r"\bFreeBSD\b",
    "jetson": r"\b(Jetson|JetPack|L4T)\b",
    "linux": (
        r"linux|ubuntu|kde neon|debian|fedora|centos|rhel|red ?hat|\brocky\b|\balma|"
        r"\barch\b(?!-|itect)|"
        r"mint\b|nixos|gentoo|pop[!_ ]*os|\bkali\b|endeavour|cachyos|bazzite|zorin|alpine|sles|"
        r"(?:open)?suse|manjaro|elementary os|\bvoid\b|slackware|garuda|proxmox|unraid|steamos|"
        r"deepin|kylin|raspbian|silverblue|bluefin|tumbleweed|truenas|\bLTS\b|jellyfish|"
        r"bookworm|bullseye|trixie"
    ),
}
# Names of systems that tell where a text names only one of them.
NAMED = {
    "windows": r"(?<!like )\b(?:Windows?|Win)[ -]?(?:7|8|8\.1|10|11|XP|Vista)\b|\bin Windows\b|"
    r"(?<![a-z])win_?(?:64|amd64)\b|\.(?:dll|exe)\b|"
    r"\bWindows\b(?! (?:key|\d))|\bMSVC\b|\bD(?:irect)?3D1[12]\b|\bPowerShell\b",
    "macos": r"\bmac ?OS\b|\bOS ?X\b|\bapple silicon\b|/opt/homebrew|\b(?:my|a|just) mac\b",
    "linux": (
        r"\bLinux\b|(?<![a-z])(?:[xk]?ubuntu|debian|fedora|centos|gentoo|manjaro|nixos|opensuse|"
        r"proxmox|kali|rhel|rocky|hive ?os|[kl]ubuntu|artix|amazon linux|almalinux|endeavouros|"
        r"garuda|zorin|mint|pop!?_os|bazzite|unraid|truenas|qubes)(?![a-z])|\barch-?linux\b|"
        r"\bnouveau\b|\bHAOS\b|Home Assistant OS|\bpacman -|\bapt(?:-get)? install|"
        r"\.so(?:\.\d+)+\b|dist-packages|\bradv\b|"
        r"\bWayland\b|\bx\.org\b"
    ),
}
_CPU_ALONE = re.compile(
    r"^\W{0,3}((?:\d+th Gen )?(?:AMD |Intel(?:\(R\))? )?"
    r"(?:Ryzen|Core\b(?=(?:\(TM\))? (?:i\d|Ultra|2|Duo|m\d))|Xeon|EPYC"
    r"|i[3579]-\d|Threadripper)\b[^,;\n]{2,50})(?=$|[,;])",
    re.M,
)
_SPOKEN = re.compile(
    rf"\b(?<!works )(?<!tested )(?:on|use|using|running|run|under)\s+"
    rf"(?:an?\s|both\s|latest\s|my\s|the\s)?"
    rf"((?:windows|win)\s?(?:7|8|10|11)?\b|(?:{SYSTEMS['linux']})|mac\s?os\b)|"
    r"^\W*((?:Windows|Win)\s?(?:7|8|10|11|XP|Server)\b.{0,30}|"
    r"(?:Linux|Ubuntu|Debian|Fedora)\s\d.{0,30})$|"
    r"\b(?<!works on )((?:[xkl]?ubuntu|linux ?mint|debian|fedora|centos|manjaro|windows|macos)"
    r"\s?\d\d?(?:\.\d+)?)\b|(?<![a-z])(win(?:7|8|10|11))\b",
    re.I | re.M,
)
_CPU = re.compile(
    r"\b(Intel|AMD|Ryzen|EPYC|Xeon|Core|i[3579][- ]\d|Celeron|Pentium|Phenom|Athlon|Threadripper|"
    r"Apple M\d|ARM|Cortex|Neoverse|Ampere|POWER\d)\b"
)
# Of each platform, lines that only it writes; the first platform that is told of counts.
PLATFORMS = {
    "wsl2": (
        WSL,
        r"(?i)\b(?:on|in|under|inside|using|via|from|windows) (?:windows |the |a )?WSL(?:\s?2|"
        r"g)?\b|^#+ WSL Version",
    ),
    "windows": (
        r"^[ \t]*OS\s*: (Microsoft )?Windows",
        r"Python platform\s*: Windows|system='Windows'|^[ \t]*Operating System: Windows",
        r"\bMSC v\.\d|with MSVC|\bMSVC/20\d\d|\bnvcuda\.dll|^[ \t]*PNP Device ID\s+PCI",
        r"^Running on 64 bit Windows",
        r"^(?:\([\w.-]+\) )?PS [A-Z]:\\|^[A-Z]:\\[\w\\ .-]*>",
        r"^[ \t]*\|.*(TCC/WDDM|\bWDDM\s+\|)",
        r"\b[A-Za-z]:\\{1,2}[\w .-]+\\|^.{0,60}\bLogWindows: |(?<!\w)[A-Z]:/(?!/)[A-Z]\w",
        r"\bWindows [Vv]ersion: \d|\bLogD3D1[12]RHI:|Memory Stats for Windows",
        r"\breg query|\bcmd\.exe\b|\bDirect3D\d+(Ex)? vs_|\bDriverVersion=\d+\.|"
        r"Initializing D3D1\d|\[Windows\]",
    ),
    "freebsd": (r"\bFreeBSD[ -]\d+\.\d|root@FreeBSD\b",),
    "macos": (
        r"^[ \t]*OS\s*: (macOS|Mac OS)",
        r"Python platform\s*: (macOS|Darwin)|Darwin Kernel Version|ggml_metal_|MTLGPUFamily",
        r"\bMPS backend\b|SPDisplaysDataType|applegpu_|^Model: (MacBook|iMac|Mac\d|Macmini)",
        r"/Contents/MacOS/|/System/Library/Frameworks/|(?<![\w:.])/Users/\w|"
        r"Metal device set to: |\(MoltenVK\)",
        r"MTLDriver\b|\bMac[Bb]ook\b|\bMac (?:Studio|Mini|Pro)\b|-apple-(?:darwin|macos)",
    ),
    "jetson": (r"L4T|(?i:\bjetson (?:orin|xavier|nano|agx|tx)|\bjetpack \d|\bTX[12]\b)|-tegra\b",),
    "linux": (
        r"^[ \t]*OS\s*: (?!Microsoft|mac|Mac|[Ww]in)\S",
        r"[Pp]latform\s*: Linux|^Linux \S+ \d+\.\d+|Linux version \d|system='Linux'",
        r"\bPersistence-M\b",
        r"^name of display: :|LLVM [\d.]+, DRM \d|\bOS=Linux\b|x86_64 Linux \d|/dev/nvidia\d",
        r'"(?:OS|os|[Ss]ystem|[Pp]latform|Name)"\s*:\s*"Linux',
        r"\b(x86_64|aarch64)-\w+-linux-gnu\b",
        r"\bKernel(?: Version)?: ?[2-7]\.\d+\.\d+[-.][a-z0-9]",
        r"\bkernel: [2-7]\.\d+\.\d+-|\broot=(?:/dev/|UUID=)|/proc/driver/nvidia/gpus",
        r"\bLinux [2-7]\.\d+|^\s*Kernel (?:driver in use|modules): ",
        r"/lib/python3\.\d+/(?:site|dist)-packages|/usr/lib/x86_64-linux|^/usr/(bin|lib|share)/",
        r"\bsudo (apt|dnf|pacman|lshw|dmesg|modprobe)\b",
        r"operatingSystem: linux|kubernetes\.io/os[=:]\s*\"?linux",
        r"\b(?:Running|Starting) Lutris \d|/share/lutris/",
        r"\b[3-7]\.\d{1,2}\.\d{1,3}-(?:\d{1,3}[-.])?(?:generic|lowlatency|amd64|pve|cloud|aws|"
        r"azure|cachyos|arch\d|zen\d|lts|fc\d\d|el\d)"
        r"|"
        r"\bDRM \d\.\d+(?:\.\d+)?, (?:LLVM|[3-7]\.)|\bMESA-INTEL: |\bradv is not a conformant|"
        r"\bkernel: |/usr/lib/xorg|"
        r"\b(?:nouveau|amdgpu|i915|xe|nvidia) [0-9a-f]{4}:[0-9a-f]{2}:",
        r"^\[[ \d.]{9,16}\] (?:pci |usb |nvidia|NVRM|amdgpu|i915|xe |rc |ACPI|input: |"
        r"Linux version)",
        r"(?i)^[\s*`-]*(?:linux )?kernel(?: version|"
        r" release)?[\s*`]*[:=][\s*`]*\[?[2-7]\.\d{1,2}\b",
        r"^[>`\s]*(?:0000:)?[0-9a-f]{2}:[0-9a-f]{2}\.\d (?:VGA|3D|Display) |/opt/rocm\b|/dev/dri\b",
        r"^\[?[\w.-]+@[\w.-]+[: ][~/][^\n$#]{0,60}[#$] |(?:^|[\s\"'(=`])/(?:etc|proc|sys|opt|"
        r"var)/\w|^/?(?:root|home)/\w|(?<=[\s\"'=:])/home/\w",
    ),
}
FACTS = {
    "cpu_model": (
        r"^[ \t]*[Mm]odel name\s*:\s+(\S.*)$",
        r"^CPU:\s*\n\s*Name: (\S.*)$",
        r"^\s*Device \d+: ((?:AMD Ryzen|AMD EPYC|Intel\(R\) (?:Core|Xeon))[^,\n]{3,60}?)\s*,",
        r"^\s*(?:Device Name\s{2,}|DEVICE:\s+\d+: ')((?:Intel\(R\) (?:Core|Xeon|Pentium|Celeron)|"
        r"AMD (?:Ryzen|EPYC|FX|A\d))[^'\n]{3,60}?)'?\s*$",
        r"^\s*(?:CPU: )?\d+x ((?:Intel|AMD)\S* .{6,50})$",
        r"^/0\S*\s+processor\s+(\S.{3,60})$",
        r"^Name=((?:Intel|AMD)\S* .*)$",
        r"^[\s*]*CPU ?[-–] ?((?:Intel|AMD|Ryzen)\S* .{3,50})$",
        r" - ((?:(?! - )[^\n]){6,60}?) \(\d+ [Tt]hreads\)",
    ),
    "machine": (
        r'"machine": "(x86_64|aarch64|arm64)"',
        r"^[ \t]*Architecture:\s+(x86_64|aarch64|arm64|ppc64le)\b",
        r"^[ \t]*OS\s*: .*\((x86_64|aarch64|arm64)\)",
        r"\b(x86_64|aarch64) GNU/Linux|\((x86_64|aarch64)\) (?:Ubuntu|Linux)",
        r"(?i)\b(?:linux|ubuntu|debian|fedora)\b[\w. ]{0,40} (x86_64|aarch64)\b(?!-)",
        r"\bLinux\b.{0,120}\bPREEMPT.{0,60}\b(x86_64|aarch64)\b",
        r"[Pp]latform: .*-(x86_64|aarch64|arm64)-",
        r"(?:\b[Aa]rch=|\barch: |\bmachine='|Kernel: (?:\d\S+ )?)(x86_64|aarch64|arm64)\b",
    ),
    "cores": (r"^[ \t]*CPU\(s\):\s+(\d+)$",),
    "libc": (r"^[ \t]*Libc version\s*:\s+(glibc-[\d.]+)", r"-with-(glibc\d[\d.]+)"),
}


def read(text: str, route: str, seen: Seen) -> None:
    """Add what a text says of the host."""
    told = labels_of(text)
    text = "\n".join(line[:LINE_LIMIT] for line in told_lines(text))
    for platform, patterns in PLATFORMS.items():
        if "platform" not in seen.host and any(re.search(one, text, re.M) for one in patterns):
            seen.host["platform"] = platform
    for fact, patterns in FACTS.items():
        found = (re.search(pattern, text, re.M) for pattern in patterns)
        shown = next((word(match[match.lastindex or 1]) for match in found if match), None)
        if shown and fact == "cores":
            seen.host[fact] = whole(shown)
        elif shown:
            seen.host[fact] = re.sub(r"^glibc-?(?=\d)", "glibc ", shown)
    for label in told:
        if "platform" in label.facts and "platform" not in seen.host:
            systems = (
                name for name, words in SYSTEMS.items() if re.search(words, label.value, re.I)
            )
            seen.host.update(kept(platform=next(systems, None)))
        if "machine" in label.facts and label.value in ("x86_64", "aarch64", "arm64"):
            seen.host.setdefault("machine", label.value)
        if "cpu" in label.facts and _CPU.search(label.value) and ": " not in label.value:
            model = re.split(r" \| | \(\d+ MiB", re.sub(r"^\d+ ?[×x] ", "", label.value))[0]
            seen.host.setdefault("cpu_model", model.strip("*`'\" |"))
    if "cpu_model" not in seen.host and (alone := _CPU_ALONE.search(text)):
        seen.host["cpu_model"] = alone[1].strip()
    told_of = re.sub(r"[^.!?\n]*\?(?=\s|$)", "", text)  # a question tells of no system
    if "platform" not in seen.host and (spoken := _SPOKEN.search(told_of)):
        answer = next(filter(None, spoken.groups()))
        systems = (name for name, words in SYSTEMS.items() if re.search(words, answer, re.I))
        seen.host.update(kept(platform=next(systems, None)))
    if "platform" not in seen.host:
        named = [name for name, words in NAMED.items() if re.search(words, told_of, re.I)]
        seen.host.update(kept(platform=named[0] if len(named) == 1 else None))
