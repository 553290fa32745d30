"""Are the files of GPU packages there, and are installations whole?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gpuforge.changes.action import MoveAside, RunPip
from gpuforge.diagnose.finding import Finding, of_cause
from gpuforge.diagnose.site import NOT_RECORDED, Site, normalised
from gpuforge.facts import known

SUMMARY = "installed packages are whole"

PREFIXES = ("nvidia-", "torch", "jax", "cupy", "triton", "numpy", "xformers", "bitsandbytes")
LIBRARY_ENDINGS = (".so", ".dll", ".dylib", ".pyd")
MISSING_SHOWN = 3
# What missing libraries of a package mean, where it is not a missing library of CUDA.
CAUSES = {
    "nvidia-cudnn": "cudnn_missing_or_mismatch",
    "bitsandbytes": "bitsandbytes_cuda_setup_failed",
}


def check(site: Site) -> Iterator[Finding]:
    """Return packages whose shared libraries are gone, and remains of interrupted installs."""
    folder = known(site.packages_folder)
    if folder is None:
        yield Finding("skipped", NOT_RECORDED.reason)
        return
    found = [*_missing(site, folder), *_remains(folder)]
    yield from found or [Finding("ok", "the files of the GPU packages are there")]


def _missing(site: Site, folder: Path) -> Iterator[Finding]:
    for info in sorted(folder.glob("*.dist-info")):
        name, _, version = info.name.removesuffix(".dist-info").partition("-")
        package = normalised(name)
        if not package.startswith(PREFIXES):
            continue
        record = known(site.probe.read_text(str(info / "RECORD"))) or ""
        paths = [line.split(",")[0] for line in record.splitlines()]
        libraries = [path for path in paths if _is_library(path)]
        gone = [path for path in libraries if not (folder / path).exists()]
        if gone:
            known_by = (cause for start, cause in CAUSES.items() if package.startswith(start))
            cause = next(known_by, "cuda_runtime_lib_missing")
            message = f"{package} {version} lacks {len(gone)} of its libraries"
            again = ("install", "--force-reinstall", "--no-deps", f"{package}=={version}")
            repair = (RunPip(site.python, site.prefix, again),)
            evidence = tuple(str(folder / path) for path in gone[:MISSING_SHOWN])
            yield of_cause(cause, "error", message, evidence=evidence, repair=repair)


def _remains(folder: Path) -> Iterator[Finding]:
    remains = tuple(sorted(path for path in folder.iterdir() if path.name.startswith("~")))
    if remains:
        repair = tuple(MoveAside(path, "remains of an interrupted install") for path in remains)
        steps = ("Remove the folders whose names start with '~': pip left them behind.",)
        message = "an interrupted install left folders behind"
        evidence = tuple(map(str, remains))
        yield Finding("warning", message, "interrupted_install", evidence, steps, repair)


def _is_library(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name.endswith(LIBRARY_ENDINGS) or ".so." in name
