"""Would one process load conflicting OpenMP runtimes?"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from gpuforge.diagnose.finding import Finding
from gpuforge.diagnose.site import Site
from gpuforge.facts import known

SUMMARY = "no two OpenMP runtimes conflict"

_RUNTIME = re.compile(
    r"lib(gomp|iomp5|omp)(?:md)?(?:-[^/.]+)?\.(?:so(?:\.\d+)*|dylib)|lib(iomp)5md\.dll"
)
# GNU's runtime works together with Intel's or LLVM's; Intel's and LLVM's together abort.


def check(site: Site) -> Iterator[Finding]:
    """Yield the OpenMP runtimes of the environment, and whether two of them conflict.

    The runtimes of wheels are in their RECORD; those of conda in the environment's ``lib``.
    """
    folder = known(site.packages_folder)
    if folder is None:
        yield Finding("skipped", site.packages_folder.reason)  # type: ignore[union-attr]
        return
    library = site.environment.prefix / "lib"
    paths = [f"{library}/{name}" for name in known(site.probe.list_dir(str(library))) or ()]
    for one in site.distributions:
        paths += [f"{one.folder}/{path}" for path, _ in one.libraries if "omp" in path]
    found: dict[str, str] = {}
    for path in paths:
        match = _RUNTIME.fullmatch(path.rpartition("/")[2])
        if match and os.path.exists(path):
            found.setdefault(match[1] or "iomp5", os.path.realpath(path))
    evidence = tuple(found.values())
    if {"iomp5", "omp"} <= set(found):
        steps = (
            "Install the packages that contain them from one source: conda-forge, or wheels.",
            "KMP_DUPLICATE_LIB_OK=TRUE only hides the abort; results may then be wrong.",
        )
        yield Finding("warning", "Intel's and LLVM's OpenMP cannot be loaded into one process",
                      "several_openmp_runtimes", evidence, steps)  # fmt: skip
    else:
        yield Finding("ok", f"OpenMP runtimes: {', '.join(sorted(found)) or 'none'}", "", evidence)
