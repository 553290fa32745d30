"""Would one process load OpenMP runtimes of different makers?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuforge.diagnose.finding import Finding
from gpuforge.diagnose.site import NOT_RECORDED, Site
from gpuforge.facts import known

SUMMARY = "one maker's OpenMP runtime serves all packages"

_RUNTIME = re.compile(r"lib(gomp|iomp5|omp)(?:md)?(?:[-.].*)?\.(?:so|dylib|dll)|(iomp)5md\.dll")
# GNU's runtime beside one of Intel or LLVM is common and works; those two in one process abort.
PLACES = ("torch/lib", "functorch/.dylibs", "*.libs", "*/.dylibs", "sklearn/.dylibs", "mkl/lib")


def check(site: Site) -> Iterator[Finding]:
    """Return the runtimes of the environment, and whether two of them exclude each other."""
    folder = known(site.packages_folder)
    if folder is None:
        yield Finding("skipped", NOT_RECORDED.reason)
        return
    places = [folder / "..", folder / "../..", *(p for g in PLACES for p in folder.glob(g))]
    found: dict[str, str] = {}
    for place in places:
        for name in known(site.probe.list_dir(str(place))) or ():
            if match := _RUNTIME.fullmatch(name):
                found.setdefault(match[1] or "iomp5", str((place / name).resolve()))
    evidence = tuple(found.values())
    if {"iomp5", "omp"} <= set(found):
        steps = (
            "Install the packages that bring them from one source: all conda-forge, or all wheels.",
            "KMP_DUPLICATE_LIB_OK=TRUE hides the abort and may give wrong results.",
        )
        yield Finding("warning", "Intel's and LLVM's OpenMP runtimes are both installed",
                      "several_openmp_runtimes", evidence, steps)  # fmt: skip
    else:
        yield Finding("ok", f"OpenMP runtimes: {', '.join(sorted(found)) or 'none'}", "", evidence)
