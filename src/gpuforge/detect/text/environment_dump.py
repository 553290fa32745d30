"""Environment dumps: ``collect_env`` of PyTorch and vLLM, and those that include it."""

from __future__ import annotations

import re

from gpuforge.detect.notation import Facts, gfx, kept, lines_of, name_of, word
from gpuforge.detect.nvidia_smi import parse_list
from gpuforge.detect.seen import Seen, Sighting
from gpuforge.detect.text.products import products_in
from gpuforge.facts import Driver, Toolkit

PROGRAM = "lines"
_PAIR = re.compile(
    r"^[ \t*\-]{0,8}(PyTorch version|CUDA used to build PyTorch|ROCM used to build PyTorch|"
    r"CUDA runtime version|HIP runtime version|Nvidia driver version|cuDNN version|"
    r"Is CUDA available|Is XPU available)\s*:[ \t]*(\S.*)?$",
    re.I | re.M,
)
_MODELS = re.compile(
    r"^[ \t*\-]{0,8}GPU models and configuration\s*:[ \t]*(.*(?:\n[ \t]*GPU \d+: .*)*)", re.I | re.M
)
_INTEL = re.compile(r"^[ \t*\-]{0,8}Intel GPU models onboard:((?:\s*\n[ \t]*\* .*)+)", re.M)
# The heading of nvidia-smi's table, which is printed only where there is a GPU.
_HEADING = re.compile(
    r"^[ \t|]*NVIDIA-SMI [\d.]+\s+Driver Version: (\d{3}\.[\d.]+)"
    r"(?:\s+CUDA Version: (\d+\.\d))?",
    re.M,
)
# Placeholders for missing values.
_NOTHING = re.compile(r"no cuda|could not collect|n/?a|none|", re.I)


def read(text: str, route: str, seen: Seen) -> None:
    """Add the GPUs and versions of the dumps in a text."""
    said: dict[str, str] = {}
    for key, value in _PAIR.findall(text):
        value = (word(value) or "").strip("\"'`., ")
        if not _NOTHING.fullmatch(value):
            said.setdefault(key.lower(), value)
    rocm = "hip runtime version" in said or "rocm used to build pytorch" in said
    for number, models in enumerate(_MODELS.findall(text)):
        if not _NOTHING.fullmatch(models.strip(" .*\n")):
            first = " (first GPU)" if rocm else ""
            _add_models(models, rocm, f"environment dump {number}{first}", seen)
    for number, listed in enumerate(_INTEL.findall(text)):
        names = [line.strip(" \t*") for line in lines_of(listed) if line.strip()]
        devices: list[Facts] = [kept(name=name_of(name)) for name in names]
        seen.add("intel", f"environment dump {number}", devices, trust=2)
    if re.search(r"^OS\s*: macOS .*\(arm64\)", text, re.M):
        seen.sightings.append(Sighting("apple", "environment dump", {}, 2, everywhere=True))
    driver = re.match(r"\d+\.[\d.]+", said.get("nvidia driver version", ""))
    if driver:
        facts = {"driver": Driver("nvidia", driver[0]), "runtimes": (Toolkit("cuda"),)}
        seen.sightings.append(Sighting("nvidia", "environment dump", facts, everywhere=True))
    if (heading := _HEADING.search(text)) and "No devices were found" not in text:
        facts = {"driver": Driver("nvidia", heading[1])}
        facts |= {"runtimes": (Toolkit("cuda", heading[2]),)} if heading[2] else {}
        seen.sightings.append(Sighting("nvidia", "nvidia-smi", facts, 2, everywhere=True))
    built = re.search(r"PyTorch version \(GPU\?\): \S+\+cu(\d{2,3})(\d) \(True\)", text)
    if built:
        facts = {"runtimes": (Toolkit("cuda", f"{built[1]}.{built[2]}"),)}
        seen.sightings.append(Sighting("nvidia", "environment dump", facts, everywhere=True))
    versions = {
        "pytorch version": "torch",
        "cuda used to build pytorch": "torch's cuda",
        "rocm used to build pytorch": "torch's rocm",
        "cuda runtime version": "cuda toolkit",
        "cudnn version": "cudnn",
    }
    seen.toolkits += [
        Toolkit(name, re.split(r"[, ]", said[key])[0])
        for key, name in versions.items()
        if key in said and re.match(r"\d", said[key])
    ]


def _add_models(models: str, rocm: bool, route: str, seen: Seen) -> None:
    devices = [
        {k: v for k, v in facts.items() if k != "index"}
        for facts in parse_list(models.replace("\n\n", "\n")).devices
    ]
    names = [part for line in lines_of(models) if (part := line.strip())]
    parted = [re.fullmatch(r"(.+?)(?: \((gfx\w+)[^)]*\))?", name) for name in names]
    for model in parted if not devices else ():
        if model:
            products = products_in(model[1], asked=True)
            if len(products) > 1:
                devices += [kept(name=one.name) for one in products for _ in range(one.count)]
                continue
            many = products[0] if products and products[0].count > 1 else None
            name = many.name if many else name_of(model[1]) or model[1]
            facts = kept(name=name, architecture=gfx(model[2]))
            devices += [dict(facts) for _ in range(many.count if many else 1)]
    runtime = (Toolkit("rocm" if rocm else "cuda"),)
    devices = [{**facts, "runtimes": runtime} for facts in devices]
    seen.add("amd" if rocm else "nvidia", route, devices)
