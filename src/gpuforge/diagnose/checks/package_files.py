"""Are the installed packages complete, with all files and records?"""

from __future__ import annotations

import _imp
import math
import os
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

from gpuforge.diagnose.checks.search_path import unreadable
from gpuforge.diagnose.distribution import Distribution, distributions_in, normalised
from gpuforge.diagnose.finding import Finding, State, of_cause
from gpuforge.diagnose.path_folders import folders_after, folders_before
from gpuforge.diagnose.repair import pip, reinstall
from gpuforge.diagnose.shared_library import machine_of
from gpuforge.diagnose.site import Site
from gpuforge.facts import known

SUMMARY = "installed packages are complete"

MISSING_SHOWN = 3
RECORDING_INSTALLERS = ("pip", "uv", "poetry", "pdm")
# Causes if libraries of these packages are missing; other packages are just incomplete.
CAUSES = {
    "nvidia-cudnn": "cudnn_missing_or_mismatch",
    "nvidia-": "cuda_runtime_lib_missing",
    "bitsandbytes": "bitsandbytes_cuda_setup_failed",
}
_TAG = re.compile(r"\.(?:cpython-|cp)(3\d+)[a-z]?-([\w-]+)")
# Patterns as text, because most environments do not need them; `re` compiles and caches them.
_SERVES_MORE = r"(?m)^Tag: (?:\S*py3\S*|\S+-abi3)-"
_VERSION_FILE = rb"(?m)^(\w+/(?:_?version|__version__|__about__)\.py),sha256=([\w-]+),"
_LIBRARY = r"\.(?:so(?:\.\d+)*|dll|dylib|pyd)$"
# Files that users delete to save space and that nothing needs.
_SPARE = (
    r"(?:^|/)(?:tests?|docs?|examples?|include|licenses)/|^\.\./|\.dist-info/|"
    r"\.(?:py[cixd]|pxi|h|hpp|c|cc|cpp|cu|md|rst|map|a|typed|exe)$|(?:LICEN[CS]E|NOTICE)[^/]*$"
)
# Packages that refuse a compiled module of another version of them, of which it holds the number.
HALVES = {"cffi": "_cffi_backend.*", "pillow": "PIL/_imaging.*"}
_NAME_AND_VERSION = r"(?m)^Name: *(\S+)\nVersion: *(\S+)"
_VERSION = rb"\0(\d+\.\d+(?:\.\d+)?)\0"
# Up to this total size of RECORD files, or if this check is named, all modules are checked.
LISTED_BYTES = 2**20


def check(site: Site) -> Iterator[Finding]:
    """Yield packages with missing or truncated files, and remains of interrupted installs."""
    folder = known(site.packages_folder)
    if folder is None:
        yield Finding("skipped", site.packages_folder.reason)  # type: ignore[union-attr]
        return
    every = site.thorough or sum(len(one.record) for one in site.distributions) <= LISTED_BYTES
    found = [f for one in site.distributions for f in _damage(site, one, every=every)]
    found += [f for name, like in HALVES.items() for f in _other_half(site, name, like)]
    found += [f for one in (*folders_before(site), *folders_after(site)) for f in _unfit(site, one)]
    found += _remains(site, folder)
    yield from found or [Finding("ok", f"{len(site.distributions)} packages are complete")]


def _damage(site: Site, one: Distribution, *, every: bool) -> Iterator[Finding]:
    if one.info.suffix == ".egg-info":
        return
    name = f"{one.name} {one.version}"
    places = [one.info, *(one.folder / path for path in one.packages if "/" not in path)]
    if locked := [p for p in places if not os.access(p, os.R_OK | os.X_OK) and os.path.isdir(p)]:
        step = f"As its owner, let others read it: chmod -R go+rX {shlex.quote(str(one.folder))}"
        message = f"{name} cannot be used: this user may not read it"
        yield Finding("error", message, "package_unreadable", (str(locked[0]),), (step,))
        return
    if fault := _fault_of_description(one):
        is_linked = os.path.islink(f"{one.info}/METADATA")  # to a cache of uv that was cleaned
        repair = () if is_linked else reinstall(site, one)
        broken = f"find {shlex.quote(str(one.folder))} -xtype l -delete; "
        first = broken * is_linked  # pip would write to the links
        steps = (f"Reinstall it: {first}pip install --ignore-installed {one.name}=={one.version}",)
        if not site.version(one.name):
            steps = (f"Delete {one.info}, which is left of another version.",)
        message = f"{name} is damaged: {fault}"
        yield Finding("error", message, "package_incomplete", (str(one.info),), steps, repair)
        return
    if misfit := _compiled_for(site, one):
        message = f"{name} was compiled for {misfit}"
        steps = (f"Reinstall it: pip install --force-reinstall {one.name}=={one.version}",)
        repair = reinstall(site, one)
        yield Finding("error", message, "wheel_not_supported", (str(one.info),), steps, repair)
        return
    if one.installer not in RECORDING_INSTALLERS:
        return  # other tools do not install everything in RECORD, or write none
    gone, cut, mixed = _missing(one, every=site.thorough, heads=every)
    mixed = mixed if site.version(one.name) else []  # another check reports several versions
    is_read = (*map(int, site.environment.version.split(".")[:2]),) <= sys.version_info
    installed = os.stat(f"{one.info}/RECORD").st_mtime_ns if is_read else math.inf
    modules = one.modules if every else one.starts
    cut += [path for path in modules if _is_unusable(one, path, installed)]
    if not gone and not cut and not mixed:
        return
    parts = [f"{len(gone)} of its {len(one.files)} files are missing"] if gone else []
    parts += [f"{len(cut)} of its files are truncated, empty or damaged"] if cut else []
    parts += [f"{mixed[0]} comes from another version"] if mixed else []
    evidence = tuple(str(one.folder / path) for path in (*gone, *cut, *mixed)[:MISSING_SHOWN])
    message, repair = f"{name} is incomplete: {'; '.join(parts)}", reinstall(site, one)
    lost_library = any(re.search(_LIBRARY, path) for path in (*gone, *cut))
    starts = (cause for start, cause in CAUSES.items() if one.name.startswith(start))
    if lost_library and (cause := next(starts, "")):
        yield of_cause(cause, "error", message, evidence=evidence, repair=repair)
    else:
        again = f"pip install --force-reinstall --no-deps {one.name}=={one.version}"
        steps = (f"Reinstall the same version: {again}",)
        if one.name == "pip":  # which cannot install itself
            remove = f"Remove {one.folder / 'pip'} and {one.info}"
            steps, repair = (f"{remove}, then run: {site.environment.python} -m ensurepip",), ()
        yield Finding("error", message, "package_incomplete", evidence, steps, repair)


def _fault_of_description(one: Distribution) -> str:
    """Return the fault of a package's ``.dist-info`` folder; empty if it is complete."""
    if not one.metadata:
        return "its METADATA is missing or empty"
    if one.installer not in RECORDING_INSTALLERS:
        return ""
    if not one.record:
        return "its RECORD, the list of its files, is missing or empty"
    whole = one.record.endswith(b"\n") and f"{one.info.name}/RECORD,".encode() in one.record
    return "" if whole else "its RECORD, the list of its files, is truncated"


def _compiled_for(site: Site, one: Distribution) -> str:
    """Return the other Python or machine that a package was compiled for; empty if it fits."""
    tags = [tag for path, _ in one.libraries if (tag := _TAG.search(path))]
    pythons, machines = sorted({tag[1] for tag in tags}), sorted({tag[2] for tag in tags})
    own = "".join(site.environment.version.split(".")[:2])
    here = _TAG.search(_imp.extension_suffixes()[0])
    misfit = ""
    if not tags and b".pyd," in one.record and "-win" in one.wheel:
        return f"Windows, not {sys.platform}"  # where it is Windows, there are tags
    if not tags:
        foreign = _foreign(one)
        return "" if not foreign or re.search(r"(?m)^Tag: \S+-any$", one.wheel) else foreign
    if own and own not in pythons:
        others = ", ".join(f"{tag[0]}.{tag[1:]}" for tag in pythons)
        misfit = f"Python {others}, not {site.environment.version}"
    elif here and here[2] not in machines:
        misfit = f"{', '.join(machines)}, not {here[2]}"
    return "" if misfit and re.search(_SERVES_MORE, one.wheel) else misfit


def _foreign(one: Distribution) -> str:
    """Return the machine that all libraries of a package are for, if it is not this one."""
    here, there = machine_of("/proc/self/exe"), ""
    for path, _ in one.libraries if here else ():
        there = machine_of(f"{one.folder}/{path}")
        if there in ("", here):
            return ""
    return f"{there}, not {here}" if there else ""


def _unfit(site: Site, folder: Path) -> Iterator[Finding]:
    """Find packages in a folder on the search path that were compiled for something else."""
    there = distributions_in(folder, site.probe)
    found = [(one, misfit) for one in there if (misfit := _compiled_for(site, one))]
    for one, misfit in found[:1]:
        more = f" ({len(found)} packages in all)" if found[1:] else ""
        message = f"{one.name} {one.version} in {folder} was compiled for {misfit}{more}"
        names = tuple(f"{one.name} {one.version}" for one, _ in found[:MISSING_SHOWN])
        steps = (f"Remove {folder} from PYTHONPATH, or from the .pth file that names it.",)
        # What is built in the current folder may well be for another machine.
        state: State = "warning" if os.path.samefile(folder, ".") else "error"
        yield Finding(state, message, "wheel_not_supported", names, steps)


def _missing(one: Distribution, *, every: bool, heads: bool) -> tuple[list[str], ...]:
    """Return missing files, truncated libraries, and version modules that differ from the record.

    The headers of libraries are read if they are smaller than recorded, with `heads` of all.

    Removing a file gives its folder a later time than the record, which is written last. All files
    are checked only if that is the case, or if a package or library is missing.
    """
    folder = str(one.folder)
    gone, mixed, cut = list[str](), list[str](), list[str]()
    if every or _is_changed(one):
        gone = [*_gone(one)]
        mixed = [*_of_another_version(one)] if one.packages else []
    for path, recorded in one.libraries:
        try:
            place = f"{folder}/{path}"
            size = os.stat(place).st_size
            if ((heads and size) or size < recorded) and _is_cut(place):
                cut.append(path)
        except PermissionError:  # it is there, and cannot be judged
            continue
        except OSError:
            if path not in gone and not re.search(_SPARE, path):
                gone.append(path)
    return gone, cut, mixed


def _is_changed(one: Distribution) -> bool:
    """Return whether a folder of a package is missing or newer than the record."""
    folder = str(one.folder)
    packages = [path for path in one.packages if "/tests" not in path]
    try:
        written = os.stat(f"{one.info}/RECORD").st_mtime_ns
        return not packages or any(
            os.stat(f"{folder}/{package}").st_mtime_ns > written for package in packages
        )
    except OSError:
        return True


def _of_another_version(one: Distribution) -> Iterator[str]:
    """Yield modules with the version that differ from the record, by an interrupted install."""
    import base64
    import hashlib

    for match in re.finditer(_VERSION_FILE, one.record):
        path = match[1].decode()
        content = known(one.probe.read_bytes(str(one.folder / path)))
        digest = base64.urlsafe_b64encode(hashlib.sha256(content or b"").digest()).rstrip(b"=")
        if content is not None and digest != match[2]:
            yield path


def _gone(one: Distribution) -> Iterator[str]:
    """Yield every missing file; each folder is listed only once."""
    folder, there = str(one.folder), dict[str, frozenset[str]]()
    for path in (path for path in one.files if not path.endswith(".pyc")):
        parent, _, name = path.rpartition("/")
        if parent not in there:
            try:
                there[parent] = frozenset(os.listdir(f"{folder}/{parent}"))
            except OSError:
                there[parent] = frozenset()
        if name not in there[parent] and not re.search(_SPARE, path):
            yield path


def _is_unusable(one: Distribution, path: str, installed: float) -> bool:
    """Return whether a module is empty but was not, or was changed and can no longer be parsed."""
    try:
        of = os.stat(f"{one.folder}/{path}")
    except OSError:
        return False  # missing files are found elsewhere
    if not of.st_size:
        return not one.entry(path).endswith((b",", b",0"))
    if of.st_mtime_ns <= installed or one.entry(path).endswith(b",%d" % of.st_size):
        return False
    return bool(unreadable(known(one.probe.read_bytes(f"{one.folder}/{path}")) or b""))


def _is_cut(path: str) -> bool:
    """Return whether a library is empty or shorter than its headers require."""
    with open(path, "rb") as file:
        head, size = file.read(64), os.fstat(file.fileno()).st_size
    if head[:5] != b"\x7fELF\x02":
        return not head.strip(b"\0")  # a power failure leaves zeros
    start = int.from_bytes(head[40:48], "little")
    count, each = int.from_bytes(head[60:62], "little"), int.from_bytes(head[58:60], "little")
    return size < start + count * each


def _other_half(site: Site, name: str, like: str) -> Iterator[Finding]:
    """Find a package whose compiled module, the first that Python finds, is of another version."""
    one = site.distribution(name)
    places = (path for folder in site.environment.folders for path in sorted(folder.glob(like)))
    place = next((path for path in places if path.suffix in (".so", ".pyd")), None) if one else None
    if one is None or place is None or len(site.packages[name]) > 1:
        return
    recorded = {f"{one.folder}/{path}": size for path, size in one.libraries}
    if place.stat().st_size == recorded.get(str(place)):
        return
    content = known(site.probe.read_bytes(str(place))) or b""
    other = re.search(_VERSION, content)
    if other and f"\0{one.version}\0".encode() not in content:
        message = f"{name} {one.version} finds the compiled module of {name} {other[1].decode()}"
        again = f"pip install --force-reinstall --no-deps {name}=={one.version}"
        steps = (f"Remove {place} if another folder holds it, and reinstall: {again}",)
        evidence, repair = (str(place),), reinstall(site, one)
        yield Finding("error", message, "package_incomplete", evidence, steps, repair)


def _remains(site: Site, folder: Path) -> Iterator[Finding]:
    remains = tuple(folder / name for name in sorted(os.listdir(folder)) if name.startswith("~"))
    if remains:
        from gpuforge.changes.action import MoveAside

        aside = tuple(MoveAside(path, "remains of an interrupted install") for path in remains)
        steps = ["Delete the folders whose names start with '~'."]
        message = "an interrupted pip run left folders behind"
        texts = (known(site.probe.read_text(f"{path}/METADATA")) or "" for path in remains)
        found = [found for text in texts if (found := re.search(_NAME_AND_VERSION, text))]
        lost = [f"{m[1]}=={m[2]}" for m in found if normalised(m[1]) not in site.packages]
        if lost:  # it was removed, and its successor not installed
            message += f", and took away {', '.join(lost)}"
            steps.insert(0, f"Install what is gone: pip install {' '.join(lost)}")
        again = pip(site, "install", *lost) if lost else ()
        yield Finding("warning", message, "interrupted_install", (*map(str, remains),),
                      (*steps,), (*aside, *again))  # fmt: skip
