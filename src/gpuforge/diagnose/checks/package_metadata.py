"""Does pip accept what packages say about themselves, and do projects find what they require?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from gpuforge.compat.versions import RELEASE, meets
from gpuforge.diagnose.distribution import normalised
from gpuforge.diagnose.finding import Finding
from gpuforge.diagnose.path_folders import folders_after
from gpuforge.diagnose.plain_requirement import doubtful
from gpuforge.diagnose.site import NOT_RECORDED, Site
from gpuforge.facts import known

SUMMARY = "pip reads the metadata of packages, and projects on the path find their requirements"

# https://pip.pypa.io/en/stable/news/#v24-1: versions and clauses outside PEP 440 are refused.
STRICT_FROM = ">=24.1"
SHOWN = 5
_INVALID = re.compile(r"(?:[<>]=?|~=)\s*[\d.]+\.\*")


def check(site: Site) -> Iterator[Finding]:
    """Yield packages whose metadata pip refuses, and projects that lack requirements."""
    if not site.live or site.environment.fault:
        yield Finding("skipped", site.environment.fault if site.live else NOT_RECORDED.reason)
        return
    found = [*_refused(site), *_unlisted(site), *_lacking(site)]
    yield from found or [Finding("ok", "pip accepts the metadata, projects find what they need")]


def _refused(site: Site) -> Iterator[Finding]:
    have = site.version("pip") or ""
    for one in site.distributions if meets(have, STRICT_FROM) else ():
        line = next((line for line in one.requirements if _INVALID.search(line)), "")
        if not line and _is_version(one.version):
            continue
        what = f"its requirement {line!r}" if line else f"its version {one.version!r}"
        message = f"pip {have} does not accept {what}: {one.name} {one.version} cannot be resolved"
        steps = (f"Install a later release: pip install --upgrade {one.name}; or pip install "
                 "'pip<24.1'",)  # fmt: skip
        yield Finding("warning", message, "metadata_refused", (str(one.info),), steps)


def _unlisted(site: Site) -> Iterator[Finding]:
    """Find packages of which nothing lists the files, as distutils leaves them."""
    for one in site.distributions if site.environment.kind == "virtual environment" else ():
        own = one.folder == known(site.packages_folder) and one.info.suffix == ".egg-info"
        if own and one.info.is_file():
            message = f"{one.name} {one.version} is of distutils: pip cannot upgrade or remove it"
            steps = (f"Install it over that: pip install --ignore-installed {one.name}",)
            yield Finding("warning", message, "metadata_refused", (str(one.info),), steps)


def _is_version(text: str) -> bool:
    if RELEASE.fullmatch(text):
        return True
    from packaging.version import InvalidVersion, Version

    try:
        Version(text.replace("_", "+", 1) if "+" not in text else text)
    except InvalidVersion:
        return False
    return True


def _lacking(site: Site) -> Iterator[Finding]:
    """Find projects in folders of ``.pth`` files whose own list of requirements does not hold."""
    found = (p for folder in folders_after(site) for p in folder.glob("*.egg-info/requires.txt"))
    own = (p for p in found if normalised(p.parent.stem) not in site.packages)
    lists = {path: _required(site, path) for path in sorted(own) if _is_linked(site, path)}
    names = {normalised(path.parent.stem): "" for path in lists}
    versions = names | {name: site.version(name) or "" for name in site.packages}
    lines = {normalised(path.parent.stem): some for path, some in lists.items()}
    python = site.environment.version
    doubted = doubtful(lines, versions, python)
    wanted = replace(site.requirements, versions=versions, lines=doubted) if doubted else None
    unmet = dict[str, list[str]]()
    for one in wanted.unmet() if wanted else ():
        unmet.setdefault(one.package, []).append(str(one))
    for path in lists:
        if several := unmet.get(normalised(path.parent.stem)):
            message = f"the project in {path.parent.parent} lacks requirements: {several[0]}"
            steps = (f"Install it again: pip install -e {path.parent.parent}",)
            evidence = tuple(several[:SHOWN])
            yield Finding("warning", message, "requirement_missing", evidence, steps)


def _is_linked(site: Site, path: Path) -> bool:
    """Return whether ``setup.py develop`` put the project on the path; its list is what counts.

    Other editable installs have a list of their own among the packages.
    """
    for folder in site.environment.folders:
        listed = known(site.probe.read_text(str(folder / "easy-install.pth"))) or ""
        if (folder / f"{path.parent.stem}.egg-link").is_file() or (
            str(path.parent.parent) in listed.splitlines()
        ):
            return True
    return False


def _required(site: Site, path: Path) -> tuple[str, ...]:
    """Return the requirements of a project, without those of its extras."""
    text = (known(site.probe.read_text(str(path))) or "").partition("\n[")[0]
    lines = (line.strip() for line in text.splitlines())
    return tuple(line for line in lines if line and not line.startswith("["))
