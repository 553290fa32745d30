"""``gpuforge report-issue``: the data that a bug report needs, with private data masked."""

from __future__ import annotations

import argparse
import os
import platform
import re
from dataclasses import asdict
from pathlib import Path

from gpuforge import __version__, settings, stored
from gpuforge.cli import render
from gpuforge.cli.commands.doctor import _document
from gpuforge.cli.main import FINE
from gpuforge.cli.redaction import MASK, Redactor
from gpuforge.diagnose.run import run_checks
from gpuforge.diagnose.site import Site
from gpuforge.facts import Machine, known
from gpuforge.probe import LiveProbe

SUMMARY = "write a redacted report for a bug report; nothing is sent"

VARIABLE = re.compile(r"CUDA|HIP|ROC|NCCL|TORCH|PYTORCH|XLA|JAX|TF_|LD_LIBRARY|GPUFORGE|OMP_|MKL|"
                      r"VIRTUAL_ENV|CONDA_PREFIX|HSA|ZE_|ONEAPI|SYCL")  # fmt: skip


LONGEST_PRODUCT_WORD = 16


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("-o", dest="output", metavar="FILE", help="write to FILE instead of stdout")
    parser.add_argument("--json", action="store_true", help="print JSON (the only format)")


def run(arguments: argparse.Namespace) -> int:
    """Collect and redact the data, then print or write it."""
    bundle = collect()
    if arguments.output is None:
        render.document(bundle)
        return FINE
    import json

    path = Path(arguments.output)
    text = json.dumps({"schema_version": 1, **bundle}, indent=1, ensure_ascii=False)
    stored.write_output(path, text + "\n")
    render.message(f"wrote {path}; review it before you attach it; nothing was sent")
    return FINE


def collect() -> dict[str, object]:
    """Return facts, versions and findings of this machine, redacted."""
    probe = LiveProbe()
    site = Site(probe)
    versions = {v for several in site.packages.values() for v in several}
    products = _product_words(site.machine)
    shown = {*site.packages, *versions, *products, *site.machine.host.isa}
    redactor = Redactor({*shown, platform.python_version()})
    loaded = settings.load()
    chosen = {n: getattr(loaded.settings, n) for n, o in loaded.origins.items() if o != "default"}
    described = {
        "gpuforge": __version__,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": f"{platform.system()} {_release()} {platform.machine()}",
        "machine": asdict(site.machine),
        "variables": {n: v for n, v in sorted(os.environ.items()) if VARIABLE.match(n)},
        "settings": chosen,
        **_document(run_checks(probe=probe), ()),
    }
    found = {name: redactor.value(value, name) for name, value in described.items()}
    return {**found, "packages": {n: [_public(v) for v in vs] for n, vs in site.packages.items()}}


def _release() -> str:
    """Return the version of the kernel without a distributor's suffix."""
    match = re.match(r"[\d.]+", platform.release())
    return match[0] if match else ""


def _public(version: str) -> str:
    """Return a version, its local part masked unless it is one of a framework build."""
    public, plus, local = version.partition("+")
    known = not plus or re.fullmatch(r"cpu|xpu|cu\d{2,3}|rocm[\d.]{1,6}", local)
    return version if known else f"{public}+{MASK}"


def _product_words(machine: Machine) -> set[str]:
    """Return the words in the names of GPUs and CPU, which gpuforge's tables may not contain."""
    readings = [device.name for device in (*machine.devices, *machine.hidden)]
    readings += [other.name for other in machine.others] + [machine.host.cpu_model]
    names = [known(reading) or "" for reading in readings]
    return {word for name in names for word in name.split() if len(word) <= LONGEST_PRODUCT_WORD}
