"""Does the CUDA toolkit accept the C++ compiler that a build would take?

The limit is read from the toolkit's own header: the line that stops such a build.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from gpuforge.changes.action import AppendLines
from gpuforge.diagnose.finding import Finding, of_cause
from gpuforge.diagnose.site import Site
from gpuforge.facts import known

SUMMARY = "the CUDA toolkit accepts the C++ compiler"

HEADER = "include/crt/host_config.h"
OLDEST_GCC = 6
"""No CUDA release that is still offered asks for an older one."""


def check(site: Site) -> Iterator[Finding]:
    """Compare the compiler that would be taken with the newest that the toolkit accepts."""
    environ, nvcc = site.probe.environ, known(site.probe.find_program("nvcc"))
    beside = str(Path(nvcc).parent.parent) if nvcc else "/usr/local/cuda"
    header = Path(environ.get("CUDA_HOME") or environ.get("CUDA_PATH") or beside, HEADER)
    newest = re.search(r"__GNUC__ > (\d+)", known(site.probe.read_text(str(header))) or "")
    compiler = environ.get("CUDAHOSTCXX") or environ.get("CXX") or "g++"
    answer = known(site.probe.run([compiler, "-dumpversion"])) if newest else None
    version = re.match(r"\d+", answer.stdout) if answer else None
    if newest is None or version is None:
        yield Finding("skipped", "there is no CUDA toolkit with a C++ compiler to compare")
        return
    evidence = (f"{compiler} {version[0]}", f"{header}: up to {newest[1]}")
    if int(version[0]) <= int(newest[1]):
        yield Finding("ok", "the CUDA toolkit accepts the C++ compiler", evidence=evidence)
        return
    fitting = range(int(newest[1]), OLDEST_GCC - 1, -1)
    older = next((n for n in fitting if known(site.probe.find_program(f"g++-{n}"))), 0)
    line = f"export CC=gcc-{older} CXX=g++-{older} CUDAHOSTCXX=g++-{older}"
    if site.in_activation(line):
        steps = (f"source {site.activation}",)
        yield Finding("warning", "the activation chooses a compiler: activate anew", steps=steps)
        return
    repair = (AppendLines(site.activation, (line,)),) if older and site.is_environment else ()
    cause = "nvcc_host_compiler_unsupported"
    yield of_cause(cause, "warning", evidence=evidence, repair=repair)
