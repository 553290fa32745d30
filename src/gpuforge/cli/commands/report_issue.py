"""``gpuforge report-issue``: what a bug report needs, with private things taken out."""

from __future__ import annotations

import argparse
import getpass
import os
import platform
import re
import sys
from dataclasses import asdict
from pathlib import Path

from gpuforge import __version__, settings
from gpuforge.cli import render
from gpuforge.cli.commands.doctor import _document
from gpuforge.cli.main import FINE
from gpuforge.diagnose.run import run_checks
from gpuforge.diagnose.site import Site
from gpuforge.probe import LiveProbe
from gpuforge.probe.recording import without_names

SUMMARY = "write a redacted bundle for a bug report; nothing is sent"

# Addresses with a password, tokens of the usual kinds, mail addresses, IP addresses.
SECRETS = (
    (re.compile(r"(\w+://)[^/\s:@]+:[^/\s@]+@"), r"\1***@"),
    (re.compile(r"\b(?:gh[opsu]_|hf_|sk-|pypi-|glpat-|AKIA)[A-Za-z0-9_-]{8,}"), "***"),
    (re.compile(r"[\w.+-]{1,64}@[\w-]{1,64}\.[\w.-]{1,64}"), "***"),
    (re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}\b(?!-)"), "***"),
)
SECRET_NAME = re.compile(r"token|secret|password|passwd|key|credential", re.IGNORECASE)
VARIABLE = re.compile(r"CUDA|HIP|ROC|NCCL|TORCH|PYTORCH|XLA|JAX|TF_|LD_LIBRARY|GPUFORGE|OMP_|MKL|"
                      r"VIRTUAL_ENV|CONDA_PREFIX|HSA|ZE_|ONEAPI|SYCL")  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("-o", dest="output", metavar="FILE", help="write there instead of stdout")
    parser.add_argument("--json", action="store_true", help="the bundle always is one document")


def run(arguments: argparse.Namespace) -> int:
    """Collect, redact, print or write."""
    bundle = redacted(collect())
    if arguments.output is None:
        render.document(bundle)
        return FINE
    import json

    path = Path(arguments.output)
    text = json.dumps({"schema_version": 1, **bundle}, indent=1, ensure_ascii=False)
    try:
        path.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        from gpuforge.errors import WorkloadError

        raise WorkloadError(f"{path} cannot be written: {error.strerror}") from None
    render.message(f"written to {path}; read it before you attach it, nothing was sent")
    return FINE


def collect() -> dict[str, object]:
    """Return facts, versions and findings of this machine, private things included."""
    probe = LiveProbe()
    site = Site(probe)
    loaded = settings.load()
    chosen = {n: getattr(loaded.settings, n) for n, o in loaded.origins.items() if o != "default"}
    return {
        "gpuforge": __version__,
        "python": sys.version,
        "platform": platform.platform(),
        "machine": asdict(site.machine),
        "packages": site.packages,
        "variables": {n: v for n, v in sorted(os.environ.items()) if VARIABLE.match(n)},
        "settings": chosen,
        **_document(run_checks(probe=probe), ()),
    }


def redacted(value: object, name: str = "") -> dict[str, object]:
    """Return `value` with everything taken out that names a person, machine or secret."""
    found = _redact(value, name)
    assert isinstance(found, dict)
    return found


def _redact(value: object, name: str) -> object:
    if isinstance(value, dict):
        return {str(key): _redact(item, str(key)) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_redact(item, name) for item in value]
    if not isinstance(value, str):
        return value
    if SECRET_NAME.search(name):
        return "***"
    value = without_names(value)
    for pattern, replacement in SECRETS:
        value = pattern.sub(replacement, value)
    return _nameless(value)


def _nameless(text: str) -> str:
    for word, replacement in ((str(Path.home()), "~"), (platform.node(), "HOST"),
                              (_user(), "user")):  # fmt: skip
        if len(word) > 2:
            text = re.sub(rf"(?<!\w){re.escape(word)}(?!\w)", replacement, text)
    return text


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
