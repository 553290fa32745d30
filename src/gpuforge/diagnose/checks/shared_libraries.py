"""Do compiled modules find the shared libraries that they need, in sufficient versions?"""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Iterator
from functools import cache

from gpuforge.diagnose.finding import Finding, of_cause
from gpuforge.diagnose.library_search import CACHE
from gpuforge.diagnose.shared_library import Needs, needs_of
from gpuforge.diagnose.site import Site

SUMMARY = "compiled modules find the libraries that they need"

# Budget of files to check, divided by the number of packages, because other checks take longer with
# more packages; if this check is named, all files are checked.
SHARED_FILES, LEAST_SHARES = 9000, 20
# Libraries that packages can do without or load themselves; GPU libraries have their own checks.
# The last one is needed only by an optional module of Numba.
_SPARED = re.compile(
    r"lib(?:cu|nv|nccl|roc|hip|hsa|amd|ze_|OpenCL|mpi|tbb|python|torch|c10|gomp\.so\.1\.0\.0)|ld-"
)
_MODULE = re.compile(r"(?!.*\.libs/)(?:.*/)?(?!lib)[^/]+\.so")
# Debian packages of the most frequently missing libraries.
DEBIAN = {"libGL.so.1": "libgl1", "libgthread-2.0.so.0": "libglib2.0-0", "libgomp.so.1": "libgomp1",
          "libglib-2.0.so.0": "libglib2.0-0", "libSM.so.6": "libsm6"}  # fmt: skip


def check(site: Site) -> Iterator[Finding]:
    """Yield each library that is missing or too old, with a module that needs it."""
    if not site.loader.cached:
        yield Finding("skipped", f"not checked: the loader's cache {CACHE} does not exist")
        return
    yield from _faults(site) or [Finding("ok", "the compiled modules find their libraries")]


def _faults(site: Site) -> list[Finding]:
    find = site.loader.find
    found = dict(_preloaded(site))
    own, seen = set(site.loader.beside.values()), set[str]()
    left = SHARED_FILES // max(len(site.distributions), LEAST_SHARES)
    for place, owner, path in _modules(site):
        waiting = [path]
        while waiting and (left or site.thorough):
            left -= bool(left)
            needs = needs_of(path := waiting.pop())
            for name in needs.libraries:
                at = find(name, needs.folders)
                if at is None and not place and not _SPARED.match(name):
                    found.setdefault(name, _missing(owner, name, path))
                elif at and at not in seen:
                    seen.add(at)
                    waiting += [at] if at in own else []
                # Libraries that a wheel bundles are not too old for it.
                if at and at not in own and (fault := _too_old(owner, path, name, at, needs)):
                    found.setdefault(f"{name} {fault.cause}", fault)
    return list(found.values())


def _modules(site: Site) -> list[tuple[int, str, str]]:
    """Return rank, package and path of compiled modules, the largest of each package first.

    Only the needs of that one are certain: other modules, of PyQt for example, may be optional.
    """
    ranked, home = [], site.environment.home
    if home and site.probe.environ.get("LD_LIBRARY_PATH"):  # which also counts for Python's own
        minor = ".".join(site.environment.version.split(".")[:2])
        own = home.parent.glob(f"lib/python{minor}/lib-dynload/*.so")
        ranked = [(1, f"the module {path.name} of Python", str(path)) for path in own]
    for one in site.distributions:
        modules = [of for of in one.libraries if _MODULE.fullmatch(of[0])]
        for place, (path, _) in enumerate(sorted(modules, key=lambda of: -of[1])):
            ranked.append((place, f"{one.name} {one.version}", f"{one.folder}/{path}"))
    return sorted(ranked)


def _preloaded(site: Site) -> Iterator[tuple[str, Finding]]:
    for name in re.split(r"[:\s]+", site.probe.environ.get("LD_PRELOAD", "")):
        if not name or "$" in name:  # tokens such as $LIB, which the loader expands
            continue
        if not (os.path.exists(name) if "/" in name else site.loader.find(name)):
            message = f"LD_PRELOAD names {name}, which does not exist: every program warns"
            steps = ("Unset LD_PRELOAD, or name the library by its full path.",)
            yield (
                name,
                Finding("warning", message, "named_file_gone", (f"LD_PRELOAD={name}",), steps),
            )


def _missing(owner: str, name: str, path: str) -> Finding:
    known_as = f"apt install {DEBIAN[name]}" if name in DEBIAN else f"apt-file search {name}"
    steps: tuple[str, ...] = (f"Install its package: {known_as}, or dnf install '*/{name}'",)
    steps += ("Or use opencv-python-headless, which does not need it.",) * ("opencv" in owner)
    message = f"{owner} needs {name}, which this system does not have"
    return Finding("error", message, "library_missing", (path,), steps)


def _too_old(owner: str, path: str, name: str, at: str, needs: Needs) -> Finding | None:
    """Return the finding of a library without the newest symbol version that a module needs."""
    newest: dict[str, str] = {}
    for interface in needs.interfaces.get(name, ()):
        kind = interface.partition("_")[0]
        newest[kind] = max(newest.get(kind, interface), interface, key=_numbers)
    lacking = next((interface for interface in newest.values() if not _holds(at, interface)), "")
    if not lacking:
        return None
    message = f"{owner} needs {lacking} from {name}, which {at} does not provide"
    if lacking.startswith("GLIBC_"):
        return of_cause("glibc_too_old", "error", message, evidence=(path,))
    cause = "libstdcxx_too_old" if "stdc++" in name else "library_too_old"
    folder = at.rpartition("/")[0]
    steps = (f"If LD_LIBRARY_PATH contains {folder}, remove it there; otherwise update {name}.",)
    return Finding("error", message, cause, (path, at), steps)


@cache
def _numbers(interface: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", interface)))


@cache
def _holds(path: str, interface: str) -> bool:
    libc, _, have = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    if interface.startswith("GLIBC_2.") and libc == "glibc":
        return _numbers(interface) <= _numbers(have)
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as held:
            return held.find(f"{interface}\0".encode()) >= 0
    except (OSError, ValueError):
        return True  # unreadable files are another check's finding
