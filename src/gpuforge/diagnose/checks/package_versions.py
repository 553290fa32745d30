"""Do the installed packages meet each other's requirements, and are their ABIs compatible?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from gpuforge.compat.tables import entries
from gpuforge.compat.versions import at_least
from gpuforge.diagnose.distribution import Distribution
from gpuforge.diagnose.finding import Finding, State, of_cause
from gpuforge.diagnose.plain_requirement import EXTRA, doubtful
from gpuforge.diagnose.repair import pip
from gpuforge.diagnose.site import Site
from gpuforge.facts import known

if TYPE_CHECKING:
    from gpuforge.changes.action import RunPip
    from gpuforge.diagnose.requirement import Unmet

SUMMARY = "installed packages meet each other's requirements"

# Causes if packages that are compiled against another one require a different version of it.
FAMILIES = {
    "torchvision": "torch_extension_abi_mismatch",
    "torchaudio": "torch_extension_abi_mismatch",
    "flash-attn": "torch_extension_abi_mismatch",
    "vllm": "torch_extension_abi_mismatch",
    "xformers": "xformers_mismatch",
    "jax": "jax_plugin_version_mismatch",
    "jaxlib": "jax_plugin_version_mismatch",
    "jax-cuda12-plugin": "jax_plugin_version_mismatch",
    "jax-cuda13-plugin": "jax_plugin_version_mismatch",
}
JAX = ("jax", "jaxlib", "jax-cuda12-plugin", "jax-cuda12-pjrt", "jax-cuda13-plugin",
       "jax-cuda13-pjrt")  # fmt: skip
COMPILED_AGAINST = ("torch", "numpy", "jax", "jaxlib")
# conda and system package managers use other names for some packages than the metadata.
WITH_NAMES_OF_THE_INDEX = ("pip", "uv")
SHOWN = 5
_PKG_RESOURCES = re.compile(r"(?m)^(?:import |from |__import__\([\"'])pkg_resources\b")
_GENERATED_FOR = re.compile(r"Protobuf Python Version: (\S+)")
# How much of a package's compiled modules is searched for the NumPy that they were compiled for,
# smallest modules first; more if this check is named.
SCANNED_BYTES, SCANNED_BYTES_IF_ASKED = 12 * 2**20, 24 * 2**20
# A package that requires NumPy 2 was compiled for it; an extra's requirement tells nothing.
_MAY_BE_OLD = re.compile(r"numpy\b(?!.*\bextra\b)(?![^;]*>=?\s*[2-9])")
# Wheels keep bundled libraries of other projects in "NAME.libs".
_MODULE = re.compile(r"^(?!.*\.libs/).*\.(?:so|pyd)$")


def check(site: Site) -> Iterator[Finding]:
    """Yield each unmet requirement, then packages that do not work with installed versions."""
    missing: dict[str, list[Unmet]] = {}
    found, told = False, set[str]()
    for unmet in site.unmet():
        if unmet.have is None and not _has_another(site, unmet.needed):
            missing.setdefault(unmet.package, []).append(unmet)
        elif unmet.have is not None:
            found = True
            told |= {unmet.package} if unmet.needed == "numpy" else set()
            yield _misfit(site, unmet)
    for package, lacking in missing.items():
        installed = site.distribution(package)
        if installed and installed.installer in WITH_NAMES_OF_THE_INDEX:
            found = True
            yield _missing(site, installed, lacking)
    old = (one for one in _compiled_for_numpy_1(site) if one.name not in told)
    for finding in (
        *_for_other_pythons(site),
        *_without_pkg_resources(site),
        *_of_another_protoc(site),
        *(_old_binary(site, one) for one in old),
    ):
        found = True
        yield finding
    if not found:
        yield Finding("ok", "the installed packages meet each other's requirements")


def _has_another(site: Site, name: str) -> bool:
    """Return whether another wheel with the same module is installed, as a headless OpenCV."""
    groups = (entry["packages"] for entry in entries("companions", "module"))
    return any(name in group and any(n in site.packages for n in group) for group in groups)


def _misfit(site: Site, unmet: Unmet) -> Finding:
    """Return the finding of a requirement of which another version is installed."""
    cause = FAMILIES.get(unmet.package) if unmet.needed in (*COMPILED_AGAINST, *JAX) else None
    installed, prefix = site.distribution(unmet.needed), site.environment.prefix
    if installed and not installed.folder.is_relative_to(prefix):
        unmet = replace(unmet, have=f"{unmet.have} of {installed.folder}")
    if unmet.needed == "numpy":
        return _of_numpy(unmet.package, str(unmet.specifier), *_refit(site, unmet), str(unmet))
    if unmet.needed.startswith("nvidia-cudnn"):
        cause = "cudnn_missing_or_mismatch"
    repair, blocked = _refit(site, unmet)
    evidence = (str(unmet), *blocked)
    if cause:
        return of_cause(cause, "error", evidence=evidence, repair=repair)
    steps = (
        f"Install versions that fit together, for example: pip install --upgrade {unmet.package}",
    )
    state: State = "warning"
    return Finding(state, str(unmet), "requirement_not_met", blocked, steps, repair)


def _refit(site: Site, unmet: Unmet) -> tuple[tuple[RunPip, ...], tuple[str, ...]]:
    """Return a repair that all installed packages allow, and the requirements that block others."""
    required, package, needed = site.requirements, unmet.package, unmet.needed
    if package in JAX and needed in JAX:
        return pip(site, "install", "--upgrade", *(n for n in JAX if n in site.packages)), ()
    change_needed = required.bounds(needed)
    if change_needed is not None and not (package in FAMILIES and needed in COMPILED_AGAINST):
        return pip(site, "install", f"{needed}{change_needed}"), ()
    blocked = tuple(required.requiring(needed)) if change_needed is None else ()
    return _upgrade(site, package, keeping=needed), blocked


def _upgrade(site: Site, package: str, *, keeping: str) -> tuple[RunPip, ...]:
    """Return the upgrade of a package that keeps another one at its installed version."""
    bounds = site.requirements.bounds(package)
    if bounds is None:
        return ()
    kept = f"{keeping}=={site.version(keeping)}"
    return pip(site, "install", "--upgrade", f"{package}{bounds}", kept)


def _missing(site: Site, installed: Distribution, lacking: list[Unmet]) -> Finding:
    """Return the finding of required packages that are not installed."""
    name, required = f"{installed.name} {installed.version}", site.requirements
    names = [unmet.needed for unmet in lacking]
    wanted = [(n, required.bounds(n)) for n in dict.fromkeys(names)]
    allowed = all(bounds is not None for _, bounds in wanted)
    repair = pip(site, "install", *(f"{n}{b}" for n, b in wanted)) if allowed else ()
    shown = ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if names[SHOWN:] else "")
    message = f"{name} requires packages that are not installed: {shown}"
    evidence = tuple(map(str, lacking[:SHOWN]))
    if any(n.startswith(("nvidia-", "cuda-toolkit")) and n != "nvidia-ml-py" for n in names):
        return of_cause(
            "cuda_runtime_lib_missing", "error", message, evidence=evidence, repair=repair
        )
    steps = (f"Install what is missing: pip install {' '.join(dict.fromkeys(names))}",)
    return Finding("warning", message, "requirement_missing", evidence, steps, repair)


def _for_other_pythons(site: Site) -> Iterator[Finding]:
    """Find packages that do not support this Python, as after a downgrade or a forced install."""
    python = site.environment.version
    for one in site.distributions if python.count(".") > 1 else ():
        _, _, wanted = one.metadata.partition("\nRequires-Python:")
        wanted = wanted.partition("\n")[0].strip()
        if doubtful({one.name: (f"python{wanted}",)}, {"python": python}, python):
            from packaging.specifiers import InvalidSpecifier, SpecifierSet

            with suppress(InvalidSpecifier):
                if not SpecifierSet(wanted).contains(python, prereleases=True):
                    message = f"{one.name} {one.version} requires Python {wanted}, not {python}"
                    steps = (f"Install one for it: pip install --force-reinstall {one.name}",)
                    yield Finding("error", message, "python_version_unsupported",
                                  (str(one.info),), steps)  # fmt: skip


def _without_pkg_resources(site: Site) -> Iterator[Finding]:
    """Find packages that import pkg_resources, which setuptools 82 removed."""
    if any(any(folder.glob("pkg_resources*")) for folder in site.environment.folders):
        return
    for one in site.distributions:
        if b"_pb2.py," not in one.record and any(
            map(_PKG_RESOURCES.search, _texts(one, one.starts))
        ):
            yield _incompatible(one, "pkg_resources, which only 'setuptools<82' contains")


def _of_another_protoc(site: Site) -> Iterator[Finding]:
    """Find packages whose protoc-generated modules are all for another protobuf."""
    have = site.version("protobuf")
    slow = site.probe.environ.get("PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION") == "python"
    for one in site.distributions if have else ():
        made = (
            [n for n in one.modules if n.endswith("_pb2.py")] if b"_pb2.py," in one.record else []
        )
        asks = [line for line in one.requirements if line.startswith("protobuf")]
        # A package that requires protobuf only for an extra works without these modules.
        if made and not (asks and all(map(EXTRA.search, asks))) and not any(
            at_least(have or "", needed[1]) if (needed := _GENERATED_FOR.search(text))
            else "_descriptor.FileDescriptor(" not in text or slow or not at_least(have or "", "4")
            for text in _texts(one, made)
        ):  # fmt: skip
            yield _incompatible(one, f"a protobuf other than {have}")


def _texts(one: Distribution, paths: list[str]) -> Iterator[str]:
    return (known(one.probe.read_text(f"{one.folder}/{path}")) or "" for path in paths)


def _incompatible(one: Distribution, needs: str) -> Finding:
    steps = (f"Upgrade it, or install what it needs: pip install --upgrade {one.name}",)
    message = f"{one.name} {one.version} needs {needs}"
    return Finding("error", message, "outgrown_package", (str(one.info),), steps)


def _compiled_for_numpy_1(site: Site) -> Iterator[Distribution]:
    """Yield packages that were compiled for NumPy 1 while NumPy 2 is installed."""
    if not (site.version("numpy") or "").startswith("2."):
        return
    scanned = SCANNED_BYTES_IF_ASKED if site.thorough else SCANNED_BYTES
    for package, lines in site.requirement_lines.items():
        one = site.distribution(package)
        if one and any(map(_MAY_BE_OLD.match, lines)) and _looks_for_numpy_1(one, scanned):
            yield one


def _looks_for_numpy_1(one: Distribution, left: int) -> bool:
    """Return whether a package's modules were compiled with the headers of NumPy 1.

    They import the C API under a name that NumPy 2 changed; modules compiled with the headers of
    NumPy 2 contain the new name as well and work with both.
    """
    modules = ((size, path) for path, size in one.libraries if _MODULE.search(path))
    for size, path in sorted(modules):
        left -= size
        if left < 0:
            return False
        try:
            content = (one.folder / path).read_bytes()
        except OSError:
            continue  # missing files are another check's finding
        if b"._multiarray_umath" not in content:
            continue
        if b"numpy._core._multiarray_umath" in content:
            return False
        if b"numpy.core._multiarray_umath" in content:
            return True
    return False


def _old_binary(site: Site, one: Distribution) -> Finding:
    have = site.version("numpy")
    evidence = f"{one.name} {one.version} was compiled for NumPy 1; NumPy {have} is installed"
    return _of_numpy(one.name, "<2", _upgrade(site, one.name, keeping="numpy"), (), evidence)


def _of_numpy(
    package: str, versions: str, repair: tuple[RunPip, ...], blocked: tuple[str, ...], evidence: str
) -> Finding:
    """Return the finding of a package that needs other versions of NumPy."""
    found = of_cause("numpy_abi_mismatch", "error", evidence=(evidence, *blocked), repair=repair)
    steps = (
        f"Upgrade {package}: pip install --upgrade {package}",
        f"If that does not help, install a NumPy that it can use: pip install 'numpy{versions}'",
    )
    return replace(found, steps=steps)
